//! What a program costs, read off its operations as XLA's cost analysis does.
//!
//! Loops count once, since the number of their iterations is not known; of branches, all count.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use hlo::shape::{ArrayShape, Shape};

/// Work of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Arithmetic operations on elements; a multiplication and an addition are two.
    pub flops: u64,
    /// Elements of functions such as exponential, logarithm and sine.
    pub transcendentals: u64,
    /// Bytes that kernels read and write, each operand of each kernel counted once.
    pub bytes_accessed: u64,
}

impl Cost {
    /// The cost of a computation whose instructions are kernels.
    pub fn of(computation: &Computation) -> Cost {
        let mut total = Cost::default();
        for instruction in &computation.instructions {
            let class = definition(instruction.kind).class;
            let is_control = class == OpClass::Control && instruction.kind != OpKind::Fusion;
            let cost = if is_control {
                instruction.computations.iter().map(Cost::of).fold(Cost::default(), Cost::plus)
            } else {
                work(computation, instruction)
            };
            total = total.plus(cost);
            if class != OpClass::Structural && !is_control {
                let operands = computation.operand_shapes(instruction).into_iter().map(bytes);
                let moved = operands.fold(bytes(&instruction.shape), u64::saturating_add);
                total.bytes_accessed = total.bytes_accessed.saturating_add(moved);
            }
        }
        total
    }

    fn plus(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            transcendentals: self.transcendentals.saturating_add(other.transcendentals),
            bytes_accessed: self.bytes_accessed.saturating_add(other.bytes_accessed),
        }
    }

    fn times(self, count: u64) -> Cost {
        Cost {
            flops: self.flops.saturating_mul(count),
            transcendentals: self.transcendentals.saturating_mul(count),
            bytes_accessed: self.bytes_accessed,
        }
    }
}

/// Work of the instructions of a computation that is part of a kernel.
fn nested(computation: &Computation) -> Cost {
    computation.instructions.iter().map(|instruction| work(computation, instruction)).fold(Cost::default(), Cost::plus)
}

/// Work of one instruction, without bytes.
fn work(computation: &Computation, instruction: &Instruction) -> Cost {
    let results = elements(&instruction.shape);
    let operand = |number: usize| instruction.operands.get(number).map(|&id| &computation.get(id).shape);
    let operand_elements = |number: usize| operand(number).map_or(0, elements);
    let applied = || instruction.computations.iter().map(nested).fold(Cost::default(), Cost::plus);
    let window: u64 =
        instruction.attributes.window().iter().map(|entry| count(entry.size)).fold(1, u64::saturating_mul);
    let flops = |flops: u64| Cost { flops, ..Cost::default() };
    match instruction.kind {
        OpKind::Fusion | OpKind::While | OpKind::Conditional => applied(),
        OpKind::Map => applied().times(results),
        OpKind::Reduce => applied().times(operand_elements(0)),
        OpKind::ReduceWindow => applied().times(results.saturating_mul(window)),
        OpKind::SelectAndScatter => applied().times(operand_elements(1).saturating_mul(window)),
        OpKind::Scatter => {
            let updates = instruction.operands.len().div_ceil(2);
            applied().times(operand_elements(updates))
        }
        OpKind::Dot => {
            let contracted = operand(0).and_then(Shape::as_array).map_or(0, |lhs| {
                let sizes = instruction.attributes.ints("lhs_contracting_dims").iter();
                sizes.map(|&dimension| size_of(lhs, dimension)).fold(1, u64::saturating_mul)
            });
            flops(results.saturating_mul(contracted).saturating_mul(2))
        }
        OpKind::Convolution => {
            let features = instruction.attributes.convolution_dimensions().and_then(|labels| {
                let kernel = operand(1)?.as_array()?;
                Some(size_of(kernel, labels.kernel_output_feature))
            });
            let products = operand_elements(1) / features.unwrap_or(1).max(1);
            flops(results.saturating_mul(products).saturating_mul(2))
        }
        OpKind::Sort => {
            flops(operand_elements(0).saturating_mul(u64::from(u64::BITS - operand_elements(0).leading_zeros())))
        }
        OpKind::Fft => {
            let points: u64 = instruction
                .attributes
                .ints("fft_length")
                .iter()
                .map(|&length| count(length))
                .fold(1, u64::saturating_mul);
            flops(operand_elements(0).saturating_mul(5).saturating_mul(u64::from(u64::BITS - points.leading_zeros())))
        }
        kind if is_transcendental(kind) => Cost { transcendentals: results, ..Cost::default() },
        OpKind::Copy | OpKind::Convert => Cost::default(),
        kind if definition(kind).class == OpClass::Elementwise => flops(results),
        _ => Cost::default(),
    }
}

fn is_transcendental(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Acos
            | OpKind::Acosh
            | OpKind::Asin
            | OpKind::Asinh
            | OpKind::Atan2
            | OpKind::Atanh
            | OpKind::Cbrt
            | OpKind::Cosh
            | OpKind::Cosine
            | OpKind::Erf
            | OpKind::Exponential
            | OpKind::ExponentialMinusOne
            | OpKind::Log
            | OpKind::LogPlusOne
            | OpKind::Logistic
            | OpKind::Power
            | OpKind::Rsqrt
            | OpKind::Sine
            | OpKind::Sinh
            | OpKind::Sqrt
            | OpKind::Tan
            | OpKind::Tanh
    )
}

fn count(size: i64) -> u64 {
    size.max(0).unsigned_abs()
}

fn size_of(array: &ArrayShape, dimension: i64) -> u64 {
    usize::try_from(dimension).ok().and_then(|dimension| array.dimensions.get(dimension)).map_or(1, |&size| count(size))
}

/// Elements of the first array of a value.
fn elements(shape: &Shape) -> u64 {
    shape.leaves().iter().find_map(|leaf| leaf.as_array()).map_or(0, |array| count(array.element_count()))
}

/// Bytes of all arrays of a value.
fn bytes(shape: &Shape) -> u64 {
    shape.leaves().iter().filter_map(|leaf| leaf.as_array()).map(|array| array.byte_size() as u64).sum()
}
