//! What a program costs, read off its operations as XLA's cost analysis does.
//!
//! Loops count once, since the number of their iterations is not known; of branches, all count.

use crate::attributes::WindowDimension;
use crate::graph::{Computation, GraphError, Instruction};
use crate::op_kind::OpKind;
use crate::ops::convolution::ConvolutionAttributes;
use crate::ops::dot::DotAttributes;
use crate::ops::fft::FftAttributes;
use crate::ops::reduce_window::ReduceWindowAttributes;
use crate::ops::select_and_scatter::SelectAndScatterAttributes;
use crate::ops::typed_attributes::OperationAttributes;
use crate::ops::{ElementCost, OpClass, definition};
use crate::shape::{ArrayShape, Shape};

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
    ///
    /// # Errors
    /// For instructions that break a rule of their operation.
    pub fn of(computation: &Computation) -> Result<Cost, GraphError> {
        computation.instructions.iter().try_fold(Cost::default(), |total, instruction| {
            Ok(total.plus(Cost::of_instruction(computation, instruction)?))
        })
    }

    /// The cost of an instruction that is a kernel, or consists of kernels.
    ///
    /// # Errors
    /// For instructions that break a rule of their operation.
    pub fn of_instruction(computation: &Computation, instruction: &Instruction) -> Result<Cost, GraphError> {
        let class = definition(instruction.kind).class;
        if class == OpClass::Control && instruction.kind != OpKind::Fusion {
            return instruction
                .computations
                .iter()
                .try_fold(Cost::default(), |sum, inner| Ok(sum.plus(Cost::of(inner)?)));
        }
        let mut cost = work(computation, instruction)?;
        if class != OpClass::Structural {
            let operands = computation.operand_shapes(instruction).into_iter().map(bytes);
            let moved = operands.fold(bytes(&instruction.shape), u64::saturating_add);
            cost.bytes_accessed = cost.bytes_accessed.saturating_add(moved);
        }
        Ok(cost)
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

/// Work of the computations of an instruction that are part of its kernel.
fn applied(instruction: &Instruction) -> Result<Cost, GraphError> {
    let mut total = Cost::default();
    for computation in &instruction.computations {
        for inner in &computation.instructions {
            total = total.plus(work(computation, inner)?);
        }
    }
    Ok(total)
}

/// The attributes of an instruction.
fn attributes<'i, T: OperationAttributes<'i>>(instruction: &'i Instruction) -> Result<T, GraphError> {
    instruction.attributes().map_err(|error| GraphError::Op {
        instruction: instruction.name.clone(),
        position: instruction.position,
        error,
    })
}

/// Work of one instruction, without bytes.
fn work(computation: &Computation, instruction: &Instruction) -> Result<Cost, GraphError> {
    let results = elements(&instruction.shape);
    let operand = |number: usize| instruction.operands.get(number).map(|&id| &computation.get(id).shape);
    let operand_elements = |number: usize| operand(number).map_or(0, elements);
    let flops = |flops: u64| Cost { flops, ..Cost::default() };
    Ok(match definition(instruction.kind).cost {
        ElementCost::Free | ElementCost::Lookup => Cost::default(),
        ElementCost::Simple | ElementCost::Division => flops(results),
        ElementCost::Transcendental => Cost { transcendentals: results, ..Cost::default() },
        ElementCost::Applied => applied(instruction)?.times(match instruction.kind {
            OpKind::Reduce => operand_elements(0),
            OpKind::ReduceWindow => {
                let ReduceWindowAttributes { window } = attributes(instruction)?;
                results.saturating_mul(positions(window))
            }
            OpKind::SelectAndScatter => {
                let SelectAndScatterAttributes { window } = attributes(instruction)?;
                operand_elements(1).saturating_mul(positions(window))
            }
            OpKind::Scatter => operand_elements(instruction.operands.len().div_ceil(2)),
            _ => results,
        }),
        ElementCost::Whole => match instruction.kind {
            OpKind::Fusion | OpKind::While | OpKind::Conditional => applied(instruction)?,
            OpKind::Dot => {
                let DotAttributes { lhs_contracting_dims, .. } = attributes(instruction)?;
                let contracted = operand(0).and_then(Shape::as_array).map_or(0, |lhs| {
                    let sizes = lhs_contracting_dims.iter().map(|&dimension| size_of(lhs, dimension));
                    sizes.fold(1, u64::saturating_mul)
                });
                flops(results.saturating_mul(contracted).saturating_mul(2))
            }
            OpKind::Convolution => {
                let ConvolutionAttributes { dim_labels, .. } = attributes(instruction)?;
                let kernel = operand(1).and_then(Shape::as_array);
                let features = kernel.map_or(1, |kernel| size_of(kernel, dim_labels.kernel_output_feature).max(1));
                let products = operand_elements(1) / features;
                flops(results.saturating_mul(products).saturating_mul(2))
            }
            OpKind::Sort => flops(operand_elements(0).saturating_mul(bits(operand_elements(0)))),
            OpKind::Fft => {
                let FftAttributes { fft_length, .. } = attributes(instruction)?;
                let points = fft_length.iter().map(|&length| count(length)).fold(1, u64::saturating_mul);
                flops(operand_elements(0).saturating_mul(5).saturating_mul(bits(points)))
            }
            _ => Cost::default(),
        },
    })
}

/// Bits of a number: one more than the logarithm rounded down.
fn bits(number: u64) -> u64 {
    u64::from(u64::BITS - number.leading_zeros())
}

/// Positions of a window.
fn positions(window: &[WindowDimension]) -> u64 {
    window.iter().map(|entry| count(entry.size)).fold(1, u64::saturating_mul)
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
    shape.byte_size() as u64
}
