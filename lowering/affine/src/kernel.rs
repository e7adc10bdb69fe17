//! Loop nests of fusions: one kernel each.
//!
//! From the trace of the fusion's outputs the kernel decides which dimensions become one loop, where loops are cut
//! so that pads and concatenations need no tests, and whether the innermost loop takes a vector a step. Rows that
//! do not divide into vectors end with a vector that overlaps the one before it (or, where the kernel writes over
//! what it reads, with single elements). Reductions along consecutive elements vectorise inside instead.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;
use indexing::{Expr, Interval};
use melior::Context;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::{Elemental, concatenated, index_binding};
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::operand_maps::{instruction_maps, no_map, operand_shape, result_shape};
use crate::scan::Scan;
use crate::scope::{Binding, Scope};
use crate::trace::{Trace, merged_dimensions, split_merged, trace};

type Result<T> = std::result::Result<T, LoweringError>;

/// Boxes that cutting loops may make; beyond that conditions are tested inside.
const MAX_BOXES: usize = 27;

/// A loop of the nest: a merged range of the output's dimensions.
struct Loop {
    sizes: Vec<i64>,
    extent: i64,
    /// Bounds of the pieces, one after another.
    pieces: Vec<Interval>,
}

/// How a kernel is emitted.
#[derive(Clone, Copy, Debug)]
pub struct KernelOptions {
    /// Bits of the target's vector registers.
    pub vector_bits: u32,
    /// Whether an output may lie over an input: each element is then written once, right after it was read.
    pub in_place: bool,
    /// The part of a dimension that is computed; `None` for all elements.
    pub part: Option<(usize, Interval)>,
}

/// Operands of a concatenate that one kernel writes: as many as its loops can be cut for.
const OPERANDS_PER_KERNEL: usize = 24;

/// The parts of a fusion's result that kernels of their own compute: one for each group of the operands of a
/// concatenate of very many, else one for everything.
pub fn parts_of(computation: &Computation) -> Result<Vec<Option<(usize, Interval)>>> {
    let root = computation.root();
    if root.kind != OpKind::Concatenate {
        return Ok(vec![None]);
    }
    let (dimension, parts) = concatenated(computation, root)?;
    let size = result_shape(root)?.dimensions.get(dimension).copied();
    let size = size.ok_or_else(|| LoweringError::bug("a concatenate beyond its dimensions"))?;
    if parts.len() <= OPERANDS_PER_KERNEL {
        return Ok(vec![None]);
    }
    let starts: Vec<i64> = parts.iter().step_by(OPERANDS_PER_KERNEL).map(|part| part.start).collect();
    let ends = starts.iter().skip(1).copied().chain([size]);
    Ok(starts.iter().zip(ends).map(|(&start, end)| Some((dimension, Interval::new(start, end - 1)))).collect())
}

/// The part of the outermost loop that is emitted: all of it, or iterations between two values of type `index`, which
/// are defined at the top level of their function.
pub type Range<'c> = Option<(Value<'c>, Value<'c>)>;

/// The loops of a fusion, chosen before they are emitted.
pub struct KernelPlan {
    loops: Vec<Loop>,
    lanes: Option<u32>,
    /// Lanes that reductions inside may use.
    inner_lanes: u32,
    overlap: bool,
    /// The innermost loop, where results accumulate along a dimension; the others run over the other dimensions.
    scan: Option<Scan>,
}

impl KernelPlan {
    /// Chooses the loops of a fused computation with outputs of the given dimensions.
    pub fn new(
        context: &Context,
        computation: &Computation,
        dimensions: &[i64],
        options: KernelOptions,
    ) -> Result<Self> {
        let root = computation.root();
        let lanes = vector_lanes(computation, options.vector_bits);
        if root.kind == OpKind::DynamicUpdateSlice {
            let update = operand_shape(computation, root, 1)?;
            let (mut loops, is_vector) =
                plan_loops(context, computation, &[root.operands[1]], &update.dimensions, lanes, None)?;
            if update.dimensions != dimensions {
                loops = separate_loops(&update.dimensions, loops);
            }
            let is_vector = is_vector && loops.last().is_some_and(|last| last.extent >= i64::from(lanes));
            return Ok(KernelPlan {
                loops,
                lanes: is_vector.then_some(lanes),
                inner_lanes: lanes,
                overlap: false,
                scan: None,
            });
        }
        if let Some((scan, loops, is_vector)) = plan_scan(context, computation, dimensions, lanes)? {
            let lanes_of_loops = is_vector.then_some(lanes);
            let overlap = !options.in_place;
            return Ok(KernelPlan { loops, lanes: lanes_of_loops, inner_lanes: lanes, overlap, scan: Some(scan) });
        }
        let (loops, is_vector) =
            plan_loops(context, computation, &roots(computation), dimensions, lanes, options.part)?;
        let overlap = !options.in_place;
        Ok(KernelPlan { loops, lanes: is_vector.then_some(lanes), inner_lanes: lanes, overlap, scan: None })
    }

    /// Iterations of the outermost loop that may run in any order; 1 if they cannot be split.
    pub fn outer_iterations(&self) -> i64 {
        let Some(first) = self.loops.first() else { return 1 };
        let [piece] = first.pieces[..] else { return 1 };
        let extent = piece.upper - piece.lower + 1;
        match (self.loops.len(), self.lanes) {
            (1, Some(lanes)) => {
                let width = i64::from(lanes);
                match extent % width {
                    0 => extent / width,
                    _ if self.overlap => extent / width + 1,
                    _ => 1,
                }
            }
            _ => extent,
        }
    }
}

/// The instructions whose values a fusion writes.
fn roots(computation: &Computation) -> Vec<InstructionId> {
    let root = computation.root();
    if root.kind == OpKind::Tuple { root.operands.clone() } else { vec![computation.root] }
}

/// Emits the loops of a fused computation.
///
/// `outputs` are the arrays of the root (of its elements, if it is a tuple), in order.
pub fn emit_fusion<'c>(
    builder: &OpBuilder<'c>,
    computation: &Computation,
    plan: &KernelPlan,
    inputs: &[ArrayRef<'c>],
    outputs: &[ArrayRef<'c>],
    range: Range<'c>,
) -> Result<()> {
    let root = computation.root();
    let Some(output) = outputs.first() else { return Ok(()) };
    let mut emitter = Elemental::new(builder, computation, inputs, plan.inner_lanes);
    if root.kind == OpKind::DynamicUpdateSlice {
        return emit_update(&mut emitter, root, plan, output, range);
    }
    if output.dimensions.contains(&0) {
        return Ok(());
    }
    emitter.read_starts()?;
    let roots = roots(computation);
    let range = range_variables(&mut emitter, range);
    let mut write = |emitter: &mut Elemental<'_, 'c>, index: &[Expr<'c>]| {
        // All values first: outputs may lie over inputs.
        let mut values = Vec::with_capacity(outputs.len());
        for &root in &roots {
            values.extend(emitter.evaluate_all(root, index)?);
        }
        values.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, index, value))
    };
    emit_loops(&mut emitter, plan, 0, Vec::new(), range, &mut |emitter, index| match &plan.scan {
        Some(scan) => scan.emit(emitter, index, &mut write),
        None => write(emitter, index),
    })
}

/// A range as variables.
fn range_variables<'c>(emitter: &mut Elemental<'_, 'c>, range: Range<'c>) -> Option<(Expr<'c>, Expr<'c>)> {
    let mut variable = |value| emitter.scope.add_variable(Interval::new(0, i64::MAX), Binding::Symbol(value));
    range.map(|(begin, end)| (variable(begin), variable(end)))
}

/// dynamic-update-slice in place: writes the update's elements, nothing else.
fn emit_update<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    root: &'a Instruction,
    plan: &KernelPlan,
    output: &ArrayRef<'c>,
    range: Range<'c>,
) -> Result<()> {
    let update = operand_shape(emitter.computation, root, 1)?;
    if update.dimensions.contains(&0) {
        return Ok(());
    }
    let map = instruction_maps(emitter.scope.context(), emitter.computation, root)
        .result_map(1)
        .ok_or_else(|| no_map(root))?;
    let mut starts = Vec::with_capacity(map.runtimes().len());
    for runtime in map.runtimes() {
        let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
        let start = emitter.evaluate(root.operands[source.value as usize], &[])?;
        starts.push(emitter.clamped_start(&start, runtime.bounds)?);
    }
    let range = range_variables(emitter, range);
    emit_loops(emitter, plan, 0, Vec::new(), range, &mut |emitter, index| {
        let value = emitter.evaluate(root.operands[1], index)?;
        let place = emitter.apply(map.results(), index, &starts)?;
        emitter.store(output, &place, &value)
    })
}

/// One loop a dimension, for arrays whose rows are not neighbours in memory.
fn separate_loops(sizes: &[i64], merged: Vec<Loop>) -> Vec<Loop> {
    if !merged.is_empty() && merged.iter().all(|l| l.sizes.len() == 1) {
        return merged;
    }
    sizes
        .iter()
        .map(|&size| Loop { sizes: vec![size], extent: size, pieces: vec![Interval::new(0, size - 1)] })
        .collect()
}

/// Lanes for a computation's element types: as many as fit a register of the widest float or index-like type used.
pub fn vector_lanes(computation: &Computation, vector_bits: u32) -> u32 {
    let mut narrow = false;
    let mut wide = false;
    for instruction in &computation.instructions {
        if let Shape::Array(array) = &instruction.shape {
            if array.rank() == 0 || array.element_count() <= 1 {
                continue;
            }
            match array.element_type.real_part().bit_width() {
                64 => wide = true,
                _ => narrow = true,
            }
        }
    }
    if wide && !narrow { vector_bits / 64 } else { vector_bits / 32 }
}

/// Loops over the dimensions along which a scan does not accumulate, if the computation is one.
fn plan_scan(
    context: &Context,
    computation: &Computation,
    dimensions: &[i64],
    lanes: u32,
) -> Result<Option<(Scan, Vec<Loop>, bool)>> {
    if !computation.instructions.iter().any(|instruction| instruction.kind == OpKind::ReduceWindow) {
        return Ok(None);
    }
    let mut scope = Scope::new(context);
    let symbols: Vec<Expr<'_>> = dimensions.iter().map(|&size| scope.add_traced(Interval::new(0, size - 1))).collect();
    let index: Vec<Expr<'_>> = symbols.iter().map(|&symbol| scope.simplify(symbol)).collect();
    let found = trace(computation, &roots(computation), &index, &mut scope)?;
    let Some(scan) = Scan::find(computation, &found, &index) else { return Ok(None) };
    let mut loops = separate_loops(dimensions, Vec::new());
    loops.remove(scan.dimension);
    let is_last = scan.dimension + 1 == dimensions.len();
    let is_long = loops.last().is_some_and(|last| last.extent >= i64::from(lanes));
    Ok(Some((scan, loops, !is_last && is_long && lanes > 1)))
}

fn plan_loops(
    context: &Context,
    computation: &Computation,
    roots: &[InstructionId],
    dimensions: &[i64],
    lanes: u32,
    part: Option<(usize, Interval)>,
) -> Result<(Vec<Loop>, bool)> {
    let mut scope = Scope::new(context);
    let bounds = |dimension: usize| match part {
        Some((own, bounds)) if own == dimension => bounds,
        _ => Interval::new(0, dimensions[dimension] - 1),
    };
    let symbols: Vec<Expr<'_>> = (0..dimensions.len()).map(|dimension| scope.add_traced(bounds(dimension))).collect();
    let index: Vec<Expr<'_>> = symbols.iter().map(|&symbol| scope.simplify(symbol)).collect();
    let found = trace(computation, roots, &index, &mut scope)?;
    let groups = merged_dimensions(&found, &scope, &symbols, dimensions);
    // A part of a dimension is a loop of its own.
    let groups: Vec<(usize, usize)> = groups
        .into_iter()
        .flat_map(|(first, last)| match part {
            Some((own, _)) if (first + 1..last).contains(&own) => vec![(first, own), (own, last)],
            _ => vec![(first, last)],
        })
        .collect();
    let mut loops: Vec<Loop> = groups
        .iter()
        .map(|&(first, last)| {
            let sizes = dimensions[first..last].to_vec();
            let extent = sizes.iter().product();
            let inner: i64 = sizes.iter().skip(1).product();
            let bounds = bounds(first);
            Loop { sizes, extent, pieces: vec![Interval::new(bounds.lower * inner, (bounds.upper + 1) * inner - 1)] }
        })
        .collect();
    cut_loops(&mut loops, &groups, &symbols, &found);
    let is_vector = is_vectorised(computation, &loops, (&scope, &symbols), &found, lanes);
    Ok((loops, is_vector))
}

fn cut_loops(loops: &mut [Loop], groups: &[(usize, usize)], symbols: &[Expr<'_>], found: &Trace<'_>) {
    let mut boxes = 1usize;
    for (l, &(first, last)) in loops.iter_mut().zip(groups) {
        let (true, Some(variable)) = (last == first + 1, symbols[first].as_variable()) else { continue };
        let [bounds] = l.pieces[..] else { continue };
        let cuts = found.cuts(variable, bounds);
        if cuts.is_empty() || boxes * (cuts.len() + 1) > MAX_BOXES {
            continue;
        }
        boxes *= cuts.len() + 1;
        let mut lower = bounds.lower;
        l.pieces = cuts
            .iter()
            .chain(std::iter::once(&(bounds.upper + 1)))
            .map(|&cut| {
                let piece = Interval::new(lower, cut - 1);
                lower = cut;
                piece
            })
            .collect();
    }
}

/// Whether the last loop takes vectors: it is long enough, and no reduction wants the lanes for itself.
fn is_vectorised<'c>(
    computation: &Computation,
    loops: &[Loop],
    (scope, symbols): (&Scope<'c>, &[Expr<'c>]),
    found: &Trace<'c>,
    lanes: u32,
) -> bool {
    let Some(last) = loops.last() else { return false };
    if lanes < 2 || last.pieces.iter().all(|piece| piece.upper - piece.lower + 1 < i64::from(lanes)) {
        return false;
    }
    let Some(variable) = symbols.last().and_then(|expr| expr.as_variable()) else { return true };
    let has_reduction = computation.instructions.iter().any(|instruction| instruction.kind == OpKind::Reduce);
    let (consecutive, _, other) = found.accesses_along(scope, variable);
    // A row reduction reads consecutive elements itself; a column reduction reads them along the result.
    if has_reduction {
        return consecutive > 0 && other == 0;
    }
    let looks_up_by_lane = found.lookups.iter().any(|&lookup| scope.depends(lookup, variable));
    !(looks_up_by_lane && consecutive == 0)
}

type Body<'b, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, &[Expr<'c>]) -> Result<()> + 'b;

fn emit_loops<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    plan: &KernelPlan,
    depth: usize,
    index: Vec<Expr<'c>>,
    range: Option<(Expr<'c>, Expr<'c>)>,
    body: &mut Body<'_, 'a, 'c>,
) -> Result<()> {
    let Some(this) = plan.loops.get(depth) else { return emitter.nested(|emitter| body(emitter, &index)) };
    let is_last = depth + 1 == plan.loops.len();
    for &piece in &this.pieces {
        if piece.lower > piece.upper {
            continue;
        }
        if let (true, Some(lanes)) = (is_last, plan.lanes)
            && piece.upper - piece.lower + 1 >= i64::from(lanes)
        {
            let vectors = VectorLoop { this, piece, lanes, overlap: plan.overlap, range };
            emit_vector_loop(emitter, &vectors, &index, body)?;
            continue;
        }
        emitter.loop_in(piece, range, Vec::new(), &mut |emitter, variable, _| {
            let index = extended(emitter, &index, variable, &this.sizes);
            emit_loops(emitter, plan, depth + 1, index, None, body)?;
            Ok(Vec::new())
        })?;
    }
    Ok(())
}

/// A loop that takes vectors.
struct VectorLoop<'l, 'c> {
    this: &'l Loop,
    piece: Interval,
    lanes: u32,
    /// Whether a last vector may overlap the one before it.
    overlap: bool,
    range: Option<(Expr<'c>, Expr<'c>)>,
}

fn extended<'c>(emitter: &Elemental<'_, 'c>, index: &[Expr<'c>], variable: Expr<'c>, sizes: &[i64]) -> Vec<Expr<'c>> {
    let parts = split_merged(variable, sizes);
    index.iter().copied().chain(parts.into_iter().map(|part| emitter.scope.simplify(part))).collect()
}

/// Vectors of consecutive elements over a piece of the last loop.
fn emit_vector_loop<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    vectors: &VectorLoop<'_, 'c>,
    index: &[Expr<'c>],
    body: &mut Body<'_, 'a, 'c>,
) -> Result<()> {
    let &VectorLoop { this, piece, lanes, overlap, range } = vectors;
    let width = i64::from(lanes);
    let extent = piece.upper - piece.lower + 1;
    let (count, rest) = (extent / width, extent % width);
    if rest > 0 && overlap {
        let last_start = piece.lower + extent - width;
        return emitter
            .loop_in(Interval::new(0, count), range, Vec::new(), &mut |emitter, vector, _| {
                let builder = emitter.builder;
                let start = vector * width + piece.lower;
                let bounds = [start, emitter.scope.constant(last_start)];
                let start = emitter.scope.emit_min(builder, &bounds)?;
                // A variable of its own: lanes count from it, whatever the minimum chose.
                let start = index_binding(builder, start);
                let start = emitter.scope.add_variable(Interval::new(piece.lower, last_start), start);
                let lane = emitter.scope.add_lanes(lanes);
                let index = extended(emitter, index, start + lane, &this.sizes);
                body(emitter, &index)?;
                Ok(Vec::new())
            })
            .map(|_| ());
    }
    emitter.loop_in(Interval::new(0, count - 1), range, Vec::new(), &mut |emitter, vector, _| {
        emitter.nested(|emitter| {
            let lane = emitter.scope.add_lanes(lanes);
            let index = extended(emitter, index, vector * width + piece.lower + lane, &this.sizes);
            body(emitter, &index)
        })?;
        Ok(Vec::new())
    })?;
    if rest > 0 {
        let tail = Interval::new(piece.lower + count * width, piece.upper);
        emitter.loop_over(tail, Vec::new(), &mut |emitter, variable, _| {
            let index = extended(emitter, index, variable, &this.sizes);
            emitter.nested(|emitter| body(emitter, &index))?;
            Ok(Vec::new())
        })?;
    }
    Ok(())
}
