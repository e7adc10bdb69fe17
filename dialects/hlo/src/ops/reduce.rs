//! `reduce(inputs…, initial values…)`: combines the elements along dimensions; several inputs at once.
//!
//! Source: operation semantics, "Reduce".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::signatures::bare_or_tuple;
use super::typed_attributes::{OperationAttributes, attributes};
use super::view::Label;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `reduce`.
    pub struct ReduceAttributes<'a> {
        /// The dimensions that are combined.
        written dimensions: &'a [i64] = &[],
    }
}

/// Definition of `reduce`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Reduce,
    Arity::AtLeast(2),
    Facets::new(OpClass::Reduction, FusionRole::Reduction, Lowering::Loops, Effects::None, ElementCost::Applied),
    infer_shape,
)
.with_attributes(ReduceAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: there are as many initial values as inputs.
/// - C2: the inputs have the same dimensions.
/// - C3: each initial value is a scalar of its input's element type.
/// - C4: the computation is a reducer of the inputs' element types.
/// - C5: each entry of `dimensions` is a dimension of the inputs.
/// - C6: no entry repeats.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (merged, element_types) = reduced_inputs(view, [Some("C1"), Some("C2"), Some("C3"), Some("C4")])?;
    let ReduceAttributes { dimensions } = view.attributes()?;
    let reduced = view.dimension_indices(Some("C5"), "dimensions", dimensions, merged.rank())?;
    view.distinct(Some("C6"), "dimensions", dimensions, false)?;
    let kept: Vec<usize> = (0..merged.rank()).filter(|dimension| !reduced.contains(dimension)).collect();
    let result = super::transpose::permuted(&merged, &kept);
    Ok(bare_or_tuple(element_types.iter().map(|&t| result.with_element_type(t).into()).collect()))
}

/// Checks inputs, initial values and reducer (labels in this order: counts, dimensions, initial values, reducer);
/// returns the inputs' dimensions and element types.
pub(super) fn reduced_inputs(view: &OpView<'_>, labels: [Label; 4]) -> Result<(ArrayShape, Vec<ElementType>), OpError> {
    let count = view.paired_operands(labels[0], 0)?;
    let merged = view.merged_dimensions(labels[1], &(0..count).collect::<Vec<_>>())?;
    let mut element_types = Vec::with_capacity(count);
    for index in 0..count {
        let (element_type, initial) = (view.array(index)?.element_type, view.array(count + index)?);
        if initial.rank() != 0 || initial.element_type != element_type {
            let message = format!("must be a scalar {element_type}, as operand {index}, got {initial}");
            return Err(view.operand_error(labels[2], count + index, message));
        }
        element_types.push(element_type);
    }
    view.reducer(labels[3], 0, &element_types)?;
    Ok((merged, element_types))
}
