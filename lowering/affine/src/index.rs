//! Index expressions as code: affine operations where their operands allow it, vectors of integers where lanes differ.
//!
//! A dimension or symbol of affine operations is used in the maps of `affine.for`, `affine.if`, loads and stores. Of any
//! other index the expression is an `affine.apply` (which takes every index), and the access a `memref` or `vector`
//! operation. Minima and maxima are operations whose results are variables of their own.

use indexing::{Constraint, Expr, ExprKind, Interval, Linear, Operator, Var};
use melior::ir::Type;
use mlir_ext::access::AffineValues;
use mlir_ext::affine;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::error::LoweringError;
use crate::scope::{Binding, LaneAccess, Scope};

type Result<T> = std::result::Result<T, LoweringError>;

/// The place of an element in a memref.
pub enum Place<'c> {
    /// Results of a map of dimensions and symbols.
    Affine(AffineValues<'c>),
    /// Values of type `index`.
    Plain(Vec<Value<'c>>),
}

impl<'c> Place<'c> {
    /// Loads an element, or a vector of consecutive elements.
    pub fn load(&self, builder: &OpBuilder<'c>, memref: Value<'c>, r#type: Type<'c>) -> Value<'c> {
        match self {
            Place::Affine(values) => builder.affine_load(memref, values, r#type),
            Place::Plain(values) => builder.plain_load(memref, values, r#type),
        }
    }

    /// Stores an element, or a vector of consecutive elements.
    pub fn store(&self, builder: &OpBuilder<'c>, value: Value<'c>, memref: Value<'c>) {
        match self {
            Place::Affine(values) => builder.affine_store(value, memref, values),
            Place::Plain(values) => builder.plain_store(value, memref, values),
        }
    }
}

/// A condition as code.
pub enum Condition<'c> {
    /// What an `affine.if` tests.
    Affine(AffineConditions<'c>),
    /// An `i1`.
    Value(Value<'c>),
}

impl<'c> Condition<'c> {
    /// Values of one of two branches, by the condition.
    pub fn choose<E>(
        &self,
        builder: &OpBuilder<'c>,
        types: &[Type<'c>],
        branch: impl FnMut(&OpBuilder<'c>, bool) -> std::result::Result<Vec<Value<'c>>, E>,
    ) -> std::result::Result<Vec<Value<'c>>, E> {
        match self {
            Condition::Affine(conditions) => builder.affine_if(conditions, types, branch),
            Condition::Value(holds) => builder.if_else(*holds, types, branch),
        }
    }
}

/// The expression with its sums added from the left to the right, as they are read back from their text: MLIR moves what is
/// symbols alone, even a sum, behind the rest.
fn as_read(expr: Expr<'_>) -> Expr<'_> {
    let ExprKind::Binary(operator, left, right) = expr.kind() else { return expr };
    let (new_left, new_right) = (as_read(left), as_read(right));
    match (operator, new_right.kind()) {
        (Operator::Add, ExprKind::Binary(Operator::Add, first, last)) => as_read(new_left + first) + last,
        _ if new_left == left && new_right == right => expr,
        _ => Expr::binary(operator, new_left, new_right),
    }
}

impl<'c> Scope<'c> {
    /// Emits a lane-free expression as a value of type `index`.
    pub fn emit(&self, builder: &OpBuilder<'c>, expr: Expr<'c>) -> Result<Value<'c>> {
        match expr.kind() {
            ExprKind::Constant(value) => Ok(builder.constant_index(value)),
            ExprKind::Variable(variable) => match self.binding(variable) {
                Some(Binding::Dimension(value) | Binding::Symbol(value) | Binding::Index(value)) => Ok(value),
                binding => Err(no_index(variable, binding)),
            },
            ExprKind::Binary(..) => {
                let (values, _) = self.affine_values(&[expr])?;
                Ok(builder.affine_apply(&values))
            }
        }
    }

    /// Emits the smallest of lane-free expressions as a value of type `index`.
    pub fn emit_min(&self, builder: &OpBuilder<'c>, exprs: &[Expr<'c>]) -> Result<Value<'c>> {
        Ok(builder.affine_min(&self.affine_values(exprs)?.0))
    }

    /// Emits the largest of lane-free expressions as a value of type `index`.
    pub fn emit_max(&self, builder: &OpBuilder<'c>, exprs: &[Expr<'c>]) -> Result<Value<'c>> {
        Ok(builder.affine_max(&self.affine_values(exprs)?.0))
    }

    /// Emits an expression as a variable of its own.
    pub fn emit_variable(&mut self, builder: &OpBuilder<'c>, expr: Expr<'c>) -> Result<Expr<'c>> {
        if expr.as_constant().is_some() || expr.as_variable().is_some() {
            return Ok(expr);
        }
        if let Some(name) = self.name_of(expr) {
            return Ok(name);
        }
        if self.uses_lane(expr) {
            let element = self.lane_type(builder, expr);
            let lanes = self.lane_values(builder, expr, element)?;
            return Ok(self.add_name(expr, Binding::Lanes(lanes)));
        }
        let value = self.emit(builder, expr)?;
        let binding = match self.is_affine(expr) {
            _ if builder.is_at_top_level() => Binding::Symbol(value),
            true => Binding::Dimension(value),
            false => Binding::Index(value),
        };
        Ok(self.add_name(expr, binding))
    }

    /// Whether affine loads, stores, loops and branches can use the expression.
    fn is_affine(&self, expr: Expr<'c>) -> bool {
        match expr.kind() {
            ExprKind::Constant(_) => true,
            ExprKind::Variable(variable) => {
                matches!(self.binding(variable), Some(Binding::Dimension(_) | Binding::Symbol(_)))
            }
            ExprKind::Binary(_, left, right) => self.is_affine(left) && self.is_affine(right),
        }
    }

    /// Lane-free expressions as results of one map, and whether all its operands are dimensions and symbols.
    pub fn affine_values(&self, exprs: &[Expr<'c>]) -> Result<(AffineValues<'c>, bool)> {
        let context = self.context();
        let mut leaves: Vec<(Var, Expr<'c>)> = Vec::new();
        let (mut dimensions, mut symbols, mut is_affine) = (Vec::new(), Vec::new(), true);
        let mut variables = Vec::new();
        exprs.iter().for_each(|expr| expr.visit_variables(&mut |variable| variables.push(variable)));
        for variable in variables {
            if leaves.iter().any(|&(known, _)| known == variable) {
                continue;
            }
            let leaf = match self.binding(variable) {
                Some(Binding::Symbol(value)) => {
                    symbols.push(value);
                    Expr::symbol(context, symbols.len() - 1)
                }
                Some(binding @ (Binding::Dimension(value) | Binding::Index(value))) => {
                    is_affine &= matches!(binding, Binding::Dimension(_));
                    dimensions.push(value);
                    Expr::dim(context, dimensions.len() - 1)
                }
                binding => return Err(no_index(variable, binding)),
            };
            leaves.push((variable, leaf));
        }
        let leaf = |variable| leaves.iter().find(|&&(known, _)| known == variable).map(|&(_, leaf)| leaf);
        let results: Vec<Expr<'c>> = exprs.iter().map(|expr| as_read(expr.substitute(&leaf))).collect();
        let map = affine::map(context, dimensions.len(), symbols.len(), &results);
        Ok((AffineValues { map, operands: [dimensions, symbols].concat() }, is_affine))
    }

    /// As [`Self::affine_values`], where all operands must be dimensions and symbols: the bounds of a loop.
    pub fn affine_bounds(&self, exprs: &[Expr<'c>]) -> Result<AffineValues<'c>> {
        match self.affine_values(exprs)? {
            (values, true) => Ok(values),
            _ => Err(LoweringError::bug("loop bounds that are not affine")),
        }
    }

    /// The place of an element at a lane-free index.
    pub fn place(&self, builder: &OpBuilder<'c>, index: &[Expr<'c>]) -> Result<Place<'c>> {
        if index.iter().all(|&expr| self.is_affine(expr)) {
            return Ok(Place::Affine(self.affine_values(index)?.0));
        }
        index.iter().map(|&expr| self.emit(builder, expr)).collect::<Result<_>>().map(Place::Plain)
    }

    /// Whether all of some lane-free constraints hold.
    pub fn condition(&self, builder: &OpBuilder<'c>, constraints: &[&Constraint<'c>]) -> Result<Condition<'c>> {
        let differences: Vec<Expr<'c>> =
            constraints.iter().flat_map(|constraint| self.not_negative(constraint)).collect();
        if differences.iter().all(|&expr| self.is_affine(expr)) {
            let (values, _) = self.affine_values(&differences)?;
            return Ok(Condition::Affine(AffineConditions { values, equalities: vec![false; differences.len()] }));
        }
        let zero = builder.constant_index(0);
        let tests = differences
            .iter()
            .map(|&expr| Ok(builder.cmpi(CmpiPredicate::Sge, self.emit(builder, expr)?, zero)))
            .collect::<Result<Vec<_>>>()?;
        let all = tests.into_iter().reduce(|all, test| builder.andi(all, test));
        Ok(Condition::Value(all.unwrap_or_else(|| builder.constant_integer(builder.integer_type(1), 1))))
    }

    /// Expressions that are not negative where a constraint holds, given the variables' ranges.
    fn not_negative(&self, constraint: &Constraint<'c>) -> Vec<Expr<'c>> {
        let (range, interval) = (self.range(constraint.expr), constraint.interval);
        let lower = (range.lower < interval.lower).then(|| constraint.expr - interval.lower);
        let upper = (range.upper > interval.upper).then(|| -constraint.expr + interval.upper);
        lower.into_iter().chain(upper).map(|expr| self.simplify(expr)).collect()
    }

    /// Whether all of some constraints hold, as a vector of `i1`.
    pub fn lane_condition(&self, builder: &OpBuilder<'c>, constraints: &[&Constraint<'c>]) -> Result<Value<'c>> {
        let mut all: Option<Value<'c>> = None;
        for constraint in constraints {
            let range = self.range(constraint.expr);
            let value = self.lane_values(builder, constraint.expr, self.lane_type(builder, constraint.expr))?;
            let mut test = |predicate, bound| {
                let holds = builder.cmpi(predicate, value, builder.integer_like(value, bound));
                all = Some(all.map_or(holds, |all| builder.andi(all, holds)));
            };
            if range.lower < constraint.interval.lower {
                test(CmpiPredicate::Sge, constraint.interval.lower);
            }
            if range.upper > constraint.interval.upper {
                test(CmpiPredicate::Sle, constraint.interval.upper);
            }
        }
        all.ok_or_else(|| LoweringError::bug("a condition without constraints"))
    }
}

fn no_index(variable: Var, binding: Option<Binding>) -> LoweringError {
    LoweringError::bug(format!("index variable {variable:?} is {binding:?}, not an index in scope"))
}

/// Vectors of integers.
impl<'c> Scope<'c> {
    /// The integer type for the lanes of an expression: 32 bits where no value on the way is larger.
    pub fn lane_type(&self, builder: &OpBuilder<'c>, expr: Expr<'c>) -> Type<'c> {
        builder.integer_type(if self.fits(expr, Interval::new(i32::MIN.into(), i32::MAX.into())) { 32 } else { 64 })
    }

    fn fits(&self, expr: Expr<'c>, interval: Interval) -> bool {
        interval.contains_interval(self.range(expr))
            && match expr.kind() {
                ExprKind::Constant(_) | ExprKind::Variable(_) => true,
                ExprKind::Binary(_, left, right) => self.fits(left, interval) && self.fits(right, interval),
            }
    }

    /// Emits an expression as a vector of an integer type, one value a lane.
    pub fn lane_values(&self, builder: &OpBuilder<'c>, expr: Expr<'c>, element: Type<'c>) -> Result<Value<'c>> {
        let lanes = self.lanes().ok_or_else(|| LoweringError::bug("lanes outside of a loop over vectors"))?;
        let code = LaneCode { scope: self, builder, lanes, element };
        code.vector(expr)
    }
}

/// Where the vector arithmetic of index expressions goes.
struct LaneCode<'s, 'c> {
    scope: &'s Scope<'c>,
    builder: &'s OpBuilder<'c>,
    lanes: u32,
    element: Type<'c>,
}

impl<'c> LaneCode<'_, 'c> {
    fn splat(&self, value: i64) -> Value<'c> {
        self.builder.constant_integer(self.builder.vector_type(self.lanes, self.element), value)
    }

    fn uniform(&self, expr: Expr<'c>) -> Result<Value<'c>> {
        if let Some(value) = expr.as_constant() {
            return Ok(self.splat(value));
        }
        let value = self.scope.emit(self.builder, expr)?;
        let value = self.builder.value("arith.index_cast", &[value], self.element, &[]);
        Ok(self.builder.broadcast(value, Some(self.lanes)))
    }

    fn vector(&self, expr: Expr<'c>) -> Result<Value<'c>> {
        if !self.scope.uses_lane(expr) {
            return self.uniform(expr);
        }
        let sum =
            Linear::from_expr(expr).ok_or_else(|| LoweringError::bug(format!("index `{expr}` leaves 64 bits")))?;
        // What is alike in all lanes is one scalar, the number of the lane one constant.
        let (by_lane, alike): (Vec<_>, Vec<_>) =
            sum.terms.into_iter().partition(|&(atom, _)| self.scope.uses_lane(atom));
        let alike = Linear { terms: alike, constant: sum.constant }.to_expr(self.scope.context());
        let mut total = None;
        let mut add = |value| total = Some(total.map_or(value, |total| self.builder.addi(total, value)));
        if alike.as_constant() != Some(0) {
            add(self.uniform(alike)?);
        }
        for (atom, factor) in by_lane {
            add(self.scaled(atom, factor)?);
        }
        total.ok_or_else(|| LoweringError::bug("an index without terms"))
    }

    fn scaled(&self, atom: Expr<'c>, factor: i64) -> Result<Value<'c>> {
        let builder = self.builder;
        let (operator, left, right) = match atom.kind() {
            ExprKind::Variable(variable) => match self.scope.binding(variable) {
                Some(Binding::Lane | Binding::Constants) => {
                    let number = |lane: i64| match self.scope.constants(variable) {
                        Some(by_lane) => by_lane[lane as usize],
                        None => lane,
                    };
                    let values: Vec<i64> = (0..i64::from(self.lanes)).map(|lane| number(lane) * factor).collect();
                    return Ok(builder.constant_integers(self.element, &values));
                }
                Some(Binding::Lanes(value)) => return Ok(self.times(self.resized(value), factor)),
                binding => return Err(no_index(variable, binding)),
            },
            ExprKind::Binary(operator, left, right) => (operator, left, right),
            ExprKind::Constant(_) => return Err(LoweringError::bug("a constant that differs between lanes")),
        };
        let value = match (operator, right.as_constant()) {
            (Operator::FloorDiv, Some(divisor)) if divisor > 0 => self.divided(left, divisor, false)?,
            (Operator::Mod, Some(divisor)) if divisor > 0 => self.divided(left, divisor, true)?,
            _ => return Err(LoweringError::bug(format!("index `{atom}` is not affine"))),
        };
        Ok(self.times(value, factor))
    }

    fn times(&self, value: Value<'c>, factor: i64) -> Value<'c> {
        if factor == 1 { value } else { self.builder.muli(value, self.splat(factor)) }
    }

    fn resized(&self, value: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (own, wide) = (builder.element_type_of(value.r#type()), builder.integer_type(64));
        match (own == wide, self.element == wide) {
            (true, false) => builder.trunci(value, self.element),
            (false, true) => builder.extsi(value, self.element),
            _ => value,
        }
    }

    /// The quotient or remainder by a positive number, unsigned: a dividend that may be negative is moved up first.
    fn divided(&self, dividend: Expr<'c>, divisor: i64, remainder: bool) -> Result<Value<'c>> {
        let builder = self.builder;
        let lower = self.scope.range(dividend).lower;
        if lower < i64::from(i32::MIN) {
            return Err(LoweringError::bug(format!("the index `{dividend}` has no lower bound")));
        }
        let moved = if lower < 0 { (-lower + divisor - 1) / divisor } else { 0 };
        let mut value = self.vector(dividend)?;
        if moved > 0 {
            value = builder.addi(value, self.splat(moved * divisor));
        }
        let is_power = divisor & (divisor - 1) == 0;
        Ok(match (remainder, is_power) {
            (true, true) => builder.andi(value, self.splat(divisor - 1)),
            (true, false) => builder.remui(value, self.splat(divisor)),
            (false, _) => {
                let quotient = if is_power {
                    builder.shrui(value, self.splat(i64::from(divisor.trailing_zeros())))
                } else {
                    builder.divui(value, self.splat(divisor))
                };
                if moved > 0 { builder.subi(quotient, self.splat(moved)) } else { quotient }
            }
        })
    }
}

/// How single lanes differ from the first one.
impl<'c> Scope<'c> {
    /// Whether the lanes' elements at some index are consecutive along the last dimension.
    pub fn is_consecutive_along_last(&self, index: &[Expr<'c>]) -> bool {
        index.split_last().is_some_and(|(last, others)| {
            self.lane_access(*last) == LaneAccess::Strided(1) && !others.iter().any(|&expr| self.uses_lane(expr))
        })
    }
}
