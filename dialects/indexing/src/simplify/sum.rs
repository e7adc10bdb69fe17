//! Sums in which quotients meet remainders.

use mlir_ext::affine::{Expr, Operator};

use super::Simplifier;
use crate::linear::Linear;

impl<'c> Simplifier<'_, 'c> {
    /// Joins quotients and remainders of the same dividend. `sum` has terms in normal form.
    pub(super) fn combine(&self, mut sum: Linear<'c>) -> Option<Linear<'c>> {
        loop {
            let quotients = count(&sum, Operator::FloorDiv);
            let remainders = count(&sum, Operator::Mod);
            if quotients + remainders == 0 || sum.terms.len() < 2 {
                return Some(sum);
            }
            match self.combined_once(&sum)? {
                Some(shorter) => sum = shorter,
                None => return Some(sum),
            }
        }
    }

    fn combined_once(&self, sum: &Linear<'c>) -> Option<Option<Linear<'c>>> {
        let cost = cost(sum);
        for &(term, k) in &sum.terms {
            if let Some((x, c)) = divided_by(term, Operator::Mod) {
                if let Some(joined) = self.with_quotient(sum, term, k, x, c)?
                    && self::cost(&joined) < cost
                {
                    return Some(Some(joined));
                }
                if let Some(joined) = self.with_higher_remainder(sum, term, k, x, c)? {
                    return Some(Some(joined));
                }
            }
            if let Some((x, c)) = divided_by(term, Operator::FloorDiv)
                && let Some(joined) = self.with_dividend(sum, term, k, x, c)?
            {
                let new = self::cost(&joined);
                if new < cost || (new == cost && k < 0) {
                    return Some(Some(joined));
                }
            }
        }
        Some(None)
    }

    /// `(x mod c) * k + (x floordiv c) * (c * k) => x * k`
    fn with_quotient(
        &self,
        sum: &Linear<'c>,
        term: Expr<'c>,
        k: i64,
        x: Expr<'c>,
        c: i64,
    ) -> Option<Option<Linear<'c>>> {
        let Some(kc) = k.checked_mul(c) else { return Some(None) };
        if !sum.terms.iter().any(|&(other, factor)| factor == kc && other != term) {
            return Some(None);
        }
        let x = Linear::from_expr(x)?;
        let quotient = self.floor_div(x.clone(), c)?;
        let mut joined = sum.clone();
        joined.add_atom(term, k.checked_neg()?)?;
        joined.add_scaled(&x, k)?;
        joined.add_scaled(&quotient, kc.checked_neg()?)?;
        Some(Some(joined))
    }

    /// `(x mod c) * k + ((x floordiv c) mod n) * (c * k) => (x mod (c * n)) * k`
    fn with_higher_remainder(
        &self,
        sum: &Linear<'c>,
        term: Expr<'c>,
        k: i64,
        x: Expr<'c>,
        c: i64,
    ) -> Option<Option<Linear<'c>>> {
        let Some(kc) = k.checked_mul(c) else { return Some(None) };
        for &(other, factor) in &sum.terms {
            let Some((_, n)) = divided_by(other, Operator::Mod) else { continue };
            // A common factor of dividend and divisor has been moved in front: (y mod n) * g for mod n * g.
            let g = factor / kc;
            if other == term || factor % kc != 0 || g < 1 {
                continue;
            }
            let Some(n) = n.checked_mul(g) else { continue };
            let x = Linear::from_expr(x)?;
            let digit = self.modulo(self.floor_div(x.clone(), c)?, n)?;
            if digit != (Linear { terms: vec![(other, g)], constant: 0 }) {
                continue;
            }
            let mut joined = sum.clone();
            joined.add_atom(term, k.checked_neg()?)?;
            joined.add_atom(other, factor.checked_neg()?)?;
            joined.add_scaled(&self.modulo(x, c.checked_mul(n)?)?, k)?;
            if cost(&joined) < cost(sum) {
                return Some(Some(joined));
            }
        }
        Some(None)
    }

    /// `x * k - (x floordiv c) * (c * k) => (x mod c) * k`
    fn with_dividend(
        &self,
        sum: &Linear<'c>,
        term: Expr<'c>,
        k: i64,
        x: Expr<'c>,
        c: i64,
    ) -> Option<Option<Linear<'c>>> {
        if k % c != 0 {
            return Some(None);
        }
        let x = Linear::from_expr(x)?;
        if !x.terms.iter().any(|(summand, _)| sum.coefficient(*summand) != 0) {
            return Some(None);
        }
        let multiple = k / c;
        let mut joined = sum.clone();
        joined.add_atom(term, k.checked_neg()?)?;
        joined.add_scaled(&x, multiple)?;
        joined.add_scaled(&self.modulo(x, c)?, multiple.checked_neg()?)?;
        Some(Some(joined))
    }
}

/// The dividend and the positive divisor of a quotient or remainder.
fn divided_by<'c>(term: Expr<'c>, operator: Operator) -> Option<(Expr<'c>, i64)> {
    term.as_binary_with_constant(operator).filter(|(_, c)| *c > 0)
}

fn count(sum: &Linear<'_>, operator: Operator) -> usize {
    sum.terms.iter().filter(|(term, _)| divided_by(*term, operator).is_some()).count()
}

/// The number of nodes of the sum as an expression.
fn cost(sum: &Linear<'_>) -> usize {
    let terms: usize = sum.terms.iter().map(|(term, k)| term.size() + if *k == 1 { 1 } else { 3 }).sum();
    terms + if sum.constant == 0 { 0 } else { 2 }
}
