//! What a program costs, read off its operations as XLA's cost analysis does.
//!
//! Loops count once, since the number of their iterations is not known; of branches, all count.

use std::collections::HashMap;

use crate::attributes::WindowDimension;
use crate::graph::{Computation, GraphError, Instruction, InstructionId};
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
    /// Bytes that kernels read and write, each operand of each kernel counted once; of arrays of which an operation reads or
    /// replaces a part, that part.
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
            let moved = bytes_read(computation, instruction).saturating_add(bytes_written(computation, instruction));
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
                let window: ReduceWindowAttributes<'_> = attributes(instruction)?;
                let operand = operand(0).and_then(Shape::as_array);
                // A scan combines each element with what is before it.
                let is_scan = operand.is_some_and(|operand| window.accumulates(&operand.dimensions).is_some());
                if is_scan { results } else { results.saturating_mul(positions(window.window)) }
            }
            OpKind::SelectAndScatter => {
                let SelectAndScatterAttributes { window } = attributes(instruction)?;
                operand_elements(1).saturating_mul(positions(window))
            }
            OpKind::Scatter => operand_elements(scattered_arrays(instruction) + 1),
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

/// Bytes of its operands that an instruction reads.
fn bytes_read(computation: &Computation, instruction: &Instruction) -> u64 {
    let whole = |number: usize| bytes(&computation.get(instruction.operands[number]).shape);
    let operands = 0..instruction.operands.len();
    let ([body], OpKind::Fusion) = (&instruction.computations[..], instruction.kind) else {
        let read = operands.map(|number| part_read(computation, instruction, number).unwrap_or_else(|| whole(number)));
        return read.fold(0, u64::saturating_add);
    };
    // What the body reads of each of its parameters; all of it, where one reader needs all.
    let mut parts: HashMap<InstructionId, u64> = HashMap::with_capacity(body.parameters.len());
    for reader in &body.instructions {
        for (number, &operand) in reader.operands.iter().enumerate() {
            if body.get(operand).kind == OpKind::Parameter {
                let part = part_read(body, reader, number).unwrap_or(u64::MAX);
                let read = parts.entry(operand).or_default();
                *read = read.saturating_add(part);
            }
        }
    }
    let read = |number: usize| parts.get(body.parameters.get(number)?).copied();
    operands.map(|number| whole(number).min(read(number).unwrap_or(u64::MAX))).fold(0, u64::saturating_add)
}

/// Bytes that an instruction reads of an operand of which it needs but a part.
fn part_read(computation: &Computation, instruction: &Instruction, number: usize) -> Option<u64> {
    match (instruction.kind, number) {
        (OpKind::Slice | OpKind::DynamicSlice | OpKind::Gather, 0) => Some(bytes(&instruction.shape)),
        (OpKind::DynamicUpdateSlice, 0) => Some(0),
        // What is there is combined with the updates.
        (OpKind::Scatter, _) if number < scattered_arrays(instruction) => {
            let update = instruction.operands.get(scattered_arrays(instruction) + 1 + number)?;
            Some(bytes(&computation.get(*update).shape))
        }
        _ => None,
    }
}

/// Bytes of its result that an instruction writes.
fn bytes_written(computation: &Computation, instruction: &Instruction) -> u64 {
    match (instruction.kind, &instruction.computations[..]) {
        (OpKind::Fusion, [body]) => written_by_root(body, body.get(body.root)),
        (OpKind::DynamicUpdateSlice | OpKind::Scatter, _) => bytes_replaced(computation, instruction),
        _ => bytes(&instruction.shape),
    }
}

/// Bytes that a fusion writes for a result of its body. A parameter of which a part is replaced stays where it is.
fn written_by_root(body: &Computation, root: &Instruction) -> u64 {
    let operand = |&id: &InstructionId| body.get(id);
    match root.kind {
        OpKind::Tuple => root.operands.iter().map(|id| written_by_root(body, operand(id))).fold(0, u64::saturating_add),
        OpKind::DynamicUpdateSlice | OpKind::Scatter
            if root.operands.first().is_some_and(|id| operand(id).kind == OpKind::Parameter) =>
        {
            bytes_replaced(body, root)
        }
        _ => bytes(&root.shape),
    }
}

/// Arrays that a scatter updates; its operands are these, the indices, and as many arrays of updates.
fn scattered_arrays(scatter: &Instruction) -> usize {
    scatter.operands.len() / 2
}

/// Bytes that take the place of others.
fn bytes_replaced(computation: &Computation, instruction: &Instruction) -> u64 {
    let updates = match instruction.kind {
        OpKind::Scatter => scattered_arrays(instruction) + 1..instruction.operands.len(),
        _ => 1..2,
    };
    let operands = instruction.operands.get(updates).unwrap_or_default();
    operands.iter().map(|&update| bytes(&computation.get(update).shape)).fold(0, u64::saturating_add)
}

/// Bytes of all arrays of a value.
fn bytes(shape: &Shape) -> u64 {
    shape.byte_size() as u64
}

#[cfg(all(test, feature = "text"))]
mod tests {
    use super::Cost;
    use crate::text::read;

    fn bytes_of_root(text: &str) -> Option<u64> {
        let module = read(text).ok()?;
        let entry = module.entry();
        Cost::of_instruction(entry, entry.get(entry.root)).ok().map(|cost| cost.bytes_accessed)
    }

    #[test]
    fn of_arrays_of_which_a_part_is_used_the_part_counts() {
        // 16 elements are read and written, and the place.
        let slice = "HloModule m\nENTRY e { x = f32[1000] parameter(0) i = s32[] parameter(1) \
                     ROOT r = f32[16] dynamic-slice(x, i), dynamic_slice_sizes={16} }";
        assert_eq!(bytes_of_root(slice), Some(2 * 64 + 4));
        let update = "HloModule m\nENTRY e { x = f32[1000] parameter(0) u = f32[16] parameter(1) i = s32[] parameter(2) \
                      ROOT r = f32[1000] dynamic-update-slice(x, u, i) }";
        assert_eq!(bytes_of_root(update), Some(2 * 64 + 4));
        // What is replaced is read too, since it is added to.
        let scatter = "HloModule m\n\
            sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n\
            ENTRY e { x = f32[1000] parameter(0) i = s32[16,1] parameter(1) u = f32[16] parameter(2) \
            ROOT r = f32[1000] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, \
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum }";
        assert_eq!(bytes_of_root(scatter), Some(4 * 64));
    }

    #[test]
    fn a_scan_combines_each_element_once() {
        let flops = |window: &str| {
            let text = format!(
                "HloModule m\n\
                 sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}\n\
                 ENTRY e {{ x = f32[8,100] parameter(0) z = f32[] constant(0) \
                 ROOT r = f32[8,100] reduce-window(x, z), window={{{window}}}, to_apply=sum }}"
            );
            let module = read(&text).ok()?;
            let entry = module.entry();
            Cost::of_instruction(entry, entry.get(entry.root)).ok().map(|cost| cost.flops)
        };
        assert_eq!(flops("size=1x100 pad=0_0x99_0"), Some(8 * 100));
        assert_eq!(flops("size=1x100 pad=0_0x0_99"), Some(8 * 100));
        // A window that slides combines all that it covers.
        assert_eq!(flops("size=1x7 pad=0_0x3_3"), Some(8 * 100 * 7));
    }

    #[test]
    fn fusions_count_what_their_bodies_read() {
        let fusion = |body: &str| {
            format!(
                "HloModule m\nbody {{ x = f32[1000] parameter(0) i = s32[] parameter(1)\n{body} }}\n\
                 ENTRY e {{ x = f32[1000] parameter(0) i = s32[] parameter(1)\n\
                 ROOT r = f32[16] fusion(x, i), kind=kLoop, calls=body }}"
            )
        };
        let part = "s = f32[16] dynamic-slice(x, i), dynamic_slice_sizes={16} ROOT n = f32[16] negate(s)";
        assert_eq!(bytes_of_root(&fusion(part)), Some(2 * 64 + 4));
        let whole = "s = f32[16] dynamic-slice(x, i), dynamic_slice_sizes={16} y = f32[1000] negate(x) \
                     t = f32[16] dynamic-slice(y, i), dynamic_slice_sizes={16} ROOT n = f32[16] add(s, t)";
        assert_eq!(bytes_of_root(&fusion(whole)), Some(4000 + 64 + 4));
    }
}
