//! The first instruction whose value an engine gets wrong, by bisection.
//!
//! A prefix of the entry computation is a program whose outputs are the values that the rest reads. Both engines run it; if
//! they differ, one of its instructions is wrong, else a later one. In this way the number of compilations grows with the
//! logarithm of the number of instructions. An instruction with computations is looked into as well, as long as these
//! differ as programs of their own.

use std::collections::HashSet;

use hlo::graph::{Computation, Instruction, InstructionId, Module, TextPosition};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use crate::compare::{ArrayComparison, Tolerance, compare_literals};
use crate::error::ToolError;
use crate::program_part::{Part, part_of, with_entry};
use crate::source_line::source_line;

/// An instruction whose value differs while those before it agree.
#[derive(Clone, Debug)]
pub struct FirstDifference {
    /// Names of the instructions in whose computations it stands, outer ones first.
    pub within: Vec<String>,
    /// Its name.
    pub instruction: String,
    /// Its operation.
    pub kind: OpKind,
    /// Where it stands in the program's text.
    pub position: Option<TextPosition>,
    /// The line of the user's program, from the metadata.
    pub source_line: Option<String>,
    /// How its value differs.
    pub comparison: ArrayComparison,
    /// Why.
    pub cause: DifferenceCause,
    /// Programs that were run to find it.
    pub programs: usize,
}

/// Why a value differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceCause {
    /// The instruction also differs as a program of one instruction, on right operands.
    Alone,
    /// It enlarges differences of its operands that are within the tolerance: the evaluator gives the same value on the
    /// operands as the suspect has them.
    Operands,
    /// What is compiled together with it matters.
    Together,
}

/// Runs a program on arguments.
pub type Run<'r> = &'r dyn Fn(&Module, &[Literal]) -> Result<Literal, ToolError>;

/// The engines that are compared.
#[derive(Clone, Copy)]
pub struct Engines<'r> {
    /// The one under suspicion.
    pub suspect: Run<'r>,
    /// The evaluator, with what it needs.
    pub judge: Run<'r>,
}

/// How values are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerances {
    /// Relative tolerance in place of the element type's own.
    pub relative: Option<f64>,
    /// Absolute tolerance in place of 0.
    pub absolute: Option<f64>,
}

/// Compares a result with the evaluator's.
pub fn compare(found: &Literal, expected: &Literal, tolerances: Tolerances) -> ArrayComparison {
    let Tolerances { relative, absolute } = tolerances;
    compare_literals(found, expected, |element_type| Tolerance::default_for(element_type).with(relative, absolute))
}

/// Finds the first instruction of the entry computation whose value the suspect gets wrong; `None` if no prefix differs.
///
/// # Errors
/// Those of both engines.
pub fn first_difference(
    module: &Module,
    arguments: &[Literal],
    tolerances: Tolerances,
    engines: Engines<'_>,
) -> Result<Option<FirstDifference>, ToolError> {
    let mut search = Search { tolerances, engines, programs: 0 };
    let found = search.in_entry(module, arguments)?;
    Ok(found.map(|found| FirstDifference { programs: search.programs, ..found }))
}

struct Search<'r> {
    tolerances: Tolerances,
    engines: Engines<'r>,
    programs: usize,
}

impl Search<'_> {
    fn in_entry(&mut self, module: &Module, arguments: &[Literal]) -> Result<Option<FirstDifference>, ToolError> {
        let entry = module.entry();
        let count = entry.instructions.len();
        let prefix = |length: usize| live_after(entry, length);
        let (mut agrees, mut differs) = (0, count);
        if self.comparison(module, &prefix(count), &HashSet::new(), arguments)?.agrees() {
            return Ok(None);
        }
        while differs - agrees > 1 {
            let middle = agrees + (differs - agrees) / 2;
            let outputs = prefix(middle);
            match outputs.is_empty() || self.comparison(module, &outputs, &HashSet::new(), arguments)?.agrees() {
                true => agrees = middle,
                false => differs = middle,
            }
        }
        let culprit = InstructionId(agrees as u32);
        let instruction = entry.get(culprit);
        let operands: Vec<InstructionId> =
            instruction.operands.iter().copied().filter(|&operand| is_value(&entry.get(operand).shape)).collect();
        let values = self.values(module, &operands, arguments)?;
        if let Some(inner) = self.in_computations(module, instruction, &values)? {
            return Ok(Some(inner));
        }
        let comparison = self.comparison(module, &prefix(agrees + 1), &HashSet::new(), arguments)?;
        Ok(Some(FirstDifference {
            within: Vec::new(),
            instruction: instruction.name.clone(),
            kind: instruction.kind,
            position: instruction.position,
            source_line: source_line(&module.sources, instruction),
            comparison,
            cause: self.cause(module, culprit, arguments)?,
            programs: 0,
        }))
    }

    /// The first difference in what an instruction with computations runs, on the values of its operands.
    fn in_computations(
        &mut self,
        module: &Module,
        instruction: &Instruction,
        operands: &[Literal],
    ) -> Result<Option<FirstDifference>, ToolError> {
        let inner: Vec<(&Computation, Vec<Literal>)> = match (instruction.kind, &instruction.computations[..]) {
            (OpKind::Call, _) => {
                instruction.callee.map(|callee| (module.function(callee), operands.to_vec())).into_iter().collect()
            }
            (OpKind::Fusion, [fused]) => vec![(fused, operands.to_vec())],
            (OpKind::While, [condition, body]) => vec![(condition, operands.to_vec()), (body, operands.to_vec())],
            (OpKind::Conditional, branches) => branches
                .iter()
                .zip(operands.iter().skip(1))
                .map(|(branch, operand)| (branch, vec![operand.clone()]))
                .collect(),
            _ => Vec::new(),
        };
        for (computation, arguments) in inner {
            let part = with_entry(module, computation.clone());
            let found = match part.check() {
                Ok(()) => self.in_entry(&part, &arguments)?,
                Err(_) => None,
            };
            if let Some(mut found) = found {
                found.within.insert(0, instruction.name.clone());
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn cause(
        &mut self,
        module: &Module,
        id: InstructionId,
        arguments: &[Literal],
    ) -> Result<DifferenceCause, ToolError> {
        let operands = &module.entry().get(id).operands;
        if operands.iter().any(|&operand| !is_value(&module.entry().get(operand).shape)) {
            return Ok(DifferenceCause::Together);
        }
        let cut: HashSet<InstructionId> = operands.iter().copied().collect();
        if !self.comparison(module, &[id], &cut, arguments)?.agrees() {
            return Ok(DifferenceCause::Alone);
        }
        let Part { module: alone, parameters } = part_of(module, &[id], &cut);
        let found = self.run(self.engines.suspect, module, &[id], arguments)?;
        let found_operands = self.run(self.engines.suspect, module, &parameters, arguments)?;
        let expected = (self.engines.judge)(&alone, &found_operands)?;
        let comparison = compare(&Literal::Tuple(found), &expected, self.tolerances);
        Ok(if comparison.agrees() { DifferenceCause::Operands } else { DifferenceCause::Together })
    }

    /// Compares the engines on a part of the program; the values of the instructions in `cut` are the evaluator's.
    fn comparison(
        &mut self,
        module: &Module,
        outputs: &[InstructionId],
        cut: &HashSet<InstructionId>,
        arguments: &[Literal],
    ) -> Result<ArrayComparison, ToolError> {
        self.programs += 1;
        let Part { module: part, parameters } = part_of(module, outputs, cut);
        let arguments = self.values(module, &parameters, arguments)?;
        let expected = (self.engines.judge)(&part, &arguments)?;
        let found = (self.engines.suspect)(&part, &arguments)?;
        Ok(compare(&found, &expected, self.tolerances))
    }

    /// The evaluator's values of some instructions.
    fn values(
        &self,
        module: &Module,
        wanted: &[InstructionId],
        arguments: &[Literal],
    ) -> Result<Vec<Literal>, ToolError> {
        self.run(self.engines.judge, module, wanted, arguments)
    }

    /// The values that an engine gives some instructions.
    fn run(
        &self,
        engine: Run<'_>,
        module: &Module,
        wanted: &[InstructionId],
        arguments: &[Literal],
    ) -> Result<Vec<Literal>, ToolError> {
        let entry = module.entry();
        let known = |id: InstructionId| arguments.get(entry.get(id).parameter_number()?).cloned();
        if let Some(values) = wanted.iter().map(|&id| known(id)).collect() {
            return Ok(values);
        }
        let Part { module: part, parameters } = part_of(module, wanted, &HashSet::new());
        let arguments: Vec<Literal> = parameters.iter().filter_map(|&id| known(id)).collect();
        match engine(&part, &arguments)? {
            Literal::Tuple(values) => Ok(values),
            _ => Err(ToolError::Bug("a part of a program gives no tuple".into())),
        }
    }
}

/// The first `length` instructions' values that the others read; at the end, the root.
fn live_after(computation: &Computation, length: usize) -> Vec<InstructionId> {
    if length == computation.instructions.len() {
        return vec![computation.root];
    }
    let mut live: Vec<InstructionId> = computation.instructions[length..]
        .iter()
        .flat_map(|user| user.operands.iter().copied())
        .chain([computation.root])
        .filter(|operand| operand.index() < length)
        .filter(|&operand| computation.get(operand).kind != OpKind::Parameter)
        .filter(|&operand| is_value(&computation.get(operand).shape))
        .collect();
    live.sort_unstable();
    live.dedup();
    live
}

/// Whether values of a shape can be handed over: arrays of static sizes, and tuples of such.
fn is_value(shape: &Shape) -> bool {
    shape.leaves().into_iter().all(|leaf| leaf.as_array().is_some_and(|array| !array.is_dynamic()))
}

#[cfg(test)]
mod tests {
    use std::sync::Once;

    use halo::{Client, CompileOptions};
    use hlo::literal::ArrayLiteral;
    use melior::ir::operation::OperationLike;
    use mlir_ext::attributes;
    use mlir_ext::pass::{Anchor, PassDefinition};
    use mlir_ext::rewrite::Rewriter;

    use super::*;

    const PROGRAM: &str = "HloModule planted
halve {
  p = f32[4] parameter(0)
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  ROOT h = f32[4] divide(p, twos)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  m = f32[4] multiply(a, x)
  c = f32[4] call(m), to_apply=halve
  s = f32[4] subtract(c, y)
  t = f32[4] tanh(s)
  ROOT r = f32[4] add(t, m)
}";

    /// A pass that compiles one operation wrongly: it exchanges the operands of each.
    fn register_planted_pass(argument: &'static str, operation: &'static str) {
        mlir_ext::pass::register([PassDefinition {
            argument,
            description: "exchanges the operands of one operation",
            anchor: Anchor::Module,
            options: &[],
            dialects: &[],
            body: Box::new(move |root, _, _| {
                let rewriter = Rewriter::new(root);
                for found in rewriter.operations() {
                    if attributes::identifier_text(found.name()) == operation {
                        let operands: Vec<_> = found.operands().collect();
                        rewriter.redirect_operand(found, 0, operands[1]).unwrap();
                        rewriter.redirect_operand(found, 1, operands[0]).unwrap();
                    }
                }
                Ok(())
            }),
        }]);
    }

    fn find(pass: &str) -> Option<FirstDifference> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            register_planted_pass("test-break-subtract", "hlo.subtract");
            register_planted_pass("test-break-divide", "hlo.divide");
            register_planted_pass("test-break-nothing", "hlo.sine");
        });
        let module = hlo::text::read(PROGRAM).unwrap();
        let array = |values: &[f32; 4]| Literal::Array(ArrayLiteral::from_slice([4], values).unwrap());
        let arguments = [array(&[1.0, 2.0, 3.0, 4.0]), array(&[0.5, 0.25, 0.75, 1.5])];
        let client = Client::with_threads(1).unwrap();
        let suspect = |module: &Module, arguments: &[Literal]| {
            let pipeline = passes::pipeline::parse(pass);
            let context = hlo::dialect::context();
            let program = hlo::dialect::graph_to_mlir(&context, module).unwrap();
            passes::pipeline::run(&program, &pipeline, true).unwrap();
            let broken = hlo::dialect::mlir_to_graph(&program).unwrap();
            Ok(client.compile(&broken, &CompileOptions::default())?.execute(arguments)?)
        };
        let judge = |module: &Module, arguments: &[Literal]| {
            Ok(evaluator::evaluate(module, arguments, &mut evaluator::Environment::default()).unwrap())
        };
        let engines = Engines { suspect: &suspect, judge: &judge };
        first_difference(&module, &arguments, Tolerances::default(), engines).unwrap()
    }

    #[test]
    fn a_planted_miscompilation_is_found() {
        let found = find("test-break-subtract").unwrap();
        assert_eq!((found.instruction.as_str(), found.kind), ("s", OpKind::Subtract));
        assert_eq!(found.cause, DifferenceCause::Alone);
        assert_eq!(found.position.map(|position| position.line), Some(14));
        assert_eq!(found.comparison.wrong, 4);
        assert!(found.within.is_empty() && found.programs <= 8, "{found:?}");
    }

    #[test]
    fn it_is_found_in_a_function_that_is_called() {
        let found = find("test-break-divide").unwrap();
        assert_eq!((found.within, found.instruction.as_str()), (vec!["c".to_string()], "h"));
    }

    #[test]
    fn an_instruction_that_enlarges_small_differences_is_not_blamed() {
        let text = "ENTRY e {
  x = f32[2] parameter(0)
  e = f32[2] exponential(x)
  ROOT c = s32[2] bitcast-convert(e)
}";
        let module = hlo::text::read(text).unwrap();
        let arguments = [Literal::Array(ArrayLiteral::from_slice([2], &[0.5f32, 1.5]).unwrap())];
        let evaluate = |module: &Module, arguments: &[Literal]| {
            Ok(evaluator::evaluate(module, arguments, &mut evaluator::Environment::default()).unwrap())
        };
        // An engine whose `exponential` is one unit in the last place off.
        let suspect = |module: &Module, arguments: &[Literal]| {
            let text = hlo::text::print(module);
            if !text.contains("exponential(%x)") {
                return evaluate(module, arguments);
            }
            let lines = "parameter(0)\n y = f32[2] exponential(x)\n f = f32[2] constant({1.0000001, 1.0000001})\n";
            let text = text.replace("exponential(%x)", "multiply(%y, %f)").replace("parameter(0)\n", lines);
            evaluate(&hlo::text::read(&text).unwrap(), arguments)
        };
        let engines = Engines { suspect: &suspect, judge: &evaluate };
        let found = first_difference(&module, &arguments, Tolerances::default(), engines).unwrap().unwrap();
        assert_eq!((found.instruction.as_str(), found.cause), ("c", DifferenceCause::Operands));
    }

    #[test]
    fn what_agrees_has_no_first_difference() {
        assert!(find("test-break-nothing").is_none());
    }
}
