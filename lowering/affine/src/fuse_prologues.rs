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

use crate::contraction::is_product;
use crate::error::LoweringError;
use crate::matmul::{self, Finish};
use crate::merge::{merge, merged_bodies};
use crate::program::kernel_body;

type Result<T> = std::result::Result<T, LoweringError>;

/// Bytes of an operand from which on it is worth it: equal products of others share their kernel.
const LEAST_BYTES: usize = 1 << 16;

/// The same of rows, which are packed then: in a cache, smaller ones are as soon read.
const LEAST_BYTES_OF_ROWS: usize = 1 << 19;

/// Products of a block from which on equal ones are many, which constants of their own in what computes an operand would tell apart.
const MANY_PRODUCTS: usize = 16;

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
    let reads = |_, kind| is_product(kind) || kind == OpKind::Fusion;
    let dialect::Snapshot { mut computation, values, .. } = dialect::snapshot(block, reads)?;
    let mut operations: Vec<Option<OperationRef>> = values.iter().map(|&value| operations::definition(value)).collect();
    let users = computation.use_counts();
    let are_many = computation.instructions.iter().filter(|own| is_product(own.kind)).count() >= MANY_PRODUCTS;
    let mut count = 0;
    for number in 0..computation.instructions.len() {
        let id = InstructionId(number as u32);
        while let Some(found) = with_prologue(rewriter.context(), &computation, (&users, are_many), id, vector_bits) {
            let Prologue { position, path, fused } = found;
            let bug = || LoweringError::bug("a product or its operand is a parameter");
            let Some((&fusion, reshapes)) = path.split_first() else { return Err(bug()) };
            let attributes = &computation.get(fusion).attributes;
            let mut producer = operations[fusion.index()].ok_or_else(bug)?;
            for reshape in reshapes {
                let reshape = operations[reshape.index()].ok_or_else(bug)?;
                producer = merge(rewriter, [reshape, producer], 0, reshape, attributes)?;
            }
            let consumer = operations[number].ok_or_else(bug)?;
            let merged = merge(rewriter, [consumer, producer], position, consumer, &fused.attributes)?;
            operations[number] = Some(merged);
            computation.instructions[number] = fused;
            count += 1;
        }
    }
    Ok(count)
}

/// What moves into a product, or a fusion with one.
struct Prologue {
    /// The position of the operand that it computes.
    position: usize,
    /// A fusion, and the reshapes between it and the operand.
    path: Vec<InstructionId>,
    /// What the product becomes.
    fused: Instruction,
}

/// The fusion that computes a value for one reader, and the reshapes behind it.
fn path_to(computation: &Computation, users: &[u32], mut value: InstructionId) -> Option<Vec<InstructionId>> {
    let mut path = Vec::new();
    loop {
        let instruction = computation.get(value);
        if users[value.index()] != 1 || value == computation.root {
            return None;
        }
        path.push(value);
        match instruction.kind {
            OpKind::Fusion => break,
            OpKind::Reshape => value = instruction.operands[0],
            _ => return None,
        }
    }
    path.reverse();
    Some(path)
}

/// What can move into a product, or a fusion with one.
fn with_prologue(
    context: &Context,
    computation: &Computation,
    (users, are_many): (&[u32], bool),
    id: InstructionId,
    vector_bits: u32,
) -> Option<Prologue> {
    let consumer = computation.get(id);
    let may_have = match &consumer.computations[..] {
        [body] if consumer.kind == OpKind::Fusion => body.instructions.iter().any(|own| is_product(own.kind)),
        _ => is_product(consumer.kind),
    };
    if !may_have || consumer.operands.iter().all(|&operand| path_to(computation, users, operand).is_none()) {
        return None;
    }
    let body = kernel_body(computation, consumer);
    let product = body.get(Finish::of(&body)?.contraction);
    let uses = body.use_counts();
    product.operands.iter().find_map(|operand| {
        let position = body.get(*operand).parameter_number().filter(|_| uses[operand.index()] == 1)?;
        let path = path_to(computation, users, *consumer.operands.get(position)?)?;
        let (&fusion, reshapes) = path.split_first()?;
        let producer = computation.get(fusion);
        let work = work(computation, producer)?;
        let own = producer.computations.first()?;
        if are_many && own.instructions.iter().any(|own| own.kind == OpKind::Constant) {
            return None;
        }
        let mut own = own.clone();
        for &reshape in reshapes {
            own = merged_bodies(&kernel_body(computation, computation.get(reshape)), 0, &own);
        }
        let attributes = if consumer.kind == OpKind::Fusion { &consumer.attributes } else { &producer.attributes };
        let others = consumer.operands.iter().enumerate().filter(|(number, _)| *number != position);
        let fused = Instruction {
            name: producer.name.clone(),
            kind: OpKind::Fusion,
            operands: others.map(|(_, &id)| id).chain(producer.operands.iter().copied()).collect(),
            attributes: attributes.clone(),
            computations: vec![merged_bodies(&body, position, &own)],
            ..consumer.clone()
        };
        let kernel = matmul::recognise(context, computation, &fused, vector_bits, Machine::default())?;
        let least = if kernel.computes_rows() { LEAST_BYTES_OF_ROWS } else { LEAST_BYTES };
        let is_worth_it = producer.shape.byte_size() >= least && kernel.repeats_little(work);
        is_worth_it.then_some(Prologue { position, path, fused })
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
