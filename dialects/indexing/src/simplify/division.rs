//! Quotients and remainders of sums by positive constants.

use mlir_ext::affine::{Expr, ExprKind, Operator};

use super::{Simplifier, common_quotient};
use crate::interval::{Interval, floor_div};
use crate::linear::{Linear, gcd};

impl<'c> Simplifier<'_, 'c> {
    /// The normal form of `sum floordiv c`; `sum` is in normal form, `c > 0`.
    pub(super) fn floor_div(&self, sum: Linear<'c>, c: i64) -> Option<Linear<'c>> {
        if c == 1 {
            return Some(sum);
        }
        // x floordiv c => q if c * q <= x < c * (q + 1) everywhere
        if let Some(q) = common_quotient(self.ranges.range_of_sum(&sum), c) {
            return Some(Linear::constant(q));
        }
        // (c * x + y) floordiv c => x + y floordiv c
        let mut quotient = Linear::constant(floor_div(sum.constant, c));
        let mut rest = Linear::constant(sum.constant.rem_euclid(c));
        for (term, k) in sum.terms {
            if k % c == 0 {
                quotient.add_atom(term, k / c)?;
            } else {
                rest.add_atom(term, k)?;
            }
        }
        quotient.add_scaled(&self.floor_div_rest(rest, c)?, 1)?;
        Some(quotient)
    }

    /// As `floor_div`, for a sum in which no coefficient is a multiple of `c`.
    fn floor_div_rest(&self, rest: Linear<'c>, c: i64) -> Option<Linear<'c>> {
        if let Some(q) = common_quotient(self.ranges.range_of_sum(&rest), c) {
            return Some(Linear::constant(q));
        }
        if let Some(ExprKind::Binary(operator, x, divisor)) = rest.as_atom().map(Expr::kind) {
            match (operator, divisor.as_constant()) {
                // (x floordiv a) floordiv c => x floordiv (a * c)
                (Operator::FloorDiv, Some(a)) if a > 0 => {
                    return self.floor_div(Linear::from_expr(x)?, a.checked_mul(c)?);
                }
                // (x mod (m * c)) floordiv c => (x floordiv c) mod m
                (Operator::Mod, Some(m)) if m > 0 && m % c == 0 => {
                    return self.modulo(self.floor_div(Linear::from_expr(x)?, c)?, m / c);
                }
                _ => {}
            }
        }
        // (g * x + y) floordiv (g * d) => (x + q) floordiv d if y floordiv g = q everywhere
        for g in common_divisors(&rest, c) {
            if let Some((multiple, _, q)) = self.split_by(&rest, g)? {
                let mut dividend = multiple;
                dividend.constant = dividend.constant.checked_add(q)?;
                return self.floor_div(self.combine(dividend)?, c / g);
            }
        }
        // (x floordiv a + y) floordiv c => (x + a * y) floordiv (a * c); two quotients would round twice
        let mut inner = rest.terms.iter().filter_map(|&(term, k)| {
            let (x, a) = term.as_binary_with_constant(Operator::FloorDiv)?;
            (k == 1 && a > 0).then_some((term, x, a))
        });
        if let (Some((term, x, a)), None) = (inner.next(), inner.next()) {
            let mut others = rest.clone();
            others.add_atom(term, -1)?;
            let mut dividend = Linear::from_expr(x)?;
            dividend.add_scaled(&others, a)?;
            return self.floor_div(self.combine(dividend)?, a.checked_mul(c)?);
        }
        Linear::from_expr(rest.to_expr(self.context()).floordiv(c))
    }

    /// The normal form of `sum mod m`; `sum` is in normal form, `m > 0`.
    pub(super) fn modulo(&self, sum: Linear<'c>, m: i64) -> Option<Linear<'c>> {
        if m == 1 {
            return Some(Linear::constant(0));
        }
        if let Some(shifted) = self.within_period(&sum, m)? {
            return Some(shifted);
        }
        // (m * x + y) mod m => y mod m, and ((x mod n) * k + y) mod m => (x * k + y) mod m if m divides n * k
        let mut rest = Linear::constant(sum.constant.rem_euclid(m));
        let mut unwrapped = false;
        for (term, k) in sum.terms {
            if k % m == 0 {
                continue;
            }
            match term.as_binary_with_constant(Operator::Mod) {
                Some((x, n)) if n.checked_mul(k).is_some_and(|nk| nk % m == 0) => {
                    rest.add_expr(x, k)?;
                    unwrapped = true;
                }
                _ => rest.add_atom(term, k)?,
            }
        }
        if unwrapped {
            return self.modulo(self.combine(rest)?, m);
        }
        if let Some(shifted) = self.within_period(&rest, m)? {
            return Some(shifted);
        }
        // (g * x) mod (g * n) => (x mod n) * g
        let g = gcd(gcd(rest.gcd(), rest.constant), m);
        if g > 1 {
            return self.modulo(self.combine(divided(&rest, g))?, m / g)?.scaled(g);
        }
        // (g * x + y) mod (g * n) => ((x + q) mod n) * g + y - g * q if y floordiv g = q everywhere
        for g in common_divisors(&rest, m) {
            if let Some((mut multiple, others, q)) = self.split_by(&rest, g)? {
                multiple.constant = multiple.constant.checked_add(q)?;
                let mut result = self.modulo(self.combine(multiple)?, m / g)?.scaled(g)?;
                result.add_scaled(&others, 1)?;
                result.constant = result.constant.checked_sub(q.checked_mul(g)?)?;
                return self.combine(result);
            }
        }
        Linear::from_expr(rest.to_expr(self.context()).modulo(m))
    }

    /// `x mod m => x - m * q` if `m * q <= x < m * (q + 1)` everywhere.
    fn within_period(&self, sum: &Linear<'c>, m: i64) -> Option<Option<Linear<'c>>> {
        let Some(q) = common_quotient(self.ranges.range_of_sum(sum), m) else {
            return Some(None);
        };
        let mut shifted = sum.clone();
        shifted.constant = shifted.constant.checked_sub(q.checked_mul(m)?)?;
        Some(Some(shifted))
    }

    /// Splits `sum` into `g * multiple + others` where `others floordiv g` is the same `q` everywhere.
    fn split_by(&self, sum: &Linear<'c>, g: i64) -> Option<Option<(Linear<'c>, Linear<'c>, i64)>> {
        let mut multiple = Linear::default();
        let mut others = Linear::constant(sum.constant);
        for &(term, k) in &sum.terms {
            if k % g == 0 {
                multiple.add_atom(term, k / g)?;
            } else {
                others.add_atom(term, k)?;
            }
        }
        if multiple.terms.is_empty() {
            return Some(None);
        }
        let quotient = match others.as_constant() {
            Some(value) => Some(floor_div(value, g)),
            None => common_quotient(self.ranges.range_of_sum(&others), g),
        };
        Some(quotient.map(|q| (multiple, others, q)))
    }

    /// Whether `lower <= g * x + y <= upper` says nothing about `y`; then the bounds it puts on `x`.
    pub(super) fn split_constraint(
        &self,
        sum: &Linear<'c>,
        interval: Interval,
        g: i64,
    ) -> Option<Option<(Linear<'c>, Interval)>> {
        let mut multiple = Linear::default();
        let mut others = Linear::default();
        for &(term, k) in &sum.terms {
            if k % g == 0 {
                multiple.add_atom(term, k / g)?;
            } else {
                others.add_atom(term, k)?;
            }
        }
        if multiple.terms.is_empty() || others.terms.is_empty() {
            return Some(None);
        }
        let y = self.ranges.range_of_sum(&others);
        let step = Interval::point(g);
        let low = (Interval::point(interval.lower) - y).ceildiv(step).as_point();
        let high = common_quotient(Interval::point(interval.upper) - y, g);
        Some(match (low, high) {
            (Some(low), Some(high)) if low > i64::MIN / 2 => Some((multiple, Interval::new(low, high))),
            _ => None,
        })
    }
}

/// The divisors greater than 1 that coefficients share with `c`, the greatest first.
pub(super) fn common_divisors(sum: &Linear<'_>, c: i64) -> Vec<i64> {
    let mut divisors: Vec<i64> = sum.terms.iter().map(|(_, k)| gcd(*k, c)).filter(|&g| g > 1).collect();
    divisors.sort_unstable_by(|a, b| b.cmp(a));
    divisors.dedup();
    divisors
}

/// The sum divided by a common divisor of its coefficients and constant.
fn divided<'c>(sum: &Linear<'c>, g: i64) -> Linear<'c> {
    Linear { terms: sum.terms.iter().map(|&(term, k)| (term, k / g)).collect(), constant: sum.constant / g }
}
