//! Simplification of the domain: constraints become bounds where they can, and vanish where they always hold.

use mlir_ext::affine::{Expr, ExprKind, Operator};

use super::division::common_divisors;
use super::{PointVariables, Simplifier};
use crate::interval::{Interval, ceil_div, floor_div};
use crate::linear::{Linear, gcd};
use crate::map::{Constraint, IndexingMap};
use crate::range::RangeEvaluator;

/// Rounds of narrowing after which bounds count as not converging and stay as they were.
const MAX_ROUNDS: usize = 64;

impl<'c> IndexingMap<'c> {
    /// Simplifies the constraints and narrows the variables' bounds until nothing changes.
    pub(super) fn simplify_constraints(&mut self) {
        for _ in 0..MAX_ROUNDS {
            if self.constraints.is_empty() || self.known_empty {
                return;
            }
            let before = self.clone();
            self.simplify_each_constraint();
            self.merge_congruences();
            self.narrow_bounds();
            if *self == before {
                return;
            }
        }
    }

    fn simplify_each_constraint(&mut self) {
        let domain = self.clone();
        let simplifier = Simplifier::new(RangeEvaluator::without_constraints(&domain), PointVariables::Replace);
        self.constraints.clear();
        for constraint in &domain.constraints {
            let simplified = simplifier.simplify_constraint(constraint);
            let range = simplifier.ranges.range(simplified.expr);
            if simplified.interval.is_empty() {
                return self.reset_to_known_empty();
            }
            if simplified.interval.contains_interval(range) {
                continue;
            }
            // Nothing outside the expression's own range needs to be allowed.
            self.add_constraint(simplified.expr, simplified.interval.intersect(range));
        }
    }

    /// Joins constraints `x mod a = p` and `x mod b = q` into one, and moves the bounds of `x` to values that
    /// satisfy it.
    pub(crate) fn merge_congruences(&mut self) {
        let mut i = 0;
        while i < self.constraints.len() {
            let Some((x, m, r)) = congruence(&self.constraints[i]) else {
                i += 1;
                continue;
            };
            let other = (i + 1..self.constraints.len()).find_map(|j| {
                let (y, n, s) = congruence(&self.constraints[j])?;
                (x == y).then_some((j, n, s))
            });
            if let Some((j, n, s)) = other {
                match chinese_remainder((m, r), (n, s)) {
                    Merged::One(modulus, residue) => {
                        self.constraints.remove(j);
                        self.constraints[i] = Constraint::new(x.modulo(modulus), Interval::point(residue));
                        continue;
                    }
                    Merged::None => return self.reset_to_known_empty(),
                    Merged::TooLarge => {}
                }
            }
            if let Some(variable) = x.as_variable() {
                let bounds = self.bounds(variable);
                let narrowed = congruent_part(bounds, m, r);
                if narrowed.is_empty() {
                    return self.reset_to_known_empty();
                }
                if let Some(v) = self.variable_mut(variable) {
                    v.bounds = narrowed;
                }
            }
            i += 1;
        }
    }

    /// Moves what a constraint on a sum says about each dimension and range variable into its bounds.
    fn narrow_bounds(&mut self) {
        if self.known_empty {
            return;
        }
        let before = self.clone();
        for _ in 0..MAX_ROUNDS {
            let round = self.clone();
            for constraint in &round.constraints {
                self.narrow(constraint.expr, constraint.interval);
                if self.known_empty {
                    return;
                }
            }
            if *self == round {
                return;
            }
        }
        *self = before;
    }

    /// Uses that `expr` lies in `interval`.
    fn narrow(&mut self, expr: Expr<'c>, interval: Interval) {
        if self.known_empty || interval.is_empty() {
            return self.reset_to_known_empty();
        }
        match expr.kind() {
            ExprKind::Variable(variable) if self.as_runtime(variable).is_none() => self.add_constraint(expr, interval),
            ExprKind::Binary(Operator::FloorDiv, x, divisor) => {
                if let Some(c) = divisor.as_constant().filter(|&c| c > 0) {
                    self.narrow(x, dividends(interval, c));
                }
            }
            ExprKind::Binary(Operator::Add | Operator::Mul, ..) => {
                let Some(sum) = Linear::from_expr(expr) else { return };
                if sum.as_atom().is_some() {
                    return;
                }
                for (i, &(term, k)) in sum.terms.iter().enumerate() {
                    let mut others = sum.clone();
                    others.terms.remove(i);
                    let rest = RangeEvaluator::without_constraints(self).range_of_sum(&others);
                    self.narrow(term, factors(interval - rest, k));
                }
            }
            ExprKind::Constant(_) | ExprKind::Variable(_) | ExprKind::Binary(Operator::CeilDiv | Operator::Mod, ..) => {
            }
        }
    }
}

impl<'c> Simplifier<'_, 'c> {
    /// Simplifies the expression and takes constants, factors and divisors off it into the interval.
    fn simplify_constraint(&self, constraint: &Constraint<'c>) -> Constraint<'c> {
        let mut expr = self.simplify(constraint.expr);
        let mut interval = constraint.interval;
        while let Some((simpler, bounds)) = self.taken_apart(expr, interval) {
            // Arithmetic needs intervals that are not empty.
            if bounds.is_empty() {
                return Constraint { expr: simpler, interval: bounds };
            }
            expr = self.simplify(simpler);
            interval = bounds;
        }
        Constraint { expr, interval }
    }

    fn taken_apart(&self, expr: Expr<'c>, interval: Interval) -> Option<(Expr<'c>, Interval)> {
        let mut sum = Linear::from_expr(expr)?;
        // x + c in [a, b] => x in [a - c, b - c]
        if sum.constant != 0 && !sum.terms.is_empty() {
            let shifted = interval - Interval::point(sum.constant);
            sum.constant = 0;
            return Some((sum.to_expr(self.context()), shifted));
        }
        // x * c in [a, b] => x in [a ceildiv c, b floordiv c], also for a common factor of all terms
        let mut factor = sum.gcd();
        if let [(_, k)] = sum.terms.as_slice() {
            factor = *k;
        }
        if factor != 0 && factor != 1 {
            let terms = sum.terms.iter().map(|&(term, k)| (term, k / factor)).collect();
            let sum = Linear { terms, constant: 0 };
            return Some((sum.to_expr(self.context()), factors(interval, factor)));
        }
        if let Some((x, c)) = expr.as_binary_with_constant(Operator::FloorDiv) {
            // x floordiv c in [a, b] => x in [a * c, b * c + c - 1]; x floordiv -c is -x floordiv c
            if c > 0 {
                return Some((x, dividends(interval, c)));
            }
            if c < 0 && c != i64::MIN {
                return Some((x, -dividends(interval, -c)));
            }
        }
        if let Some((x, m)) = expr.as_binary_with_constant(Operator::Mod) {
            // (x + c) mod m = r => x mod m = (r - c) mod m
            let mut dividend = Linear::from_expr(x)?;
            if let (Some(r), true) = (interval.as_point(), m > 0 && dividend.constant != 0) {
                let residue = r.checked_sub(dividend.constant)?.rem_euclid(m);
                if !(0..m).contains(&r) {
                    return None;
                }
                dividend.constant = 0;
                return Some((dividend.to_expr(self.context()).modulo(m), Interval::point(residue)));
            }
        }
        // a <= g * x + y <= b => a' <= x <= b' if y cannot change which x are allowed
        for g in common_divisors(&sum, 0) {
            if let Some((multiple, bounds)) = self.split_constraint(&sum, interval, g)? {
                return Some((multiple.to_expr(self.context()), bounds));
            }
        }
        None
    }
}

/// The `x` with `x floordiv c` in the interval; `c > 0`.
fn dividends(interval: Interval, c: i64) -> Interval {
    let first = interval * Interval::point(c);
    first + Interval::new(0, c - 1)
}

/// The `x` with `x * c` in the interval; `c != 0`.
fn factors(interval: Interval, c: i64) -> Interval {
    let interval = if c < 0 { -interval } else { interval };
    let c = c.checked_abs().unwrap_or(i64::MAX);
    let lower = if interval.lower == i64::MIN { i64::MIN } else { ceil_div(interval.lower, c) };
    let upper = if interval.upper == i64::MAX { i64::MAX } else { floor_div(interval.upper, c) };
    Interval::new(lower, upper)
}

/// `(x, m, r)` if the constraint says `x mod m = r`.
pub(crate) fn congruence<'c>(constraint: &Constraint<'c>) -> Option<(Expr<'c>, i64, i64)> {
    let (x, m) = constraint.expr.as_binary_with_constant(Operator::Mod)?;
    let r = constraint.interval.as_point()?;
    (m > 0 && (0..m).contains(&r)).then_some((x, m, r))
}

/// The least and greatest values of the interval that leave remainder `r`.
fn congruent_part(interval: Interval, m: i64, r: i64) -> Interval {
    let up = (i128::from(r) - i128::from(interval.lower)).rem_euclid(i128::from(m)) as i64;
    let down = (i128::from(interval.upper) - i128::from(r)).rem_euclid(i128::from(m)) as i64;
    let lower = if interval.lower == i64::MIN { i64::MIN } else { interval.lower.saturating_add(up) };
    let upper = if interval.upper == i64::MAX { i64::MAX } else { interval.upper.saturating_sub(down) };
    Interval::new(lower, upper)
}

enum Merged {
    One(i64, i64),
    None,
    TooLarge,
}

/// The one congruence that says `x mod m = r` and `x mod n = s`.
fn chinese_remainder((m, r): (i64, i64), (n, s): (i64, i64)) -> Merged {
    let g = gcd(m, n);
    if (r - s) % g != 0 {
        return Merged::None;
    }
    let Some(modulus) = (m / g).checked_mul(n) else { return Merged::TooLarge };
    // r + m * t = s (mod n); the inverse of m/g modulo n/g by the extended Euclidean algorithm.
    let (mut old, mut new) = ((i128::from(m / g), 1i128), (i128::from(n / g), 0i128));
    while new.0 != 0 {
        let q = old.0 / new.0;
        (old, new) = (new, (old.0 - q * new.0, old.1 - q * new.1));
    }
    let step = i128::from(n / g);
    let t = (i128::from((s - r) / g).rem_euclid(step) * old.1.rem_euclid(step)).rem_euclid(step);
    let residue = (i128::from(r) + i128::from(m) * t).rem_euclid(i128::from(modulus));
    Merged::One(modulus, residue as i64)
}
