//! Composition of maps.

use mlir_ext::affine::Expr;

use crate::error::Error;
use crate::map::IndexingMap;

impl<'c> IndexingMap<'c> {
    /// `second` after `self`: `x -> second(self(x))`, on the points that `self` takes into `second`'s domain.
    ///
    /// The range and run-time variables are those of `second`, then those of `self`. The constraints are
    /// those of both, and that each result of `self` lies within the bounds of the dimension it feeds.
    /// Nothing is simplified.
    ///
    /// # Errors
    /// If `self` has not as many results as `second` has dimensions.
    pub fn compose(&self, second: &IndexingMap<'c>) -> Result<IndexingMap<'c>, Error> {
        let first = self;
        if first.results().len() != second.dims.len() {
            return Err(Error::Invalid(format!(
                "a map with {} results cannot be followed by one with {} dimensions",
                first.results().len(),
                second.dims.len()
            )));
        }
        let (ranges, more_ranges) = (second.ranges.len(), first.ranges.len());
        let (runtimes, more_runtimes) = (second.runtimes.len(), first.runtimes.len());
        let symbols = |from: usize, count: usize| (from..from + count).map(|i| Expr::symbol(self.context, i));
        let of_first: Vec<Expr<'c>> =
            symbols(ranges, more_ranges).chain(symbols(ranges + more_ranges + runtimes, more_runtimes)).collect();
        let of_second: Vec<Expr<'c>> = symbols(0, ranges).chain(symbols(ranges + more_ranges, runtimes)).collect();
        let places: Vec<Expr<'c>> = first.results().iter().map(|expr| expr.replace(&[], &of_first)).collect();

        let in_second = |expr: Expr<'c>| expr.replace(&places, &of_second);
        let in_first = |expr: Expr<'c>| expr.replace(&[], &of_first);
        let runtimes_of_second = second.runtimes.iter().map(|variable| variable.rewritten(&in_second));
        let runtimes_of_first = first.runtimes.iter().map(|variable| variable.rewritten(&in_first));
        let mut composed = IndexingMap::new(
            self.context,
            first.dims.clone(),
            [second.ranges.as_slice(), &first.ranges].concat(),
            runtimes_of_second.chain(runtimes_of_first).collect(),
            second.results().iter().map(|&expr| in_second(expr)).collect(),
            Vec::new(),
        );
        if first.known_empty || second.known_empty {
            composed.reset_to_known_empty();
            return Ok(composed);
        }
        for constraint in &second.constraints {
            composed.add_constraint(in_second(constraint.expr), constraint.interval);
        }
        for constraint in &first.constraints {
            composed.add_constraint(in_first(constraint.expr), constraint.interval);
        }
        for (&place, dim) in places.iter().zip(&second.dims) {
            composed.add_constraint(place, dim.bounds);
        }
        Ok(composed)
    }
}
