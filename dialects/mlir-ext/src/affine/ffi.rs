//! Calls of `capi/Affine.cpp`, and constants in the context of an expression.

use melior::ir::{AffineExpr, AffineMap};
use mlir_sys::{MlirAffineExpr, MlirAffineMap, mlirAffineConstantExprGet, mlirAffineExprGetContext};

use super::{Expr, ExprKind, Operator, Var};

#[repr(C)]
struct Inspected {
    kind: i64,
    value: i64,
    left: MlirAffineExpr,
    right: MlirAffineExpr,
}

unsafe extern "C" {
    fn haloAffineExprInspect(expr: MlirAffineExpr) -> Inspected;
    fn haloAffineMapGetResults(map: MlirAffineMap, count: *mut isize) -> *const MlirAffineExpr;
}

/// What an expression is.
pub(super) fn kind<'c>(expr: Expr<'c>) -> ExprKind<'c> {
    // SAFETY: the expression lives as long as its context.
    let found = unsafe { haloAffineExprInspect(expr.0) };
    // `mlir::AffineExprKind`, which has no other values.
    let operator = match found.kind {
        0 => Operator::Add,
        1 => Operator::Mul,
        2 => Operator::Mod,
        3 => Operator::FloorDiv,
        4 => Operator::CeilDiv,
        6 => return ExprKind::Variable(Var::Dim(found.value as u32)),
        7 => return ExprKind::Variable(Var::Symbol(found.value as u32)),
        _ => return ExprKind::Constant(found.value),
    };
    // SAFETY: operands of an operator are expressions of the same context.
    let operand = |raw| Expr::from(unsafe { AffineExpr::<'c>::from_raw(raw) });
    ExprKind::Binary(operator, operand(found.left), operand(found.right))
}

/// The expression as melior's.
pub(super) fn unchecked<'c>(expr: Expr<'c>) -> AffineExpr<'c> {
    // SAFETY: the expression lives as long as its context.
    unsafe { AffineExpr::from_raw(expr.0) }
}

/// A constant in the context of an expression.
pub(super) fn constant_beside<'c>(expr: Expr<'c>, value: i64) -> Expr<'c> {
    // SAFETY: the expression lives as long as its context, and so will the constant.
    Expr::from(unsafe {
        AffineExpr::<'c>::from_raw(mlirAffineConstantExprGet(mlirAffineExprGetContext(expr.0), value))
    })
}

/// The results of a map.
pub(super) fn results<'c>(map: AffineMap<'c>) -> &'c [Expr<'c>] {
    let mut count = 0;
    // SAFETY: the map is live; its results are stored beside it in the context.
    let first = unsafe { haloAffineMapGetResults(map.to_raw(), &mut count) };
    if count == 0 {
        return &[];
    }
    // SAFETY: there are so many results, an `Expr` is a `MlirAffineExpr`, and the context lives for 'c.
    unsafe { std::slice::from_raw_parts(first.cast::<Expr<'c>>(), count.unsigned_abs()) }
}
