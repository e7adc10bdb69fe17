//! `slice`: a box of the operand, with strides.
//!
//! Source: operation semantics, "Slice".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::SliceDimension;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `slice`.
    pub struct SliceAttributes<'a> {
        /// The range, by dimension.
        required slice: &'a [SliceDimension],
    }
}

impl SliceAttributes<'_> {
    /// First indices and strides, by dimension.
    pub fn starts_and_strides(&self) -> (Vec<i64>, Vec<i64>) {
        self.slice.iter().map(|dimension| (dimension.start, dimension.stride)).unzip()
    }
}

/// Definition of `slice`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Slice,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(SliceAttributes::TABLE);

/// - C1: `slice` has one range for each operand dimension.
/// - C2: 0 <= start <= limit <= size.
/// - C3: strides are positive.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let SliceAttributes { slice: ranges } = view.attributes()?;
    if ranges.len() != operand.rank() {
        let message =
            format!("must have length {}, one range for each operand dimension, got {}", operand.rank(), ranges.len());
        return Err(view.attribute_error(Some("C1"), "slice", message));
    }
    let mut result = operand.clone();
    for (dimension, range) in ranges.iter().enumerate() {
        let size = operand.dimensions[dimension];
        if range.start < 0 || range.start > range.limit || range.limit > size {
            let message = format!(
                "must be a range within 0..{size} in dimension {dimension}, got [{}:{}]",
                range.start, range.limit
            );
            return Err(view.attribute_error(Some("C2"), "slice", message));
        }
        if range.stride < 1 {
            let message = format!("must have a positive stride in dimension {dimension}, got {}", range.stride);
            return Err(view.attribute_error(Some("C3"), "slice", message));
        }
        let length = range.limit - range.start;
        result.dimensions[dimension] = length / range.stride + i64::from(length % range.stride != 0);
        if result.dimensions[dimension] == 1 {
            result.set_dynamic_dimension(dimension, false);
        }
    }
    Ok(result.into())
}
