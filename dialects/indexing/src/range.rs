//! Bounds of expressions over a map's domain.

use crate::expr::{Expr, ExprKind, Operator};
use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::IndexingMap;

/// Computes bounds of expressions from the bounds of the variables and, if asked, the constraints.
///
/// Bounds are sound; they are exact where no variable occurs twice and no constraint cuts through.
pub struct RangeEvaluator<'a> {
    map: &'a IndexingMap,
    // The constraints as sums, so that a sum is recognised whatever its constant.
    constraints: Vec<(Linear, Interval)>,
}

impl<'a> RangeEvaluator<'a> {
    /// Uses bounds and constraints.
    pub fn new(map: &'a IndexingMap) -> RangeEvaluator<'a> {
        let constraints = map
            .constraints
            .iter()
            .filter_map(|c| {
                let mut sum = Linear::from_expr(&c.expr)?;
                let interval = c.interval - Interval::point(sum.constant);
                sum.constant = 0;
                Some((sum, interval))
            })
            .collect();
        RangeEvaluator { map, constraints }
    }

    /// Uses only the bounds of the variables.
    pub fn without_constraints(map: &'a IndexingMap) -> RangeEvaluator<'a> {
        RangeEvaluator { map, constraints: Vec::new() }
    }

    /// The values `expr` takes.
    pub fn range(&self, expr: &Expr) -> Interval {
        match expr.kind() {
            ExprKind::Constant(value) => Interval::point(value),
            ExprKind::Variable(variable) => self.map.bounds(variable),
            ExprKind::Binary(operator, left, right) => {
                let (a, b) = (self.range(left), self.range(right));
                let range = match operator {
                    Operator::Add => a + b,
                    Operator::Mul => a * b,
                    Operator::FloorDiv => a.floordiv(b),
                    Operator::CeilDiv => a.ceildiv(b),
                    Operator::Mod => a.modulo(b),
                    Operator::Max => a.max(b),
                    Operator::Min => a.min(b),
                };
                if self.constraints.is_empty() {
                    return range;
                }
                match Linear::from_expr(expr) {
                    Some(sum) => self.constrained(&sum, range),
                    None => range,
                }
            }
        }
    }

    /// The values a sum takes.
    pub fn range_of_sum(&self, sum: &Linear) -> Interval {
        let range = sum.terms.iter().fold(Interval::point(sum.constant), |range, (atom, coefficient)| {
            range + self.range(atom) * Interval::point(*coefficient)
        });
        self.constrained(sum, range)
    }

    /// Whether no value of `expr` is negative.
    pub fn is_never_negative(&self, expr: &Expr) -> bool {
        self.range(expr).lower >= 0
    }

    fn constrained(&self, sum: &Linear, mut range: Interval) -> Interval {
        if sum.terms.is_empty() {
            return range;
        }
        for (constraint, interval) in &self.constraints {
            if constraint.same_terms(sum) {
                range = range.intersect(*interval + Interval::point(sum.constant));
            }
        }
        range
    }
}
