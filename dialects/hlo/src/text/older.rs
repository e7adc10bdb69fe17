//! Forms of the text that XLA printed from 2017 to 2020 and no longer does, read as what stands for them today.
//! Sources: the operation semantics of 2017, and texts of those years.

use crate::attributes::AttributeValue;
use crate::element_type::ElementType;
use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;
use crate::ops::compare::CompareAttributes;
use crate::ops::enumerations::ComparisonDirection;
use crate::shape::{ArrayShape, Shape};

/// (opcode then, operation now, direction of a comparison)
const OPCODES: [(&str, OpKind, Option<&str>); 9] = [
    ("cross-replica-sum", OpKind::AllReduce, None),
    ("equal-to", OpKind::Compare, Some("EQ")),
    ("generate-token", OpKind::AfterAll, None),
    ("greater-than", OpKind::Compare, Some("GT")),
    ("greater-than-or-equal-to", OpKind::Compare, Some("GE")),
    ("less-than", OpKind::Compare, Some("LT")),
    ("less-than-or-equal-to", OpKind::Compare, Some("LE")),
    ("not-equal-to", OpKind::Compare, Some("NE")),
    ("tuple-select", OpKind::Select, None),
];

/// (operation, attribute then, attribute now)
const ATTRIBUTES: [(OpKind, &str, &str); 4] = [
    (OpKind::Gather, "elided_window_dims", "collapsed_slice_dims"),
    (OpKind::Gather, "gather_dims_to_operand_dims", "start_index_map"),
    (OpKind::Gather, "output_window_dims", "offset_dims"),
    (OpKind::Gather, "window_bounds", "slice_sizes"),
];

/// (attribute, word then, word now)
const WORDS: [(&str, &str, &str); 1] = [("kind", "kTransposeDot", "kOutput")];

/// The operation that an opcode stood for.
pub(super) fn operation(opcode: &str) -> Option<OpKind> {
    OPCODES.iter().find(|row| row.0 == opcode).map(|row| row.1)
}

/// Today's name of an attribute.
pub(super) fn attribute(kind: OpKind, key: &str) -> &str {
    ATTRIBUTES.iter().find(|row| (row.0, row.1) == (kind, key)).map_or(key, |row| row.2)
}

/// Today's word for a value.
pub(super) fn word(key: &str, value: AttributeValue) -> AttributeValue {
    match &value {
        AttributeValue::Word(word) => match WORDS.iter().find(|row| (row.0, row.1) == (key, word)) {
            Some(row) => AttributeValue::Word(row.2.to_string()),
            None => value,
        },
        _ => value,
    }
}

/// What an opcode said that an attribute says today.
pub(super) fn implied_attribute(opcode: &str, key: &str) -> Option<AttributeValue> {
    let direction = OPCODES.iter().find(|row| row.0 == opcode)?.2?;
    (key == "direction").then(|| AttributeValue::Word(direction.to_string()))
}

/// Which dimensions a `dot` without attributes contracts: the last of the left operand with the one before the last of the
/// right, or with its only one ("Dot", 2017). None if its declared result is that of a `dot` that contracts nothing.
pub(super) fn contracted(lhs: &ArrayShape, rhs: &ArrayShape, result: Option<&ArrayShape>) -> Option<[i64; 2]> {
    let (left, right) = (lhs.rank(), rhs.rank());
    let declares_it = result.is_some_and(|result| result.rank() + 2 == left + right);
    (left > 0 && right > 0 && declares_it).then(|| [left as i64 - 1, (right as i64 - 2).max(0)])
}

/// The computation of an operation that went without one: a sum (`cross-replica-sum`), or an order that ascends in the first
/// operand (`sort`).
pub(super) fn computation(opcode: &str, operands: &[&Shape], name: String) -> Option<Computation> {
    let scalars: Vec<ArrayShape> = operands
        .iter()
        .map(|operand| operand.as_array().map(|array| ArrayShape::new(array.element_type, Vec::<i64>::new())))
        .collect::<Option<_>>()?;
    let first = scalars.first()?.clone();
    let (parameters, root) = match opcode {
        "cross-replica-sum" => (vec![first.clone(), first.clone()], Instruction::new("sum", OpKind::Add, first, SIDES)),
        "sort" => {
            let less = ArrayShape::new(ElementType::Pred, Vec::<i64>::new());
            let less = Instruction::new("less", OpKind::Compare, less, SIDES)
                .with_attributes(CompareAttributes::new(ComparisonDirection::Lt));
            (scalars.into_iter().flat_map(|scalar| [scalar.clone(), scalar]).collect(), less)
        }
        _ => return None,
    };
    let mut instructions: Vec<Instruction> = parameters
        .into_iter()
        .enumerate()
        .map(|(number, shape)| Instruction::parameter(format!("value.{number}"), Shape::from(shape), number))
        .collect();
    let parameters = (0..instructions.len() as u32).map(InstructionId).collect::<Vec<_>>();
    let root_id = InstructionId(parameters.len() as u32);
    instructions.push(root);
    Some(Computation { name, instructions, parameters, root: root_id, annotations: Vec::new() })
}

/// The first two parameters.
const SIDES: [InstructionId; 2] = [InstructionId(0), InstructionId(1)];
