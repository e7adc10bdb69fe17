//! Products by blocks of a GPU's threads: a block computes a tile of rows and columns, each thread a part of it in registers.
//!
//! Step by step, the block brings a slab of each operand into memory that its threads share, and multiplies it. While it does,
//! each thread has its elements of the next slab on their way. Elements come from the same walk as everything else, so operands
//! may lie in any order and be fusions themselves, and so may be what becomes of the result. A convolution's contracted
//! positions are those of its window, where it reads beyond its input there are zeros.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use indexing::{Constraint, Expr, IndexingMap, Interval, Var, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::contraction::{ContractionMaps, accumulator_type, contraction_maps};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::thread_numbers;
use crate::kernel::item_index;
use crate::memory::ArrayRef;
use crate::operand_maps::{operand_shape, result_shape};
use crate::scalar::{self, RegisterValue, register_type};
use crate::scope::{Binding, Scope};
use crate::team::{SharedValues, barrier};
use crate::trace::{split_merged, trace};
use crate::walk::{Choice, Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads of a block, along rows and along columns.
const SIDE: i64 = 16;
const THREADS: i64 = SIDE * SIDE;

/// Elements of each operand that a thread brings in each step.
const LOADS: i64 = 4;

/// Columns that a thread computes side by side, as a vector.
const VECTOR: i64 = 4;

/// Elements between the rows of shared memory beyond their own, so that columns lie in different banks.
const PADDING: i64 = 4;

/// Sides of the tiles that blocks may have.
const TILES: [i64; 2] = [128, 64];

/// Blocks that keep a GPU busy.
const BUSY_BLOCKS: i64 = 128;

/// Instructions behind a product up to which each of a thread's 64 elements may have its own copies.
const MOST_REPEATED: usize = 24;

/// The dimensions of a product's result and what is contracted, as three numbers and a further one.
struct Product<'a, 'c> {
    id: InstructionId,
    instruction: &'a Instruction,
    maps: ContractionMaps<'c>,
    /// The result's dimensions that both operands have, the left one, and the right one.
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl<'a, 'c> Product<'a, 'c> {
    /// The one product of a fusion, to which the rest is elementwise.
    fn of(context: &'c Context, computation: &'a Computation) -> Result<Option<Self>> {
        let is_contraction = |own: &Instruction| definition(own.kind).class == OpClass::Contraction;
        let mut found = computation.iter().filter(|(_, own)| is_contraction(own));
        let (Some((id, instruction)), None) = (found.next(), found.next()) else { return Ok(None) };
        let combines = |own: &Instruction| definition(own.kind).class == OpClass::Reduction;
        if computation.instructions.iter().any(combines) || !is_followed_elementwise(computation, id) {
            return Ok(None);
        }
        let maps = contraction_maps(context, computation, instruction)?;
        if maps.batch_group.is_some() {
            return Ok(None);
        }
        let uses = |results: &[Expr<'c>], d: usize| results.iter().any(|result| result.uses(Var::Dim(d as u32)));
        let (mut batch, mut rows, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for d in 0..result_shape(instruction)?.rank() {
            match (uses(maps.lhs.map.results(), d), uses(maps.rhs.results(), d)) {
                (true, false) => rows.push(d),
                (false, true) => columns.push(d),
                _ => batch.push(d),
            }
        }
        Ok(Some(Product { id, instruction, maps, batch, rows, columns }))
    }

    /// Type of the sums.
    fn accumulator(&self, computation: &Computation) -> Result<ElementType> {
        let [lhs, rhs] = [0, 1].map(|number| operand_shape(computation, self.instruction, number));
        let result = result_shape(self.instruction)?.element_type;
        Ok(accumulator_type([lhs?.element_type, rhs?.element_type], result))
    }

    fn sizes(&self, dimensions: &[usize]) -> Result<Vec<i64>> {
        let shape = result_shape(self.instruction)?;
        Ok(dimensions.iter().map(|&d| shape.dimensions[d]).collect())
    }
}

/// Whether all that uses an instruction is elementwise, up to the roots.
fn is_followed_elementwise(computation: &Computation, product: InstructionId) -> bool {
    let shape = |id: InstructionId| computation.get(id).shape.as_array().map(|shape| &shape.dimensions);
    let mut follows = vec![false; computation.instructions.len()];
    follows[product.index()] = true;
    let tuple = (computation.root().kind == OpKind::Tuple).then_some(computation.root);
    for (id, own) in computation.iter().filter(|(id, _)| Some(*id) != tuple && *id != product) {
        if !own.operands.iter().any(|operand| follows[operand.index()]) {
            continue;
        }
        follows[id.index()] = true;
        if definition(own.kind).class != OpClass::Elementwise || shape(id) != shape(product) {
            return false;
        }
    }
    computation.roots().iter().all(|&root| shape(root) == shape(product))
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
    let groups = [&product.batch, &product.rows, &product.columns];
    let group_sizes = [product.sizes(groups[0])?, product.sizes(groups[1])?, product.sizes(groups[2])?];
    let [batch, rows, columns] = [0, 1, 2].map(|group: usize| group_sizes[group].iter().product::<i64>());
    let depth: i64 = product.maps.ranges.iter().product();
    if batch * rows * columns == 0 || rows < SIDE || columns < SIDE || depth < SIDE {
        return Ok(None);
    }
    let suits = |side: &&i64| {
        let is_busy = batch * ceil_div(rows, **side) * ceil_div(columns, **side) >= BUSY_BLOCKS;
        let fits = accumulator.bit_width() == 32 && computation.instructions.len() <= MOST_REPEATED;
        is_busy && fits && rows.min(columns) * 2 > **side
    };
    // The smallest for what keeps no GPU busy, or would repeat much.
    let side = TILES.iter().find(suits).copied().unwrap_or(2 * SIDE);
    let mut index = vec![Expr::constant(context, 0); shape.rank()];
    for (number, (group, sizes)) in groups.into_iter().zip(&group_sizes).enumerate() {
        for (&d, expr) in group.iter().zip(split_merged(Expr::dim(context, number), sizes)) {
            index[d] = expr;
        }
    }
    let tile = |tile: i64| WorkDimension { kind: WorkKind::Tile, tile, ..WorkDimension::sequential() };
    Ok(Some(WorkMapping {
        map: IndexingMap::from_sizes(context, &[batch, rows, columns], &[], index),
        dimensions: vec![tile(1), tile(side), tile(side)],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    }))
}

/// The blocks of threads of a mapping of tiles, and the threads of each.
pub(crate) fn tile_grid(mapping: &WorkMapping<'_>) -> Option<(i64, i64)> {
    let is_tiled = mapping.dimensions.len() == 3 && mapping.dimensions.iter().all(|own| own.kind == WorkKind::Tile);
    is_tiled.then(|| (tiles_along(mapping).iter().product(), THREADS))
}

/// Tiles along each dimension of the work.
fn tiles_along(mapping: &WorkMapping<'_>) -> [i64; 3] {
    [0, 1, 2].map(|number| ceil_div(mapping.bounds(number).upper + 1, mapping.dimensions[number].tile))
}

/// One operand's part of the product.
struct Slab<'c> {
    operand: usize,
    /// Where the thread's elements are in a tile and in a step.
    places: Vec<[Expr<'c>; 2]>,
    /// Where the tile begins, and how many positions there are.
    first: Expr<'c>,
    size: i64,
    shared: SharedValues<'c>,
}

/// Emits a fusion with one product, tile by tile.
pub(crate) fn emit_tiles<'a, 'c>(
    builder: &'a OpBuilder<'c>,
    computation: &'a Computation,
    mapping: &WorkMapping<'c>,
    inputs: &'a [ArrayRef<'c>],
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let mut emitter = Elemental::new(builder, computation, inputs, 1);
    let product = Product::of(emitter.scope.context(), computation)?
        .ok_or_else(|| LoweringError::bug("tiles of a fusion without a product"))?;
    Tiles::new(&mut emitter, product, mapping, function)?.emit(&mut emitter, outputs)
}

struct Tiles<'m, 'a, 'c> {
    product: Product<'a, 'c>,
    mapping: &'m WorkMapping<'c>,
    slabs: [Slab<'c>; 2],
    batch: Expr<'c>,
    /// Where the thread's first row and first columns are in the tile.
    row: Expr<'c>,
    column: Expr<'c>,
    depth: i64,
    /// Contracted positions of a step.
    step: i64,
    zero: RegisterValue<'c>,
}

impl<'m, 'a, 'c> Tiles<'m, 'a, 'c> {
    fn new(
        emitter: &mut Elemental<'a, 'c>,
        product: Product<'a, 'c>,
        mapping: &'m WorkMapping<'c>,
        function: &Body<'c>,
    ) -> Result<Self> {
        let builder = emitter.builder;
        let side = mapping.dimensions[1].tile;
        let along = tiles_along(mapping);
        let blocks: i64 = along.iter().product();
        let (block, thread) = thread_numbers(emitter, blocks, 1, THREADS)?;
        let [batch, row_tile, column_tile]: [Expr<'c>; 3] =
            split_merged(block, &along).try_into().map_err(|_| LoweringError::bug("a tile has three coordinates"))?;
        let mut symbol = |expr: Expr<'c>, size: i64| {
            let expr = emitter.scope.simplify(expr);
            emitter.emit_symbol(expr, size)
        };
        let batch = symbol(batch, along[0])?;
        let firsts = [symbol(row_tile, along[1])? * side, symbol(column_tile, along[2])? * side];
        let row = symbol(thread.floordiv(SIDE), SIDE)?;
        let column = symbol(thread.modulo(SIDE), SIDE)?;
        let step = THREADS * LOADS / side;
        let zero = scalar::constant(builder, product.accumulator(emitter.computation)?, &[], None);
        let mut slabs = Vec::with_capacity(2);
        for (operand, first) in firsts.into_iter().enumerate() {
            let is_along_depth = is_near_along_depth(emitter.computation, &product, operand)?;
            let mut places = Vec::new();
            for number in 0..LOADS {
                // Neighbouring threads bring neighbouring elements.
                let (inner, inner_size) = if is_along_depth { (step, side) } else { (side, step) };
                let fast = emitter.emit_symbol(thread.modulo(inner), inner)?;
                let slow = emitter.emit_symbol(thread.floordiv(inner), THREADS / inner)? + number * (THREADS / inner);
                debug_assert_eq!(THREADS / inner * LOADS, inner_size);
                places.push(if is_along_depth { [slow, fast] } else { [fast, slow] });
            }
            slabs.push(Slab {
                operand,
                places,
                first,
                size: mapping.bounds(operand + 1).upper + 1,
                shared: SharedValues::new(builder, function, &zero, &[step, side + PADDING]),
            });
        }
        let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
        let depth = product.maps.ranges.iter().product();
        Ok(Tiles { product, mapping, slabs, batch, row, column, depth, step, zero })
    }

    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let builder = emitter.builder;
        let steps = ceil_div(self.depth, self.step);
        let side = self.mapping.dimensions[1].tile;
        let (rows, vectors) = (side / SIDE, (side / SIDE / VECTOR).max(1));
        let width = (side / SIDE).min(VECTOR);
        let zero = builder.zero(register_type(builder, self.zero.element_type, Some(width as u32)));
        let first = self.bring(emitter, emitter.scope.constant(0))?;
        let mut state = vec![zero; (rows * vectors) as usize];
        let sums = state.len();
        state.extend(first.iter().flat_map(RegisterValue::values));
        let state = emitter.loop_in(Interval::of_size(steps), None, state, &mut |emitter, step, state| {
            let (sums, brought) = state.split_at(sums);
            let mut brought = brought.iter();
            for slab in &self.slabs {
                for place in &slab.places {
                    let value = brought.next().map_or(self.zero, |value| self.zero.with_values(&[*value]));
                    let [along, depth] = *place;
                    let place = [emitter.scope.emit(builder, depth)?, emitter.scope.emit(builder, along)?];
                    slab.shared.store(builder, &value, &place);
                }
            }
            barrier(builder);
            // In the last step nobody needs what comes: it is the last slab again.
            let next = emitter.scope.emit_min(builder, &[step + 1, emitter.scope.constant(steps - 1)])?;
            let next = emitter.scope.add_variable(Interval::of_size(steps), Binding::Index(next));
            let brought = self.bring(emitter, next)?;
            let mut next: Vec<Value<'c>> = self.multiply(emitter, sums, (rows, vectors, width))?;
            barrier(builder);
            next.extend(brought.iter().flat_map(RegisterValue::values));
            Ok(next)
        })?;
        for row in 0..rows {
            for vector in 0..vectors {
                let sum = state[(row * vectors + vector) as usize];
                for lane in 0..width {
                    let value = self.zero.with_values(&[builder.extract_lane(sum, lane as u32)]);
                    self.finish(
                        emitter,
                        outputs,
                        (self.row_of(row, rows), self.column_of(vector, width) + lane),
                        value,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// The place in the tile of one of a thread's rows: groups of neighbours, each group of all threads next to each other.
    fn row_of(&self, row: i64, rows: i64) -> Expr<'c> {
        let group = rows.min(VECTOR);
        self.row * group + (row / group * group * SIDE + row % group)
    }

    /// The place in the tile of the first column of one of a thread's vectors.
    fn column_of(&self, vector: i64, width: i64) -> Expr<'c> {
        self.column * width + vector * width * SIDE
    }

    /// The thread's elements of both operands in a step.
    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>> {
        let mut brought = Vec::new();
        for slab in &self.slabs {
            for &[along, depth] in &slab.places {
                let position = step * self.step + depth;
                brought.push(emitter.nested(|emitter| self.element(emitter, slab, slab.first + along, position))?);
            }
        }
        Ok(brought)
    }

    /// The element of an operand at a row (or column) and a contracted position; zero where there is none.
    fn element(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        slab: &Slab<'c>,
        along: Expr<'c>,
        position: Expr<'c>,
    ) -> Result<RegisterValue<'c>> {
        let product = &self.product;
        let zero = emitter.scope.constant(0);
        let item = match slab.operand {
            0 => [self.batch, along, zero],
            _ => [self.batch, zero, along],
        };
        let index = item_index(emitter, self.mapping, &item);
        let ranges = split_merged(position, &product.maps.ranges);
        let (results, conditions) = match slab.operand {
            0 => (product.maps.lhs.map.results(), &product.maps.lhs.conditions[..]),
            _ => (product.maps.rhs.results(), &[][..]),
        };
        let mut conditions = emitter.conditions(conditions, &index, &ranges);
        conditions.push(Constraint::new(along, Interval::of_size(slab.size)));
        conditions.push(Constraint::new(position, Interval::of_size(self.depth)));
        let operand_index = emitter.apply_with_ranges(results, &index, &ranges, &[])?;
        let operand = operand_shape(emitter.computation, product.instruction, slab.operand)?;
        let choice = Choice {
            conditions: &conditions,
            types: &[self.zero.element_type],
            index: &operand_index,
            sizes: &operand.dimensions,
        };
        let number = product.instruction.operands[slab.operand];
        let values = emitter.choose(
            &choice,
            &mut |emitter, index| {
                let value = emitter.evaluate(number, index)?;
                let wide = scalar::convert::convert(emitter.builder, &value, self.zero.element_type);
                Ok(vec![wide.ok_or_else(|| LoweringError::bug("an operand that cannot be summed"))?])
            },
            &mut |_| Ok(vec![self.zero]),
        )?;
        values.first().copied().ok_or_else(|| LoweringError::bug("an operand without a value"))
    }

    /// Adds the products of what is in shared memory to the sums.
    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        sums: &[Value<'c>],
        (rows, vectors, width): (i64, i64, i64),
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let [left, right] = &self.slabs;
        let lanes = Some(width as u32);
        let group = rows.min(VECTOR);
        let firsts = |expr: Expr<'c>, emitter: &Elemental<'_, 'c>| emitter.scope.emit(builder, expr);
        let row_places: Vec<Value<'c>> =
            (0..rows / group).map(|own| firsts(self.row_of(own * group, rows), emitter)).collect::<Result<_>>()?;
        let column_places: Vec<Value<'c>> =
            (0..vectors).map(|own| firsts(self.column_of(own, width), emitter)).collect::<Result<_>>()?;
        let like = scalar::splat(builder, &self.zero, lanes);
        let mut sums: Vec<RegisterValue<'c>> = sums.iter().map(|&sum| like.with_values(&[sum])).collect();
        for position in 0..self.step {
            let position = builder.constant_index(position);
            let load = |slab: &Slab<'c>, place: Value<'c>, lanes: i64| {
                slab.shared.load_vector(builder, &[position, place], lanes as u32)
            };
            let own_rows: Vec<RegisterValue<'c>> = row_places
                .iter()
                .flat_map(|&place| {
                    let rows = load(left, place, group);
                    (0..group)
                        .map(move |row| scalar::registers::extract(builder, &rows, row as u32))
                        .collect::<Vec<_>>()
                })
                .collect();
            let own_columns: Vec<RegisterValue<'c>> =
                column_places.iter().map(|&place| load(right, place, width)).collect();
            for (row, left) in own_rows.iter().enumerate() {
                for (vector, right) in own_columns.iter().enumerate() {
                    let sum = &mut sums[row * vectors as usize + vector];
                    *sum = emitter.multiply_add(self.product.instruction, left, right, sum)?;
                }
            }
        }
        Ok(sums.iter().map(|sum| sum.value).collect())
    }

    /// What becomes of an element of the product, stored where there is one.
    fn finish(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        (row, column): (Expr<'c>, Expr<'c>),
        sum: RegisterValue<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let item = [self.batch, self.slabs[0].first + row, self.slabs[1].first + column];
        let item = item.map(|expr| emitter.scope.simplify(expr));
        let open: Vec<Expr<'c>> = [1, 2]
            .into_iter()
            .filter(|&number| {
                let size = self.mapping.bounds(number).upper + 1;
                emitter.scope.truth(&Constraint::new(item[number], Interval::of_size(size))) != Some(true)
            })
            .map(|number| -item[number] + self.mapping.bounds(number).upper)
            .collect();
        let computation = emitter.computation;
        let roots = computation.roots();
        let store = |emitter: &mut Elemental<'a, 'c>| {
            let index = item_index(emitter, self.mapping, &item);
            let result = result_shape(self.product.instruction)?.element_type;
            let value = scalar::convert::convert(builder, &sum, result)
                .ok_or_else(|| LoweringError::bug("a sum that is no result"))?;
            emitter.remember(self.product.id, &index, vec![value]);
            let mut values = Vec::with_capacity(outputs.len());
            for &root in &roots {
                values.extend(emitter.evaluate_all(root, &index)?);
            }
            values.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, &index, value))
        };
        if open.is_empty() {
            return emitter.nested(store);
        }
        let values = emitter.scope.affine_bounds(&open)?;
        let holds = AffineConditions { equalities: vec![false; open.len()], values };
        builder.affine_if_then(&holds, |_| emitter.nested(store))
    }
}

/// Whether an operand's neighbours along the contracted positions are next to each other in memory.
fn is_near_along_depth(computation: &Computation, product: &Product<'_, '_>, operand: usize) -> Result<bool> {
    let (results, context) = match operand {
        0 => (product.maps.lhs.map.results(), product.maps.rhs.context()),
        _ => (product.maps.rhs.results(), product.maps.rhs.context()),
    };
    let mut scope = Scope::new(context);
    let shape = result_shape(product.instruction)?;
    let index: Vec<Expr<'_>> = shape.dimensions.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let ranges: Vec<Expr<'_>> =
        product.maps.ranges.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let place: Vec<Expr<'_>> =
        results.iter().map(|&result| scope.simplify(substitute(result, &index, &ranges, &[]))).collect();
    let found = trace(computation, &[product.instruction.operands[operand]], &place, &mut scope)?;
    let last = ranges.iter().zip(&product.maps.ranges).rev().find(|(_, size)| **size > 1);
    let last = last.and_then(|(range, _)| range.as_variable());
    Ok(last.is_some_and(|last| found.accesses_along(&scope, last).is_near()))
}
