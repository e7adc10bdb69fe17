//! What a fused computation would read, found out before any code is emitted.
//!
//! The tracer follows the walk of `walk` on symbols instead of values, and collects the addresses
//! that would be loaded and the conditions that would be tested. From these the loops are chosen: which
//! neighbouring dimensions can be one loop, where to cut loops so that conditions are known, and whether lanes
//! read consecutive elements.

use std::collections::{HashMap, HashSet};

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use indexing::{Constraint, Expr, ExprKind, Interval, Linear, Operator, Var, ceil_div};

use crate::contraction::{contraction_maps, is_product};
use crate::error::LoweringError;
use crate::kernel::MOST_NEIGHBOURS;
use crate::reduction::input_map;
use crate::scope::{Binding, Scope};
use crate::walk::{Choice, Inside, Outside, Visitor, linear_address};

type Result<T> = std::result::Result<T, LoweringError>;

/// Addresses and conditions of one element of a fusion.
#[derive(Debug, Default)]
pub struct Trace<'c> {
    /// Linear addresses in the inputs.
    pub addresses: Vec<Expr<'c>>,
    /// The parameters that are loaded from, each with the linear address.
    pub loads: Vec<(usize, Expr<'c>)>,
    /// Conditions of pads and concatenations.
    pub conditions: Vec<Constraint<'c>>,
    /// Addresses of start indices that a lookup would read.
    pub lookups: Vec<Expr<'c>>,
    /// The variables that stand for start indices.
    pub starts: Vec<Var>,
    /// Conditions under which the windows of reduce-windows have a term.
    pub window_conditions: Vec<Constraint<'c>>,
    /// Indices of the results of reduce-windows.
    pub windows: Vec<(InstructionId, Vec<Expr<'c>>)>,
}

/// Distances of the elements that neighbouring lanes read, in elements, below which few vectors hold them all. From here on
/// a row fills a vector itself.
pub(crate) const NEAR: i64 = 16;

/// How many addresses change in which way with a variable; the others do not change.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessesAlong {
    /// By one element.
    pub consecutive: usize,
    /// By a small number of elements.
    pub near: usize,
    /// In any other way.
    pub other: usize,
}

impl AccessesAlong {
    /// Whether lanes along the variable read few vectors.
    pub fn is_near(&self) -> bool {
        self.other == 0 && self.consecutive + self.near > 0
    }
}

/// Elements of a row from which on vectors that do not go across rows are better, where windows lack terms at its ends.
const LONG_ROW: i64 = 32;

/// Conditions on a loop up to which it is cut at all of them.
const MOST_CUT: usize = 8;

/// Collects the trace of several instructions, all at the same index.
pub fn trace<'c>(
    computation: &Computation,
    roots: &[InstructionId],
    index: &[Expr<'c>],
    scope: &mut Scope<'c>,
) -> Result<Trace<'c>> {
    trace_behind(computation, None, roots, index, scope)
}

/// As [`trace`], of what follows the value of an instruction at the index.
pub(crate) fn trace_behind<'c>(
    computation: &Computation,
    known: Option<InstructionId>,
    roots: &[InstructionId],
    index: &[Expr<'c>],
    scope: &mut Scope<'c>,
) -> Result<Trace<'c>> {
    let seen = known.into_iter().map(|id| (id, index.to_vec())).collect();
    let mut tracer = Tracer { computation, scope, trace: Trace::default(), seen, places: HashMap::new() };
    for &root in roots {
        tracer.evaluate_all(root, index)?;
    }
    Ok(tracer.trace)
}

struct Tracer<'t, 'c> {
    computation: &'t Computation,
    scope: &'t mut Scope<'c>,
    trace: Trace<'c>,
    seen: HashSet<(InstructionId, Vec<Expr<'c>>)>,
    /// At how many indices the elements of an instruction were seen.
    places: HashMap<InstructionId, usize>,
}

/// Indices at which the elements of an instruction are looked at: more than any has that is not kept by row, which may have
/// as many as there are ways to it.
const MOST_PLACES: usize = 64;

impl<'c> Tracer<'_, 'c> {
    /// Variables for values that a loop inside of an element takes.
    fn variables(&mut self, bounds: impl Iterator<Item = Interval>) -> Vec<Expr<'c>> {
        bounds.map(|bounds| self.scope.add_traced(bounds)).collect()
    }
}

/// An element of which nothing is known.
const ELEMENT: [(); 1] = [()];

impl<'t, 'c> Visitor<'t, 'c> for Tracer<'t, 'c> {
    type Value = ();

    fn computation(&self) -> &'t Computation {
        self.computation
    }

    fn scope(&self) -> &Scope<'c> {
        self.scope
    }

    fn known(&self, id: InstructionId, index: &[Expr<'c>]) -> Option<Vec<()>> {
        let has_many = self.places.get(&id).is_some_and(|&places| places >= MOST_PLACES);
        (has_many || self.seen.contains(&(id, index.to_vec()))).then(|| ELEMENT.to_vec())
    }

    fn remember(&mut self, id: InstructionId, index: &[Expr<'c>], _: Vec<()>) {
        self.seen.insert((id, index.to_vec()));
        *self.places.entry(id).or_default() += 1;
    }

    fn named(&mut self, expr: Expr<'c>) -> Result<Expr<'c>> {
        Ok(self.scope.name_of(expr).unwrap_or_else(|| self.scope.add_name(expr, Binding::Traced)))
    }

    fn kept_inside(&mut self, expr: Expr<'c>, _: Interval) -> Result<Expr<'c>> {
        Ok(expr)
    }

    fn load(&mut self, parameter: &'t Instruction, index: &[Expr<'c>]) -> Result<()> {
        if let Some(shape) = parameter.shape.as_array() {
            let address = linear_address(self.scope.context(), &shape.dimensions, index);
            let address = self.scope.simplify(address);
            self.trace.addresses.push(address);
            self.trace.loads.extend(parameter.parameter_number().map(|number| (number, address)));
        }
        Ok(())
    }

    fn constant(&mut self, _: &'t Instruction) -> Result<()> {
        Ok(())
    }

    fn zero(&mut self, _: ElementType) {}

    /// A number is no address, but loops must keep its dimension recognisable.
    fn number(&mut self, index: &[Expr<'c>], _: Expr<'c>, _: ElementType) -> Result<()> {
        self.trace.addresses.extend_from_slice(index);
        Ok(())
    }

    fn elementwise(&mut self, _: &'t Instruction, _: &[()]) -> Result<Vec<()>> {
        Ok(ELEMENT.to_vec())
    }

    fn combine(&mut self, id: InstructionId, instruction: &'t Instruction, index: &[Expr<'c>]) -> Result<Vec<()>> {
        let (context, computation) = (self.scope.context(), self.computation);
        if is_product(instruction.kind) {
            let maps = contraction_maps(context, computation, instruction)?;
            let ranges = self.variables(maps.ranges.iter().map(|&size| Interval::of_size(size)));
            let lhs_index = self.apply_with_ranges(maps.lhs.map.results(), index, &ranges, &[])?;
            let rhs_index = self.apply_with_ranges(maps.rhs.results(), index, &ranges, &[])?;
            let conditions = self.conditions(&maps.lhs.conditions, index, &ranges);
            self.trace.conditions.extend(conditions);
            self.evaluate(instruction.operands[0], &lhs_index)?;
            return self.evaluate_all(instruction.operands[1], &rhs_index);
        }
        let input = input_map(context, computation, instruction)?;
        let map = input.map;
        let ranges = self.variables(map.ranges().iter().map(|range| range.bounds));
        if instruction.kind == OpKind::ReduceWindow {
            self.trace.windows.push((id, index.to_vec()));
            let conditions = self.conditions(&input.conditions, index, &ranges);
            self.trace.window_conditions.extend(conditions);
        }
        let operand_index = self.apply_with_ranges(map.results(), index, &ranges, &[])?;
        let (inputs, initial) = instruction.operands.split_at(instruction.operands.len() / 2);
        inputs.iter().try_for_each(|&operand| self.evaluate(operand, &operand_index))?;
        initial.iter().try_for_each(|&operand| self.evaluate(operand, &[]))?;
        Ok(ELEMENT.to_vec())
    }

    fn start(
        &mut self,
        _: (InstructionId, usize),
        operand: InstructionId,
        index: Vec<Expr<'c>>,
        bounds: Interval,
    ) -> Result<Expr<'c>> {
        self.trace.lookups.extend_from_slice(&index);
        self.evaluate(operand, &index)?;
        let start = self.scope.add_traced(bounds);
        self.trace.starts.extend(start.as_variable());
        Ok(start)
    }

    fn branch(
        &mut self,
        open: &[&Constraint<'c>],
        choice: &Choice<'_, 'c>,
        inside: Inside<'_, 'c, Self, ()>,
        outside: Outside<'_, Self, ()>,
    ) -> Result<Vec<()>> {
        self.trace.conditions.extend(open.iter().map(|&&condition| condition));
        inside(self, choice.index)?;
        outside(self)
    }
}

impl<'c> Trace<'c> {
    /// Whether consecutive values of `major` and `minor` (with `minor_size` values) can be one variable: every
    /// address and condition depends on them only through `major * minor_size + minor`. Where loops are cut, conditions on `major`
    /// alone may be left to that, if there are few values of `minor`: these would be loops that are shorter than a vector. Those on
    /// the distance from a start index, which nobody knows before, are then tested by lanes.
    fn can_merge(&self, scope: &Scope<'c>, major: Var, (minor, minor_size): (Var, i64), is_cut: bool) -> bool {
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
        let is_free_of = |condition: &Constraint<'c>, variable| !scope.depends(condition.expr, variable);
        let is_free = |condition: &Constraint<'c>| is_free_of(condition, major) && is_free_of(condition, minor);
        let on_major = |condition: &&Constraint<'c>| !is_free(condition);
        let may_cut = is_cut && minor_size < NEAR && self.conditions.iter().filter(on_major).count() <= MOST_CUT;
        let is_cut_at = |condition: &Constraint<'c>| {
            let is_tested = || self.is_distance_from_start(scope, condition, major);
            may_cut && is_free_of(condition, minor) && (tested_interval(condition, major).is_some() || is_tested())
        };
        // Which terms windows have along few neighbours is known where these are computed together.
        let is_window_free = |condition: &Constraint<'c>| match minor_size {
            ..=MOST_NEIGHBOURS => is_free_of(condition, minor),
            LONG_ROW.. => is_free(condition),
            _ => true,
        };
        self.addresses.iter().chain(&self.lookups).all(|&expr| merges(expr))
            && self.conditions.iter().all(|condition| is_free(condition) || is_cut_at(condition))
            && self.window_conditions.iter().all(is_window_free)
    }

    /// Whether a condition is on the distance of a variable from a start index, which lanes have to test.
    pub(crate) fn is_distance_from_start(&self, scope: &Scope<'c>, condition: &Constraint<'c>, variable: Var) -> bool {
        self.starts.iter().any(|&start| condition.expr.uses(start))
            && coefficient(scope, condition.expr, variable) == Some(1)
    }

    /// Whether the lanes of vectors can go through rows of `row_size` elements and on into the next ones, although some addresses do
    /// not change along a row, or are the same in each: elements that are near each other, and nothing that depends on values.
    pub fn crosses_rows(&self, scope: &Scope<'c>, row: Var, along: Var, row_size: i64) -> bool {
        let is_near = |&address: &Expr<'c>| {
            let (by_row, within) = (coefficient(scope, address, row), coefficient(scope, address, along));
            match (by_row, within) {
                (Some(by_row), Some(0)) => by_row.abs() <= row_size,
                (Some(0), Some(within)) => within.abs() <= 1,
                (Some(by_row), Some(within)) => by_row == within.saturating_mul(row_size),
                _ => false,
            }
        };
        let has_conditions = !self.conditions.is_empty() || !self.window_conditions.is_empty();
        !has_conditions && self.lookups.is_empty() && self.addresses.iter().all(is_near)
    }

    /// Values of `variable` at which a condition on it alone changes between true and false, within its bounds; `with_windows`
    /// also those between which windows have all of their terms, if that is most values.
    pub fn cuts(&self, scope: &Scope<'c>, variable: Var, bounds: Interval, with_windows: bool) -> Vec<i64> {
        let mut cuts = if with_windows { self.whole_windows(scope, variable, bounds) } else { Vec::new() };
        for condition in &self.conditions {
            match tested_interval(condition, variable) {
                Some(tested) => cuts.extend(inner_cuts(bounds, [tested.lower, tested.upper.saturating_add(1)])),
                None => {
                    let decided = rows_decided(scope, condition, variable).into_iter().flatten();
                    cuts.extend(decided.flat_map(|rows| inner_cuts(bounds, rows)));
                }
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// The cuts of a loop over bounds of a variable merged with further ones of so many positions.
    pub fn cuts_of_merged(
        &self,
        scope: &Scope<'c>,
        (variable, bounds, inner): (Expr<'c>, Interval, i64),
        with_windows: bool,
    ) -> Vec<i64> {
        // Of no positions there is nothing to cut.
        let Some(variable) = variable.as_variable().filter(|_| inner > 0) else { return Vec::new() };
        let own = Interval::new(bounds.lower / inner, bounds.upper / inner);
        self.cuts(scope, variable, own, with_windows).into_iter().map(|cut| cut * inner).collect()
    }

    /// The first value of `variable` at which windows have all of their terms, and the one behind the last.
    fn whole_windows(&self, scope: &Scope<'c>, variable: Var, bounds: Interval) -> Vec<i64> {
        let variable = Expr::variable(scope.context(), variable);
        let mut whole = bounds;
        for condition in &self.window_conditions {
            let Some(mut sum) = Linear::from_expr(condition.expr) else { continue };
            let step = sum.coefficient(variable);
            if step <= 0 || sum.add_atom(variable, -step).is_none() {
                continue;
            }
            let rest = scope.range(sum.to_expr(scope.context()));
            let lower = ceil_div(condition.interval.lower.saturating_sub(rest.lower), step);
            let upper = condition.interval.upper.saturating_sub(rest.upper).div_euclid(step);
            whole = whole.intersect(Interval::new(lower, upper));
        }
        let is_most = !whole.is_empty() && (whole.upper - whole.lower) > (bounds.upper - bounds.lower) / 2;
        if is_most { inner_cuts(bounds, [whole.lower, whole.upper + 1]) } else { Vec::new() }
    }

    /// How the addresses change with `variable`.
    pub fn accesses_along(&self, scope: &Scope<'c>, variable: Var) -> AccessesAlong {
        let mut counts = AccessesAlong::default();
        for &address in &self.addresses {
            if !scope.depends(address, variable) {
                continue;
            }
            if scope.depends_through_name(address, variable) {
                counts.other += 1;
                continue;
            }
            match coefficient(scope, address, variable) {
                Some(1) => counts.consecutive += 1,
                Some(step) if (1 - NEAR..NEAR).contains(&step) => counts.near += 1,
                None if changes_slowly(address, variable) => counts.near += 1,
                _ => counts.other += 1,
            }
        }
        counts
    }

    /// Whether where it is looked up depends on a variable.
    pub fn looks_up_by(&self, scope: &Scope<'c>, variable: Var) -> bool {
        self.lookups.iter().any(|&lookup| scope.depends(lookup, variable))
    }

    /// Whether neighbours along `variable` come in groups, of which so many lanes hold several: a vector that begins at a multiple of
    /// its lanes knows the place of each lane in its group, as those between the elements of a pad do.
    pub fn has_groups_along(&self, variable: Var, lanes: u32) -> bool {
        let tested = self.conditions.iter().map(|condition| condition.expr);
        self.addresses.iter().copied().chain(tested).any(|expr| is_divided_in_groups(expr, variable, i64::from(lanes)))
    }
}

/// Whether an expression divides by the size of groups of which so many lanes hold several.
fn is_divided_in_groups(expr: Expr<'_>, variable: Var, lanes: i64) -> bool {
    let ExprKind::Binary(operator, left, right) = expr.kind() else { return false };
    let is_division = matches!(operator, Operator::FloorDiv | Operator::Mod) && left.uses(variable);
    let divides = |size: i64| size > 1 && lanes % size == 0;
    is_division && right.as_constant().is_some_and(divides)
        || is_divided_in_groups(left, variable, lanes)
        || is_divided_in_groups(right, variable, lanes)
}

/// Where a condition holds that is on a variable alone, to which numbers are added, and which is divided by numbers.
fn tested_interval(condition: &Constraint<'_>, variable: Var) -> Option<Interval> {
    let Constraint { mut expr, mut interval } = *condition;
    loop {
        let sum = Linear::from_expr(expr)?;
        let [(atom, 1)] = sum.terms[..] else { return None };
        interval =
            Interval::new(interval.lower.saturating_sub(sum.constant), interval.upper.saturating_sub(sum.constant));
        match atom.kind() {
            ExprKind::Variable(own) => return (own == variable).then_some(interval),
            ExprKind::Binary(Operator::FloorDiv, dividend, divisor) => {
                let divisor = divisor.as_constant().filter(|&divisor| divisor > 0)?;
                let last = interval.upper.saturating_mul(divisor).saturating_add(divisor - 1);
                (expr, interval) = (dividend, Interval::new(interval.lower.saturating_mul(divisor), last));
            }
            _ => return None,
        }
    }
}

/// Where a condition on rows and on places in them, of which a row has no more than are between it and the next, holds for whole
/// rows, and where for parts of them: of its first rows, and of its last.
fn rows_decided<'c>(scope: &Scope<'c>, condition: &Constraint<'c>, variable: Var) -> Option<[[i64; 2]; 2]> {
    let variable = Expr::variable(scope.context(), variable);
    let mut sum = Linear::from_expr(condition.expr)?;
    let step = sum.coefficient(variable);
    sum.add_atom(variable, -step).filter(|()| step > 0)?;
    let rest = sum.to_expr(scope.context());
    let places = scope.range(rest);
    let is_row = places.upper.saturating_sub(places.lower) < step;
    (is_row && !rest.variables().is_empty() && !scope.depends(rest, variable.as_variable()?)).then(|| {
        // The rows from which on a bound is reached by some places, and by all of them.
        let rows_from = |bound: i64| {
            let [some, all] = [places.upper, places.lower].map(|place| ceil_div(bound.saturating_sub(place), step));
            [some, all]
        };
        let Interval { lower, upper } = condition.interval;
        [rows_from(lower), rows_from(upper.saturating_add(1))]
    })
}

/// The cuts that are within bounds, and not at their beginning.
fn inner_cuts(bounds: Interval, cuts: [i64; 2]) -> Vec<i64> {
    cuts.into_iter().filter(|&cut| cut > bounds.lower && cut <= bounds.upper).collect()
}

/// Whether an address changes with a variable only where that reaches the next group of several values, to one nearby: what
/// belongs to groups of channels, for instance.
fn changes_slowly(address: Expr<'_>, variable: Var) -> bool {
    let Some(sum) = Linear::from_expr(address) else { return false };
    let mut own = sum.terms.iter().filter(|(atom, _)| atom.uses(variable));
    own.all(|(atom, factor)| match atom.kind() {
        ExprKind::Binary(Operator::FloorDiv, left, right) => {
            let group = right.as_constant().filter(|_| left.as_variable() == Some(variable));
            group.is_some_and(|group| (1..group).contains(factor))
        }
        _ => false,
    })
}

/// By how much an address changes with a variable, if always by as much.
pub(crate) fn coefficient<'c>(scope: &Scope<'c>, address: Expr<'c>, variable: Var) -> Option<i64> {
    let variable_expr = Expr::variable(scope.context(), variable);
    let sum = Linear::from_expr(address).filter(|_| !scope.depends_through_name(address, variable))?;
    let is_linear = sum.terms.iter().all(|(atom, _)| *atom == variable_expr || !atom.uses(variable));
    is_linear.then(|| sum.coefficient(variable_expr))
}

/// Groups of neighbouring dimensions that can be one loop each, as (first, one past last); `is_cut` says whether loops are cut at
/// conditions on the first of them.
pub fn merged_dimensions<'c>(
    trace: &Trace<'c>,
    scope: &Scope<'c>,
    (variables, sizes): (&[Expr<'c>], &[i64]),
    is_cut: bool,
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
            trace.can_merge(scope, major, (minor, sizes[dimension]), is_cut)
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
