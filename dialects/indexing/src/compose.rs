//! Composition of maps.

use crate::error::Error;
use crate::expr::{Expr, Var};
use crate::map::IndexingMap;

impl IndexingMap {
    /// `second` after `self`: `x -> second(self(x))`, on the points that `self` takes into `second`'s domain.
    ///
    /// The range and run-time variables are those of `second`, then those of `self`. The constraints are
    /// those of both, and that each result of `self` lies within the bounds of the dimension it feeds.
    /// Nothing is simplified.
    ///
    /// # Errors
    /// If `self` has not as many results as `second` has dimensions.
    pub fn compose(&self, second: &IndexingMap) -> Result<IndexingMap, Error> {
        let first = self;
        if first.results.len() != second.dims.len() {
            return Err(Error::Invalid(format!(
                "a map with {} results cannot be followed by one with {} dimensions",
                first.results.len(),
                second.dims.len()
            )));
        }
        let ranges = second.ranges.len() as u32;
        let runtimes = second.runtimes.len() as u32;
        // The variables of `first` come after those of `second`.
        let shift = |variable: Var| match variable {
            Var::Dim(_) => None,
            Var::Range(i) => Some(Expr::variable(Var::Range(i + ranges))),
            Var::Runtime(i) => Some(Expr::variable(Var::Runtime(i + runtimes))),
        };
        let mut shifted = first.clone();
        if ranges + runtimes > 0 {
            shifted.rewrite(&|expr| expr.substitute(&shift));
        }
        let mut composed = second.clone();
        composed.constraints.clear();
        composed.rewrite(&|expr| expr.substitute_dims(&shifted.results));
        composed.dims = shifted.dims;
        composed.ranges.extend(shifted.ranges);
        composed.runtimes.extend(shifted.runtimes);
        if first.known_empty || second.known_empty {
            composed.reset_to_known_empty();
            return Ok(composed);
        }
        for constraint in &second.constraints {
            composed.add_constraint(constraint.expr.substitute_dims(&shifted.results), constraint.interval);
        }
        for constraint in shifted.constraints {
            composed.add_constraint(constraint.expr, constraint.interval);
        }
        for (result, dim) in shifted.results.iter().zip(&second.dims) {
            composed.add_constraint(result.clone(), dim.bounds);
        }
        Ok(composed)
    }
}
