//! `select-and-scatter(operand, source, initial value)`: selects one element of each window over the operand and
//! combines the window's source element into that place of the result.
//!
//! Source: operation semantics, "SelectAndScatter".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::WindowDimension;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `select-and-scatter`.
    pub struct SelectAndScatterAttributes<'a> {
        /// The window, by dimension.
        optional window: &'a [WindowDimension] = &[],
    }
}

/// Definition of `select-and-scatter`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::SelectAndScatter,
    Arity::Exactly(3),
    Facets::new(OpClass::Reduction, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Applied),
    infer_shape,
)
.with_attributes(SelectAndScatterAttributes::TABLE)
.with_computations(&[One("select"), One("scatter")]);

/// - C1: `select` compares two elements of the operand.
/// - C2: `scatter` is a reducer of the source's element type.
/// - C3: source and operand have the same element type.
/// - C4: the initial value is a scalar of the operand's element type.
/// - C5: `window` has one entry for each dimension of the operand.
/// - C6: sizes, strides and dilations are positive, and no size overflows.
/// - C7: the source has one element for each window.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, source, initial) = (view.array(0)?, view.array(1)?, view.array(2)?);
    view.comparator(Some("C1"), 0, &[operand.element_type])?;
    view.reducer(Some("C2"), 1, &[source.element_type])?;
    view.same_element_type(Some("C3"), 0, 1)?;
    if initial.rank() != 0 || initial.element_type != operand.element_type {
        let message = format!("must be a scalar {}, as operand 0, got {initial}", operand.element_type);
        return Err(view.operand_error(Some("C4"), 2, message));
    }
    let SelectAndScatterAttributes { window } = view.attributes()?;
    let windows = view.windowed(Some("C5"), Some("C6"), window, operand)?;
    if !source.same_dimensions(&windows) {
        return Err(view.operand_error(Some("C7"), 1, format!("must have shape {windows}, got {source}")));
    }
    Ok(operand.clone().into())
}
