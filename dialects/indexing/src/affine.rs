//! Exchange with `mlir::AffineMap`. The symbols of an affine map are the range variables, then the run-time
//! variables; what an affine map cannot hold (bounds, constraints, names) stays behind.

use melior::Context;
use melior::ir::{AffineExpr, AffineMap};
use mlir_ext::affine::{self, AffineKind, AffineOperator};

use crate::error::Error;
use crate::expr::{Expr, ExprKind, Operator, Var};
use crate::map::{Constraint, IndexingMap, Variable};

impl IndexingMap {
    /// The results as an affine map.
    ///
    /// # Errors
    /// If a result is not affine: a minimum or maximum, a product of dimensions, a divisor that is not
    /// positive or has dimensions in it.
    pub fn to_affine_map<'c>(&self, context: &'c Context) -> Result<AffineMap<'c>, Error> {
        let results = self.results().iter().map(|e| self.to_affine_expr(e, context)).collect::<Result<Vec<_>, _>>()?;
        let symbols = self.ranges().len() + self.runtimes().len();
        Ok(affine::map(context, self.dims().len(), symbols, &results))
    }

    /// An expression over this map's variables as an affine expression.
    ///
    /// # Errors
    /// As for [`IndexingMap::to_affine_map`].
    pub fn to_affine_expr<'c>(&self, expr: &Expr, context: &'c Context) -> Result<AffineExpr<'c>, Error> {
        let (operator, left, right) = match expr.kind() {
            ExprKind::Constant(value) => return Ok(AffineExpr::constant(context, value)),
            ExprKind::Variable(Var::Dim(i)) => return Ok(AffineExpr::dim(context, i as usize)),
            ExprKind::Variable(Var::Range(i)) => return Ok(AffineExpr::symbol(context, i as usize)),
            ExprKind::Variable(Var::Runtime(i)) => {
                return Ok(AffineExpr::symbol(context, self.ranges().len() + i as usize));
            }
            ExprKind::Binary(operator, left, right) => (operator, left, right),
        };
        let operator = match operator {
            Operator::Add => AffineOperator::Add,
            Operator::Mul => AffineOperator::Mul,
            Operator::FloorDiv => AffineOperator::FloorDiv,
            Operator::CeilDiv => AffineOperator::CeilDiv,
            Operator::Mod => AffineOperator::Mod,
            Operator::Max | Operator::Min => return Err(Error::NotAffine(expr.to_string())),
        };
        let (left, right) = (self.to_affine_expr(left, context)?, self.to_affine_expr(right, context)?);
        affine::binary(operator, left, right).map_err(|_| Error::NotAffine(expr.to_string()))
    }

    /// An indexing map from an affine map, whose last symbols are the run-time variables.
    ///
    /// # Errors
    /// If the numbers of variables do not agree.
    pub fn from_affine_map(
        map: AffineMap<'_>,
        dims: Vec<Variable>,
        ranges: Vec<Variable>,
        runtimes: Vec<Variable>,
        constraints: Vec<Constraint>,
    ) -> Result<IndexingMap, Error> {
        if map.dim_count() != dims.len() || map.symbol_count() != ranges.len() + runtimes.len() {
            return Err(Error::Invalid(format!(
                "an affine map with {} dimensions and {} symbols cannot have {} dimension, {} range and {} \
                 run-time variables",
                map.dim_count(),
                map.symbol_count(),
                dims.len(),
                ranges.len(),
                runtimes.len()
            )));
        }
        let results = affine::results(map).into_iter().map(|e| from_affine_expr(e, ranges.len())).collect();
        Ok(IndexingMap::new(dims, ranges, runtimes, results, constraints))
    }
}

/// The expression, with symbols from `ranges` on as run-time variables.
pub fn from_affine_expr(expr: AffineExpr<'_>, ranges: usize) -> Expr {
    match affine::kind(expr) {
        AffineKind::Constant(value) => Expr::constant(value),
        AffineKind::Dim(i) => Expr::dim(i),
        AffineKind::Symbol(i) if i < ranges => Expr::range(i),
        AffineKind::Symbol(i) => Expr::runtime(i - ranges),
        AffineKind::Binary(operator, left, right) => {
            let operator = match operator {
                AffineOperator::Add => Operator::Add,
                AffineOperator::Mul => Operator::Mul,
                AffineOperator::FloorDiv => Operator::FloorDiv,
                AffineOperator::CeilDiv => Operator::CeilDiv,
                AffineOperator::Mod => Operator::Mod,
            };
            Expr::binary(operator, from_affine_expr(left, ranges), from_affine_expr(right, ranges))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "(d0, d1)[s0, s1]{rt0} -> ((d0 * 8 + d1) floordiv 4 + s0, (d1 mod 3) * 5 - s1, rt0 ceildiv 2), \
        domain: d0 in [-4, 9], d1 in [0, 7], s0 in [0, 2], s1 in [0, 1], rt0 in [0, 5], d0 + s0 in [0, 9]";

    #[test]
    fn evaluation_agrees_on_both_sides() {
        let context = Context::new();
        let map: IndexingMap = TEXT.parse().expect("parses");
        let affine_map = map.to_affine_map(&context).expect("affine");
        assert_eq!((affine_map.dim_count(), affine_map.symbol_count()), (2, 3));
        let back = IndexingMap::from_affine_map(
            affine_map,
            map.dims().to_vec(),
            map.ranges().to_vec(),
            map.runtimes().to_vec(),
            map.constraints().to_vec(),
        )
        .expect("fits");
        for point in map.points() {
            let symbols = [point.ranges.clone(), point.runtimes.clone()].concat();
            let expected = map.evaluate(&point.dims, &point.ranges, &point.runtimes);
            let in_mlir: Option<Vec<i64>> =
                affine::results(affine_map).into_iter().map(|e| affine::evaluate(e, &point.dims, &symbols)).collect();
            assert_eq!(in_mlir, expected);
            assert_eq!(back.evaluate(&point.dims, &point.ranges, &point.runtimes), expected);
        }
    }

    #[test]
    fn says_what_is_not_affine() {
        let context = Context::new();
        let map: IndexingMap = "(d0) -> (min(d0, 3)), domain: d0 in [0, 9]".parse().expect("parses");
        assert_eq!(map.to_affine_map(&context).err(), Some(Error::NotAffine("min(d0, 3)".to_string())));
        let map: IndexingMap = "(d0) -> (d0 mod 0), domain: d0 in [0, 9]".parse().expect("parses");
        assert!(map.to_affine_map(&context).is_err());
    }
}
