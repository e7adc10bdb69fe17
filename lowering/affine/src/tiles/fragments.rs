//! How results of matrix instructions are stored: of every eight columns of a row, each of four lanes has two neighbours. Where
//! what follows the product takes vectors, lanes exchange these for as many neighbours of their own.

use indexing::Expr;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use super::tensor_cores::EIGHT;
use super::{Result, Tile};
use crate::elemental::Elemental;
use crate::memory::ArrayRef;
use crate::team::exchange;

/// Lanes that have parts of a row.
const LANES: i64 = 4;

/// How the lanes of a warp store rows of some fragments.
pub(super) struct FragmentRows<'c> {
    lane: Expr<'c>,
    /// How far the lanes are that exchange what they have, and whether the thread's has that bit in its number; none where each
    /// stores its own pairs.
    bits: Vec<(i64, Value<'c>)>,
}

impl<'c> FragmentRows<'c> {
    /// For two or four fragments.
    pub fn new<'a>(
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        lane: Expr<'c>,
        fragments: i64,
    ) -> Result<Self> {
        match tile.has_vectors(emitter.computation, fragments * EIGHT / LANES)? {
            true => Self::exchanging(emitter, lane),
            false => Ok(FragmentRows { lane, bits: Vec::new() }),
        }
    }

    /// Of lanes that exchange what they have.
    pub fn exchanging(emitter: &mut Elemental<'_, 'c>, lane: Expr<'c>) -> Result<Self> {
        let builder = emitter.builder;
        let mut bits = Vec::new();
        for distance in [2, 1] {
            let bit = emitter.scope.simplify(lane.floordiv(distance).modulo(2));
            let bit = emitter.scope.emit(builder, bit)?;
            bits.push((distance, builder.cmpi(CmpiPredicate::Ne, bit, builder.constant_index(0))));
        }
        Ok(FragmentRows { lane, bits })
    }

    /// Where the neighbours are that a lane has of so many fragments, once lanes have exchanged theirs.
    pub fn first_column(&self, fragments: i64) -> Expr<'c> {
        self.lane.modulo(LANES) * (fragments * EIGHT / LANES)
    }

    /// Stores what becomes of a row of fragments, of which the thread has pairs, from a column of the tile on.
    pub fn finish<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        (row, column): (Expr<'c>, Expr<'c>),
        pairs: Vec<[Value<'c>; 2]>,
    ) -> Result<()> {
        let part = self.lane.modulo(LANES);
        if self.bits.is_empty() {
            return (0..).zip(pairs).try_for_each(|(fragment, pair)| {
                tile.finish_row(emitter, outputs, (row, column + part * 2 + fragment * EIGHT), (&pair, false))
            });
        }
        let sums = self.exchanged(emitter.builder, pairs).concat();
        tile.finish_row(emitter, outputs, (row, column + part * sums.len() as i64), (&sums, true))
    }

    /// Neighbours of the thread's own: lanes exchange half of what they have with the lane whose number differs in a bit, and then
    /// in the other.
    pub fn exchanged(&self, builder: &OpBuilder<'c>, mut pairs: Vec<[Value<'c>; 2]>) -> Vec<[Value<'c>; 2]> {
        for &(distance, has_bit) in &self.bits {
            let apart = (distance as usize).min(pairs.len() / 2);
            for first in (0..pairs.len()).filter(|first| first & apart == 0) {
                let both = pairs[first].into_iter().zip(pairs[first + apart]);
                for (place, (low, high)) in both.enumerate() {
                    let other = exchange(builder, builder.select(has_bit, low, high), distance);
                    pairs[first][place] = builder.select(has_bit, other, low);
                    pairs[first + apart][place] = builder.select(has_bit, high, other);
                }
            }
        }
        pairs
    }
}
