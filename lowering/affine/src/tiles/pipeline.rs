//! How operands come into shared memory while others are multiplied: step by step, in stages that are in turns.
//!
//! What lies in memory as it is wanted is copied behind the threads' back, two steps ahead; anything else is brought in
//! registers, one step ahead. A barrier stands before each step: what is multiplied then is there, and nobody needs the stage
//! any more in which the next ones come.

use indexing::{Expr, Interval};
use mlir_ext::builder::{OpBuilder, Value};

use super::chunks::Chunks;
use super::{Result, Tile};
use crate::elemental::Elemental;
use crate::memory::shared_pointer;
use crate::scalar::RegisterValue;
use crate::scope::Binding;
use crate::team::{SharedValues, barrier};

/// The stages of operands of which some are copied, and of others.
const STAGES_OF_COPIES: i64 = 3;
const STAGES: i64 = 2;

/// Stages that a product's operands have.
pub(super) fn stages_of(operands: &[Chunks<'_>]) -> i64 {
    if operands.iter().any(|chunks| chunks.is_copied) { STAGES_OF_COPIES } else { STAGES }
}

/// Operands in stages of shared memory.
pub(super) trait Staged<'a, 'c> {
    /// An operand's chunks, and the array that they are kept in with its address.
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>);

    /// The element of the array at which one of the thread's chunks begins, in a stage.
    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c>;
}

/// A way to multiply what is in shared memory.
pub(super) trait Product<'a, 'c>: Staged<'a, 'c> {
    /// What a thread does before the others may rely on what it has written.
    fn publish(&self, _emitter: &Elemental<'a, 'c>) {}

    /// Adds the products of what is in a stage to the sums.
    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        stage: Expr<'c>,
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>>;
}

/// Emits the steps of a tile: its sums after them.
pub(super) fn emit_steps<'a, 'c>(
    product: &dyn Product<'a, 'c>,
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    (steps, stages): (i64, i64),
    sums: Vec<Value<'c>>,
) -> Result<Vec<Value<'c>>> {
    let pipeline = Pipeline { product, tile, stages };
    let copies = pipeline.has_copies();
    let first = emitter.scope.constant(0);
    for ahead in 0..if copies { stages - 1 } else { 0 } {
        pipeline.copy(emitter, emitter.scope.constant(ahead.min(steps - 1)), emitter.scope.constant(ahead))?;
    }
    let brought = pipeline.bring(emitter, first)?;
    pipeline.keep(emitter, first, &brought)?;
    let sums = emitter.loop_in(Interval::of_size(steps), None, sums, &mut |emitter, step, sums| {
        if copies {
            // All but those of the next step.
            wait_for_copies(emitter.builder, stages - 2);
        }
        product.publish(emitter);
        barrier(emitter.builder);
        if copies {
            let next = step_after(emitter, (step, steps), stages - 1)?;
            pipeline.copy(emitter, next, step + (stages - 1))?;
        }
        let next = step_after(emitter, (step, steps), 1)?;
        let brought = pipeline.bring(emitter, next)?;
        let sums = product.multiply(emitter, step.modulo(stages), sums)?;
        pipeline.keep(emitter, step + 1, &brought)?;
        Ok(sums)
    })?;
    if copies {
        // Where the kernel goes on, nothing comes any more.
        wait_for_copies(emitter.builder, 0);
    }
    Ok(sums)
}

/// What the thread has begun to copy since its last group is a group.
pub(super) fn commit_copies(builder: &OpBuilder<'_>) {
    builder.intrinsic_effect("llvm.nvvm.cp.async.commit.group", &[]);
}

/// The thread waits until so many groups of its copies are under way.
pub(super) fn wait_for_copies(builder: &OpBuilder<'_>, pending: i64) {
    let pending = builder.constant_integer(builder.integer_type(32), pending);
    builder.intrinsic_effect("llvm.nvvm.cp.async.wait.group", &[pending]);
}

/// A later step of so many; the last one where there is none: nobody needs what comes then.
pub(super) fn step_after<'c>(
    emitter: &mut Elemental<'_, 'c>,
    (step, steps): (Expr<'c>, i64),
    distance: i64,
) -> Result<Expr<'c>> {
    let last = emitter.scope.constant(steps - 1);
    let next = emitter.scope.emit_min(emitter.builder, &[step + distance, last])?;
    Ok(emitter.scope.add_variable(Interval::of_size(steps), Binding::Index(next)))
}

/// How a tile's operands come into the stages.
pub(super) struct Pipeline<'p, 'm, 'a, 'c, P: ?Sized> {
    pub product: &'p P,
    pub tile: &'p Tile<'m, 'a, 'c>,
    pub stages: i64,
}

impl<'a, 'c, P: Staged<'a, 'c> + ?Sized> Pipeline<'_, '_, 'a, 'c, P> {
    /// Whether something comes behind the threads' back.
    pub fn has_copies(&self) -> bool {
        self.stages == STAGES_OF_COPIES
    }

    /// Where the thread's chunks of an operand go, as elements of its array, in the stage that comes so many stages after
    /// the first.
    fn places(&self, emitter: &Elemental<'a, 'c>, operand: usize, stage: Expr<'c>) -> Result<Vec<Value<'c>>> {
        let (chunks, ..) = self.product.operand(operand);
        let stage = stage.modulo(self.stages);
        let place = |chunk| {
            let place = emitter.scope.simplify(self.product.place(operand, chunk, stage));
            emitter.scope.emit(emitter.builder, place)
        };
        (0..chunks.places.len()).map(place).collect()
    }

    /// Has what is copied of a step come into a stage.
    pub fn copy(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, stage: Expr<'c>) -> Result<()> {
        let builder = emitter.builder;
        for operand in 0..2 {
            let (chunks, _, address) = self.product.operand(operand);
            if !chunks.is_copied {
                continue;
            }
            let width = builder.constant_index(chunks.r#type.width());
            let mut goals = Vec::new();
            for place in self.places(emitter, operand, stage)? {
                goals.push(shared_pointer(builder, address, builder.muli(place, width)));
            }
            chunks.copy(self.tile, emitter, step, &goals)?;
        }
        commit_copies(builder);
        Ok(())
    }

    /// The thread's chunks in a step of what is not copied.
    pub fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<[Vec<RegisterValue<'c>>; 2]> {
        let mut brought = [Vec::new(), Vec::new()];
        for (operand, brought) in brought.iter_mut().enumerate() {
            let (chunks, ..) = self.product.operand(operand);
            if !chunks.is_copied {
                *brought = chunks.bring(self.tile, emitter, step)?;
            }
        }
        Ok(brought)
    }

    /// Puts what was brought into a stage.
    pub fn keep(
        &self,
        emitter: &Elemental<'a, 'c>,
        stage: Expr<'c>,
        brought: &[Vec<RegisterValue<'c>>; 2],
    ) -> Result<()> {
        for (operand, brought) in brought.iter().enumerate().filter(|(_, brought)| !brought.is_empty()) {
            let (_, shared, _) = self.product.operand(operand);
            for (place, value) in self.places(emitter, operand, stage)?.into_iter().zip(brought) {
                shared.store_vector(emitter.builder, value, &[place]);
            }
        }
        Ok(())
    }
}
