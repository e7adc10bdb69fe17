//! How the work of a kernel is divided: which work item computes which element of the result.

use indexing::{IndexingMap, Interval};

use crate::graph::InstructionId;
pub use crate::ops::enumerations::WorkKind;

/// A dimension of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDimension {
    /// Who goes through its positions.
    pub kind: WorkKind,
    /// Of [`WorkKind::Parallel`] the iterations that a thread takes at once, of [`WorkKind::Threads`] the threads of a
    /// block, or the teams, of [`WorkKind::Scan`] the elements that each thread of a team takes at once.
    pub tile: i64,
    /// Positions that are taken at once, as the lanes of a vector; around such a dimension, as the rows of a square, of which
    /// memory has the columns together, or of two squares.
    pub lanes: u32,
    /// Positions at which a loop ends and another one begins, so that conditions are known in each.
    pub cuts: Vec<i64>,
}

/// What is computed once for each row of a kernel's elements, before these: for several rows at a time, value by value, as
/// what belongs to one row depends on each other, and what belongs to several does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWork {
    /// Leading dimensions of the work that go from row to row; a team of threads goes through a row together, where the next
    /// dimension is one of [`WorkKind::Team`].
    pub dimensions: usize,
    /// Leading dimensions of the result that these go through.
    pub rank: usize,
    /// Rows that are computed together; their values are kept in memory, those of teams in registers.
    pub block: i64,
    /// The values of the fusion that are computed for each row, in order.
    pub steps: Vec<InstructionId>,
}

/// How the work of a kernel is divided.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkMapping<'c> {
    /// From a work item to the index of the element that it computes. Its dimension variables are the dimensions of the
    /// work, from the outermost; a work item that computes several elements has range variables.
    pub map: IndexingMap<'c>,
    /// The dimensions of the work.
    pub dimensions: Vec<WorkDimension>,
    /// Lanes of the vectors that one element is computed with, as in a reduction.
    pub inner_lanes: u32,
    /// Whether the last vector of a row may overlap the one before it: elements may be computed twice.
    pub overlap: bool,
    /// What is computed once for each row.
    pub rows: Option<RowWork>,
}

impl WorkDimension {
    /// A dimension that one thread goes through, element by element.
    pub fn sequential() -> Self {
        WorkDimension { kind: WorkKind::Sequential, tile: 1, lanes: 1, cuts: Vec::new() }
    }

    /// The loops over the positions within bounds.
    pub fn pieces(&self, bounds: Interval) -> impl Iterator<Item = Interval> {
        let starts = std::iter::once(bounds.lower).chain(self.cuts.iter().copied());
        let ends = self.cuts.iter().copied().chain([bounds.upper + 1]);
        starts.zip(ends).map(|(start, end)| Interval::new(start, end - 1))
    }
}

impl WorkMapping<'_> {
    /// The dimensions of the work with their positions.
    pub fn bounds(&self, dimension: usize) -> Interval {
        self.map.dims()[dimension].bounds
    }

    /// Loop nests that the work is, as its loops are cut.
    pub fn pieces(&self) -> usize {
        self.dimensions.iter().map(|dimension| dimension.cuts.len() + 1).product()
    }

    /// Iterations of the outermost loop, which may run in any order; 1 if it cannot be split. A vector is one.
    pub fn iterations(&self) -> i64 {
        let Some(first) = self.dimensions.first().filter(|first| first.kind != WorkKind::Scan && first.cuts.is_empty())
        else {
            return 1;
        };
        let (bounds, lanes) = (self.bounds(0), i64::from(first.lanes));
        let extent = bounds.upper - bounds.lower + 1;
        // What is left of the last vector is an iteration.
        (extent + lanes - 1) / lanes
    }

    /// Whether the outermost loop is handed to several threads.
    pub fn is_parallel(&self) -> bool {
        self.dimensions.first().is_some_and(|first| first.kind == WorkKind::Parallel)
    }
}
