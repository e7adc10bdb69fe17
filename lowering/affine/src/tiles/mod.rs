//! Products by blocks of a GPU's threads: a block computes a tile of rows and columns, each thread a part of it in registers.
//!
//! Step by step, the block brings a slab of each operand into memory that its threads share, and multiplies it. While it does,
//! each thread has its elements of the next slab on their way. Elements come from the same walk as everything else, so operands
//! may lie in any order and be fusions themselves, and so may be what becomes of the result. A convolution's contracted
//! positions are those of its window, where it reads beyond its input there are zeros.

mod ahead;
mod attention;
mod boxes;
mod chunks;
mod doubles;
mod few_rows;
mod fragments;
mod multiply_add;
mod pipeline;
mod rings;
mod tensor_cores;
mod tensor_types;
mod transposes;
mod turns;
mod warp_groups;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::ops::{OpClass, definition};
use indexing::{Expr, ExprKind, IndexingMap, Interval, Linear, Operator, Var, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::contraction::{ContractionMaps, accumulator_type, contraction_maps};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::thread_numbers;
use crate::kernel::item_index;
use crate::mapping::are_followed_elementwise;
use crate::memory::ArrayRef;
use crate::operand_maps::{operand_shape, result_shape};
use crate::scalar::{self, RegisterValue};
use crate::scope::Scope;
use crate::team::is_term;
use crate::trace::{coefficient, split_merged, trace, trace_behind};
use crate::walk::{Choice, Visitor, linear_address, substitute};

pub(crate) use attention::attention_of;
use boxes::BOX_THREADS;
pub(crate) use boxes::{BoxKernel, ParameterBoxes};
use chunks::CHUNK;
pub(crate) use chunks::is_only_moved;
pub(crate) use few_rows::few_rows_of;
use tensor_types::{TensorOperands, TensorType};
pub(crate) use transposes::transposes_of;

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads of a block.
const THREADS: i64 = 256;

/// Rows, columns and terms below which a product is not worth tiles.
const LEAST_SIDE: i64 = 16;

/// Rows and columns of the tiles that blocks may have, the largest first.
const TILES: [[i64; 2]; 2] = [[128, 128], [64, 64]];

/// Blocks that keep a GPU busy.
const BUSY_BLOCKS: i64 = 128;

/// Instructions behind a product up to which each of a thread's elements may have its own copies, of so many elements.
const MOST_REPEATED: usize = 24;
const REPEATED_ELEMENTS: i64 = 64;

/// The dimensions of a product's result and what is contracted, as three numbers and a further one.
struct Product<'a, 'c> {
    id: InstructionId,
    instruction: &'a Instruction,
    maps: ContractionMaps<'c>,
    /// The result's dimensions that both operands have, the left one, and the right one.
    batch: Vec<Part>,
    rows: Vec<Part>,
    columns: Vec<Part>,
}

/// A dimension of a product's result, or a part of one: the groups of a convolution's features, or the positions within each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    dimension: usize,
    /// From each of its positions to the next one, in positions of the dimension.
    stride: i64,
    size: i64,
}

impl<'a, 'c> Product<'a, 'c> {
    /// The one product of a fusion, to which the rest is elementwise.
    fn of(context: &'c Context, computation: &'a Computation) -> Result<Option<Self>> {
        let is_contraction = |own: &Instruction| definition(own.kind).class == OpClass::Contraction;
        let mut found = computation.iter().filter(|(_, own)| is_contraction(own));
        let (Some((id, instruction)), None) = (found.next(), found.next()) else { return Ok(None) };
        let combines = |own: &Instruction| definition(own.kind).class == OpClass::Reduction;
        if computation.instructions.iter().any(combines) || !are_followed_elementwise(computation, &[id]) {
            return Ok(None);
        }
        let maps = contraction_maps(context, computation, instruction)?;
        let (mut batch, mut rows, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (dimension, &size) in result_shape(instruction)?.dimensions.iter().enumerate() {
            let variable = Var::Dim(dimension as u32);
            let whole = Part { dimension, stride: 1, size };
            let uses = |results: &[Expr<'c>]| results.iter().any(|result| result.uses(variable));
            match (uses(maps.lhs.map.results()), uses(maps.rhs.results())) {
                (true, false) => rows.push(whole),
                (false, true) => columns.push(whole),
                (true, true) if let Some(group) = group_of(maps.lhs.map.results(), variable) => {
                    batch.push(Part { dimension, stride: group, size: size / group });
                    columns.push(Part { size: group, ..whole });
                }
                _ => batch.push(whole),
            }
        }
        Ok(Some(Product { id, instruction, maps, batch, rows, columns }))
    }

    /// From batches, rows and columns to the result's index.
    fn index(&self, context: &'c Context) -> Result<Vec<Expr<'c>>> {
        let mut index = vec![Expr::constant(context, 0); result_shape(self.instruction)?.rank()];
        for (number, parts) in [&self.batch, &self.rows, &self.columns].into_iter().enumerate() {
            let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
            for (part, expr) in parts.iter().zip(split_merged(Expr::dim(context, number), &sizes)) {
                index[part.dimension] = index[part.dimension] + expr * part.stride;
            }
        }
        Ok(index)
    }

    /// How many batches, rows and columns there are, and how many terms are summed.
    fn sizes(&self) -> ([i64; 3], i64) {
        let count = |parts: &[Part]| parts.iter().map(|part| part.size).product();
        ([count(&self.batch), count(&self.rows), count(&self.columns)], self.maps.ranges.iter().product())
    }

    /// Type of the sums.
    fn accumulator(&self, computation: &Computation) -> Result<ElementType> {
        let [lhs, rhs] = [0, 1].map(|number| operand_shape(computation, self.instruction, number));
        let result = result_shape(self.instruction)?.element_type;
        Ok(accumulator_type([lhs?.element_type, rhs?.element_type], result))
    }
}

/// How many positions of a dimension are a group, where expressions depend on these only through their group.
fn group_of(results: &[Expr<'_>], variable: Var) -> Option<i64> {
    let mut group = None;
    let mut pending = results.to_vec();
    while let Some(expr) = pending.pop() {
        match expr.kind() {
            ExprKind::Constant(_) => {}
            ExprKind::Variable(own) if own == variable => return None,
            ExprKind::Variable(_) => {}
            ExprKind::Binary(Operator::FloorDiv, left, right) if left.as_variable() == Some(variable) => {
                let size = right.as_constant()?;
                if group.is_some_and(|group| group != size) {
                    return None;
                }
                group = Some(size);
            }
            ExprKind::Binary(_, left, right) => pending.extend([left, right]),
        }
    }
    group
}

/// Whether a fused computation has a product that is computed by tiles, and goes on with its elements.
pub(crate) fn has_tiles(context: &Context, body: &Computation) -> bool {
    let sizes = body.roots().first().and_then(|&root| body.get(root).shape.as_array());
    let sizes = sizes.map(|shape| shape.dimensions.clone()).unwrap_or_default();
    matches!(tiles_of(context, body, &sizes), Ok(Some(_)))
}

/// The mapping of a fusion with a product that is worth tiles.
pub(crate) fn tiles_of<'c>(
    context: &'c Context,
    computation: &Computation,
    sizes: &[i64],
) -> Result<Option<WorkMapping<'c>>> {
    let Some(product) = Product::of(context, computation)? else { return Ok(None) };
    let shape = result_shape(product.instruction)?;
    let accumulator = product.accumulator(computation)?;
    if sizes != shape.dimensions || accumulator.is_complex() || accumulator.bit_width() < 32 {
        return Ok(None);
    }
    let ([batch, rows, columns], depth) = product.sizes();
    if batch * rows * columns == 0 || rows.min(columns).min(depth) < LEAST_SIDE {
        return Ok(None);
    }
    let operands = TensorOperands::of(computation, &product)?;
    let (tiles, smallest): (&[[i64; 2]], i64) = match operands {
        Some(TensorOperands([TensorType::F64, _])) => (&doubles::TILES, tensor_cores::SMALLEST_TILE),
        Some(_) => (&TILES, tensor_cores::SMALLEST_TILE),
        None if accumulator.bit_width() == 32 => (&multiply_add::TILES, multiply_add::SMALLEST_TILE),
        None => (&[], multiply_add::SMALLEST_TILE),
    };
    let suits = |&&[of_rows, of_columns]: &&[i64; 2]| {
        let is_busy = batch * ceil_div(rows, of_rows) * ceil_div(columns, of_columns) >= BUSY_BLOCKS;
        let most = MOST_REPEATED as i64 * REPEATED_ELEMENTS / (of_rows * of_columns / THREADS).max(REPEATED_ELEMENTS);
        is_busy && computation.instructions.len() as i64 <= most && rows * 2 > of_rows && columns * 2 > of_columns
    };
    // The smallest for what keeps no GPU busy, or would repeat much.
    let [of_rows, of_columns] = tiles.iter().find(suits).copied().unwrap_or([smallest; 2]);
    Ok(Some(WorkMapping {
        map: IndexingMap::from_sizes(context, &[batch, rows, columns], &[], product.index(context)?),
        dimensions: vec![tile(1), tile(of_rows), tile(of_columns)],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    }))
}

/// A dimension of which tiles have so many positions.
fn tile(positions: i64) -> WorkDimension {
    WorkDimension { kind: WorkKind::Tile, tile: positions, ..WorkDimension::sequential() }
}

/// The blocks of threads of a mapping of tiles, and the threads of each.
pub(crate) fn tile_grid(mapping: &WorkMapping<'_>) -> Option<(i64, i64)> {
    if let Some(grid) = attention::attention_grid(mapping) {
        return Some(grid);
    }
    let is_tiled = mapping.dimensions.len() == 3 && mapping.dimensions.iter().all(|own| own.kind == WorkKind::Tile);
    (is_tiled || few_rows::are_few(mapping)).then(|| (tiles_along(mapping).iter().product(), THREADS))
}

/// The threads of a block of a mapping, and the blocks of a multiprocessor that their registers must suffice for, where the
/// assembler would take too many, or too few: of attention, and of large tiles by multiply-adds and of `f64`.
pub(crate) fn tile_limits(context: &Context, computation: &Computation, mapping: &WorkMapping<'_>) -> Option<[i64; 2]> {
    if attention::attention_grid(mapping).is_some() {
        return attention::attention_limits(context, computation);
    }
    let (_, threads) = tile_grid(mapping).filter(|_| !few_rows::are_few(mapping))?;
    let sides = [mapping.dimensions[1].tile, mapping.dimensions[2].tile];
    let product = Product::of(context, computation).ok()??;
    let blocks = match TensorOperands::of(computation, &product).ok()? {
        None => multiply_add::blocks(sides),
        Some(TensorOperands([TensorType::F64, _])) => doubles::blocks(sides),
        Some(_) => None,
    };
    blocks.map(|blocks| [threads, blocks])
}

/// Tiles along each dimension of the work.
fn tiles_along(mapping: &WorkMapping<'_>) -> [i64; 3] {
    [0, 1, 2].map(|number| ceil_div(mapping.bounds(number).upper + 1, mapping.dimensions[number].tile))
}

/// What all ways to compute a tile have in common, for the block that code is for.
struct Tile<'m, 'a, 'c> {
    product: Product<'a, 'c>,
    mapping: &'m WorkMapping<'c>,
    batch: Expr<'c>,
    /// The first row and the first column.
    firsts: [Expr<'c>; 2],
    /// Rows and columns that there are.
    sizes: [i64; 2],
    /// Contracted positions.
    depth: i64,
    /// The number of the thread.
    thread: Expr<'c>,
    /// A sum of nothing.
    zero: RegisterValue<'c>,
}

/// Emits a fusion with one product, or one that reads transposed, tile by tile. `descriptions` are those of the operands' boxes, of
/// a [`BoxKernel`]; others have none.
pub(crate) fn emit_tiles<'a, 'c>(
    builder: &'a OpBuilder<'c>,
    computation: &'a Computation,
    mapping: &WorkMapping<'c>,
    (inputs, outputs): (&'a [ArrayRef<'c>], &[ArrayRef<'c>]),
    (function, descriptions): (&Body<'c>, &[Value<'c>]),
) -> Result<()> {
    let mut emitter = Elemental::new(builder, computation, inputs, 1);
    if attention::attention_grid(mapping).is_some() {
        return match descriptions {
            [] => attention::emit(emitter, mapping, outputs, function),
            descriptions => attention::emit_boxes(emitter, outputs, (function, descriptions)),
        };
    }
    let Some(product) = Product::of(emitter.scope.context(), computation)? else {
        return transposes::emit(&mut emitter, mapping, outputs, function);
    };
    let descriptions = <[Value<'c>; 2]>::try_from(descriptions).ok();
    let operands = TensorOperands::of(computation, &product)?;
    let threads = if descriptions.is_some() { BOX_THREADS } else { THREADS };
    let tile = Tile::new(&mut emitter, product, mapping, threads)?;
    if few_rows::are_few(mapping) {
        return few_rows::emit(&tile, &mut emitter, outputs, function);
    }
    match (operands, descriptions) {
        (_, Some(descriptions)) => boxes::emit(&tile, descriptions, &mut emitter, outputs, function),
        (Some(operands), None) if warp_groups::suit(&tile, operands, emitter.builder.machine()) => {
            warp_groups::emit(&tile, operands, &mut emitter, outputs, function)
        }
        (Some(TensorOperands([TensorType::F64, _])), None) => doubles::emit(&tile, &mut emitter, outputs, function),
        (Some(operands), None) => tensor_cores::emit(&tile, operands, &mut emitter, outputs, function),
        (None, None) => multiply_add::emit(&tile, &mut emitter, outputs, function),
    }
}

/// Which tile a block has.
struct TilePlace<'c> {
    batch: Expr<'c>,
    /// The first row and the first column.
    firsts: [Expr<'c>; 2],
    /// The number of the thread in its block.
    thread: Expr<'c>,
}

impl<'c> TilePlace<'c> {
    /// That of a block of so many threads.
    fn of(emitter: &mut Elemental<'_, 'c>, mapping: &WorkMapping<'c>, threads: i64) -> Result<Self> {
        let along = tiles_along(mapping);
        let (block, thread) = thread_numbers(emitter, along.iter().product(), 1, threads)?;
        let [batch, row, column] = tile_of_block(block, along)?;
        let batch = simple_symbol(emitter, batch, along[0])?;
        let row = simple_symbol(emitter, row, along[1])? * mapping.dimensions[1].tile;
        let column = simple_symbol(emitter, column, along[2])? * mapping.dimensions[2].tile;
        Ok(TilePlace { batch, firsts: [row, column], thread })
    }
}

/// Tiles that a group of blocks has along one side at most.
const MOST_GROUPED: i64 = 16;

/// The batch, the row and the column of the tile that a block has, of so many along each. Blocks that run at the same time have
/// tiles of a group of rows, or of columns, about as many of the one as of the other, so that most of what a block reads is in
/// the cache because another has read it.
fn tile_of_block<'c>(block: Expr<'c>, [batches, rows, columns]: [i64; 3]) -> Result<[Expr<'c>; 3]> {
    let largest = |along: i64| (1..=MOST_GROUPED).filter(|size| along % size == 0).fold(1, i64::max);
    let (of_rows, of_columns) = (largest(rows), largest(columns));
    let (grouped, others, size) =
        if of_rows >= of_columns { (rows, columns, of_rows) } else { (columns, rows, of_columns) };
    let [batch, group, other, place]: [Expr<'c>; 4] = split_merged(block, &[batches, grouped / size, others, size])
        .try_into()
        .map_err(|_| LoweringError::bug("a tile in a group has four coordinates"))?;
    let place = group * size + place;
    Ok(if of_rows >= of_columns { [batch, place, other] } else { [batch, other, place] })
}

/// As [`Elemental::emit_symbol`], of the expression simplified.
fn simple_symbol<'c>(emitter: &mut Elemental<'_, 'c>, expr: Expr<'c>, size: i64) -> Result<Expr<'c>> {
    let expr = emitter.scope.simplify(expr);
    emitter.emit_symbol(expr, size)
}

/// Runs `body` if a row and a column are among those that there are.
fn where_inside<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    place: [Expr<'c>; 2],
    sizes: [i64; 2],
    body: impl FnOnce(&mut Elemental<'a, 'c>) -> Result<()>,
) -> Result<()> {
    let open: Vec<Expr<'c>> = place
        .into_iter()
        .zip(sizes)
        .filter(|&(expr, size)| emitter.scope.truth(&is_term(expr, size)) != Some(true))
        .map(|(expr, size)| -expr + (size - 1))
        .collect();
    if open.is_empty() {
        return emitter.nested(body);
    }
    let values = emitter.scope.affine_bounds(&open)?;
    let holds = AffineConditions { equalities: vec![false; open.len()], values };
    emitter.builder.affine_if_then(&holds, |_| emitter.nested(body))
}

/// Computes all results at an index, then stores them: outputs may lie over inputs.
fn store_results<'c>(emitter: &mut Elemental<'_, 'c>, outputs: &[ArrayRef<'c>], index: &[Expr<'c>]) -> Result<()> {
    let mut values = Vec::with_capacity(outputs.len());
    for root in emitter.computation.roots() {
        values.extend(emitter.evaluate_all(root, index)?);
    }
    values.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, index, value))
}

impl<'m, 'a, 'c> Tile<'m, 'a, 'c> {
    fn new(
        emitter: &mut Elemental<'a, 'c>,
        product: Product<'a, 'c>,
        mapping: &'m WorkMapping<'c>,
        threads: i64,
    ) -> Result<Self> {
        let TilePlace { batch, firsts, thread } = TilePlace::of(emitter, mapping, threads)?;
        let zero = scalar::constant(emitter.builder, product.accumulator(emitter.computation)?, &[], None);
        let sizes = [1, 2].map(|number| mapping.bounds(number).upper + 1);
        let depth = product.maps.ranges.iter().product();
        Ok(Tile { product, mapping, batch, firsts, sizes, depth, thread, zero })
    }

    /// Rows and columns of the tile, which are as many in most.
    fn side(&self) -> i64 {
        self.mapping.dimensions[1].tile
    }

    fn columns(&self) -> i64 {
        self.mapping.dimensions[2].tile
    }

    /// What an operand has at a row (or column) and a contracted position, which `value` finds at an index of the operand, and
    /// `outside` where there is none: that is asked of `guards`, which of a vector are the place where it begins.
    fn element(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        operand: usize,
        ([along, position], guards): ([Expr<'c>; 2], [Expr<'c>; 2]),
        outside: RegisterValue<'c>,
        value: &mut dyn FnMut(&mut Elemental<'a, 'c>, InstructionId, &[Expr<'c>]) -> Result<RegisterValue<'c>>,
    ) -> Result<RegisterValue<'c>> {
        let product = &self.product;
        let zero = emitter.scope.constant(0);
        let item = match operand {
            0 => [self.batch, along, zero],
            _ => [self.batch, zero, along],
        };
        let index = item_index(emitter, self.mapping, &item);
        let ranges = split_merged(position, &product.maps.ranges);
        let (results, conditions) = product.maps.of_operand(operand);
        let mut conditions = emitter.conditions(conditions, &index, &ranges);
        let sizes = [self.sizes[operand], self.depth];
        conditions.extend(guards.into_iter().zip(sizes).map(|(guard, size)| is_term(guard, size)));
        let operand_index = emitter.apply_with_ranges(results, &index, &ranges, &[])?;
        let shape = operand_shape(emitter.computation, product.instruction, operand)?;
        let choice = Choice {
            conditions: &conditions,
            types: &[outside.element_type],
            index: &operand_index,
            sizes: &shape.dimensions,
        };
        let number = product.instruction.operands[operand];
        let values =
            emitter.choose(&choice, &mut |emitter, index| Ok(vec![value(emitter, number, index)?]), &mut |_| {
                Ok(vec![outside])
            })?;
        values.first().copied().ok_or_else(|| LoweringError::bug("an operand without a value"))
    }

    /// Whether so many neighbouring columns, from a multiple of their number on, are neighbours in all that follows the product:
    /// then they are computed together.
    fn has_vectors(&self, computation: &Computation, count: i64) -> Result<bool> {
        if count == 1 || self.sizes[1] % count != 0 {
            return Ok(false);
        }
        let mut scope = Scope::new(self.product.maps.rhs.context());
        let lane = scope.add_traced(Interval::of_size(count));
        let [batch, row] = [0, 1].map(|number| scope.add_traced(self.mapping.bounds(number)));
        let column = scope.add_traced(Interval::of_size(self.sizes[1] / count)) * count + lane;
        let item = [batch, row, column];
        let index: Vec<Expr<'_>> =
            self.mapping.map.results().iter().map(|&own| scope.simplify(substitute(own, &item, &[], &[]))).collect();
        let Some(variable) = lane.as_variable() else { return Ok(false) };
        let is_along = |scope: &Scope<'_>, address| coefficient(scope, address, variable) == Some(1);
        let roots = computation.roots();
        for &root in &roots {
            let Some(shape) = computation.get(root).shape.as_array() else { return Ok(false) };
            let address = scope.simplify(linear_address(scope.context(), &shape.dimensions, &index));
            if shape.element_type.is_complex() || !is_along(&scope, address) {
                return Ok(false);
            }
        }
        let found = trace_behind(computation, Some(self.product.id), &roots, &index, &mut scope)?;
        let accesses = found.accesses_along(&scope, variable);
        let is_tested = found.conditions.iter().any(|condition| scope.depends(condition.expr, variable));
        let is_looked_up = found.looks_up_by(&scope, variable);
        Ok(accesses.near == 0 && accesses.other == 0 && !is_tested && !is_looked_up)
    }

    /// What becomes of neighbouring elements of a row of the product, as vectors where [`Self::has_vectors`] says so.
    fn finish_row(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        (row, column): (Expr<'c>, Expr<'c>),
        (sums, are_vectors): (&[Value<'c>], bool),
    ) -> Result<()> {
        if !are_vectors {
            return (0..).zip(sums).try_for_each(|(number, &sum)| {
                self.finish(emitter, outputs, (row, column + number), self.zero.with_values(&[sum]))
            });
        }
        let builder = emitter.builder;
        let place = [self.firsts[0] + row, self.firsts[1] + column].map(|expr| emitter.scope.simplify(expr));
        where_inside(emitter, place, self.sizes, |emitter| {
            let lane = emitter.scope.add_lanes(sums.len() as u32);
            let item = [self.batch, place[0], place[1] + lane];
            let sum = RegisterValue::real(builder, self.zero.element_type, builder.from_elements(sums));
            self.store(emitter, outputs, &item, &sum)
        })
    }

    /// What becomes of an element of the product, stored where there is one.
    fn finish(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        (row, column): (Expr<'c>, Expr<'c>),
        sum: RegisterValue<'c>,
    ) -> Result<()> {
        let item = [self.batch, self.firsts[0] + row, self.firsts[1] + column];
        let item = item.map(|expr| emitter.scope.simplify(expr));
        where_inside(emitter, [item[1], item[2]], self.sizes, |emitter| self.store(emitter, outputs, &item, &sum))
    }

    /// Stores what becomes of elements of the product.
    fn store(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        item: &[Expr<'c>],
        sum: &RegisterValue<'c>,
    ) -> Result<()> {
        let index = item_index(emitter, self.mapping, item);
        let result = result_shape(self.product.instruction)?.element_type;
        let value = scalar::convert::convert(emitter.builder, sum, result)
            .ok_or_else(|| LoweringError::bug("a sum that is no result"))?;
        emitter.remember(self.product.id, &index, vec![value]);
        store_results(emitter, outputs, &index)
    }
}

/// Whether an operand's neighbours along the contracted positions are next to each other in memory.
pub(crate) fn is_near_along_depth(
    computation: &Computation,
    product: &Instruction,
    maps: &ContractionMaps<'_>,
    operand: usize,
) -> Result<bool> {
    let (results, _) = maps.of_operand(operand);
    let mut scope = Scope::new(maps.rhs.context());
    let shape = result_shape(product)?;
    let index: Vec<Expr<'_>> = shape.dimensions.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let ranges: Vec<Expr<'_>> = maps.ranges.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let place: Vec<Expr<'_>> =
        results.iter().map(|&result| scope.simplify(substitute(result, &index, &ranges, &[]))).collect();
    let found = trace(computation, &[product.operands[operand]], &place, &mut scope)?;
    let last = ranges.iter().zip(&maps.ranges).rev().find(|(_, size)| **size > 1);
    let last = last.and_then(|(range, _)| range.as_variable());
    Ok(last.is_some_and(|last| found.accesses_along(&scope, last).is_near()))
}

/// Where vectors come from.
struct VectorSource {
    /// One of the parameters.
    parameter: usize,
    /// Whether that is the only one, and each begins at a multiple of its size.
    is_aligned: bool,
}

impl VectorSource {
    /// Whether each is whole chunks in memory: then it can be copied from there.
    fn is_of_chunks(&self, emitter: &Elemental<'_, '_>) -> bool {
        let alignment = emitter.inputs.get(self.parameter).and_then(|array| array.alignment);
        self.is_aligned && alignment.is_some_and(|bytes| bytes % CHUNK == 0)
    }
}

/// Where so many of an operand's elements in a direction (1 along the contracted positions, 0 across them), from each
/// multiple of their number on, are neighbours in memory.
fn vectors_of<'c>(
    product: &Product<'_, 'c>,
    map: &IndexingMap<'c>,
    computation: &Computation,
    (operand, direction): (usize, usize),
    count: i64,
) -> Result<Option<VectorSource>> {
    let (results, conditions) = product.maps.of_operand(operand);
    let ([batch, rows, columns], depth) = product.sizes();
    let sizes = [[rows, columns][operand], depth];
    if sizes[direction] % count != 0 || !conditions.is_empty() {
        return Ok(None);
    }
    let mut scope = Scope::new(product.maps.rhs.context());
    let lane = scope.add_traced(Interval::of_size(count));
    let mut place = sizes.map(|size| scope.add_traced(Interval::of_size(size)));
    place[direction] = scope.add_traced(Interval::of_size(sizes[direction] / count)) * count + lane;
    let [along, position] = place;
    let (batch, zero) = (scope.add_traced(Interval::of_size(batch)), scope.constant(0));
    let item = if operand == 0 { [batch, along, zero] } else { [batch, zero, along] };
    let index: Vec<Expr<'_>> =
        map.results().iter().map(|&own| scope.simplify(substitute(own, &item, &[], &[]))).collect();
    let ranges = split_merged(position, &product.maps.ranges);
    let place: Vec<Expr<'_>> =
        results.iter().map(|&result| scope.simplify(substitute(result, &index, &ranges, &[]))).collect();
    let found = trace(computation, &[product.instruction.operands[operand]], &place, &mut scope)?;
    let Some(variable) = lane.as_variable() else { return Ok(None) };
    let accesses = found.accesses_along(&scope, variable);
    let are_vectors =
        found.conditions.is_empty() && found.lookups.is_empty() && accesses.is_near() && accesses.near == 0;
    let Some(&(parameter, element)) = found.loads.first().filter(|_| are_vectors) else { return Ok(None) };
    let distances = Linear::from_expr(scope.simplify(element));
    let is_multiple = |Linear { terms, constant }: Linear<'_>| {
        let mut others = terms.iter().filter(|(atom, _)| *atom != lane);
        constant % count == 0 && others.all(|(_, distance)| distance % count == 0)
    };
    let is_aligned = found.loads.len() == 1 && distances.is_some_and(is_multiple);
    Ok(Some(VectorSource { parameter, is_aligned }))
}
