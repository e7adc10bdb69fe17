//! Vectors longer than an instruction or a function of a library takes.

use super::Math;
use mlir_ext::builder::{OpBuilder, Value};

impl<'c> Math<'_, 'c> {
    /// Lanes of the registers that vectors like `x` are held in, if they fill them and these have AVX-512's instructions.
    pub(super) fn instruction_lanes(self, x: Value<'c>) -> Option<u32> {
        let lanes = self.builder.lanes_of(x.r#type())?;
        let widths = if self.is_double(x) { [8, 4, 2] } else { [16, 8, 4] };
        widths.into_iter().find(|width| self.target.scale_instruction && lanes % width == 0)
    }

    /// The mask of an instruction of AVX-512 that leaves out no lane.
    pub(super) fn all_lanes(self, width: u32) -> Value<'c> {
        self.builder.constant_integer(self.builder.integer_type(width.max(8)), -1)
    }
}

/// `function` of each part of `width` lanes, of vectors that consist of such parts.
pub(crate) fn in_parts<'c>(
    builder: &OpBuilder<'c>,
    width: u32,
    operands: &[Value<'c>],
    function: impl Fn(&[Value<'c>]) -> Value<'c>,
) -> Value<'c> {
    let lanes = builder.lanes_of(operands[0].r#type()).unwrap_or(width);
    if lanes == width {
        return function(operands);
    }
    let parts = (0..lanes / width).map(|part| {
        let mask: Vec<u32> = (part * width..(part + 1) * width).collect();
        let operands: Vec<_> = operands.iter().map(|&value| builder.shuffle(value, value, &mask)).collect();
        (function(&operands), width)
    });
    joined(builder, parts.collect()).unwrap_or(operands[0])
}

/// Vectors and their numbers of lanes as one vector. Neighbours are joined; an odd one may be left over at each level.
fn joined<'c>(builder: &OpBuilder<'c>, mut parts: Vec<(Value<'c>, u32)>) -> Option<Value<'c>> {
    while parts.len() > 1 {
        let pairs = parts.chunks(2).map(|pair| match *pair {
            [(left, left_lanes), (right, right_lanes)] => {
                let mask: Vec<u32> = (0..left_lanes + right_lanes).collect();
                vec![(builder.shuffle(left, right, &mask), left_lanes + right_lanes)]
            }
            _ => pair.to_vec(),
        });
        parts = pairs.flatten().collect();
    }
    parts.first().map(|&(vector, _)| vector)
}
