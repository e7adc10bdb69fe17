//! `expand`: replaces operations by simpler ones that compute the same.
//!
//! What is left is what the lowering has code for. One file for each family, and one row here for each operation;
//! an expansion reads like the operation's definition. An operation that cannot be expanded stays, and the lowering says so.

pub(crate) mod asynchronous;
pub(crate) mod batch_norm;
mod bitcast;
mod bitcast_convert;
mod channels;
mod collectives;
mod exchanges;
mod first_sorted;
mod matrices;
mod power;
mod ragged_dot;
mod rng;
mod select;
pub(crate) mod select_and_scatter;
mod sparse_product;
pub(crate) mod start_indices;

use hlo::devices::{DeviceCount, communicates};
use hlo::dialect;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_ext::rewrite::Rewriter;

use self::channels::{Channels, Sent};
use crate::graph_builder::GraphBuilder;
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Appends what computes an instruction, whose operands are given, and returns its value; `None` (and nothing
/// appended that has an effect) where the operation must stay.
type Expansion = fn(&mut GraphBuilder, &Instruction, &[InstructionId]) -> Option<InstructionId>;

/// (operation, name of the rule, expansion)
const EXPANSIONS: &[(OpKind, &str, Expansion)] = &[
    (OpKind::AllGather, "all-gather", collectives::same),
    (OpKind::AllGatherDone, "all-gather-done", asynchronous::done),
    (OpKind::AllGatherStart, "all-gather-start", collectives::gather_start),
    (OpKind::AllReduce, "all-reduce", collectives::same),
    (OpKind::AllReduceDone, "all-reduce-done", collectives::same),
    (OpKind::AllReduceStart, "all-reduce-start", collectives::same),
    (OpKind::AllToAll, "all-to-all", collectives::same),
    (OpKind::AsyncDone, "async-done", asynchronous::done),
    (OpKind::AsyncStart, "async-start", asynchronous::start),
    (OpKind::AsyncUpdate, "async-update", asynchronous::update),
    (OpKind::BatchNormGrad, "batch-norm-grad", |b, i, o| batch_norm::gradient(b, i, o, None)),
    (OpKind::BatchNormInference, "batch-norm-inference", batch_norm::inference),
    (OpKind::BatchNormTraining, "batch-norm-training", |b, i, o| batch_norm::training(b, i, o, None)),
    (OpKind::Bitcast, "bitcast", bitcast::expand),
    (OpKind::BitcastConvert, "bitcast-convert", bitcast_convert::expand),
    (OpKind::Cholesky, "matrices of small floats", matrices::widen),
    (OpKind::CollectiveBroadcast, "collective-broadcast", collectives::same),
    (OpKind::CollectivePermute, "collective-permute", collectives::permute),
    (OpKind::CollectivePermuteDone, "collective-permute-done", asynchronous::done),
    (OpKind::CollectivePermuteStart, "collective-permute-start", collectives::permute_start),
    (OpKind::Copy, "copy of a tuple", copy),
    (OpKind::CopyDone, "copy-done", asynchronous::copy_done),
    (OpKind::CopyStart, "copy-start", asynchronous::copy_start),
    (OpKind::CustomCall, "product of a sparse matrix", sparse_product::expand),
    (OpKind::DynamicSlice, "start indices of an array", start_indices::expand),
    (OpKind::DynamicUpdateSlice, "start indices of an array", start_indices::expand),
    (OpKind::Fusion, "fusion", fusion),
    (OpKind::PartitionId, "partition-id", collectives::number),
    (OpKind::Power, "power of a constant", power::expand),
    (OpKind::RaggedAllToAll, "ragged-all-to-all", collectives::ragged_all_to_all),
    (OpKind::RaggedDot, "ragged-dot", ragged_dot::expand),
    (OpKind::ReduceScatter, "reduce-scatter", collectives::same),
    (OpKind::ReplicaId, "replica-id", collectives::number),
    (OpKind::Rng, "rng of small floats", rng::expand),
    (OpKind::Select, "select of tuples", select::expand),
    (OpKind::SelectAndScatter, "select-and-scatter", |b, i, o| select_and_scatter::expand(b, i, o, [None; 2])),
    (OpKind::TriangularSolve, "matrices of small floats", matrices::widen),
];

// Each operation has one row, in the order of the operations.
const _: () = {
    let mut row = 1;
    while row < EXPANSIONS.len() {
        assert!((EXPANSIONS[row - 1].0 as usize) < EXPANSIONS[row].0 as usize);
        row += 1;
    }
};

/// A fusion of another compiler: its instructions.
fn fusion(builder: &mut GraphBuilder, instruction: &Instruction, operands: &[InstructionId]) -> Option<InstructionId> {
    Some(builder.splice(instruction.computations.first()?, operands))
}

/// A copy of a tuple: the tuple, as values do not change.
fn copy(_: &mut GraphBuilder, instruction: &Instruction, operands: &[InstructionId]) -> Option<InstructionId> {
    instruction.shape.as_tuple().and(operands.first().copied())
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    first_sorted::run(&rewriter, statistics)?;
    let count = root.parent_operation().map_or(DeviceCount::ONE, dialect::device_count);
    let channels = Channels::of(&rewriter, count)?;
    for block in blocks_with(&rewriter, |_, kind| is_expanded(kind)) {
        // A power is expanded for the sake of its exponent.
        let body = Body::read(&rewriter, block, |_, kind| is_expanded(kind) || kind == OpKind::Constant)?;
        let mut sent = Sent::default();
        body.rewrite(|builder, _, instruction| {
            let operands = &instruction.operands;
            let (value, rule) = match expansion(instruction.kind) {
                Some(_) if communicates(instruction, count) => {
                    (exchanges::expand(builder, instruction, operands, count)?, "exchange")
                }
                Some((_, rule, expand)) => (expand(builder, instruction, operands)?, *rule),
                None => (sent.expand(&channels, builder, instruction, operands)?, "channel"),
            };
            statistics.add(rule, 1);
            Some(value)
        })?;
    }
    Ok(())
}

fn expansion(kind: OpKind) -> Option<&'static (OpKind, &'static str, Expansion)> {
    EXPANSIONS.iter().find(|row| row.0 == kind)
}

fn is_expanded(kind: OpKind) -> bool {
    expansion(kind).is_some() || channels::is_channel(kind)
}
