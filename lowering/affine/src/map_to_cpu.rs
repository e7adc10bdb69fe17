//! `hlo-map-to-cpu`: loops, vectors and threads for the kernels of a program.
//!
//! From the trace of a fusion's outputs it is chosen which dimensions become one loop, where loops are cut so that pads and
//! concatenations need no tests, and which loop takes a vector a step: the innermost one, or, where that is shorter than a
//! vector, one around it. Rows that do not divide into vectors end with a vector that overlaps the one before it (and, where
//! the kernel writes over what it reads, stores only its own lanes). Reductions along long rows vectorise inside instead. What
//! belongs to a row as a whole is computed before its elements, for a block of rows that the first cache holds.

mod crossed;
mod lanes;
mod squares;

use std::cell::RefCell;
use std::collections::HashMap;

use hlo::devices::DeviceCount;
use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{RowWork, WorkDimension, WorkKind, WorkMapping, pieces};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, Lowering, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, IndexingMap, Interval, Variable};
use melior::Context;
use melior::ir::block::BlockArgument;
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, BlockLike, OperationRef, Value};
use mlir_ext::builder::Machine;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};
use passes::assign_buffers::{PARAMETER_SLICES, SLICES, Slice};
use passes::fuse::{Rows, first_result, update_of};

use crate::column_blocks::ColumnBlocks;
use crate::cost::cost;
use crate::error::LoweringError;
use crate::kernel::{MOST_MOVED_NEIGHBOURS, MOST_NEIGHBOURS, are_together};
use crate::mapping::{self, combines, has_elements, has_functions, invalid, lanes_of_small_integers, mapped_sizes};
use crate::matmul::{self, AttentionKernel};
use crate::moved_bits::MovedBits;
use crate::operand_maps::result_shape;
use crate::program::{CallOptions, CustomCallNames, check_instruction, kernel_body, lowering_of, overlap};
use crate::scan::Scan;
use crate::short_rows::reduces_rows_together;
use crate::to_affine::devices_together;
use crate::trace::{merged_dimensions, split_merged};
use crate::traced::{Traced, bounds_of};
use crate::walk::substitute;
use crate::wide_concatenate::{KernelPart, WideConcatenate};
use crossed::{Crossing, crossing, small_matrices};
use lanes::{STEPS_OF_THREADS, lanes_of_loop, lanes_of_shuffles, reduces_bytes_apart, vector_lanes};
use squares::{
    are_pages_apart, lanes_of_squares, rows_together, takes_blocks, transposed_loop, transposed_narrow_loop,
};

type Result<T> = std::result::Result<T, LoweringError>;

/// Boxes that cutting loops may make; beyond that conditions are tested inside.
const MAX_BOXES: usize = 27;

/// Terms, in vectors, up to which choices of several values are made a row a lane, wherever rows are: along a row the lanes'
/// choices would be combined one by one.
const SHORT_ROW_OF_CHOICES: i64 = 4;

/// Instructions up to which vectors may go around a few items that each have code of their own, of all items together.
const MOST_INSTRUCTIONS: i64 = 512;

/// Lanes of vectors for rows that are shorter than registers.
const FEWEST_LANES: u32 = 4;

/// The same of lookups at places that all rows share.
const LANES_OF_LOOKUPS: u32 = 8;

/// Vectors of results that are stored apart, at most, each of whose lanes is an instruction.
const VECTORS_APART: u32 = 8;

/// Elements of rows that are computed together, at most.
const ELEMENTS_OF_BLOCK: i64 = 2048;

/// Rows that a vector goes through, at most.
const MOST_ROWS_OF_VECTOR: i64 = 16;

/// Rows that are computed together, at most.
const ROWS_OF_BLOCK: i64 = 64;

/// Element operations below which a kernel stays on the calling thread.
const PARALLEL_COST: i64 = 400_000;

/// Element operations that a thread takes at once: enough to be worth handing out.
const TASK_COST: i64 = PARALLEL_COST / 4;

/// Tasks of a kernel, at most: enough for many threads to finish together.
const MOST_TASKS: i64 = 256;

/// Elements that a thread takes at once of a row that it shares with others, at least: a page of them.
const RUN_OF_THREAD: i64 = 1024;

/// What work is divided for.
#[derive(Clone, Copy, Debug)]
pub struct CpuTarget {
    /// Bits of the target's vector registers.
    pub vector_bits: u32,
    /// Whether large kernels are handed to the runtime's threads.
    pub parallel: bool,
    /// Whether the processor follows few rows at once that are written side by side, pages apart (AMD's Zen).
    pub few_write_streams: bool,
}

/// Notes on the kernels of a module's entry function how their work is divided; returns their number.
///
/// # Errors
/// [`LoweringError::Unsupported`] for operations without a lowering, [`LoweringError::Dialect`] for a module that is no
/// HLO program or whose buffers are not assigned. The module is then as it was.
pub fn run(module: OperationRef<'_, '_>, target: CpuTarget, custom_calls: CustomCallNames) -> Result<u64> {
    let function = dialect::entry_function(module)?;
    let rewriter = Rewriter::new(function);
    let context = rewriter.context();
    let devices = match dialect::device_count(module) {
        DeviceCount::ONE => DeviceCount::ONE,
        devices => {
            let entry = dialect::snapshot(dialect::single_block(function, 0)?, |_, _| true)?.computation;
            devices_together(&entry, devices)
        }
    };
    let calls = CallOptions { custom_calls, devices };
    let known: RefCell<HashMap<(String, bool), Vec<WorkMapping<'_>>>> = RefCell::default();
    mapping::write(&rewriter, function, &|operation, computation, instruction| {
        check_instruction(computation, instruction, calls, "cpu")?;
        if lowering_of(instruction) != Lowering::Kernel {
            return Ok(None);
        }
        // What is chosen for a kernel is chosen for others of the same structure.
        let key = (kernel_body(computation, instruction).structure(), is_in_place(operation)?);
        if let Some(mappings) = known.borrow().get(&key) {
            return Ok(Some(mappings.clone()));
        }
        let mappings = choose(context, computation, instruction, key.1, target)?;
        known.borrow_mut().insert(key, mappings.clone());
        Ok(Some(mappings))
    })
}

/// Whether the result of an operation shares bytes with an operand.
pub(crate) fn is_in_place(operation: OperationRef<'_, '_>) -> Result<bool> {
    let own = places(operations::attribute(&operation, SLICES))?;
    for operand in operation.operands() {
        let read = match operations::definition(operand) {
            Some(definition) => places(operations::attribute(&definition, SLICES))?,
            None => argument_places(operand)?,
        };
        if read.iter().any(|read| own.iter().any(|own| overlap(*read, *own))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The places of a block's argument, which the block's terminator says.
fn argument_places(value: Value<'_, '_>) -> Result<Vec<Slice>> {
    let argument = BlockArgument::try_from(value).map_err(|error| LoweringError::bug(error.to_string()))?;
    let block = argument.owner();
    let all = block.terminator().and_then(|terminator| operations::attribute(&terminator, PARAMETER_SLICES));
    places(all.and_then(|all| attributes::element(all, argument.argument_number())))
}

fn places(slices: Option<Attribute<'_>>) -> Result<Vec<Slice>> {
    let slices = slices.ok_or_else(|| invalid("an operation has no place: buffers are not assigned".into()))?;
    Ok(dialect::slices_of(slices)?.into_iter().flatten().collect())
}

/// How the work of an instruction's kernels is divided; nothing for what has no elements. `in_place` says
/// whether an output may lie over an input: each element is then written once, right after it was read.
fn choose<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
    in_place: bool,
    target: CpuTarget,
) -> Result<Vec<WorkMapping<'c>>> {
    if !has_elements(computation, instruction)? {
        return Ok(Vec::new());
    }
    let sizes = mapped_sizes(computation, instruction)?;
    let body = kernel_body(computation, instruction);
    if body.root().kind == OpKind::Scatter {
        let shapes = [&[&body.root().shape], &body.operand_shapes(body.root())[..]].concat();
        return Ok(vec![whole(context, &[], sizes, vector_lanes(shapes, target.vector_bits))]);
    }
    let parallel = |mut mapping: WorkMapping<'c>, cost: i64| {
        if target.parallel && cost >= PARALLEL_COST {
            share_among_threads(&mut mapping, cost / TASK_COST);
        }
        mapping
    };
    // By which instructions a task computes does not matter here.
    let machine = Machine::default();
    if let Some(attention) = AttentionKernel::recognise(context, instruction, target.vector_bits, machine) {
        let mapping = whole(context, &[attention.tasks()], sizes, attention.lanes());
        return Ok(vec![parallel(mapping, attention.cost())]);
    }
    if let Some(product) = matmul::recognise(context, computation, instruction, target.vector_bits, machine) {
        let mapping = whole(context, &[product.tasks()], sizes, product.lanes());
        return Ok(vec![parallel(mapping, product.cost())]);
    }
    let bits = MovedBits::of(&body);
    let body = bits.as_ref().map_or(&*body, |bits| &bits.computation);
    let rows = Rows::of(context, body);
    let Some(wide) = WideConcatenate::of(body)? else {
        let choice = Choice { in_place, part: None, target };
        let mut mapping = loops_over_elements(context, body, (sizes, rows), &choice)?;
        if mapping.rows.is_none() && !mapping.dimensions.iter().any(|own| own.lanes > 1 || own.kind == WorkKind::Scan) {
            mapping.rows = functions_of_rows(context, body, &mapping);
        }
        let mapping = parallel(mapping, cost(context, body));
        return Ok(vec![match ColumnBlocks::of(context, body, &mapping)? {
            Some(blocks) => blocks.adapt(mapping),
            None => mapping,
        }]);
    };
    let pieces = wide.pieces();
    let cost = cost(context, body) / pieces.len() as i64;
    let kernel = |piece: Interval| {
        let part = if rows.is_some() { KernelPart::whole(body) } else { wide.part(piece) };
        let choice = Choice { in_place, part: Some((wide.dimension, piece)), target };
        Ok(parallel(loops_over_elements(context, &part.body, (sizes, rows.clone()), &choice)?, cost))
    };
    pieces.into_iter().map(kernel).collect()
}

/// Hands the loops over a dimension to threads, in about so many tasks: those over the outermost one that has enough
/// iterations, else those that have the most.
fn share_among_threads(mapping: &mut WorkMapping<'_>, tasks: i64) {
    let tasks = tasks.clamp(2, MOST_TASKS);
    let depth = mapping.rows.as_ref().map_or(mapping.dimensions.len(), |rows| rows.dimensions);
    let extent = |number: usize| mapping.bounds(number).upper - mapping.bounds(number).lower + 1;
    // Threads that share rows take runs of their elements, so that each has lines of its own.
    let least_tile = |number: usize| {
        let inside: i64 = (number + 1..mapping.dimensions.len()).map(extent).product();
        let elements = inside.saturating_mul(i64::from(mapping.dimensions[number].lanes));
        if number == 0 { 1 } else { indexing::ceil_div(RUN_OF_THREAD, elements.max(1)) }
    };
    let steps: Vec<i64> = (0..depth).map(|number| mapping.iterations(number) / least_tile(number)).collect();
    let Some(most) = steps.iter().copied().max() else { return };
    let enough = most.min(tasks).min(STEPS_OF_THREADS);
    let Some(number) = steps.iter().position(|&steps| steps >= enough.max(2)) else { return };
    let mut tile = (mapping.iterations(number) / tasks).max(least_tile(number));
    if let Some(rows) = mapping.rows.as_ref().filter(|rows| rows.dimensions == number + 1 && tile > rows.block) {
        tile -= tile % rows.block;
    }
    let own = &mut mapping.dimensions[number];
    *own = WorkDimension { kind: WorkKind::Parallel, tile, ..own.clone() };
}

/// Tasks that each compute several elements, in a way of their own.
pub(crate) fn whole<'c>(context: &'c Context, tasks: &[i64], sizes: &[i64], inner_lanes: u32) -> WorkMapping<'c> {
    let index = (0..sizes.len()).map(|range| Expr::symbol(context, range)).collect();
    WorkMapping {
        map: IndexingMap::from_sizes(context, tasks, sizes, index),
        dimensions: vec![WorkDimension::sequential(); tasks.len()],
        inner_lanes,
        overlap: false,
        rows: None,
    }
}

/// What the choice of loops depends on besides the computation.
struct Choice {
    in_place: bool,
    /// The part of a dimension that is computed; `None` for all elements.
    part: Option<(usize, Interval)>,
    target: CpuTarget,
}

/// A loop of the nest: neighbouring dimensions of the array, merged.
struct Loop {
    sizes: Vec<i64>,
    bounds: Interval,
    cuts: Vec<i64>,
}

impl Loop {
    fn over(size: i64) -> Self {
        Loop { sizes: vec![size], bounds: Interval::of_size(size), cuts: Vec::new() }
    }

    /// The lengths of its pieces.
    fn lengths(&self) -> Vec<i64> {
        pieces(self.bounds, &self.cuts).map(|piece| piece.upper - piece.lower + 1).collect()
    }

    /// Whether one of its pieces has as many positions.
    fn is_as_long_as(&self, positions: u32) -> bool {
        self.lengths().iter().any(|&length| length >= i64::from(positions))
    }

    /// Whether vectors of so many lanes leave nothing over.
    fn divides_into(&self, lanes: u32) -> bool {
        self.lengths().iter().all(|length| length % i64::from(lanes) == 0)
    }
}

/// The loops over the elements of an array that a computation writes.
fn loops_over_elements<'c>(
    context: &'c Context,
    computation: &Computation,
    (sizes, rows): (&[i64], Option<Rows>),
    choice: &Choice,
) -> Result<WorkMapping<'c>> {
    let root = computation.root();
    let shapes = computation.instructions.iter().map(|instruction| &instruction.shape);
    let lanes = vector_lanes(shapes, choice.target.vector_bits);
    let is_update = root.kind == OpKind::DynamicUpdateSlice;
    // Dimensions of which an update is a part, so that rows of it are not neighbours in memory.
    let whole = if is_update { &result_shape(root)?.dimensions } else { sizes };
    let parts: Vec<usize> = (0..sizes.len()).filter(|&own| whole[own] != sizes[own]).collect();
    let written = written(computation);
    let scan = scan_of(context, computation, sizes)?;
    let last_if_long = |loops: &[Loop]| loops.len().checked_sub(1).filter(|&last| loops[last].is_as_long_as(lanes));
    let mut overlap = !is_update && !choice.in_place;
    // The loop of rows, the lanes, and how far rows of the result are from each other.
    let mut transposed = None;
    let mut narrow_loop = None;
    let mut reads_neighbours = true;
    let mut scan_lanes = 1;
    let mut crossed = None;
    let (loops, vector_loop) = match &scan {
        Some(scan) => {
            let mut loops: Vec<Loop> = sizes.iter().copied().map(Loop::over).collect();
            loops.remove(scan.dimension);
            let is_along_rows = scan.dimension + 1 == sizes.len();
            if is_along_rows && scans_vectors(context, computation, (scan, sizes), &written)? {
                let row = Loop::over(sizes[scan.dimension]);
                let narrow = lanes_of_small_integers(computation, lanes);
                let as_long = [narrow, lanes].into_iter().find(|&lanes| row.is_as_long_as(lanes));
                scan_lanes = as_long.unwrap_or(scan_lanes);
            }
            let vector_loop = if is_along_rows || lanes < 2 { None } else { last_if_long(&loops) };
            (loops, vector_loop)
        }
        None => {
            let traced = Traced::new(context, computation, &written, sizes, choice.part)?;
            let by_row = rows.as_ref().map(|rows| rows.rank);
            let starts = choice.part.map(|(own, _)| own).into_iter().chain(by_row);
            let mut groups = groups_of(&traced, sizes, starts.chain(parts.iter().copied()));
            if choice.part.is_none() && rows.is_none() && !is_update && lanes >= 2 {
                join_short_rows(&mut groups, &traced, computation, sizes, lanes);
            }
            let plan = |groups: &[(usize, usize)]| {
                plan_loops(&traced, computation, sizes, lanes, (groups, choice.part, by_row))
            };
            let (mut loops, mut vector_loop) = plan(&groups);
            if choice.part.is_none() && rows.is_none() && whole.last() == sizes.last() {
                let crossing = |loops: &[Loop], groups: &[(usize, usize)]| {
                    crossing(computation, loops, groups, &traced, (lanes, choice.in_place))
                };
                crossed = crossing(&loops, &groups);
                let of_matrices = || {
                    let joined = small_matrices(computation, &groups, sizes)?;
                    let (loops, _) = plan(&joined);
                    let own = crossing(&loops, &joined)?;
                    Some((joined, loops, own))
                };
                if crossed.is_none()
                    && let Some((joined, of_matrices, own)) = of_matrices()
                {
                    (groups, loops) = (joined, of_matrices);
                    // Each matrix of whole vectors is a loop as others.
                    match own.rows {
                        1 => vector_loop = Some(loops.len() - 1),
                        _ => crossed = Some(own),
                    }
                }
            }
            if let (Some(_), [.., row]) = (crossed, &mut loops[..]) {
                row.cuts.clear();
                vector_loop = None;
            }
            let variable = vector_loop.and_then(|number| traced.innermost_variable(groups[number]));
            if let Some(variable) = variable {
                let along = traced.found.accesses_along(&traced.scope, variable);
                reads_neighbours = along.near + along.other == 0;
                overlap &= !traced.found.has_groups_along(variable, lanes);
            }
            let is_last = |number: usize| number + 1 == loops.len();
            if vector_loop.is_none_or(is_last) && crossed.is_none() && !is_update && rows.is_none() {
                transposed = lanes_of_squares(computation, lanes).find_map(|own| {
                    let row = transposed_loop(computation, &loops, &groups, &traced, (own, overlap))?;
                    Some((row, own, sizes[groups[row].1..].iter().product()))
                });
                if transposed.is_some() {
                    vector_loop = loops.len().checked_sub(1);
                } else if vector_loop.is_some() {
                    narrow_loop = transposed_narrow_loop(computation, &loops, &groups, &traced);
                }
            }
            (loops, vector_loop)
        }
    };
    let squares = transposed.zip(vector_loop).map(|((row, own, row_distance), along)| {
        let is_far = choice.target.few_write_streams && are_pages_apart(root, row_distance);
        match is_far {
            true if takes_blocks(computation, [&loops[row], &loops[along]], own) => [(row, 2 * own), (along, 2 * own)],
            true => [(row, own), (along, own)],
            false => [(row, rows_together(computation, &loops[row], own, overlap)), (along, own)],
        }
    });
    let lanes_of = |number: usize| {
        let own = lanes_of_loop(computation, &loops[number], sizes, lanes, (overlap, reads_neighbours), choice.target);
        let inside = items(&loops[number + 1..]);
        let is_shuffled = inside > MOST_NEIGHBOURS && are_together(inside, computation)
            || !reads_neighbours && reduces_bytes_apart(computation, sizes);
        // What is stored apart is a store for each lane.
        let is_apart = inside > MOST_NEIGHBOURS && !are_together(inside, computation);
        let own = if is_apart { own.min(VECTORS_APART * lanes) } else { own };
        if is_shuffled { own.min(lanes_of_shuffles(computation, lanes)) } else { own }
    };
    let vectors: Vec<(usize, u32)> = match (squares, crossed) {
        (Some(squares), _) => squares.to_vec(),
        (None, Some(Crossing { rows, lanes })) => vec![(loops.len() - 2, rows), (loops.len() - 1, lanes)],
        (None, None) => vector_loop.map(|number| (number, lanes_of(number))).into_iter().collect(),
    };
    let row_work = rows.map(|Rows { rank, steps, .. }| {
        let mut covered = 0;
        let dimensions = loops.iter().take_while(|l| {
            let is_of_rows = covered < rank;
            covered += l.sizes.len();
            is_of_rows
        });
        RowWork { dimensions: dimensions.count(), rank, block: rows_of_block(computation, &sizes[..rank]), steps }
    });
    let mapping = mapping_of(context, loops, scan.map(|scan| (scan, sizes, scan_lanes)), &vectors, (lanes, overlap));
    let mut mapping = match narrow_loop {
        Some(number) => moved_inside(context, mapping, number),
        None => mapping,
    };
    if let (Some(_), Some(row)) = (crossed, mapping.dimensions.last_mut()) {
        row.kind = WorkKind::Crossed;
    }
    Ok(WorkMapping { rows: row_work, ..mapping })
}

/// What vectors compute for several elements at once, of which each is made of a reduction along rows of its own.
fn functions_of_rows(context: &Context, body: &Computation, mapping: &WorkMapping<'_>) -> Option<RowWork> {
    let Rows { rank, steps, .. } = Rows::with_functions(context, body)?;
    let (_, sizes) = passes::fuse::written(body);
    let is_small = |&step: &InstructionId| first_result(body.get(step)).is_some_and(|shape| shape.rank() <= rank);
    let is_enough = sizes.iter().product::<i64>() >= i64::from(mapping.inner_lanes);
    if !is_enough || rank < sizes.len() || !steps.iter().all(is_small) {
        return None;
    }
    Some(RowWork { dimensions: mapping.dimensions.len(), rank, block: ROWS_OF_BLOCK, steps })
}

/// Rows that are computed together: as many as the first cache holds, and as fill vectors, which may go from row to row.
fn rows_of_block(computation: &Computation, rows: &[i64]) -> i64 {
    let rows = rows.iter().product::<i64>().max(1);
    let arrays = computation.instructions.iter().filter_map(|instruction| instruction.shape.as_array());
    let longest = arrays.fold(1, |longest, array| longest.max(array.element_count() / rows));
    let most = (ELEMENTS_OF_BLOCK / longest).clamp(1, ROWS_OF_BLOCK);
    let whole = 1 << most.min(MOST_ROWS_OF_VECTOR).ilog2();
    most - most % whole
}

/// The instructions whose elements a computation writes.
fn written(computation: &Computation) -> Vec<InstructionId> {
    let root = computation.root();
    if let Some(update) = update_of(root) {
        return vec![update];
    }
    let (mut roots, sizes) = passes::fuse::written(computation);
    // Others are read for these.
    roots.retain(|&root| first_result(computation.get(root)).is_none_or(|shape| shape.dimensions == sizes));
    roots
}

/// The cumulative reduce-window that a loop over the elements of a result, of some sizes, can carry along.
pub(crate) fn scan_of(context: &Context, computation: &Computation, sizes: &[i64]) -> Result<Option<Scan>> {
    let has_window = computation.instructions.iter().any(|instruction| instruction.kind == OpKind::ReduceWindow);
    if !has_window || computation.root().kind == OpKind::DynamicUpdateSlice {
        return Ok(None);
    }
    let traced = Traced::new(context, computation, &written(computation), sizes, None)?;
    Ok(Scan::find(computation, &traced.found, &traced.index))
}

/// Whether a scan goes along its rows by vectors: it may, and their lanes are neighbours wherever they are read.
fn scans_vectors(
    context: &Context,
    computation: &Computation,
    (scan, sizes): (&Scan, &[i64]),
    written: &[InstructionId],
) -> Result<bool> {
    let is_other = |(id, own): (InstructionId, &Instruction)| id != scan.instruction && combines(own);
    if scan.of_vectors(computation).is_none() || computation.iter().any(is_other) {
        return Ok(false);
    }
    let Traced { scope, variables, found, .. } = Traced::new(context, computation, written, sizes, None)?;
    let along = variables[scan.dimension].as_variable();
    Ok(along.is_some_and(|along| found.accesses_along(&scope, along).other == 0 && !found.looks_up_by(&scope, along)))
}

/// The mapping of loops, from the outermost, of which some may take vectors, and of a scan inside of them.
fn mapping_of<'c>(
    context: &'c Context,
    loops: Vec<Loop>,
    scan: Option<(Scan, &[i64], u32)>,
    vectors: &[(usize, u32)],
    (inner_lanes, overlap): (u32, bool),
) -> WorkMapping<'c> {
    let depth = loops.len();
    let variable = |number: usize| Expr::dim(context, number);
    let mut index: Vec<Expr<'c>> =
        loops.iter().enumerate().flat_map(|(number, l)| split_merged(variable(number), &l.sizes)).collect();
    let mut bounds: Vec<Variable<'c>> = loops.iter().map(|l| Variable::new(l.bounds)).collect();
    let mut dimensions: Vec<WorkDimension> =
        loops.into_iter().map(|l| WorkDimension { cuts: l.cuts, ..WorkDimension::sequential() }).collect();
    for &(number, lanes) in vectors {
        dimensions[number].lanes = lanes;
    }
    if let Some((scan, sizes, lanes)) = scan {
        let size = sizes[scan.dimension];
        index.insert(scan.dimension, scan.position(variable(depth), size));
        bounds.push(Variable::of_size(size));
        dimensions.push(WorkDimension { kind: WorkKind::Scan, lanes, ..WorkDimension::sequential() });
    }
    let map = IndexingMap::new(context, bounds, Vec::new(), Vec::new(), index, Vec::new());
    WorkMapping { map, dimensions, inner_lanes, overlap, rows: None }
}

/// A mapping whose innermost loop is another of its loops.
fn moved_inside<'c>(context: &'c Context, mapping: WorkMapping<'c>, number: usize) -> WorkMapping<'c> {
    let mut order: Vec<usize> = (0..mapping.dimensions.len()).collect();
    let moved = order.remove(number);
    order.push(moved);
    let place = |number| order.iter().position(|&own| own == number).unwrap_or(number);
    let variables: Vec<Expr<'c>> = (0..order.len()).map(|number| Expr::dim(context, place(number))).collect();
    let index = mapping.map.results().iter().map(|&result| substitute(result, &variables, &[], &[])).collect();
    let bounds = order.iter().map(|&number| mapping.map.dims()[number].clone()).collect();
    let dimensions = order.iter().map(|&number| mapping.dimensions[number].clone()).collect();
    let map = IndexingMap::new(context, bounds, Vec::new(), Vec::new(), index, Vec::new());
    WorkMapping { map, dimensions, ..mapping }
}

/// The neighbouring dimensions that are one loop each, as (first, one past last).
fn groups_of(traced: &Traced<'_>, sizes: &[i64], starts: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let groups = merged_dimensions(&traced.found, &traced.scope, (&traced.variables, sizes), true);
    // A part of a dimension is a loop of its own, and no loop goes from row to row and along them.
    starts.fold(groups, |groups, own| {
        let split = |(first, last)| match (first + 1..last).contains(&own) {
            true => vec![(first, own), (own, last)],
            false => vec![(first, last)],
        };
        groups.into_iter().flat_map(split).collect()
    })
}

/// Makes one loop of rows that divide a vector and of what is around them, if vectors can go from row to row.
fn join_short_rows(
    groups: &mut Vec<(usize, usize)>,
    traced: &Traced<'_>,
    computation: &Computation,
    sizes: &[i64],
    lanes: u32,
) {
    let &[.., (first, end), (last, _)] = &groups[..] else { return };
    let (row_size, count) = (sizes[last], sizes[first..].iter().product::<i64>());
    // As small integers may take more lanes, which must not end within a row either.
    let widest = i64::from(lanes_of_small_integers(computation, lanes));
    let divides = row_size >= 2 && row_size < i64::from(lanes) && i64::from(lanes) % row_size == 0;
    let variable = |dimension: usize| traced.variables[dimension].as_variable();
    if last + 1 != sizes.len() || !divides || count % widest != 0 || computation.instructions.iter().any(combines) {
        return;
    }
    if let (Some(row), Some(along)) = (variable(end - 1), variable(last))
        && traced.found.crosses_rows(&traced.scope, row, along, row_size)
    {
        groups.pop();
        if let Some(group) = groups.last_mut() {
            group.1 = sizes.len();
        }
    }
}

/// The loops over all dimensions, and which one takes vectors.
fn plan_loops(
    traced: &Traced<'_>,
    computation: &Computation,
    sizes: &[i64],
    lanes: u32,
    (groups, part, by_row): (&[(usize, usize)], Option<(usize, Interval)>, Option<usize>),
) -> (Vec<Loop>, Option<usize>) {
    let mut loops: Vec<Loop> = groups
        .iter()
        .map(|&(first, last)| {
            let sizes = sizes[first..last].to_vec();
            let inner: i64 = sizes.iter().skip(1).product();
            let bounds = bounds_of(part, first, sizes[0]);
            Loop {
                sizes,
                bounds: Interval::new(bounds.lower * inner, (bounds.upper + 1) * inner - 1),
                cuts: Vec::new(),
            }
        })
        .collect();
    cut_loops(&mut loops, groups, traced);
    let row_loops = groups.iter().filter(|(first, _)| by_row.is_some_and(|rank| *first < rank)).count();
    let vector_loop = vector_loop(computation, &loops, groups, traced, (lanes, row_loops));
    (loops, vector_loop)
}

/// The items of nested loops.
fn items(loops: &[Loop]) -> i64 {
    loops.iter().flat_map(|inner| &inner.sizes).product()
}

/// Whether the items of some loops are so few that vectors of them are stored alternating.
fn is_alternating(loops: &[Loop], computation: &Computation) -> bool {
    are_together(items(loops), computation)
}

fn cut_loops(loops: &mut [Loop], groups: &[(usize, usize)], traced: &Traced<'_>) {
    let mut boxes = 1usize;
    for (l, &(first, last)) in loops.iter_mut().zip(groups) {
        let inner: i64 = l.sizes.iter().skip(1).product();
        // Lanes find the terms of whole windows next to each other.
        let is_innermost = last == first + 1 && last == traced.variables.len();
        let own = (traced.variables[first], l.bounds, inner);
        let cuts = traced.found.cuts_of_merged(&traced.scope, own, is_innermost);
        if boxes * (cuts.len() + 1) <= MAX_BOXES {
            boxes *= cuts.len() + 1;
            l.cuts = cuts;
        }
    }
}

/// The loop that takes vectors, if one is long enough and no reduction wants the lanes for itself.
fn vector_loop(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
    (lanes, row_loops): (u32, usize),
) -> Option<usize> {
    let Traced { scope, found, .. } = traced;
    let last = loops.len().checked_sub(1).filter(|&last| lanes >= 2 && last >= row_loops)?;
    // Those of rows are done before the elements of the row.
    let has_reduction =
        row_loops == 0 && computation.instructions.iter().any(|instruction| instruction.kind == OpKind::Reduce);
    let innermost_variable = |number: usize| traced.innermost_variable(groups[number]);
    let arithmetic = computation.instructions.iter().filter(|instruction| {
        definition(instruction.kind).fusion == FusionRole::Elementwise
            && instruction.shape.as_array().is_some_and(|shape| shape.rank() > 0)
    });
    // Vectors of these are worth it, wherever the lanes find their elements.
    let has_functions = has_functions(computation);
    let chooses_in_short_rows = has_reduction && chooses_in_short_rows(computation, lanes);
    if loops[last].is_as_long_as(lanes) {
        let Some(variable) = innermost_variable(last) else { return Some(last) };
        let along = found.accesses_along(scope, variable);
        // A reduction of long rows reads consecutive elements itself; other reductions read them along the result.
        let is_taken = if has_reduction {
            along.is_near() || chooses_in_short_rows || reduces_rows_together(computation, lanes)
        } else {
            let looks_up_by_lane = found.looks_up_by(scope, variable);
            has_functions || !looks_up_by_lane || along.consecutive > 0
        };
        // Columns of what is read transposed are neighbours along another loop, whose vectors are stored apart.
        let has_columns = |&number: &usize| {
            let along = innermost_variable(number).map(|variable| found.accesses_along(scope, variable));
            loops[number].is_as_long_as(lanes) && along.is_some_and(|along| along.is_near() && along.consecutive > 0)
        };
        let columns = || (row_loops..last).rev().filter(|_| has_reduction).find(has_columns);
        return if is_taken { Some(last) } else { columns() };
    }
    // Around loops that are shorter than a vector, where lanes find their elements nearby. Data that is only moved is
    // not worth it, unless whole vectors are stored.
    let is_short = |inner: &[Loop]| {
        !is_alternating(inner, computation) || items(inner) * computation.instructions.len() as i64 <= MOST_INSTRUCTIONS
    };
    let operations = arithmetic.count();
    let is_worth_it = has_reduction || operations >= 2 || has_functions && !found.lookups.is_empty();
    let is_near = |number: usize| {
        innermost_variable(number).is_some_and(|variable| {
            found.accesses_along(scope, variable).is_near() && !found.looks_up_by(scope, variable)
        })
    };
    // Places that rows share are looked up along them where there are enough for lanes to find theirs at once, or some arithmetic.
    let is_computed = |own: &Instruction| {
        definition(own.kind).fusion == FusionRole::Elementwise
            && own.shape.as_array().is_some_and(|shape| shape.element_count() == items(loops))
    };
    let has_enough = || loops[last].is_as_long_as(LANES_OF_LOOKUPS) || computation.instructions.iter().any(is_computed);
    let shares_places = !has_functions && looks_up_along(traced, groups, last) && has_enough();
    let takes_few = loops[last].is_as_long_as(FEWEST_LANES)
        && (is_near(last) || shares_places)
        && computation
            .instructions
            .iter()
            .all(|own| matches!(own.kind, OpKind::Reduce | OpKind::ReduceWindow | OpKind::Dot) || !combines(own));
    // Rows take vectors of fewer lanes, where those around them would be stored element by element for little work, or where all that is
    // done is that rows are moved.
    let moves_rows = || {
        let along = innermost_variable(last).map(|variable| found.accesses_along(scope, variable));
        operations == 0 && along.is_some_and(|along| along.near == 0)
    };
    let is_by_rows = match has_reduction {
        true => loops[last].is_as_long_as(2 * FEWEST_LANES),
        false => shares_places || (!is_alternating(&loops[last..], computation) || moves_rows()) && !has_functions,
    };
    if takes_few && is_by_rows {
        return Some(last);
    }
    let around = (row_loops..last).rev().find(|&number| {
        // What is looked up along a row is looked up once for all lanes around it.
        let looks_up = !found.lookups.is_empty() && items(&loops[number + 1..]) > MOST_MOVED_NEIGHBOURS;
        let is_wanted = is_worth_it || looks_up || is_alternating(&loops[number + 1..], computation);
        let pays = is_near(number) || has_functions || chooses_in_short_rows;
        loops[number].is_as_long_as(lanes) && is_wanted && pays && is_short(&loops[number + 1..])
    });
    around.or(Some(last).filter(|_| takes_few))
}

/// Whether places are looked up along the last loop that are the same in all iterations of those around it.
fn looks_up_along(traced: &Traced<'_>, groups: &[(usize, usize)], last: usize) -> bool {
    let Traced { scope, found, .. } = traced;
    let looks_up_by = |number: usize| {
        let variable = traced.innermost_variable(groups[number]);
        !found.lookups.is_empty() && variable.is_none_or(|variable| found.looks_up_by(scope, variable))
    };
    looks_up_by(last) && !(0..last).any(looks_up_by)
}

/// The elements that a reduction makes one of.
fn terms(computation: &Computation, reduce: &Instruction) -> i64 {
    let count = |shape: Option<&ArrayShape>| shape.map_or(0, ArrayShape::element_count);
    let read = reduce.operands.first().and_then(|&operand| computation.get(operand).shape.as_array());
    count(read) / count(first_result(reduce)).max(1)
}

/// Whether all reductions of a computation are of several arrays, along rows of few vectors.
fn chooses_in_short_rows(computation: &Computation, lanes: u32) -> bool {
    let most = SHORT_ROW_OF_CHOICES * i64::from(lanes);
    let is_short = |reduce: &Instruction| reduce.operands.len() > 2 && terms(computation, reduce) <= most;
    computation.instructions.iter().filter(|own| own.kind == OpKind::Reduce).all(is_short)
}
