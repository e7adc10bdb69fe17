//! Sums as lists of terms: `c_0 * atom_0 + … + constant`.
//!
//! An *atom* is an expression that is neither a sum, nor a constant, nor a product with a constant. All
//! operations are exact; `None` says that a number left `i64`.

use crate::expr::{Expr, ExprKind, Operator};

/// A sum of atoms with coefficients, and a constant. No atom occurs twice, no coefficient is zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Linear {
    /// The atoms and their coefficients, in order of appearance.
    pub terms: Vec<(Expr, i64)>,
    /// The constant summand.
    pub constant: i64,
}

impl Linear {
    /// A constant.
    pub fn constant(value: i64) -> Linear {
        Linear { terms: Vec::new(), constant: value }
    }

    /// A single atom (an expression of any kind is split into its terms).
    pub fn from_expr(expr: &Expr) -> Option<Linear> {
        let mut sum = Linear::default();
        sum.add_expr(expr, 1)?;
        Some(sum)
    }

    /// Adds `factor * expr`, distributing over sums and products with constants.
    pub fn add_expr(&mut self, expr: &Expr, factor: i64) -> Option<()> {
        match expr.kind() {
            ExprKind::Constant(value) => {
                self.constant = self.constant.checked_add(value.checked_mul(factor)?)?;
                Some(())
            }
            ExprKind::Binary(Operator::Add, left, right) => {
                self.add_expr(left, factor)?;
                self.add_expr(right, factor)
            }
            ExprKind::Binary(Operator::Mul, left, right) => match right.as_constant() {
                Some(c) => self.add_expr(left, factor.checked_mul(c)?),
                None => self.add_atom(expr.clone(), factor),
            },
            ExprKind::Variable(_) | ExprKind::Binary(..) => self.add_atom(expr.clone(), factor),
        }
    }

    /// Adds `coefficient * atom`.
    pub fn add_atom(&mut self, atom: Expr, coefficient: i64) -> Option<()> {
        if coefficient == 0 {
            return Some(());
        }
        if let Some(i) = self.terms.iter().position(|(a, _)| *a == atom) {
            self.terms[i].1 = self.terms[i].1.checked_add(coefficient)?;
            if self.terms[i].1 == 0 {
                self.terms.remove(i);
            }
        } else {
            self.terms.push((atom, coefficient));
        }
        Some(())
    }

    /// Adds `factor * other`.
    pub fn add_scaled(&mut self, other: &Linear, factor: i64) -> Option<()> {
        for (atom, coefficient) in &other.terms {
            self.add_atom(atom.clone(), coefficient.checked_mul(factor)?)?;
        }
        self.constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        Some(())
    }

    /// The product with a constant.
    pub fn scaled(&self, factor: i64) -> Option<Linear> {
        let mut result = Linear::default();
        result.add_scaled(self, factor)?;
        Some(result)
    }

    /// The value, if there are no terms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The atom, if the sum is just that.
    pub fn as_atom(&self) -> Option<&Expr> {
        match self.terms.as_slice() {
            [(atom, 1)] if self.constant == 0 => Some(atom),
            _ => None,
        }
    }

    /// The coefficient of `atom`; zero if it does not occur.
    pub fn coefficient(&self, atom: &Expr) -> i64 {
        self.terms.iter().find(|(a, _)| a == atom).map_or(0, |(_, c)| *c)
    }

    /// The greatest common divisor of the coefficients; zero without terms.
    pub fn gcd(&self) -> i64 {
        self.terms.iter().fold(0, |g, (_, c)| gcd(g, *c))
    }

    /// Whether both have the same terms, whatever their constants.
    pub fn same_terms(&self, other: &Linear) -> bool {
        self.terms.len() == other.terms.len() && self.terms.iter().all(|(atom, c)| other.coefficient(atom) == *c)
    }

    /// The sum as an expression, the constant last: variables in their order if there is nothing else, else
    /// summands in the order of expressions.
    pub fn to_expr(&self) -> Expr {
        let summand = |(atom, c): &(Expr, i64)| atom.clone() * *c;
        let only_variables = self.terms.iter().all(|(atom, _)| atom.as_variable().is_some());
        let summands = if only_variables {
            let mut terms: Vec<&(Expr, i64)> = self.terms.iter().collect();
            terms.sort_by_key(|(atom, _)| atom.as_variable());
            terms.into_iter().map(summand).collect()
        } else {
            let mut summands: Vec<Expr> = self.terms.iter().map(summand).collect();
            summands.sort();
            summands
        };
        let mut summands = summands.into_iter();
        let Some(mut sum) = summands.next() else {
            return Expr::constant(self.constant);
        };
        for summand in summands {
            sum = sum + summand;
        }
        sum + self.constant
    }
}

/// The greatest common divisor, not negative; `gcd(0, x) = |x|`. The magnitude of `i64::MIN` counts as 1.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}
