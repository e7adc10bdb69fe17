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
        // Each dimension of space is two; `places` are where the result has those that are left.
        let input = self.builder.dimensions(self.input);
        let (mut sizes, mut contracted, mut places) = (Vec::new(), vec![0; patches.len()], Vec::new());
        for (number, &size) in input.iter().enumerate() {
            match d.input_spatial.iter().position(|&own| own == number as i64) {
                Some(spatial) => {
                    let in_window = patches[spatial].place_in_window();
                    contracted[spatial] = (sizes.len() + in_window) as i64;
                    sizes.extend(patches[spatial].sizes());
                    places.push(d.output_spatial[spatial]);
                }
                None => {
                    if number as i64 == d.input_feature {
                        contracted.push(sizes.len() as i64);
                    } else {
                        places.push(d.output_batch);
                    }
                    sizes.push(size);
                }
            }
        }
        places.push(d.output_feature);
        let input = self.builder.reshape(self.input, &sizes);
        let of_kernel: Vec<i64> = d.kernel_spatial.iter().copied().chain([d.kernel_input_feature]).collect();
        self.dot(input, self.kernel, [&contracted, &of_kernel], &places)
    }

    /// A dot whose dimensions, those of the left operand and then those of the right one, have places in the result.
    fn dot(
        &mut self,
        input: InstructionId,
        kernel: InstructionId,
        [of_input, of_kernel]: [&[i64]; 2],
        places: &[i64],
    ) -> InstructionId {
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
        let dot = self.builder.add(OpKind::Dot, shape, &[input, kernel], attributes);
        let permutation: Vec<i64> = (0..places.len() as i64)
            .filter_map(|place| places.iter().position(|&own| own == place).map(|number| number as i64))
            .collect();
        self.builder.transpose(dot, &permutation)
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
        let sliced = self.builder.array(self.input);
        let (input_place, output_place) = (self.dimensions.kernel_input_feature, self.dimensions.kernel_output_feature);
        let kernel = self.builder.dimensions(self.kernel);
        let mut sizes = [kernel[input_place as usize], kernel[output_place as usize]];
        let contracted = i64::from(input_place > output_place);
        if contracted == 1 {
            sizes.reverse();
        }
        let kernel = self.builder.reshape(self.kernel, &sizes);
        // The dot's dimensions: those of the input but its feature, then the output's feature.
        let feature = self.dimensions.input_feature;
        let free: Vec<i64> = (0..sliced.rank() as i64).filter(|&d| d != feature).collect();
        let place_in_output = |d: i64| match self.dimensions.input_spatial.iter().position(|&spatial| spatial == d) {
            Some(number) => self.dimensions.output_spatial[number],
            None => self.dimensions.output_batch,
        };
        let places: Vec<i64> =
            free.iter().map(|&d| place_in_output(d)).chain([self.dimensions.output_feature]).collect();
        self.dot(self.input, kernel, [&[feature], &[contracted]], &places)
    }
}
