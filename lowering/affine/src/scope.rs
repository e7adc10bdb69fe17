//! Loop variables in scope: their ranges for the simplifier, their SSA values for index arithmetic.
//!
//! Index expressions name variables by position (`Expr::dim(i)`). Every variable has an SSA value of type
//! `index`, except lanes: the variable of a vector's lanes is no value but says how elements of one vector differ.

use indexing::{Arithmetic, Constraint, Expr, IndexingMap, Interval, Linear, RangeEvaluator, Var, Variable};
use mlir_ext::builder::{OpBuilder, Value};

/// How elements of a vector are laid out in memory along its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneAccess {
    /// All lanes read the same element.
    Uniform,
    /// Lane `i` reads the element `c * i` further.
    Strided(i64),
    /// Anything else.
    Irregular,
}

/// The variables in scope.
pub struct Scope<'c> {
    map: IndexingMap,
    values: Vec<Option<Value<'c>>>,
    /// The lane variable, if vectors are being emitted.
    lane: Option<(Var, u32)>,
}

impl<'c> Scope<'c> {
    /// No variables.
    pub fn new() -> Self {
        Scope {
            map: IndexingMap::new(Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new()),
            values: Vec::new(),
            lane: None,
        }
    }

    fn rebuild(&mut self, dims: Vec<Variable>) {
        self.map = IndexingMap::new(dims, Vec::new(), Vec::new(), Vec::new(), Vec::new());
    }

    fn add(&mut self, bounds: Interval, value: Option<Value<'c>>) -> Expr {
        let mut dims = self.map.dims().to_vec();
        dims.push(Variable::new(bounds));
        self.rebuild(dims);
        self.values.push(value);
        Expr::dim(self.values.len() - 1)
    }

    /// Adds a variable with its SSA value (of type `index`).
    pub fn add_variable(&mut self, bounds: Interval, value: Value<'c>) -> Expr {
        self.add(bounds, Some(value))
    }

    /// Adds a variable that only the simplifier sees, for tracing accesses before anything is emitted.
    pub fn add_symbol(&mut self, bounds: Interval) -> Expr {
        self.add(bounds, None)
    }

    /// Adds the lane variable; until it is removed, expressions that use it stand for vectors.
    pub fn add_lanes(&mut self, lanes: u32) -> Expr {
        let expr = self.add(Interval::new(0, i64::from(lanes) - 1), None);
        self.lane = Some((Var::Dim(self.values.len() as u32 - 1), lanes));
        expr
    }

    /// Number of variables, to return to with [`Self::truncate`].
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Removes the variables added since there were `len`.
    pub fn truncate(&mut self, len: usize) {
        if let Some((Var::Dim(lane), _)) = self.lane {
            if lane as usize >= len {
                self.lane = None;
            }
        }
        self.values.truncate(len);
        let mut dims = self.map.dims().to_vec();
        dims.truncate(len);
        self.rebuild(dims);
    }

    /// Lanes of the vectors being emitted.
    pub fn lanes(&self) -> Option<u32> {
        self.lane.map(|(_, lanes)| lanes)
    }

    /// From here on single elements are emitted; gives what [`Self::return_to_lanes`] needs.
    pub fn leave_lanes(&mut self) -> Option<(Var, u32)> {
        self.lane.take()
    }

    /// Emits vectors again.
    pub fn return_to_lanes(&mut self, lane: Option<(Var, u32)>) {
        self.lane = lane;
    }

    /// Whether the expression differs between lanes.
    pub fn uses_lane(&self, expr: &Expr) -> bool {
        self.lane.is_some_and(|(lane, _)| expr.uses(lane))
    }

    /// The expression, simplified with the variables' ranges.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        if expr.as_constant().is_some() || expr.as_variable().is_some() {
            return expr.clone();
        }
        self.map.simplify_expr(expr)
    }

    /// The values an expression can take.
    pub fn range(&self, expr: &Expr) -> Interval {
        RangeEvaluator::without_constraints(&self.map).range(expr)
    }

    /// Whether a constraint always holds, never holds, or depends.
    pub fn truth(&self, constraint: &Constraint) -> Option<bool> {
        let range = self.range(&self.simplify(&constraint.expr));
        if constraint.interval.contains_interval(range) {
            return Some(true);
        }
        constraint.interval.intersect(range).is_empty().then_some(false)
    }

    /// The expression in lane `lane`.
    pub fn at_lane(&self, expr: &Expr, lane: u32) -> Expr {
        let Some((variable, _)) = self.lane else { return expr.clone() };
        let replaced = expr.substitute(&|v| (v == variable).then(|| Expr::constant(i64::from(lane))));
        self.simplify(&replaced)
    }

    /// How the value of a (simplified) expression differs between lanes.
    pub fn lane_access(&self, expr: &Expr) -> LaneAccess {
        let Some((variable, _)) = self.lane else { return LaneAccess::Uniform };
        if !expr.uses(variable) {
            return LaneAccess::Uniform;
        }
        let Some(sum) = Linear::from_expr(expr) else { return LaneAccess::Irregular };
        let lane = Expr::variable(variable);
        if sum.terms.iter().any(|(atom, _)| *atom != lane && atom.uses(variable)) {
            return LaneAccess::Irregular;
        }
        LaneAccess::Strided(sum.coefficient(&lane))
    }

    /// Emits a lane-free expression as a value of type `index`.
    pub fn emit(&self, builder: &OpBuilder<'c>, expr: &Expr) -> Value<'c> {
        Code { scope: self, builder }.emit(expr)
    }

    /// Emits an expression as a vector of `index`, one value a lane.
    pub fn emit_lanes(&self, builder: &OpBuilder<'c>, expr: &Expr) -> Value<'c> {
        let lanes = self.lanes().unwrap_or(1);
        let vector = builder.vector_type(lanes, builder.index_type);
        match self.lane_access(expr) {
            LaneAccess::Uniform => {
                let value = self.emit(builder, expr);
                builder.value("vector.broadcast", &[value], vector, &[])
            }
            LaneAccess::Strided(stride) => {
                let base = self.emit(builder, &self.at_lane(expr, 0));
                let base = builder.value("vector.broadcast", &[base], vector, &[]);
                let steps: Vec<Value<'c>> =
                    (0..lanes).map(|lane| builder.constant_index(stride * i64::from(lane))).collect();
                let steps = builder.value("vector.from_elements", &steps, vector, &[]);
                builder.value("arith.addi", &[base, steps], vector, &[])
            }
            LaneAccess::Irregular => {
                let elements: Vec<Value<'c>> =
                    (0..lanes).map(|lane| self.emit(builder, &self.at_lane(expr, lane))).collect();
                builder.value("vector.from_elements", &elements, vector, &[])
            }
        }
    }
}

impl Default for Scope<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the arithmetic of a scope's expressions goes.
struct Code<'s, 'c> {
    scope: &'s Scope<'c>,
    builder: &'s OpBuilder<'c>,
}

impl<'c> Arithmetic for Code<'_, 'c> {
    type Value = Value<'c>;

    fn constant(&self, value: i64) -> Value<'c> {
        self.builder.constant_index(value)
    }

    fn variable(&self, variable: Var) -> Value<'c> {
        let value = match variable {
            Var::Dim(i) => self.scope.values.get(i as usize).copied().flatten(),
            Var::Range(_) | Var::Runtime(_) => None,
        };
        value.unwrap_or_else(|| self.constant(0))
    }

    fn operation(&self, name: &'static str, left: Value<'c>, right: Value<'c>) -> Value<'c> {
        self.builder.value(name, &[left, right], self.builder.index_type, &[])
    }

    fn range(&self, expr: &Expr) -> Interval {
        self.scope.range(expr)
    }
}
