//! The indexing map from each element of a fusible instruction to the elements of an operand that it reads.
//!
//! The maps are those of [`hlo::indexing_maps`], the lowering's only source of index arithmetic.

use hlo::graph::{Computation, Instruction};
use hlo::indexing_maps::{InstructionMaps, Numbering};
use hlo::shape::ArrayShape;
use indexing::{Constraint, Expr, IndexingMap, Var};
use melior::Context;

use crate::error::LoweringError;

/// A map with the conditions under which an element is read at all.
pub struct OperandMap<'c> {
    /// From result indices to operand indices.
    pub map: IndexingMap<'c>,
    /// Conditions on result indices: narrowed bounds and constraints of the map.
    pub conditions: Vec<Constraint<'c>>,
}

/// Shape of an array operand.
pub fn operand_shape<'a>(
    computation: &'a Computation,
    instruction: &Instruction,
    operand: usize,
) -> Result<&'a ArrayShape, LoweringError> {
    instruction
        .operands
        .get(operand)
        .and_then(|&id| computation.get(id).shape.as_array())
        .ok_or_else(|| LoweringError::bug(format!("operand {operand} of `{}` is no array", instruction.name)))
}

/// Shape of an instruction's array result.
pub fn result_shape(instruction: &Instruction) -> Result<&ArrayShape, LoweringError> {
    instruction
        .shape
        .as_array()
        .ok_or_else(|| LoweringError::bug(format!("`{}` has no array result", instruction.name)))
}

/// The maps of an instruction. Run-time variables name the operand that holds their values.
pub fn instruction_maps<'c, 'a>(
    context: &'c Context,
    computation: &'a Computation,
    instruction: &'a Instruction,
) -> InstructionMaps<'c, 'a> {
    InstructionMaps::new(context, computation, instruction, Numbering::Operands)
}

/// The map from the result of an instruction to one of its operands.
pub fn operand_map<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
    operand: usize,
) -> Result<OperandMap<'c>, LoweringError> {
    let map = instruction_maps(context, computation, instruction).operand_map(operand);
    let map = map.ok_or_else(|| no_map(instruction))?;
    Ok(OperandMap::new(map, &result_shape(instruction)?.dimensions, &[]))
}

/// The error for an instruction that should have a map.
pub fn no_map(instruction: &Instruction) -> LoweringError {
    LoweringError::bug(format!("`{}` has no indexing map", instruction.name))
}

impl<'c> OperandMap<'c> {
    /// Collects what restricts a map's domain against a result of the given sizes and, where there are sizes for
    /// them, range variables from 0 to these.
    pub fn new(map: IndexingMap<'c>, sizes: &[i64], ranges: &[i64]) -> OperandMap<'c> {
        let mut conditions: Vec<Constraint<'c>> = map.constraints().to_vec();
        let dims = map.dims().iter().zip(sizes).enumerate().map(|(i, (dim, size))| (Var::Dim(i as u32), dim, size));
        let ranges =
            map.ranges().iter().zip(ranges).enumerate().map(|(i, (range, size))| (Var::Symbol(i as u32), range, size));
        for (variable, known, &size) in dims.chain(ranges) {
            if known.bounds.lower > 0 || known.bounds.upper < size - 1 {
                conditions.push(Constraint::new(Expr::variable(map.context(), variable), known.bounds));
            }
        }
        OperandMap { map, conditions }
    }

    /// The map with an expression of the result's index in the place of a range variable.
    pub(crate) fn with_range(self, number: usize, value: Expr<'c>) -> Self {
        let variable = self.map.range(number);
        let replaced = |expr: Expr<'c>| expr.substitute(&|own| (own == variable).then_some(value));
        let results = self.map.results().iter().map(|&result| replaced(result)).collect();
        let conditions = self.conditions.iter().map(|own| Constraint::new(replaced(own.expr), own.interval)).collect();
        OperandMap { map: self.map.with_results(results), conditions }
    }
}
