//! Inverse maps, and comparison of maps as functions.

use melior::Context;
use mlir_ext::affine::{Expr, Operator, Var};

use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::{IndexingMap, Variable};

/// Points that are enumerated to compare functions.
const MAX_POINTS: u64 = 1 << 18;

/// `(d floordiv divisor) mod extent`, a digit of dimension `d`, and where a result holds it.
struct Digit<'c> {
    dimension: u32,
    divisor: i64,
    extent: i64,
    /// The least value of the dimension, which the digit is counted from.
    value: Expr<'c>,
}

impl<'c> IndexingMap<'c> {
    /// The map from results to dimensions, if this one is invertible and its results are sums of digits of
    /// its dimensions: permutations, offsets, strides, reversals, reshapes and their compositions. The inverse
    /// is simplified. `None` for maps with range or run-time variables or constraints.
    pub fn inverse(&self) -> Option<IndexingMap<'c>> {
        if self.known_empty || !(self.ranges.is_empty() && self.runtimes.is_empty() && self.constraints.is_empty()) {
            return None;
        }
        let mut digits: Vec<Digit<'c>> = Vec::new();
        let mut dims = Vec::new();
        let mut constraints = Vec::new();
        for (position, &result) in self.results().iter().enumerate() {
            dims.push(Variable::new(self.range_of(result)));
            let sum = Linear::from_expr(result)?;
            // The digit with the least coefficient is the remainder, the next one its quotient, and so on.
            let mut parts = Vec::new();
            let mut least = sum.constant;
            for &(atom, k) in &sum.terms {
                let (dimension, divisor, digit_of) = digit(atom)?;
                let bounds = self.range_of(atom);
                let extent = i64::try_from(bounds.len()?).ok()?;
                least = least.checked_add(k.checked_mul(if k > 0 { bounds.lower } else { bounds.upper })?)?;
                parts.push((k, dimension, divisor, extent, bounds, digit_of));
            }
            parts.sort_by_key(|part| part.0.unsigned_abs());
            let place = Expr::dim(self.context, position) - least;
            let mut below = 1i64;
            if let Some(first) = parts.first() {
                below = first.0.checked_abs()?;
                if below > 1 {
                    constraints.push((place.modulo(below), Interval::point(0)));
                }
            }
            for (k, dimension, divisor, extent, bounds, _) in parts {
                let step = k.checked_abs()?;
                if step % below != 0 {
                    return None;
                }
                if step > below {
                    // A gap between the digits: only multiples of the step below the former ones occur.
                    constraints.push((place.modulo(step), Interval::new(0, below - 1)));
                }
                let counted = place.floordiv(step).modulo(extent);
                let value = if k > 0 { counted + bounds.lower } else { -counted + bounds.upper };
                digits.push(Digit { dimension, divisor, extent, value });
                below = step.checked_mul(extent)?;
            }
        }
        let mut results = Vec::new();
        for (i, variable) in self.dims.iter().enumerate() {
            results.push(put_together(self.context, i as u32, variable.bounds, &mut digits)?);
        }
        if !digits.is_empty() {
            return None;
        }
        let mut inverse = IndexingMap::new(self.context, dims, Vec::new(), Vec::new(), results, Vec::new());
        for (expr, interval) in constraints {
            inverse.add_constraint(expr, interval);
        }
        // Digits that do not fill their dimension leave values out.
        for (&result, variable) in inverse.results().iter().zip(&self.dims) {
            if !variable.bounds.contains_interval(inverse.range_of(result)) {
                inverse.add_constraint(result, variable.bounds);
            }
        }
        inverse.simplify();
        Some(inverse)
    }

    /// The converse relation: the map from an index of the target to all indices that are taken to it. `None`
    /// unless each result is a dimension or range variable of its own and nothing restricts them, as for
    /// operations that only choose indices: broadcast, transpose, reduce, dot, sort.
    ///
    /// Dimensions that no result has become range variables, in their order.
    pub fn converse(&self) -> Option<IndexingMap<'c>> {
        if self.known_empty {
            let zeros = vec![Expr::constant(self.context, 0); self.dims.len()];
            let mut empty = IndexingMap::from_sizes(self.context, &vec![0; self.results().len()], &[], zeros);
            empty.reset_to_known_empty();
            return Some(empty);
        }
        if !self.runtimes.is_empty() || !self.constraints.is_empty() {
            return None;
        }
        let mut chosen: Vec<Var> = Vec::with_capacity(self.results().len());
        for result in self.results() {
            let variable = result.as_variable().filter(|variable| !chosen.contains(variable))?;
            chosen.push(variable);
        }
        let dims = chosen.iter().filter_map(|&variable| self.variable(variable).cloned()).collect();
        let mut ranges = Vec::new();
        let mut results = Vec::with_capacity(self.dims.len());
        for (i, variable) in self.dims.iter().enumerate() {
            results.push(match chosen.iter().position(|&chosen| chosen == Var::Dim(i as u32)) {
                Some(place) => Expr::dim(self.context, place),
                None => {
                    ranges.push(variable.clone());
                    Expr::symbol(self.context, ranges.len() - 1)
                }
            });
        }
        Some(IndexingMap::new(self.context, dims, ranges, Vec::new(), results, Vec::new()))
    }

    /// Whether two maps are the same function with the same domain: `None` if this is not known. Variables are
    /// compared by position, so both need as many of each kind.
    pub fn same_function(&self, other: &IndexingMap<'c>) -> Option<bool> {
        let counts = |m: &IndexingMap<'c>| (m.dims.len(), m.ranges.len(), m.runtimes.len(), m.results().len());
        if counts(self) != counts(other) {
            return None;
        }
        let (mut a, mut b) = (self.clone(), other.clone());
        a.simplify();
        b.simplify();
        for variable in a.runtimes.iter_mut().chain(&mut b.runtimes) {
            variable.source = None;
        }
        if a == b {
            return Some(true);
        }
        if a.known_empty != b.known_empty {
            let other = if a.known_empty { &b } else { &a };
            return (other.box_size()? <= MAX_POINTS).then(|| other.points().next().is_none());
        }
        if a.box_size()? > MAX_POINTS || b.box_size()? > MAX_POINTS {
            return None;
        }
        let within = |a: &IndexingMap<'c>, b: &IndexingMap<'c>| {
            a.points().all(|p| {
                b.contains(&p.dims, &p.ranges, &p.runtimes)
                    && a.evaluate(&p.dims, &p.ranges, &p.runtimes) == b.evaluate(&p.dims, &p.ranges, &p.runtimes)
            })
        };
        Some(within(&a, &b) && within(&b, &a))
    }
}

/// A dimension from its digits, which are taken out of the list: they have to follow each other without gap
/// or overlap from divisor 1 to the whole of the dimension. A dimension with one value needs no digit.
fn put_together<'c>(
    context: &'c Context,
    dimension: u32,
    bounds: Interval,
    digits: &mut Vec<Digit<'c>>,
) -> Option<Expr<'c>> {
    let mut value = Expr::constant(context, 0);
    let mut reached = 1i64;
    let mut found = false;
    while let Some(at) = digits.iter().position(|d| d.dimension == dimension && d.divisor == reached) {
        let digit = digits.remove(at);
        value = value + digit.value * digit.divisor;
        reached = reached.checked_mul(digit.extent)?;
        found = true;
    }
    if !found {
        return bounds.as_point().map(|point| Expr::constant(context, point));
    }
    let extent = i64::try_from(bounds.len()?).ok()?;
    // Without a lower bound of 0 only the undivided dimension is its own digit.
    (reached >= extent && (bounds.lower == 0 || reached == extent)).then_some(value)
}

/// Reads `d`, `d floordiv a`, `d mod b` and `(d floordiv a) mod b`: dimension, divisor, and modulus.
pub(crate) fn digit(atom: Expr<'_>) -> Option<(u32, i64, Option<i64>)> {
    let (rest, modulus) = match atom.as_binary_with_constant(Operator::Mod) {
        Some((x, m)) if m > 0 => (x, Some(m)),
        _ => (atom, None),
    };
    let (rest, divisor) = match rest.as_binary_with_constant(Operator::FloorDiv) {
        Some((x, c)) if c > 0 => (x, c),
        _ => (rest, 1),
    };
    match rest.as_variable()? {
        Var::Dim(i) => Some((i, divisor, modulus)),
        Var::Symbol(_) => None,
    }
}
