//! `while` and `conditional` with dynamic values: a value becomes a tuple of itself and its sizes.

use hlo::attributes::Attributes;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use super::sizes::{Sizes, bounded, dynamic_count, mark_declared};
use super::{Arguments, DynamicError, Resolver, Value};
use crate::graph_builder::GraphBuilder;

/// A tuple of a value and the sizes that its shape declares.
fn packed(builder: &mut GraphBuilder, value: InstructionId, sizes: &Sizes, declared: &Shape) -> InstructionId {
    let mut elements = vec![value];
    sizes.declared(builder, declared, &mut elements);
    builder.tuple(&elements)
}

/// The value and sizes of a tuple made by [`packed`].
fn unpacked(builder: &mut GraphBuilder, tuple: InstructionId, declared: &Shape) -> Value {
    let value = builder.element(tuple, 0);
    let sizes: Vec<InstructionId> = (1..=dynamic_count(declared)).map(|index| builder.element(tuple, index)).collect();
    (value, Sizes::from_declared(declared, &mut sizes.into_iter()))
}

/// Shape of a tuple made by [`packed`].
fn packed_shape(declared: &Shape) -> Shape {
    let sizes = std::iter::repeat_n(Shape::scalar(hlo::element_type::ElementType::S32), dynamic_count(declared));
    Shape::Tuple(std::iter::once(bounded(declared)).chain(sizes).collect())
}

/// A computation of one packed parameter; its result is packed if `result` declares a shape for it.
fn packed_computation(
    computation: &Computation,
    parameter: &Shape,
    result: Option<&Shape>,
    count: &mut u64,
) -> Result<Computation, DynamicError> {
    let mut resolver = Resolver::new(&computation.name);
    let tuple = resolver.builder.parameter(0, packed_shape(parameter));
    let argument = unpacked(&mut resolver.builder, tuple, parameter);
    let (root, sizes) = resolver.computation(computation, &Arguments::Values(&[argument]))?;
    let root = match result {
        Some(declared) => packed(&mut resolver.builder, root, &sizes, declared),
        None => root,
    };
    *count += resolver.count;
    Ok(resolver.builder.finish(computation.name.clone(), root, computation.annotations.clone()))
}

/// The state of a loop, with the dimensions dynamic that are so anywhere: a loop that begins with a whole array may shorten it.
pub(super) fn state(instruction: &Instruction, sizes: &Sizes) -> Shape {
    let mut state = instruction.shape.clone();
    sizes.mark(&mut state);
    for nested in &instruction.computations {
        nested.parameters.iter().for_each(|&parameter| mark_declared(&mut state, &nested.get(parameter).shape));
        mark_declared(&mut state, &nested.root().shape);
    }
    state
}

pub(super) fn while_loop(
    resolver: &mut Resolver,
    instruction: &Instruction,
    initial: InstructionId,
    sizes: &Sizes,
    declared: &Shape,
) -> Result<Value, DynamicError> {
    let initial = packed(&mut resolver.builder, initial, sizes, declared);
    let mut computations = Vec::with_capacity(2);
    for (nested, result) in instruction.computations.iter().zip([None, Some(declared)]) {
        computations.push(packed_computation(nested, declared, result, &mut resolver.count)?);
    }
    let state =
        resolver.builder.add_with(OpKind::While, packed_shape(declared), &[initial], Attributes::new(), computations);
    Ok(unpacked(&mut resolver.builder, state, declared))
}

/// The result of a choice, with the dimensions dynamic that are so in any branch.
pub(super) fn result(instruction: &Instruction) -> Shape {
    let mut result = instruction.shape.clone();
    instruction.computations.iter().for_each(|branch| mark_declared(&mut result, &branch.root().shape));
    result
}

pub(super) fn conditional(
    resolver: &mut Resolver,
    instruction: &Instruction,
    operands: &[InstructionId],
    sizes: &[Sizes],
    declared: &Shape,
) -> Result<Value, DynamicError> {
    let mut arguments = vec![operands[0]];
    let mut computations = Vec::with_capacity(instruction.computations.len());
    for (number, branch) in instruction.computations.iter().enumerate() {
        let mut parameter =
            branch.parameters.first().map_or(Shape::Token, |&parameter| branch.get(parameter).shape.clone());
        sizes[number + 1].mark(&mut parameter);
        arguments.push(packed(&mut resolver.builder, operands[number + 1], &sizes[number + 1], &parameter));
        computations.push(packed_computation(branch, &parameter, Some(declared), &mut resolver.count)?);
    }
    let attributes = instruction.attributes.clone();
    let result =
        resolver.builder.add_with(OpKind::Conditional, packed_shape(declared), &arguments, attributes, computations);
    Ok(unpacked(&mut resolver.builder, result, declared))
}
