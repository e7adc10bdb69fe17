//! Finds where the first NaN or infinity comes from, by evaluating the program instruction by instruction.

use evaluator::Environment;
use hlo::graph::{Instruction, Module, TextPosition};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;

use crate::compare;
use crate::error::ToolError;
use crate::module_file::SourceText;
use crate::source_line::source_line;

/// The first instruction whose result holds a NaN or infinity that its operands did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Name of the instruction.
    pub instruction: String,
    /// Its operation.
    pub kind: OpKind,
    /// `NaN` or `infinity`.
    pub what: &'static str,
    /// Where it stands in the program's text.
    pub position: Option<TextPosition>,
    /// The line of the user's program, from the metadata.
    pub source_line: Option<String>,
}

/// Evaluates the program on the arguments. Infinite constants are taken as meant; what is computed from them is not
/// a culprit unless it is NaN.
pub fn check_nans(
    source_text: &SourceText,
    module: &Module,
    arguments: &[Literal],
) -> Result<Option<Culprit>, ToolError> {
    let mut culprit = None;
    let mut observer = |instruction: &Instruction, operands: &[Literal], result: &Literal| {
        if culprit.is_some() || matches!(instruction.kind, OpKind::Constant | OpKind::Parameter) {
            return;
        }
        let found = Special::of(result);
        if found == Special::default() {
            return;
        }
        let known = operands
            .iter()
            .map(Special::of)
            .fold(Special::default(), |a, b| Special { nan: a.nan || b.nan, infinity: a.infinity || b.infinity });
        let what = match (found.nan && !known.nan, found.infinity && !known.infinity && !known.nan) {
            (true, _) => "NaN",
            (false, true) => "infinity",
            (false, false) => return,
        };
        culprit = Some(Culprit {
            instruction: instruction.name.clone(),
            kind: instruction.kind,
            what,
            position: instruction.position,
            source_line: source_line(&module.sources, instruction),
        });
    };
    let mut environment = Environment::new();
    environment.observer = Some(&mut observer);
    evaluator::evaluate(module, arguments, &mut environment)
        .map_err(|error| ToolError::evaluation(source_text, error))?;
    Ok(culprit)
}

/// The parameters whose arguments hold NaN or infinity: names, and what they hold.
pub fn special_arguments(module: &Module, arguments: &[Literal]) -> Vec<(String, &'static str)> {
    let entry = module.entry();
    let named = entry.parameters.iter().map(|&parameter| entry.get(parameter).name.clone()).zip(arguments);
    named
        .filter_map(|(name, argument)| match Special::of(argument) {
            Special { nan: true, infinity: true } => Some((name, "NaN and infinity")),
            Special { nan: true, infinity: false } => Some((name, "NaN")),
            Special { nan: false, infinity: true } => Some((name, "infinity")),
            Special { nan: false, infinity: false } => None,
        })
        .collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Special {
    nan: bool,
    infinity: bool,
}

impl Special {
    fn of(literal: &Literal) -> Special {
        let mut special = Special::default();
        for array in literal.leaves().into_iter().filter_map(Literal::as_array) {
            if !(array.element_type().is_float() || array.element_type().is_complex()) {
                continue;
            }
            for value in compare::elements(array).map(|value| value.to_complex()) {
                special.nan |= value.re.is_nan() || value.im.is_nan();
                special.infinity |= value.re.is_infinite() || value.im.is_infinite();
            }
        }
        special
    }
}
