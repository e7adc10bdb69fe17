//! What a computation reads for any element, from which its loops are chosen.

use hlo::graph::{Computation, InstructionId};
use indexing::{Expr, Interval, Var};
use melior::Context;

use crate::error::LoweringError;
use crate::scope::Scope;
use crate::trace::{Trace, trace};

type Result<T> = std::result::Result<T, LoweringError>;

/// What a computation reads for an element whose index is all variables.
pub(crate) struct Traced<'c> {
    /// Of the variables.
    pub(crate) scope: Scope<'c>,
    /// A variable for each dimension.
    pub(crate) variables: Vec<Expr<'c>>,
    /// The index: constants for dimensions of one element.
    pub(crate) index: Vec<Expr<'c>>,
    /// What is read.
    pub(crate) found: Trace<'c>,
}

impl<'c> Traced<'c> {
    /// Traces what is written, of which one dimension may have some positions only.
    pub(crate) fn new(
        context: &'c Context,
        computation: &Computation,
        written: &[InstructionId],
        sizes: &[i64],
        part: Option<(usize, Interval)>,
    ) -> Result<Self> {
        let mut scope = Scope::new(context);
        let bounds = sizes.iter().enumerate().map(|(dimension, &size)| bounds_of(part, dimension, size));
        let variables: Vec<Expr<'c>> = bounds.map(|bounds| scope.add_traced(bounds)).collect();
        let index: Vec<Expr<'c>> = variables.iter().map(|&variable| scope.simplify(variable)).collect();
        let found = trace(computation, written, &index, &mut scope)?;
        Ok(Traced { scope, variables, index, found })
    }

    /// The variable of the innermost of some dimensions, from one to before another, that are one loop.
    pub(crate) fn innermost_variable(&self, (_, end): (usize, usize)) -> Option<Var> {
        self.variables[end - 1].as_variable()
    }
}

/// The positions of a dimension, of which a part may have some only.
pub(crate) fn bounds_of(part: Option<(usize, Interval)>, dimension: usize, size: i64) -> Interval {
    match part {
        Some((own, bounds)) if own == dimension => bounds,
        _ => Interval::of_size(size),
    }
}
