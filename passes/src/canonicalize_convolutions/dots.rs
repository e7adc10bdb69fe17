//! Convolutions that are products of matrices: each element of the input is seen by one window.

use hlo::attributes::{SliceDimension, WindowDimension};
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::shape::ArrayShape;

use super::Site;

/// How windows divide a dimension of the input.
#[derive(Clone, Copy)]
enum Patches {
    /// Side by side: a step from window to window is the size of one.
    Side { count: i64, size: i64 },
    /// Interleaved: a step within a window is the number of windows.
    Interleaved { size: i64, count: i64 },
}

impl Patches {
    /// The sizes of the two dimensions that it is.
    fn sizes(self) -> [i64; 2] {
        match self {
            Patches::Side { count, size } => [count, size],
            Patches::Interleaved { size, count } => [size, count],
        }
    }

    /// Which of the two goes along a window.
    fn place_in_window(self) -> usize {
        match self {
            Patches::Side { .. } => 1,
            Patches::Interleaved { .. } => 0,
        }
    }
}

impl Site<'_> {
    /// The convolution as a product of matrices, where windows have one element or none sees what another one does.
    pub(super) fn as_dot(&mut self) -> Option<InstructionId> {
        if self.is_grouped() {
            return None;
        }
        if self.window.iter().all(|dimension| dimension.size == 1) {
            return Some(self.dot_of_elements());
        }
        let patches = self.patches()?;
        Some(self.dot_of_patches(&patches))
    }

    /// How windows divide the input along each dimension of space, where none sees what another one does.
    fn patches(&self) -> Option<Vec<Patches>> {
        let input = self.builder.dimensions(self.input);
        let of = |((&from, &to), w): ((&i64, &i64), &WindowDimension)| {
            let (size, count) = (input[from as usize], self.result.dimensions[to as usize]);
            let is_dense = w.base_dilation <= 1 && (w.padding_low, w.padding_high) == (0, 0);
            let (stride, dilation) = (w.stride.max(1), w.window_dilation.max(1));
            match is_dense && size >= w.size * count {
                true if stride == w.size && dilation == 1 => Some(Patches::Side { count, size: w.size }),
                true if stride == 1 && dilation == count => Some(Patches::Interleaved { size: w.size, count }),
                _ => None,
            }
        };
        let spatial = self.dimensions.input_spatial.iter().zip(&self.dimensions.output_spatial);
        spatial.zip(&self.window).map(of).collect()
    }

    // convolution(x, k), stride=size => transpose(dot(reshape(slice(x)), k))
    fn dot_of_patches(&mut self, patches: &[Patches]) -> InstructionId {
        self.statistics.add("patches-to-dot", 1);
        let d = self.dimensions.clone();
        let parts: Vec<(usize, SliceDimension)> = (d.input_spatial.iter().zip(patches))
            .map(|(&from, own)| {
                (from as usize, SliceDimension { start: 0, limit: own.sizes().iter().product(), stride: 1 })
            })
            .collect();
        self.input = self.builder.slice_along(self.input, &parts);
        // Each dimension of space is two.
        let (mut sizes, mut of_window, mut of_feature) = (Vec::new(), vec![0; patches.len()], 0);
        for (number, size) in (0..).zip(self.builder.dimensions(self.input)) {
            match d.input_spatial.iter().position(|&own| own == number) {
                Some(spatial) => {
                    of_window[spatial] = (sizes.len() + patches[spatial].place_in_window()) as i64;
                    sizes.extend(patches[spatial].sizes());
                }
                None => {
                    if number == d.input_feature {
                        of_feature = sizes.len() as i64;
                    }
                    sizes.push(size);
                }
            }
        }
        let input = self.builder.reshape(self.input, &sizes);
        let of_input = [&of_window[..], &[of_feature]].concat();
        let of_kernel = [&d.kernel_spatial[..], &[d.kernel_input_feature]].concat();
        self.dot([input, self.kernel], [&of_input, &of_kernel])
    }

    /// A dot that contracts the feature and the window of the input: what is left are places in the order of the input's dimensions, and
    /// features of the result.
    fn dot(&mut self, operands: [InstructionId; 2], [of_input, of_kernel]: [&[i64]; 2]) -> InstructionId {
        let d = &self.dimensions;
        let place = |dimension: i64| match d.input_spatial.iter().position(|&spatial| spatial == dimension) {
            Some(number) => d.output_spatial[number],
            None => d.output_batch,
        };
        let free = (0..self.result.rank() as i64).filter(|&dimension| dimension != d.input_feature);
        let places: Vec<i64> = free.map(place).chain([d.output_feature]).collect();
        let shape = ArrayShape::new(
            self.result.element_type,
            places.iter().map(|&place| self.result.dimensions[place as usize]).collect::<Vec<_>>(),
        );
        let attributes = DotAttributes {
            lhs_contracting_dims: of_input,
            rhs_contracting_dims: of_kernel,
            operand_precision: self.attributes.operand_precision,
            ..DotAttributes::new()
        };
        let dot = self.builder.add(OpKind::Dot, shape, &operands, attributes);
        self.builder.transpose_back(dot, &places)
    }

    // convolution(x, k), size=1x… => transpose(dot(slice(x), reshape(k)))
    fn dot_of_elements(&mut self) -> InstructionId {
        self.statistics.add("convolution-to-dot", 1);
        let spatial = self.dimensions.input_spatial.iter().zip(&self.dimensions.output_spatial).zip(&self.window);
        let part = |((&from, &to), w): ((&i64, &i64), &WindowDimension)| {
            let (size, stride) = (self.result.dimensions[to as usize], w.stride.max(1));
            (from as usize, SliceDimension { start: 0, limit: (size - 1) * stride + 1, stride })
        };
        let parts: Vec<(usize, SliceDimension)> = spatial.map(part).collect();
        self.input = self.builder.slice_along(self.input, &parts);
        let (input_place, output_place) = (self.dimensions.kernel_input_feature, self.dimensions.kernel_output_feature);
        let kernel = self.builder.dimensions(self.kernel);
        let mut sizes = [kernel[input_place as usize], kernel[output_place as usize]];
        let contracted = i64::from(input_place > output_place);
        if contracted == 1 {
            sizes.reverse();
        }
        let kernel = self.builder.reshape(self.kernel, &sizes);
        self.dot([self.input, kernel], [&[self.dimensions.input_feature], &[contracted]])
    }
}
