//! `custom-call` ("CustomCall"): functions of the environment, then the targets that JAX's programs for the CPU contain.

use super::lapack;
use super::sort;
use super::value::Value;
use super::{Evaluator, Failure};
use hlo::graph::Instruction;
use hlo::literal::Literal;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::is_annotation;
use hlo::shape::Shape;

impl Evaluator<'_, '_, '_> {
    /// Calls the function that the instruction names. It sees zeros where nothing exists of an operand.
    pub(super) fn custom_call(&mut self, instruction: &Instruction, operands: &[Value]) -> Result<Value, Failure> {
        let CustomCallAttributes { custom_call_target: target, .. } = instruction.attributes()?;
        if let Some(functions) = self.environment.custom_calls {
            let zeroed = |value: &Value| Ok(value.clone().zeroed()?.to_literal());
            let literals: Vec<Literal> = operands.iter().map(zeroed).collect::<Result<_, Failure>>()?;
            if let Some(result) = functions.call(instruction, &literals) {
                let literal = result.map_err(Failure::CustomCall)?;
                return Value::from_literal(&literal)?.with_shape(&instruction.shape);
            }
        }
        if is_annotation(target) {
            return match operands {
                _ if instruction.shape.as_tuple().is_some_and(<[Shape]>::is_empty) => Ok(Value::Tuple(Vec::new())),
                [single] => single.clone().with_shape(&instruction.shape),
                _ => Value::Tuple(operands.to_vec()).with_shape(&instruction.shape),
            };
        }
        let arrays = operands
            .iter()
            .map(|operand| match operand {
                Value::Array(array) => Ok(&array.literal),
                Value::Tuple(_) | Value::Token => Err(Failure::malformed("an operand is not an array")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if target == "TopK" {
            let shapes = super::execute::array_shapes(&instruction.shape)?;
            let [operand] = arrays[..] else {
                return Err(Failure::malformed("TopK has one operand"));
            };
            let results = sort::top_k(operand, true, &shapes)?;
            return Ok(Value::Tuple(results.into_iter().map(Value::array).collect()));
        }
        match lapack::call(target, instruction, &arrays)? {
            Some(results) => {
                let mut values: Vec<Value> = results.into_iter().map(Value::array).collect();
                match (&instruction.shape, values.len()) {
                    (Shape::Array(_), 1) => Ok(values.remove(0)),
                    _ => Value::Tuple(values).with_shape(&instruction.shape),
                }
            }
            None => Err(Failure::Unsupported(format!("custom call `{target}`"))),
        }
    }
}
