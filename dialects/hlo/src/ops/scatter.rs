//! `scatter(operands…, indices, updates…)`: the operands with slices at run-time indices combined with updates;
//! updates that do not lie inside are left out.
//!
//! Source: operation semantics, "Scatter".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::gather::{BatchingDimensions, check_index_map, index_batch};
use super::signatures::bare_or_tuple;
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `scatter`.
    pub struct ScatterAttributes<'a> {
        /// Dimensions of the updates that a window has.
        required update_window_dims: &'a [i64],
        /// Operand dimensions of window size 1 that the updates do not have.
        required inserted_window_dims: &'a [i64],
        /// The operand dimension of each component of an index vector.
        required scatter_dims_to_operand_dims: &'a [i64],
        /// Operand dimensions that are paired with dimensions of the indices.
        optional input_batching_dims: &'a [i64] = &[],
        /// Dimensions of the indices that `input_batching_dims` are paired with.
        optional scatter_indices_batching_dims: &'a [i64] = &[],
        /// The dimension of the indices whose elements are an index vector; their rank for vectors of one.
        required index_vector_dim: i64,
        /// The index vectors are in increasing order.
        optional indices_are_sorted: bool = false,
        /// No element is updated twice.
        optional unique_indices: bool = false,
    }
}

/// Definition of `scatter`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Scatter,
    Arity::AtLeast(3),
    Facets::new(OpClass::Indexed, FusionRole::Update, Lowering::Kernel, Effects::None, ElementCost::Applied),
    infer_shape,
)
.with_attributes(ScatterAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: there are as many updates as operands, with one indices operand between them.
/// - C2: all operands have the same dimensions; so have all updates.
/// - C3: each update has the element type of its operand.
/// - C4: the indices are integers.
/// - C5: `index_vector_dim` is a dimension of the indices, or their rank.
/// - C6: `update_window_dims` are different dimensions of the updates in increasing order.
/// - C7: `inserted_window_dims` are different operand dimensions in increasing order.
/// - C8: `scatter_dims_to_operand_dims` maps each component of an index vector to a different operand dimension.
/// - C9: `input_batching_dims` are different operand dimensions in increasing order, none inserted or indexed.
/// - C10: `scatter_indices_batching_dims` are different dimensions of the indices, not `index_vector_dim`.
/// - C11: the two batching lists pair dimensions of the same size.
/// - C12: each operand dimension is a window, an inserted or a batching dimension.
/// - C13: the rank of the updates is that of the indices without index vectors plus the window's.
/// - C14: no window dimension of the updates is larger than its operand dimension.
/// - C15: the other dimensions of the updates have the sizes of the indices.
/// - C16: the computation is a reducer of the operands' element types.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let count = view.paired_operands(Some("C1"), 1)?;
    let (operand, indices, update) = (view.array(0)?, view.array(count)?, view.array(count + 1)?);
    let operand_numbers: Vec<usize> = (0..count).collect();
    let update_numbers: Vec<usize> = (count + 1..2 * count + 1).collect();
    view.merged_dimensions(Some("C2"), &operand_numbers)?;
    view.merged_dimensions(Some("C2"), &update_numbers)?;
    for (&number, &update) in operand_numbers.iter().zip(&update_numbers) {
        view.same_element_type(Some("C3"), number, update)?;
    }
    if !indices.element_type.is_integer() {
        return Err(view.operand_error(Some("C4"), count, format!("must have integer elements, got {indices}")));
    }
    let attributes: ScatterAttributes = view.attributes()?;
    let batch = index_batch(view, indices, Some("C5"), attributes.index_vector_dim)?;
    let window_dims = attributes.update_window_dims;
    let windows = view.dimension_indices(Some("C6"), "update_window_dims", window_dims, update.rank())?;
    view.distinct(Some("C6"), "update_window_dims", window_dims, true)?;
    let inserted = attributes.inserted_window_dims;
    view.dimension_indices(Some("C7"), "inserted_window_dims", inserted, operand.rank())?;
    view.distinct(Some("C7"), "inserted_window_dims", inserted, true)?;
    let map = attributes.scatter_dims_to_operand_dims;
    check_index_map(view, Some("C8"), "scatter_dims_to_operand_dims", map, batch.vector_size, operand.rank())?;
    let batching = BatchingDimensions {
        operand: attributes.input_batching_dims,
        operand_key: "input_batching_dims",
        indices: attributes.scatter_indices_batching_dims,
        indices_key: "scatter_indices_batching_dims",
        index_vector: attributes.index_vector_dim,
        others: [inserted, map],
    };
    batching.check(view, operand, indices, [Some("C9"), Some("C10"), Some("C11")])?;

    let window_sources: Vec<usize> = (0..operand.rank())
        .filter(|&dimension| !inserted.contains(&(dimension as i64)) && !batching.operand.contains(&(dimension as i64)))
        .collect();
    if window_sources.len() != windows.len() {
        let message = format!(
            "must have length {}, one for each operand dimension that is neither inserted nor batching, got {}",
            window_sources.len(),
            windows.len()
        );
        return Err(view.attribute_error(Some("C12"), "update_window_dims", message));
    }
    let expected_rank = batch.sizes.len() + windows.len();
    if update.rank() != expected_rank {
        return Err(view.operand_error(
            Some("C13"),
            count + 1,
            format!("must have rank {expected_rank}, got {update}"),
        ));
    }
    for (&source, &target) in window_sources.iter().zip(&windows) {
        let (whole, size) = (operand.dimensions[source], update.dimensions[target]);
        if size > whole {
            let message = format!("must not be larger than {whole} in dimension {target}, got {size}");
            return Err(view.operand_error(Some("C14"), count + 1, message));
        }
    }
    let scatter_dims = (0..update.rank()).filter(|dimension| !windows.contains(dimension));
    for (target, &(expected, _)) in scatter_dims.zip(&batch.sizes) {
        let found = update.dimensions[target];
        if found != expected {
            let message = format!("must have the indices' size {expected} in dimension {target}, got {found}");
            return Err(view.operand_error(Some("C15"), count + 1, message));
        }
    }
    let results = (0..count).map(|number| view.operand(number).cloned()).collect::<Result<Vec<Shape>, OpError>>()?;
    let element_types: Vec<ElementType> = results.iter().filter_map(Shape::as_array).map(|a| a.element_type).collect();
    view.reducer(Some("C16"), 0, &element_types)?;
    Ok(bare_or_tuple(results))
}
