//! `map`: a computation applied to the elements at each index.
//!
//! Source: operation semantics, "Map".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ProgramShape, Shape};

attributes! {
    /// Attributes of `map`.
    pub struct MapAttributes<'a> {
        /// All dimensions in order, or none.
        written dimensions: &'a [i64] = &[],
    }
}

/// Definition of `map`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Map,
    Arity::AtLeast(1),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Applied),
    infer_shape,
)
.with_attributes(MapAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: the operands have the same dimensions.
/// - C2: `dimensions`, where given and not empty, lists every dimension in order.
/// - C3: the computation takes one scalar of each operand's element type and returns a scalar.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let merged = view.merged_dimensions(Some("C1"), &(0..view.operands.len()).collect::<Vec<_>>())?;
    let MapAttributes { dimensions } = view.attributes()?;
    // An empty list stands for no list: XLA reads both.
    if !dimensions.is_empty() && !dimensions.iter().copied().eq(0..merged.rank() as i64) {
        let message = format!("must list the {} dimensions in order, got {dimensions:?}", merged.rank());
        return Err(view.attribute_error(Some("C2"), "dimensions", message));
    }
    let mut parameters = Vec::with_capacity(view.operands.len());
    for index in 0..view.operands.len() {
        parameters.push(Shape::scalar(view.array(index)?.element_type));
    }
    let found = &view.computation(0)?.result;
    let Some(result) = found.as_array().filter(|array| array.rank() == 0) else {
        return Err(view.error(Some("C3"), format!("the computation must return a scalar, got {found}")));
    };
    view.signature(Some("C3"), 0, &ProgramShape { parameters, result: Shape::scalar(result.element_type) })?;
    Ok(merged.with_element_type(result.element_type).into())
}
