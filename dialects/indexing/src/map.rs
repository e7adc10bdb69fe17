//! [`IndexingMap`]: an affine map, its variables and constraints; construction, evaluation, points of the domain.

use std::rc::Rc;
use std::sync::Arc;

use melior::Context;
use melior::ir::AffineMap;
use mlir_ext::affine::{self, Expr, Var};

use crate::interval::Interval;

/// Bounds and name of a variable, and for a run-time variable what it stands for.
#[derive(Debug, Clone)]
pub struct Variable<'c> {
    /// The values the variable takes.
    pub bounds: Interval,
    /// The name for printing; `d0`, `s0`, `rt0` by position if there is none.
    pub name: Option<Arc<str>>,
    /// The element whose value a run-time variable is; `None` for other variables.
    pub source: Option<Rc<RuntimeSource<'c>>>,
}

/// The array element a run-time variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSource<'c> {
    /// The HLO value, an identifier of the user of this crate.
    pub value: u64,
    /// The index of the element, in the variables of the map that owns the run-time variable.
    pub index: Vec<Expr<'c>>,
}

/// Says that the values of an expression lie in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constraint<'c> {
    /// The constrained expression.
    pub expr: Expr<'c>,
    /// Where its values lie.
    pub interval: Interval,
}

/// A function from dimension, range and run-time variables to indices, with its domain.
///
/// The function is an affine map: dimension variables are its dimensions; its symbols are the range variables, then
/// the run-time variables. Every variable that occurs in an expression is in the lists. A map whose domain was found
/// empty is *known empty*: it has lost its results' expressions and constraints, and keeps the numbers of variables
/// and results.
#[derive(Debug, Clone)]
pub struct IndexingMap<'c> {
    pub(crate) context: &'c Context,
    map: AffineMap<'c>,
    pub(crate) dims: Vec<Variable<'c>>,
    pub(crate) ranges: Vec<Variable<'c>>,
    pub(crate) runtimes: Vec<Variable<'c>>,
    pub(crate) constraints: Vec<Constraint<'c>>,
    pub(crate) known_empty: bool,
}

/// A point of a domain: values of the dimension, range and run-time variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Values of the dimension variables.
    pub dims: Vec<i64>,
    /// Values of the range variables.
    pub ranges: Vec<i64>,
    /// Values of the run-time variables.
    pub runtimes: Vec<i64>,
}

impl<'c> Variable<'c> {
    /// A variable without a name.
    pub fn new(bounds: Interval) -> Self {
        Variable { bounds, name: None, source: None }
    }

    /// An index into `size` elements: bounds `[0, size - 1]`.
    pub fn of_size(size: i64) -> Self {
        Variable::new(Interval::of_size(size))
    }

    /// A run-time variable that is the element at `index` of `value`.
    pub fn runtime(bounds: Interval, value: u64, index: Vec<Expr<'c>>) -> Self {
        Variable { bounds, name: None, source: Some(Rc::new(RuntimeSource { value, index })) }
    }

    /// The variable with a name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(Arc::from(name));
        self
    }

    /// The variable with another index of the element it stands for.
    pub(crate) fn rewritten(&self, change: &dyn Fn(Expr<'c>) -> Expr<'c>) -> Self {
        let change = |source: &Rc<RuntimeSource<'c>>| RuntimeSource {
            value: source.value,
            index: source.index.iter().map(|&expr| change(expr)).collect(),
        };
        Variable { source: self.source.as_ref().map(|source| Rc::new(change(source))), ..self.clone() }
    }
}

impl PartialEq for Variable<'_> {
    /// Names do not count.
    fn eq(&self, other: &Self) -> bool {
        self.bounds == other.bounds && self.source == other.source
    }
}

impl Eq for Variable<'_> {}

impl<'c> Constraint<'c> {
    /// `expr in interval`.
    pub fn new(expr: Expr<'c>, interval: Interval) -> Self {
        Constraint { expr, interval }
    }
}

/// One variable per size, with bounds `[0, size - 1]`.
pub fn variables_of_sizes<'c>(sizes: &[i64]) -> Vec<Variable<'c>> {
    sizes.iter().map(|&size| Variable::of_size(size)).collect()
}

impl<'c> IndexingMap<'c> {
    /// A map from its parts. Constraints on a single variable become bounds, constant ones vanish.
    pub fn new(
        context: &'c Context,
        dims: Vec<Variable<'c>>,
        ranges: Vec<Variable<'c>>,
        runtimes: Vec<Variable<'c>>,
        results: Vec<Expr<'c>>,
        constraints: Vec<Constraint<'c>>,
    ) -> Self {
        let map = affine::map(context, dims.len(), ranges.len() + runtimes.len(), &results);
        let mut map = IndexingMap { context, map, dims, ranges, runtimes, constraints: Vec::new(), known_empty: false };
        if map.all_variables().any(|v| map.bounds(v).is_empty()) {
            map.reset_to_known_empty();
        }
        for constraint in constraints {
            map.add_constraint(constraint.expr, constraint.interval);
        }
        map
    }

    /// A map without constraints from an array of `dim_sizes`, with range variables of `range_sizes`.
    pub fn from_sizes(context: &'c Context, dim_sizes: &[i64], range_sizes: &[i64], results: Vec<Expr<'c>>) -> Self {
        let (dims, ranges) = (variables_of_sizes(dim_sizes), variables_of_sizes(range_sizes));
        IndexingMap::new(context, dims, ranges, Vec::new(), results, Vec::new())
    }

    /// The context of the map's expressions.
    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// The function without its domain.
    pub fn affine_map(&self) -> AffineMap<'c> {
        self.map
    }

    /// The result expressions, one per dimension of the target.
    pub fn results(&self) -> &'c [Expr<'c>] {
        affine::results(self.map)
    }

    /// The dimension variables.
    pub fn dims(&self) -> &[Variable<'c>] {
        &self.dims
    }

    /// The range variables.
    pub fn ranges(&self) -> &[Variable<'c>] {
        &self.ranges
    }

    /// The run-time variables.
    pub fn runtimes(&self) -> &[Variable<'c>] {
        &self.runtimes
    }

    /// The constraints beyond the variables' bounds.
    pub fn constraints(&self) -> &[Constraint<'c>] {
        &self.constraints
    }

    /// Whether the domain was found to hold no point. A map may be empty without being known so.
    pub fn is_known_empty(&self) -> bool {
        self.known_empty
    }

    /// Range variable number `i`.
    pub fn range(&self, i: usize) -> Var {
        Var::Symbol(i as u32)
    }

    /// Run-time variable number `i`.
    pub fn runtime(&self, i: usize) -> Var {
        Var::Symbol((self.ranges.len() + i) as u32)
    }

    /// The place of a variable among the run-time variables, if it is one.
    pub fn as_runtime(&self, variable: Var) -> Option<usize> {
        match variable {
            Var::Dim(_) => None,
            Var::Symbol(i) => (i as usize).checked_sub(self.ranges.len()),
        }
    }

    /// The variable's description, if there is such a variable.
    pub fn variable(&self, variable: Var) -> Option<&Variable<'c>> {
        match (variable, self.as_runtime(variable)) {
            (Var::Dim(i), _) => self.dims.get(i as usize),
            (Var::Symbol(_), Some(i)) => self.runtimes.get(i),
            (Var::Symbol(i), None) => self.ranges.get(i as usize),
        }
    }

    pub(crate) fn variable_mut(&mut self, variable: Var) -> Option<&mut Variable<'c>> {
        match (variable, self.as_runtime(variable)) {
            (Var::Dim(i), _) => self.dims.get_mut(i as usize),
            (Var::Symbol(_), Some(i)) => self.runtimes.get_mut(i),
            (Var::Symbol(i), None) => self.ranges.get_mut(i as usize),
        }
    }

    /// The variable's bounds; [`Interval::FULL`] if there is no such variable.
    pub fn bounds(&self, variable: Var) -> Interval {
        self.variable(variable).map_or(Interval::FULL, |v| v.bounds)
    }

    /// All variables: dimensions, ranges, run-time variables.
    pub fn all_variables(&self) -> impl Iterator<Item = Var> + use<> {
        let (dims, symbols) = (self.dims.len() as u32, (self.ranges.len() + self.runtimes.len()) as u32);
        (0..dims).map(Var::Dim).chain((0..symbols).map(Var::Symbol))
    }

    /// Adds a dimension variable after the others.
    pub fn push_dim(&mut self, dim: Variable<'c>) {
        let is_empty = dim.bounds.is_empty();
        self.dims.push(dim);
        self.set_results(self.results());
        if is_empty {
            self.reset_to_known_empty();
        }
    }

    /// Removes the dimension variables from number `len` on, of a map without results and constraints.
    pub fn truncate_dims(&mut self, len: usize) {
        debug_assert!(self.results().is_empty() && self.constraints.is_empty());
        self.dims.truncate(len);
        self.set_results(&[]);
        self.known_empty = self.known_empty && self.all_variables().any(|v| self.bounds(v).is_empty());
    }

    /// The map with other results over the same domain.
    pub fn with_results(&self, results: Vec<Expr<'c>>) -> Self {
        let mut map = self.clone();
        map.set_results(&results);
        if map.known_empty {
            map.reset_to_known_empty();
        }
        map
    }

    /// Replaces the affine map; its variables are those in the lists.
    pub(crate) fn set_results(&mut self, results: &[Expr<'c>]) {
        self.map = affine::map(self.context, self.dims.len(), self.ranges.len() + self.runtimes.len(), results);
    }

    /// Restricts the domain to the points where `expr` lies in `interval`.
    pub fn add_constraint(&mut self, expr: Expr<'c>, interval: Interval) {
        if self.known_empty {
            return;
        }
        if interval.is_empty() {
            return self.reset_to_known_empty();
        }
        if let Some(value) = expr.as_constant() {
            if !interval.contains(value) {
                self.reset_to_known_empty();
            }
            return;
        }
        if let Some(variable) = expr.as_variable()
            && let Some(v) = self.variable_mut(variable)
        {
            v.bounds = v.bounds.intersect(interval);
            if v.bounds.is_empty() {
                self.reset_to_known_empty();
            }
            return;
        }
        match self.constraints.iter_mut().find(|c| c.expr == expr) {
            Some(constraint) => {
                constraint.interval = constraint.interval.intersect(interval);
                if constraint.interval.is_empty() {
                    self.reset_to_known_empty();
                }
            }
            None => self.constraints.push(Constraint { expr, interval }),
        }
    }

    /// The one form all empty maps take.
    pub(crate) fn reset_to_known_empty(&mut self) {
        self.known_empty = true;
        self.constraints.clear();
        self.set_results(&vec![Expr::constant(self.context, 0); self.results().len()]);
        for variable in self.dims.iter_mut().chain(&mut self.ranges).chain(&mut self.runtimes) {
            variable.bounds = Interval::new(0, -1);
            variable.source = None;
        }
    }

    /// The results at a point, which need not be in the domain; `None` where an expression has no value.
    pub fn evaluate(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> Option<Vec<i64>> {
        let symbols = [ranges, runtimes].concat();
        self.results().iter().map(|expr| expr.evaluate(dims, &symbols)).collect()
    }

    /// Whether the constraints (not the variables' bounds) hold at a point.
    pub fn constraints_hold(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> bool {
        let symbols = [ranges, runtimes].concat();
        let holds = |c: &Constraint<'_>| c.expr.evaluate(dims, &symbols).is_some_and(|v| c.interval.contains(v));
        !self.known_empty && self.constraints.iter().all(holds)
    }

    /// Whether a point is in the domain: bounds and constraints.
    pub fn contains(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> bool {
        let inside = |variables: &[Variable<'_>], values: &[i64]| {
            variables.len() == values.len() && variables.iter().zip(values).all(|(v, &x)| v.bounds.contains(x))
        };
        inside(&self.dims, dims)
            && inside(&self.ranges, ranges)
            && inside(&self.runtimes, runtimes)
            && self.constraints_hold(dims, ranges, runtimes)
    }

    /// The number of points of the variables' box, constraints not counted; `None` beyond `u64`.
    pub fn box_size(&self) -> Option<u64> {
        self.all_variables().try_fold(1u64, |n, v| n.checked_mul(self.bounds(v).len()?))
    }

    /// Every point of the domain, the last run-time variable fastest, then ranges, then dimensions.
    pub fn points(&self) -> Points<'_, 'c> {
        let bounds: Vec<Interval> = self.all_variables().map(|v| self.bounds(v)).collect();
        let next = (!self.known_empty && bounds.iter().all(|b| !b.is_empty()))
            .then(|| bounds.iter().map(|b| b.lower).collect());
        Points { map: self, bounds, next }
    }

    /// Rewrites every expression of the map; constraints are re-added, so that they fold. Where the numbers of
    /// variables change with it, the lists have changed before.
    pub(crate) fn rewrite(&mut self, change: &dyn Fn(Expr<'c>) -> Expr<'c>) {
        let results: Vec<Expr<'c>> = self.results().iter().map(|&expr| change(expr)).collect();
        self.set_results(&results);
        for runtime in &mut self.runtimes {
            *runtime = runtime.rewritten(change);
        }
        for constraint in std::mem::take(&mut self.constraints) {
            self.add_constraint(change(constraint.expr), constraint.interval);
        }
    }
}

impl PartialEq for IndexingMap<'_> {
    /// Equal text up to the variables' names and the order of constraints, and equal run-time sources.
    fn eq(&self, other: &Self) -> bool {
        self.known_empty == other.known_empty
            && self.map == other.map
            && self.dims == other.dims
            && self.ranges == other.ranges
            && self.runtimes == other.runtimes
            && self.constraints.len() == other.constraints.len()
            && self.constraints.iter().all(|c| other.constraints.contains(c))
    }
}

impl Eq for IndexingMap<'_> {}

/// Iterator over the points of a domain, see [`IndexingMap::points`].
pub struct Points<'a, 'c> {
    map: &'a IndexingMap<'c>,
    bounds: Vec<Interval>,
    next: Option<Vec<i64>>,
}

impl Iterator for Points<'_, '_> {
    type Item = Point;

    fn next(&mut self) -> Option<Point> {
        loop {
            let current = self.next.take()?;
            self.next = self.after(&current);
            let (dims, rest) = current.split_at(self.map.dims.len());
            let (ranges, runtimes) = rest.split_at(self.map.ranges.len());
            if self.map.constraints_hold(dims, ranges, runtimes) {
                return Some(Point { dims: dims.to_vec(), ranges: ranges.to_vec(), runtimes: runtimes.to_vec() });
            }
        }
    }
}

impl Points<'_, '_> {
    fn after(&self, point: &[i64]) -> Option<Vec<i64>> {
        let mut next = point.to_vec();
        for (value, bounds) in next.iter_mut().zip(&self.bounds).rev() {
            if *value < bounds.upper {
                *value += 1;
                return Some(next);
            }
            *value = bounds.lower;
        }
        None
    }
}
