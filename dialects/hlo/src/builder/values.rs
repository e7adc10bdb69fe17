//! Where values come from: parameters, constants, iota, tuples.

use super::{Draft, Fault, HloBuilder, Number, Op};
use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::ops::broadcast::BroadcastAttributes;
use crate::ops::constant::ConstantAttributes;
use crate::ops::get_dimension_size::GetDimensionSizeAttributes;
use crate::ops::get_tuple_element::GetTupleElementAttributes;
use crate::ops::iota::IotaAttributes;
use crate::ops::parameter::ParameterAttributes;
use crate::ops::set_dimension_size::SetDimensionSizeAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::{ArrayShape, Shape};

impl HloBuilder {
    /// Parameter `number` of the computation, counted from 0.
    #[track_caller]
    pub fn parameter<'b>(&'b self, number: i64, shape: impl Into<Shape>, name: &str) -> Op<'b> {
        // A number beyond u16 is a mistake, and a list of that many parameters is not made for it.
        let Some(position) = u16::try_from(number).ok().map(usize::from) else {
            return self.fail(Fault::Parameter(format!("a parameter's number must be in 0..65536, got {number}")));
        };
        if self.parts.borrow().parameters.get(position).is_some_and(Option::is_some) {
            return self.fail(Fault::Parameter(format!("parameter {number} is there already")));
        }
        let op = self.push(
            Draft::new(OpKind::Parameter, &[])
                .with_attributes(ParameterAttributes { parameter_number: number })
                .declared(shape),
        );
        if let Some(id) = op.id() {
            let mut parts = self.parts.borrow_mut();
            if parts.parameters.len() <= position {
                parts.parameters.resize(position + 1, None);
            }
            parts.parameters[position] = Some(id);
            if !name.is_empty() {
                parts.instructions[id.index()].name = name.to_string();
            }
        }
        op
    }

    /// A constant: a scalar, a nested array (`[[1f32, 2.], [3., 4.]]`) or any [`Literal`].
    #[track_caller]
    pub fn constant<'b>(&'b self, value: impl Into<Literal>) -> Op<'b> {
        self.push(Draft::new(OpKind::Constant, &[]).with_attributes(ConstantAttributes { value: &value.into() }))
    }

    /// A scalar of the element type of `like`, an array.
    #[track_caller]
    pub fn number_like<'b>(&'b self, like: Op<'b>, number: impl Into<Number>) -> Op<'b> {
        let Some(array) = self.array_of("a number", like) else { return self.nothing() };
        match number.into().literal(array.element_type) {
            Ok(literal) => self.constant(literal),
            Err(fault) => self.fail(fault),
        }
    }

    /// Counts from 0 along a dimension of an array of the given shape.
    #[track_caller]
    pub fn iota<'b>(&'b self, shape: impl Into<Shape>, dimension: i64) -> Op<'b> {
        self.push(
            Draft::new(OpKind::Iota, &[]).with_attributes(IotaAttributes { iota_dimension: dimension }).declared(shape),
        )
    }

    /// Several values as one.
    #[track_caller]
    pub fn tuple<'b>(&'b self, elements: &[Op<'b>]) -> Op<'b> {
        self.push(Draft::new(OpKind::Tuple, elements))
    }

    /// Element `index` of a tuple.
    #[track_caller]
    pub fn get_tuple_element<'b>(&'b self, tuple: Op<'b>, index: i64) -> Op<'b> {
        self.push(Draft::new(OpKind::GetTupleElement, &[tuple]).with_attributes(GetTupleElementAttributes { index }))
    }

    /// A copy of a value.
    #[track_caller]
    pub fn copy<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
        self.push(Draft::new(OpKind::Copy, &[operand]))
    }

    /// The run-time size of a dimension, as `s32`.
    #[track_caller]
    pub fn get_dimension_size<'b>(&'b self, operand: Op<'b>, dimension: i64) -> Op<'b> {
        self.push(
            Draft::new(OpKind::GetDimensionSize, &[operand])
                .with_attributes(GetDimensionSizeAttributes { dimensions: Dimension(dimension) }),
        )
    }

    /// Gives a dimension a run-time size, an `s32` scalar; the size it has becomes its bound.
    #[track_caller]
    pub fn set_dimension_size<'b>(&'b self, operand: Op<'b>, size: Op<'b>, dimension: i64) -> Op<'b> {
        self.push(
            Draft::new(OpKind::SetDimensionSize, &[operand, size])
                .with_attributes(SetDimensionSizeAttributes { dimensions: Dimension(dimension) }),
        )
    }

    /// The value everywhere in an array of the given dimensions.
    #[track_caller]
    pub(super) fn splat<'b>(&'b self, scalar: Op<'b>, like: &ArrayShape) -> Op<'b> {
        let Some(array) = self.array_of("broadcast", scalar) else { return self.nothing() };
        let shape = ArrayShape { layout: None, ..like.with_element_type(array.element_type) };
        self.push(
            Draft::new(OpKind::Broadcast, &[scalar])
                .with_attributes(BroadcastAttributes { dimensions: &[] })
                .declared(shape),
        )
    }
}
