//! Horizontal combination of vectors, for every recognised reduction computation and element type.

use std::convert::Infallible;
use std::mem::transmute;

use hlo::attributes::{AttributeValue, Attributes};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::{ALIGNMENT, AlignedBytes, ArrayLiteral};
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use lowering_affine::scalar::{self, combiner};
use melior::ir::TypeLike;
use mlir_ext::builder::OpBuilder;

use super::compiled::load;
use super::values;

const LANES: u32 = 8;
const ROWS: usize = 32;

const KINDS: &[OpKind] = &[
    OpKind::Add,
    OpKind::Multiply,
    OpKind::Maximum,
    OpKind::Minimum,
    OpKind::And,
    OpKind::Or,
    OpKind::Xor,
    OpKind::Subtract,
];

/// The computation of two scalars whose root is the operation.
fn computation(kind: OpKind, element_type: ElementType) -> Computation {
    let instruction = |name: &str, kind, operands, attributes| Instruction {
        name: name.into(),
        kind,
        shape: Shape::scalar(element_type),
        operands,
        attributes,
        computations: Vec::new(),
        callee: None,
        annotations: Vec::new(),
        position: None,
    };
    let number = |number| Attributes::new().with("parameter_number", AttributeValue::Int(number));
    let (first, second) = (InstructionId(0), InstructionId(1));
    Computation {
        name: "combine".into(),
        instructions: vec![
            instruction("a", OpKind::Parameter, Vec::new(), number(0)),
            instruction("b", OpKind::Parameter, Vec::new(), number(1)),
            instruction("root", kind, vec![second, first], Attributes::new()),
        ],
        parameters: vec![first, second],
        root: InstructionId(2),
        annotations: Vec::new(),
    }
}

fn is_defined(kind: OpKind, element_type: ElementType) -> bool {
    let is_logical = element_type.is_integer() || element_type == ElementType::Pred;
    match kind {
        OpKind::And | OpKind::Or | OpKind::Xor => is_logical,
        OpKind::Maximum | OpKind::Minimum => !element_type.is_complex(),
        kind => kind != OpKind::Subtract,
    }
}

/// `f(x, y)`: `y[i]` is the combination of the eight elements of `x` from `8 i`.
fn emit(builder: &OpBuilder, name: &str, combiner: &combiner::Combiner, element_type: ElementType) {
    let parts = if element_type.is_complex() { 2 } else { 1 };
    let memory =
        |count: usize| builder.memref_type(&[count as i64 * parts], scalar::memory_type(builder, element_type));
    let types = [memory(ROWS * LANES as usize), memory(ROWS)];
    let Ok(()) = builder.function(name, &types, &[], &[], |builder, function| {
        let arrays = function.parameters();
        let (first, end) = (builder.constant_index(0), builder.constant_index(ROWS as i64));
        let step = builder.constant_index(1);
        let Ok(_) = builder.for_loop(first, end, step, &[], |builder, row, _| {
            let scaled = |factor: i64| {
                let factor = builder.constant_index(factor);
                builder.muli(row, factor)
            };
            let load = scalar::load_type(builder, element_type, Some(LANES));
            let operands = [arrays[0], scaled(i64::from(LANES) * parts)];
            let loaded = builder.value("vector.load", &operands, load, &[]);
            let elements = scalar::from_memory(builder, element_type, Some(LANES), loaded);
            let identity = combiner.identity(builder, Some(LANES));
            let combined = combiner.combine(builder, &identity, &elements);
            let total = combiner.horizontal(builder, &combined);
            let stored = scalar::to_memory(builder, &combiner.finish(builder, &total));
            let name = if stored.r#type().is_vector() { "vector.store" } else { "memref.store" };
            builder.effect(name, &[stored, arrays[1], scaled(parts)], &[]);
            Ok::<_, Infallible>(Vec::new())
        });
        builder.effect("func.return", &[], &[]);
        Ok::<_, Infallible>(())
    });
}

#[test]
fn vectors_are_combined_to_one_element() {
    let mut cases = Vec::new();
    for element_type in ElementType::all() {
        for &kind in KINDS {
            let found = combiner::recognise(&computation(kind, element_type));
            assert_eq!(found.is_some(), is_defined(kind, element_type), "{kind} of {element_type}");
            cases.extend(found.map(|combiner| (kind, element_type, combiner)));
        }
    }
    let jit = load(|builder| {
        for (number, (_, element_type, combiner)) in cases.iter().enumerate() {
            emit(builder, &format!("combine_{number}"), combiner, *element_type);
        }
    });
    for (number, (kind, element_type, _)) in cases.iter().enumerate() {
        // Small whole numbers: sums and products are exact in every order.
        let numbers: Vec<i8> = (0..ROWS * LANES as usize).map(|i| [1, 2, 1, -1, 0, 1, 2, 1, 1][i * 7 % 9]).collect();
        let numbers = ArrayLiteral::from_slice([numbers.len() as i64], &numbers).expect("the right size");
        let operand = values::convert(&numbers, *element_type);
        let mut result = AlignedBytes::new(ALIGNMENT);
        result.resize(ROWS * element_type.byte_width(), 0xa5);
        // SAFETY: `emit` gives the function these two pointers, to arrays of these sizes.
        unsafe {
            let function: extern "C" fn(*const u8, *mut u8) =
                transmute(jit.lookup(&format!("combine_{number}")).expect("the function"));
            function(operand.bytes().as_ptr(), result.as_mut_ptr());
        }
        // Small floats are summed and multiplied as f32 and rounded once.
        let rounds = matches!(kind, OpKind::Add | OpKind::Multiply) && element_type.is_float();
        let wide = if rounds && element_type.bit_width() < 32 { ElementType::F32 } else { *element_type };
        let column = |lane: usize| {
            let width = element_type.byte_width();
            let bytes: Vec<u8> =
                operand.bytes().chunks(width).skip(lane).step_by(LANES as usize).flatten().copied().collect();
            let shape = ArrayShape::new(*element_type, [ROWS as i64]);
            values::convert(&ArrayLiteral::from_bytes(shape, &bytes).expect("a column"), wide)
        };
        let total = (1..LANES as usize).fold(column(0), |total, lane| values::binary(*kind, &total, &column(lane)));
        let expected = values::convert(&total, *element_type);
        for row in 0..ROWS {
            let width = element_type.byte_width();
            let (expected, found) = (values::show(&expected, row), &result[row * width..(row + 1) * width]);
            assert_eq!(expected, values::show_bytes(*element_type, found), "{kind} of {element_type}, row {row}");
        }
    }
}
