//! Affine expressions of MLIR, checked: [`Expr`] is `mlir::AffineExpr`.
//!
//! melior's accessors assume that the caller knows what an expression is: `lhs` of a dimension crashes, the
//! `dim_position` of a constant is 0. [`Expr::kind`] looks first, in one call. Expressions are uniqued in their
//! context: they are `Copy`, and equal if they are the same pointer.
//!
//! Constructors fold as MLIR does, and are total: a product of two dimensions or a division by zero stays as it is
//! written, and where a folded constant would leave 64 bits, its parts stay apart, so that the expression has no value.

mod ffi;
mod print;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Add, Mul, Neg, Sub};

use melior::Context;
use melior::ir::{AffineExpr, AffineMap};
use mlir_sys::MlirAffineExpr;

pub use print::Named;

/// A variable of an affine map: which list it is in, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Var {
    /// Dimension.
    Dim(u32),
    /// Symbol.
    Symbol(u32),
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
}

/// An affine expression.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Expr<'c>(MlirAffineExpr, PhantomData<&'c Context>);

/// What an expression is, for exhaustive matching.
#[derive(Debug, Clone, Copy)]
pub enum ExprKind<'c> {
    /// A constant.
    Constant(i64),
    /// A variable.
    Variable(Var),
    /// An operator and its operands.
    Binary(Operator, Expr<'c>, Expr<'c>),
}

impl<'c> Expr<'c> {
    /// A constant.
    pub fn constant(context: &'c Context, value: i64) -> Self {
        AffineExpr::constant(context, value).into()
    }

    /// A variable.
    pub fn variable(context: &'c Context, variable: Var) -> Self {
        match variable {
            Var::Dim(i) => Expr::dim(context, i as usize),
            Var::Symbol(i) => Expr::symbol(context, i as usize),
        }
    }

    /// Dimension `d_i`.
    pub fn dim(context: &'c Context, i: usize) -> Self {
        AffineExpr::dim(context, i).into()
    }

    /// Symbol `s_i`.
    pub fn symbol(context: &'c Context, i: usize) -> Self {
        AffineExpr::symbol(context, i).into()
    }

    /// A constant in the context of this expression.
    pub fn constant_beside(self, value: i64) -> Self {
        ffi::constant_beside(self, value)
    }

    /// `operator(left, right)`, folded.
    pub fn binary(operator: Operator, left: Self, right: Self) -> Self {
        match operator {
            Operator::Add => add(left, right),
            Operator::Mul => multiply(left, right),
            // MLIR folds (x * c) floordiv -1 by a machine division, which has no result for the least c.
            Operator::FloorDiv | Operator::CeilDiv if right.as_constant() == Some(-1) => multiply(left, right),
            Operator::FloorDiv => AffineExpr::floor_div(left.into(), right.into()).into(),
            Operator::CeilDiv => AffineExpr::ceil_div(left.into(), right.into()).into(),
            Operator::Mod => AffineExpr::modulo(left.into(), right.into()).into(),
        }
    }

    /// `floor(self / divisor)`.
    pub fn floordiv(self, divisor: i64) -> Self {
        Expr::binary(Operator::FloorDiv, self, self.constant_beside(divisor))
    }

    /// `ceil(self / divisor)`.
    pub fn ceildiv(self, divisor: i64) -> Self {
        Expr::binary(Operator::CeilDiv, self, self.constant_beside(divisor))
    }

    /// `self mod divisor`, in `[0, divisor)`.
    pub fn modulo(self, divisor: i64) -> Self {
        Expr::binary(Operator::Mod, self, self.constant_beside(divisor))
    }

    /// MLIR's handle.
    pub(crate) fn to_raw(self) -> MlirAffineExpr {
        self.0
    }

    /// What the expression is.
    pub fn kind(self) -> ExprKind<'c> {
        ffi::kind(self)
    }

    /// The value, if this is a constant.
    pub fn as_constant(self) -> Option<i64> {
        match self.kind() {
            ExprKind::Constant(value) => Some(value),
            ExprKind::Variable(_) | ExprKind::Binary(..) => None,
        }
    }

    /// The variable, if this is one.
    pub fn as_variable(self) -> Option<Var> {
        match self.kind() {
            ExprKind::Variable(variable) => Some(variable),
            ExprKind::Constant(_) | ExprKind::Binary(..) => None,
        }
    }

    /// The operands, if this is `operator` applied to an expression and a constant.
    pub fn as_binary_with_constant(self, operator: Operator) -> Option<(Self, i64)> {
        match self.kind() {
            ExprKind::Binary(op, left, right) if op == operator => right.as_constant().map(|c| (left, c)),
            _ => None,
        }
    }

    /// Whether no dimension occurs.
    pub fn is_symbolic(self) -> bool {
        AffineExpr::from(self).is_symbolic_or_constant()
    }

    /// The value at a point; `None` for a division by zero, `mod` by a number that is not positive, overflow,
    /// or a variable beyond the lists.
    pub fn evaluate(self, dims: &[i64], symbols: &[i64]) -> Option<i64> {
        let (operator, left, right) = match self.kind() {
            ExprKind::Constant(value) => return Some(value),
            ExprKind::Variable(Var::Dim(i)) => return dims.get(i as usize).copied(),
            ExprKind::Variable(Var::Symbol(i)) => return symbols.get(i as usize).copied(),
            ExprKind::Binary(operator, left, right) => (operator, left, right),
        };
        let (a, b) = (left.evaluate(dims, symbols)?, right.evaluate(dims, symbols)?);
        match operator {
            Operator::Add => a.checked_add(b),
            Operator::Mul => a.checked_mul(b),
            Operator::FloorDiv => {
                let quotient = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
            }
            Operator::CeilDiv => {
                let quotient = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) == (b < 0) { quotient + 1 } else { quotient })
            }
            Operator::Mod => (b > 0).then(|| a.rem_euclid(b)),
        }
    }

    /// The expression with `d_i` replaced by `dims[i]` and `s_i` by `symbols[i]`; variables beyond the lists stay.
    pub fn replace(self, dims: &[Self], symbols: &[Self]) -> Self {
        self.substitute(&|variable| match variable {
            Var::Dim(i) => dims.get(i as usize).copied(),
            Var::Symbol(i) => symbols.get(i as usize).copied(),
        })
    }

    /// The expression with every variable for which `replacement` has one replaced by it.
    pub fn substitute(self, replacement: &dyn Fn(Var) -> Option<Self>) -> Self {
        match self.kind() {
            ExprKind::Constant(_) => self,
            ExprKind::Variable(variable) => replacement(variable).unwrap_or(self),
            ExprKind::Binary(operator, left, right) => {
                let (new_left, new_right) = (left.substitute(replacement), right.substitute(replacement));
                match new_left == left && new_right == right {
                    true => self,
                    false => Expr::binary(operator, new_left, new_right),
                }
            }
        }
    }

    /// Calls `visit` for each variable occurrence.
    pub fn visit_variables(self, visit: &mut dyn FnMut(Var)) {
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
    pub fn variables(self) -> Vec<Var> {
        let mut found = Vec::new();
        self.visit_variables(&mut |variable| found.push(variable));
        found.sort();
        found.dedup();
        found
    }

    /// Whether `variable` occurs.
    pub fn uses(self, variable: Var) -> bool {
        match self.kind() {
            ExprKind::Constant(_) => false,
            ExprKind::Variable(v) => v == variable,
            ExprKind::Binary(_, left, right) => left.uses(variable) || right.uses(variable),
        }
    }

    /// The number of nodes of the tree, a measure of its cost.
    pub fn size(self) -> usize {
        match self.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) => 1,
            ExprKind::Binary(_, left, right) => 1 + left.size() + right.size(),
        }
    }

    /// The height of the tree. Functions on expressions recurse that deep.
    pub fn depth(self) -> usize {
        match self.kind() {
            ExprKind::Constant(_) | ExprKind::Variable(_) => 1,
            ExprKind::Binary(_, left, right) => 1 + left.depth().max(right.depth()),
        }
    }

    /// The factor and constant of a product with a constant; the expression and 1 for any other.
    fn coefficient(self) -> (Self, i64) {
        self.as_binary_with_constant(Operator::Mul).unwrap_or((self, 1))
    }
}

/// A sum, for which MLIR adds constants and coefficients without a check.
fn add<'c>(left: Expr<'c>, right: Expr<'c>) -> Expr<'c> {
    let raw = |left: Expr<'c>, right: Expr<'c>| Expr::from(AffineExpr::from(left) + AffineExpr::from(right));
    let (left, right) = if left.as_constant().is_some() { (right, left) } else { (left, right) };
    let constant = right.as_constant();
    match (left.as_binary_with_constant(Operator::Add), constant) {
        (Some((x, a)), Some(b)) if a.checked_add(b).is_none() => return raw(x, raw(left.constant_beside(a), right)),
        (Some((x, a)), None) => return add(add(x, right), left.constant_beside(a)),
        (Some(_), Some(_)) | (None, _) => {}
    }
    if constant.is_none() {
        let ((x, a), (y, b)) = (left.coefficient(), right.coefficient());
        if x == y && a.checked_add(b).is_none() {
            return raw_product(x, raw(x.constant_beside(a), x.constant_beside(b)));
        }
    }
    raw(left, right)
}

/// A product, for which MLIR multiplies constants without a check.
fn multiply<'c>(left: Expr<'c>, right: Expr<'c>) -> Expr<'c> {
    let (left, right) = if left.as_constant().is_some() { (right, left) } else { (left, right) };
    if let (Some((x, a)), Some(b)) = (left.as_binary_with_constant(Operator::Mul), right.as_constant())
        && a.checked_mul(b).is_none()
    {
        return raw_product(x, raw_product(left.constant_beside(a), right));
    }
    raw_product(left, right)
}

fn raw_product<'c>(left: Expr<'c>, right: Expr<'c>) -> Expr<'c> {
    (AffineExpr::from(left) * AffineExpr::from(right)).into()
}

impl<'c> From<AffineExpr<'c>> for Expr<'c> {
    fn from(expr: AffineExpr<'c>) -> Self {
        Expr(expr.to_raw(), PhantomData)
    }
}

impl<'c> From<Expr<'c>> for AffineExpr<'c> {
    fn from(expr: Expr<'c>) -> Self {
        ffi::unchecked(expr)
    }
}

impl PartialEq for Expr<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr == other.0.ptr
    }
}

impl Eq for Expr<'_> {}

impl Hash for Expr<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.ptr.hash(state);
    }
}

impl Ord for Expr<'_> {
    /// Operators in their declared order, then variables, then constants; operands decide among equals. So the order
    /// is the same in every context.
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        match (self.kind(), other.kind()) {
            (ExprKind::Binary(a, a_left, a_right), ExprKind::Binary(b, b_left, b_right)) => {
                a.cmp(&b).then_with(|| a_left.cmp(&b_left)).then_with(|| a_right.cmp(&b_right))
            }
            (ExprKind::Binary(..), _) => Ordering::Less,
            (_, ExprKind::Binary(..)) => Ordering::Greater,
            (ExprKind::Variable(a), ExprKind::Variable(b)) => a.cmp(&b),
            (ExprKind::Variable(_), ExprKind::Constant(_)) => Ordering::Less,
            (ExprKind::Constant(_), ExprKind::Variable(_)) => Ordering::Greater,
            (ExprKind::Constant(a), ExprKind::Constant(b)) => a.cmp(&b),
        }
    }
}

impl PartialOrd for Expr<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Add for Expr<'_> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Expr::binary(Operator::Add, self, other)
    }
}

impl Add<i64> for Expr<'_> {
    type Output = Self;
    fn add(self, other: i64) -> Self {
        self + self.constant_beside(other)
    }
}

impl Sub for Expr<'_> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Sub<i64> for Expr<'_> {
    type Output = Self;
    fn sub(self, other: i64) -> Self {
        self - self.constant_beside(other)
    }
}

impl Mul for Expr<'_> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Expr::binary(Operator::Mul, self, other)
    }
}

impl Mul<i64> for Expr<'_> {
    type Output = Self;
    fn mul(self, other: i64) -> Self {
        self * self.constant_beside(other)
    }
}

impl Neg for Expr<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1
    }
}

/// The results of a map.
pub fn results<'c>(map: AffineMap<'c>) -> &'c [Expr<'c>] {
    ffi::results(map)
}

/// A map, also one without results. Variables that occur are within `dims` and `symbols`.
pub fn map<'c>(context: &'c Context, dims: usize, symbols: usize, results: &[Expr<'c>]) -> AffineMap<'c> {
    if results.is_empty() {
        return AffineMap::zero_result(context, dims, symbols);
    }
    let results: Vec<AffineExpr<'c>> = results.iter().map(|&expr| expr.into()).collect();
    AffineMap::new(context, dims, symbols, &results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_before_it_takes_apart() {
        let context = Context::new();
        let d0 = Expr::dim(&context, 0);
        assert!(matches!(d0.kind(), ExprKind::Variable(Var::Dim(0))));
        assert!(matches!(Expr::constant(&context, -42).kind(), ExprKind::Constant(-42)));
        assert!(matches!(Expr::symbol(&context, 3).kind(), ExprKind::Variable(Var::Symbol(3))));
        let built = [
            (Operator::Add, d0 + Expr::dim(&context, 1)),
            (Operator::Mul, d0 * 3),
            (Operator::FloorDiv, d0.floordiv(3)),
            (Operator::CeilDiv, d0.ceildiv(3)),
            (Operator::Mod, d0.modulo(3)),
        ];
        for (operator, expr) in built {
            let ExprKind::Binary(found, left, _) = expr.kind() else { panic!("{expr} is an operator's") };
            assert_eq!((found, left), (operator, d0));
        }
        assert_eq!((d0.modulo(8) * 3).evaluate(&[-3], &[]), Some(15));
        assert_eq!((d0.modulo(8) * 3).evaluate(&[], &[]), None);
        let map = map(&context, 1, 0, &[d0, d0 * 3]);
        assert_eq!(results(map), [d0, d0 * 3]);
        assert_eq!(results(super::map(&context, 2, 0, &[])), []);
    }

    #[test]
    fn constructors_are_total() {
        let context = Context::new();
        let (d0, d1) = (Expr::dim(&context, 0), Expr::dim(&context, 1));
        assert_eq!((d0 * d1).to_string(), "d0 * d1");
        assert_eq!(d0.modulo(0).evaluate(&[1], &[]), None);
        // Where MLIR's folding would wrap, or divide the least number by -1.
        for expr in [
            (d0 + i64::MAX) + 1,
            d0 * i64::MAX * 2,
            d0 * i64::MAX + d0,
            (d0 * i64::MAX + 2) + d0 * i64::MAX,
            (d0 * i64::MIN).floordiv(-1),
            Expr::constant(&context, i64::MAX) + 1,
        ] {
            assert_eq!(expr.evaluate(&[1], &[]), None, "{expr}");
        }
        assert_eq!(((d0 + i64::MAX) + 1).evaluate(&[0], &[]), None);
        assert_eq!((d0 * 8).floordiv(-1).to_string(), "d0 * -8");
    }

    #[test]
    fn the_order_does_not_depend_on_the_context() {
        let order = |first: usize| {
            let context = Context::new();
            let leaf = |i: usize| Expr::dim(&context, (i + first) % 3);
            // Made in another order each time.
            let mut exprs: Vec<Expr<'_>> = (0..3).flat_map(|i| [leaf(i), leaf(i) * 2, leaf(i).modulo(4)]).collect();
            exprs.sort();
            exprs.iter().map(Expr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(order(0), order(1));
        assert_eq!(order(0)[..4], ["d0 * 2", "d1 * 2", "d2 * 2", "d0 mod 4"]);
    }
}
