//! The range-aware simplifier.
//!
//! Expressions are brought to a normal form bottom-up: every sum becomes a [`Linear`], divisions and
//! remainders are taken of whole sums (`division`), and quotients that meet their remainders in a sum are
//! joined again (`sum`). Each rule needs the bounds of subexpressions, which is what upstream MLIR's affine
//! simplifier cannot have. The domain is simplified first (`constraints`), because tighter bounds let more
//! rules apply. The rules are those of the document "Indexing analysis", section "Indexing map simplifier",
//! and those that HLO fusions call for.
//!
//! Invariants: the value of every expression at every point of the domain stays the same; a second run
//! changes nothing; every rule lowers the number of divisions or the size of the expression, so it ends.

pub(crate) mod constraints;
mod division;
mod sum;

pub(crate) use constraints::congruence;

use crate::expr::{Expr, ExprKind, Operator};
use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::IndexingMap;
use crate::range::RangeEvaluator;

/// Rounds after which simplification of one expression stops; two or three are the rule.
const MAX_ROUNDS: usize = 32;

/// What becomes of a variable that has only one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointVariables {
    /// It is replaced by that value.
    Replace,
    /// It stays, so that the expression still shows where it comes from.
    Preserve,
}

/// Simplifies expressions over the domain of one map.
pub struct Simplifier<'a> {
    ranges: RangeEvaluator<'a>,
    points: PointVariables,
}

impl<'a> Simplifier<'a> {
    /// A simplifier that knows what `ranges` knows.
    pub fn new(ranges: RangeEvaluator<'a>, points: PointVariables) -> Simplifier<'a> {
        Simplifier { ranges, points }
    }

    /// The simplest form of `expr` this simplifier finds.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        let mut current = self.normal(expr).to_expr();
        for _ in 0..MAX_ROUNDS {
            let next = self.normal(&current).to_expr();
            if next == current {
                break;
            }
            current = next;
        }
        current
    }

    /// The normal form of `expr` as a sum. Where numbers would leave `i64`, `expr` is an atom as it stands.
    fn normal(&self, expr: &Expr) -> Linear {
        self.try_normal(expr).unwrap_or_else(|| Linear { terms: vec![(expr.clone(), 1)], constant: 0 })
    }

    fn try_normal(&self, expr: &Expr) -> Option<Linear> {
        let (operator, left, right) = match expr.kind() {
            ExprKind::Constant(value) => return Some(Linear::constant(value)),
            ExprKind::Variable(_) => return Some(self.point_or(atom(expr.clone()))),
            ExprKind::Binary(operator, left, right) => (operator, left, right),
        };
        let result = match operator {
            Operator::Add => {
                let mut sum = Linear::default();
                self.add_summands(expr, &mut sum)?;
                self.combine(sum)?
            }
            Operator::Mul => {
                let (a, b) = (self.normal(left), self.normal(right));
                match (a.as_constant(), b.as_constant()) {
                    (_, Some(c)) => a.scaled(c)?,
                    (Some(c), None) => b.scaled(c)?,
                    (None, None) => atom(a.to_expr() * b.to_expr()),
                }
            }
            Operator::FloorDiv | Operator::CeilDiv | Operator::Mod => {
                let mut dividend = self.normal(left);
                let divisor = self.normal(right);
                match (operator, divisor.as_constant()) {
                    (Operator::FloorDiv, Some(c)) if c > 0 => self.floor_div(dividend, c)?,
                    (Operator::CeilDiv, Some(c)) if c > 0 => {
                        // x ceildiv c => (x + c - 1) floordiv c
                        dividend.constant = dividend.constant.checked_add(c - 1)?;
                        self.floor_div(dividend, c)?
                    }
                    (Operator::Mod, Some(m)) if m > 0 => self.modulo(dividend, m)?,
                    _ => split(Expr::binary(operator, dividend.to_expr(), divisor.to_expr()))?,
                }
            }
            Operator::Max | Operator::Min => {
                let (a, b) = (self.normal(left), self.normal(right));
                let mut difference = a.clone();
                difference.add_scaled(&b, -1)?;
                let range = self.ranges.range_of_sum(&difference);
                // max(x, y) => x if x - y >= 0 everywhere, likewise for the other three.
                let larger = if operator == Operator::Max { (a, b) } else { (b, a) };
                if range.lower >= 0 {
                    larger.0
                } else if range.upper <= 0 {
                    larger.1
                } else {
                    let (a, b) = if operator == Operator::Max { larger } else { (larger.1, larger.0) };
                    atom(Expr::binary(operator, a.to_expr(), b.to_expr()))
                }
            }
        };
        Some(self.point_or(result))
    }

    /// Adds the normal forms of the summands of nested sums.
    fn add_summands(&self, expr: &Expr, sum: &mut Linear) -> Option<()> {
        match expr.kind() {
            ExprKind::Binary(Operator::Add, left, right) => {
                self.add_summands(left, sum)?;
                self.add_summands(right, sum)
            }
            _ => sum.add_scaled(&self.normal(expr), 1),
        }
    }

    /// The only value of the sum, if points are to be replaced and there is only one; else the sum.
    fn point_or(&self, sum: Linear) -> Linear {
        if self.points == PointVariables::Replace && !sum.terms.is_empty() {
            if let Some(value) = self.ranges.range_of_sum(&sum).as_point() {
                return Linear::constant(value);
            }
        }
        sum
    }
}

fn atom(expr: Expr) -> Linear {
    Linear { terms: vec![(expr, 1)], constant: 0 }
}

/// The terms of an expression the constructors may have folded.
fn split(expr: Expr) -> Option<Linear> {
    Linear::from_expr(&expr)
}

/// `floor(x / divisor)` of all values, if that is one number. Unbounded intervals have none.
fn common_quotient(range: Interval, divisor: i64) -> Option<i64> {
    if range.lower == i64::MIN || range.upper == i64::MAX {
        return None;
    }
    range.floordiv(Interval::point(divisor)).as_point()
}

impl IndexingMap {
    /// Simplifies domain and results; variables with a single value are replaced by it. Returns whether
    /// anything changed. No variable is removed.
    pub fn simplify(&mut self) -> bool {
        self.simplify_with(PointVariables::Replace)
    }

    /// As [`IndexingMap::simplify`], with a choice for variables that have a single value.
    pub fn simplify_with(&mut self, points: PointVariables) -> bool {
        if self.known_empty {
            return false;
        }
        let before = self.clone();
        self.simplify_constraints();
        if !self.known_empty {
            let domain = self.clone();
            let simplifier = Simplifier::new(RangeEvaluator::new(&domain), points);
            for expr in &mut self.results {
                *expr = simplifier.simplify(expr);
            }
            for runtime in &mut self.runtimes {
                if let Some(source) = &runtime.source {
                    let index = source.index.iter().map(|e| simplifier.simplify(e)).collect();
                    let value = source.value;
                    runtime.source = Some(crate::map::RuntimeSource { value, index }.into());
                }
            }
        }
        *self != before
    }

    /// The simplest form of an expression over this map's variables, valid on the map's domain.
    pub fn simplify_expr(&self, expr: &Expr) -> Expr {
        Simplifier::new(RangeEvaluator::new(self), PointVariables::Replace).simplify(expr)
    }

    /// Bounds of the values an expression over this map's variables takes on the domain.
    pub fn range_of(&self, expr: &Expr) -> Interval {
        RangeEvaluator::new(self).range(expr)
    }
}
