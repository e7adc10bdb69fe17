//! `loop-over-elements`: operations whose computations are more than arithmetic on scalars become loops.
//!
//! Loop nests have code for computations whose every operation is elementwise, on scalars. A computation may hold
//! anything, though: a `while`, a `dot`, a table to look things up in. Such an operation becomes a `while` over its
//! elements with the computation in its body, one element after another, in the order of the evaluator.
//! A `conditional` between computations of scalars becomes a `select` of their results, which loop nests have.

mod reductions;
mod scatter;
mod sort;

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dynamic_slice::DynamicSliceAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::{self, OpClass};
use hlo::shape::{ArrayShape, Shape};
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, BlockRef, OperationRef, Type, ValueLike};
use mlir_ext::attributes;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Appends loops that compute an instruction and gives its value.
type Loops = fn(&mut GraphBuilder, &Instruction) -> Option<InstructionId>;

/// (operation with a computation of elements, its name, its loops)
static OPERATIONS: &[(OpKind, &str, Loops)] = &[
    (OpKind::Map, "map", reductions::map),
    (OpKind::Reduce, "reduce", reductions::reduce),
    (OpKind::ReduceWindow, "reduce-window", reductions::reduce_window),
    (OpKind::Scatter, "scatter", scatter::scatter),
    (OpKind::Sort, "sort", sort::sort),
];

/// Runs the pass. `select-and-scatter` must have been expanded.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let has_candidates = |_, kind| loops_of(kind).is_some() || kind == OpKind::Conditional;
    for block in blocks_with(&rewriter, has_candidates) {
        let needs_loop = |operation, kind| loops_of(kind).is_some() && !is_scalar(&rewriter, operation);
        Body::read(&rewriter, block, needs_loop)?.rewrite(|builder, _, instruction| {
            let (_, name, loops) = loops_of(instruction.kind)?;
            let value = loops(builder, instruction)?;
            statistics.add(name, 1);
            Some(value)
        })?;
        if is_of_elements(block) {
            let is_choice = |operation, kind| kind == OpKind::Conditional && is_scalar(&rewriter, operation);
            Body::read(&rewriter, block, is_choice)?.rewrite(|builder, _, instruction| {
                let value = select_between_branches(builder, instruction)?;
                statistics.add("conditional", 1);
                Some(value)
            })?;
        }
    }
    Ok(())
}

fn loops_of(kind: OpKind) -> Option<&'static (OpKind, &'static str, Loops)> {
    OPERATIONS.iter().find(|row| row.0 == kind)
}

/// Whether a block is, but for branches, the computation of an operation on elements.
fn is_of_elements(block: BlockRef<'_, '_>) -> bool {
    let mut parent = block.parent_operation();
    while let Some(operation) = parent {
        match dialect::kind_of(operation) {
            Some(OpKind::Conditional) => parent = operation.parent_operation(),
            kind => return kind.is_some_and(|kind| loops_of(kind).is_some()),
        }
    }
    false
}

/// Whether all there is in an operation's computations is arithmetic on scalars.
fn is_scalar<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, operation: OperationRef<'c, 'r>) -> bool {
    let inner = rewriter.operations_in(operation);
    let is_known = |operation: OperationRef<'c, 'r>| match dialect::kind_of(operation) {
        // Of scalars it keeps the width, and is arithmetic.
        Some(
            OpKind::BitcastConvert
            | OpKind::Constant
            | OpKind::Tuple
            | OpKind::GetTupleElement
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Copy
            | OpKind::Transpose
            | OpKind::Map,
        ) => true,
        Some(kind) => ops::definition(kind).class == OpClass::Elementwise,
        None => attributes::identifier_text(operation.name()) == "hlo.return",
    };
    let is_of_scalars = |r#type: Type| {
        let leaves = dialect::shape_of(r#type).map(|shape| shape.leaves().into_iter().cloned().collect::<Vec<_>>());
        leaves.is_ok_and(|leaves| leaves.iter().all(|leaf| leaf.as_array().is_some_and(|array| array.rank() == 0)))
    };
    let arguments = |operation| {
        let blocks = rewriter.blocks(operation).into_iter();
        blocks.flat_map(|block| (0..block.argument_count()).filter_map(move |number| block.argument(number).ok()))
    };
    inner.iter().all(|&nested| {
        let results_fit = || nested.results().all(|result| is_of_scalars(result.r#type()));
        (nested == operation || is_known(nested) && results_fit())
            && arguments(nested).all(|argument| is_of_scalars(argument.r#type()))
    })
}

// conditional(p, a, b), true: f, false: g => select(p, f(a), g(b)), where f and g are arithmetic on scalars
fn select_between_branches(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let selector = instruction.operands[0];
    let mut results: Vec<InstructionId> = instruction
        .computations
        .iter()
        .zip(&instruction.operands[1..])
        .map(|(branch, &argument)| builder.splice(branch, &[argument]))
        .collect();
    // The last branch is also that of indices out of range.
    let mut chosen = results.pop()?;
    for (number, result) in results.into_iter().enumerate().rev() {
        let is_chosen = match builder.element_type(selector) {
            ElementType::Pred => selector,
            element_type => {
                let number = builder.scalar(element_type, ConstantNumber::Integer(number as i64));
                builder.compare(ComparisonDirection::Eq, selector, number)
            }
        };
        chosen = builder.choose(is_chosen, result, chosen);
    }
    Some(chosen)
}

/// Values of one iteration of a loop.
struct Iteration<'i> {
    /// Its number.
    index: InstructionId,
    /// What all iterations see.
    constants: &'i [InstructionId],
    /// What the iteration before has left.
    variables: &'i [InstructionId],
}

/// Type of numbers below `count`.
fn index_type(count: i64) -> ElementType {
    if count <= i64::from(i32::MAX) { ElementType::S32 } else { ElementType::S64 }
}

/// A `while` of `count` iterations; `body` gives the variables' next values. Returns the last ones. There is no body
/// without an iteration: arrays may have no element that it could take.
fn counted_loop(
    builder: &mut GraphBuilder,
    count: i64,
    constants: &[InstructionId],
    variables: &[InstructionId],
    body: impl FnOnce(&mut GraphBuilder, &Iteration<'_>) -> Vec<InstructionId>,
) -> Vec<InstructionId> {
    if count == 0 {
        return variables.to_vec();
    }
    let element_type = index_type(count);
    let zero = builder.scalar(element_type, ConstantNumber::Integer(0));
    let state = [&[zero], constants, variables].concat();
    let state = builder.tuple(&state);
    let shape = builder.shape(state).clone();

    let name = builder.get(state).name.clone();
    let mut condition = GraphBuilder::new(&format!("{name}.condition"));
    let parameter = condition.parameter(0, shape.clone());
    let index = condition.element(parameter, 0);
    let end = condition.scalar(element_type, ConstantNumber::Integer(count));
    let goes_on = condition.compare(ComparisonDirection::Lt, index, end);
    let condition = condition.finish(format!("{name}.condition"), goes_on, Vec::new());

    let mut inner = GraphBuilder::new(&format!("{name}.body"));
    let parameter = inner.parameter(0, shape.clone());
    let values: Vec<InstructionId> =
        (0..=constants.len() + variables.len()).map(|number| inner.element(parameter, number)).collect();
    let (fixed, changing) = values[1..].split_at(constants.len());
    let iteration = Iteration { index: values[0], constants: fixed, variables: changing };
    let next = body(&mut inner, &iteration);
    let one = inner.scalar(element_type, ConstantNumber::Integer(1));
    let index = inner.binary(OpKind::Add, values[0], one);
    let root = inner.tuple(&[&[index], fixed, &next].concat());
    let body = inner.finish(format!("{name}.body"), root, Vec::new());

    let last = builder.add_with(OpKind::While, shape, &[state], Attributes::new(), vec![condition, body]);
    (0..variables.len()).map(|number| builder.element(last, 1 + constants.len() + number)).collect()
}

/// A value and a number, combined.
fn with_number(builder: &mut GraphBuilder, kind: OpKind, value: InstructionId, number: i64) -> InstructionId {
    let number = builder.scalar(builder.element_type(value), ConstantNumber::Integer(number));
    builder.binary(kind, value, number)
}

/// One dimension.
fn flat(builder: &mut GraphBuilder, array: InstructionId) -> InstructionId {
    let count = builder.array(array).element_count();
    builder.reshape(array, &[count])
}

/// The element of a flat array at an index.
fn element_at(builder: &mut GraphBuilder, array: InstructionId, index: InstructionId) -> InstructionId {
    let attributes = DynamicSliceAttributes { dynamic_slice_sizes: &[1] };
    let shape = ArrayShape::new(builder.element_type(array), [1]);
    let slice = builder.add(OpKind::DynamicSlice, shape, &[array, index], attributes);
    builder.reshape(slice, &[])
}

/// The elements of flat arrays at an index.
fn elements_at(builder: &mut GraphBuilder, arrays: &[InstructionId], index: InstructionId) -> Vec<InstructionId> {
    arrays.iter().map(|&array| element_at(builder, array, index)).collect()
}

/// A flat array with another element at an index.
fn with_element(
    builder: &mut GraphBuilder,
    array: InstructionId,
    index: InstructionId,
    element: InstructionId,
) -> InstructionId {
    let element = builder.reshape(element, &[1]);
    let shape = builder.array(array);
    builder.add(OpKind::DynamicUpdateSlice, shape, &[array, element, index], Attributes::new())
}

/// The results of a computation of elements, one or a tuple of them.
fn call(builder: &mut GraphBuilder, computation: &Computation, arguments: &[InstructionId]) -> Vec<InstructionId> {
    let root = builder.splice(computation, arguments);
    match builder.shape(root).clone() {
        Shape::Tuple(elements) => (0..elements.len()).map(|number| builder.element(root, number)).collect(),
        Shape::Array(_) | Shape::Token | Shape::Opaque => vec![root],
    }
}

/// Flat results as the instruction has them: with its dimensions, in a tuple if it has one.
fn as_declared(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    results: &[InstructionId],
) -> Option<InstructionId> {
    let leaves = instruction.shape.leaves();
    let shaped: Vec<InstructionId> = results
        .iter()
        .zip(leaves)
        .map(|(&result, leaf)| Some(builder.reshape(result, &leaf.as_array()?.dimensions)))
        .collect::<Option<_>>()?;
    match &instruction.shape {
        Shape::Tuple(_) => Some(builder.tuple(&shaped)),
        Shape::Array(_) | Shape::Token | Shape::Opaque => shaped.first().copied(),
    }
}
