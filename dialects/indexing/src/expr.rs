//! Integer expressions over the variables of an indexing map.
//!
//! An [`Expr`] is an immutable tree that is cheap to clone and needs no context. Constructors fold what costs
//! nothing (constants, neutral elements) and keep constants on the right of `+` and `*`; everything else is
//! the simplifier's work. The order of expressions ([`Ord`]) is the order in which sums are written.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use crate::interval::{ceil_div, floor_div};

/// A variable of a map: which list it is in, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Var {
    /// Dimension variable `d_i`.
    Dim(u32),
    /// Range variable `s_i`.
    Range(u32),
    /// Run-time variable `rt_i`.
    Runtime(u32),
}

/// The operators. Declared in the order in which the summands of a sum are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Quotient rounded towards negative infinity.
    FloorDiv,
    /// Quotient rounded towards positive infinity.
    CeilDiv,
    /// Remainder in `[0, divisor)`; the divisor is positive.
    Mod,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
}

/// An integer expression.
#[derive(Clone)]
pub struct Expr(Repr);

#[derive(Clone)]
enum Repr {
    Constant(i64),
    Variable(Var),
    Binary(Arc<Binary>),
}

struct Binary {
    operator: Operator,
    left: Expr,
    right: Expr,
}

/// What an expression is, for exhaustive matching.
#[derive(Debug, Clone, Copy)]
pub enum ExprKind<'a> {
    /// A constant.
    Constant(i64),
    /// A variable.
    Variable(Var),
    /// An operator and its operands.
    Binary(Operator, &'a Expr, &'a Expr),
}

impl Expr {
    /// A constant.
    pub fn constant(value: i64) -> Expr {
        Expr(Repr::Constant(value))
    }

    /// A variable.
    pub fn variable(variable: Var) -> Expr {
        Expr(Repr::Variable(variable))
    }

    /// Dimension variable `d_i`.
    pub fn dim(i: usize) -> Expr {
        Expr::variable(Var::Dim(i as u32))
    }

    /// Range variable `s_i`.
    pub fn range(i: usize) -> Expr {
        Expr::variable(Var::Range(i as u32))
    }

    /// Run-time variable `rt_i`.
    pub fn runtime(i: usize) -> Expr {
        Expr::variable(Var::Runtime(i as u32))
    }

    /// `operator(left, right)` after folding.
    pub fn binary(operator: Operator, left: Expr, right: Expr) -> Expr {
        match (operator, left.as_constant(), right.as_constant()) {
            (_, Some(a), Some(b)) => {
                if let Some(value) = apply(operator, a, b) {
                    return Expr::constant(value);
                }
            }
            (Operator::Add, Some(0), _) => return right,
            (Operator::Add, _, Some(0)) => return left,
            (Operator::Mul, Some(1), _) => return right,
            (Operator::Mul | Operator::FloorDiv | Operator::CeilDiv, _, Some(1)) => return left,
            (Operator::Mul, _, Some(0)) | (Operator::Mul, Some(0), _) => return Expr::constant(0),
            (Operator::Mod, _, Some(1)) => return Expr::constant(0),
            (Operator::Add | Operator::Mul, Some(_), None) => return Expr::binary(operator, right, left),
            (Operator::Mul, None, Some(b)) => {
                if let ExprKind::Binary(Operator::Mul, x, c) = left.kind() {
                    if let Some(product) = c.as_constant().and_then(|a| a.checked_mul(b)) {
                        return Expr::binary(Operator::Mul, x.clone(), Expr::constant(product));
                    }
                }
            }
            _ => {}
        }
        Expr(Repr::Binary(Arc::new(Binary { operator, left, right })))
    }

    /// `floor(self / divisor)`.
    pub fn floordiv(self, divisor: impl Into<Expr>) -> Expr {
        Expr::binary(Operator::FloorDiv, self, divisor.into())
    }

    /// `ceil(self / divisor)`.
    pub fn ceildiv(self, divisor: impl Into<Expr>) -> Expr {
        Expr::binary(Operator::CeilDiv, self, divisor.into())
    }

    /// `self mod divisor`, in `[0, divisor)`.
    pub fn modulo(self, divisor: impl Into<Expr>) -> Expr {
        Expr::binary(Operator::Mod, self, divisor.into())
    }

    /// The smaller of the two.
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        Expr::binary(Operator::Min, self, other.into())
    }

    /// The larger of the two.
    pub fn max(self, other: impl Into<Expr>) -> Expr {
        Expr::binary(Operator::Max, self, other.into())
    }

    /// What the expression is.
    pub fn kind(&self) -> ExprKind<'_> {
        match &self.0 {
            Repr::Constant(value) => ExprKind::Constant(*value),
            Repr::Variable(variable) => ExprKind::Variable(*variable),
            Repr::Binary(binary) => ExprKind::Binary(binary.operator, &binary.left, &binary.right),
        }
    }

    /// The value, if this is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.0 {
            Repr::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The variable, if this is one.
    pub fn as_variable(&self) -> Option<Var> {
        match self.0 {
            Repr::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// The operands, if this is `operator` applied to an expression and a constant.
    pub fn as_binary_with_constant(&self, operator: Operator) -> Option<(&Expr, i64)> {
        match self.kind() {
            ExprKind::Binary(op, left, right) if op == operator => right.as_constant().map(|c| (left, c)),
            _ => None,
        }
    }

    /// The value at a point; `None` for a division by zero, `mod` by a number that is not positive, overflow,
    /// or a variable beyond the lists.
    pub fn evaluate(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> Option<i64> {
        match self.kind() {
            ExprKind::Constant(value) => Some(value),
            ExprKind::Variable(Var::Dim(i)) => dims.get(i as usize).copied(),
            ExprKind::Variable(Var::Range(i)) => ranges.get(i as usize).copied(),
            ExprKind::Variable(Var::Runtime(i)) => runtimes.get(i as usize).copied(),
            ExprKind::Binary(operator, left, right) => {
                apply(operator, left.evaluate(dims, ranges, runtimes)?, right.evaluate(dims, ranges, runtimes)?)
            }
        }
    }

    /// The expression with every variable for which `replacement` has one replaced by it.
    pub fn substitute(&self, replacement: &dyn Fn(Var) -> Option<Expr>) -> Expr {
        match self.kind() {
            ExprKind::Constant(_) => self.clone(),
            ExprKind::Variable(variable) => replacement(variable).unwrap_or_else(|| self.clone()),
            ExprKind::Binary(operator, left, right) => {
                let new_left = left.substitute(replacement);
                let new_right = right.substitute(replacement);
                if new_left.is(left) && new_right.is(right) {
                    self.clone()
                } else {
                    Expr::binary(operator, new_left, new_right)
                }
            }
        }
    }

    /// The expression with `d_i` replaced by `dims[i]`; further dimensions stay.
    pub fn substitute_dims(&self, dims: &[Expr]) -> Expr {
        self.substitute(&|variable| match variable {
            Var::Dim(i) => dims.get(i as usize).cloned(),
            Var::Range(_) | Var::Runtime(_) => None,
        })
    }

    /// Calls `visit` for each variable occurrence.
    pub fn visit_variables(&self, visit: &mut dyn FnMut(Var)) {
        match self.kind() {
            ExprKind::Constant(_) => {}
            ExprKind::Variable(variable) => visit(variable),
            ExprKind::Binary(_, left, right) => {
                left.visit_variables(visit);
                right.visit_variables(visit);
            }
        }
    }

    /// The variables that occur, in order, each once.
    pub fn variables(&self) -> Vec<Var> {
        let mut found = Vec::new();
        self.visit_variables(&mut |variable| found.push(variable));
        found.sort();
        found.dedup();
        found
    }

    /// Whether `variable` occurs.
    pub fn uses(&self, variable: Var) -> bool {
        match self.kind() {
            ExprKind::Constant(_) => false,
            ExprKind::Variable(v) => v == variable,
            ExprKind::Binary(_, left, right) => left.uses(variable) || right.uses(variable),
        }
    }

    /// The number of nodes of the tree, a measure of its cost.
    pub fn size(&self) -> usize {
        match self.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) => 1,
            ExprKind::Binary(_, left, right) => 1 + left.size() + right.size(),
        }
    }

    /// The height of the tree. Functions of this crate recurse that deep.
    pub fn depth(&self) -> usize {
        match self.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) => 1,
            ExprKind::Binary(_, left, right) => 1 + left.depth().max(right.depth()),
        }
    }

    fn is(&self, other: &Expr) -> bool {
        match (&self.0, &other.0) {
            (Repr::Constant(a), Repr::Constant(b)) => a == b,
            (Repr::Variable(a), Repr::Variable(b)) => a == b,
            (Repr::Binary(a), Repr::Binary(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The operator on two values; `None` where it has none in `i64`.
fn apply(operator: Operator, a: i64, b: i64) -> Option<i64> {
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Mul => a.checked_mul(b),
        Operator::FloorDiv => (b != 0 && (a, b) != (i64::MIN, -1)).then(|| floor_div(a, b)),
        Operator::CeilDiv => (b != 0 && (a, b) != (i64::MIN, -1)).then(|| ceil_div(a, b)),
        Operator::Mod => (b > 0).then(|| a.rem_euclid(b)),
        Operator::Max => Some(a.max(b)),
        Operator::Min => Some(a.min(b)),
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        match (&self.0, &other.0) {
            (Repr::Constant(a), Repr::Constant(b)) => a == b,
            (Repr::Variable(a), Repr::Variable(b)) => a == b,
            (Repr::Binary(a), Repr::Binary(b)) => {
                Arc::ptr_eq(a, b) || (a.operator == b.operator && a.left == b.left && a.right == b.right)
            }
            _ => false,
        }
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.kind() {
            ExprKind::Constant(value) => (0u8, value).hash(state),
            ExprKind::Variable(variable) => (1u8, variable).hash(state),
            ExprKind::Binary(operator, left, right) => {
                (2u8, operator).hash(state);
                left.hash(state);
                right.hash(state);
            }
        }
    }
}

impl Ord for Expr {
    /// Operators in their declared order, then variables, then constants; operands decide among equals.
    fn cmp(&self, other: &Expr) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Binary(a), Repr::Binary(b)) => {
                if Arc::ptr_eq(a, b) {
                    return Ordering::Equal;
                }
                a.operator.cmp(&b.operator).then_with(|| a.left.cmp(&b.left)).then_with(|| a.right.cmp(&b.right))
            }
            (Repr::Binary(_), _) => Ordering::Less,
            (_, Repr::Binary(_)) => Ordering::Greater,
            (Repr::Variable(a), Repr::Variable(b)) => a.cmp(b),
            (Repr::Variable(_), Repr::Constant(_)) => Ordering::Less,
            (Repr::Constant(_), Repr::Variable(_)) => Ordering::Greater,
            (Repr::Constant(a), Repr::Constant(b)) => a.cmp(b),
        }
    }
}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Expr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::constant(value)
    }
}

impl From<Var> for Expr {
    fn from(variable: Var) -> Expr {
        Expr::variable(variable)
    }
}

impl<T: Into<Expr>> Add<T> for Expr {
    type Output = Expr;
    fn add(self, other: T) -> Expr {
        Expr::binary(Operator::Add, self, other.into())
    }
}

impl<T: Into<Expr>> Sub<T> for Expr {
    type Output = Expr;
    fn sub(self, other: T) -> Expr {
        Expr::binary(Operator::Add, self, -other.into())
    }
}

impl<T: Into<Expr>> Mul<T> for Expr {
    type Output = Expr;
    fn mul(self, other: T) -> Expr {
        Expr::binary(Operator::Mul, self, other.into())
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::binary(Operator::Mul, self, Expr::constant(-1))
    }
}
