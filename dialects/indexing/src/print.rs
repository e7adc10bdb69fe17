//! The text form of expressions and maps.
//!
//! Operators of the same strength are written without parentheses only in sums; a factor, dividend or divisor
//! that is itself composed is always parenthesised: `(d0 * 8 + d1) floordiv 4`, `(d0 mod 2) * 4 + d1`.

use std::fmt::{self, Display, Formatter};

use crate::expr::{Expr, ExprKind, Operator, Var};
use crate::map::{IndexingMap, Variable};

/// Writes expressions with the names of a map's variables.
pub(crate) struct Named<'a> {
    pub expr: &'a Expr,
    pub name: &'a dyn Fn(Var, &mut Formatter<'_>) -> fmt::Result,
}

/// The name of a variable that was given none.
pub(crate) fn default_name(variable: Var, f: &mut Formatter<'_>) -> fmt::Result {
    match variable {
        Var::Dim(i) => write!(f, "d{i}"),
        Var::Range(i) => write!(f, "s{i}"),
        Var::Runtime(i) => write!(f, "rt{i}"),
    }
}

impl Named<'_> {
    fn of(&self, expr: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
        match expr.kind() {
            ExprKind::Constant(value) => write!(f, "{value}"),
            ExprKind::Variable(variable) => (self.name)(variable, f),
            ExprKind::Binary(Operator::Add, left, right) => self.sum(left, right, f),
            ExprKind::Binary(Operator::Mul, left, right) if right.as_constant() == Some(-1) => {
                f.write_str("-")?;
                self.operand(left, f)
            }
            ExprKind::Binary(Operator::Mul, left, right) => self.infix(left, "*", right, f),
            ExprKind::Binary(Operator::FloorDiv, left, right) => self.infix(left, "floordiv", right, f),
            ExprKind::Binary(Operator::CeilDiv, left, right) => self.infix(left, "ceildiv", right, f),
            ExprKind::Binary(Operator::Mod, left, right) => self.infix(left, "mod", right, f),
            ExprKind::Binary(Operator::Max, left, right) => self.call("max", left, right, f),
            ExprKind::Binary(Operator::Min, left, right) => self.call("min", left, right, f),
        }
    }

    // a + -5 is written a - 5, and a + b * -5 is written a - b * 5.
    fn sum(&self, left: &Expr, right: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
        self.of(left, f)?;
        if let Some(value) = right.as_constant() {
            return match value {
                i64::MIN => write!(f, " + {value}"),
                value if value < 0 => write!(f, " - {}", -value),
                value => write!(f, " + {value}"),
            };
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

    fn infix(&self, left: &Expr, word: &str, right: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
        self.operand(left, f)?;
        write!(f, " {word} ")?;
        self.operand(right, f)
    }

    fn call(&self, word: &str, left: &Expr, right: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{word}(")?;
        self.of(left, f)?;
        f.write_str(", ")?;
        self.of(right, f)?;
        f.write_str(")")
    }

    fn operand(&self, expr: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
        match expr.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) | ExprKind::Binary(Operator::Max | Operator::Min, ..) => {
                self.of(expr, f)
            }
            ExprKind::Binary(..) => {
                f.write_str("(")?;
                self.of(expr, f)?;
                f.write_str(")")
            }
        }
    }
}

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.of(self.expr, f)
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Named { expr: self, name: &default_name }.fmt(f)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl IndexingMap {
    fn write_name(&self, variable: Var, f: &mut Formatter<'_>) -> fmt::Result {
        match self.variable(variable).and_then(|v| v.name.as_deref()) {
            Some(name) => f.write_str(name),
            None => default_name(variable, f),
        }
    }

    fn write_names(
        &self,
        open: &str,
        count: usize,
        variable: fn(u32) -> Var,
        close: &str,
        f: &mut Formatter<'_>,
    ) -> fmt::Result {
        f.write_str(open)?;
        for i in 0..count {
            if i > 0 {
                f.write_str(", ")?;
            }
            self.write_name(variable(i as u32), f)?;
        }
        f.write_str(close)
    }

    /// The map without its domain, as an affine map is written: `(d0)[s0] -> (d0 + s0)`.
    pub fn signature(&self) -> impl Display + '_ {
        struct Signature<'a>(&'a IndexingMap);
        impl Display for Signature<'_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let map = self.0;
                map.write_names("(", map.dims().len(), Var::Dim, ")", f)?;
                if !map.ranges().is_empty() {
                    map.write_names("[", map.ranges().len(), Var::Range, "]", f)?;
                }
                if !map.runtimes().is_empty() {
                    map.write_names("{", map.runtimes().len(), Var::Runtime, "}", f)?;
                }
                f.write_str(" -> (")?;
                for (i, expr) in map.results().iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{}", map.named(expr))?;
                }
                f.write_str(")")
            }
        }
        Signature(self)
    }

    /// An expression over this map's variables, with their names.
    pub fn named<'a>(&'a self, expr: &'a Expr) -> impl Display + 'a {
        struct InMap<'a>(&'a IndexingMap, &'a Expr);
        impl Display for InMap<'_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Named { expr: self.1, name: &|variable, f| self.0.write_name(variable, f) }.fmt(f)
            }
        }
        InMap(self, expr)
    }
}

impl Display for IndexingMap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_known_empty() {
            return f.write_str("KNOWN EMPTY");
        }
        write!(f, "{}", self.signature())?;
        let mut first = true;
        let mut separator = |f: &mut Formatter<'_>| {
            let text = if first { ", domain: " } else { ", " };
            first = false;
            f.write_str(text)
        };
        for variable in self.all_variables() {
            let bounds = self.variable(variable).map_or(crate::Interval::FULL, |v: &Variable| v.bounds);
            // A variable nothing is known about has no entry, as when the text gave none.
            if bounds != crate::Interval::FULL {
                separator(f)?;
                self.write_name(variable, f)?;
                write!(f, " in {bounds}")?;
            }
        }
        for constraint in self.constraints() {
            separator(f)?;
            write!(f, "{} in {}", self.named(&constraint.expr), constraint.interval)?;
        }
        Ok(())
    }
}
