//! Why each value is, or is not, computed together with what reads it.

use std::collections::HashMap;
use std::fmt;

use hlo::dialect;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_ext::rewrite::Rewriter;

use super::grouping::{GroupId, Grouping, MAX_EVALUATIONS, MAX_GROUP_INPUTS, MAX_GROUP_SIZE, reads_from_memory};
use super::{FuseOptions, Fuser, fused_blocks};
use crate::registry::PassError;

/// Why a value is not computed in a group that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The producer has a kernel of its own, or none.
    ProducerStandsAlone(OpKind),
    /// The consumer has a kernel of its own.
    ConsumerStandsAlone(OpKind),
    /// The base of an update in place is memory.
    BaseOfUpdate,
    /// The consumer's group has as many instructions as a group may have.
    GroupIsLarge,
    /// The consumer's group has as many inputs as a group may have.
    ManyInputs,
    /// Something that is worth a load would be computed again.
    Recomputed {
        /// At how many indices for each element of the loops.
        evaluations: u32,
    },
    /// A gather would read several arrays instead of one, for more elements than they have.
    GatheredFromSeveral,
    /// Elements would be computed at many indices.
    ManyEvaluations {
        /// At how many for each element of the loops.
        evaluations: u32,
    },
    /// A window reads each element several times.
    Window,
    /// A pad with gaps is read between the gaps of another one.
    Gaps,
    /// A reduction would read a large array across its rows, and another one along them.
    AcrossRows,
    /// A transpose would look for the array that each element of a row comes from.
    Interleaved,
    /// An update is the last operation of its group.
    Update,
    /// It reads an array of which little is updated, in its memory.
    ReadsBase,
    /// A scatter takes elements one after another: what takes a while is computed by all threads before.
    Scattered,
    /// A further reduction in a group must be over contiguous rows, and have its loops and be read at the loop index, or
    /// have its rows, long enough and enough of them, and be read in the same row, or be transposed back.
    Reduction,
    /// The value must be in memory, and the group's loops do not visit each of its elements once.
    OtherLoops,
    /// The value must be in memory, and a group with a reduction or an update writes nothing else.
    OneOutput,
    /// A further output would make a cycle between groups.
    Cycle,
    /// The value is in memory for other readers; it is loaded, not computed again.
    InMemory,
    /// Others need what an attention would compute on the way, such as its weights.
    AttentionIsRead,
    /// The scores of an attention are so few that they stay in a cache.
    FewScores {
        /// Their bytes.
        bytes: usize,
    },
    /// The rows of an attention are too few to be computed side by side.
    FewRows {
        /// Their number, of all batches.
        rows: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::ProducerStandsAlone(OpKind::Parameter) => f.write_str("a parameter is in memory"),
            Refusal::ProducerStandsAlone(OpKind::Constant) => f.write_str("a constant array is in memory"),
            Refusal::ProducerStandsAlone(kind) => write!(f, "`{kind}` writes its result to memory: it is not fused"),
            Refusal::ConsumerStandsAlone(kind) => write!(f, "`{kind}` reads its operands from memory: it is not fused"),
            Refusal::BaseOfUpdate => f.write_str("an update happens in the memory of its base"),
            Refusal::GroupIsLarge => write!(f, "the group has {MAX_GROUP_SIZE} instructions, the most that is allowed"),
            Refusal::ManyInputs => write!(f, "the group would have more than {MAX_GROUP_INPUTS} inputs"),
            Refusal::Recomputed { evaluations } => write!(
                f,
                "an expensive operation would be computed again: at {evaluations} indices for each element of the \
                 group, or for more elements than it has"
            ),
            Refusal::GatheredFromSeveral => {
                f.write_str("a gather would read several arrays instead of one, for more elements than they have")
            }
            Refusal::ManyEvaluations { evaluations } => write!(
                f,
                "it would be computed at {evaluations} indices for each element of the group (at most 4 for \
                 arithmetic, {MAX_EVALUATIONS} for moved data)"
            ),
            Refusal::Window => f.write_str("a window would compute each element several times"),
            Refusal::Gaps => f.write_str(
                "a pad with gaps between the gaps of another one divides the index again, for each element of the group",
            ),
            Refusal::AcrossRows => f.write_str(
                "a reduction would read it across its rows beside what it reads along them: it is transposed once",
            ),
            Refusal::Interleaved => f.write_str(
                "a transpose would look for the array that each element of a row comes from: they are put together first",
            ),
            Refusal::Update => f.write_str("an update in place is the last operation of its group"),
            Refusal::ReadsBase => f.write_str("it reads an array in whose memory little is updated: all of it would be copied first"),
            Refusal::Scattered => f.write_str(
                "a scatter takes elements one after another: what takes a while is computed before, by all threads",
            ),
            Refusal::Reduction => f.write_str(
                "a reduction joins only a group with its loops, over contiguous rows, at the loop index, or one with its \
                 rows, long enough and enough of them, read in the same row",
            ),
            Refusal::OtherLoops => f.write_str(
                "others need the value in memory, and the loops of the group do not visit its elements once each",
            ),
            Refusal::OneOutput => f.write_str(
                "others need the value in memory, and a group with a reduction or an update writes nothing else",
            ),
            Refusal::Cycle => f.write_str("as a further output of the group it would make a cycle between kernels"),
            Refusal::AttentionIsRead => {
                f.write_str("others need the weights of the attention, or what they are made of, in memory")
            }
            Refusal::FewScores { bytes } => {
                write!(f, "the attention has {bytes} bytes of scores, which a cache holds; one kernel is for more")
            }
            Refusal::FewRows { rows } => {
                write!(f, "the attention has {rows} rows of queries, too few for one kernel to keep the device busy")
            }
            Refusal::InMemory => {
                f.write_str("others need the value in memory; loading it is cheaper than computing it again")
            }
        }
    }
}

/// What was decided for a value and one of its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Name of the instruction that makes the value.
    pub producer: String,
    /// Name of the instruction that reads it.
    pub consumer: String,
    /// Why they are not in one fusion; `None` if they are.
    pub refusal: Option<Refusal>,
}

/// What fusion would decide for every value and reader of a module, which stays as it is.
///
/// # Errors
/// Internal ones, and those of modules that are no HLO programs.
pub fn explain(root: OperationRef<'_, '_>, options: FuseOptions) -> Result<Vec<Decision>, PassError> {
    let rewriter = Rewriter::new(root);
    let mut decisions = Vec::new();
    for block in fused_blocks(&rewriter) {
        let fuser = Fuser::new(&rewriter, block)?;
        let reduces_rows = |id| fuser.reduces_rows(id);
        let map = |id, operand| fuser.operand_map(id, operand);
        let read = |id| fuser.read(id);
        let grouping = Grouping::of(&fuser.computation, &map, &reduces_rows, &read, options);
        let name = |id: InstructionId| match fuser.operation(id) {
            Some(operation) => dialect::name_of(operation.location()).unwrap_or_default().to_string(),
            None => fuser.computation.get(id).name.clone(),
        };
        let recorded: HashMap<(InstructionId, GroupId), Refusal> =
            grouping.refusals.iter().map(|&(id, group, refusal)| ((id, group), refusal)).collect();
        for (id, _) in fuser.computation.iter() {
            for user in grouping.users[id.index()].chunk_by(|a, b| a == b).map(|same| same[0]) {
                let refusal = refusal(&grouping, &recorded, id, user);
                decisions.push(Decision { producer: name(id), consumer: name(user), refusal });
            }
        }
    }
    Ok(decisions)
}

/// Why a value is not computed with one of its readers.
fn refusal(
    grouping: &Grouping<'_>,
    recorded: &HashMap<(InstructionId, GroupId), Refusal>,
    producer: InstructionId,
    consumer: InstructionId,
) -> Option<Refusal> {
    let [made, read]: [&Instruction; 2] = [producer, consumer].map(|id| grouping.instruction(id));
    let readers = &grouping.member_of[consumer.index()];
    if reads_from_memory(read, producer) {
        return Some(Refusal::BaseOfUpdate);
    }
    if grouping.member_of[producer.index()].iter().any(|group| readers.contains(group)) {
        return None;
    }
    if let Some(refusal) = grouping.refused_attentions.get(&consumer) {
        return Some(*refusal);
    }
    if grouping.role(producer) == FusionRole::Opaque {
        return Some(Refusal::ProducerStandsAlone(made.kind));
    }
    if readers.is_empty() || read.kind == OpKind::Dot {
        return Some(Refusal::ConsumerStandsAlone(read.kind));
    }
    let recorded = readers.iter().find_map(|&group| recorded.get(&(producer, group)));
    Some(recorded.copied().unwrap_or(Refusal::InMemory))
}
