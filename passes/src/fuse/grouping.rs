//! Which instructions are computed together.
//!
//! The analysis walks a computation backwards. An instruction joins the groups of its users, or becomes a further
//! output of one, or starts a group. Time grows with the number of uses: what is known of a member is kept by the
//! group, and whether a further output would close a cycle is asked of an order of the groups ([`super::order`]).

use std::collections::{HashMap, HashSet};

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::{ArrayShape, Shape};
use indexing::IndexingMap;

use super::FuseOptions;
use super::attention::{self, Attention, Read};
use super::chains::{self, Chain, Least};
use super::decisions::Refusal;
use super::indices::Indices;
use super::order::Order;
use super::roles::{
    has_gaps, is_alias, is_expensive, made_with_gaps, places, reads_at_same_index, role, update_of, work,
};
use super::rows;

/// Instructions in one group at most: bigger loop bodies spill registers and compile slowly.
pub(super) const MAX_GROUP_SIZE: usize = 384;
/// Distinct inputs of one group at most.
pub(super) const MAX_GROUP_INPUTS: usize = 48;
/// How often the body of a cheap instruction may be repeated at different indices in one group.
pub(super) const MAX_EVALUATIONS: u32 = 16;
/// Groups that compute a value again, rather than one that writes it and others that load it.
const MAX_READERS_COMPUTING_AGAIN: usize = 3;
/// Values that a group computes again though another one computes them too.
const MAX_COMPUTED_AGAIN: usize = 8;
/// Groups tried at most for one to write an instruction's value.
const MAX_WRITERS_TRIED: usize = 16;

/// Bytes of an array up to which a cache near the core holds it.
pub(super) const MOST_CACHED_BYTES: usize = 1 << 16;

/// An array that has so many times fewer elements than another is read for nothing beside it.
pub(super) const SMALL_PART: i64 = 8;

/// Position of a group among all.
pub(super) type GroupId = usize;

/// One group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The instructions computed in it, with what is known of them.
    pub(super) members: HashMap<InstructionId, Member>,
    /// Those whose values it writes to memory; the first one it had comes first.
    pub(super) outputs: Vec<InstructionId>,
    /// The dimensions of the loops.
    pub(super) dimensions: Vec<i64>,
    pub(super) has_reduction: bool,
    pub(super) has_update: bool,
    /// Whether it is an attention, whose kernel computes elements of the scores beside those of its loops.
    pub(super) is_attention: bool,
    /// Its rows, if it computes values once for each of them.
    pub(super) rows: Option<GroupRows>,
    /// Members that other groups compute too, where a load would do.
    computed_again: usize,
    /// Operands of members that no group computes.
    pub(super) opaque_inputs: HashSet<InstructionId>,
}

/// The rows of a group's loops.
#[derive(Debug)]
pub(super) struct GroupRows {
    /// Leading dimensions of the loops that go from row to row.
    pub(super) rank: usize,
    /// By member: how many leading indices are those of the loops wherever it is read.
    pub(super) prefixes: HashMap<InstructionId, usize>,
}

/// A member of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Where it is evaluated for an element of the loops.
    indices: Indices,
    /// Where it would be if nothing was kept along rows.
    ways: Indices,
    /// How often it is evaluated in all.
    total: i64,
    /// Whether it is evaluated at the loop index itself: it reaches an output through same-index users only.
    pub(super) is_at_loop_index: bool,
    /// Whether it is evaluated for some elements only, at an index that is divided: on the way to it is a pad with gaps.
    is_between_gaps: bool,
}

impl Member {
    /// What is evaluated for each element of the loops.
    fn of_loops(total: i64, is_at_loop_index: bool) -> Self {
        let is_between_gaps = false;
        Member { indices: Indices::of_loops(), ways: Indices::of_loops(), total, is_at_loop_index, is_between_gaps }
    }
}

/// The indexing map from an instruction to the operand of a number.
pub(super) type OperandMap<'a> = dyn Fn(InstructionId, usize) -> Option<IndexingMap<'a>> + 'a;

/// Assignment of instructions to groups.
pub(super) struct Grouping<'a> {
    pub(super) computation: &'a Computation,
    /// The map from an instruction to an operand.
    pub(super) map: &'a OperandMap<'a>,
    /// Whether a reduction reads contiguous rows.
    pub(super) reduces_rows: &'a dyn Fn(InstructionId) -> bool,
    /// See [`FuseOptions::short_reductions`].
    pub(super) short_reductions: i64,
    /// By instruction: the length of the rows that it is reduced from, element by element; 0 for others.
    reduced_lengths: Vec<i64>,
    /// Those that read each instruction; a concatenate as often as it does.
    pub(super) users: Vec<Vec<InstructionId>>,
    roles: Vec<FusionRole>,
    /// By instruction: whether it is a pad with gaps, or made of one element by element.
    pub(super) made_with_gaps: Vec<bool>,
    /// By instruction: simple operations, roughly, that one of its elements takes from memory.
    pub(super) work: Vec<u32>,
    /// By instruction: the places between which it is chosen for one of its elements.
    pub(super) places: Vec<i64>,
    pub(super) groups: Vec<Group>,
    /// Groups in which an instruction is computed.
    pub(super) member_of: Vec<Vec<GroupId>>,
    /// The group that writes an instruction's value to memory.
    pub(super) written_by: Vec<Option<GroupId>>,
    /// Aliases that stand alone too, whatever groups they were copied into: they read their operand from memory.
    pub(super) stands_alone: Vec<bool>,
    /// The attentions that are groups, by their results.
    attentions: HashMap<InstructionId, Attention>,
    /// The chains of products that are groups, by their results.
    chains: HashMap<InstructionId, Chain>,
    /// Why others are none, by their second products.
    pub(super) refused_attentions: HashMap<InstructionId, Refusal>,
    /// Why instructions were not put into groups that read them.
    pub(super) refusals: Vec<(InstructionId, GroupId, Refusal)>,
}

/// Whether a fused user reads this operand from a buffer all the same (the base of an in-place update).
pub(super) fn reads_from_memory(user: &Instruction, operand: InstructionId) -> bool {
    role(user) == FusionRole::Update && user.operands.first() == Some(&operand)
}

/// What reads each instruction, in order; what is not computed at all, as nothing reads it, reads nothing.
pub(super) fn users_of(computation: &Computation) -> Vec<Vec<InstructionId>> {
    let mut users: Vec<Vec<InstructionId>> = vec![Vec::new(); computation.instructions.len()];
    for (id, instruction) in computation.iter().rev() {
        if users[id.index()].is_empty() && id != computation.root && role(instruction) != FusionRole::Opaque {
            continue;
        }
        for operand in instruction.operands.iter().rev() {
            // A concatenate has each of its operands at a place of its own.
            if instruction.kind == OpKind::Concatenate || users[operand.index()].last() != Some(&id) {
                users[operand.index()].push(id);
            }
        }
    }
    users.iter_mut().for_each(|users| users.reverse());
    users
}

impl<'a> Grouping<'a> {
    /// The groups of a computation, whose instructions can be read with their attributes.
    pub(super) fn of(
        computation: &'a Computation,
        map: &'a OperandMap<'a>,
        reduces_rows: &'a dyn Fn(InstructionId) -> bool,
        read: &Read<'_>,
        options: FuseOptions,
    ) -> Self {
        let count = computation.instructions.len();
        let users = users_of(computation);
        let reduced_lengths =
            if options.by_row { rows::reduced_lengths(computation, reduces_rows) } else { vec![0; count] };
        let (attentions, refused_attentions) = if options.attention {
            attention::find(computation, &users, read, options.attention_rows)
        } else {
            Default::default()
        };
        let least = Least { rows: options.attention_rows, scores: options.attention_gradients };
        let chains = match least.scores {
            0 => HashMap::new(),
            _ => chains::find(computation, &users, read, (least, &attentions)),
        };
        let mut grouping = Grouping {
            computation,
            map,
            reduces_rows,
            short_reductions: i64::try_from(options.short_reductions).unwrap_or(i64::MAX),
            reduced_lengths,
            users,
            roles: computation.instructions.iter().map(role).collect(),
            made_with_gaps: made_with_gaps(computation),
            work: work(computation),
            places: places(computation),
            groups: Vec::new(),
            member_of: vec![Vec::new(); count],
            written_by: vec![None; count],
            stands_alone: vec![false; count],
            attentions,
            chains,
            refused_attentions,
            refusals: Vec::new(),
        };
        let of_attentions = grouping.attentions.values().map(|own| (&own.members, own.result));
        let of_chains = grouping.chains.values().map(|own| (&own.members, own.result));
        let mut results: HashMap<InstructionId, Vec<InstructionId>> = HashMap::new();
        for (members, result) in of_attentions.chain(of_chains) {
            members.iter().for_each(|&member| results.entry(member).or_default().push(result));
        }
        results.values_mut().for_each(|results| results.sort_unstable());
        let mut order = Order::new(count);
        for id in (0..count as u32).rev().map(InstructionId) {
            if let Some(results) = results.get(&id) {
                results.iter().for_each(|&result| grouping.place_in_attention(id, result));
            } else if grouping.roles[id.index()] != FusionRole::Opaque {
                grouping.place(id, &mut order);
            }
        }
        grouping.merge_siblings(&mut order);
        grouping.merge_producers(&mut order);
        grouping.merge_readers(&mut order);
        grouping
    }

    /// Puts a part of an attention into the group of its result.
    fn place_in_attention(&mut self, id: InstructionId, result: InstructionId) {
        if id == result {
            self.start_group(id);
            return;
        }
        let Some(group) = self.written_by[result.index()] else { return };
        let total = self.elements(id);
        let inputs: Vec<InstructionId> = self.opaque_operands(id).collect();
        self.groups[group].members.insert(id, Member::of_loops(total, false));
        self.groups[group].opaque_inputs.extend(inputs);
        self.member_of[id.index()].push(group);
    }

    /// Whether a fused user reads this operand from a buffer all the same.
    fn reads_array(&self, user: InstructionId, operand: InstructionId) -> bool {
        let user = self.instruction(user);
        user.kind == OpKind::Dot || reads_from_memory(user, operand)
    }

    pub(super) fn instruction(&self, id: InstructionId) -> &'a Instruction {
        self.computation.get(id)
    }

    pub(super) fn is_root(&self, id: InstructionId) -> bool {
        self.computation.root == id
    }

    pub(super) fn role(&self, id: InstructionId) -> FusionRole {
        self.roles[id.index()]
    }

    /// The users in each group that computes with the instruction's elements, in the order of the groups.
    fn readers(&self, id: InstructionId) -> Vec<(GroupId, Vec<InstructionId>)> {
        let mut readers: Vec<(GroupId, InstructionId)> = Vec::new();
        for &user in &self.users[id.index()] {
            if !self.reads_array(user, id) {
                readers.extend(self.member_of[user.index()].iter().map(|&group| (group, user)));
            }
        }
        readers.sort_unstable();
        let groups = readers.chunk_by(|a, b| a.0 == b.0);
        groups.map(|group| (group[0].0, group.iter().map(|reader| reader.1).collect())).collect()
    }

    /// Puts one instruction into the groups of its users, or into a group of its own.
    fn place(&mut self, id: InstructionId, order: &mut Order) {
        let instruction = self.instruction(id);
        let is_root = self.computation.root == id;
        let users = &self.users[id.index()];
        if users.is_empty() && !is_root {
            return;
        }
        let needs_memory = is_root
            || users.iter().any(|&user| {
                let is_outside = self.member_of[user.index()].is_empty() || self.stands_alone[user.index()];
                is_outside || self.reads_array(user, id)
            });
        // A user that computes in several groups reads the operand in each of them.
        let readers = self.readers(id);
        let mut joinable: Vec<&(GroupId, Vec<InstructionId>)> = Vec::with_capacity(readers.len());
        for reader in &readers {
            match self.refusal_to_compute(id, reader.0, &reader.1) {
                None => joinable.push(reader),
                Some(refusal) => self.refusals.push((id, reader.0, refusal)),
            }
        }
        let copied = self.role(id) == FusionRole::View
            && !matches!(instruction.kind, OpKind::Concatenate | OpKind::Pad)
            || joinable.len() <= 4 && self.is_small_scalar(instruction);
        let everywhere = joinable.len() == readers.len();
        let is_cheap = || {
            self.is_as_cheap_as_load(id, &joinable)
                || self.is_read_in_part(id, &joinable)
                || self.is_mask_of_positions(id, &joinable)
        };
        let computed_again = everywhere && !needs_memory && is_cheap();
        if computed_again {
            for (group, _) in &joinable {
                self.groups[*group].computed_again += 1;
            }
        }
        let copied = copied || computed_again;

        let joins_one = !needs_memory && everywhere && matches!(joinable[..], [only] if !self.is_better_kept(id, only));
        if copied || joins_one {
            for (group, users) in &joinable {
                self.join(id, *group, users);
            }
            if everywhere && (!needs_memory || is_alias(instruction)) {
                // An alias needs no group: the users outside read its operand's buffer.
                self.stands_alone[id.index()] = needs_memory;
                return;
            }
        } else {
            let mut tried = 0;
            let mut writer = None;
            for &reader in &joinable {
                let refusal = self.refusal_to_write(id, reader.0, &reader.1);
                if refusal.is_none() {
                    tried += 1;
                    if order.add_output(self, id, reader.0) {
                        writer = Some(reader);
                        break;
                    }
                }
                self.refusals.push((id, reader.0, refusal.unwrap_or(Refusal::Cycle)));
                if tried == MAX_WRITERS_TRIED {
                    break;
                }
            }
            if let Some((group, users)) = writer {
                self.join(id, *group, users);
                self.groups[*group].outputs.push(id);
                if let Some(member) = self.groups[*group].members.get_mut(&id) {
                    member.is_at_loop_index = true;
                }
                self.written_by[id.index()] = Some(*group);
                return;
            }
        }
        // Those that do not compute it read its operand's buffer.
        if is_alias(instruction) && (copied || joinable.is_empty()) {
            self.stands_alone[id.index()] = true;
            return;
        }
        self.start_group(id);
    }

    /// The arrays, of about its size, that an instruction computes from.
    pub(super) fn arrays_read(&self, id: InstructionId) -> Vec<&'a ArrayShape> {
        let instruction = self.instruction(id);
        let elements = instruction.shape.as_array().map_or(0, |shape| shape.element_count());
        let array_read = |operand: &InstructionId| {
            let operand = self.instruction(*operand);
            let source = match operand.kind {
                OpKind::Iota | OpKind::Constant => None,
                OpKind::Broadcast => operand.operands.first().map(|&source| self.instruction(source)),
                _ => Some(operand),
            };
            let source = source.and_then(|source| source.shape.as_array());
            source.filter(|source| source.element_count() * SMALL_PART > elements)
        };
        let mut operands = instruction.operands.clone();
        operands.sort_unstable();
        operands.dedup();
        operands.iter().filter_map(array_read).collect()
    }

    /// Whether groups may as well compute a value as load it: simple arithmetic on no more than one array of its size, of
    /// which all of them together read no more bytes than are moved where the value is stored once and loaded by each.
    fn is_as_cheap_as_load(&self, id: InstructionId, readers: &[&(GroupId, Vec<InstructionId>)]) -> bool {
        let instruction = self.instruction(id);
        let Some(shape) = instruction.shape.as_array() else { return false };
        let elements = shape.element_count();
        let arrays = self.arrays_read(id);
        let width = |array: &ArrayShape| array.element_type.byte_width();
        let reads_few_bytes = |array: &ArrayShape| {
            !array.element_type.is_complex() && (readers.len() - 1) * width(array) <= (readers.len() + 1) * width(shape)
        };
        self.role(id) == FusionRole::Elementwise
            && !is_expensive(instruction)
            && shape.rank() > 0
            && (2..=MAX_READERS_COMPUTING_AGAIN).contains(&readers.len())
            && arrays.len() <= 1
            && arrays.iter().all(|array| reads_few_bytes(array))
            && readers.iter().all(|(group, users)| {
                self.groups[*group].computed_again < MAX_COMPUTED_AGAIN
                    && matches!(self.counts_in(id, *group, users), (1, total) if total <= elements)
                    && users.iter().all(|&user| self.instruction(user).kind != OpKind::ReduceWindow)
            })
    }

    /// Whether attentions read what positions alone tell: their kernels leave out what it leaves nothing of.
    fn is_mask_of_positions(&self, id: InstructionId, readers: &[&(GroupId, Vec<InstructionId>)]) -> bool {
        self.role(id) == FusionRole::Elementwise
            && !is_expensive(self.instruction(id))
            && self.arrays_read(id).is_empty()
            && readers.iter().all(|(group, _)| self.groups[*group].is_attention)
    }

    /// Whether a group would compute a value again and again of several expensive ones, which would each be stored then.
    fn is_better_kept(&self, id: InstructionId, (group, users): &(GroupId, Vec<InstructionId>)) -> bool {
        let mut operands = self.instruction(id).operands.clone();
        operands.retain(|&own| is_expensive(self.instruction(own)) && self.elements(own) == self.elements(id));
        operands.sort_unstable();
        operands.dedup();
        operands.len() > 1
            && self.role(id) == FusionRole::Elementwise
            && self.counts_in(id, *group, users).1 > self.elements(id)
    }

    /// Whether all groups together read no more elements than a value has: none need be computed twice, or stored at all.
    fn is_read_in_part(&self, id: InstructionId, readers: &[&(GroupId, Vec<InstructionId>)]) -> bool {
        let total = || {
            readers.iter().fold(0i64, |total, (group, users)| total.saturating_add(self.counts_in(id, *group, users).1))
        };
        self.role(id) == FusionRole::Elementwise
            && (2..=MAX_READERS_COMPUTING_AGAIN).contains(&readers.len())
            && total() <= self.elements(id)
    }

    /// Whether a member goes through windows.
    pub(super) fn has_window(&self, group: &Group) -> bool {
        group.members.keys().any(|&member| self.instruction(member).kind == OpKind::ReduceWindow)
    }

    /// Whether these members read an operand between the gaps of a pad.
    pub(super) fn are_between_gaps(&self, group: GroupId, users: &[InstructionId]) -> bool {
        let members = &self.groups[group].members;
        users.iter().any(|user| {
            has_gaps(self.instruction(*user)) || members.get(user).is_some_and(|member| member.is_between_gaps)
        })
    }

    /// Whether a member gathers elements of the instruction.
    pub(super) fn is_gathered(&self, id: InstructionId, users: &[InstructionId]) -> bool {
        self.is_looked_up(id, users, &[OpKind::Gather])
    }

    /// Whether a member of one of these kinds reads elements of the instruction at places that values say.
    pub(super) fn is_looked_up(&self, id: InstructionId, users: &[InstructionId], kinds: &[OpKind]) -> bool {
        let mut users = users.iter().map(|&user| self.instruction(user));
        users.any(|user| kinds.contains(&user.kind) && user.operands.first() == Some(&id))
    }

    fn is_small_scalar(&self, instruction: &Instruction) -> bool {
        instruction.shape.as_array().is_some_and(|shape| shape.rank() == 0)
            && role(instruction) == FusionRole::Elementwise
            && !is_expensive(instruction)
    }

    fn start_group(&mut self, id: InstructionId) {
        let shape = match &self.instruction(id).shape {
            Shape::Array(array) => Some(array),
            Shape::Tuple(elements) => elements.first().and_then(Shape::as_array),
            Shape::Token | Shape::Opaque => None,
        };
        // The loops of an update are those over what it writes.
        let shape = update_of(self.instruction(id)).map_or(shape, |update| self.instruction(update).shape.as_array());
        let Some(shape) = shape else { return };
        let is_attention = self.attentions.contains_key(&id) || self.chains.contains_key(&id);
        let group = self.groups.len();
        self.groups.push(Group {
            members: HashMap::from([(id, Member::of_loops(shape.element_count(), true))]),
            outputs: vec![id],
            dimensions: shape.dimensions.clone(),
            rows: None,
            computed_again: 0,
            has_reduction: self.role(id) == FusionRole::Reduction || is_attention,
            has_update: self.role(id) == FusionRole::Update,
            is_attention,
            opaque_inputs: self.opaque_operands(id).collect(),
        });
        self.member_of[id.index()].push(group);
        self.written_by[id.index()] = Some(group);
    }

    fn opaque_operands(&self, id: InstructionId) -> impl Iterator<Item = InstructionId> {
        let operands = self.instruction(id).operands.iter().copied();
        operands.filter(|&operand| self.role(operand) == FusionRole::Opaque)
    }

    fn join(&mut self, id: InstructionId, group: GroupId, users: &[InstructionId]) {
        let has_loop_dimensions = |shape: &ArrayShape| shape.dimensions == self.groups[group].dimensions;
        let is_at_loop_index = self.instruction(id).shape.as_array().is_some_and(has_loop_dimensions)
            && users.iter().any(|&user| self.reads_at_loop_index(user, id, group));
        let (indices, total) = self.evaluated_in(id, group, users);
        let ways = self.ways_in(id, group, users);
        let is_between_gaps = self.are_between_gaps(group, users);
        let member = Member { indices, ways, total, is_at_loop_index, is_between_gaps };
        let own_rank = self.row_rank_in(id, group, users);
        if self.groups[group].rows.is_none()
            && let Some(rank) = own_rank
        {
            self.groups[group].rows = Some(GroupRows { rank, prefixes: self.prefixes_of(&self.groups[group]) });
        }
        let prefix = self.groups[group].rows.as_ref().map(|rows| self.prefix_in(id, &rows.prefixes, users));
        if let (Some(rows), Some(prefix)) = (&mut self.groups[group].rows, prefix) {
            rows.prefixes.insert(id, prefix);
        }
        let inputs: Vec<InstructionId> = self.opaque_operands(id).collect();
        let is_reduction = self.role(id) == FusionRole::Reduction;
        let group_data = &mut self.groups[group];
        group_data.members.insert(id, member);
        group_data.has_reduction |= is_reduction;
        group_data.opaque_inputs.extend(inputs);
        self.member_of[id.index()].push(group);
    }

    /// How many leading indices of an operand are those of the loops, where so many of its user's are.
    fn operand_prefix(&self, user: InstructionId, number: usize, prefix: usize) -> usize {
        rows::operand_prefix(self.computation, self.instruction(user), number, prefix, || (self.map)(user, number))
    }

    /// How many leading indices of an instruction are those of the loops where these members read it.
    pub(super) fn prefix_in(
        &self,
        id: InstructionId,
        prefixes: &HashMap<InstructionId, usize>,
        users: &[InstructionId],
    ) -> usize {
        let read_by = |user: InstructionId| {
            let prefix = prefixes.get(&user).copied().unwrap_or(0);
            let positions =
                self.instruction(user).operands.iter().enumerate().filter(move |&(_, &operand)| operand == id);
            positions.map(move |(number, _)| self.operand_prefix(user, number, prefix))
        };
        users.iter().flat_map(|&user| read_by(user)).min().unwrap_or(0)
    }

    /// For each member of a group how many leading indices are those of the loops wherever it is read.
    fn prefixes_of(&self, group: &Group) -> HashMap<InstructionId, usize> {
        let mut members: Vec<InstructionId> = group.members.keys().copied().collect();
        members.sort_unstable();
        let mut prefixes: HashMap<InstructionId, usize> =
            group.outputs.iter().map(|&output| (output, group.dimensions.len())).collect();
        for &user in members.iter().rev() {
            let (instruction, prefix) = (self.instruction(user), prefixes.get(&user).copied().unwrap_or(0));
            for (number, operand) in instruction.operands.iter().enumerate() {
                if group.members.contains_key(operand) && !reads_from_memory(instruction, *operand) {
                    let read = self.operand_prefix(user, number, prefix);
                    prefixes.entry(*operand).and_modify(|known| *known = read.min(*known)).or_insert(read);
                }
            }
        }
        prefixes
    }

    /// The rows of a group for each of which the instruction is one value, read there and nowhere else: those that the
    /// group has, or those that it would have with a reduction.
    pub(super) fn row_rank_in(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> Option<usize> {
        let (instruction, group) = (self.instruction(id), &self.groups[group]);
        let shape = instruction.shape.as_array()?;
        let rank = rows::row_rank(shape, &group.dimensions)?;
        if let Some(rows) = &group.rows {
            return (rows.rank == rank && self.prefix_in(id, &rows.prefixes, users) >= rank).then_some(rank);
        }
        let length = self.reduced_lengths[id.index()];
        let has_loops_along = group.dimensions.iter().product::<i64>() > shape.element_count()
            || users.iter().any(|&user| !reads_at_same_index(self.instruction(user)));
        let may_start = length > 0
            && has_loops_along
            && rows::is_worth_it(shape.element_count(), length)
            && !group.has_update
            && self.instruction(group.outputs[0]).kind != OpKind::Concatenate
            && !self.has_window(group);
        (may_start && self.prefix_in(id, &self.prefixes_of(group), users) >= rank).then_some(rank)
    }

    /// How often a group evaluates the instruction for these members, per element of its loops and in all.
    pub(super) fn counts_in(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> (u32, i64) {
        let (indices, total) = self.evaluated_in(id, group, users);
        (indices.count(), total)
    }

    /// Where a group evaluates the instruction for these members, and how often in all: once where it is a value of a
    /// row, or kept along one.
    fn evaluated_in(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> (Indices, i64) {
        let data = &self.groups[group];
        if let Some(shape) = self.instruction(id).shape.as_array() {
            let is_kept = data.rows.as_ref().is_some_and(|rows| {
                rows::is_kept_by_row(shape, &data.dimensions, rows.rank)
                    && self.prefix_in(id, &rows.prefixes, users) >= rows.rank
            });
            if is_kept || self.row_rank_in(id, group, users).is_some() {
                return (Indices::of_loops(), shape.element_count());
            }
        }
        (self.indices_in(id, group, users), self.total_in(id, group, users))
    }

    /// Where a group would evaluate the instruction for these members if nothing was kept along rows: not all that may be is.
    pub(super) fn ways_in(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> Indices {
        match self.row_rank_in(id, group, users) {
            Some(_) => Indices::of_loops(),
            None => self.read_at(id, group, users, |member| &member.ways),
        }
    }

    /// Whether a member reads an operand at the loop index.
    pub(super) fn reads_at_loop_index(&self, user: InstructionId, operand: InstructionId, group: GroupId) -> bool {
        let member = self.groups[group].members.get(&user);
        self.is_read_at_same_index(operand, user) && member.is_some_and(|member| member.is_at_loop_index)
    }

    /// Whether a user reads an operand at the index at which it is evaluated itself: of an update, that of what it writes.
    pub(super) fn is_read_at_same_index(&self, operand: InstructionId, user: InstructionId) -> bool {
        let user = self.instruction(user);
        let is_read_once = || user.operands.iter().filter(|&&own| own == operand).count() == 1;
        reads_at_same_index(user) || update_of(user) == Some(operand) && is_read_once()
    }

    /// The distinct indices at which a group would evaluate an operand of these members, per element of its loops.
    pub(super) fn indices_in(&self, operand: InstructionId, group: GroupId, users: &[InstructionId]) -> Indices {
        self.read_at(operand, group, users, |member| &member.indices)
    }

    /// The distinct indices at which these members read an operand, if they are evaluated at those.
    fn read_at(
        &self,
        operand: InstructionId,
        group: GroupId,
        users: &[InstructionId],
        evaluated: impl Fn(&Member) -> &Indices,
    ) -> Indices {
        let mut indices = Indices::default();
        for (turn, &user) in users.iter().enumerate() {
            let Some(member) = self.groups[group].members.get(&user) else { continue };
            if self.is_read_at_same_index(operand, user) {
                indices.extend(evaluated(member));
            } else {
                indices.extend_moved(evaluated(member), user, turn);
            }
        }
        indices
    }

    /// How often a group would evaluate an operand of these members in all: of a reduction once for each element that
    /// it combines, of a pad once for each element that is no padding, of a concatenate once for each that is its own, of
    /// an update where it goes once.
    fn total_in(&self, operand: InstructionId, group: GroupId, users: &[InstructionId]) -> i64 {
        let (mut same_index, mut moved) = (0, 0i64);
        for &user in users {
            let Some(member) = self.groups[group].members.get(&user) else { continue };
            let instruction = self.instruction(user);
            if self.is_read_at_same_index(operand, user) {
                same_index = same_index.max(member.total);
            } else if self.role(user) == FusionRole::Update {
                moved = moved.saturating_add(self.elements(operand));
            } else if self.is_part(operand, instruction) {
                let [inside, all] = [operand, user].map(|id| self.instruction(id).shape.as_array());
                let [inside, all] = [inside, all].map(|shape| shape.map_or(1, ArrayShape::element_count).max(1));
                let times = (member.total + all - 1) / all;
                moved = moved.saturating_add(member.total.min(inside.saturating_mul(times)));
            } else {
                moved = moved.saturating_add(member.total.saturating_mul(self.combined_elements(instruction)));
            }
        }
        moved.saturating_add(same_index)
    }

    /// Whether an operand's elements are some of its user's.
    fn is_part(&self, operand: InstructionId, user: &Instruction) -> bool {
        let is_padded = || user.kind == OpKind::Pad && user.operands.first() == Some(&operand);
        user.kind == OpKind::Concatenate || is_padded()
    }

    /// Elements that one element of a reduction's result combines; 1 for other instructions.
    pub(super) fn combined_elements(&self, instruction: &Instruction) -> i64 {
        if instruction.kind != OpKind::Reduce {
            return 1;
        }
        let elements = |shape: &Shape| shape.as_array().map_or(0, |array| array.element_count());
        let operand = instruction.operands.first().map_or(0, |&operand| elements(&self.instruction(operand).shape));
        let result = instruction.shape.leaves().first().map_or(0, |&leaf| elements(leaf));
        operand / result.max(1)
    }
}
