//! Expressions as code: which operation computes what, whoever emits it.

use crate::expr::{Expr, ExprKind, Operator, Var};
use crate::interval::Interval;

/// Emits integer arithmetic. Operations have the names of MLIR's dialect `arith`.
pub trait Arithmetic {
    /// A handle of an emitted value.
    type Value: Copy;

    /// A constant.
    fn constant(&self, value: i64) -> Self::Value;

    /// The value of a variable.
    fn variable(&self, variable: Var) -> Self::Value;

    /// An operation on two values: `arith.addi`, `subi`, `muli`, `divui`, `remui`, `floordivsi`, `ceildivsi`, `maxsi`
    /// or `minsi`.
    fn operation(&self, name: &'static str, left: Self::Value, right: Self::Value) -> Self::Value;

    /// The values an expression takes.
    fn range(&self, expr: &Expr) -> Interval;

    /// Emits an expression, whose variables are within the ranges that [`Self::range`] knows.
    fn emit(&self, expr: &Expr) -> Self::Value {
        let (operator, left, right) = match expr.kind() {
            ExprKind::Constant(value) => return self.constant(value),
            ExprKind::Variable(variable) => return self.variable(variable),
            ExprKind::Binary(operator, left, right) => (operator, left, right),
        };
        // Unsigned division is shorter, and rounds as it should.
        let is_natural = || self.range(left).lower >= 0 && self.range(right).lower > 0;
        let (l, r) = (self.emit(left), self.emit(right));
        let name = match operator {
            // a + b * -c reads better, and compiles the same, as a subtraction; LLVM does that.
            Operator::Add => "arith.addi",
            Operator::Mul => "arith.muli",
            Operator::FloorDiv if is_natural() => "arith.divui",
            Operator::FloorDiv => "arith.floordivsi",
            Operator::CeilDiv => "arith.ceildivsi",
            Operator::Mod if is_natural() => "arith.remui",
            Operator::Mod => {
                let quotient = self.operation("arith.floordivsi", l, r);
                let product = self.operation("arith.muli", quotient, r);
                return self.operation("arith.subi", l, product);
            }
            Operator::Max => "arith.maxsi",
            Operator::Min => "arith.minsi",
        };
        self.operation(name, l, r)
    }
}
