//! How the work of a kernel is divided: which work item computes which element of the result.

use indexing::{IndexingMap, Interval};

use crate::graph::InstructionId;
pub use crate::ops::enumerations::WorkKind;

/// A dimension of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDimension {
    /// Who goes through its positions.
    pub kind: WorkKind,
    /// Of [`WorkKind::Parallel`] the iterations that a thread takes at once, of all pieces one after another, of [`WorkKind::Threads`] the threads of a
    /// block, or the teams, of [`WorkKind::Scan`] the elements that each thread of a team takes at once.
    pub tile: i64,
    /// Positions that are taken at once, as the lanes of a vector; around such a dimension, as the rows of a square, of which
    /// memory has the columns together, or of two squares, or as the rows that vectors cross.
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

/// The parts of bounds between cuts, each of which begins a part.
pub fn pieces(bounds: Interval, cuts: &[i64]) -> impl Iterator<Item = Interval> {
    let starts = std::iter::once(bounds.lower).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([bounds.upper + 1]);
    starts.zip(ends).map(|(start, end)| Interval::new(start, end - 1))
}

impl WorkDimension {
    /// A dimension that one thread goes through, element by element.
    pub fn sequential() -> Self {
        WorkDimension { kind: WorkKind::Sequential, tile: 1, lanes: 1, cuts: Vec::new() }
    }

    /// The loops over the positions within bounds.
    pub fn pieces(&self, bounds: Interval) -> impl Iterator<Item = Interval> {
        pieces(bounds, &self.cuts)
    }

    /// Whether the positions of a piece are taken as vectors: those of a shorter one are taken one by one.
    pub fn takes_vectors(&self, piece: Interval) -> bool {
        self.lanes > 1 && piece.upper - piece.lower + 1 >= i64::from(self.lanes)
    }

    /// Iterations of the loop over a piece: a vector is one, and so is what is left of the last one.
    pub fn iterations(&self, piece: Interval) -> i64 {
        let extent = piece.upper - piece.lower + 1;
        let lanes = i64::from(self.lanes);
        if self.takes_vectors(piece) { (extent + lanes - 1) / lanes } else { extent }
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

    /// Iterations of the loops over a dimension, which may run in any order; 1 if they cannot be split.
    pub fn iterations(&self, dimension: usize) -> i64 {
        let Some(own) = self.dimensions.get(dimension).filter(|own| own.kind != WorkKind::Scan) else { return 1 };
        own.pieces(self.bounds(dimension)).map(|piece| own.iterations(piece)).sum()
    }

    /// The dimension whose loops are handed to several threads, if one is: each thread goes through all positions of those
    /// around it.
    pub fn parallel_dimension(&self) -> Option<usize> {
        self.dimensions.iter().position(|own| own.kind == WorkKind::Parallel)
    }
}
