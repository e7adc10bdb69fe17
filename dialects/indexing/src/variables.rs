//! Removing, converting and rescaling variables.

use crate::expr::{Expr, Var};
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
    fn get(&self, variable: Var) -> bool {
        match variable {
            Var::Dim(i) => self.dims.get(i as usize),
            Var::Range(i) => self.ranges.get(i as usize),
            Var::Runtime(i) => self.runtimes.get(i as usize),
        }
        .copied()
        .unwrap_or(false)
    }

    fn set(&mut self, variable: Var, value: bool) {
        let entry = match variable {
            Var::Dim(i) => self.dims.get_mut(i as usize),
            Var::Range(i) => self.ranges.get_mut(i as usize),
            Var::Runtime(i) => self.runtimes.get_mut(i as usize),
        };
        if let Some(entry) = entry {
            *entry = value;
        }
    }

    /// Whether any variable was removed.
    pub fn any(&self) -> bool {
        self.dims.iter().chain(&self.ranges).chain(&self.runtimes).any(|&gone| gone)
    }
}

impl IndexingMap {
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
        let mut unused = Removed {
            dims: vec![dims_too; self.dims.len()],
            ranges: vec![true; self.ranges.len()],
            runtimes: vec![true; self.runtimes.len()],
        };
        for expr in &self.results {
            expr.visit_variables(&mut |v| unused.set(v, false));
        }
        // A used variable in a constraint makes the constraint and its other variables used, and a used
        // run-time variable makes those of its index used.
        loop {
            let before = unused.clone();
            for constraint in &self.constraints {
                let variables = constraint.expr.variables();
                if variables.iter().any(|&v| !unused.get(v)) {
                    variables.iter().for_each(|&v| unused.set(v, false));
                }
            }
            for (i, runtime) in self.runtimes.iter().enumerate() {
                let Some(source) = &runtime.source else { continue };
                if !unused.get(Var::Runtime(i as u32)) {
                    for expr in &source.index {
                        expr.visit_variables(&mut |v| unused.set(v, false));
                    }
                }
            }
            if unused == before {
                break;
            }
        }
        self.constraints.retain(|c| c.expr.variables().iter().any(|&v| !unused.get(v)));
        if unused.any() {
            self.remove(&unused);
        }
        unused
    }

    /// Removes the given variables, which no result or constraint uses.
    fn remove(&mut self, removed: &Removed) {
        let new_places = |gone: &[bool]| {
            let mut next = 0;
            gone.iter()
                .map(|&gone| {
                    next += u32::from(!gone);
                    next.saturating_sub(1)
                })
                .collect::<Vec<u32>>()
        };
        let (dims, ranges, runtimes) =
            (new_places(&removed.dims), new_places(&removed.ranges), new_places(&removed.runtimes));
        let place = |places: &[u32], i: u32| places.get(i as usize).copied().unwrap_or(i);
        let keep = |variables: &mut Vec<Variable>, gone: &[bool]| {
            let mut i = 0;
            variables.retain(|_| {
                i += 1;
                !gone.get(i - 1).copied().unwrap_or(false)
            });
        };
        keep(&mut self.dims, &removed.dims);
        keep(&mut self.ranges, &removed.ranges);
        keep(&mut self.runtimes, &removed.runtimes);
        self.rewrite(&|expr| {
            expr.substitute(&|variable| {
                Some(Expr::variable(match variable {
                    Var::Dim(i) => Var::Dim(place(&dims, i)),
                    Var::Range(i) => Var::Range(place(&ranges, i)),
                    Var::Runtime(i) => Var::Runtime(place(&runtimes, i)),
                }))
            })
        });
    }

    /// Replaces each range variable `s` that a constraint `s mod m = r` binds by `s * m + r`, with a new `s`
    /// that counts the values that are left. Returns whether there was one.
    pub fn rescale_symbols(&mut self) -> bool {
        self.merge_congruences();
        let mut rescaled = false;
        while let Some((at, i, m, r)) = self.constraints.iter().enumerate().find_map(|(at, c)| {
            let (x, m, r) = congruence(c)?;
            match x.as_variable() {
                Some(Var::Range(i)) => Some((at, i, m, r)),
                _ => None,
            }
        }) {
            self.constraints.remove(at);
            let Some(variable) = self.ranges.get_mut(i as usize) else { break };
            let shifted = variable.bounds - Interval::point(r);
            variable.bounds = Interval::new(ceil_div(shifted.lower, m), floor_div(shifted.upper, m));
            let replacement = Expr::range(i as usize) * m + r;
            self.rewrite(&|expr| expr.substitute(&|v| (v == Var::Range(i)).then(|| replacement.clone())));
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
    pub fn replace_runtime(&mut self, i: usize, expr: &Expr) {
        let variable = Var::Runtime(i as u32);
        self.rewrite(&|e| e.substitute(&|v| (v == variable).then(|| expr.clone())));
    }

    /// Changes what run-time variable number `i` stands for.
    pub fn set_runtime_source(&mut self, i: usize, source: RuntimeSource) {
        if let Some(variable) = self.runtimes.get_mut(i) {
            variable.source = Some(source.into());
        }
    }

    /// The map in which the last `count` range variables are run-time variables, before those there are.
    pub fn ranges_to_runtimes(&self, count: usize) -> IndexingMap {
        let mut map = self.clone();
        let first = map.ranges.len().saturating_sub(count);
        let moved = map.ranges.len() - first;
        map.rewrite(&|expr| {
            expr.substitute(&|variable| match variable {
                Var::Range(i) if i as usize >= first => Some(Expr::runtime(i as usize - first)),
                Var::Runtime(i) => Some(Expr::runtime(i as usize + moved)),
                Var::Dim(_) | Var::Range(_) => None,
            })
        });
        let tail = map.ranges.split_off(first);
        map.runtimes.splice(0..0, tail);
        map
    }

    /// The map with names for its variables, as far as the lists go.
    pub fn with_names(&self, dims: &[String], ranges: &[String], runtimes: &[String]) -> IndexingMap {
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
    pub fn symbols_to_dims(&self) -> IndexingMap {
        let mut map = self.clone();
        let dims = map.dims.len() as u32;
        let ranges = map.ranges.len() as u32;
        map.rewrite(&|expr| {
            expr.substitute(&|variable| match variable {
                Var::Dim(_) => None,
                Var::Range(i) => Some(Expr::variable(Var::Dim(dims + i))),
                Var::Runtime(i) => Some(Expr::variable(Var::Dim(dims + ranges + i))),
            })
        });
        let symbols = map.ranges.drain(..).chain(map.runtimes.drain(..));
        map.dims.extend(symbols.map(|v| Variable { source: None, name: None, ..v }));
        map
    }

    /// The map in which the range variables at `positions` (ascending) are further dimensions.
    pub fn ranges_to_dims(&self, positions: &[usize]) -> IndexingMap {
        let mut map = self.clone();
        let dims = map.dims.len();
        let before = |i: usize| positions.iter().filter(|&&p| p < i).count();
        map.rewrite(&|expr| {
            expr.substitute(&|variable| match variable {
                Var::Range(i) => Some(match positions.iter().position(|&p| p == i as usize) {
                    Some(place) => Expr::dim(dims + place),
                    None => Expr::range(i as usize - before(i as usize)),
                }),
                Var::Dim(_) | Var::Runtime(_) => None,
            })
        });
        let mut kept = Vec::new();
        for (i, variable) in std::mem::take(&mut map.ranges).into_iter().enumerate() {
            if positions.contains(&i) {
                map.dims.push(variable);
            } else {
                kept.push(variable);
            }
        }
        map.ranges = kept;
        map
    }
}
