//! Operations that move elements to other places: broadcasts, reshapes, slices, padding, concatenation.

use super::{Draft, HloBuilder, Op};
use crate::attributes::{PaddingDimension, SliceDimension};
use crate::op_kind::OpKind;
use crate::ops::broadcast::BroadcastAttributes;
use crate::ops::concatenate::ConcatenateAttributes;
use crate::ops::pad::PadAttributes;
use crate::ops::reverse::ReverseAttributes;
use crate::ops::slice::SliceAttributes;
use crate::ops::transpose::TransposeAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::ArrayShape;

impl HloBuilder {
    /// New dimensions of the given sizes, on the left.
    #[track_caller]
    pub fn broadcast<'b>(&'b self, operand: Op<'b>, sizes: &[i64]) -> Op<'b> {
        let Some(array) = self.array_of("broadcast", operand) else { return self.nothing() };
        let dimensions = [sizes, &array.dimensions].concat();
        let kept: Vec<i64> = (sizes.len() as i64..dimensions.len() as i64).collect();
        let result = ArrayShape::new(array.element_type, dimensions);
        self.push(
            Draft::new(OpKind::Broadcast, &[operand])
                .with_attributes(BroadcastAttributes { dimensions: &kept })
                .declared(result),
        )
    }

    /// The operand in an array of the given sizes: its dimension i becomes dimension `broadcast_dimensions[i]`; where its
    /// size is 1, it is repeated.
    #[track_caller]
    pub fn broadcast_in_dim<'b>(&'b self, operand: Op<'b>, sizes: &[i64], broadcast_dimensions: &[i64]) -> Op<'b> {
        let method = "broadcast_in_dim";
        let Some(array) = self.array_of(method, operand) else { return self.nothing() };
        if broadcast_dimensions.len() != array.rank() {
            let message = format!("takes one dimension for each of {array}, got {broadcast_dimensions:?}");
            return self.fail_rule(method, message);
        }
        for (source, &target) in broadcast_dimensions.iter().enumerate() {
            let size = usize::try_from(target).ok().and_then(|target| sizes.get(target));
            let Some(&size) = size else {
                let message = format!("takes dimensions in 0..{}, got {broadcast_dimensions:?}", sizes.len());
                return self.fail_rule(method, message);
            };
            let found = array.dimensions[source];
            if found != size && found != 1 {
                let message = format!(
                    "cannot make dimension {source} of {array} dimension {target} of {sizes:?}: not 1 or {size}"
                );
                return self.fail_rule(method, message);
            }
        }
        if broadcast_dimensions.windows(2).any(|pair| pair[0] >= pair[1]) {
            return self.fail_rule(method, format!("takes increasing dimensions, got {broadcast_dimensions:?}"));
        }
        self.expand(operand, &array, sizes, broadcast_dimensions)
    }

    /// Consecutive dimensions as one, in their place.
    #[track_caller]
    pub fn collapse<'b>(&'b self, operand: Op<'b>, dimensions: &[i64]) -> Op<'b> {
        let Some(array) = self.array_of("collapse", operand) else { return self.nothing() };
        let Some((&first, _)) = dimensions.split_first() else { return operand };
        let end = first.saturating_add(dimensions.len() as i64);
        if first < 0 || end > array.rank() as i64 || !dimensions.iter().copied().eq(first..end) {
            let message = format!("takes consecutive dimensions of {array} in order, got {dimensions:?}");
            return self.fail_rule("collapse", message);
        }
        let (first, end) = (first as usize, end as usize);
        let mut sizes = array.dimensions[..first].to_vec();
        sizes.push(array.dimensions[first..end].iter().copied().fold(1, i64::saturating_mul));
        sizes.extend(&array.dimensions[end..]);
        self.reshape(operand, &sizes)
    }

    /// The same elements, in row-major order, under other dimensions.
    #[track_caller]
    pub fn reshape<'b>(&'b self, operand: Op<'b>, sizes: &[i64]) -> Op<'b> {
        match self.array_of("reshape", operand) {
            Some(array) => {
                let result = ArrayShape::new(array.element_type, sizes);
                self.push(Draft::new(OpKind::Reshape, &[operand]).declared(result))
            }
            None => self.nothing(),
        }
    }

    /// The elements in the order of loops over `dimensions`, outermost first, under other dimensions (2017's Reshape
    /// with `dimensions`): a transpose, then a reshape.
    #[track_caller]
    pub fn reshape_in_order<'b>(&'b self, operand: Op<'b>, dimensions: &[i64], sizes: &[i64]) -> Op<'b> {
        self.reshape(self.transpose(operand, dimensions), sizes)
    }

    /// A reshape to sizes known at run time, one scalar for each dimension; `shape` has the bounds.
    #[track_caller]
    pub fn dynamic_reshape<'b>(&'b self, operand: Op<'b>, sizes: &[Op<'b>], shape: ArrayShape) -> Op<'b> {
        let operands = [&[operand], sizes].concat();
        self.push(Draft::new(OpKind::DynamicReshape, &operands).declared(shape))
    }

    /// The dimensions permuted: result dimension i is operand dimension `permutation[i]`.
    #[track_caller]
    pub fn transpose<'b>(&'b self, operand: Op<'b>, permutation: &[i64]) -> Op<'b> {
        self.push(
            Draft::new(OpKind::Transpose, &[operand]).with_attributes(TransposeAttributes { dimensions: permutation }),
        )
    }

    /// The elements in reverse order along dimensions.
    #[track_caller]
    pub fn rev<'b>(&'b self, operand: Op<'b>, dimensions: &[i64]) -> Op<'b> {
        self.push(Draft::new(OpKind::Reverse, &[operand]).with_attributes(ReverseAttributes { dimensions }))
    }

    /// The elements from `start` to before `limit` in steps of `strides`, by dimension; no strides for steps of 1.
    #[track_caller]
    pub fn slice<'b>(&'b self, operand: Op<'b>, start: &[i64], limit: &[i64], strides: &[i64]) -> Op<'b> {
        if start.len() != limit.len() || (!strides.is_empty() && strides.len() != start.len()) {
            let message = format!("takes lists of the same length, got {start:?}, {limit:?}, {strides:?}");
            return self.fail_rule("slice", message);
        }
        let ranges: Vec<SliceDimension> = (0..start.len())
            .map(|dimension| SliceDimension {
                start: start[dimension],
                limit: limit[dimension],
                stride: strides.get(dimension).map_or(1, |&stride| stride),
            })
            .collect();
        self.push(Draft::new(OpKind::Slice, &[operand]).with_attributes(SliceAttributes { slice: &ranges }))
    }

    /// A slice along one dimension.
    #[track_caller]
    pub fn slice_in_dim<'b>(&'b self, operand: Op<'b>, start: i64, limit: i64, stride: i64, dimension: i64) -> Op<'b> {
        let Some(array) = self.array_of("slice_in_dim", operand) else { return self.nothing() };
        let Some(position) = usize::try_from(dimension).ok().filter(|&position| position < array.rank()) else {
            return self.fail_rule("slice_in_dim", format!("takes a dimension of {array}, got {dimension}"));
        };
        let (mut starts, mut limits) = (vec![0; array.rank()], array.dimensions.clone());
        let mut strides = vec![1; array.rank()];
        (starts[position], limits[position], strides[position]) = (start, limit, stride);
        self.slice(operand, &starts, &limits, &strides)
    }

    /// Elements of value `padding_value` added at the edges (removed where negative) and between neighbours.
    #[track_caller]
    pub fn pad<'b>(&'b self, operand: Op<'b>, padding_value: Op<'b>, padding: &[PaddingDimension]) -> Op<'b> {
        self.push(Draft::new(OpKind::Pad, &[operand, padding_value]).with_attributes(PadAttributes { padding }))
    }

    /// Arrays joined along a dimension.
    #[track_caller]
    pub fn concat_in_dim<'b>(&'b self, operands: &[Op<'b>], dimension: i64) -> Op<'b> {
        self.push(
            Draft::new(OpKind::Concatenate, operands)
                .with_attributes(ConcatenateAttributes { dimensions: Dimension(dimension) }),
        )
    }
}
