//! `select-and-scatter`: a variadic reduce-window finds the place of each window's selected element, a scatter
//! combines the source's elements into those places.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::select_and_scatter::SelectAndScatterAttributes;
use hlo::shape::{ArrayShape, Shape};

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// `exists`, where given: `pred` of the dimensions of operand and source, false for what is to be left out.
pub(crate) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    exists: [Option<InstructionId>; 2],
) -> Option<InstructionId> {
    let (&[operand, source, initial], [select, scatter]) = (operands, &instruction.computations[..]) else {
        return None;
    };
    let SelectAndScatterAttributes { window } = instruction.attributes().ok()?;
    let shape = builder.array(operand);
    let windows = builder.dimensions(source);
    if windows.contains(&0) || shape.dimensions.contains(&0) {
        return Some(builder.broadcast(initial, &shape.dimensions, &[]));
    }
    let count = shape.element_count();
    let place_type = if count <= i64::from(i32::MAX) { ElementType::S32 } else { ElementType::S64 };
    // Places number the operand's elements; -1 stands for none.
    let places = builder.iota(place_type, &[count], 0);
    let places = builder.reshape(places, &shape.dimensions);
    let places = without_some(builder, places, exists[0]);
    let zero = builder.scalar(shape.element_type, ConstantNumber::Integer(0));
    let none = builder.scalar(place_type, ConstantNumber::Integer(-1));
    let chosen = Shape::Tuple(vec![
        ArrayShape::new(shape.element_type, windows.clone()).into(),
        ArrayShape::new(place_type, windows.clone()).into(),
    ]);
    let window = ReduceWindowAttributes { window };
    let first = selection(&instruction.name, select, shape.element_type, place_type);
    let chosen = builder.add_with(OpKind::ReduceWindow, chosen, &[operand, places, zero, none], window, vec![first]);
    let chosen = builder.element(chosen, 1);
    let chosen = without_some(builder, chosen, exists[1]);

    let updates: i64 = windows.iter().product();
    let indices = builder.reshape(chosen, &[updates, 1]);
    let source = builder.reshape(source, &[updates]);
    let base = builder.broadcast(initial, &[count], &[]);
    let attributes = ScatterAttributes::new(&[], &[0], &[0], 1);
    let flat = ArrayShape::new(shape.element_type, [count]);
    let combined = builder.add_with(OpKind::Scatter, flat, &[base, indices, source], attributes, vec![scatter.clone()]);
    Some(builder.reshape(combined, &shape.dimensions))
}

/// Places, -1 in the padding.
fn without_some(builder: &mut GraphBuilder, places: InstructionId, exists: Option<InstructionId>) -> InstructionId {
    let Some(exists) = exists else { return places };
    let none = builder.filled(&builder.array(places), ConstantNumber::Integer(-1));
    builder.select(exists, places, none)
}

/// Of two (value, place), the first while `select` holds between the values; what has no place loses.
fn selection(name: &str, select: &Computation, value: ElementType, place: ElementType) -> Computation {
    let mut builder = GraphBuilder::new(&format!("{name}.selection"));
    let shapes = [value, place, value, place].map(|r#type| ArrayShape::new(r#type, []));
    let mut number = 0..;
    let [first, first_place, second, second_place] =
        shapes.map(|shape| builder.parameter(number.next().unwrap_or_default(), shape));
    let zero = builder.scalar(place, ConstantNumber::Integer(0));
    let exists = builder.compare(ComparisonDirection::Ge, first_place, zero);
    let alone = builder.compare(ComparisonDirection::Lt, second_place, zero);
    let selected = builder.splice(select, &[first, second]);
    let wins = builder.binary(OpKind::Or, alone, selected);
    let keeps = builder.binary(OpKind::And, exists, wins);
    let kept = builder.select(keeps, first, second);
    let kept_place = builder.select(keeps, first_place, second_place);
    let root = builder.tuple(&[kept, kept_place]);
    builder.finish(format!("{name}.selection"), root, Vec::new())
}
