//! Sorting by merging: sorted runs become runs of twice the length. What a block can hold is one kernel (`block_sort`), and each
//! further doubling is another.
//!
//! A thread takes one element to its place in the merged run: as far as it is in its own run, and behind the elements of the
//! other run that come before it, which it finds by bisection. So any comparator will do, equal elements keep their order,
//! and the work is n · log² n. Runs go to and fro between the result and as much temporary memory.

use hlo::graph::{Computation, InstructionId};
use hlo::launch_plan::{LaunchArgument, PlanStep};
use hlo::ops::sort::SortAttributes;
use hlo::shape::ArrayShape;
use indexing::Interval;
use mlir_ext::arith::CmpiPredicate::{Eq, Ult};
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::{Buffer, ComputationBuffers, Slice};

use super::block_sort::BlockSort;
use super::kernels::{KernelArrays, grid};
use super::plan::copy;
use super::{GpuProgram, Result, SCRATCH_ALIGNMENT, over_threads};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::mapping::{self, invalid};
use crate::memory::ArrayRef;
use crate::program::{kernel_body, kernel_slices, overlap, structure};
use crate::scalar::{RegisterValue, select};
use crate::scope::Binding;
use crate::trace::split_merged;
use crate::walk::Visitor;

impl<'c> GpuProgram<'_, 'c> {
    /// The launches of a sort.
    pub(super) fn sort(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
    ) -> Result<Vec<PlanStep>> {
        let instruction = computation.get(id);
        let [inputs, outputs] = kernel_slices(computation, buffers, id);
        let slices = |arrays: &[(&ArrayShape, Slice)]| arrays.iter().map(|(_, slice)| *slice).collect::<Vec<_>>();
        let (from, to) = (slices(&inputs), slices(&outputs));
        let sizes = inputs.first().map(|(shape, _)| shape.dimensions.clone()).unwrap_or_default();
        if sizes.contains(&0) {
            return Ok(Vec::new());
        }
        let along = instruction.attributes::<SortAttributes>()?.dimensions.index();
        // A scalar is a row of one.
        let length = if sizes.is_empty() { 1 } else { sizes[along] };
        let doublings = if length > 1 { 64 - (length - 1).leading_zeros() } else { 0 };
        if doublings == 0 {
            return Ok(copy(&instruction.shape, &[from, to]));
        }
        let [mapping] = mapping::of(&self.mappings, instruction)? else {
            return Err(invalid(format!("`{}`: a sort has one mapping", instruction.name)));
        };
        let single = kernel_body(computation, instruction);
        let merge = Merge { sort: &single, sizes: &sizes, along, doublings };
        let block_sort = BlockSort::of(&single, &sizes, along);
        let of_blocks = block_sort.as_ref().map_or(0, BlockSort::doublings).min(doublings);
        let is_whole = of_blocks == doublings && (from == to || !are_overlapping(&from, &to));
        let scratch = if is_whole { Vec::new() } else { self.scratch(&to) };
        let structure = self.kernel_names.number_of(structure(&single));
        let (blocks, threads) = grid(mapping);
        let mut steps = Vec::new();
        let mut source = from;
        let placed = |arrays: &[(_, Slice)], slices: &[Slice]| {
            arrays.iter().zip(slices).map(|((shape, _), slice)| (*shape, *slice)).collect::<Vec<(&ArrayShape, _)>>()
        };
        let arrays = |source: &[Slice], target: &[Slice]| KernelArrays {
            inputs: placed(&inputs, source),
            outputs: placed(&outputs, target),
            are_exchanged: false,
            limits: None,
        };
        // The last kernel writes the results, and each of the others reads what the one before it has written.
        let target_of = |doubling: u32| if (doublings - doubling) % 2 == 1 { &to } else { &scratch };
        if let Some(block_sort) = &block_sort {
            let target = if of_blocks == doublings { &to } else { target_of(of_blocks + 1) };
            // Each thread writes where it has read.
            if source != *target && are_overlapping(&source, target) {
                steps.extend(copy(&instruction.shape, &[source.clone(), scratch.clone()]));
                source.clone_from(&scratch);
            }
            let own = arrays(&source, target);
            let key = format!("sort in blocks {structure}");
            let kernel = self.kernel(computation, id, &own, (&key, &[]), &|builder, inputs, outputs, function| {
                let mut emitter = Elemental::new(builder, &single, inputs, 1);
                block_sort.emit(&mut emitter, inputs.len(), outputs, function)
            })?;
            let (blocks, threads) = block_sort.grid();
            let arguments = source.iter().chain(target).map(|slice| LaunchArgument::Array(*slice)).collect();
            steps.push(kernel.launch(blocks, threads, arguments));
            source.clone_from(target);
        }
        for doubling in of_blocks..doublings {
            let target = target_of(doubling);
            if are_overlapping(&source, target) {
                steps.extend(copy(&instruction.shape, &[source.clone(), scratch.clone()]));
                source.clone_from(&scratch);
            }
            let arrays = arrays(&source, target);
            let key = (&*format!("merge {structure}"), &[self.builder.index_type][..]);
            let kernel = self.kernel(computation, id, &arrays, key, &|builder, inputs, outputs, function| {
                let parameters = function.parameters();
                merge.emit(builder, inputs, outputs, &parameters[inputs.len() + outputs.len()..])
            })?;
            let arguments = source.iter().chain(target).map(|slice| LaunchArgument::Array(*slice));
            let arguments = arguments.chain([LaunchArgument::Number(1 << doubling)]).collect();
            steps.push(kernel.launch(blocks, threads, arguments));
            source.clone_from(target);
        }
        Ok(steps)
    }

    /// Temporary memory for arrays of the sizes of others.
    pub(super) fn scratch(&self, like: &[Slice]) -> Vec<Slice> {
        let mut end = 0usize;
        let slices = like.iter().map(|&Slice { size, .. }| {
            let offset = self.first_scratch + end;
            end = (end + size).next_multiple_of(SCRATCH_ALIGNMENT);
            Slice { buffer: Buffer::Arena, offset, size }
        });
        let slices = slices.collect();
        self.scratch.set(self.scratch.get().max(end));
        slices
    }
}

/// One merging of runs.
struct Merge<'s> {
    /// The sort, of parameters.
    sort: &'s Computation,
    sizes: &'s [i64],
    along: usize,
    doublings: u32,
}

impl Merge<'_> {
    /// The kernel, whose last parameter is the length of the runs.
    fn emit<'c>(
        &self,
        builder: &OpBuilder<'c>,
        inputs: &[ArrayRef<'c>],
        outputs: &[ArrayRef<'c>],
        numbers: &[Value<'c>],
    ) -> Result<()> {
        let &[run] = numbers else { return Err(LoweringError::bug("a merge without the length of its runs")) };
        let comparator = &self.sort.root().computations[0];
        let length = self.sizes[self.along];
        let mut emitter = Elemental::new(builder, self.sort, inputs, 1);
        let positions = Interval::of_size(self.sizes.iter().product());
        over_threads(&mut emitter, positions, BLOCK_SIZE, &mut |emitter, number| {
            let index = split_merged(number, self.sizes);
            let elements = |emitter: &mut Elemental<'_, 'c>, position: Option<Value<'c>>| {
                let mut index = index.clone();
                if let Some(position) = position {
                    let bounds = Interval::of_size(length);
                    index[self.along] = emitter.scope.add_variable(bounds, Binding::Index(position));
                }
                let values = (0..inputs.len()).map(|operand| emitter.evaluate(InstructionId(operand as u32), &index));
                Ok::<_, LoweringError>((values.collect::<Result<Vec<RegisterValue<'c>>>>()?, index.clone()))
            };
            let own = emitter.scope.emit(builder, index[self.along])?;
            let (element, _) = elements(emitter, None)?;
            let (one, size) = (builder.constant_index(1), builder.constant_index(length));
            let both = builder.addi(run, run);
            let first = builder.muli(builder.divui(own, both), both);
            let middle = builder.minsi(builder.addi(first, run), size);
            let end = builder.minsi(builder.addi(first, both), size);
            let is_left = builder.cmpi(Ult, own, middle);
            // Within these bounds the first element of the other run is found that does not come before.
            let lower = builder.select(is_left, middle, first);
            let upper = builder.select(is_left, end, middle);
            let steps = Interval::of_size(i64::from(self.doublings) + 1);
            let found = emitter.loop_in(steps, None, vec![lower, upper], &mut |emitter, _, state| {
                let [lower, upper] = state[..] else { return Err(LoweringError::bug("a bisection without bounds")) };
                let goes_on = builder.cmpi(Ult, lower, upper);
                let half = builder.shrui(builder.addi(lower, upper), one);
                let last = builder.constant_index(length - 1);
                let (other, _) = elements(emitter, Some(builder.minsi(half, last)))?;
                let comes_before = comes_before(emitter, comparator, is_left, &element, &other)?;
                let comes_before = builder.andi(goes_on, comes_before);
                let behind = builder.select(comes_before, builder.addi(half, one), lower);
                let goes_on_before = builder.select(comes_before, upper, builder.select(goes_on, half, upper));
                Ok(vec![behind, goes_on_before])
            })?;
            let place = builder.subi(builder.addi(own, found[0]), middle);
            let mut target = index.clone();
            target[self.along] = emitter.scope.add_variable(Interval::of_size(length), Binding::Index(place));
            element.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, &target, value))
        })
    }
}

/// Whether an element of the other run comes before one of the left run, or of the right one: of equal elements those of the left
/// run come first.
pub(super) fn comes_before<'c>(
    emitter: &mut Elemental<'_, 'c>,
    comparator: &Computation,
    is_left: Value<'c>,
    own: &[RegisterValue<'c>],
    other: &[RegisterValue<'c>],
) -> Result<Value<'c>> {
    let builder = emitter.builder;
    let arguments: Vec<RegisterValue<'c>> = own
        .iter()
        .zip(other)
        .flat_map(|(own, other)| [select(builder, is_left, other, own), select(builder, is_left, own, other)])
        .collect();
    let holds = emitter.scalar_computation(comparator, &arguments)?;
    let holds = holds.first().ok_or_else(|| LoweringError::bug("comparator without a result"))?;
    Ok(builder.cmpi(Eq, holds.value, is_left))
}

/// Whether some of the arrays at some places lie over some at others.
fn are_overlapping(places: &[Slice], others: &[Slice]) -> bool {
    places.iter().any(|place| others.iter().any(|other| overlap(*place, *other)))
}
