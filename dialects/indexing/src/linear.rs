//! Sums as lists of terms: `c_0 * atom_0 + … + constant`.
//!
//! An *atom* is an expression that is neither a sum, nor a constant, nor a product with a constant. All
//! operations are exact; `None` says that a number left `i64`.

use melior::Context;
use mlir_ext::affine::{Expr, ExprKind, Operator};

/// A sum of atoms with coefficients, and a constant. No atom occurs twice, no coefficient is zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Linear<'c> {
    /// The atoms and their coefficients, in order of appearance.
    pub terms: Vec<(Expr<'c>, i64)>,
    /// The constant summand.
    pub constant: i64,
}

impl<'c> Linear<'c> {
    /// A constant.
    pub fn constant(value: i64) -> Self {
        Linear { terms: Vec::new(), constant: value }
    }

    /// A single atom.
    pub(crate) fn atom(atom: Expr<'c>) -> Self {
        Linear { terms: vec![(atom, 1)], constant: 0 }
    }

    /// An expression split into its terms.
    pub fn from_expr(expr: Expr<'c>) -> Option<Self> {
        let mut sum = Linear::default();
        sum.add_expr(expr, 1)?;
        Some(sum)
    }

    /// Adds `factor * expr`, distributing over sums and products with constants.
    pub fn add_expr(&mut self, expr: Expr<'c>, factor: i64) -> Option<()> {
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
                None => self.add_atom(expr, factor),
            },
            ExprKind::Variable(_) | ExprKind::Binary(..) => self.add_atom(expr, factor),
        }
    }

    /// Adds `coefficient * atom`.
    pub fn add_atom(&mut self, atom: Expr<'c>, coefficient: i64) -> Option<()> {
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
    pub fn add_scaled(&mut self, other: &Linear<'c>, factor: i64) -> Option<()> {
        for &(atom, coefficient) in &other.terms {
            self.add_atom(atom, coefficient.checked_mul(factor)?)?;
        }
        self.constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        Some(())
    }

    /// The product with a constant.
    pub fn scaled(&self, factor: i64) -> Option<Self> {
        let mut result = Linear::default();
        result.add_scaled(self, factor)?;
        Some(result)
    }

    /// The value, if there are no terms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The atom, if the sum is just that.
    pub fn as_atom(&self) -> Option<Expr<'c>> {
        match self.terms.as_slice() {
            &[(atom, 1)] if self.constant == 0 => Some(atom),
            _ => None,
        }
    }

    /// The coefficient of `atom`; zero if it does not occur.
    pub fn coefficient(&self, atom: Expr<'c>) -> i64 {
        self.terms.iter().find(|(a, _)| *a == atom).map_or(0, |(_, c)| *c)
    }

    /// The greatest common divisor of the coefficients; zero without terms.
    pub fn gcd(&self) -> i64 {
        self.terms.iter().fold(0, |g, (_, c)| gcd(g, *c))
    }

    /// Whether both have the same terms, whatever their constants.
    pub fn same_terms(&self, other: &Linear<'c>) -> bool {
        self.terms.len() == other.terms.len() && self.terms.iter().all(|&(atom, c)| other.coefficient(atom) == c)
    }

    /// The sum as an expression, the constant last: summands in the order of expressions; those without dimensions at
    /// the end, where MLIR puts them.
    pub fn to_expr(&self, context: &'c Context) -> Expr<'c> {
        let mut summands: Vec<Expr<'c>> = self.terms.iter().map(|&(atom, c)| atom * c).collect();
        summands.sort_unstable();
        summands.sort_by_key(|summand| summand.is_symbolic());
        match summands.into_iter().reduce(|sum, summand| sum + summand) {
            Some(sum) => sum + self.constant,
            None => Expr::constant(context, self.constant),
        }
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
