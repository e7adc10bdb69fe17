//! Where constraints hold: over a given box, and the box in which none needs a check.

use mlir_ext::affine::Var;

use crate::interval::{Interval, ceil_div, floor_div};
use crate::linear::Linear;
use crate::map::{Constraint, IndexingMap};
use crate::range::RangeEvaluator;

/// Whether a constraint holds at every point (`Some(true)`) or at none (`Some(false)`) when the variables in
/// `bounds` are restricted to the intervals there; `None` if it differs or is not known. Other constraints of
/// the map are not used.
pub fn truth<'c>(map: &IndexingMap<'c>, constraint: &Constraint<'c>, bounds: &[(Var, Interval)]) -> Option<bool> {
    let mut part = map.clone();
    for &(variable, interval) in bounds {
        if let Some(v) = part.variable_mut(variable) {
            v.bounds = v.bounds.intersect(interval);
        }
    }
    let range = RangeEvaluator::without_constraints(&part).range(constraint.expr);
    if constraint.interval.contains_interval(range) {
        return Some(true);
    }
    constraint.interval.intersect(range).is_empty().then_some(false)
}

/// A box of the variables' bounds in which every constraint holds everywhere, so that a loop over it needs no
/// checks: the map's own bounds, with the bounds of dimension and range variables narrowed. `None` if there is
/// a constraint that narrowing cannot satisfy (a remainder), or the box would be empty.
///
/// For each constraint the variable is narrowed that costs the fewest points.
pub fn interior_box<'c>(map: &IndexingMap<'c>) -> Option<IndexingMap<'c>> {
    let mut inner = map.clone();
    inner.constraints.clear();
    for constraint in map.constraints() {
        let ranges = RangeEvaluator::without_constraints(&inner);
        if constraint.interval.contains_interval(ranges.range(constraint.expr)) {
            continue;
        }
        let sum = Linear::from_expr(constraint.expr)?;
        let mut best: Option<(u64, Var, Interval)> = None;
        for (i, (atom, k)) in sum.terms.iter().enumerate() {
            let Some(variable) = atom.as_variable().filter(|&variable| map.as_runtime(variable).is_none()) else {
                continue;
            };
            let mut others = sum.clone();
            others.terms.remove(i);
            if others.terms.iter().any(|(other, _)| other.uses(variable)) {
                continue;
            }
            let rest = ranges.range_of_sum(&others);
            // k * x + rest in [lower, upper] for every rest
            let least = constraint.interval.lower.checked_sub(rest.lower)?;
            let most = constraint.interval.upper.checked_sub(rest.upper)?;
            let allowed = if *k > 0 {
                Interval::new(ceil_div(least, *k), floor_div(most, *k))
            } else {
                Interval::new(ceil_div(most, *k), floor_div(least, *k))
            };
            let old = inner.bounds(variable);
            let new = old.intersect(allowed);
            let lost = old.len()?.saturating_sub(new.len()?).saturating_mul(1 << 20) / old.len()?.max(1);
            if !new.is_empty() && best.is_none_or(|(least, ..)| lost < least) {
                best = Some((lost, variable, new));
            }
        }
        let (_, variable, bounds) = best?;
        inner.variable_mut(variable)?.bounds = bounds;
    }
    Some(inner)
}
