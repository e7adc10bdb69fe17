//! What computes the elements of a product's operand, and nothing else reads, becomes a part of the product: a conversion, a
//! scale, the values of quantised weights. The kernel computes them as it packs or streams the operand, which needs no array of its
//! own.

use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use melior::Context;
use melior::ir::{BlockRef, OperationRef};
use mlir_ext::builder::Machine;
use mlir_ext::operations;
use mlir_ext::rewrite::Rewriter;
use passes::fuse::is_expensive;

use crate::error::LoweringError;
use crate::matmul::{self, Finish};
use crate::merge::{merge, merged_bodies};
use crate::program::kernel_body;

type Result<T> = std::result::Result<T, LoweringError>;

/// Bytes of an operand from which on it is worth it: equal products of others share their kernel.
const LEAST_BYTES: usize = 1 << 16;

/// Operations on an element that may be repeated altogether, rather than storing it and loading it again.
const MOST_REPEATED_WORK: i64 = 8;

/// The work of an expensive operation, in simple ones.
const EXPENSIVE_WORK: i64 = 16;

/// Instructions that compute an operand, at most: their code stands at several places of a kernel.
const MOST_INSTRUCTIONS: usize = 32;

/// An array that has so many times fewer bytes than another is kept for longer at no cost.
const SMALL_PART: usize = 8;

/// Moves what computes operands of products of a block into them, for a CPU with vectors of so many bits; returns how often.
///
/// # Errors
/// Internal ones.
pub(crate) fn in_block(rewriter: &Rewriter<'_, '_>, block: BlockRef<'_, '_>, vector_bits: u32) -> Result<u64> {
    let reads = |_, kind| matches!(kind, OpKind::Dot | OpKind::Convolution | OpKind::Fusion);
    let dialect::Snapshot { mut computation, values, .. } = dialect::snapshot(block, reads)?;
    let mut operations: Vec<Option<OperationRef>> = values.iter().map(|&value| operations::definition(value)).collect();
    let users = computation.use_counts();
    let mut count = 0;
    for number in 0..computation.instructions.len() {
        let id = InstructionId(number as u32);
        while let Some((position, fused)) = with_prologue(rewriter.context(), &computation, &users, id, vector_bits) {
            let producer = computation.get(id).operands[position];
            let (Some(consumer), Some(producer_operation)) = (operations[number], operations[producer.index()]) else {
                return Err(LoweringError::bug("a product or its operand is a parameter"));
            };
            let attributes = match computation.get(id).kind {
                OpKind::Fusion => &computation.get(id).attributes,
                _ => &computation.get(producer).attributes,
            };
            let merged = merge(rewriter, [consumer, producer_operation], position, consumer, attributes)?;
            operations[number] = Some(merged);
            computation.instructions[number] = fused;
            count += 1;
        }
    }
    Ok(count)
}

/// The position of the operand of a product, or of a fusion with one, that is computed by a fusion to move into it; and what
/// it becomes.
fn with_prologue(
    context: &Context,
    computation: &Computation,
    users: &[u32],
    id: InstructionId,
    vector_bits: u32,
) -> Option<(usize, Instruction)> {
    let consumer = computation.get(id);
    let has_product = |kind| matches!(kind, OpKind::Dot | OpKind::Convolution);
    let may_have = match &consumer.computations[..] {
        [body] if consumer.kind == OpKind::Fusion => body.instructions.iter().any(|own| has_product(own.kind)),
        _ => has_product(consumer.kind),
    };
    let is_read_here = |operand: &&InstructionId| {
        let producer = computation.get(**operand);
        producer.kind == OpKind::Fusion && users[operand.index()] == 1 && **operand != computation.root
    };
    if !may_have || consumer.operands.iter().find(is_read_here).is_none() {
        return None;
    }
    let body = kernel_body(computation, consumer);
    let product = body.get(Finish::of(&body)?.contraction);
    let uses = body.use_counts();
    product.operands.iter().find_map(|operand| {
        let position = body.get(*operand).parameter_number().filter(|_| uses[operand.index()] == 1)?;
        let source = consumer.operands.get(position).filter(is_read_here)?;
        let producer = computation.get(*source);
        let work = work(computation, producer)?;
        let own = producer.computations.first()?;
        let attributes = if consumer.kind == OpKind::Fusion { &consumer.attributes } else { &producer.attributes };
        let others = consumer.operands.iter().enumerate().filter(|(number, _)| *number != position);
        let fused = Instruction {
            name: producer.name.clone(),
            kind: OpKind::Fusion,
            operands: others.map(|(_, &id)| id).chain(producer.operands.iter().copied()).collect(),
            attributes: attributes.clone(),
            computations: vec![merged_bodies(&body, position, own)],
            ..consumer.clone()
        };
        let kernel = matmul::recognise(context, computation, &fused, vector_bits, Machine::default())?;
        let is_worth_it = (kernel.times_computed()? - 1) * work <= MOST_REPEATED_WORK;
        is_worth_it.then_some((position, fused))
    })
}

/// Simple operations, roughly, that computing an element of an operand takes; `None` where it should be in memory.
fn work(computation: &Computation, producer: &Instruction) -> Option<i64> {
    let bytes = producer.shape.as_array()?.byte_size();
    let body = producer.computations.first()?;
    if bytes < LEAST_BYTES || body.instructions.len() > MOST_INSTRUCTIONS {
        return None;
    }
    // In memory, the operand would take the place of what it is computed from, but for arguments, which stay.
    let kept = producer.operands.iter().map(|&operand| computation.get(operand));
    let kept = kept.filter(|own| own.kind != OpKind::Parameter && own.shape.byte_size() * SMALL_PART > bytes);
    let kept: Vec<usize> = kept.map(|own| own.shape.byte_size()).collect();
    if kept.len() > 1 || kept.iter().any(|&size| size > bytes) {
        return None;
    }
    let of = |own: &Instruction| match definition(own.kind).fusion {
        _ if is_expensive(own) => EXPENSIVE_WORK,
        FusionRole::Elementwise => 1,
        _ => 0,
    };
    Some(body.instructions.iter().map(of).sum())
}
