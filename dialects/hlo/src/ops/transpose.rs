//! `transpose`: permutes dimensions; result dimension i is operand dimension `dimensions[i]`.
//!
//! Source: operation semantics, "Transpose".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `transpose`.
    pub struct TransposeAttributes<'a> {
        /// The operand dimension of each result dimension.
        required dimensions: &'a [i64],
    }
}

/// Definition of `transpose`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Transpose,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(TransposeAttributes::TABLE);

/// - C1: `dimensions` has one entry for each operand dimension.
/// - C2: `dimensions` is a permutation.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let TransposeAttributes { dimensions } = view.attributes()?;
    let rank = operand.rank();
    if dimensions.len() != rank {
        let message = format!("must have length {rank}, one for each operand dimension, got {}", dimensions.len());
        return Err(view.attribute_error(Some("C1"), "dimensions", message));
    }
    let mut sorted = dimensions.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank as i64) {
        let message = format!("must be a permutation of 0..{rank}, got {dimensions:?}");
        return Err(view.attribute_error(Some("C2"), "dimensions", message));
    }
    let sources = view.dimension_indices(Some("C2"), "dimensions", dimensions, rank)?;
    Ok(permuted(operand, &sources).into())
}

/// Shape whose dimension i is dimension `sources[i]` of `shape`; each source is a dimension of it.
pub fn permuted(shape: &ArrayShape, sources: &[usize]) -> ArrayShape {
    let sizes: Vec<i64> = sources.iter().map(|&source| shape.dimensions[source]).collect();
    let mut result = ArrayShape::new(shape.element_type, sizes);
    for (target, &source) in sources.iter().enumerate() {
        if shape.is_dynamic_dimension(source) {
            result.set_dynamic_dimension(target, true);
        }
    }
    result
}
