//! Functions in place of the custom calls that nobody knows: their results are zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evaluator::CustomCalls;
use hlo::graph::{Computation, Instruction, Module};
use hlo::literal::{ArrayLiteral, Literal, LiteralError};
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::{is_annotation, is_partitioning};
use hlo::shape::Shape;

/// Calls that neither the runtime nor the compiler knows, by name.
#[derive(Clone, Debug, Default)]
pub struct Stubs {
    /// How often a program calls each.
    pub calls: BTreeMap<String, usize>,
}

impl Stubs {
    /// Finds the unknown calls of a program, and gives the runtime a function for each.
    pub fn register(module: &Module) -> Stubs {
        let mut stubs = Stubs::default();
        module.functions.iter().for_each(|function| stubs.find(function));
        for target in stubs.calls.keys() {
            registered().insert(target.clone());
            // Results are zeros before the function is called.
            halo::custom_call::register(target, |_, _| Ok(()));
        }
        stubs
    }

    fn find(&mut self, computation: &Computation) {
        for instruction in &computation.instructions {
            instruction.computations.iter().for_each(|nested| self.find(nested));
            if let Some(target) = target(instruction) {
                let is_known = is_annotation(target)
                    || is_partitioning(target)
                    || target == "TopK"
                    || halo::custom_call::is_registered(target) && !registered().contains(target);
                if !is_known {
                    *self.calls.entry(target.to_string()).or_default() += 1;
                }
            }
        }
    }
}

/// Names that the runtime knows only as stubs of this process.
fn registered() -> MutexGuard<'static, BTreeSet<String>> {
    static REGISTERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn target(instruction: &Instruction) -> Option<&str> {
    let call: CustomCallAttributes = instruction.attributes().ok()?;
    Some(call.custom_call_target)
}

impl CustomCalls for Stubs {
    fn call(&self, instruction: &Instruction, _operands: &[Literal]) -> Option<Result<Literal, String>> {
        let is_stub = target(instruction).is_some_and(|target| self.calls.contains_key(target));
        is_stub.then(|| zeros(&instruction.shape).map_err(|error| error.to_string()))
    }
}

/// The value of a shape whose elements are all zero.
fn zeros(shape: &Shape) -> Result<Literal, LiteralError> {
    Ok(match shape {
        Shape::Array(array) => Literal::Array(ArrayLiteral::zeros(array.clone())?),
        Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(zeros).collect::<Result<_, _>>()?),
        Shape::Token | Shape::Opaque => Literal::Token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, LoadOptions, LoadedProgram};
    use crate::module_file::SourceText;

    #[test]
    fn unknown_calls_give_zeros_on_both_engines() {
        let text = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  \
                    c = (f32[2], s32[]) custom-call(p), custom_call_target=\"nobody_knows_this\"\n  \
                    g = f32[2] get-tuple-element(c), index=0\n  ROOT a = f32[2] add(g, p)\n}";
        let source = SourceText { path: "stub".into(), text: text.into() };
        let argument = Literal::Array(ArrayLiteral::from_slice([2], &[1f32, 2.0]).unwrap());
        for engine in [Engine::Jit, Engine::Interpreter] {
            let options = LoadOptions { stub_custom_calls: true, ..LoadOptions::default() };
            let program = LoadedProgram::load(source.clone(), engine, options).unwrap();
            assert_eq!(program.stubs.calls["nobody_knows_this"], 1);
            assert_eq!(program.execute(std::slice::from_ref(&argument)).unwrap(), argument, "{engine:?}");
        }
    }
}
