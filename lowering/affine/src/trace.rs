//! What a fused computation would read, found out before any code is emitted.
//!
//! The trace walks a fusion as [`crate::elemental`] does, on symbols instead of values, and collects the addresses
//! that would be loaded and the conditions that would be tested. From these the loops are chosen: which
//! neighbouring dimensions can be one loop, where to cut loops so that conditions are known, and whether lanes
//! read consecutive elements.

use std::collections::HashSet;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use indexing::{Constraint, Expr, Interval, Linear, Var};

use crate::elemental::{ConcatenatedPart, concatenated, linear_address, substitute};
use crate::error::LoweringError;
use crate::operand_maps::{operand_map, operand_shape};
use crate::scope::{Binding, Scope};

/// Addresses and conditions of one element of a fusion.
#[derive(Debug, Default)]
pub struct Trace<'c> {
    /// Linear addresses in the inputs.
    pub addresses: Vec<Expr<'c>>,
    /// Conditions of pads and concatenations.
    pub conditions: Vec<Constraint<'c>>,
    /// Addresses of start indices that a lookup would read.
    pub lookups: Vec<Expr<'c>>,
    /// Indices of the results of reduce-windows.
    pub windows: Vec<(InstructionId, Vec<Expr<'c>>)>,
}

/// Collects the trace of several instructions, all at the same index.
pub fn trace<'c>(
    computation: &Computation,
    roots: &[InstructionId],
    index: &[Expr<'c>],
    scope: &mut Scope<'c>,
) -> Result<Trace<'c>, LoweringError> {
    let mut tracer = Tracer { computation, scope, trace: Trace::default(), seen: HashSet::new() };
    for &root in roots {
        tracer.visit(root, index)?;
    }
    Ok(tracer.trace)
}

struct Tracer<'t, 'c> {
    computation: &'t Computation,
    scope: &'t mut Scope<'c>,
    trace: Trace<'c>,
    seen: HashSet<(InstructionId, Vec<Expr<'c>>)>,
}

impl<'c> Tracer<'_, 'c> {
    fn visit(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<(), LoweringError> {
        if !self.seen.insert((id, index.to_vec())) {
            return Ok(());
        }
        let computation = self.computation;
        let instruction = computation.get(id);
        match instruction.kind {
            OpKind::Parameter => {
                if let Some(shape) = instruction.shape.as_array() {
                    let address = self.scope.simplify(linear_address(self.scope.context(), &shape.dimensions, index));
                    self.trace.addresses.push(address);
                }
                Ok(())
            }
            OpKind::Constant | OpKind::Iota => {
                // An iota's value is no address, but loops must keep its dimension recognisable.
                self.trace.addresses.extend(index.iter().filter(|_| instruction.kind == OpKind::Iota).copied());
                Ok(())
            }
            OpKind::Reduce | OpKind::ReduceWindow => {
                if instruction.kind == OpKind::ReduceWindow {
                    self.trace.windows.push((id, index.to_vec()));
                }
                let input = operand_shape(computation, instruction, 0)?;
                let map = crate::reduction::input_map(self.scope.context(), computation, instruction)?;
                let ranges: Vec<Expr<'c>> =
                    map.map.ranges().iter().map(|range| self.scope.add_traced(range.bounds)).collect();
                let operand_index = self.apply(map.map.results(), index, &ranges, &[]);
                debug_assert_eq!(operand_index.len(), input.rank());
                let inputs = instruction.operands.len() / 2;
                for &operand in &instruction.operands[..inputs] {
                    self.visit(operand, &operand_index)?;
                }
                for &operand in &instruction.operands[inputs..] {
                    self.visit(operand, &[])?;
                }
                Ok(())
            }
            OpKind::Dot | OpKind::Convolution => {
                let maps = crate::contraction::contraction_maps(self.scope.context(), computation, instruction)?;
                let ranges: Vec<Expr<'c>> =
                    maps.ranges.iter().map(|&size| self.scope.add_traced(Interval::new(0, size - 1))).collect();
                let lhs_ranges = maps.lhs_ranges(index, &ranges);
                let lhs_index = self.apply(maps.lhs.map.results(), index, &lhs_ranges, &[]);
                let rhs_index = self.apply(maps.rhs.results(), index, &ranges, &[]);
                for condition in &maps.lhs.conditions {
                    let expr = self.scope.simplify(substitute(condition.expr, index, &lhs_ranges, &[]));
                    self.trace.conditions.push(Constraint::new(expr, condition.interval));
                }
                self.visit(instruction.operands[0], &lhs_index)?;
                self.visit(instruction.operands[1], &rhs_index)
            }
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::Reverse
            | OpKind::Slice
            | OpKind::Copy
            | OpKind::Pad
            | OpKind::Concatenate
            | OpKind::DynamicSlice
            | OpKind::Gather => self.visit_indexed(id, index),
            _ => {
                for (number, &operand) in instruction.operands.iter().enumerate() {
                    let is_scalar = operand_shape(computation, instruction, number)?.rank() == 0;
                    self.visit(operand, if is_scalar { &[] } else { index })?;
                }
                Ok(())
            }
        }
    }

    /// Results of a map, as [`crate::elemental::Elemental::apply`] has them.
    fn apply(
        &mut self,
        results: &[Expr<'c>],
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
        runtimes: &[Expr<'c>],
    ) -> Vec<Expr<'c>> {
        results
            .iter()
            .map(|result| {
                let result = self.scope.simplify(substitute(*result, index, ranges, runtimes));
                match self.scope.name_of(result) {
                    Some(name) => name,
                    None if Scope::is_large(result) => self.scope.add_name(result, Binding::Traced),
                    None => result,
                }
            })
            .collect()
    }

    /// The operands of a concatenate on whose parts an index can be.
    fn concatenated_operands(
        &self,
        instruction: &Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<usize>, LoweringError> {
        let (dimension, parts) = concatenated(self.computation, instruction)?;
        let position = index.get(dimension).ok_or_else(|| LoweringError::bug("a concatenate without its dimension"))?;
        let range = self.scope.range(*position);
        let ends = parts.iter().skip(1).map(|part| part.start).chain([i64::MAX]);
        let meets = |(part, end): &(&ConcatenatedPart, i64)| part.start <= range.upper && *end > range.lower;
        Ok(parts.iter().zip(ends).filter(meets).map(|(part, _)| part.operand).collect())
    }

    fn visit_indexed(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<(), LoweringError> {
        let computation = self.computation;
        let instruction = computation.get(id);
        let data_operands = match instruction.kind {
            OpKind::Concatenate => self.concatenated_operands(instruction, index)?,
            _ => vec![0],
        };
        for number in data_operands {
            let map = operand_map(self.scope.context(), computation, instruction, number)?;
            let mut runtimes = Vec::new();
            for runtime in map.map.runtimes() {
                let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
                let start_index = self.apply(&source.index, index, &[], &[]);
                self.trace.lookups.extend(start_index.iter().copied());
                self.visit(instruction.operands[source.value as usize], &start_index)?;
                runtimes.push(self.scope.add_traced(runtime.bounds));
            }
            for condition in &map.conditions {
                let expr = self.scope.simplify(substitute(condition.expr, index, &[], &[]));
                self.trace.conditions.push(Constraint::new(expr, condition.interval));
            }
            let operand_index = self.apply(map.map.results(), index, &[], &runtimes);
            self.visit(instruction.operands[number], &operand_index)?;
        }
        if instruction.kind == OpKind::Pad {
            self.visit(instruction.operands[1], &[])?;
        }
        Ok(())
    }
}

impl<'c> Trace<'c> {
    /// Whether consecutive values of `major` and `minor` (with `minor_size` values) can be one variable: every
    /// address and condition depends on them only through `major * minor_size + minor`.
    pub fn can_merge(&self, scope: &Scope<'c>, major: Var, minor: Var, minor_size: i64) -> bool {
        let merges = |expr: Expr<'c>| {
            if !scope.depends(expr, major) && !scope.depends(expr, minor) {
                return true;
            }
            if scope.depends_through_name(expr, major) || scope.depends_through_name(expr, minor) {
                return false;
            }
            let Some(sum) = Linear::from_expr(expr) else { return false };
            let leaf = |variable| Expr::variable(scope.context(), variable);
            let (major_expr, minor_expr) = (leaf(major), leaf(minor));
            let is_linear = sum
                .terms
                .iter()
                .all(|(atom, _)| *atom == major_expr || *atom == minor_expr || !atom.uses(major) && !atom.uses(minor));
            is_linear && sum.coefficient(major_expr) == sum.coefficient(minor_expr).saturating_mul(minor_size)
        };
        self.addresses.iter().chain(&self.lookups).all(|&expr| merges(expr))
            && self
                .conditions
                .iter()
                .all(|condition| !scope.depends(condition.expr, major) && !scope.depends(condition.expr, minor))
    }

    /// Values of `variable` at which a condition on it alone changes between true and false, within its bounds.
    pub fn cuts(&self, variable: Var, bounds: Interval) -> Vec<i64> {
        let mut cuts = Vec::new();
        for condition in &self.conditions {
            let Some(sum) = Linear::from_expr(condition.expr) else { continue };
            let [(atom, 1)] = sum.terms[..] else { continue };
            if atom.as_variable() != Some(variable) {
                continue;
            }
            let first = condition.interval.lower.saturating_sub(sum.constant);
            let after = condition.interval.upper.saturating_sub(sum.constant).saturating_add(1);
            cuts.extend([first, after].into_iter().filter(|&cut| cut > bounds.lower && cut <= bounds.upper));
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// How the addresses change with `variable`: (consecutive, uniform, anything else).
    pub fn accesses_along(&self, scope: &Scope<'c>, variable: Var) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for &address in &self.addresses {
            if !scope.depends(address, variable) {
                counts.1 += 1;
                continue;
            }
            if scope.depends_through_name(address, variable) {
                counts.2 += 1;
                continue;
            }
            let variable_expr = Expr::variable(scope.context(), variable);
            let coefficient = Linear::from_expr(address)
                .filter(|sum| sum.terms.iter().all(|(atom, _)| *atom == variable_expr || !atom.uses(variable)))
                .map(|sum| sum.coefficient(variable_expr));
            match coefficient {
                Some(1) => counts.0 += 1,
                _ => counts.2 += 1,
            }
        }
        counts
    }
}

/// Groups of neighbouring dimensions that can be one loop each, as (first, one past last).
pub fn merged_dimensions<'c>(
    trace: &Trace<'c>,
    scope: &Scope<'c>,
    variables: &[Expr<'c>],
    sizes: &[i64],
) -> Vec<(usize, usize)> {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for dimension in 0..sizes.len() {
        let extends = groups.last().is_some_and(|&(first, _)| {
            let (Some(Var::Dim(_)), Some(minor)) =
                (variables[dimension - 1].as_variable(), variables[dimension].as_variable())
            else {
                // A variable of one value was simplified away: it merges with anything.
                return true;
            };
            let Some(major) = variables[first..dimension].last().and_then(|expr| expr.as_variable()) else {
                return true;
            };
            trace.can_merge(scope, major, minor, sizes[dimension])
        });
        match groups.last_mut() {
            Some(group) if extends => group.1 = dimension + 1,
            _ => groups.push((dimension, dimension + 1)),
        }
    }
    groups
}

/// The dimensions of one group as expressions of its merged variable.
pub fn split_merged<'c>(variable: Expr<'c>, sizes: &[i64]) -> Vec<Expr<'c>> {
    let mut parts = Vec::with_capacity(sizes.len());
    let mut inner = 1i64;
    for (position, &size) in sizes.iter().enumerate().rev() {
        let quotient = if inner == 1 { variable } else { variable.floordiv(inner) };
        parts.push(if position == 0 { quotient } else { quotient.modulo(size) });
        inner = inner.saturating_mul(size);
    }
    parts.reverse();
    parts
}
