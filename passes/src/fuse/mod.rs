//! `fuse`: groups elementwise, shape, indexing and reduction operations into `hlo.fusion` operations, so
//! that each group becomes one loop nest and its inner values stay in registers.
//!
//! The pass walks a computation backwards (`grouping`). An instruction joins the group of its users when it can be computed
//! again at each place it is read without costing more than a trip through memory; cheap index-only instructions,
//! and simple arithmetic on no more than one array, are copied into every group that reads them; another value that others
//! need too becomes a further output of a group with the same loops, unless that would close a cycle between groups
//! (`order`). Then the operations are moved into the regions of fusions. Computations of `while` and `conditional` are fused on their own. Afterwards every fusible operation
//! stands inside a fusion, except reshapes and the like that need no code; operations whose values nobody needs are gone.
//!
//! A reduction of contiguous rows is computed with what reads it along the same row (`rows`): softmax and norms are one
//! kernel that goes from row to row.
//!
//! So is an attention (`attention`): two products with a softmax between them. Its gradient is several fusions, each of which computes
//! the scores again (`chains`).
//!
//! An update in place, of a slice or by a scatter, is the last operation of its group (`refusals` says what stays apart from it).
//!
//! Reductions of the same array, which no value connects, are computed together, and so is what loops over its elements (`siblings`).
//!
//! Deliberately absent: profitability models beyond recomputation cost. Other contractions stand alone here; on CPUs
//! `hlo-fuse-epilogues` then moves them into fusions that go on with their elements.

mod attention;
mod chains;
mod decisions;
mod grouping;
mod indices;
mod neighbours;
mod order;
mod refusals;
mod roles;
mod rows;
mod siblings;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fmt;

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::indexing_maps::{InstructionMaps, Numbering};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::FusionKind;
use hlo::ops::fusion::FusionAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::{self, Effects};
use indexing::IndexingMap;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::TupleType;
use melior::ir::{Block, BlockLike, BlockRef, Location, OperationRef, Region, RegionLike, Type, Value, ValueLike};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

pub use self::attention::Attention;
use self::chains::Least;
pub use self::chains::{Chain, Scores};
pub use self::decisions::{Decision, Refusal, explain};
use self::grouping::{Group, GroupId, Grouping, reads_from_memory};
pub use self::roles::{is_alias, is_expensive, is_function, is_update, update_of};
pub use self::rows::{Rows, first_result, written};
use crate::effects::has_effect;
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "by-row",
        description: "whether reductions are computed with what reads them along the same row",
        kind: OptionKind::Boolean,
        default: "true",
    },
    OptionDefinition {
        name: "attention",
        description: "whether two products with a softmax between them are computed together, the softmax in parts",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "attention-gradients",
        description: "bytes of f32 scores from which on the gradient of an attention computes them again, where it needs them; 0 for never",
        kind: OptionKind::Integer,
        default: "0",
    },
    OptionDefinition {
        name: "attention-rows",
        description: "rows of queries, of all batches, that such a computation has at least, or four for each key",
        kind: OptionKind::Integer,
        default: "1",
    },
    OptionDefinition {
        name: "short-reductions",
        description: "terms of reductions, along any dimension, that are computed where each of their elements is read once",
        kind: OptionKind::Integer,
        default: "0",
    },
];

/// What the pass does beside fusing what becomes one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseOptions {
    /// Whether reductions are computed with what reads them along the same row.
    pub by_row: bool,
    /// Whether two products with a softmax between them are computed together.
    pub attention: bool,
    /// Bytes of `f32` scores from which on the gradient of an attention computes them again, where it needs them; 0 if none does. Those that
    /// matrix instructions make are computed again if an attention's are.
    pub attention_gradients: u64,
    /// Rows of queries, of all batches, that they have at least, or a few for each key: rows are computed side by side.
    pub attention_rows: u64,
    /// Terms of reductions, along any dimension, that are computed where each of their elements is read once.
    pub short_reductions: u64,
}

/// Terms that a thread of a GPU adds up on its way, such as the parts of a product.
const GPU_SHORT_REDUCTIONS: u64 = 8;

/// Rows of queries of an attention that keep enough of a GPU busy: with fewer, its products have more blocks than it.
const GPU_ATTENTION_ROWS: u64 = 2048;

/// Bytes of scores of `f32` for which a GPU has hardly room: computing them again takes longer than loading them.
const GPU_ATTENTION_GRADIENTS: u64 = 1 << 28;

impl FuseOptions {
    /// Those for a processor. Unless code may round otherwise than the program says, sums that are scaled down stay apart.
    pub fn for_cpu(excess_precision: bool) -> Self {
        FuseOptions {
            by_row: true,
            attention: excess_precision,
            attention_gradients: 0,
            attention_rows: 1,
            short_reductions: 0,
        }
    }

    /// Those for a GPU, of which the same holds.
    pub fn for_gpu(excess_precision: bool) -> Self {
        FuseOptions {
            attention_gradients: if excess_precision { GPU_ATTENTION_GRADIENTS } else { 0 },
            attention_rows: GPU_ATTENTION_ROWS,
            short_reductions: GPU_SHORT_REDUCTIONS,
            ..Self::for_cpu(excess_precision)
        }
    }
}

impl fmt::Display for FuseOptions {
    /// As the pass's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by_row, attention, attention_gradients, attention_rows, short_reductions } = self;
        write!(f, "by-row={by_row} attention={attention} attention-gradients={attention_gradients} ")?;
        write!(f, "attention-rows={attention_rows} short-reductions={short_reductions}")
    }
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, options: FuseOptions, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let mut count = 0;
    for block in fused_blocks(&rewriter) {
        Fuser::new(&rewriter, block)?.fuse(options, &mut count)?;
    }
    statistics.add("fusions", count);
    Ok(())
}

/// Of passes that leave products of attentions as they are: rows of queries of these.
pub(crate) const LEFT_ATTENTION_ROWS: OptionDefinition = OptionDefinition {
    name: "attention-rows",
    description: "as for hlo-fuse, whose attentions are left as they are; 0 if it fuses none",
    kind: OptionKind::Integer,
    default: "0",
};

/// The products of a block that become parts of attentions of so many rows of queries, or of their gradients, by their places in it;
/// none for 0.
pub(crate) fn products_of_attentions<'c, 'r>(
    rewriter: &'r Rewriter<'c, 'r>,
    block: BlockRef<'c, 'r>,
    least_rows: u64,
) -> Result<HashSet<InstructionId>, PassError> {
    if least_rows == 0 {
        return Ok(HashSet::new());
    }
    let fuser = Fuser::new(rewriter, block)?;
    let computation = &fuser.computation;
    let users = grouping::users_of(computation);
    let read = |id| fuser.read(id);
    let (found, _) = attention::find(computation, &users, &read, least_rows);
    let chains =
        chains::find(computation, &users, &read, (Least { rows: least_rows, scores: GPU_ATTENTION_GRADIENTS }, &found));
    let of_chains =
        chains.into_values().flat_map(|chain| chain.scores.into_iter().map(|own| own.product).chain([chain.end]));
    Ok(found.into_values().flat_map(|attention| [attention.scores, attention.product]).chain(of_chains).collect())
}

/// The blocks of functions and of control flow in them, inner ones first.
fn fused_blocks<'c, 'r>(rewriter: &'r Rewriter<'c, '_>) -> Vec<BlockRef<'c, 'r>> {
    let is_function = |operation: OperationRef| attributes::identifier_text(operation.name()) == "func.func";
    let is_control = |operation: OperationRef| {
        let kind = dialect::kind_of(operation);
        kind.is_some_and(|kind| matches!(kind, OpKind::While | OpKind::Conditional | OpKind::AsyncStart))
    };
    let mut blocks = Vec::new();
    let mut pending = vec![rewriter.root()];
    while let Some(operation) = pending.pop() {
        if is_control(operation) || is_function(operation) {
            blocks.extend(rewriter.blocks(operation));
        }
        let inner = rewriter.operations_directly_in(operation).into_iter();
        pending.extend(inner.filter(|&inner| is_control(inner) || is_function(inner)));
    }
    blocks.reverse();
    blocks
}

/// What is computed at one place of the block: by a group, or by an operation that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Node {
    Group(GroupId),
    Single(InstructionId),
}

/// A block being fused.
struct Fuser<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    block: BlockRef<'c, 'r>,
    computation: Computation,
    /// The values of the block as it was, by instruction.
    old: Vec<Value<'c, 'r>>,
    /// Those that take their place.
    new: Vec<Option<Value<'c, 'r>>>,
}

impl<'c, 'r> Fuser<'c, 'r> {
    fn new(rewriter: &'r Rewriter<'c, 'r>, block: BlockRef<'c, 'r>) -> Result<Self, PassError> {
        let snapshot = dialect::snapshot(block, |_, kind| matches!(kind, OpKind::CustomCall | OpKind::Pad))?;
        let new = vec![None; snapshot.values.len()];
        Ok(Fuser { rewriter, block, computation: snapshot.computation, old: snapshot.values, new })
    }

    fn operation(&self, id: InstructionId) -> Option<OperationRef<'c, 'r>> {
        self.rewriter.definition(self.old[id.index()]).map(|(operation, _)| operation)
    }

    /// An instruction with its attributes and computations; none for a parameter.
    fn read(&self, id: InstructionId) -> Option<Instruction> {
        let mut instruction = dialect::operation_to_instruction(self.operation(id)?).ok()?;
        instruction.operands.clone_from(&self.computation.get(id).operands);
        Some(instruction)
    }

    /// The indexing map from an instruction to an operand.
    fn operand_map(&self, id: InstructionId, operand: usize) -> Option<IndexingMap<'c>> {
        let instruction = self.read(id)?;
        let context = self.rewriter.context();
        InstructionMaps::new(context, &self.computation, &instruction, Numbering::Operands).operand_map(operand)
    }

    /// Whether a reduction reads contiguous rows.
    fn reduces_rows(&self, id: InstructionId) -> bool {
        let reduced = self.operation(id).and_then(|operation| operations::attribute(&operation, "dimensions"));
        let operand = self.computation.get(id).operands.first();
        let shape = operand.and_then(|&operand| self.computation.get(operand).shape.as_array());
        let (Some(reduced), Some(shape)) = (reduced.and_then(attributes::integers), shape) else { return false };
        let kept = shape.rank().saturating_sub(reduced.len());
        reduced.iter().all(|&dimension| dimension as usize >= kept)
    }

    /// Fuses the block; `count` numbers fusions.
    fn fuse(mut self, options: FuseOptions, count: &mut u64) -> Result<(), PassError> {
        let reduces_rows = |id| self.reduces_rows(id);
        let map = |id, operand| self.operand_map(id, operand);
        let read = |id| self.read(id);
        let grouping = Grouping::of(&self.computation, &map, &reduces_rows, &read, options);
        let inputs: Vec<Vec<InstructionId>> =
            grouping.groups.iter().map(|group| group_inputs(&self.computation, group)).collect();
        let order = self.sorted(&grouping, &inputs)?;
        let Grouping { groups, member_of, stands_alone, .. } = grouping;
        let is_moved = |id: InstructionId| member_of[id.index()].len() == 1 && !stands_alone[id.index()];
        let last = self.block.terminator().ok_or_else(|| PassError::bug("a block has no terminator"))?;
        let mut kept: HashSet<InstructionId> = HashSet::new();
        for node in order {
            match node {
                Node::Single(id) => {
                    kept.insert(id);
                    self.new[id.index()] = Some(self.old[id.index()]);
                    let Some(operation) = self.operation(id) else { continue };
                    for (position, operand) in self.computation.get(id).operands.iter().enumerate() {
                        self.rewriter.redirect_operand(operation, position, self.value(*operand)?)?;
                    }
                    self.rewriter.move_before(operation, last)?;
                }
                Node::Group(group) => {
                    *count += 1;
                    self.make_fusion(&groups[group], &inputs[group], &is_moved, *count, last)?;
                }
            }
        }
        self.rewriter.redirect_operand(last, 0, self.value(self.computation.root)?)?;
        // What is neither kept nor moved is copied, or dead.
        for id in (0..self.old.len() as u32).rev().map(InstructionId).filter(|id| !kept.contains(id)) {
            let operation = self.operation(id).filter(|operation| operation.block() == Some(self.block));
            operation.map_or(Ok(()), |operation| self.rewriter.erase(operation))?;
        }
        Ok(())
    }

    /// The value that stands for an instruction's now.
    fn value(&self, id: InstructionId) -> Result<Value<'c, 'r>, PassError> {
        self.new[id.index()].ok_or_else(|| PassError::bug(format!("instruction {} is used before it is made", id.0)))
    }

    fn has_effect(&self, id: InstructionId, instruction: &Instruction) -> bool {
        let definition = ops::definition(instruction.kind);
        let may_have = definition.effects != Effects::None || !definition.computations.is_empty();
        may_have && self.operation(id).is_some_and(|operation| has_effect(self.rewriter, operation))
    }

    /// What the root or an effect needs, producers first, earlier text first among what is ready.
    fn sorted(&self, grouping: &Grouping<'_>, inputs: &[Vec<InstructionId>]) -> Result<Vec<Node>, PassError> {
        let computation = &self.computation;
        let node_of = |id: InstructionId| grouping.written_by[id.index()].map_or(Node::Single(id), Node::Group);
        let operands_of = |node: Node| match node {
            Node::Group(group) => &inputs[group][..],
            Node::Single(id) => &computation.get(id).operands[..],
        };
        let mut pending = vec![computation.root];
        pending.extend(&computation.parameters);
        pending
            .extend(computation.iter().filter(|(id, instruction)| self.has_effect(*id, instruction)).map(|(id, _)| id));
        // Needed nodes, with how many of those that they read are still to come.
        let mut missing: HashMap<Node, usize> = HashMap::new();
        let mut dependents: HashMap<Node, Vec<Node>> = HashMap::new();
        let mut ready = BinaryHeap::new();
        let place = |node: Node| match node {
            Node::Group(group) => grouping.groups[group].outputs.iter().copied().min().map_or(0, |id| id.0),
            Node::Single(id) => id.0,
        };
        while let Some(id) = pending.pop() {
            let node = node_of(id);
            if missing.contains_key(&node) {
                continue;
            }
            let mut producers: Vec<Node> = operands_of(node).iter().map(|&operand| node_of(operand)).collect();
            producers.sort_unstable();
            producers.dedup();
            missing.insert(node, producers.len());
            if producers.is_empty() {
                ready.push(Reverse((place(node), node)));
            }
            for producer in producers {
                dependents.entry(producer).or_default().push(node);
            }
            pending.extend(operands_of(node));
        }
        let mut order = Vec::with_capacity(missing.len());
        while let Some(Reverse((_, node))) = ready.pop() {
            order.push(node);
            for dependent in dependents.remove(&node).unwrap_or_default() {
                let Some(count) = missing.get_mut(&dependent) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.push(Reverse((place(dependent), dependent)));
                }
            }
        }
        let is_whole = order.len() == missing.len();
        is_whole.then_some(order).ok_or_else(|| PassError::bug("the fusions of a computation depend on each other"))
    }

    /// Makes the fusion of a group before an operation. Members that `is_moved` allows are moved, others copied.
    fn make_fusion(
        &mut self,
        group: &Group,
        inputs: &[InstructionId],
        is_moved: &dyn Fn(InstructionId) -> bool,
        number: u64,
        before: OperationRef<'c, 'r>,
    ) -> Result<(), PassError> {
        let context = self.rewriter.context();
        let named = |location: Location<'c>, name: String| dialect::renamed(location, &name);
        let mut outputs = group.outputs.clone();
        outputs.sort_unstable();
        let location = self.operation(outputs[0]).map_or(Location::unknown(context), |first| first.location());

        let unknown = Location::unknown(context);
        let arguments: Vec<(Type, Location)> = inputs
            .iter()
            .enumerate()
            .map(|(place, &input)| {
                (self.old[input.index()].r#type(), named(unknown, format!("param_{place}.{number}")))
            })
            .collect();
        let block = Block::new(&arguments);
        let mut parameters: HashMap<InstructionId, Value> = HashMap::new();
        for (place, &input) in inputs.iter().enumerate() {
            let argument = block.argument(place).map_err(|error| PassError::bug(error.to_string()))?;
            parameters.insert(input, argument.into());
        }
        let mut members: Vec<InstructionId> = group.members.keys().copied().collect();
        members.sort_unstable();
        let mut inner: HashMap<InstructionId, Value> = HashMap::new();
        for id in members {
            let original = self.operation(id).ok_or_else(|| PassError::bug("a parameter is in a group"))?;
            let operation = if is_moved(id) {
                original
            } else {
                let copy = self.rewriter.insert_before((*original).clone(), before)?;
                let name = dialect::name_of(copy.location()).unwrap_or_default();
                self.rewriter.set_location(copy, named(copy.location(), format!("{name}.{number}")));
                copy
            };
            let instruction = self.computation.get(id);
            for (position, operand) in instruction.operands.iter().enumerate() {
                let own = inner.get(operand).filter(|_| position > 0 || !reads_from_memory(instruction, *operand));
                let value = own.or_else(|| parameters.get(operand));
                let value = value.ok_or_else(|| PassError::bug("a group reads what is not one of its inputs"))?;
                self.rewriter.redirect_operand(operation, position, *value)?;
            }
            self.rewriter.move_to_end(operation, &block)?;
            inner.insert(id, result_of(operation)?);
        }
        let values: Vec<Value> = outputs.iter().filter_map(|output| inner.get(output).copied()).collect();
        let result = match values[..] {
            [value] => value,
            _ => {
                let types: Vec<Type> = values.iter().map(|value| value.r#type()).collect();
                let r#type = TupleType::new(context, &types).into();
                let name = named(unknown, format!("tuple.fused.{number}"));
                let tuple = dialect::new_operation(context, OpKind::Tuple, &values, &Attributes::new(), r#type, name)?;
                result_of(block.append_operation(tuple))?
            }
        };
        let r#type = result.r#type();
        block.append_operation(dialect::new_return(result, named(unknown, format!("fused_computation.{number}")))?);
        let region = Region::new();
        region.append_block(block);

        let kind = if group.has_reduction { FusionKind::Input } else { FusionKind::Loop };
        let attributes = FusionAttributes::new(kind).into();
        let operands: Vec<Value> = inputs.iter().map(|&input| self.value(input)).collect::<Result<_, _>>()?;
        let own = named(location, format!("fusion.{number}"));
        let fusion =
            dialect::new_operation_with(context, OpKind::Fusion, &operands, &attributes, r#type, own, vec![region])?;
        let fusion = result_of(self.rewriter.insert_before(fusion, before)?)?;
        if let [output] = outputs[..] {
            self.new[output.index()] = Some(fusion);
            return Ok(());
        }
        for (index, (&output, value)) in outputs.iter().zip(&values).enumerate() {
            let attributes = GetTupleElementAttributes { index: index as i64 }.into();
            let name = named(location, format!("fusion.{number}.output.{index}"));
            let kind = OpKind::GetTupleElement;
            let element = dialect::new_operation(context, kind, &[fusion], &attributes, value.r#type(), name)?;
            self.new[output.index()] = Some(result_of(self.rewriter.insert_before(element, before)?)?);
        }
        Ok(())
    }
}

/// Operands from outside of a group, in order of first use.
fn group_inputs(computation: &Computation, group: &Group) -> Vec<InstructionId> {
    let mut members: Vec<InstructionId> = group.members.keys().copied().collect();
    members.sort_unstable();
    let mut seen = HashSet::new();
    let mut inputs = Vec::new();
    for member in members {
        let instruction = computation.get(member);
        for &operand in &instruction.operands {
            let is_read = reads_from_memory(instruction, operand) || !group.members.contains_key(&operand);
            if is_read && seen.insert(operand) {
                inputs.push(operand);
            }
        }
    }
    inputs
}

/// The one result of an operation of the dialect.
fn result_of<'c, 'r>(operation: OperationRef<'c, 'r>) -> Result<Value<'c, 'r>, PassError> {
    operation.result(0).map(Value::from).map_err(|error| PassError::bug(error.to_string()))
}
