//! `custom-call` ("CustomCall"): functions of the environment, then the targets that JAX's programs for the CPU contain.

use super::dynamic_shape;
use super::lapack;
use super::sort;
use super::sparse;
use super::value::EvalValue;
use super::{EvalFailure, Evaluator};
use hlo::graph::Instruction;
use hlo::literal::Literal;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::{PAD_TO_STATIC, REQUIRE, SLICE_TO_DYNAMIC, is_annotation};
use hlo::ops::sparse_product::SPARSE_PRODUCT;
use hlo::shape::Shape;

impl Evaluator<'_, '_, '_> {
    /// Calls the function that the instruction names. It sees zeros in the padding of an operand.
    pub(super) fn custom_call(
        &mut self,
        instruction: &Instruction,
        operands: &[EvalValue],
    ) -> Result<EvalValue, EvalFailure> {
        let CustomCallAttributes { custom_call_target: target, .. } = instruction.attributes()?;
        if let Some(functions) = self.environment.custom_calls {
            let zeroed = |value: &EvalValue| Ok(value.clone().zeroed()?.to_literal());
            let literals: Vec<Literal> = operands.iter().map(zeroed).collect::<Result<_, EvalFailure>>()?;
            if let Some(result) = functions.call(instruction, &literals) {
                let literal = result.map_err(EvalFailure::CustomCall)?;
                return EvalValue::from_literal(&literal)?.with_shape(&instruction.shape);
            }
        }
        if is_annotation(target) {
            return match operands {
                _ if instruction.shape.as_tuple().is_some_and(<[Shape]>::is_empty) => Ok(EvalValue::Tuple(Vec::new())),
                [single] => single.clone().with_shape(&instruction.shape),
                _ => EvalValue::Tuple(operands.to_vec()).with_shape(&instruction.shape),
            };
        }
        match target {
            PAD_TO_STATIC => return dynamic_shape::pad_to_static(instruction, operands),
            SLICE_TO_DYNAMIC => return dynamic_shape::slice_to_dynamic(instruction, operands),
            _ => {}
        }
        let arrays = operands
            .iter()
            .map(|operand| match operand {
                EvalValue::Array(array) => Ok(&array.literal),
                EvalValue::Tuple(_) | EvalValue::Token => Err(EvalFailure::malformed("an operand is not an array")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if target == REQUIRE {
            let holds = arrays.first().is_some_and(|array| array.bytes().first() != Some(&0));
            let reason = || instruction.annotation("backend_config").unwrap_or_default().trim_matches('"').to_string();
            return if holds { Ok(EvalValue::Tuple(Vec::new())) } else { Err(EvalFailure::CustomCall(reason())) };
        }
        if target == "TopK" {
            let shapes = super::execute::array_shapes(&instruction.shape)?;
            let [operand] = arrays[..] else {
                return Err(EvalFailure::malformed("TopK has one operand"));
            };
            let results = sort::top_k(operand, true, &shapes)?;
            return Ok(EvalValue::Tuple(results.into_iter().map(EvalValue::array).collect()));
        }
        if let (SPARSE_PRODUCT, [elements, starts, columns, rhs]) = (target, &arrays[..]) {
            let result = super::execute::array_shape(&instruction.shape)?;
            return Ok(EvalValue::array(sparse::product(elements, [starts, columns], rhs, result)?));
        }
        match lapack::call(target, instruction, &arrays)? {
            Some(results) => {
                let mut values: Vec<EvalValue> = results.into_iter().map(EvalValue::array).collect();
                match (&instruction.shape, values.len()) {
                    (Shape::Array(_), 1) => Ok(values.remove(0)),
                    _ => EvalValue::Tuple(values).with_shape(&instruction.shape),
                }
            }
            None => Err(EvalFailure::Unsupported(format!("custom call `{target}`"))),
        }
    }
}
