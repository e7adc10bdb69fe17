//! Elementwise operations that a table row cannot say: attributes, operands of several types, another result type.

use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::op_kind::OpKind;
use hlo::ops::reduce_precision::ReducePrecisionAttributes;
use hlo::ops::typed_attributes::OperationAttributes;
use mlir_ext::builder::OpBuilder;

use super::{RegisterValue, compare, convert, float, integer, reduce_precision, stochastic, table};

/// Emits an operation on operands of equal lanes; `None` when it is not defined for them.
pub(super) type Emission =
    for<'c> fn(&OpBuilder<'c>, &Attributes, &[RegisterValue<'c>], ElementType) -> Option<RegisterValue<'c>>;

static SPECIAL: &[(OpKind, Emission)] = &[
    (OpKind::BitcastConvert, |builder, _, operands, result| {
        convert::bitcast_convert(builder, operands.first()?, result)
    }),
    (OpKind::Clamp, |builder, _, operands, _| clamp(builder, operands)),
    (OpKind::Compare, |builder, attributes, operands, _| {
        let comparison = compare::Comparison::from_attributes(attributes)?;
        compare::compare(builder, comparison, operands.first()?, operands.get(1)?)
    }),
    (OpKind::Complex, |builder, _, operands, _| {
        let (re, im) = (operands.first()?, operands.get(1)?);
        let element_type = re.element_type.complex_of()?;
        (re.element_type == im.element_type).then(|| RegisterValue::complex(builder, element_type, re.value, im.value))
    }),
    (OpKind::Convert, |builder, _, operands, result| convert::convert(builder, operands.first()?, result)),
    (OpKind::Copy, |_, _, operands, _| operands.first().copied()),
    (OpKind::Imag, |builder, _, operands, _| {
        let operand = operands.first()?;
        match operand.imaginary {
            Some(imaginary) => Some(RegisterValue::real(builder, operand.element_type.real_part(), imaginary)),
            None => {
                let zero = builder.float_like(operand.value, 0.0);
                let zero = table::bring_into_type(builder, operand.element_type, zero);
                operand.element_type.is_float().then(|| RegisterValue::real(builder, operand.element_type, zero))
            }
        }
    }),
    (OpKind::IsFinite, |builder, _, operands, _| {
        let operand = operands.first()?;
        let is_float = operand.element_type.class() == ElementClass::Float;
        is_float.then(|| RegisterValue::real(builder, ElementType::Pred, float::is_finite(builder, operand.value)))
    }),
    (OpKind::Real, |_, _, operands, _| {
        let operand = operands.first()?;
        Some(RegisterValue { element_type: operand.element_type.real_part(), imaginary: None, ..*operand })
    }),
    (OpKind::ReducePrecision, |builder, attributes, operands, _| {
        let format = ReducePrecisionAttributes::read(OpKind::ReducePrecision, attributes).ok()?;
        reduce_precision::reduce_precision(builder, operands.first()?, format.exponent_bits, format.mantissa_bits)
    }),
    (OpKind::Select, |builder, _, operands, _| select(builder, operands.first()?, operands.get(1)?, operands.get(2)?)),
    (OpKind::StochasticConvert, |builder, _, operands, result| {
        stochastic::stochastic_convert(builder, operands.first()?, operands.get(1)?, result)
    }),
];

/// The emission of a special operation.
pub(super) fn find(kind: OpKind) -> Option<Emission> {
    SPECIAL.iter().find(|row| row.0 == kind).map(|row| row.1)
}

/// min(max(x, low), high) of the operands (low, x, high).
fn clamp<'c>(builder: &OpBuilder<'c>, operands: &[RegisterValue<'c>]) -> Option<RegisterValue<'c>> {
    let [low, value, high] = operands else { return None };
    let raised = table::emit(builder, OpKind::Maximum, &[*value, *low])?;
    table::emit(builder, OpKind::Minimum, &[raised, *high])
}

/// `if_true` where the predicate is true, else `if_false`.
fn select<'c>(
    builder: &OpBuilder<'c>,
    predicate: &RegisterValue<'c>,
    if_true: &RegisterValue<'c>,
    if_false: &RegisterValue<'c>,
) -> Option<RegisterValue<'c>> {
    if predicate.element_type != ElementType::Pred || if_true.element_type != if_false.element_type {
        return None;
    }
    // A select of masks would first become one of bytes.
    let of_masks = |a, b| {
        let is_false = integer::not(builder, ElementType::Pred, &[predicate.value]);
        builder.ori(builder.andi(predicate.value, a), builder.andi(is_false, b))
    };
    let parts: Vec<_> = if_true
        .values()
        .into_iter()
        .zip(if_false.values())
        .map(|(a, b)| match if_true.element_type {
            ElementType::Pred => of_masks(a, b),
            _ => builder.select(predicate.value, a, b),
        })
        .collect();
    Some(if_true.with_values(&parts))
}
