//! Operations that combine elements: those that do not exist are replaced by what changes nothing.

use hlo::attributes::{Attributes, WindowDimension};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::shape::Shape;

use super::sizes::{Arithmetic, ArraySizes, Sizes, bounded, existing, indices, masked};
use super::{Site, Value};
use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_operation};

impl Site<'_> {
    /// Sizes that the operands of a reduction share.
    fn reduced_sizes(&self) -> ArraySizes {
        let mut sizes = self.sizes_of(0);
        for input in 1..self.operands.len() / 2 {
            for (own, size) in sizes.iter_mut().zip(self.sizes_of(input)) {
                *own = own.or(size);
            }
        }
        sizes
    }

    /// The reduction of the valid elements. Padding is neutral, or, where no element is known to be, passed over.
    fn reduced(&mut self, sizes: &[Option<InstructionId>], result_sizes: ArraySizes) -> Option<Value> {
        let inputs = self.operands.len() / 2;
        let dimensions = self.dimensions_of(0);
        let Some(exists) = existing(self.builder, &dimensions, sizes) else { return Some(self.results(result_sizes)) };
        let computation = self.instruction.computations.first()?;
        let neutral = if inputs == 1 { neutral_element(self.builder, computation, self.operands[0]) } else { None };
        if let Some(neutral) = neutral {
            self.operands[0] = masked(self.builder, self.operands[0], sizes, neutral);
            return Some(self.results(result_sizes));
        }
        let yes = self.builder.scalar(ElementType::Pred, ConstantNumber::Integer(1));
        let (values, initial) = self.operands.split_at(inputs);
        let operands = [values, &[exists], initial, &[yes]].concat();
        let mut shapes: Vec<Shape> = bounded(&self.instruction.shape).leaves().into_iter().cloned().collect();
        shapes.push(Shape::array(ElementType::Pred, self.result_dimensions()));
        let attributes = self.instruction.attributes.clone();
        let kind = self.instruction.kind;
        let reduced =
            self.builder.add_with(kind, Shape::Tuple(shapes), &operands, attributes, vec![of_existing(computation)]);
        let results: Vec<InstructionId> = (0..inputs).map(|index| self.builder.element(reduced, index)).collect();
        Some(match &self.instruction.shape {
            Shape::Tuple(_) => (self.builder.tuple(&results), Sizes::Tuple(vec![Sizes::Array(result_sizes); inputs])),
            _ => (results[0], Sizes::Array(result_sizes)),
        })
    }

    /// The value of an operation with one result, or a tuple of several of the same sizes.
    fn results(&mut self, sizes: ArraySizes) -> Value {
        let id = self.unchanged();
        let sizes = match &self.instruction.shape {
            Shape::Tuple(elements) => Sizes::Tuple(vec![Sizes::Array(sizes); elements.len()]),
            _ => Sizes::Array(sizes),
        };
        (id, sizes)
    }

    pub(super) fn reduce(&mut self) -> Option<Value> {
        let sizes = self.reduced_sizes();
        let reduced = indices(self.attributes::<ReduceAttributes>()?.dimensions);
        let kept = (0..sizes.len()).filter(|d| !reduced.contains(d)).map(|d| sizes[d]).collect();
        self.reduced(&sizes, kept)
    }

    pub(super) fn reduce_window(&mut self) -> Option<Value> {
        let sizes = self.reduced_sizes();
        let window = self.attributes::<ReduceWindowAttributes>()?.window.to_vec();
        let windows = sizes.iter().zip(window).map(|(&size, w)| self.windows(size, &w)).collect();
        self.reduced(&sizes, windows)
    }

    /// Number of places of a window over a dimension of a run-time size.
    pub(super) fn windows(&mut self, size: Option<InstructionId>, w: &WindowDimension) -> Option<InstructionId> {
        let mut arithmetic = Arithmetic(self.builder);
        let last = arithmetic.plus(size?, -1);
        let last = arithmetic.times(last, w.base_dilation.max(1));
        // An empty base stays empty, dilated or not: its last element is before its first.
        let last = arithmetic.at_least(last, -1);
        let reach = (w.size - 1) * w.window_dilation;
        let room = arithmetic.plus(last, w.padding_low + w.padding_high - reach);
        let room = arithmetic.plus(room, w.stride.max(1));
        let room = arithmetic.at_least(room, 0);
        Some(arithmetic.divided(room, w.stride.max(1)))
    }

    /// What does not exist along the sorted dimension comes last: it is sorted by that first.
    pub(super) fn sort(&mut self) -> Option<Value> {
        let along = self.attributes::<SortAttributes>()?.dimensions.index();
        let mut sizes = self.sizes_of(0);
        for operand in 1..self.operands.len() {
            for (own, size) in sizes.iter_mut().zip(self.sizes_of(operand)) {
                *own = own.or(size);
            }
        }
        let Some(end) = sizes[along] else { return Some(self.results(sizes)) };
        let count = self.operands.len();
        let comparator = self.instruction.computations.first()?;
        let attributes = self.instruction.attributes.clone();
        let results = sorted_existing(self.builder, &self.operands, attributes, comparator, (along, end));
        Some(match &self.instruction.shape {
            Shape::Tuple(_) => (self.builder.tuple(&results), Sizes::Tuple(vec![Sizes::Array(sizes); count])),
            _ => (results[0], Sizes::Array(sizes)),
        })
    }
}

/// The operands sorted along a dimension of a run-time size: the valid elements come first.
pub(super) fn sorted_existing(
    builder: &mut GraphBuilder,
    operands: &[InstructionId],
    attributes: Attributes,
    comparator: &Computation,
    (along, end): (usize, InstructionId),
) -> Vec<InstructionId> {
    let dimensions = operands.first().map(|&first| builder.dimensions(first)).unwrap_or_default();
    let mut ends = vec![None; dimensions.len()];
    ends[along] = Some(end);
    let mut all = operands.to_vec();
    all.extend(existing(builder, &dimensions, &ends));
    let comparator = existing_first(comparator, operands.len());
    let shapes: Vec<Shape> = all.iter().map(|&operand| Shape::Array(builder.array(operand))).collect();
    let sorted = builder.add_with(OpKind::Sort, Shape::Tuple(shapes), &all, attributes, vec![comparator]);
    (0..operands.len()).map(|index| builder.element(sorted, index)).collect()
}

/// A reduction's computation with a further `pred` for each side: what does not exist changes nothing.
fn of_existing(computation: &Computation) -> Computation {
    let count = computation.parameters.len() / 2;
    let mut builder = GraphBuilder::new(&computation.name);
    let predicate = Shape::scalar(ElementType::Pred);
    let mut sides: [Vec<InstructionId>; 2] = Default::default();
    for (side, arguments) in sides.iter_mut().enumerate() {
        for number in 0..count {
            let shape = computation.get(computation.parameters[side * count + number]).shape.clone();
            arguments.push(builder.parameter(side * (count + 1) + number, shape));
        }
        arguments.push(builder.parameter(side * (count + 1) + count, predicate.clone()));
    }
    let [first, second] = sides;
    let root = builder.splice(computation, &[&first[..count], &second[..count]].concat());
    let both = builder.binary(OpKind::And, first[count], second[count]);
    let mut results = Vec::with_capacity(count + 1);
    for number in 0..count {
        let combined = if builder.shape(root).as_tuple().is_some() { builder.element(root, number) } else { root };
        let one = builder.select(first[count], first[number], second[number]);
        results.push(builder.select(both, combined, one));
    }
    results.push(builder.binary(OpKind::Or, first[count], second[count]));
    let root = builder.tuple(&results);
    builder.finish(computation.name.clone(), root, Vec::new())
}

/// The comparator with a further pair of `pred`: valid elements precede padding.
fn existing_first(comparator: &Computation, operands: usize) -> Computation {
    let mut builder = GraphBuilder::new(&comparator.name);
    let mut arguments: Vec<InstructionId> = Vec::with_capacity(2 * operands);
    for (number, &parameter) in comparator.parameters.iter().enumerate() {
        arguments.push(builder.parameter(number, comparator.get(parameter).shape.clone()));
    }
    let predicate = Shape::scalar(ElementType::Pred);
    let first = builder.parameter(2 * operands, predicate.clone());
    let second = builder.parameter(2 * operands + 1, predicate);
    let precedes = builder.splice(comparator, &arguments);
    let is_alone = builder.unary(OpKind::Not, second);
    let wins = builder.binary(OpKind::Or, is_alone, precedes);
    let root = builder.binary(OpKind::And, first, wins);
    builder.finish(comparator.name.clone(), root, Vec::new())
}

/// The element that a computation of one operation leaves everything as it is with.
fn neutral_element(
    builder: &mut GraphBuilder,
    computation: &Computation,
    operand: InstructionId,
) -> Option<InstructionId> {
    let kind = binary_operation(computation)?;
    let element_type = builder.element_type(operand);
    let number = match (kind, element_type) {
        (OpKind::Add | OpKind::Or | OpKind::Xor, _) if element_type.has_zero() => ConstantNumber::Integer(0),
        (OpKind::Multiply, _) | (OpKind::And, ElementType::Pred) => ConstantNumber::Integer(1),
        (OpKind::And, _) => ConstantNumber::Integer(-1),
        (OpKind::Maximum, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64) => {
            ConstantNumber::Float(f64::NEG_INFINITY)
        }
        (OpKind::Minimum, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64) => {
            ConstantNumber::Float(f64::INFINITY)
        }
        _ => return None,
    };
    let literal: Literal = crate::graph_builder::scalar_literal(element_type, number);
    Some(builder.literal(literal))
}
