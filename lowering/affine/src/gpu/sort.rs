//! Sorting by merging, where digits (`radix_sort`) are not better: sorted runs become runs of twice the length. What a block can hold is one kernel (`block_sort`), and each
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
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::{Buffer, ComputationBuffers, Slice};

use super::block_sort::BlockSort;
use super::kernels::{KernelArrays, grid};
use super::plan::copy;
use super::radix_sort::RadixSort;
use super::sort_order::{Merged, SortOrder};
use super::{GpuProgram, Result, SCRATCH_ALIGNMENT, over_threads};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::mapping::{self, invalid};
use crate::memory::ArrayRef;
use crate::program::{kernel_body, kernel_slices, overlap};
use crate::scalar::RegisterValue;
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
        let order = SortOrder::of(&single.root().computations[0], inputs.len());
        let merge = Merge { sort: &single, order: &order, sizes: &sizes, along };
        let block_sort = BlockSort::of(&single, &sizes, along);
        let of_blocks = block_sort.as_ref().map_or(0, BlockSort::doublings).min(doublings);
        if let Some(radix) = RadixSort::of(&order, &inputs, along, doublings - of_blocks) {
            return self.radix_sort((computation, id, &single), &radix, &inputs, &to);
        }
        let is_whole = of_blocks == doublings && (from == to || !are_overlapping(&from, &to));
        let scratch = if is_whole { Vec::new() } else { self.scratch(&to) };
        let structure = self.kernel_names.number_of(single.structure());
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
                block_sort.emit(&mut emitter, &order, (inputs.len(), outputs), function)
            })?;
            let (blocks, threads) = block_sort.grid();
            steps.push(kernel.launch(blocks, threads, own.arguments()));
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
            let arguments = [arrays.arguments(), vec![LaunchArgument::Number(1 << doubling)]].concat();
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
    order: &'s SortOrder<'s>,
    sizes: &'s [i64],
    along: usize,
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
                values.collect::<Result<Vec<RegisterValue<'c>>>>()
            };
            let own = emitter.scope.emit(builder, index[self.along])?;
            let element = elements(emitter, None)?;
            let size = builder.constant_index(length);
            let both = builder.addi(run, run);
            let first = builder.muli(builder.divui(own, both), both);
            let middle = builder.minsi(builder.addi(first, run), size);
            let end = builder.minsi(builder.addi(first, both), size);
            let merged = Merged { position: own, first, middle, end };
            let place =
                merged.place(emitter, self.order, &element, &mut |emitter, other| elements(emitter, Some(other)))?;
            let mut target = index.clone();
            target[self.along] = emitter.scope.add_variable(Interval::of_size(length), Binding::Index(place));
            element.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, &target, value))
        })
    }
}

/// Whether some of the arrays at some places lie over some at others.
pub(super) fn are_overlapping(places: &[Slice], others: &[Slice]) -> bool {
    places.iter().any(|place| others.iter().any(|other| overlap(*place, *other)))
}
