//! `keep-precision`: what is computed in bf16 and then converted to f32 is not rounded in between.
//!
//! Arithmetic in bf16 is arithmetic in f32 whose result is rounded. Where an operation's result is converted to f32 at
//! once, that conversion takes the result before it was rounded; other users get the rounded one. XLA:CPU does the same
//! where it allows excess precision, which is its default: for these operations, this type and direct conversions only
//! (measured with jaxlib 0.10.2; f16, sums of a `reduce`, and an explicit pair of conversions keep their roundings).
//!
//! Zeros that are updated at a place and then added become negative ones, which leave every number as it is, -0 too. So XLA
//! adds them, and the sum is an update of that place alone: the gradient of a loop that takes a slice in each iteration.
//!
//! Excess precision that would do harm is taken back: see `steps`.

mod steps;

use std::collections::{HashMap, HashSet};

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpClass};
use hlo::shape::ArrayShape;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let starts = |kind| kind == OpKind::DynamicUpdateSlice || steps::starts(kind);
    for block in blocks_with(&rewriter, |_, kind| starts(kind)) {
        let reads = |kind| starts(kind) || matches!(kind, OpKind::Constant | OpKind::Broadcast) || rounds_result(kind);
        let body = Body::read(&rewriter, block, |_, kind| reads(kind))?;
        let computation = body.computation();
        let kept: HashSet<InstructionId> = computation
            .instructions
            .iter()
            .filter_map(|instruction| widened_operand(computation, instruction))
            .collect();
        let exact = steps::exact_products(computation);
        let mut unrounded: HashMap<InstructionId, InstructionId> = HashMap::new();
        statistics.add("roundings", kept.len() as u64);
        statistics.add("products", exact.iter().filter(|&&is_exact| is_exact).count() as u64);
        let mut sums = 0;
        body.rewrite(|builder, id, instruction| {
            if let Some(sum) = sum_with_update(builder, instruction) {
                sums += 1;
                return Some(sum);
            }
            if exact[id.index()] {
                let product = builder.push(instruction.clone());
                return steps::rounded(builder, product);
            }
            if kept.contains(&id) {
                let wide = in_f32(builder, instruction.clone());
                let rounded = builder.convert(wide, ElementType::BF16);
                unrounded.insert(rounded, wide);
                return Some(rounded);
            }
            is_to_f32(instruction).then(|| unrounded.get(instruction.operands.first()?).copied())?
        })?;
        statistics.add("updates", sums);
    }
    Ok(())
}

/// The operand of a conversion from bf16 to f32 that is an operation to do in f32.
fn widened_operand(computation: &Computation, instruction: &Instruction) -> Option<InstructionId> {
    let operand = instruction.operands.first().copied().filter(|_| is_to_f32(instruction))?;
    let producer = computation.get(operand);
    let is_bf16 = |id: &InstructionId| is_of_type(computation.get(*id), ElementType::BF16);
    let is_of_bf16 = is_of_type(producer, ElementType::BF16) && producer.operands.iter().all(is_bf16);
    (rounds_result(producer.kind) && is_of_bf16).then_some(operand)
}

/// Whether an operation in bf16 is one in f32 whose result is rounded.
fn rounds_result(kind: OpKind) -> bool {
    match ops::definition(kind).class {
        OpClass::Contraction => matches!(kind, OpKind::Dot | OpKind::Convolution),
        OpClass::Elementwise => !matches!(
            kind,
            OpKind::Convert
                | OpKind::StochasticConvert
                | OpKind::ReducePrecision
                | OpKind::Copy
                | OpKind::Map
                | OpKind::BatchNormInference
        ),
        _ => false,
    }
}

fn is_to_f32(instruction: &Instruction) -> bool {
    instruction.kind == OpKind::Convert && is_of_type(instruction, ElementType::F32)
}

fn is_of_type(instruction: &Instruction, element_type: ElementType) -> bool {
    instruction.shape.as_array().is_some_and(|shape| shape.element_type == element_type)
}

/// Appends an operation of bf16 in f32. Contractions read their operands as they are.
fn in_f32(builder: &mut GraphBuilder, mut instruction: Instruction) -> InstructionId {
    if ops::definition(instruction.kind).class == OpClass::Elementwise {
        for operand in &mut instruction.operands {
            *operand = builder.convert(*operand, ElementType::F32);
        }
    }
    if let Some(shape) = instruction.shape.as_array() {
        instruction.shape = shape.with_element_type(ElementType::F32).into();
    }
    builder.push(instruction)
}

/// A sum with zeros that are updated at a place, with negative zeros instead.
fn sum_with_update(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    use ElementType::{BF16, F16, F32, F64};
    let has_sign = |shape: &ArrayShape| matches!(shape.element_type, BF16 | F16 | F32 | F64) && shape.rank() > 0;
    let shape = instruction.shape.as_array().filter(|shape| instruction.kind == OpKind::Add && has_sign(shape))?;
    let number = instruction.operands.iter().position(|&operand| is_update_of_zeros(builder, operand))?;
    let mut update = builder.get(instruction.operands[number]).clone();
    update.operands[0] = builder.filled(shape, ConstantNumber::Float(-0.0));
    let mut sum = instruction.clone();
    sum.operands[number] = builder.push(update);
    Some(builder.push(sum))
}

fn is_update_of_zeros(builder: &GraphBuilder, id: InstructionId) -> bool {
    let update = builder.get(id);
    let base = update.operands.first().filter(|_| update.kind == OpKind::DynamicUpdateSlice);
    let zeros = base.map(|&base| builder.get(base)).filter(|base| base.kind == OpKind::Broadcast);
    zeros.is_some_and(|zeros| zeros.operands.iter().all(|&zero| builder.is_zero(zero)))
}
