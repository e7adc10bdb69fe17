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

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use melior::Context;
use mlir_ext::affine::{Expr, ExprKind, Operator};

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

/// Simplifies expressions over the domain of one map. Each subexpression is looked at once.
pub struct Simplifier<'a, 'c> {
    ranges: RangeEvaluator<'a, 'c>,
    points: PointVariables,
    known: RefCell<HashMap<Expr<'c>, Rc<Linear<'c>>>>,
}

impl<'a, 'c> Simplifier<'a, 'c> {
    /// A simplifier that knows what `ranges` knows.
    pub fn new(ranges: RangeEvaluator<'a, 'c>, points: PointVariables) -> Self {
        Simplifier { ranges, points, known: RefCell::default() }
    }

    fn context(&self) -> &'c Context {
        self.ranges.map().context()
    }

    /// The simplest form of `expr` this simplifier finds.
    pub fn simplify(&self, expr: Expr<'c>) -> Expr<'c> {
        let mut current = self.normal(expr).to_expr(self.context());
        for _ in 0..MAX_ROUNDS {
            let next = self.normal(current).to_expr(self.context());
            if next == current {
                break;
            }
            current = next;
        }
        current
    }

    /// The normal form of `expr` as a sum. Where numbers would leave `i64`, `expr` is an atom as it stands.
    fn normal(&self, expr: Expr<'c>) -> Rc<Linear<'c>> {
        if let Some(known) = self.known.borrow().get(&expr) {
            return Rc::clone(known);
        }
        let normal = Rc::new(self.try_normal(expr).unwrap_or_else(|| Linear::atom(expr)));
        self.known.borrow_mut().insert(expr, Rc::clone(&normal));
        normal
    }

    fn try_normal(&self, expr: Expr<'c>) -> Option<Linear<'c>> {
        let (operator, left, right) = match expr.kind() {
            ExprKind::Constant(value) => return Some(Linear::constant(value)),
            ExprKind::Variable(_) => return Some(self.point_or(Linear::atom(expr))),
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
                    (None, None) => Linear::from_expr(a.to_expr(self.context()) * b.to_expr(self.context()))?,
                }
            }
            Operator::FloorDiv | Operator::CeilDiv | Operator::Mod => {
                let mut dividend = (*self.normal(left)).clone();
                let divisor = self.normal(right);
                match (operator, divisor.as_constant()) {
                    (Operator::FloorDiv, Some(c)) if c > 0 => self.floor_div(dividend, c)?,
                    (Operator::CeilDiv, Some(c)) if c > 0 => {
                        // x ceildiv c => (x + c - 1) floordiv c
                        dividend.constant = dividend.constant.checked_add(c - 1)?;
                        self.floor_div(dividend, c)?
                    }
                    (Operator::Mod, Some(m)) if m > 0 => self.modulo(dividend, m)?,
                    _ => {
                        let (left, right) = (dividend.to_expr(self.context()), divisor.to_expr(self.context()));
                        // The constructor may have folded.
                        Linear::from_expr(Expr::binary(operator, left, right))?
                    }
                }
            }
        };
        Some(self.point_or(result))
    }

    /// Adds the normal forms of the summands of nested sums.
    fn add_summands(&self, expr: Expr<'c>, sum: &mut Linear<'c>) -> Option<()> {
        match expr.kind() {
            ExprKind::Binary(Operator::Add, left, right) => {
                self.add_summands(left, sum)?;
                self.add_summands(right, sum)
            }
            _ => sum.add_scaled(&self.normal(expr), 1),
        }
    }

    /// The only value of the sum, if points are to be replaced and there is only one; else the sum.
    fn point_or(&self, sum: Linear<'c>) -> Linear<'c> {
        if self.points == PointVariables::Replace
            && !sum.terms.is_empty()
            && let Some(value) = self.ranges.range_of_sum(&sum).as_point()
        {
            return Linear::constant(value);
        }
        sum
    }
}

/// `floor(x / divisor)` of all values, if that is one number. Unbounded intervals have none.
fn common_quotient(range: Interval, divisor: i64) -> Option<i64> {
    if range.lower == i64::MIN || range.upper == i64::MAX {
        return None;
    }
    range.floordiv(Interval::point(divisor)).as_point()
}

impl<'c> IndexingMap<'c> {
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
            let simplify = |expr: Expr<'c>| simplifier.simplify(expr);
            self.set_results(&domain.results().iter().map(|&expr| simplify(expr)).collect::<Vec<_>>());
            for runtime in &mut self.runtimes {
                *runtime = runtime.rewritten(&simplify);
            }
        }
        *self != before
    }

    /// The map simplified, without the symbols that it then does not use.
    pub fn simplified(mut self) -> Self {
        self.simplify();
        self.remove_unused_symbols();
        self
    }

    /// The map simplified, with all of its variables: those with a single value stay where they are used.
    pub fn simplified_in_all_variables(mut self) -> Self {
        self.simplify_with(PointVariables::Preserve);
        self
    }

    /// The simplest form of an expression over this map's variables, valid on the map's domain.
    pub fn simplify_expr(&self, expr: Expr<'c>) -> Expr<'c> {
        Simplifier::new(RangeEvaluator::new(self), PointVariables::Replace).simplify(expr)
    }

    /// Bounds of the values an expression over this map's variables takes on the domain.
    pub fn range_of(&self, expr: Expr<'c>) -> Interval {
        RangeEvaluator::new(self).range(expr)
    }
}
