//! A checked view of `mlir::AffineExpr` and `mlir::AffineMap`.
//!
//! melior's accessors assume that the caller knows what an expression is: `lhs` of a dimension crashes, the
//! `dim_position` of a constant is 0. [`kind`] looks first; [`binary`] refuses what MLIR's constructors would
//! assert on.

use melior::Context;
use melior::ir::{AffineExpr, AffineMap};
use thiserror::Error;

/// The operators of affine expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AffineOperator {
    /// Sum.
    Add,
    /// Product; one operand has no dimension in it.
    Mul,
    /// Quotient rounded towards negative infinity.
    FloorDiv,
    /// Quotient rounded towards positive infinity.
    CeilDiv,
    /// Remainder, not negative.
    Mod,
}

/// What an affine expression is.
#[derive(Debug, Clone, Copy)]
pub enum AffineKind<'c> {
    /// A constant.
    Constant(i64),
    /// Dimension by position.
    Dim(usize),
    /// Symbol by position.
    Symbol(usize),
    /// An operator and its operands.
    Binary(AffineOperator, AffineExpr<'c>, AffineExpr<'c>),
}

/// An expression that MLIR does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AffineError {
    /// A product of two expressions with dimensions in them.
    #[error("a product in an affine expression needs a factor without dimensions")]
    NonLinearProduct,
    /// A divisor with dimensions in it.
    #[error("a divisor in an affine expression must not contain dimensions")]
    DivisorWithDimensions,
    /// A remainder by, or a quotient by, a constant that is not allowed.
    #[error("{0} is not allowed as a constant divisor in an affine expression")]
    Divisor(i64),
}

/// Looks at an expression.
pub fn kind<'c>(expr: AffineExpr<'c>) -> AffineKind<'c> {
    if expr.is_constant() {
        return AffineKind::Constant(expr.constant_value());
    }
    if expr.is_dim() {
        return AffineKind::Dim(expr.dim_position());
    }
    if expr.is_symbol() {
        return AffineKind::Symbol(expr.symbol_position());
    }
    let operator = if expr.is_add() {
        AffineOperator::Add
    } else if expr.is_mul() {
        AffineOperator::Mul
    } else if expr.is_floor_div() {
        AffineOperator::FloorDiv
    } else if expr.is_ceil_div() {
        AffineOperator::CeilDiv
    } else {
        // MLIR has no further kinds.
        AffineOperator::Mod
    };
    AffineKind::Binary(operator, expr.lhs(), expr.rhs())
}

/// `operator(lhs, rhs)`, folded as MLIR does.
///
/// # Errors
/// If MLIR does not allow the operands.
pub fn binary<'c>(
    operator: AffineOperator,
    lhs: AffineExpr<'c>,
    rhs: AffineExpr<'c>,
) -> Result<AffineExpr<'c>, AffineError> {
    match operator {
        AffineOperator::Add => Ok(lhs + rhs),
        AffineOperator::Mul => {
            if !lhs.is_symbolic_or_constant() && !rhs.is_symbolic_or_constant() {
                return Err(AffineError::NonLinearProduct);
            }
            Ok(lhs * rhs)
        }
        AffineOperator::FloorDiv | AffineOperator::CeilDiv | AffineOperator::Mod => {
            if !rhs.is_symbolic_or_constant() {
                return Err(AffineError::DivisorWithDimensions);
            }
            if let AffineKind::Constant(value) = kind(rhs) {
                if value < 1 {
                    return Err(AffineError::Divisor(value));
                }
            }
            Ok(match operator {
                AffineOperator::FloorDiv => AffineExpr::floor_div(lhs, rhs),
                AffineOperator::CeilDiv => AffineExpr::ceil_div(lhs, rhs),
                _ => AffineExpr::modulo(lhs, rhs),
            })
        }
    }
}

/// The value of an expression; `None` where it has none in `i64`, or a position is beyond the lists.
pub fn evaluate(expr: AffineExpr<'_>, dims: &[i64], symbols: &[i64]) -> Option<i64> {
    match kind(expr) {
        AffineKind::Constant(value) => Some(value),
        AffineKind::Dim(i) => dims.get(i).copied(),
        AffineKind::Symbol(i) => symbols.get(i).copied(),
        AffineKind::Binary(operator, lhs, rhs) => {
            let a = evaluate(lhs, dims, symbols)?;
            let b = evaluate(rhs, dims, symbols)?;
            match operator {
                AffineOperator::Add => a.checked_add(b),
                AffineOperator::Mul => a.checked_mul(b),
                AffineOperator::FloorDiv if b > 0 => Some(a.div_euclid(b)),
                AffineOperator::CeilDiv if b > 0 => Some(a.checked_neg()?.div_euclid(b).checked_neg()?),
                AffineOperator::Mod if b > 0 => Some(a.rem_euclid(b)),
                AffineOperator::FloorDiv | AffineOperator::CeilDiv | AffineOperator::Mod => None,
            }
        }
    }
}

/// The results of a map.
pub fn results<'c>(map: AffineMap<'c>) -> Vec<AffineExpr<'c>> {
    (0..map.result_count()).filter_map(|i| map.result(i).ok()).collect()
}

/// A map, also one without results.
pub fn map<'c>(context: &'c Context, dims: usize, symbols: usize, results: &[AffineExpr<'c>]) -> AffineMap<'c> {
    if results.is_empty() {
        return AffineMap::zero_result(context, dims, symbols);
    }
    AffineMap::new(context, dims, symbols, results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_before_it_takes_apart() {
        let context = Context::new();
        let d0 = AffineExpr::dim(&context, 0);
        let c = |value| AffineExpr::constant(&context, value);
        assert!(matches!(kind(d0), AffineKind::Dim(0)));
        assert!(matches!(kind(c(42)), AffineKind::Constant(42)));
        assert!(matches!(kind(AffineExpr::symbol(&context, 3)), AffineKind::Symbol(3)));
        let expr = binary(AffineOperator::Mod, d0, c(8)).and_then(|e| binary(AffineOperator::Mul, e, c(3)));
        let expr = expr.expect("affine");
        let AffineKind::Binary(AffineOperator::Mul, lhs, rhs) = kind(expr) else { panic!("a product") };
        assert!(matches!(kind(lhs), AffineKind::Binary(AffineOperator::Mod, ..)));
        assert!(matches!(kind(rhs), AffineKind::Constant(3)));
        assert_eq!(evaluate(expr, &[-3], &[]), Some(15));
        assert_eq!(evaluate(expr, &[], &[]), None);
    }

    #[test]
    fn refuses_what_mlir_does_not_allow() {
        let context = Context::new();
        let d0 = AffineExpr::dim(&context, 0);
        let zero = AffineExpr::constant(&context, 0);
        assert_eq!(binary(AffineOperator::Mul, d0, d0).err(), Some(AffineError::NonLinearProduct));
        assert_eq!(binary(AffineOperator::FloorDiv, d0, d0).err(), Some(AffineError::DivisorWithDimensions));
        assert_eq!(binary(AffineOperator::Mod, d0, zero).err(), Some(AffineError::Divisor(0)));
        assert_eq!(map(&context, 2, 0, &[]).result_count(), 0);
    }
}
