//! Removing, converting and rescaling variables.

use melior::Context;
use mlir_ext::affine::{Expr, Var};

use crate::interval::{Interval, ceil_div, floor_div};
use crate::map::{IndexingMap, RuntimeSource, Variable};
use crate::simplify::congruence;

/// Which variables were removed, by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// For each former dimension variable, whether it is gone.
    pub dims: Vec<bool>,
    /// For each former range variable, whether it is gone.
    pub ranges: Vec<bool>,
    /// For each former run-time variable, whether it is gone.
    pub runtimes: Vec<bool>,
}

impl Removed {
    /// Whether any variable was removed.
    pub fn any(&self) -> bool {
        self.dims.iter().chain(&self.ranges).chain(&self.runtimes).any(|&gone| gone)
    }
}

impl<'c> IndexingMap<'c> {
    /// Removes range and run-time variables on which neither a result nor a constraint that also concerns
    /// other variables depends, and the constraints on them alone (whose satisfiability is assumed).
    pub fn remove_unused_symbols(&mut self) -> Removed {
        self.remove_unused(false)
    }

    /// As [`IndexingMap::remove_unused_symbols`], for dimension variables too.
    pub fn remove_unused_variables(&mut self) -> Removed {
        self.remove_unused(true)
    }

    fn remove_unused(&mut self, dims_too: bool) -> Removed {
        let (dims, ranges) = (self.dims.len(), self.ranges.len());
        let symbols = ranges + self.runtimes.len();
        let place = |variable: Var| match variable {
            Var::Dim(i) => i as usize,
            Var::Symbol(i) => dims + i as usize,
        };
        // By place: dimensions, ranges, run-time variables.
        let mut unused = [vec![dims_too; dims], vec![true; symbols]].concat();
        for expr in self.results() {
            expr.visit_variables(&mut |v| unused[place(v)] = false);
        }
        // A used variable in a constraint makes the constraint and its other variables used, and a used
        // run-time variable makes those of its index used.
        loop {
            let before = unused.clone();
            for constraint in &self.constraints {
                let variables = constraint.expr.variables();
                if variables.iter().any(|&v| !unused[place(v)]) {
                    variables.iter().for_each(|&v| unused[place(v)] = false);
                }
            }
            for (i, runtime) in self.runtimes.iter().enumerate() {
                let Some(source) = &runtime.source else { continue };
                if !unused[dims + ranges + i] {
                    for expr in &source.index {
                        expr.visit_variables(&mut |v| unused[place(v)] = false);
                    }
                }
            }
            if unused == before {
                break;
            }
        }
        self.constraints.retain(|c| c.expr.variables().iter().any(|&v| !unused[place(v)]));
        let removed = Removed {
            dims: unused[..dims].to_vec(),
            ranges: unused[dims..dims + ranges].to_vec(),
            runtimes: unused[dims + ranges..].to_vec(),
        };
        if removed.any() {
            self.remove(&removed);
        }
        removed
    }

    /// Removes the given variables, which no result or constraint uses.
    fn remove(&mut self, removed: &Removed) {
        let new_places = |gone: &[bool], leaf: fn(&'c Context, usize) -> Expr<'c>| {
            let places = gone.iter().scan(0, |next, &gone| {
                let place = *next;
                *next += usize::from(!gone);
                Some(leaf(self.context, place))
            });
            places.collect::<Vec<Expr<'c>>>()
        };
        let dims = new_places(&removed.dims, Expr::dim);
        let symbols = new_places(&[removed.ranges.as_slice(), &removed.runtimes].concat(), Expr::symbol);
        let keep = |variables: &mut Vec<Variable<'c>>, gone: &[bool]| {
            let mut gone = gone.iter();
            variables.retain(|_| gone.next() == Some(&false));
        };
        keep(&mut self.dims, &removed.dims);
        keep(&mut self.ranges, &removed.ranges);
        keep(&mut self.runtimes, &removed.runtimes);
        self.rewrite(&|expr| expr.replace(&dims, &symbols));
    }

    /// Replaces each range variable `s` that a constraint `s mod m = r` binds by `s * m + r`, with a new `s`
    /// that counts the values that are left. Returns whether there was one.
    pub fn rescale_symbols(&mut self) -> bool {
        self.merge_congruences();
        let mut rescaled = false;
        while let Some((at, i, m, r)) = self.constraints.iter().enumerate().find_map(|(at, c)| {
            let (x, m, r) = congruence(c)?;
            match x.as_variable() {
                Some(Var::Symbol(i)) if (i as usize) < self.ranges.len() => Some((at, i, m, r)),
                Some(_) | None => None,
            }
        }) {
            self.constraints.remove(at);
            let Some(variable) = self.ranges.get_mut(i as usize) else { break };
            let shifted = variable.bounds - Interval::point(r);
            variable.bounds = Interval::new(ceil_div(shifted.lower, m), floor_div(shifted.upper, m));
            let replacement = Expr::symbol(self.context, i as usize) * m + r;
            self.rewrite(&|expr| expr.substitute(&|v| (v == Var::Symbol(i)).then_some(replacement)));
            rescaled = true;
        }
        rescaled
    }

    /// Gives range variable number `i` the bounds `[0, size - 1]`.
    pub fn set_range_size(&mut self, i: usize, size: i64) {
        if let Some(variable) = self.ranges.get_mut(i) {
            variable.bounds = Interval::of_size(size);
        }
    }

    /// Replaces run-time variable number `i` by an expression; the variable stays, unused.
    pub fn replace_runtime(&mut self, i: usize, expr: Expr<'c>) {
        let variable = self.runtime(i);
        self.rewrite(&|e| e.substitute(&|v| (v == variable).then_some(expr)));
    }

    /// Changes what run-time variable number `i` stands for.
    pub fn set_runtime_source(&mut self, i: usize, source: RuntimeSource<'c>) {
        if let Some(variable) = self.runtimes.get_mut(i) {
            variable.source = Some(source.into());
        }
    }

    /// The map in which the last `count` range variables are run-time variables, before those there are.
    pub fn ranges_to_runtimes(&self, count: usize) -> IndexingMap<'c> {
        let mut map = self.clone();
        let tail = map.ranges.split_off(map.ranges.len().saturating_sub(count));
        map.runtimes.splice(0..0, tail);
        map
    }

    /// The map with names for its variables, as far as the lists go.
    pub fn with_names(&self, dims: &[String], ranges: &[String], runtimes: &[String]) -> IndexingMap<'c> {
        let mut map = self.clone();
        let lists = [(&mut map.dims, dims), (&mut map.ranges, ranges), (&mut map.runtimes, runtimes)];
        for (variables, names) in lists {
            for (variable, name) in variables.iter_mut().zip(names) {
                variable.name = Some(name.as_str().into());
            }
        }
        map
    }

    /// The map in which range and run-time variables are further dimensions, in this order.
    pub fn symbols_to_dims(&self) -> IndexingMap<'c> {
        let mut map = self.clone();
        let symbols = map.ranges.drain(..).chain(map.runtimes.drain(..));
        map.dims.extend(symbols.map(|v| Variable { source: None, name: None, ..v }));
        let places: Vec<Expr<'c>> = (self.dims.len()..map.dims.len()).map(|i| Expr::dim(self.context, i)).collect();
        map.rewrite(&|expr| expr.replace(&[], &places));
        map
    }

    /// The map in which the range variables at `positions` (ascending) are further dimensions.
    pub fn ranges_to_dims(&self, positions: &[usize]) -> IndexingMap<'c> {
        let mut map = self.clone();
        let mut places = Vec::new();
        let mut kept = Vec::new();
        for (i, variable) in std::mem::take(&mut map.ranges).into_iter().enumerate() {
            if positions.contains(&i) {
                places.push(Expr::dim(self.context, map.dims.len()));
                map.dims.push(variable);
            } else {
                places.push(Expr::symbol(self.context, kept.len()));
                kept.push(variable);
            }
        }
        places.extend((0..map.runtimes.len()).map(|i| Expr::symbol(self.context, kept.len() + i)));
        map.ranges = kept;
        map.rewrite(&|expr| expr.replace(&[], &places));
        map
    }
}
