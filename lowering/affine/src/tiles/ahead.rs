//! Steps of a tile by multiply-adds of registers: what a thread multiplies of a part of a step it has loaded from shared memory while
//! it multiplied the part before, in the step before as well. So nobody waits for that memory behind the barrier between steps.

use indexing::{Expr, Interval};
use mlir_ext::builder::{OpBuilder, Value};

use super::Result;
use super::pipeline::{step_after, wait_for_copies};
use crate::elemental::Elemental;
use crate::scalar::RegisterValue;
use crate::team::barrier;

/// A way to multiply what is in shared memory, part by part of each step.
pub(super) trait Parts<'a, 'c> {
    /// How many stages there are, and whether something comes into them behind the threads' back.
    fn stages(&self) -> (i64, bool);

    /// Has what is copied of a step come into the stage of another one; a group of copies, if anything is copied.
    fn copy(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, stage: Expr<'c>) -> Result<()>;

    /// The thread's elements in a step of what is not copied.
    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>>;

    /// Puts what was brought into the stage of a step.
    fn keep(&self, emitter: &Elemental<'a, 'c>, step: Expr<'c>, brought: &[RegisterValue<'c>]) -> Result<()>;

    /// Parts of a step.
    fn parts(&self) -> i64;

    /// What the thread multiplies of a part of a step.
    fn load(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, part: i64) -> Result<Vec<Value<'c>>>;

    /// Adds the products of what was loaded to the thread's sums.
    fn multiply(&self, emitter: &Elemental<'a, 'c>, factors: &[Value<'c>], sums: &mut [Value<'c>]) -> Result<()>;
}

/// Emits the steps of a tile: its sums after them.
pub(super) fn emit_ahead<'a, 'c>(
    tile: &dyn Parts<'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    steps: i64,
    sums: Vec<Value<'c>>,
) -> Result<Vec<Value<'c>>> {
    let ((stages, are_copied), count) = (tile.stages(), sums.len());
    let first = emitter.scope.constant(0);
    let later = |emitter: &Elemental<'a, 'c>, step: i64| emitter.scope.constant(step.min(steps - 1));
    for ahead in 0..stages - 1 {
        tile.copy(emitter, later(emitter, ahead), emitter.scope.constant(ahead))?;
    }
    let brought = tile.bring(emitter, first)?;
    tile.keep(emitter, first, &brought)?;
    // What the next step multiplies is there, and nobody needs the stage any more that comes behind all others.
    let begin = |builder: &OpBuilder<'c>| {
        if are_copied {
            wait_for_copies(builder, stages - 2);
        }
        barrier(builder);
    };
    begin(emitter.builder);
    let mut state = sums;
    state.extend(tile.load(emitter, first, 0)?);
    tile.copy(emitter, later(emitter, stages - 1), emitter.scope.constant(stages - 1))?;
    let state = emitter.loop_in(Interval::of_size(steps), None, state, &mut |emitter, step, mut sums| {
        let mut factors = sums.split_off(count);
        let next = step_after(emitter, (step, steps), 1)?;
        let brought = tile.bring(emitter, next)?;
        for part in 1..tile.parts() {
            let following = tile.load(emitter, step, part)?;
            tile.multiply(emitter, &factors, &mut sums)?;
            factors = following;
        }
        tile.keep(emitter, step + 1, &brought)?;
        begin(emitter.builder);
        let following = tile.load(emitter, step + 1, 0)?;
        // Copies stand behind these loads, which LLVM would otherwise move to where their values are used.
        let next = step_after(emitter, (step, steps), stages)?;
        tile.copy(emitter, next, step + stages)?;
        tile.multiply(emitter, &factors, &mut sums)?;
        sums.extend(following);
        Ok(sums)
    })?;
    if are_copied {
        // Where the kernel goes on, nothing comes any more.
        wait_for_copies(emitter.builder, 0);
    }
    Ok(state[..count].to_vec())
}
