//! `pad(operand, value)`: adds elements at the edges and between neighbours, or removes them at the edges.
//!
//! Source: operation semantics, "Pad".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::window::dilated_size;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::PaddingDimension;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `pad`.
    pub struct PadAttributes<'a> {
        /// What is added or removed, by dimension.
        required padding: &'a [PaddingDimension],
    }
}

impl PadAttributes<'_> {
    /// Elements added before the first and between neighbours, by dimension.
    pub fn low_and_interior(&self) -> (Vec<i64>, Vec<i64>) {
        self.padding.iter().map(|dimension| (dimension.low, dimension.interior)).unzip()
    }
}

/// Definition of `pad`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Pad,
    Arity::Exactly(2),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(PadAttributes::TABLE);

/// - C1: the padding value is a scalar.
/// - C2: the padding value has the operand's element type.
/// - C3: `padding` has one entry for each operand dimension.
/// - C4: interior padding is not negative.
/// - C5: no result size is negative or overflows.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, value) = (view.array(0)?, view.array(1)?);
    if value.rank() != 0 {
        return Err(view.operand_error(Some("C1"), 1, format!("must be a scalar, got {value}")));
    }
    view.same_element_type(Some("C2"), 0, 1)?;
    let PadAttributes { padding } = view.attributes()?;
    // A scalar is padded by nothing, which text cannot spell otherwise than by an empty value.
    if padding.len() != operand.rank() {
        let message =
            format!("must have length {}, one for each operand dimension, got {}", operand.rank(), padding.len());
        return Err(view.attribute_error(Some("C3"), "padding", message));
    }
    let mut result = operand.clone();
    for (dimension, entry) in padding.iter().enumerate() {
        if entry.interior < 0 {
            let message =
                format!("must have interior padding of at least 0 in dimension {dimension}, got {}", entry.interior);
            return Err(view.attribute_error(Some("C4"), "padding", message));
        }
        match padded_size(operand.dimensions[dimension], entry) {
            Some(size) if size >= 0 => result.dimensions[dimension] = size,
            _ => {
                let message = format!(
                    "{}_{}_{} gives no valid size in dimension {dimension} of size {}",
                    entry.low, entry.high, entry.interior, operand.dimensions[dimension]
                );
                return Err(view.attribute_error(Some("C5"), "padding", message));
            }
        }
    }
    Ok(result.into())
}

/// Size of a padded dimension, negative when more is removed than there is; `None` when it overflows.
pub fn padded_size(size: i64, padding: &PaddingDimension) -> Option<i64> {
    dilated_size(size, padding.interior.checked_add(1)?)?.checked_add(padding.low)?.checked_add(padding.high)
}
