//! `while` and `conditional` with dynamic values: a value becomes a tuple of itself and its sizes.

use hlo::attributes::Attributes;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use super::sizes::{Sizes, bounded, dynamic_count};
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

pub(super) fn while_loop(
    resolver: &mut Resolver,
    instruction: &Instruction,
    initial: InstructionId,
    sizes: &Sizes,
) -> Result<Value, DynamicError> {
    let declared = &instruction.shape;
    let initial = packed(&mut resolver.builder, initial, sizes, declared);
    let mut computations = Vec::with_capacity(2);
    for (nested, result) in instruction.computations.iter().zip([None, Some(declared)]) {
        computations.push(packed_computation(nested, declared, result, &mut resolver.count)?);
    }
    let state =
        resolver.builder.add_with(OpKind::While, packed_shape(declared), &[initial], Attributes::new(), computations);
    Ok(unpacked(&mut resolver.builder, state, declared))
}

pub(super) fn conditional(
    resolver: &mut Resolver,
    instruction: &Instruction,
    operands: &[InstructionId],
    sizes: &[Sizes],
) -> Result<Value, DynamicError> {
    let declared = &instruction.shape;
    let mut arguments = vec![operands[0]];
    let mut computations = Vec::with_capacity(instruction.computations.len());
    for (number, branch) in instruction.computations.iter().enumerate() {
        let parameter =
            branch.parameters.first().map_or(Shape::Token, |&parameter| branch.get(parameter).shape.clone());
        arguments.push(packed(&mut resolver.builder, operands[number + 1], &sizes[number + 1], &parameter));
        computations.push(packed_computation(branch, &parameter, Some(declared), &mut resolver.count)?);
    }
    let attributes = instruction.attributes.clone();
    let result =
        resolver.builder.add_with(OpKind::Conditional, packed_shape(declared), &arguments, attributes, computations);
    Ok(unpacked(&mut resolver.builder, result, declared))
}
