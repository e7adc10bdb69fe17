//! `hlo-map-to-gpu`: a thread for each element.
//!
//! What has an order of its own runs inside of a thread: the steps of a scan, and the windows of a scatter, which may meet in
//! an element.

use hlo::devices::DeviceCount;
use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::Lowering;
use indexing::{Expr, IndexingMap, Interval, Variable};
use melior::Context;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::error::LoweringError;
use crate::gpu::PLATFORM;
use crate::map_to_cpu::{parts_of, scan_of, whole};
use crate::mapping::{self, has_elements, mapped_sizes};
use crate::program::{CallOptions, CustomCallNames, check_instruction, kernel_body, lowering_of};
use crate::scatter::separate_dimensions;
use crate::trace::split_merged;

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads of a block.
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
    mapping::write(&rewriter, function, &|_, computation, instruction| {
        check_instruction(computation, instruction, calls, PLATFORM)?;
        let is_kernel = lowering_of(instruction) == Lowering::Kernel || instruction.kind == OpKind::Sort;
        if is_kernel { choose(context, computation, instruction).map(Some) } else { Ok(None) }
    })
}

/// How the work of an instruction's kernels is divided; nothing for what has no elements.
fn choose<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<Vec<WorkMapping<'c>>> {
    if !has_elements(computation, instruction)? {
        return Ok(Vec::new());
    }
    let sizes = mapped_sizes(computation, instruction)?;
    match instruction.kind {
        OpKind::Scatter => return Ok(vec![scattered(context, computation, instruction, sizes)?]),
        OpKind::Sort => return Ok(vec![elements(context, sizes, None)]),
        _ => {}
    }
    let body = kernel_body(computation, instruction);
    let body = &*body;
    if let Some(scan) = scan_of(context, body, sizes)? {
        return Ok(vec![rows(context, sizes, scan.dimension, |step| scan.position(step, sizes[scan.dimension]))]);
    }
    Ok(parts_of(body)?.into_iter().map(|part| elements(context, sizes, part)).collect())
}

/// A thread for each index of the updates of a scatter in the dimensions along which windows cannot meet.
fn scattered<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
    sizes: &[i64],
) -> Result<WorkMapping<'c>> {
    let separate = separate_dimensions(context, computation, instruction)?;
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

/// A thread for each row along a dimension, in which it goes from element to element.
fn rows<'c>(
    context: &'c Context,
    sizes: &[i64],
    dimension: usize,
    position: impl Fn(Expr<'c>) -> Expr<'c>,
) -> WorkMapping<'c> {
    let mut others = sizes.to_vec();
    let length = others.remove(dimension);
    let mut bounds = Vec::new();
    let mut dimensions = Vec::new();
    let mut index = split_merged(Expr::dim(context, 0), &others);
    if !others.is_empty() {
        bounds.push(Variable::of_size(others.iter().product()));
        dimensions.push(threads());
    }
    index.insert(dimension, position(Expr::dim(context, bounds.len())));
    bounds.push(Variable::of_size(length));
    dimensions.push(WorkDimension { kind: WorkKind::Scan, ..WorkDimension::sequential() });
    let map = IndexingMap::new(context, bounds, Vec::new(), Vec::new(), index, Vec::new());
    WorkMapping { map, dimensions, inner_lanes: 1, overlap: false, rows: None }
}
