//! `simplify-loops`: what every iteration of a `while` would compute again is computed once, before it.
//!
//! An element of the state that the body hands on as it is has one value in all iterations: it is *invariant*, and so is what is
//! computed from such elements alone. Invariant values that are dear enough become elements of the state, unless they would fill
//! memory that a fusion does without. So do values that take the place of the elements they are computed from: what remains of
//! an iteration reads as much, and computes less. Nothing within branches is taken out of a loop, as it might never be computed,
//! and nothing goes across an `opt-barrier`; loops and custom calls, which may never end or fail, leave only what runs at least
//! once. A scalar constant in the state is that constant within the loop. Elements of the state that nothing needs any more leave
//! it.

use std::collections::{HashMap, HashSet};

use hlo::dialect;
use hlo::op_kind::OpKind;
use hlo::ops::{ElementCost, OpClass, definition};
use hlo::shape::ArrayShape;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, OperationRef, TypeLike, Value, ValueLike};
use mlir_ext::attributes::value_key;
use mlir_ext::rewrite::Rewriter;

use crate::effects::has_effect;
use crate::loop_state::LoopState;
use crate::registry::{PassError, PassStatistics};

/// Elements from which on it is worth an array in memory not to compute divisions and functions of them again.
const MANY_ELEMENTS: i64 = 16;

/// Bytes up to which an array in memory is better than computing functions of broadcasts again; a part of the second cache.
/// What reads more waits for memory, and simple arithmetic takes no time beside it.
const FEW_BYTES: usize = 1 << 20;

/// Most operations that are looked at for the elements that a value takes the place of.
const FEW_OPERATIONS: usize = 16;

/// Runs the pass. Calls must have been inlined.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    // Inner loops first: what leaves one may leave the loop around it too.
    for operation in rewriter.operations() {
        if dialect::kind_of(operation) != Some(OpKind::While) {
            continue;
        }
        let Some(mut state) = LoopState::of(&rewriter, operation)? else { continue };
        statistics.add("constants", state.replace_constants()?);
        let invariants = Invariants::of(&rewriter, &state);
        let values = invariants.worth_hoisting();
        if !values.is_empty() {
            statistics.add("hoisted", values.len() as u64);
            invariants.hoist(&mut state, &values)?;
        }
        statistics.add("unused", state.remove_unused()?);
    }
    Ok(())
}

/// The values in a body that are the same in each iteration.
struct Invariants<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    body: Vec<OperationRef<'c, 'r>>,
    /// Whether the loop runs at least once.
    runs: bool,
    /// What makes the next state.
    next: OperationRef<'c, 'r>,
    /// The values that are one element of the state, by its position, of those that are handed on.
    elements: HashMap<usize, Vec<Value<'c, 'r>>>,
    /// The positions of these values, by their keys.
    positions: HashMap<usize, usize>,
    /// The results of operations, by their keys.
    values: HashMap<usize, Invariant>,
}

/// A value that is the same in each iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Invariant {
    /// Whether computing it again is dear.
    is_dear: bool,
    /// Whether it takes arithmetic, and is no copy.
    is_computed: bool,
    /// Bytes of the arrays in memory that it is computed from.
    read: usize,
}

impl<'c, 'r> Invariants<'c, 'r> {
    fn of(rewriter: &'r Rewriter<'c, 'r>, state: &LoopState<'c, 'r>) -> Self {
        let (mut elements, mut positions) = (HashMap::<usize, Vec<Value>>::new(), HashMap::new());
        for (element, position) in state.handed_on() {
            elements.entry(position).or_default().push(element);
            positions.insert(value_key(&element), position);
        }
        let mut body = Vec::new();
        let mut next = state.body().first_operation();
        while let Some(operation) = next {
            body.push(operation);
            next = operation.next_in_block();
        }
        let (runs, next, values) = (state.runs(), state.next(), HashMap::new());
        let mut invariants = Invariants { rewriter, body, runs, next, elements, positions, values };
        for position in 0..invariants.body.len() {
            let operation = invariants.body[position];
            for result in operation.results().map(Value::from) {
                let invariant = match invariants.positions.contains_key(&value_key(&result)) {
                    true => Some(Invariant { read: byte_size(result), ..Invariant::default() }),
                    false => invariants.invariant_of(operation, result),
                };
                if let Some(invariant) = invariant {
                    invariants.values.insert(value_key(&result), invariant);
                }
            }
        }
        invariants
    }

    /// What is known of a result of an operation on invariant values; `None` for any other operation.
    fn invariant_of(&self, operation: OperationRef<'c, 'r>, result: Value<'c, 'r>) -> Option<Invariant> {
        let kind = dialect::kind_of(operation).filter(|kind| may_be_invariant(*kind))?;
        let mut invariant = Invariant::default();
        for operand in operation.operands() {
            let operand = self.values.get(&value_key(&operand))?;
            invariant.is_dear |= operand.is_dear;
            invariant.is_computed |= operand.is_computed;
            invariant.read = invariant.read.saturating_add(operand.read);
        }
        if has_effect(self.rewriter, operation) || !self.runs && may_not_end(self.rewriter, operation) {
            return None;
        }
        invariant.is_dear |= is_dear_operation(operation, kind);
        invariant.is_computed |= definition(kind).cost != ElementCost::Free;
        if is_in_memory(operation, kind) {
            invariant.read = byte_size(result);
        }
        Some(invariant)
    }

    fn is_dear(&self, value: &Value<'c, 'r>) -> bool {
        self.values.get(&value_key(value)).is_some_and(|own| own.is_dear)
    }

    /// Whether an array fills no more memory than it saves reading, or little.
    fn is_small(&self, value: Value<'c, 'r>) -> bool {
        let read = self.values.get(&value_key(&value)).map_or(0, |own| own.read);
        byte_size(value) <= read.max(FEW_BYTES)
    }

    /// Whether an array in the second cache is no larger than the elements of the state that nothing in the body reads but what
    /// computes the array.
    fn takes_the_place_of_elements(&self, array: Value<'c, 'r>) -> bool {
        let bytes = byte_size(array);
        let has_many = array_of(array).is_some_and(|shape| shape.element_count() >= MANY_ELEMENTS);
        if !has_many || bytes > FEW_BYTES {
            return false;
        }
        let (mut computing, mut positions, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut wanted = vec![array];
        while let Some(value) = wanted.pop() {
            if !seen.insert(value_key(&value)) {
                continue;
            }
            let Some((definition, _)) = self.rewriter.definition(value) else { continue };
            match self.positions.get(&value_key(&value)) {
                Some(position) => positions.push(*position),
                None if computing.len() == FEW_OPERATIONS => return false,
                None => {
                    computing.push(definition);
                    wanted.extend(definition.operands());
                }
            }
        }
        positions.sort();
        positions.dedup();
        let is_read_here = |value: &Value<'c, 'r>| {
            let mut uses = self.rewriter.uses(*value).into_iter();
            uses.all(|r#use| computing.contains(&r#use.user) || r#use.user == self.next)
        };
        let mut on_the_way = computing.iter().skip(1).flat_map(|operation| operation.results().map(Value::from));
        let reads_elements = |value: &Value| self.values.get(&value_key(value)).is_some_and(|own| own.read > 0);
        if !on_the_way.all(|value| !reads_elements(&value) || is_read_here(&value)) {
            return false;
        }
        let elements = positions.iter().filter_map(|position| self.elements.get(position));
        let replaced = elements.filter(|elements| elements.iter().all(is_read_here));
        replaced.filter_map(|elements| elements.first()).map(|element| byte_size(*element)).sum::<usize>() >= bytes
    }

    /// The arrays to compute before the loop: dear ones that something variable reads, in order. A value that is cheap to
    /// compute from smaller ones stays, and these leave.
    fn worth_hoisting(&self) -> Vec<Value<'c, 'r>> {
        let mut seen = HashSet::new();
        let mut values = Vec::new();
        for operation in &self.body {
            let is_variable = operation.results().all(|result| !self.values.contains_key(&value_key(&result)));
            if !is_variable {
                continue;
            }
            let mut wanted: Vec<Value> = operation.operands().collect();
            while let Some(value) = wanted.pop() {
                let Some(own) = self.values.get(&value_key(&value)) else { continue };
                if !own.is_dear && !own.is_computed || !seen.insert(value_key(&value)) {
                    continue;
                }
                let Some((definition, _)) = self.rewriter.definition(value) else { continue };
                if !own.is_dear {
                    match self.takes_the_place_of_elements(value) {
                        true => values.push(value),
                        false => wanted.extend(definition.operands()),
                    }
                    continue;
                }
                let dear: Vec<Value> = definition.operands().filter(|operand| self.is_dear(operand)).collect();
                let is_array = !value.r#type().is_tuple();
                // What is taken of a tuple is what the tuple's elements cost: tuples do not become elements of the state.
                let is_dear_kind = |kind| kind == OpKind::GetTupleElement || is_dear_operation(definition, kind);
                let is_dear = dear.is_empty() || dialect::kind_of(definition).is_some_and(is_dear_kind);
                let is_larger = || byte_size(value) > dear.iter().copied().map(byte_size).sum();
                if is_array && self.is_small(value) && (is_dear || !is_larger()) {
                    values.push(value);
                } else {
                    wanted.extend(dear);
                }
            }
        }
        values
    }

    /// Computes values before the loop.
    fn hoist(&self, state: &mut LoopState<'c, 'r>, values: &[Value<'c, 'r>]) -> Result<(), PassError> {
        let mut needed: HashSet<usize> = values.iter().map(value_key).collect();
        for operation in self.body.iter().rev() {
            if operation.results().any(|result| needed.contains(&value_key(&result))) {
                needed.extend(operation.operands().map(|operand| value_key(&operand)));
            }
        }
        let mut before: HashMap<usize, Value> = HashMap::new();
        for (element, _) in state.handed_on() {
            before.insert(value_key(&element), state.before_the_loop(element)?);
        }
        for operation in &self.body {
            let is_needed = operation.results().any(|result| {
                let key = value_key(&result);
                needed.contains(&key) && !before.contains_key(&key)
            });
            if !is_needed {
                continue;
            }
            let value_of = |value: Value<'c, '_>| before.get(&value_key(&value)).copied();
            let copy = self.rewriter.clone_before(*operation, state.operation(), value_of)?;
            for (result, copied) in operation.results().zip(copy.results()) {
                before.insert(value_key(&result), Value::from(copied));
            }
        }
        let hoisted: Vec<(Value, Value)> =
            values.iter().filter_map(|value| Some((*value, *before.get(&value_key(value))?))).collect();
        state.extend(&hoisted)
    }
}

/// Whether an operation computes the same from the same operands, wherever it stands.
fn may_be_invariant(kind: OpKind) -> bool {
    !matches!(kind, OpKind::OptimizationBarrier | OpKind::AfterAll) && definition(kind).class != OpClass::Collective
}

/// Whether an operation is dear to repeat, whatever its operands cost.
fn is_dear_operation(operation: OperationRef<'_, '_>, kind: OpKind) -> bool {
    let is_of_many_floats = || {
        let shape = operation.results().next().and_then(|result| array_of(result.into()));
        shape.is_some_and(|shape| !shape.element_type.is_integer() && shape.element_count() >= MANY_ELEMENTS)
    };
    match definition(kind).cost {
        ElementCost::Whole | ElementCost::Applied | ElementCost::Lookup => true,
        ElementCost::Division | ElementCost::Transcendental => is_of_many_floats(),
        ElementCost::Free => kind == OpKind::Concatenate,
        ElementCost::Simple => false,
    }
}

/// Whether an operation may never end, or fail, by itself or by what it holds.
fn may_not_end<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, operation: OperationRef<'c, 'r>) -> bool {
    let mut inner = rewriter.operations_in(operation).into_iter();
    inner.any(|own| matches!(dialect::kind_of(own), Some(OpKind::While | OpKind::CustomCall)))
}

/// Whether an operation's result is in memory in any case. That of a product whose every element is one multiplication is not.
fn is_in_memory(operation: OperationRef<'_, '_>, kind: OpKind) -> bool {
    let elements = |value: Value| array_of(value).map_or(0, |shape| shape.element_count());
    let is_outer_product = || {
        let read = operation.operands().map(elements).fold(1, i64::saturating_mul);
        operation.results().all(|result| elements(result.into()) == read)
    };
    match definition(kind).cost {
        ElementCost::Whole => kind != OpKind::Dot || !is_outer_product(),
        ElementCost::Applied => definition(kind).class == OpClass::Reduction,
        _ => false,
    }
}

/// Bytes of an array; 0 for tuples.
fn byte_size(value: Value<'_, '_>) -> usize {
    array_of(value).map_or(0, |shape| shape.byte_size())
}

/// The shape of an array. Tuples, which may be wide, are not looked into.
fn array_of(value: Value<'_, '_>) -> Option<ArrayShape> {
    let r#type = value.r#type();
    if r#type.is_tuple() { None } else { dialect::shape_of(r#type).ok()?.into_array() }
}
