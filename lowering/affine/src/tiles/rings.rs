//! Stages of shared memory in turns, which a unit fills by itself (`cp.async.bulk.tensor`) and groups of warps use up.
//!
//! Of each stage, two barriers in shared memory (`mbarrier`) say when its bytes have come, and when all warps have used them.

use indexing::Expr;
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::gpu;

use super::Result;
use crate::elemental::Elemental;

/// Bytes of a barrier.
const BARRIER: i64 = 8;

/// The barriers of some stages.
#[derive(Clone, Copy)]
pub(super) struct Ring<'c> {
    /// Where all barriers are, and the number of the first of these: those of full stages, then those of free ones.
    pub barriers: Value<'c>,
    pub first: i64,
    pub stages: i64,
    /// Bytes of a stage, and warps that use it.
    pub bytes: i64,
    pub warps: i64,
}

impl<'c> Ring<'c> {
    /// Barriers of so many stages.
    pub const fn barriers_of(stages: i64) -> i64 {
        2 * stages
    }

    /// Makes the barriers.
    pub fn prepare(&self, emitter: &Elemental<'_, 'c>) -> Result<()> {
        for stage in (0..self.stages).map(|stage| emitter.scope.constant(stage)) {
            make_barrier(emitter.builder, self.full(emitter, stage)?, 1);
            make_barrier(emitter.builder, self.free(emitter, stage)?, self.warps);
        }
        Ok(())
    }

    /// The stage of a step.
    pub fn stage(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Expr<'c> {
        emitter.scope.simplify(step.modulo(self.stages))
    }

    /// Waits until the stage of a step is free, and gives the barrier at which its bytes arrive.
    pub fn begin(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Result<Value<'c>> {
        let (builder, stage) = (emitter.builder, self.stage(emitter, step));
        // The phase before the first has ended.
        let free = self.free(emitter, stage)?;
        wait(emitter, free, (step + self.stages).floordiv(self.stages))?;
        let full = self.full(emitter, stage)?;
        let bytes = builder.constant_integer(builder.integer_type(32), self.bytes);
        call(builder, gpu::EXPECT_BYTES, &[full, bytes]);
        Ok(full)
    }

    /// Waits until the stage of a step is full.
    pub fn wait(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Result<()> {
        let full = self.full(emitter, self.stage(emitter, step))?;
        wait(emitter, full, step.floordiv(self.stages))
    }

    /// The warp, of which the thread has a number, does not need the stage of a step any more.
    pub fn release(&self, emitter: &mut Elemental<'_, 'c>, step: Expr<'c>, lane: Expr<'c>) -> Result<()> {
        let free = self.free(emitter, self.stage(emitter, step))?;
        arrive(emitter, free, lane)
    }

    /// The addresses of a stage's barriers.
    fn full(&self, emitter: &Elemental<'_, 'c>, stage: Expr<'c>) -> Result<Value<'c>> {
        address_of(emitter, self.barriers, stage + self.first)
    }

    fn free(&self, emitter: &Elemental<'_, 'c>, stage: Expr<'c>) -> Result<Value<'c>> {
        address_of(emitter, self.barriers, stage + (self.first + self.stages))
    }
}

/// The address of a barrier of a number.
pub(super) fn address_of<'c>(emitter: &Elemental<'_, 'c>, barriers: Value<'c>, number: Expr<'c>) -> Result<Value<'c>> {
    address_at(emitter, barriers, number * BARRIER)
}

/// Makes a barrier at an address, of which a phase ends with so many arrivals.
pub(super) fn make_barrier<'c>(builder: &OpBuilder<'c>, barrier: Value<'c>, arrivals: i64) {
    let arrivals = builder.constant_integer(builder.integer_type(32), arrivals);
    call(builder, gpu::MAKE_BARRIER, &[barrier, arrivals]);
}

/// A warp, of which the thread has a number, arrives at a barrier.
pub(super) fn arrive<'c>(emitter: &mut Elemental<'_, 'c>, barrier: Value<'c>, lane: Expr<'c>) -> Result<()> {
    emitter.where_not_negative(&[-lane], |emitter| {
        call(emitter.builder, gpu::ARRIVE, &[barrier]);
        Ok(())
    })
}

/// Waits until a phase of a barrier has ended.
pub(super) fn wait<'c>(emitter: &Elemental<'_, 'c>, barrier: Value<'c>, phase: Expr<'c>) -> Result<()> {
    let builder = emitter.builder;
    let parity = emit_number(emitter, emitter.scope.simplify(phase.modulo(2)), builder.integer_type(32))?;
    call(builder, gpu::WAIT_FOR_PHASE, &[barrier, parity]);
    Ok(())
}

/// A box of an array that is to be copied.
pub(super) struct BoxPlace<'c> {
    /// Where the description is.
    pub description: Value<'c>,
    /// Where the memory is that it goes to, and the byte in it.
    pub address: Value<'c>,
    pub to: Expr<'c>,
    /// The first element.
    pub first: [Expr<'c>; 3],
}

impl<'c> BoxPlace<'c> {
    /// Has the box copied; its bytes arrive at a barrier.
    pub fn copy(&self, emitter: &Elemental<'_, 'c>, full: Value<'c>) -> Result<()> {
        let word = emitter.builder.integer_type(32);
        let mut operands = vec![address_at(emitter, self.address, self.to)?, self.description];
        for place in self.first {
            operands.push(emit_number(emitter, emitter.scope.simplify(place), word)?);
        }
        operands.push(full);
        call(emitter.builder, gpu::COPY_BOX, &operands);
        Ok(())
    }
}

/// A number as an integer of a type.
fn emit_number<'c>(emitter: &Elemental<'_, 'c>, number: Expr<'c>, r#type: Type<'c>) -> Result<Value<'c>> {
    let number = emitter.scope.emit(emitter.builder, number)?;
    Ok(emitter.builder.value("arith.index_cast", &[number], r#type, &[]))
}

/// An address so many bytes behind another.
pub(super) fn address_at<'c>(emitter: &Elemental<'_, 'c>, base: Value<'c>, bytes: Expr<'c>) -> Result<Value<'c>> {
    let builder = emitter.builder;
    let bytes = emitter.scope.emit(builder, emitter.scope.simplify(bytes))?;
    let address = builder.addi(base, bytes);
    Ok(builder.value("arith.index_cast", &[address], builder.integer_type(64), &[]))
}

/// Calls a function that stands for an instruction without results.
pub(super) fn call<'c>(builder: &OpBuilder<'c>, symbol: &str, operands: &[Value<'c>]) {
    builder.define_once(symbol, |builder| {
        let types: Vec<Type<'c>> = operands.iter().map(|operand| operand.r#type()).collect();
        builder.declare_function(symbol, &types, &[]);
    });
    builder.call(symbol, operands, &[]);
}
