//! `broadcast`: adds dimensions by repeating the operand. `dimensions[i]` is the result dimension of operand
//! dimension i; sizes do not change (a builder's expansion of size 1 is a reshape before it).
//!
//! Source: operation semantics, "Broadcast", "BroadcastInDim"; the result shape is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `broadcast`.
    pub struct BroadcastAttributes<'a> {
        /// The result dimension of each operand dimension.
        written dimensions: &'a [i64] = &[],
    }
}

/// Definition of `broadcast`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Broadcast,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(BroadcastAttributes::TABLE);

/// - C1: `dimensions` has one entry for each operand dimension.
/// - C2: each entry is a dimension of the result.
/// - C3: no entry repeats.
/// - C4: the size of each operand dimension is that of its result dimension.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, result) = (view.array(0)?, view.declared_array()?);
    let BroadcastAttributes { dimensions } = view.attributes()?;
    if dimensions.len() != operand.rank() {
        let message =
            format!("must have length {}, one for each operand dimension, got {}", operand.rank(), dimensions.len());
        return Err(view.attribute_error(Some("C1"), "dimensions", message));
    }
    let targets = view.dimension_indices(Some("C2"), "dimensions", dimensions, result.rank())?;
    view.distinct(Some("C3"), "dimensions", dimensions, false)?;
    let mut inferred = result.with_element_type(operand.element_type);
    for (source, &target) in targets.iter().enumerate() {
        let (expected, found) = (operand.dimensions[source], result.dimensions[target]);
        if expected != found {
            let message = format!(
                "maps operand dimension {source} of size {expected} to result dimension {target} of size {found}"
            );
            return Err(view.attribute_error(Some("C4"), "dimensions", message));
        }
        if operand.is_dynamic_dimension(source) {
            inferred.set_dynamic_dimension(target, true);
        }
    }
    Ok(inferred.into())
}
