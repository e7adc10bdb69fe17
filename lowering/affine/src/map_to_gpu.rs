//! `hlo-map-to-gpu`: a thread, or a team of threads, for each element.
//!
//! Where an element is a reduction of many others, a team of threads computes it, if it is not written over what they
//! all read; large products are computed by tiles. What has an order of its own runs inside of a thread: the windows of a
//! scatter, which may meet in an element, and the steps of a scan, unless these are one associative operation.

use hlo::devices::DeviceCount;
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::Lowering;
use hlo::shape::ArrayShape;
use indexing::{Expr, IndexingMap, Interval};
use melior::Context;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;
use passes::fuse::first_result;

use crate::contraction::{contraction_maps, is_product};
use crate::error::LoweringError;
use crate::gpu::PLATFORM;
use crate::map_to_cpu::{is_in_place, scan_of, whole};
use crate::mapping::{self, combines, gives_elements, has_elements, mapped_sizes};
use crate::program::{CallOptions, CustomCallNames, check_instruction, kernel_body, lowering_of};
use crate::reduction::{DivisibleReduction, divisible_reduction};
use crate::scan::Scan;
use crate::scatter::{ScatterOrder, scatter_order};
use crate::scope::Scope;
use crate::team::{TeamShape, WARP, combined_first};
use crate::team_rows;
use crate::team_scan;
use crate::tiles::{attention_of, few_rows_of, is_near_along_depth, tiles_of, transposes_of};
use crate::trace::{split_merged, trace};
use crate::wide_concatenate::WideConcatenate;

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads of a block, at most.
pub(crate) const BLOCK_SIZE: i64 = 256;

/// Notes on the kernels of a module's entry function how their work is divided; returns their number.
///
/// # Errors
/// As for the choice; the module is then as it was.
pub fn run(module: OperationRef<'_, '_>, custom_calls: CustomCallNames) -> Result<u64> {
    let function = dialect::entry_function(module)?;
    let rewriter = Rewriter::new(function);
    let context = rewriter.context();
    let calls = CallOptions { custom_calls, devices: DeviceCount::ONE };
    mapping::write(&rewriter, function, &|operation, computation, instruction| {
        check_instruction(computation, instruction, calls, PLATFORM)?;
        let is_kernel = lowering_of(instruction) == Lowering::Kernel || instruction.kind == OpKind::Sort;
        if is_kernel { choose(context, computation, instruction, is_in_place(operation)?).map(Some) } else { Ok(None) }
    })
}

/// How the work of an instruction's kernels is divided; nothing for what has no elements. `in_place` says whether an output
/// lies over an input.
fn choose<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
    in_place: bool,
) -> Result<Vec<WorkMapping<'c>>> {
    if !has_elements(computation, instruction)? {
        return Ok(Vec::new());
    }
    let sizes = mapped_sizes(computation, instruction)?;
    if instruction.kind == OpKind::Sort {
        return Ok(vec![elements(context, sizes, None)]);
    }
    let body = kernel_body(computation, instruction);
    let body = &*body;
    if body.root().kind == OpKind::Scatter {
        return Ok(vec![scattered(context, body, body.root(), sizes)?]);
    }
    if let Some(scan) = scan_of(context, body, sizes)?.filter(|scan| sizes[scan.dimension] >= SHORTEST_SCAN) {
        return Ok(vec![scanned(context, body, sizes, &scan)]);
    }
    if let Some(attention) = attention_of(context, body) {
        return Ok(vec![attention]);
    }
    if let Some(tiles) = tiles_of(context, body, sizes)? {
        return Ok(vec![tiles]);
    }
    if let Some(few) = few_rows_of(context, body, sizes)? {
        return Ok(vec![few]);
    }
    let lanes = lanes_of(context, body, sizes)?;
    let vectors = |lanes: u32| {
        let mut whole = elements(context, sizes, None);
        whole.dimensions[0].lanes = lanes;
        whole
    };
    // Of products of many elements, which read the same for several of them.
    let are_many = |lanes: &u32| sizes.iter().product::<i64>() / i64::from(*lanes) >= BUSY_THREADS / WARP;
    if let Some(lanes) = lanes.filter(are_many)
        && body.instructions.iter().any(combines)
    {
        return Ok(vec![vectors(lanes)]);
    }
    if let Some(rows) = team_rows::rows_of(context, body, sizes)? {
        return Ok(vec![rows]);
    }
    if (!in_place || !combined_first(body).is_empty())
        && let Some(team) = team_of(context, body, sizes)?
    {
        return Ok(vec![in_teams(context, sizes, team)]);
    }
    if !in_place && let Some(transposes) = transposes_of(context, body, sizes)? {
        return Ok(vec![transposes]);
    }
    if let Some(wide) = WideConcatenate::of(body)? {
        let part = |piece| elements(context, sizes, Some((wide.dimension, piece)));
        return Ok(wide.pieces().into_iter().map(part).collect());
    }
    Ok(vec![vectors(lanes.unwrap_or(1))])
}

/// Windows shorter than this are combined one by one, each element by a thread of its own.
const SHORTEST_SCAN: i64 = 16;

/// Bytes of the widest access of a thread.
const WIDEST_ACCESS: u32 = 16;

/// Elements that a thread computes at once at most.
const MOST_LANES: u32 = 8;

/// Instructions of a fusion up to which each thread computes several elements.
const MOST_INSTRUCTIONS: usize = 64;

/// The neighbours that a thread of a kernel computes at once, so that it loads and stores vectors: all that it
/// reads must be neighbours too, or the same for all of them. Elements may be products, as of a depthwise convolution.
fn lanes_of(context: &Context, body: &Computation, sizes: &[i64]) -> Result<Option<u32>> {
    let is_element = |own: &Instruction| is_product(own.kind) || !combines(own);
    if !body.instructions.iter().all(is_element)
        || !gives_elements(body, sizes)
        || body.instructions.len() > MOST_INSTRUCTIONS
    {
        return Ok(None);
    }
    let mut lanes = widest_lanes(body);
    while lanes > 1 {
        if are_neighbours(context, body, sizes, lanes)? {
            return Ok(Some(lanes));
        }
        // Elementwise kernels read all alike, or not.
        if !body.instructions.iter().any(combines) {
            return Ok(None);
        }
        lanes /= 2;
    }
    Ok(None)
}

/// Whether so many elements from each multiple of their number on read neighbours, or the same.
fn are_neighbours(context: &Context, body: &Computation, sizes: &[i64], lanes: u32) -> Result<bool> {
    let roots = body.roots();
    let vectors = sizes.iter().product::<i64>() / i64::from(lanes);
    if vectors == 0 {
        return Ok(false);
    }
    let mut scope = Scope::new(context);
    let lane = scope.add_traced(Interval::of_size(lanes.into()));
    let first = scope.add_traced(Interval::of_size(vectors));
    let index = split_merged(first * i64::from(lanes) + lane, sizes);
    let index: Vec<Expr<'_>> = index.into_iter().map(|expr| scope.simplify(expr)).collect();
    let found = trace(body, &roots, &index, &mut scope)?;
    let Some(lane) = lane.as_variable() else { return Ok(false) };
    let accesses = found.accesses_along(&scope, lane);
    let is_tested = found.conditions.iter().any(|condition| scope.depends(condition.expr, lane));
    let is_looked_up = found.looks_up_by(&scope, lane);
    Ok(accesses.is_near() && accesses.near == 0 && !is_tested && !is_looked_up)
}

/// Elements that the widest access holds of the narrowest type that a fusion reads or writes; complex ones are no vectors.
pub(crate) fn widest_lanes(body: &Computation) -> u32 {
    let roots = body.roots();
    let stored = roots.iter().chain(&body.parameters).filter_map(|&id| body.get(id).shape.as_array());
    let mut narrowest = WIDEST_ACCESS;
    for shape in stored.filter(|shape| shape.rank() > 0) {
        if shape.element_type.is_complex() {
            return 1;
        }
        narrowest = narrowest.min(shape.element_type.byte_width() as u32);
    }
    (WIDEST_ACCESS / narrowest.max(1)).min(MOST_LANES)
}

/// A thread for each element of the updates of a scatter whose order does not matter, or that are runs of neighbours; else one for each index in
/// the dimensions along which windows cannot meet.
fn scattered<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
    sizes: &[i64],
) -> Result<WorkMapping<'c>> {
    let separate = match scatter_order(context, computation, instruction)? {
        ScatterOrder::Sequential(separate) => separate,
        ScatterOrder::Any | ScatterOrder::Atomic(_) | ScatterOrder::Runs(_) => {
            return Ok(elements(context, sizes, None));
        }
    };
    if separate.is_empty() {
        return Ok(whole(context, &[], sizes, 1));
    }
    let separate_sizes: Vec<i64> = separate.iter().map(|&dimension| sizes[dimension]).collect();
    let mut index = whole(context, &[], sizes, 1).map.results().to_vec();
    for (&dimension, expr) in separate.iter().zip(split_merged(Expr::dim(context, 0), &separate_sizes)) {
        index[dimension] = expr;
    }
    Ok(WorkMapping {
        map: IndexingMap::from_sizes(context, &[separate_sizes.iter().product()], sizes, index),
        dimensions: vec![threads()],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    })
}

fn threads() -> WorkDimension {
    WorkDimension { kind: WorkKind::Threads, tile: BLOCK_SIZE, ..WorkDimension::sequential() }
}

/// A thread for each element, or for each of those with some positions in a dimension.
fn elements<'c>(context: &'c Context, sizes: &[i64], part: Option<(usize, Interval)>) -> WorkMapping<'c> {
    let mut sizes = sizes.to_vec();
    if let Some((dimension, positions)) = part {
        sizes[dimension] = positions.upper - positions.lower + 1;
    }
    let mut index = split_merged(Expr::dim(context, 0), &sizes);
    if let Some((dimension, positions)) = part {
        index[dimension] = index[dimension] + positions.lower;
    }
    WorkMapping {
        map: IndexingMap::from_sizes(context, &[sizes.iter().product()], &[], index),
        dimensions: vec![threads()],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    }
}

/// The teams for a fusion that reduces many terms to each of its elements.
fn team_of(context: &Context, body: &Computation, sizes: &[i64]) -> Result<Option<TeamShape>> {
    let elements: i64 = sizes.iter().product();
    let count_of = |instruction: &Instruction| first_result(instruction).map(ArrayShape::element_count);
    let is_of_elements = |own: &&Instruction| own.kind == OpKind::Reduce && count_of(own) == Some(elements);
    let mut longest: Option<DivisibleReduction> = None;
    for reduce in body.instructions.iter().filter(is_of_elements) {
        let Some(found) = divisible_reduction(context, body, reduce)? else { continue };
        if longest.is_none_or(|longest| longest.terms < found.terms) {
            longest = Some(found);
        }
    }
    if let Some(product) = divisible_product(context, body, elements)? {
        longest = longest.or(Some(product));
    }
    Ok(longest.and_then(|DivisibleReduction { terms, is_near }| match is_near || elements < WARP {
        true if terms < LEAST_TERMS => None,
        // The threads of a block for each element, where elements alone do not keep the GPU busy.
        true if terms >= LEAST_TERMS_OF_BLOCK && elements < BUSY_THREADS / WARP => {
            Some(TeamShape { size: BLOCK_SIZE, count: 1, is_near: true })
        }
        true => Some(TeamShape { size: WARP, count: BLOCK_SIZE / WARP, is_near: true }),
        false => {
            let wanted = (BUSY_THREADS / elements).min(terms / LEAST_TERMS_OF_THREAD).min(BLOCK_SIZE / WARP);
            let size = if wanted > 1 { 1 << wanted.ilog2() } else { 1 };
            (size > 1).then_some(TeamShape { size, count: WARP, is_near: false })
        }
    }))
}

/// What a product combines for each of so many elements, where nothing else in the fusion combines.
fn divisible_product(context: &Context, body: &Computation, elements: i64) -> Result<Option<DivisibleReduction>> {
    let mut found = body.instructions.iter().filter(|own| combines(own));
    let (Some(product), None) = (found.next(), found.next()) else { return Ok(None) };
    let is_product = is_product(product.kind);
    let is_number = |shape: &ArrayShape| shape.element_type != ElementType::Pred;
    let result = product.shape.as_array().filter(|shape| shape.element_count() == elements && is_number(shape));
    let Some(_) = result.filter(|_| is_product) else { return Ok(None) };
    let maps = contraction_maps(context, body, product)?;
    let terms = maps.ranges.iter().product();
    // Neighbouring threads go along the larger operand, which is read once.
    let bytes = |number: usize| body.get(product.operands[number]).shape.byte_size();
    let larger = usize::from(bytes(1) >= bytes(0));
    Ok(Some(DivisibleReduction { terms, is_near: is_near_along_depth(body, product, &maps, larger)? }))
}

/// Terms of an element that are worth a warp.
const LEAST_TERMS: i64 = 32;

/// Terms of an element that are worth a block.
const LEAST_TERMS_OF_BLOCK: i64 = 2048;

/// Terms that a thread of a team along elements combines at least.
const LEAST_TERMS_OF_THREAD: i64 = 8;

/// Threads that keep a GPU busy.
const BUSY_THREADS: i64 = 1 << 18;

/// A team for each element.
fn in_teams<'c>(context: &'c Context, sizes: &[i64], team: TeamShape) -> WorkMapping<'c> {
    let of_elements = WorkDimension { tile: team.count, ..threads() };
    let of_parts = WorkDimension { kind: WorkKind::Team, ..WorkDimension::sequential() };
    let (mut extents, mut dimensions) = (vec![sizes.iter().product(), team.size], vec![of_elements, of_parts]);
    if !team.is_near {
        extents.reverse();
        dimensions.reverse();
    }
    let index = split_merged(Expr::dim(context, team.elements()), sizes);
    let map = IndexingMap::from_sizes(context, &extents, &[], index);
    WorkMapping { map, dimensions, inner_lanes: 1, overlap: false, rows: None }
}

/// A team of threads for each row of a scan whose elements are near each other, if what it combines is associative; else a thread,
/// which goes from element to element.
fn scanned<'c>(context: &'c Context, body: &Computation, sizes: &[i64], scan: &Scan) -> WorkMapping<'c> {
    let mut others = sizes.to_vec();
    let length = others.remove(scan.dimension);
    let inside: i64 = others[scan.dimension..].iter().product();
    let rows: i64 = others.iter().product();
    let is_divisible = inside < FEW_ROWS_ABREAST && scan.combination(body).is_some();
    let step = WorkDimension { kind: WorkKind::Scan, ..WorkDimension::sequential() };
    let (bounds, dimensions) = if is_divisible {
        // A warp has as much to do between two barriers as a block has, but a block goes along a row faster.
        let is_of_block = length >= LEAST_TERMS_OF_SCAN_BLOCK && rows < BUSY_THREADS / WARP;
        let size = if is_of_block { BLOCK_SIZE } else { WARP };
        let teams = WorkDimension { tile: BLOCK_SIZE / size, ..threads() };
        let of_team = WorkDimension { kind: WorkKind::Team, ..WorkDimension::sequential() };
        let step = WorkDimension { tile: team_scan::elements_of_round(length, size), ..step };
        (vec![rows, size, length], vec![teams, of_team, step])
    } else if others.is_empty() {
        (vec![length], vec![step])
    } else {
        (vec![rows, length], vec![threads(), step])
    };
    let last = bounds.len() - 1;
    let mut index = if others.is_empty() { Vec::new() } else { split_merged(Expr::dim(context, 0), &others) };
    index.insert(scan.dimension, scan.position(Expr::dim(context, last), length));
    let map = IndexingMap::from_sizes(context, &bounds, &[], index);
    WorkMapping { map, dimensions, inner_lanes: 1, overlap: false, rows: None }
}

/// Rows that lie abreast from which on threads along them read what is near.
const FEW_ROWS_ABREAST: i64 = 16;

/// Elements of a row that are worth a block.
const LEAST_TERMS_OF_SCAN_BLOCK: i64 = 512;
