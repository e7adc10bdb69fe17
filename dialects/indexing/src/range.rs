//! Bounds of expressions over a map's domain.

use std::cell::RefCell;
use std::collections::HashMap;

use mlir_ext::affine::{Expr, ExprKind, Operator};

use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::IndexingMap;

/// Computes bounds of expressions from the bounds of the variables and, if asked, the constraints.
///
/// Bounds are sound; they are exact where no variable occurs twice and no constraint cuts through.
pub struct RangeEvaluator<'a, 'c> {
    map: &'a IndexingMap<'c>,
    // The constraints as sums, so that a sum is recognised whatever its constant.
    constraints: Vec<(Linear<'c>, Interval)>,
    known: RefCell<HashMap<Expr<'c>, Interval>>,
}

impl<'a, 'c> RangeEvaluator<'a, 'c> {
    /// Uses bounds and constraints.
    pub fn new(map: &'a IndexingMap<'c>) -> Self {
        let constraints = map
            .constraints
            .iter()
            .filter_map(|c| {
                let mut sum = Linear::from_expr(c.expr)?;
                let interval = c.interval - Interval::point(sum.constant);
                sum.constant = 0;
                Some((sum, interval))
            })
            .collect();
        RangeEvaluator { map, constraints, known: RefCell::default() }
    }

    /// Uses only the bounds of the variables.
    pub fn without_constraints(map: &'a IndexingMap<'c>) -> Self {
        RangeEvaluator { map, constraints: Vec::new(), known: RefCell::default() }
    }

    /// The map whose domain this is.
    pub(crate) fn map(&self) -> &'a IndexingMap<'c> {
        self.map
    }

    /// The values `expr` takes.
    pub fn range(&self, expr: Expr<'c>) -> Interval {
        let (operator, left, right) = match expr.kind() {
            ExprKind::Constant(value) => return Interval::point(value),
            ExprKind::Variable(variable) => return self.map.bounds(variable),
            ExprKind::Binary(operator, left, right) => (operator, left, right),
        };
        if let Some(&range) = self.known.borrow().get(&expr) {
            return range;
        }
        let (a, b) = (self.range(left), self.range(right));
        let mut range = match operator {
            Operator::Add => a + b,
            Operator::Mul => a * b,
            Operator::FloorDiv => a.floordiv(b),
            Operator::CeilDiv => a.ceildiv(b),
            Operator::Mod => a.modulo(b),
        };
        if !self.constraints.is_empty()
            && let Some(sum) = Linear::from_expr(expr)
        {
            range = self.constrained(&sum, range);
        }
        self.known.borrow_mut().insert(expr, range);
        range
    }

    /// The values a sum takes.
    pub fn range_of_sum(&self, sum: &Linear<'c>) -> Interval {
        let range = sum.terms.iter().fold(Interval::point(sum.constant), |range, &(atom, coefficient)| {
            range + self.range(atom) * Interval::point(coefficient)
        });
        self.constrained(sum, range)
    }

    /// Whether no value of `expr` is negative.
    pub fn is_never_negative(&self, expr: Expr<'c>) -> bool {
        self.range(expr).lower >= 0
    }

    fn constrained(&self, sum: &Linear<'c>, mut range: Interval) -> Interval {
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
