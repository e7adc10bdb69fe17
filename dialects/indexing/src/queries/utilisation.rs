//! Operand utilisation: how much of an operand is read when the whole result is computed.

use std::collections::{HashMap, HashSet};

use mlir_ext::affine::{Expr, Operator, Var};

use crate::linear::Linear;
use crate::map::IndexingMap;

/// Points of a domain that are enumerated for an exact count.
const MAX_POINTS: u64 = 1 << 16;

/// How many elements of an operand are read at least once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilisation {
    /// The number of elements read; an upper bound unless `exact`.
    pub elements: u64,
    /// The number of elements of the operand.
    pub total: u64,
    /// Whether `elements` is exact.
    pub exact: bool,
}

impl Utilisation {
    /// The fraction of the operand that is read, in `[0, 1]`; 1 for an operand without elements.
    pub fn fraction(&self) -> f64 {
        if self.total == 0 { 1.0 } else { (self.elements as f64 / self.total as f64).min(1.0) }
    }
}

/// Which part of an operand of `sizes` the maps read together. Elements and bytes are in the same proportion.
///
/// Run-time variables have one value each time the program runs; those that are elements of an array, as the indices
/// of a gather, one for each element read.
pub fn utilisation(maps: &[IndexingMap<'_>], sizes: &[i64]) -> Utilisation {
    let total = sizes.iter().fold(1u64, |n, &size| n.saturating_mul(size.max(0) as u64));
    let known: Vec<&IndexingMap<'_>> = maps.iter().filter(|m| !m.is_known_empty()).collect();
    if known.iter().any(|m| !m.runtimes().is_empty()) {
        let mut all = Utilisation { elements: 0, total, exact: known.len() == 1 };
        for map in known {
            let (elements, exact) = elements_in_one_run(map);
            all.elements = all.elements.saturating_add(elements).min(total);
            all.exact &= exact;
        }
        return all;
    }
    let maps = known;
    let points = maps.iter().try_fold(0u64, |n, m| n.checked_add(m.box_size()?));
    if points.is_some_and(|n| n <= MAX_POINTS) && maps.len() > 1 {
        let mut read = HashSet::new();
        for map in &maps {
            read.extend(map.points().filter_map(|p| map.evaluate(&p.dims, &p.ranges, &p.runtimes)));
        }
        return Utilisation { elements: read.len() as u64, total, exact: true };
    }
    let mut elements = 0u64;
    let mut exact = true;
    for map in &maps {
        let (count, precise) = image_size(map);
        elements = elements.saturating_add(count);
        exact &= precise;
    }
    if elements >= total {
        // All of it is read if one map alone reads all.
        let full = maps.iter().any(|m| image_size(m) == (total, true));
        return Utilisation { elements: total, total, exact: full || total == 0 };
    }
    Utilisation { elements, total, exact: exact && maps.len() <= 1 }
}

/// The number of different results for one choice of run-time values, and whether it is exact (else an upper bound).
fn elements_in_one_run(map: &IndexingMap<'_>) -> (u64, bool) {
    let mut fixed = map.clone();
    let mut exact = true;
    let mut per_element = false;
    for (i, variable) in map.runtimes().iter().enumerate() {
        let runtime = map.runtime(i);
        let index = variable.source.as_ref().map_or(&[][..], |source| &source.index);
        if index.iter().any(|expr| !expr.variables().is_empty()) {
            per_element = true;
            continue;
        }
        // An offset moves what is read without changing how much it is.
        let only_moves = |&expr: &Expr<'_>| {
            Linear::from_expr(expr).is_some_and(|sum| {
                sum.terms.iter().all(|(atom, _)| atom.as_variable().is_some() || !atom.uses(runtime))
            })
        };
        exact &= map.results().iter().all(only_moves) && map.constraints().iter().all(|c| !c.expr.uses(runtime));
        fixed.replace_runtime(i, Expr::constant(map.context(), variable.bounds.lower));
    }
    fixed.remove_unused_symbols();
    let (elements, precise) = image_size(&fixed);
    if !per_element {
        return (elements, exact && precise);
    }
    let variables = fixed.dims().iter().chain(fixed.ranges());
    let points = variables.fold(1u64, |n, v| n.saturating_mul(v.bounds.len().unwrap_or(u64::MAX)));
    (elements.min(points), false)
}

/// The number of different results, and whether it is exact (else an upper bound).
fn image_size(map: &IndexingMap<'_>) -> (u64, bool) {
    if map.is_known_empty() {
        return (0, true);
    }
    // Without constraints, results over disjoint variables multiply.
    let mut seen: HashMap<Var, ()> = HashMap::new();
    let mut disjoint = map.constraints().is_empty() && map.runtimes().is_empty();
    let mut product = 1u64;
    let mut exact = true;
    for &result in map.results() {
        for variable in result.variables() {
            disjoint &= seen.insert(variable, ()).is_none();
        }
        let (count, precise) = value_count(map, result);
        product = product.saturating_mul(count);
        exact &= precise;
    }
    if disjoint && exact {
        return (product, true);
    }
    if map.box_size().is_some_and(|n| n <= MAX_POINTS) {
        let images: HashSet<Vec<i64>> =
            map.points().filter_map(|p| map.evaluate(&p.dims, &p.ranges, &p.runtimes)).collect();
        return (images.len() as u64, true);
    }
    (product, false)
}

/// The number of values of an expression over the variables' bounds.
fn value_count<'c>(map: &IndexingMap<'c>, expr: Expr<'c>) -> (u64, bool) {
    let bound = map.range_of(expr).len().unwrap_or(u64::MAX);
    let Some(sum) = Linear::from_expr(expr) else { return (bound, false) };
    // c_0 * x_0 + c_1 * x_1 + … with each c_i a multiple of c_(i+1) and c_i <= c_(i+1) * (values below): no gaps.
    let mut parts: Vec<(i64, u64)> = Vec::new();
    for &(atom, k) in &sum.terms {
        let single = atom.as_variable().is_some()
            || [Operator::FloorDiv, Operator::Mod].iter().any(|&operator| {
                atom.as_binary_with_constant(operator).is_some_and(|(x, c)| x.as_variable().is_some() && c > 0)
            });
        let Some(n) = map.range_of(atom).len() else { return (bound, false) };
        if !single {
            return (bound, false);
        }
        parts.push((k.saturating_abs(), n));
    }
    parts.sort_unstable();
    let Some(&(unit, _)) = parts.first() else { return (1, true) };
    let mut reach = 0u64;
    for (k, n) in parts {
        let step = (k / unit) as u64;
        if k % unit != 0 || step > reach + 1 {
            return (bound, false);
        }
        reach = reach.saturating_add(step.saturating_mul(n - 1));
    }
    (reach + 1, true)
}
