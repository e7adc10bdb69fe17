//! [`IndexingMap`]: results, variables and constraints; construction, evaluation, points of the domain.

use std::sync::Arc;

use crate::expr::{Expr, Var};
use crate::interval::Interval;

/// Bounds and name of a variable, and for a run-time variable what it stands for.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The values the variable takes.
    pub bounds: Interval,
    /// The name for printing; `d0`, `s0`, `rt0` by position if there is none.
    pub name: Option<Arc<str>>,
    /// The element whose value a run-time variable is; `None` for other variables.
    pub source: Option<Arc<RuntimeSource>>,
}

/// The array element a run-time variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSource {
    /// The HLO value, an identifier of the user of this crate.
    pub value: u64,
    /// The index of the element, in the variables of the map that owns the run-time variable.
    pub index: Vec<Expr>,
}

/// Says that the values of an expression lie in an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// The constrained expression.
    pub expr: Expr,
    /// Where its values lie.
    pub interval: Interval,
}

/// A function from dimension, range and run-time variables to indices, with its domain.
///
/// Every variable that occurs in an expression should be in the lists; one that is not has no bounds and
/// makes evaluation fail. A map whose domain was found empty is *known empty*: it has lost its results'
/// expressions and constraints, and keeps the numbers of variables and results.
#[derive(Debug, Clone)]
pub struct IndexingMap {
    pub(crate) dims: Vec<Variable>,
    pub(crate) ranges: Vec<Variable>,
    pub(crate) runtimes: Vec<Variable>,
    pub(crate) results: Vec<Expr>,
    pub(crate) constraints: Vec<Constraint>,
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

impl Variable {
    /// A variable without a name.
    pub fn new(bounds: Interval) -> Variable {
        Variable { bounds, name: None, source: None }
    }

    /// An index into `size` elements: bounds `[0, size - 1]`.
    pub fn of_size(size: i64) -> Variable {
        Variable::new(Interval::of_size(size))
    }

    /// A run-time variable that is the element at `index` of `value`.
    pub fn runtime(bounds: Interval, value: u64, index: Vec<Expr>) -> Variable {
        Variable { bounds, name: None, source: Some(Arc::new(RuntimeSource { value, index })) }
    }

    /// The variable with a name.
    pub fn named(mut self, name: &str) -> Variable {
        self.name = Some(Arc::from(name));
        self
    }
}

impl PartialEq for Variable {
    /// Names do not count.
    fn eq(&self, other: &Variable) -> bool {
        self.bounds == other.bounds && self.source == other.source
    }
}

impl Eq for Variable {}

impl Constraint {
    /// `expr in interval`.
    pub fn new(expr: Expr, interval: Interval) -> Constraint {
        Constraint { expr, interval }
    }
}

/// One variable per size, with bounds `[0, size - 1]`.
pub fn variables_of_sizes(sizes: &[i64]) -> Vec<Variable> {
    sizes.iter().map(|&size| Variable::of_size(size)).collect()
}

impl IndexingMap {
    /// A map from its parts. Constraints on a single variable become bounds, constant ones vanish.
    pub fn new(
        dims: Vec<Variable>,
        ranges: Vec<Variable>,
        runtimes: Vec<Variable>,
        results: Vec<Expr>,
        constraints: Vec<Constraint>,
    ) -> IndexingMap {
        let mut map = IndexingMap { dims, ranges, runtimes, results, constraints: Vec::new(), known_empty: false };
        if map.all_variables().any(|v| map.bounds(v).is_empty()) {
            map.reset_to_known_empty();
        }
        for constraint in constraints {
            map.add_constraint(constraint.expr, constraint.interval);
        }
        map
    }

    /// A map without constraints from an array of `dim_sizes`, with range variables of `range_sizes`.
    pub fn from_sizes(dim_sizes: &[i64], range_sizes: &[i64], results: Vec<Expr>) -> IndexingMap {
        IndexingMap::new(
            variables_of_sizes(dim_sizes),
            variables_of_sizes(range_sizes),
            Vec::new(),
            results,
            Vec::new(),
        )
    }

    /// The result expressions, one per dimension of the target.
    pub fn results(&self) -> &[Expr] {
        &self.results
    }

    /// The dimension variables.
    pub fn dims(&self) -> &[Variable] {
        &self.dims
    }

    /// The range variables.
    pub fn ranges(&self) -> &[Variable] {
        &self.ranges
    }

    /// The run-time variables.
    pub fn runtimes(&self) -> &[Variable] {
        &self.runtimes
    }

    /// The constraints beyond the variables' bounds.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Whether the domain was found to hold no point. A map may be empty without being known so.
    pub fn is_known_empty(&self) -> bool {
        self.known_empty
    }

    /// The variable's description, if there is such a variable.
    pub fn variable(&self, variable: Var) -> Option<&Variable> {
        match variable {
            Var::Dim(i) => self.dims.get(i as usize),
            Var::Range(i) => self.ranges.get(i as usize),
            Var::Runtime(i) => self.runtimes.get(i as usize),
        }
    }

    pub(crate) fn variable_mut(&mut self, variable: Var) -> Option<&mut Variable> {
        match variable {
            Var::Dim(i) => self.dims.get_mut(i as usize),
            Var::Range(i) => self.ranges.get_mut(i as usize),
            Var::Runtime(i) => self.runtimes.get_mut(i as usize),
        }
    }

    /// The variable's bounds; [`Interval::FULL`] if there is no such variable.
    pub fn bounds(&self, variable: Var) -> Interval {
        self.variable(variable).map_or(Interval::FULL, |v| v.bounds)
    }

    /// All variables: dimensions, ranges, run-time variables.
    pub fn all_variables(&self) -> impl Iterator<Item = Var> + use<> {
        let (dims, ranges, runtimes) = (self.dims.len() as u32, self.ranges.len() as u32, self.runtimes.len() as u32);
        (0..dims).map(Var::Dim).chain((0..ranges).map(Var::Range)).chain((0..runtimes).map(Var::Runtime))
    }

    /// The map with other results over the same domain.
    pub fn with_results(&self, results: Vec<Expr>) -> IndexingMap {
        let results = if self.known_empty { vec![Expr::constant(0); results.len()] } else { results };
        IndexingMap { results, ..self.clone() }
    }

    /// Restricts the domain to the points where `expr` lies in `interval`.
    pub fn add_constraint(&mut self, expr: Expr, interval: Interval) {
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
        if let Some(variable) = expr.as_variable() {
            if let Some(v) = self.variable_mut(variable) {
                v.bounds = v.bounds.intersect(interval);
                if v.bounds.is_empty() {
                    self.reset_to_known_empty();
                }
                return;
            }
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
        self.results.fill(Expr::constant(0));
        for variable in self.dims.iter_mut().chain(&mut self.ranges).chain(&mut self.runtimes) {
            variable.bounds = Interval::new(0, -1);
            variable.source = None;
        }
    }

    /// The results at a point, which need not be in the domain; `None` where an expression has no value.
    pub fn evaluate(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> Option<Vec<i64>> {
        self.results.iter().map(|expr| expr.evaluate(dims, ranges, runtimes)).collect()
    }

    /// Whether the constraints (not the variables' bounds) hold at a point.
    pub fn constraints_hold(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> bool {
        !self.known_empty
            && self
                .constraints
                .iter()
                .all(|c| c.expr.evaluate(dims, ranges, runtimes).is_some_and(|value| c.interval.contains(value)))
    }

    /// Whether a point is in the domain: bounds and constraints.
    pub fn contains(&self, dims: &[i64], ranges: &[i64], runtimes: &[i64]) -> bool {
        let inside = |variables: &[Variable], values: &[i64]| {
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
    pub fn points(&self) -> Points<'_> {
        let bounds: Vec<Interval> = self.all_variables().map(|v| self.bounds(v)).collect();
        let next = (!self.known_empty && bounds.iter().all(|b| !b.is_empty()))
            .then(|| bounds.iter().map(|b| b.lower).collect());
        Points { map: self, bounds, next }
    }

    /// Rewrites every expression of the map; constraints are re-added, so that they fold.
    pub(crate) fn rewrite(&mut self, change: &dyn Fn(&Expr) -> Expr) {
        for expr in &mut self.results {
            *expr = change(expr);
        }
        for runtime in &mut self.runtimes {
            if let Some(source) = &runtime.source {
                let index = source.index.iter().map(change).collect();
                runtime.source = Some(Arc::new(RuntimeSource { value: source.value, index }));
            }
        }
        for constraint in std::mem::take(&mut self.constraints) {
            self.add_constraint(change(&constraint.expr), constraint.interval);
        }
    }
}

impl PartialEq for IndexingMap {
    /// Equal text up to the variables' names and the order of constraints, and equal run-time sources.
    fn eq(&self, other: &IndexingMap) -> bool {
        self.known_empty == other.known_empty
            && self.results == other.results
            && self.dims == other.dims
            && self.ranges == other.ranges
            && self.runtimes == other.runtimes
            && self.constraints.len() == other.constraints.len()
            && self.constraints.iter().all(|c| other.constraints.contains(c))
    }
}

impl Eq for IndexingMap {}

/// Iterator over the points of a domain, see [`IndexingMap::points`].
pub struct Points<'a> {
    map: &'a IndexingMap,
    bounds: Vec<Interval>,
    next: Option<Vec<i64>>,
}

impl Iterator for Points<'_> {
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

impl Points<'_> {
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
