//! Groups of warps that multiply in turns: while one computes with what its matrices gave, those of the other are multiplied.
//!
//! A barrier in shared memory (`mbarrier`) says of each group when its turn has come. Left to themselves, groups whose matrices come
//! at the same time may go in step, and matrix and other instructions wait for each other.

use indexing::Expr;
use mlir_ext::builder::Value;

use super::Result;
use super::rings::{address_of, arrive, make_barrier, wait};
use crate::elemental::Elemental;

/// Groups that take turns.
const GROUPS: i64 = 2;

/// The barriers of two groups.
#[derive(Clone, Copy)]
pub(super) struct Turns<'c> {
    /// Where all barriers are, and the number of the first of these.
    pub barriers: Value<'c>,
    pub first: i64,
    /// Warps of a group.
    pub warps: i64,
}

impl<'c> Turns<'c> {
    /// Barriers that there are.
    pub const BARRIERS: i64 = GROUPS;

    /// Makes the barriers.
    pub fn prepare(&self, emitter: &Elemental<'_, 'c>) -> Result<()> {
        for group in (0..GROUPS).map(|group| emitter.scope.constant(group)) {
            make_barrier(emitter.builder, self.barrier(emitter, group)?, self.warps);
        }
        Ok(())
    }

    /// Waits until a group may begin a turn. The first group begins its first turn at once, the other one when that has passed it on.
    pub fn begin(&self, emitter: &Elemental<'_, 'c>, group: Expr<'c>, turn: Expr<'c>) -> Result<()> {
        wait(emitter, self.barrier(emitter, group)?, turn + group + 1)
    }

    /// A warp of a group, of which the thread has a number, passes the turn on to the other group.
    pub fn pass(&self, emitter: &mut Elemental<'_, 'c>, group: Expr<'c>, lane: Expr<'c>) -> Result<()> {
        let other = self.barrier(emitter, -group + (GROUPS - 1))?;
        arrive(emitter, other, lane)
    }

    fn barrier(&self, emitter: &Elemental<'_, 'c>, group: Expr<'c>) -> Result<Value<'c>> {
        address_of(emitter, self.barriers, group + self.first)
    }
}
