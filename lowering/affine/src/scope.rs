//! Index variables in scope: their ranges for the simplifier, and what they are in code.
//!
//! Index expressions name variables by position (`Expr::dim(i)`). [`crate::index`] makes code of them.

use std::collections::HashMap;

use indexing::{Constraint, Expr, IndexingMap, Interval, Linear, RangeEvaluator, Var, Variable};
use melior::Context;
use mlir_ext::builder::Value;

/// What a variable is in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding<'c> {
    /// A dimension of affine operations: the variable of an `affine.for`, or an `affine.apply` of such.
    Dimension(Value<'c>),
    /// A symbol of affine operations: a value defined at the top level of its function.
    Symbol(Value<'c>),
    /// Any other value of type `index`; affine loads, stores, loops and branches cannot use it.
    Index(Value<'c>),
    /// A vector of integers, one for each lane.
    Lanes(Value<'c>),
    /// A known integer for each lane.
    Constants,
    /// The number of the lane.
    Lane,
    /// Nothing: only the simplifier sees the variable, while a fusion is traced.
    Traced,
}

/// Nodes of an index expression from which on it becomes a variable of its own instead of part of further ones, whose
/// size would grow exponentially with the number of reshapes.
const LARGEST_INDEX: usize = 40;

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
    context: &'c Context,
    map: IndexingMap<'c>,
    variables: Vec<ScopeVariable<'c>>,
    /// Variables that stand for expressions.
    names: HashMap<Expr<'c>, Expr<'c>>,
    /// The lane variable, if vectors are being emitted, and the number of lanes.
    lane: Option<(Var, u32)>,
}

struct ScopeVariable<'c> {
    binding: Binding<'c>,
    /// Of [`Binding::Constants`].
    by_lane: Vec<i64>,
    /// The expression that the variable stands for.
    meaning: Option<Expr<'c>>,
    /// The expression that the variable is wherever anyone reads what is there.
    unless_unread: Option<Expr<'c>>,
}

impl<'c> Scope<'c> {
    /// No variables.
    pub fn new(context: &'c Context) -> Self {
        let map = IndexingMap::from_sizes(context, &[], &[], Vec::new());
        Scope { context, map, variables: Vec::new(), names: HashMap::new(), lane: None }
    }

    /// The context of expressions.
    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// A constant.
    pub fn constant(&self, value: i64) -> Expr<'c> {
        Expr::constant(self.context, value)
    }

    fn add(&mut self, bounds: Interval, binding: Binding<'c>, meaning: Option<Expr<'c>>) -> Expr<'c> {
        self.map.push_dim(Variable::new(bounds));
        self.variables.push(ScopeVariable { binding, by_lane: Vec::new(), meaning, unless_unread: None });
        Expr::dim(self.context, self.variables.len() - 1)
    }

    /// Adds a variable.
    pub fn add_variable(&mut self, bounds: Interval, binding: Binding<'c>) -> Expr<'c> {
        self.add(bounds, binding, None)
    }

    /// Adds a variable that is an expression in the lanes whose elements are needed, and anything within bounds in others.
    pub fn add_unless_unread(&mut self, expr: Expr<'c>, bounds: Interval, binding: Binding<'c>) -> Expr<'c> {
        let variable = self.add(bounds, binding, None);
        if let Some(own) = self.variables.last_mut() {
            own.unless_unread = Some(expr);
        }
        variable
    }

    /// Adds a variable that is a known integer for each lane: that of an expression in the lanes whose elements are needed.
    pub fn add_constants(&mut self, expr: Expr<'c>, by_lane: Vec<i64>) -> Expr<'c> {
        let [lower, upper] = [by_lane.iter().min(), by_lane.iter().max()].map(|own| own.copied().unwrap_or_default());
        let variable = self.add_unless_unread(expr, Interval::new(lower, upper), Binding::Constants);
        if let Some(own) = self.variables.last_mut() {
            own.by_lane = by_lane;
        }
        variable
    }

    /// The integers of a variable with one for each lane.
    pub fn constants(&self, variable: Var) -> Option<&[i64]> {
        let Var::Dim(position) = variable else { return None };
        let own = self.variables.get(position as usize)?;
        (own.binding == Binding::Constants).then_some(&own.by_lane)
    }

    /// What the lanes' values of an expression are, where these are constants.
    pub fn lane_constants(&self, expr: Expr<'c>) -> Option<Vec<i64>> {
        (0..self.lanes()?).map(|lane| self.at_lane(expr, lane).as_constant()).collect()
    }

    /// What an expression is in the lanes whose elements are needed, as far as that is no large one: each step of a chain of
    /// divisions may have the one before in it twice.
    pub fn unless_unread(&self, expr: Expr<'c>) -> Expr<'c> {
        let of_lanes = |variable| {
            let Var::Dim(position) = variable else { return None };
            let own = self.variables.get(position as usize)?;
            own.unless_unread.or_else(|| own.meaning.filter(|_| matches!(own.binding, Binding::Lanes(_))))
        };
        let mut expr = expr;
        while !Self::is_large(expr) && expr.variables().into_iter().any(|variable| of_lanes(variable).is_some()) {
            expr = expr.substitute(&of_lanes);
        }
        self.simplify(expr)
    }

    /// A variable whose value is now known to lie within bounds.
    pub fn narrowed(&mut self, variable: Expr<'c>, bounds: Interval) -> Expr<'c> {
        match variable.as_variable().and_then(|own| self.binding(own)) {
            Some(binding) => self.add_variable(bounds, binding),
            None => variable,
        }
    }

    /// Adds a variable that only the simplifier sees, for tracing accesses before anything is emitted.
    pub fn add_traced(&mut self, bounds: Interval) -> Expr<'c> {
        self.add(bounds, Binding::Traced, None)
    }

    /// Adds a variable that stands for an expression.
    pub fn add_name(&mut self, expr: Expr<'c>, binding: Binding<'c>) -> Expr<'c> {
        let name = self.add(self.range(expr), binding, Some(expr));
        self.names.insert(expr, name);
        name
    }

    /// The variable that stands for an expression, if there is one.
    pub fn name_of(&self, expr: Expr<'c>) -> Option<Expr<'c>> {
        self.names.get(&expr).copied()
    }

    /// Whether an expression has become so large that it should be a variable of its own.
    pub fn is_large(expr: Expr<'c>) -> bool {
        expr.size() > LARGEST_INDEX
    }

    /// What a variable is in code; `None` for one that is not in scope.
    pub fn binding(&self, variable: Var) -> Option<Binding<'c>> {
        let Var::Dim(position) = variable else { return None };
        self.variables.get(position as usize).map(|variable| variable.binding)
    }

    /// Whether all that an expression is of is in scope: what was traced may be of variables that are gone.
    pub fn holds(&self, expr: Expr<'c>) -> bool {
        expr.variables().into_iter().all(|variable| self.binding(variable).is_some())
    }

    /// Adds the lane variable; until it is removed, expressions that use it stand for vectors.
    pub fn add_lanes(&mut self, lanes: u32) -> Expr<'c> {
        let expr = self.add(Interval::new(0, i64::from(lanes) - 1), Binding::Lane, None);
        self.lane = Some((Var::Dim(self.variables.len() as u32 - 1), lanes));
        expr
    }

    /// The lane variable, and the number of lanes.
    pub fn lane_variable(&self) -> Option<(Var, u32)> {
        self.lane
    }

    /// Goes back to a lane variable, after others inside of its scope.
    pub fn resume_lanes(&mut self, lane: (Var, u32)) {
        self.lane = Some(lane);
    }

    /// Number of variables, to return to with [`Self::truncate`].
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Removes the variables added since there were `len`.
    pub fn truncate(&mut self, len: usize) {
        if let Some((Var::Dim(lane), _)) = self.lane
            && lane as usize >= len
        {
            self.lane = None;
        }
        for (position, removed) in self.variables.iter().enumerate().skip(len) {
            let name = Expr::dim(self.context, position);
            if let Some(meaning) = removed.meaning
                && self.names.get(&meaning) == Some(&name)
            {
                self.names.remove(&meaning);
            }
        }
        self.variables.truncate(len);
        self.map.truncate_dims(len);
    }

    /// Lanes of the vectors being emitted.
    pub fn lanes(&self) -> Option<u32> {
        self.lane.map(|(_, lanes)| lanes)
    }

    /// Whether an expression depends on a variable, directly or through one that stands for an expression.
    pub fn depends(&self, expr: Expr<'c>, on: Var) -> bool {
        expr.variables()
            .into_iter()
            .any(|variable| variable == on || self.meaning(variable).is_some_and(|meaning| self.depends(meaning, on)))
    }

    /// Whether an expression depends on a variable only through ones that stand for expressions.
    pub fn depends_through_name(&self, expr: Expr<'c>, on: Var) -> bool {
        expr.variables()
            .into_iter()
            .any(|variable| self.meaning(variable).is_some_and(|meaning| self.depends(meaning, on)))
    }

    fn meaning(&self, variable: Var) -> Option<Expr<'c>> {
        let Var::Dim(position) = variable else { return None };
        self.variables.get(position as usize)?.meaning
    }

    /// Whether the expression differs between lanes.
    pub fn uses_lane(&self, expr: Expr<'c>) -> bool {
        self.lane.is_some_and(|(lane, _)| expr.uses(lane) || self.uses_values(expr))
    }

    /// Whether a variable of the expression is a vector.
    fn uses_vector(&self, expr: Expr<'c>) -> bool {
        self.uses(expr, |binding| matches!(binding, Binding::Lanes(_)))
    }

    /// Whether a variable of the expression has a value for each lane, be they known or not.
    fn uses_values(&self, expr: Expr<'c>) -> bool {
        self.uses(expr, |binding| matches!(binding, Binding::Lanes(_) | Binding::Constants))
    }

    fn uses(&self, expr: Expr<'c>, is_wanted: impl Fn(Binding<'c>) -> bool) -> bool {
        let mut found = false;
        expr.visit_variables(&mut |variable| found |= self.binding(variable).is_some_and(&is_wanted));
        found
    }

    /// The expression, simplified with the variables' ranges.
    pub fn simplify(&self, expr: Expr<'c>) -> Expr<'c> {
        if expr.as_constant().is_some() || expr.as_variable().is_some() {
            return expr;
        }
        self.map.simplify_expr(expr)
    }

    /// The values an expression can take.
    pub fn range(&self, expr: Expr<'c>) -> Interval {
        RangeEvaluator::without_constraints(&self.map).range(expr)
    }

    /// `Some(true)` or `Some(false)` where the variables' ranges decide a constraint, else `None`.
    pub fn truth(&self, constraint: &Constraint<'c>) -> Option<bool> {
        let range = self.range(self.simplify(constraint.expr));
        if constraint.interval.contains_interval(range) {
            return Some(true);
        }
        constraint.interval.intersect(range).is_empty().then_some(false)
    }

    /// The expression in lane `lane`.
    pub fn at_lane(&self, expr: Expr<'c>, lane: u32) -> Expr<'c> {
        let Some((variable, _)) = self.lane else { return expr };
        let value = |own| {
            if own == variable { Some(i64::from(lane)) } else { self.constants(own)?.get(lane as usize).copied() }
        };
        let replaced = expr.substitute(&|own| value(own).map(|value| self.constant(value)));
        self.simplify(replaced)
    }

    /// How the value of a (simplified) expression differs between lanes.
    pub fn lane_access(&self, expr: Expr<'c>) -> LaneAccess {
        let Some((variable, _)) = self.lane else { return LaneAccess::Uniform };
        if self.uses_values(expr) {
            return LaneAccess::Irregular;
        }
        if !expr.uses(variable) {
            return LaneAccess::Uniform;
        }
        let Some(sum) = Linear::from_expr(expr) else { return LaneAccess::Irregular };
        let lane = Expr::variable(self.context, variable);
        if sum.terms.iter().any(|(atom, _)| *atom != lane && atom.uses(variable)) {
            return LaneAccess::Irregular;
        }
        LaneAccess::Strided(sum.coefficient(lane))
    }

    /// What the lanes' values of an expression are more than that of lane 0, where these are constants.
    pub fn lane_offsets(&self, expr: Expr<'c>) -> Option<Vec<i64>> {
        if self.uses_vector(expr) {
            return None;
        }
        let first = Linear::from_expr(self.at_lane(expr, 0))?;
        (0..self.lanes()?)
            .map(|lane| {
                let here = Linear::from_expr(self.at_lane(expr, lane))?;
                here.same_terms(&first).then(|| here.constant.checked_sub(first.constant))?
            })
            .collect()
    }
}
