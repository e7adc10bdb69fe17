//! `dynamic-slice(operand, start0, start1, …)`: a box of fixed sizes at run-time indices, moved to lie inside.
//!
//! Source: operation semantics, "DynamicSlice". The 2017 edition's single rank-1 start operand is accepted too.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `dynamic-slice`.
    pub struct DynamicSliceAttributes<'a> {
        /// Sizes of the box.
        required dynamic_slice_sizes: &'a [i64],
    }
}

/// Definition of `dynamic-slice`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::DynamicSlice,
    Arity::AtLeast(1),
    Facets::new(OpClass::Indexed, FusionRole::Lookup, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(DynamicSliceAttributes::TABLE);

/// - C1: the start indices are one integer scalar for each operand dimension, or one array of so many integers.
/// - C2: the start indices have the same element type.
/// - C3: `dynamic_slice_sizes` has one entry for each operand dimension.
/// - C4: 0 <= slice size <= operand size.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    check_start_indices(view, operand, 1)?;
    let DynamicSliceAttributes { dynamic_slice_sizes: sizes } = view.attributes()?;
    if sizes.len() != operand.rank() {
        let message =
            format!("must have length {}, one for each operand dimension, got {}", operand.rank(), sizes.len());
        return Err(view.attribute_error(Some("C3"), "dynamic_slice_sizes", message));
    }
    let mut result = operand.clone();
    for (dimension, &size) in sizes.iter().enumerate() {
        let whole = operand.dimensions[dimension];
        if size < 0 || size > whole {
            let message = format!("must be in 0..={whole} in dimension {dimension}, got {size}");
            return Err(view.attribute_error(Some("C4"), "dynamic_slice_sizes", message));
        }
        result.dimensions[dimension] = size;
        if size != whole || size == 1 {
            result.set_dynamic_dimension(dimension, false);
        }
    }
    Ok(result.into())
}

/// The start indices are the operands from number `first` on (C1, C2 of both operations that have them).
pub(super) fn check_start_indices(view: &OpView<'_>, operand: &ArrayShape, first: usize) -> Result<(), OpError> {
    let rank = operand.rank();
    let count = view.operands.len().saturating_sub(first);
    if count == 1 && view.array(first)?.rank() == 1 {
        let indices = view.array(first)?;
        if indices.dimensions != [rank as i64] || !indices.element_type.is_integer() {
            let message = format!("must be an array of {rank} integers, one for each operand dimension, got {indices}");
            return Err(view.operand_error(Some("C1"), first, message));
        }
        return Ok(());
    }
    if count != rank {
        let message = format!("takes one start index for each of {rank} operand dimensions, got {count}");
        return Err(view.error(Some("C1"), message));
    }
    for index in first..view.operands.len() {
        view.integer_scalar(index, Some("C1"))?;
        view.same_element_type(Some("C2"), first, index)?;
    }
    Ok(())
}
