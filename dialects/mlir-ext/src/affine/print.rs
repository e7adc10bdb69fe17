//! The text form of expressions.
//!
//! Operators of the same strength are written without parentheses only in sums; a factor, dividend or divisor
//! that is itself composed is always parenthesised: `(d0 * 8 + d1) floordiv 4`, `(d0 mod 2) * 4 + d1`.

use std::fmt::{self, Debug, Display, Formatter};

use super::{Expr, ExprKind, Operator, Var};

/// Writes an expression with names of its variables.
pub struct Named<'a, 'c> {
    /// The expression.
    pub expr: Expr<'c>,
    /// Writes the name of a variable.
    pub name: &'a dyn Fn(Var, &mut Formatter<'_>) -> fmt::Result,
}

impl<'c> Named<'_, 'c> {
    fn of(&self, expr: Expr<'c>, f: &mut Formatter<'_>) -> fmt::Result {
        match expr.kind() {
            ExprKind::Constant(value) => write!(f, "{value}"),
            ExprKind::Variable(variable) => (self.name)(variable, f),
            ExprKind::Binary(Operator::Add, ..) => self.sum(expr, f),
            ExprKind::Binary(Operator::Mul, left, right) if right.as_constant() == Some(-1) => {
                f.write_str("-")?;
                self.operand(left, f)
            }
            ExprKind::Binary(Operator::Mul, left, right) => self.infix(left, "*", right, f),
            ExprKind::Binary(Operator::FloorDiv, left, right) => self.infix(left, "floordiv", right, f),
            ExprKind::Binary(Operator::CeilDiv, left, right) => self.infix(left, "ceildiv", right, f),
            ExprKind::Binary(Operator::Mod, left, right) => self.infix(left, "mod", right, f),
        }
    }

    // MLIR moves a symbolic summand behind the dimension that it meets first. Where more dimensions follow, it is
    // written before all of them: s0 * 4 + d0 + d1, which reads as the same expression.
    fn sum(&self, expr: Expr<'c>, f: &mut Formatter<'_>) -> fmt::Result {
        let mut summands = Vec::new();
        let mut first = expr;
        while let ExprKind::Binary(Operator::Add, left, right) = first.kind() {
            summands.push(right);
            first = left;
        }
        summands.push(first);
        summands.reverse();
        let among_dimensions = |summands: &[Expr<'c>]| match summands {
            [before, symbolic, after, ..] => {
                let is_sum = matches!(symbolic.kind(), ExprKind::Binary(Operator::Add, ..));
                !before.is_symbolic() && symbolic.is_symbolic() && !is_sum && !after.is_symbolic()
            }
            _ => false,
        };
        if among_dimensions(&summands) {
            summands.swap(0, 1);
        }
        for (i, &summand) in summands.iter().enumerate() {
            if i == 0 { self.of(summand, f)? } else { self.later_summand(summand, f)? }
        }
        Ok(())
    }

    // a + -5 is written a - 5, and a + b * -5 is written a - b * 5.
    fn later_summand(&self, right: Expr<'c>, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(value) = right.as_constant() {
            return match value {
                i64::MIN => write!(f, " + {value}"),
                value if value < 0 => write!(f, " - {}", -value),
                value => write!(f, " + {value}"),
            };
        }
        match right.kind() {
            // MLIR keeps a symbolic sum together: d0 + (s0 - s1).
            ExprKind::Binary(Operator::Add, ..) => {
                f.write_str(" + ")?;
                return self.operand(right, f);
            }
            ExprKind::Constant(_) | ExprKind::Variable(_) | ExprKind::Binary(..) => {}
        }
        match right.as_binary_with_constant(Operator::Mul) {
            Some((factor, -1)) => {
                f.write_str(" - ")?;
                self.operand(factor, f)
            }
            Some((factor, c)) if c < 0 && c != i64::MIN => {
                f.write_str(" - ")?;
                self.operand(factor, f)?;
                write!(f, " * {}", -c)
            }
            _ => {
                f.write_str(" + ")?;
                self.of(right, f)
            }
        }
    }

    fn infix(&self, left: Expr<'c>, word: &str, right: Expr<'c>, f: &mut Formatter<'_>) -> fmt::Result {
        self.operand(left, f)?;
        write!(f, " {word} ")?;
        self.operand(right, f)
    }

    fn operand(&self, expr: Expr<'c>, f: &mut Formatter<'_>) -> fmt::Result {
        match expr.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) => self.of(expr, f),
            ExprKind::Binary(..) => {
                f.write_str("(")?;
                self.of(expr, f)?;
                f.write_str(")")
            }
        }
    }
}

impl Display for Named<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.of(self.expr, f)
    }
}

impl Display for Expr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |variable, f: &mut Formatter<'_>| match variable {
            Var::Dim(i) => write!(f, "d{i}"),
            Var::Symbol(i) => write!(f, "s{i}"),
        };
        Named { expr: *self, name: &name }.fmt(f)
    }
}

impl Debug for Expr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
