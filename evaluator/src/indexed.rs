//! Operations that read or write at positions found in other operands: dynamic slices and gather.

use super::EvalFailure;
use super::data::{advance, build, row_major_strides, sizes};
use super::movement::read_strided;
use super::strided::{self, Side};
use hlo::literal::ArrayLiteral;
use hlo::ops::gather::GatherAttributes;
use hlo::scalar::load;
use hlo::shape::ArrayShape;

/// Start indices given as scalars, or as one rank-1 array (2017 edition), clamped so that the box lies inside.
fn clamped_starts(
    starts: &[&ArrayLiteral],
    operand: &ArrayShape,
    box_sizes: &[usize],
) -> Result<Vec<usize>, EvalFailure> {
    let values: Vec<i64> = match starts {
        [vector] if vector.shape().rank() == 1 => (0..vector.shape().element_count() as usize)
            .map(|index| load(vector.element_type(), vector.bytes(), index).to_index())
            .collect(),
        _ => starts.iter().map(|start| load(start.element_type(), start.bytes(), 0).to_index()).collect(),
    };
    if values.len() != operand.rank() || box_sizes.len() != operand.rank() {
        return Err(EvalFailure::malformed(format!("{} start indices for rank {}", values.len(), operand.rank())));
    }
    Ok(values
        .iter()
        .zip(&operand.dimensions)
        .zip(box_sizes)
        .map(|((&start, &size), &extent)| start.clamp(0, (size - extent as i64).max(0)) as usize)
        .collect())
}

fn offset_by(side: &mut Side, starts: &[usize]) {
    side.base += side.strides.iter().zip(starts).map(|(&stride, &start)| stride * start as isize).sum::<isize>();
}

/// The box of the result's sizes that starts at the clamped indices ("DynamicSlice").
pub(super) fn dynamic_slice(
    operand: &ArrayLiteral,
    starts: &[&ArrayLiteral],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let starts = clamped_starts(starts, operand.shape(), &sizes(&result.dimensions))?;
    let mut from = Side::dense(&sizes(&operand.shape().dimensions));
    offset_by(&mut from, &starts);
    read_strided(operand, &from, result)
}

/// The operand with a box replaced, at the clamped indices ("DynamicUpdateSlice"). Data that nobody else holds is
/// written in place.
pub(super) fn dynamic_update_slice(
    mut operand: ArrayLiteral,
    update: &ArrayLiteral,
    starts: &[&ArrayLiteral],
) -> Result<ArrayLiteral, EvalFailure> {
    let box_sizes = sizes(&update.shape().dimensions);
    let starts = clamped_starts(starts, operand.shape(), &box_sizes)?;
    let mut to = Side::dense(&sizes(&operand.shape().dimensions));
    offset_by(&mut to, &starts);
    let width = update.element_type().byte_width();
    strided::copy(width, &box_sizes, update.bytes(), &Side::dense(&box_sizes), operand.bytes_mut(), &to);
    Ok(operand)
}

/// Where gather and scatter find the start index of a slice, and where in the operand it points.
pub(super) struct IndexVectors<'a> {
    indices: &'a ArrayLiteral,
    strides: Vec<usize>,
    /// Stride and count of the components of an index vector.
    vector_stride: usize,
    vector_size: usize,
    /// Dimensions of `indices` other than the index vector's, with their sizes.
    batch_dimensions: Vec<usize>,
    pub(super) batch_sizes: Vec<usize>,
    /// Component `k` of an index vector is an index of operand dimension `map[k]`.
    map: &'a [i64],
    /// Operand dimension and the batch position whose index it takes (batching dimensions).
    batching: Vec<(usize, usize)>,
}

impl<'a> IndexVectors<'a> {
    pub(super) fn new(
        indices: &'a ArrayLiteral,
        index_vector_dim: i64,
        map: &'a [i64],
        operand_batching: &[i64],
        indices_batching: &[i64],
    ) -> IndexVectors<'a> {
        let index_sizes = sizes(&indices.shape().dimensions);
        let strides = row_major_strides(&index_sizes);
        let vector = index_vector_dim as usize;
        let batch_dimensions: Vec<usize> = (0..index_sizes.len()).filter(|&d| d != vector).collect();
        let batching = operand_batching
            .iter()
            .zip(indices_batching)
            .filter_map(|(&operand, &indices)| {
                let position = batch_dimensions.iter().position(|&d| d as i64 == indices)?;
                Some((usize::try_from(operand).ok()?, position))
            })
            .collect();
        IndexVectors {
            // When the index vector dimension is the rank, each element is an index vector of size 1.
            vector_stride: strides.get(vector).map_or(0, |&stride| stride),
            vector_size: index_sizes.get(vector).map_or(1, |&size| size),
            batch_sizes: batch_dimensions.iter().map(|&d| index_sizes[d]).collect(),
            batch_dimensions,
            strides,
            indices,
            map,
            batching,
        }
    }

    /// Start index in the operand ("S_in" of the document) of the slice at a batch index.
    pub(super) fn start(&self, batch: &[usize], rank: usize) -> Result<Vec<i64>, EvalFailure> {
        let base: usize = self.batch_dimensions.iter().zip(batch).map(|(&d, &i)| self.strides[d] * i).sum();
        let mut start = vec![0i64; rank];
        for (component, &dimension) in self.map.iter().enumerate().take(self.vector_size) {
            let value = load(self.indices.element_type(), self.indices.bytes(), base + component * self.vector_stride);
            *start
                .get_mut(dimension as usize)
                .ok_or_else(|| EvalFailure::malformed(format!("the operand has no dimension {dimension}")))? =
                value.to_index();
        }
        for &(dimension, position) in &self.batching {
            if let Some(start) = start.get_mut(dimension) {
                *start = batch[position] as i64;
            }
        }
        Ok(start)
    }
}

/// Slices of the operand at the positions in `indices`, put together ("Gather"). Start indices are clamped.
pub(super) fn gather(
    operand: &ArrayLiteral,
    indices: &ArrayLiteral,
    attributes: &GatherAttributes<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let operand_sizes = sizes(&operand.shape().dimensions);
    let operand_strides = row_major_strides(&operand_sizes);
    let result_sizes = sizes(&result.dimensions);
    let result_strides = row_major_strides(&result_sizes);
    let slice_sizes = sizes(attributes.slice_sizes);
    let offset_dims = attributes.offset_dims;
    let collapsed = attributes.collapsed_slice_dims;
    let operand_batching = attributes.operand_batching_dims;
    let vectors = IndexVectors::new(
        indices,
        attributes.index_vector_dim,
        attributes.start_index_map,
        operand_batching,
        attributes.start_indices_batching_dims,
    );
    // Operand dimensions that stay in the result, in order, go to the offset dimensions, in order.
    let offset_operand_dims: Vec<usize> = (0..operand_sizes.len())
        .filter(|&d| !collapsed.contains(&(d as i64)) && !operand_batching.contains(&(d as i64)))
        .collect();
    let batch_dims: Vec<usize> = (0..result_sizes.len()).filter(|&d| !offset_dims.contains(&(d as i64))).collect();
    if slice_sizes.len() != operand_sizes.len()
        || offset_operand_dims.len() != offset_dims.len()
        || batch_dims.len() != vectors.batch_sizes.len()
        || offset_dims.iter().any(|&d| d < 0 || d as usize >= result_sizes.len())
    {
        return Err(EvalFailure::malformed("the dimension numbers do not fit the operands"));
    }
    let box_sizes: Vec<usize> = offset_operand_dims.iter().map(|&d| slice_sizes[d]).collect();
    let mut from =
        Side { base: 0, strides: offset_operand_dims.iter().map(|&d| operand_strides[d] as isize).collect() };
    let mut to = Side { base: 0, strides: offset_dims.iter().map(|&d| result_strides[d as usize] as isize).collect() };
    let width = result.element_type.byte_width();
    build::<u8>(result, |target| {
        if result_sizes.contains(&0) {
            return Ok(());
        }
        let mut batch = vec![0usize; vectors.batch_sizes.len()];
        loop {
            let start = vectors.start(&batch, operand_sizes.len())?;
            from.base = 0;
            for (d, &start) in start.iter().enumerate() {
                let last = operand_sizes[d] as i64 - slice_sizes[d] as i64;
                from.base += (start.clamp(0, last.max(0)) as usize * operand_strides[d]) as isize;
            }
            to.base = batch_dims.iter().zip(&batch).map(|(&d, &i)| (result_strides[d] * i) as isize).sum();
            strided::copy(width, &box_sizes, operand.bytes(), &from, target, &to);
            if !advance(&mut batch, &vectors.batch_sizes) {
                return Ok(());
            }
        }
    })
}
