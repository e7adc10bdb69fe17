//! `fuse-loops`: groups elementwise, shape, indexing and reduction instructions into `fusion` instructions, so
//! that each group becomes one loop nest and its inner values stay in registers.
//!
//! The pass walks a computation backwards. An instruction joins the group of its users when it can be computed
//! again at each place it is read without costing more than a trip through memory; cheap index-only instructions
//! are copied into every group that reads them; a value that others need too becomes a further output of a group
//! with the same loops, unless that would close a cycle between groups. Computations of `while` and
//! `conditional` are fused on their own. Afterwards every fusible instruction stands inside a fusion, except
//! reshapes and the like that need no code.
//!
//! Deliberately absent: profitability models beyond recomputation cost, and fusion into contractions.

use std::collections::{BTreeSet, BinaryHeap, HashMap};

use hlo::attributes::{AttributeValue, Attributes};
use hlo::graph::{Computation, Instruction, InstructionId, Module};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call_targets::is_annotation;
use hlo::ops::{self, OpClass};
use hlo::shape::Shape;

use crate::effects::instruction_has_effect;

/// Instructions in one group at most: bigger loop bodies spill registers and compile slowly.
const MAX_GROUP_SIZE: usize = 384;
/// Distinct inputs of one group at most.
const MAX_GROUP_INPUTS: usize = 48;
/// How often the body of a cheap instruction may be repeated at different indices in one group.
const MAX_EVALUATIONS: u32 = 16;
/// Steps of one cycle search at most; an unfinished search counts as a cycle.
const MAX_SEARCH_STEPS: usize = 4000;

/// Fuses every function of a module and returns how many fusions were made.
pub fn fuse_module(module: &mut Module) -> usize {
    let mut names = 0;
    for function in &mut module.functions {
        fuse_computation(function, &mut names);
    }
    names
}

/// Fuses one computation and the bodies of its control flow; `count` numbers the fusions across the module.
pub fn fuse_computation(computation: &mut Computation, count: &mut usize) {
    for instruction in &mut computation.instructions {
        if matches!(instruction.kind, OpKind::While | OpKind::Conditional | OpKind::AsyncStart) {
            for nested in &mut instruction.computations {
                fuse_computation(nested, count);
            }
        }
    }
    let groups = Grouping::new(computation).run();
    *computation = rebuild(computation, &groups, count);
}

/// What fusion knows about an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Not fused: control flow, contractions, library calls, tuples, parameters, arrays of constants.
    Opaque,
    /// Costs nothing when the group reads it at another index: reshape, broadcast, slice, scalar constant ….
    View,
    /// One element from the elements at the same index.
    Elementwise,
    /// Looks up elements at run-time indices.
    Lookup,
    /// Combines many elements: the group loops inside.
    Reduction,
    /// Writes part of an array in place: only as the single output of a group.
    Update,
}

/// Role of an instruction in loop fusion.
fn role(instruction: &Instruction) -> Role {
    let Some(shape) = instruction.shape.as_array() else {
        // A variadic reduction has a tuple shape and is a group's only output.
        let fusible = matches!(instruction.kind, OpKind::Reduce | OpKind::ReduceWindow);
        return if fusible { Role::Reduction } else { Role::Opaque };
    };
    if shape.is_dynamic() {
        return Role::Opaque;
    }
    match instruction.kind {
        OpKind::Constant if shape.rank() == 0 => Role::View,
        OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::Transpose
        | OpKind::Slice
        | OpKind::Reverse
        | OpKind::Pad
        | OpKind::Concatenate
        | OpKind::Iota
        | OpKind::Copy => Role::View,
        OpKind::DynamicSlice | OpKind::Gather => Role::Lookup,
        OpKind::DynamicUpdateSlice => Role::Update,
        OpKind::Reduce | OpKind::ReduceWindow => Role::Reduction,
        OpKind::Map => Role::Elementwise,
        OpKind::BitcastConvert => Role::Elementwise,
        kind if ops::definition(kind).class == OpClass::Elementwise => Role::Elementwise,
        _ => Role::Opaque,
    }
}

/// Whether the instruction needs no code where it stands alone: its value is its operand's buffer.
pub fn is_alias(instruction: &Instruction) -> bool {
    let is_view = match instruction.kind {
        OpKind::Reshape | OpKind::Copy => true,
        OpKind::CustomCall => {
            let target = instruction.attributes.word("custom_call_target");
            instruction.operands.len() == 1 && target.is_some_and(is_annotation)
        }
        _ => false,
    };
    is_view && instruction.shape.as_array().is_some()
}

/// Whether computing an element again costs more than loading it.
pub fn is_expensive(instruction: &Instruction) -> bool {
    let is_float = instruction.shape.as_array().is_some_and(|shape| !shape.element_type.is_integer());
    match instruction.kind {
        OpKind::Divide | OpKind::Remainder | OpKind::Map | OpKind::Gather => true,
        OpKind::Abs
        | OpKind::Add
        | OpKind::And
        | OpKind::BitcastConvert
        | OpKind::Ceil
        | OpKind::Clamp
        | OpKind::Compare
        | OpKind::Complex
        | OpKind::Convert
        | OpKind::CountLeadingZeros
        | OpKind::Floor
        | OpKind::Imag
        | OpKind::IsFinite
        | OpKind::Maximum
        | OpKind::Minimum
        | OpKind::Multiply
        | OpKind::Negate
        | OpKind::Not
        | OpKind::Or
        | OpKind::PopulationCount
        | OpKind::Real
        | OpKind::ReducePrecision
        | OpKind::RoundNearestAfz
        | OpKind::RoundNearestEven
        | OpKind::Select
        | OpKind::ShiftLeft
        | OpKind::ShiftRightArithmetic
        | OpKind::ShiftRightLogical
        | OpKind::Sign
        | OpKind::Subtract
        | OpKind::Xor => false,
        _ => is_float && role(instruction) == Role::Elementwise,
    }
}

/// Whether user and operand are read at the same index: the operand's evaluation is shared, not repeated.
fn reads_at_same_index(user: &Instruction) -> bool {
    matches!(role(user), Role::Elementwise) || user.kind == OpKind::Copy
}

/// One group under construction.
#[derive(Debug, Default)]
struct Group {
    members: BTreeSet<u32>,
    outputs: BTreeSet<u32>,
    /// Distinct indices at which each member is evaluated per output element.
    evaluations: HashMap<u32, u32>,
    /// The dimensions of the loops.
    dimensions: Vec<i64>,
    elements: i64,
    has_reduction: bool,
    has_update: bool,
    /// Operands of members that no group computes.
    opaque_inputs: BTreeSet<u32>,
}

/// Assignment of instructions to groups.
struct Grouping<'a> {
    computation: &'a Computation,
    users: Vec<Vec<u32>>,
    roles: Vec<Role>,
    groups: Vec<Group>,
    /// Groups in which an instruction is computed.
    member_of: Vec<Vec<usize>>,
    /// The group that writes an instruction's value to memory.
    written_by: Vec<Option<usize>>,
    /// Aliases that stand alone too, whatever groups they were copied into: they read their operand from memory.
    stands_alone: Vec<bool>,
}

impl<'a> Grouping<'a> {
    fn new(computation: &'a Computation) -> Self {
        let count = computation.instructions.len();
        let mut users = vec![Vec::new(); count];
        for (id, instruction) in computation.iter() {
            for operand in &instruction.operands {
                if users[operand.index()].last() != Some(&id.0) {
                    users[operand.index()].push(id.0);
                }
            }
        }
        Grouping {
            computation,
            users,
            roles: computation.instructions.iter().map(role).collect(),
            groups: Vec::new(),
            member_of: vec![Vec::new(); count],
            written_by: vec![None; count],
            stands_alone: vec![false; count],
        }
    }

    fn run(mut self) -> Vec<Group> {
        for position in (0..self.computation.instructions.len() as u32).rev() {
            if self.roles[position as usize] != Role::Opaque {
                self.place(position);
            }
        }
        self.groups
    }

    fn instruction(&self, position: u32) -> &'a Instruction {
        &self.computation.instructions[position as usize]
    }

    /// Puts one instruction into the groups of its users, or into a group of its own.
    fn place(&mut self, position: u32) {
        let instruction = self.instruction(position);
        let is_root = self.computation.root.0 == position;
        let users = self.users[position as usize].clone();
        if users.is_empty() && !is_root {
            return;
        }
        // A user that computes in several groups reads the operand in each of them.
        let mut reading: BTreeSet<usize> = BTreeSet::new();
        let mut needs_memory = is_root;
        for &user in &users {
            let user_reads_memory = self.member_of[user as usize].is_empty() || self.stands_alone[user as usize];
            if user_reads_memory || self.reads_from_memory(user, position) {
                needs_memory = true;
            }
            reading.extend(
                self.member_of[user as usize].iter().copied().filter(|_| !self.reads_from_memory(user, position)),
            );
        }
        let joinable: Vec<usize> =
            reading.iter().copied().filter(|&group| self.can_compute_in(position, group)).collect();
        let copied = self.roles[position as usize] == Role::View
            && !matches!(instruction.kind, OpKind::Concatenate | OpKind::Pad)
            || joinable.len() <= 4 && self.is_small_scalar(instruction);

        if !needs_memory && joinable.len() == reading.len() && (joinable.len() == 1 || copied) {
            for &group in &joinable {
                self.join(position, group);
            }
            return;
        }
        if copied {
            for &group in &joinable {
                self.join(position, group);
            }
            let everywhere = joinable.len() == reading.len();
            if everywhere && (!needs_memory || is_alias(instruction)) {
                // An alias needs no group: the users outside read its operand's buffer.
                self.stands_alone[position as usize] = needs_memory;
                return;
            }
        } else if let Some(&group) =
            joinable.iter().find(|&&group| self.can_write_in(position, group) && !self.closes_cycle(position, group))
        {
            self.join(position, group);
            self.groups[group].outputs.insert(position);
            self.written_by[position as usize] = Some(group);
            return;
        }
        if is_alias(instruction) && reading.is_empty() {
            self.stands_alone[position as usize] = true;
            return;
        }
        self.start_group(position);
    }

    fn is_small_scalar(&self, instruction: &Instruction) -> bool {
        instruction.shape.as_array().is_some_and(|shape| shape.rank() == 0)
            && self.role_of(instruction) == Role::Elementwise
            && !is_expensive(instruction)
    }

    fn role_of(&self, instruction: &Instruction) -> Role {
        role(instruction)
    }

    /// Whether a fused user reads this operand from a buffer all the same (the base of an in-place update).
    fn reads_from_memory(&self, user: u32, operand: u32) -> bool {
        let user = self.instruction(user);
        user.kind == OpKind::DynamicUpdateSlice && user.operands.first().is_some_and(|base| base.0 == operand)
    }

    fn start_group(&mut self, position: u32) {
        let instruction = self.instruction(position);
        let shape = match &instruction.shape {
            Shape::Array(array) => array.clone(),
            Shape::Tuple(elements) => match elements.first().and_then(Shape::as_array) {
                Some(array) => array.clone(),
                None => return,
            },
            Shape::Token | Shape::Opaque => return,
        };
        let index = self.groups.len();
        self.groups.push(Group {
            members: BTreeSet::from([position]),
            outputs: BTreeSet::from([position]),
            evaluations: HashMap::from([(position, 1)]),
            elements: shape.element_count(),
            dimensions: shape.dimensions,
            has_reduction: self.roles[position as usize] == Role::Reduction,
            has_update: self.roles[position as usize] == Role::Update,
            opaque_inputs: self.opaque_operands(position),
        });
        self.member_of[position as usize].push(index);
        self.written_by[position as usize] = Some(index);
    }

    fn opaque_operands(&self, position: u32) -> BTreeSet<u32> {
        let operands = self.instruction(position).operands.iter().map(|operand| operand.0);
        operands.filter(|&operand| self.roles[operand as usize] == Role::Opaque).collect()
    }

    fn join(&mut self, position: u32, group: usize) {
        let evaluations = self.evaluations_in(position, group);
        let is_reduction = self.roles[position as usize] == Role::Reduction;
        let inputs = self.opaque_operands(position);
        let group_data = &mut self.groups[group];
        group_data.members.insert(position);
        group_data.evaluations.insert(position, evaluations);
        group_data.has_reduction |= is_reduction;
        group_data.opaque_inputs.extend(inputs);
        self.member_of[position as usize].push(group);
    }

    /// How many distinct indices a group would evaluate the instruction at, per element of its loops.
    fn evaluations_in(&self, position: u32, group: usize) -> u32 {
        let group = &self.groups[group];
        let mut same_index = 0;
        let mut moved = 0u32;
        for &user in &self.users[position as usize] {
            let Some(&evaluations) = group.evaluations.get(&user) else { continue };
            if self.reads_from_memory(user, position) {
                continue;
            }
            if reads_at_same_index(self.instruction(user)) {
                same_index = same_index.max(evaluations);
            } else {
                moved = moved.saturating_add(evaluations);
            }
        }
        moved.saturating_add(same_index)
    }

    /// Whether a group may compute the instruction where it reads it.
    fn can_compute_in(&self, position: u32, group_index: usize) -> bool {
        let group = &self.groups[group_index];
        let instruction = self.instruction(position);
        let Some(shape) = instruction.shape.as_array() else { return false };
        if group.members.len() >= MAX_GROUP_SIZE
            || group.opaque_inputs.len() + instruction.operands.len() > MAX_GROUP_INPUTS
        {
            return false;
        }
        let evaluations = self.evaluations_in(position, group_index);
        let user_is_window = self.users[position as usize]
            .iter()
            .any(|user| group.members.contains(user) && self.instruction(*user).kind == OpKind::ReduceWindow);
        let elements = shape.element_count();
        let fits = match self.roles[position as usize] {
            Role::Opaque | Role::Update => false,
            Role::View => evaluations <= MAX_EVALUATIONS,
            Role::Elementwise | Role::Lookup => {
                // A reduction reads each element of its operand once, whatever the size of its result.
                let recomputed = group.elements.saturating_mul(i64::from(evaluations)) > elements.max(1);
                if is_expensive(instruction) || self.roles[position as usize] == Role::Lookup {
                    evaluations <= 1 && (!recomputed || elements == 1 && group.elements <= 64) && !user_is_window
                } else {
                    evaluations <= 4 && !user_is_window || evaluations <= 1
                }
            }
            Role::Reduction => {
                evaluations == 1
                    && shape.dimensions == group.dimensions
                    && !group.has_update
                    && instruction.kind == OpKind::Reduce
                    && self.is_cheap_row_reduction(instruction)
                    && self.users[position as usize]
                        .iter()
                        .all(|user| !group.members.contains(user) || reads_at_same_index(self.instruction(*user)))
            }
        };
        fits && (group.outputs.len() == 1 || !self.reaches_from_outputs(group_index, position))
    }

    /// Whether the reduction reads contiguous rows, so that further loops over them find the data in cache.
    fn is_cheap_row_reduction(&self, instruction: &Instruction) -> bool {
        let Some(operand) = instruction.operands.first() else { return false };
        let Some(shape) = self.computation.get(*operand).shape.as_array() else { return false };
        let reduced = instruction.attributes.ints("dimensions");
        let kept = shape.rank().saturating_sub(reduced.len());
        reduced.iter().all(|&dimension| dimension as usize >= kept)
    }

    /// Whether the group's loops visit each element of the instruction once, so that they can write it too.
    fn can_write_in(&self, position: u32, group: usize) -> bool {
        let group_data = &self.groups[group];
        let shape = self.instruction(position).shape.as_array();
        let same_loops = shape.is_some_and(|shape| shape.dimensions == group_data.dimensions);
        same_loops
            && !group_data.has_update
            && !(group_data.has_reduction && self.roles[position as usize] != Role::Reduction)
            && self.evaluations_in(position, group) == 1
            && self.users[position as usize].iter().all(|user| {
                !group_data.members.contains(user)
                    || reads_at_same_index(self.instruction(*user)) && self.is_at_loop_index(*user, group)
            })
    }

    /// Whether a member is evaluated at the loop index itself: it reaches an output through same-index users only.
    fn is_at_loop_index(&self, position: u32, group: usize) -> bool {
        let group_data = &self.groups[group];
        let shape = self.instruction(position).shape.as_array();
        if shape.is_none_or(|shape| shape.dimensions != group_data.dimensions) {
            return false;
        }
        if group_data.outputs.contains(&position) {
            return true;
        }
        // Evaluated once and read at the same index by a member with the same dimensions, up to an output.
        let mut current = position;
        loop {
            let next = self.users[current as usize]
                .iter()
                .copied()
                .find(|user| group_data.members.contains(user) && reads_at_same_index(self.instruction(*user)));
            match next {
                Some(user) if group_data.outputs.contains(&user) => return true,
                Some(user) => current = user,
                None => return false,
            }
        }
    }

    /// Whether writing the instruction from the group would make a user outside both follow and precede the group.
    fn closes_cycle(&self, position: u32, group: usize) -> bool {
        let outside: Vec<u32> = self.users[position as usize]
            .iter()
            .copied()
            .filter(|user| !self.groups[group].members.contains(user) || self.member_of[*user as usize].len() > 1)
            .collect();
        self.reaches(&outside, |reached| self.groups[group].members.contains(&reached), Some(group))
    }

    /// Whether the instruction depends on an output of the group.
    fn reaches_from_outputs(&self, group: usize, position: u32) -> bool {
        let outside: Vec<u32> = self.groups[group]
            .outputs
            .iter()
            .flat_map(|&output| &self.users[output as usize])
            .copied()
            .filter(|user| !self.groups[group].members.contains(user))
            .collect();
        self.reaches(&outside, |reached| reached == position, None)
    }

    /// Searches forward through users, a group counting as one node; an unfinished search counts as found.
    fn reaches(&self, start: &[u32], found: impl Fn(u32) -> bool, target: Option<usize>) -> bool {
        let mut pending: Vec<u32> = start.to_vec();
        let mut seen: BTreeSet<u32> = start.iter().copied().collect();
        let mut steps = 0;
        while let Some(position) = pending.pop() {
            steps += 1;
            if steps > MAX_SEARCH_STEPS {
                return true;
            }
            let groups = &self.member_of[position as usize];
            if groups.is_empty() {
                if found(position) {
                    return true;
                }
            } else if groups.iter().any(|&group| Some(group) == target) {
                // A member that is read from outside the group makes the group depend on what came before.
                return true;
            } else if found(position) {
                return true;
            }
            let mut next: Vec<u32> = Vec::new();
            for &group in groups {
                for &output in &self.groups[group].outputs {
                    next.extend(&self.users[output as usize]);
                }
            }
            next.extend(&self.users[position as usize]);
            for user in next {
                if seen.insert(user) {
                    pending.push(user);
                }
            }
        }
        false
    }
}

/// Builds the computation with a fusion instruction for each group.
fn rebuild(computation: &Computation, groups: &[Group], count: &mut usize) -> Computation {
    if groups.is_empty() {
        return computation.clone();
    }
    let mut written_by: HashMap<u32, usize> = HashMap::new();
    for (index, group) in groups.iter().enumerate() {
        written_by.extend(group.outputs.iter().map(|&output| (output, index)));
    }
    let inputs: Vec<Vec<u32>> = groups.iter().map(|group| group_inputs(computation, group)).collect();

    // Nodes of the new order: groups first, then the instructions that stay by themselves.
    let group_count = groups.len();
    let node_of = |position: u32| written_by.get(&position).copied().unwrap_or(group_count + position as usize);
    let needed = needed_nodes(computation, &inputs, &written_by, group_count);
    let order = topological_order(computation, groups, &inputs, &needed, &node_of);

    let mut result = Computation {
        name: computation.name.clone(),
        instructions: Vec::with_capacity(order.len()),
        parameters: vec![InstructionId(0); computation.parameters.len()],
        root: InstructionId(0),
        annotations: computation.annotations.clone(),
    };
    let mut new_ids: HashMap<u32, InstructionId> = HashMap::new();
    for node in order {
        if node >= group_count {
            let position = (node - group_count) as u32;
            let mut instruction = computation.instructions[position as usize].clone();
            for operand in &mut instruction.operands {
                *operand = new_ids[&operand.0];
            }
            let id = InstructionId(result.instructions.len() as u32);
            if let Some(number) = instruction.parameter_number() {
                result.parameters[number] = id;
            }
            result.instructions.push(instruction);
            new_ids.insert(position, id);
            continue;
        }
        *count += 1;
        let group = &groups[node];
        let (fusion, outputs) = make_fusion(computation, group, &inputs[node], &new_ids, *count);
        let fusion_id = InstructionId(result.instructions.len() as u32);
        let fusion_name = fusion.name.clone();
        result.instructions.push(fusion);
        if outputs.len() == 1 {
            new_ids.insert(outputs[0], fusion_id);
            continue;
        }
        for (index, &output) in outputs.iter().enumerate() {
            let id = InstructionId(result.instructions.len() as u32);
            result.instructions.push(Instruction {
                name: format!("{fusion_name}.output.{index}"),
                kind: OpKind::GetTupleElement,
                shape: computation.instructions[output as usize].shape.clone(),
                operands: vec![fusion_id],
                attributes: Attributes::new().with("index", AttributeValue::Int(index as i64)),
                computations: Vec::new(),
                callee: None,
                annotations: Vec::new(),
                position: computation.instructions[output as usize].position,
            });
            new_ids.insert(output, id);
        }
    }
    result.root = new_ids[&computation.root.0];
    result
}

/// Operands from outside the group, in order of first use.
fn group_inputs(computation: &Computation, group: &Group) -> Vec<u32> {
    let mut inputs = Vec::new();
    let mut seen = BTreeSet::new();
    for &member in &group.members {
        let instruction = &computation.instructions[member as usize];
        for (number, operand) in instruction.operands.iter().enumerate() {
            let from_memory = instruction.kind == OpKind::DynamicUpdateSlice && number == 0;
            if (from_memory || !group.members.contains(&operand.0)) && seen.insert(operand.0) {
                inputs.push(operand.0);
            }
        }
    }
    inputs
}

/// Nodes that the root (or a side effect) needs.
fn needed_nodes(
    computation: &Computation,
    inputs: &[Vec<u32>],
    written_by: &HashMap<u32, usize>,
    group_count: usize,
) -> Vec<bool> {
    let mut needed = vec![false; group_count + computation.instructions.len()];
    let mut pending: Vec<u32> = vec![computation.root.0];
    pending.extend(computation.parameters.iter().map(|parameter| parameter.0));
    for (id, instruction) in computation.iter() {
        if instruction_has_effect(instruction) {
            pending.push(id.0);
        }
    }
    while let Some(position) = pending.pop() {
        let node = written_by.get(&position).copied().unwrap_or(group_count + position as usize);
        if std::mem::replace(&mut needed[node], true) {
            continue;
        }
        if node < group_count {
            pending.extend(&inputs[node]);
        } else {
            pending.extend(computation.instructions[position as usize].operands.iter().map(|operand| operand.0));
        }
    }
    needed
}

/// Nodes in an order where producers come first, earlier text first among the ready ones.
fn topological_order(
    computation: &Computation,
    groups: &[Group],
    inputs: &[Vec<u32>],
    needed: &[bool],
    node_of: &dyn Fn(u32) -> usize,
) -> Vec<usize> {
    let group_count = groups.len();
    let mut missing = vec![0usize; needed.len()];
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); needed.len()];
    let mut connect = |node: usize, operands: &mut dyn Iterator<Item = u32>| {
        let producers: BTreeSet<usize> = operands.map(node_of).collect();
        missing[node] = producers.len();
        for producer in producers {
            dependents[producer].push(node);
        }
    };
    for (node, inputs) in inputs.iter().enumerate() {
        connect(node, &mut inputs.iter().copied());
    }
    for (id, instruction) in computation.iter() {
        connect(group_count + id.index(), &mut instruction.operands.iter().map(|operand| operand.0));
    }
    let priority = |node: usize| {
        let position = match groups.get(node) {
            Some(group) => group.outputs.first().copied().unwrap_or(0) as usize,
            None => node - group_count,
        };
        std::cmp::Reverse((position, node))
    };
    let mut ready: BinaryHeap<_> =
        (0..needed.len()).filter(|&node| needed[node] && missing[node] == 0).map(priority).collect();
    let mut order = Vec::new();
    while let Some(std::cmp::Reverse((_, node))) = ready.pop() {
        order.push(node);
        for &dependent in &dependents[node] {
            missing[dependent] -= 1;
            if missing[dependent] == 0 && needed[dependent] {
                ready.push(priority(dependent));
            }
        }
    }
    order
}

/// The fusion instruction of a group, and the positions of its outputs in order.
fn make_fusion(
    computation: &Computation,
    group: &Group,
    inputs: &[u32],
    new_ids: &HashMap<u32, InstructionId>,
    number: usize,
) -> (Instruction, Vec<u32>) {
    let outputs: Vec<u32> = group.outputs.iter().copied().collect();
    let mut body = Computation {
        name: format!("fused_computation.{number}"),
        instructions: Vec::with_capacity(inputs.len() + group.members.len() + 1),
        parameters: Vec::with_capacity(inputs.len()),
        root: InstructionId(0),
        annotations: Vec::new(),
    };
    let mut inner_ids: HashMap<u32, InstructionId> = HashMap::new();
    let mut parameter_ids: HashMap<u32, InstructionId> = HashMap::new();
    for (parameter_number, &input) in inputs.iter().enumerate() {
        let id = InstructionId(parameter_number as u32);
        body.instructions.push(Instruction {
            name: format!("param_{parameter_number}.{number}"),
            kind: OpKind::Parameter,
            shape: computation.instructions[input as usize].shape.clone(),
            operands: Vec::new(),
            attributes: Attributes::new().with("parameter_number", AttributeValue::Int(parameter_number as i64)),
            computations: Vec::new(),
            callee: None,
            annotations: Vec::new(),
            position: None,
        });
        body.parameters.push(id);
        parameter_ids.insert(input, id);
    }
    for &member in &group.members {
        let mut instruction = computation.instructions[member as usize].clone();
        let is_update = instruction.kind == OpKind::DynamicUpdateSlice;
        for (operand_number, operand) in instruction.operands.iter_mut().enumerate() {
            let inner = if is_update && operand_number == 0 { None } else { inner_ids.get(&operand.0) };
            *operand = *inner.unwrap_or_else(|| &parameter_ids[&operand.0]);
        }
        instruction.name = format!("{}.{number}", instruction.name);
        let id = InstructionId(body.instructions.len() as u32);
        inner_ids.insert(member, id);
        body.instructions.push(instruction);
    }
    let shape = if let [output] = outputs[..] {
        body.root = inner_ids[&output];
        body.root().shape.clone()
    } else {
        let shape = Shape::Tuple(
            outputs.iter().map(|output| computation.instructions[*output as usize].shape.clone()).collect(),
        );
        body.root = InstructionId(body.instructions.len() as u32);
        body.instructions.push(Instruction {
            name: format!("tuple.fused.{number}"),
            kind: OpKind::Tuple,
            shape: shape.clone(),
            operands: outputs.iter().map(|output| inner_ids[output]).collect(),
            attributes: Attributes::new(),
            computations: Vec::new(),
            callee: None,
            annotations: Vec::new(),
            position: None,
        });
        shape
    };
    let kind = if group.has_reduction { "kInput" } else { "kLoop" };
    let fusion = Instruction {
        name: format!("fusion.{number}"),
        kind: OpKind::Fusion,
        shape,
        operands: inputs.iter().map(|input| new_ids[input]).collect(),
        attributes: Attributes::new().with("kind", AttributeValue::Word(kind.to_string())),
        computations: vec![body],
        callee: None,
        annotations: Vec::new(),
        position: computation.instructions[outputs[0] as usize].position,
    };
    (fusion, outputs)
}
