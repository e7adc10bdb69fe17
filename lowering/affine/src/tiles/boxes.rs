//! Tiles by the matrix instructions of four warps together, whose operands a unit copies by itself (`cp.async.bulk.tensor`), box by
//! box: which boxes there are a description says, which the host makes of the array.
//!
//! Two groups of warps multiply, and a warp of its own asks for what they need, as many steps ahead as there are stages (`rings`).
//!
//! ```text
//!  a thread behind the groups, for each step          two groups, for each step
//!    wait until its stage is free (of the first: it is)    wait until its stage is full
//!    ask for the boxes, which make it full                 multiply
//!                                                          each warp: it is free
//! ```

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::launch_plan::Boxes;
use hlo::mapping::WorkMapping;
use indexing::{Expr, Interval, Linear, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, Machine, Value};
use mlir_ext::gpu;

use super::attention::{self, attention_grid};
use super::chunks::{CHUNK, is_only_moved};
use super::few_rows;
use super::rings::{BoxPlace, Ring, call};
use super::tensor_types::{SmallFloatSums, TensorOperands, TensorType};
use super::warp_groups::{Matrix, Member, STEP, Stages, wait_for_products};
use super::{BUSY_BLOCKS, MOST_REPEATED, Product, Result, THREADS, Tile, is_near_along_depth, tile_grid};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar;
use crate::scope::Scope;
use crate::team::{SharedValues, WARP, barrier};
use crate::trace::{split_merged, trace};
use crate::walk::substitute;

/// Threads of a block: those that multiply, and a warp that asks for boxes.
pub(super) const BOX_THREADS: i64 = THREADS + WARP;

/// Rows of a tile.
const ROWS: i64 = 128;

/// What the blocks have that keep the memory of a multiprocessor.
struct TileForm {
    /// Columns of a tile.
    columns: i64,
    stages: i64,
    /// Blocks of a multiprocessor.
    blocks: i64,
    /// Whether the sums of a step are added to those of all steps, rather than its products: twice the registers.
    adds_sums: bool,
}

const WIDE: TileForm = TileForm { columns: 256, stages: 4, blocks: 1, adds_sums: false };
const NARROW: TileForm = TileForm { columns: 128, stages: 3, blocks: 2, adds_sums: false };
const STEPWISE: TileForm = TileForm { columns: 128, stages: 6, blocks: 1, adds_sums: true };

impl TileForm {
    /// That of a product whose sums of f8 are made so, if they are, and of which wide tiles leave enough blocks.
    fn of(sums: Option<SmallFloatSums>, is_wide: bool) -> &'static Self {
        match sums {
            Some(SmallFloatSums::Stepwise) => &STEPWISE,
            _ if is_wide => &WIDE,
            _ => &NARROW,
        }
    }
}

/// What sizes of descriptions are less than: places in them are signed numbers of 32 bits.
const MOST_ELEMENTS: i64 = 1 << 31;
const MOST_BYTES: i64 = 1 << 40;

/// Boxes of an array among a fusion's parameters.
pub(crate) struct ParameterBoxes {
    pub parameter: usize,
    /// The byte at which the array begins that they are of.
    pub first: usize,
    pub boxes: Boxes,
}

impl ParameterBoxes {
    /// Whether they begin where a unit can copy them from, of parameters with some alignment.
    pub(super) fn is_aligned(&self, alignment: &dyn Fn(usize) -> i64) -> bool {
        (alignment(self.parameter) | self.first as i64) % CHUNK == 0
    }
}

/// A product, or an attention, whose operands are copied in boxes.
pub(crate) struct BoxKernel<'c> {
    /// That of the fusion, with tiles of as many columns as such a kernel has.
    pub mapping: WorkMapping<'c>,
    pub boxes: Vec<ParameterBoxes>,
    /// Threads of a block, and blocks of a multiprocessor that registers must suffice for.
    pub limits: [i64; 2],
}

impl<'c> BoxKernel<'c> {
    /// That of a fusion with tiles, where four warps multiply together and neither operand is computed on the way. `alignment` is
    /// that of the parameters.
    pub fn of(
        context: &'c Context,
        computation: &Computation,
        mapping: &WorkMapping<'c>,
        machine: Machine,
        alignment: &dyn Fn(usize) -> i64,
    ) -> Result<Option<Self>> {
        if !machine.warp_group_matrices {
            return Ok(None);
        }
        if attention_grid(mapping).is_some() {
            return Ok(attention::box_kernel(context, computation, mapping, alignment));
        }
        if few_rows::are_few(mapping) || mapping.dimensions.get(1).is_none_or(|rows| rows.tile != ROWS) {
            return Ok(None);
        }
        let Some(product) = Product::of(context, computation)? else { return Ok(None) };
        let Some((operands, sums)) = operands_of(computation, &product)? else { return Ok(None) };
        let TensorOperands([left, right]) = operands;
        // Of bytes of two types, only newer versions of PTX make products.
        let are_made = left == right || left.sums() != ElementType::S32;
        if !are_made || matches!(left, TensorType::TwoTf32 | TensorType::F64) {
            return Ok(None);
        }
        let with_columns = |tile: i64| {
            let mut mapping = mapping.clone();
            mapping.dimensions[2].tile = tile;
            mapping
        };
        let wide = with_columns(WIDE.columns);
        let blocks = tile_grid(&wide).map_or(0, |(blocks, _)| blocks);
        let is_wide = mapping.bounds(2).upper >= NARROW.columns
            && blocks >= BUSY_BLOCKS
            && computation.instructions.len() <= MOST_REPEATED / 2;
        let form = TileForm::of(sums, is_wide);
        let mapping = with_columns(form.columns);
        let boxes =
            |operand| boxes_of_operand(context, computation, (&product, &mapping), (operand, [left, right][operand]));
        let (Some(left), Some(right)) = (boxes(0)?, boxes(1)?) else { return Ok(None) };
        let boxes = vec![left, right];
        let are_aligned = boxes.iter().all(|own| own.is_aligned(alignment));
        Ok(are_aligned.then_some(BoxKernel { mapping, boxes, limits: [BOX_THREADS, form.blocks] }))
    }
}

/// What is multiplied of a product whose operands are copied as they are, and how sums of f8 are made.
pub(super) fn operands_of(
    computation: &Computation,
    product: &Product<'_, '_>,
) -> Result<Option<(TensorOperands, Option<SmallFloatSums>)>> {
    // One step has nothing to be added to.
    let is_one_step = product.maps.ranges.iter().product::<i64>() <= STEP;
    Ok(match TensorOperands::of_small_floats(computation, product)? {
        Some((operands, _)) if is_one_step => Some((operands, Some(SmallFloatSums::Fast))),
        Some((operands, sums)) => Some((operands, Some(sums))),
        None => TensorOperands::of(computation, product)?.map(|operands| (operands, None)),
    })
}

/// Whether an array of some sizes, and distances in bytes, can be described.
pub(super) fn have_boxes(sizes: [i64; 3], strides: [i64; 2]) -> bool {
    let is_stride = |&stride: &i64| stride > 0 && stride % CHUNK == 0 && stride < MOST_BYTES;
    // The driver asks that a stride be a multiple of the one before.
    let are_strides = strides.iter().all(is_stride) && strides[1] % strides[0] == 0;
    are_strides && sizes.iter().all(|&size| size < MOST_ELEMENTS)
}

fn boxes_of_operand<'c>(
    context: &'c Context,
    computation: &Computation,
    (product, mapping): (&Product<'_, 'c>, &WorkMapping<'c>),
    (operand, r#type): (usize, TensorType),
) -> Result<Option<ParameterBoxes>> {
    let width = r#type.width();
    let number = product.instruction.operands[operand];
    let (results, conditions) = product.maps.of_operand(operand);
    let is_along_depth = is_near_along_depth(computation, product.instruction, &product.maps, operand)?;
    // Only elements of two bytes can be transposed on the way to the instructions.
    let is_as_it_lies = is_along_depth || width == 2;
    if !conditions.is_empty() || !is_as_it_lies || !is_only_moved(computation, number, r#type.element_type()) {
        return Ok(None);
    }
    let mut scope = Scope::new(context);
    let depth = product.maps.ranges.iter().product();
    let sizes = [mapping.bounds(0).upper + 1, mapping.bounds(1 + operand).upper + 1, depth];
    let places = sizes.map(|size| scope.add_traced(Interval::of_size(size)));
    let [batch, along, position] = places;
    let zero = scope.constant(0);
    let item = if operand == 0 { [batch, along, zero] } else { [batch, zero, along] };
    let index: Vec<Expr<'c>> =
        mapping.map.results().iter().map(|&own| scope.simplify(substitute(own, &item, &[], &[]))).collect();
    let ranges = split_merged(position, &product.maps.ranges);
    let place: Vec<Expr<'c>> =
        results.iter().map(|&result| scope.simplify(substitute(result, &index, &ranges, &[]))).collect();
    let found = trace(computation, &[number], &place, &mut scope)?;
    let &[(parameter, element)] = &found.loads[..] else { return Ok(None) };
    let distances = Linear::from_expr(scope.simplify(element));
    let Some(Linear { terms, constant }) =
        distances.filter(|_| found.conditions.is_empty() && found.lookups.is_empty())
    else {
        return Ok(None);
    };
    let distance = |place: Expr<'c>| terms.iter().find(|(atom, _)| *atom == place).map_or(0, |(_, distance)| *distance);
    let is_plain = terms.iter().all(|(atom, _)| places.contains(atom));
    let (inner, outer) = if is_along_depth { (2, 1) } else { (1, 2) };
    // Of one matrix nobody asks where the next one is.
    let stride = distance(places[outer]) * width;
    let strides =
        [stride, if sizes[0] == 1 { stride.saturating_mul(sizes[outer]) } else { distance(places[0]) * width }];
    let are_described = is_plain && constant >= 0 && distance(places[inner]) == 1 && have_boxes(sizes, strides);
    // Boxes across the contracted positions are as wide as their rows.
    let most = mapping.dimensions[1 + operand].tile;
    let rows = if is_along_depth { most } else { STEP / width };
    let numbers = |numbers: [i64; 2]| numbers.map(|number| number as u64);
    Ok(are_described.then(|| ParameterBoxes {
        parameter,
        first: (constant * width) as usize,
        boxes: Boxes {
            width: width as u64,
            sizes: [inner, outer, 0].map(|number| sizes[number] as u64),
            strides: numbers(strides),
            sides: numbers([STEP / width, rows]),
        },
    }))
}

/// Emits the part of a fusion that a tile is, of operands whose descriptions are at addresses.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    descriptions: [Value<'c>; 2],
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let (builder, computation) = (emitter.builder, emitter.computation);
    let product = &tile.product;
    let (operands, sums) =
        operands_of(computation, product)?.ok_or_else(|| LoweringError::bug("boxes of what is not multiplied"))?;
    let r#type = operands.0[0];
    let is_wide = tile.columns() == WIDE.columns;
    let &TileForm { columns, stages: count, adds_sums, .. } = TileForm::of(sums, is_wide);
    let matrix = |operand: usize, side: i64| {
        let is_along_depth = is_near_along_depth(computation, product.instruction, &product.maps, operand)?;
        Ok::<_, LoweringError>(Matrix { r#type: operands.0[operand], is_along_depth, side })
    };
    let matrices = [matrix(0, ROWS)?, matrix(1, columns)?];
    let zero = scalar::constant(builder, r#type.bits(), &[], None);
    let elements = count * (ROWS + columns) * STEP / r#type.width();
    let address = SharedValues::new(builder, function, &zero, &[elements]).address(builder);
    let zero = scalar::constant(builder, ElementType::S64, &[], None);
    let barriers = SharedValues::new(builder, function, &zero, &[Ring::barriers_of(count)]).address(builder);
    let thread = emitter.emit_symbol(tile.thread, THREADS)?;
    let member = Member::new(emitter, thread)?;
    let stages = Stages { matrices, address, group: member.group, is_pending: !adds_sums };
    let steps = ceil_div(tile.depth * r#type.width(), STEP);
    let ring = Ring { barriers, first: 0, stages: count, bytes: stages.bytes(), warps: THREADS / WARP };
    let kernel = Kernel { tile, stages, descriptions, ring, steps, adds_sums };
    let of_asking = asking(tile.thread);
    emitter.where_not_negative(&of_asking, |emitter| {
        kernel.ring.prepare(emitter)?;
        call(emitter.builder, gpu::FENCE_FOR_BARRIERS, &[]);
        Ok(())
    })?;
    barrier(builder);
    emitter.where_not_negative(&of_asking, |emitter| kernel.ask(emitter))?;
    emitter.where_not_negative(&[-tile.thread + (THREADS - 1)], |emitter| {
        let sums = kernel.multiply(emitter, member.lane)?;
        member.finish(tile, emitter, sums, outputs)
    })
}

/// What is not negative in the thread that asks for boxes.
pub(super) fn asking(thread: Expr<'_>) -> [Expr<'_>; 2] {
    [thread - THREADS, -thread + THREADS]
}

/// A kernel under construction.
struct Kernel<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    stages: Stages<'c>,
    /// Where the descriptions are.
    descriptions: [Value<'c>; 2],
    ring: Ring<'c>,
    /// How many steps there are.
    steps: i64,
    /// As in [`TileForm`].
    adds_sums: bool,
}

impl<'a, 'c> Kernel<'_, '_, 'a, 'c> {
    /// What the thread does that asks for boxes.
    fn ask(&self, emitter: &mut Elemental<'a, 'c>) -> Result<()> {
        self.descriptions.iter().for_each(|&own| call(emitter.builder, gpu::ACQUIRE_BOXES, &[own]));
        emitter.loop_in(Interval::of_size(self.steps), None, Vec::new(), &mut |emitter, step, _| {
            let stage = self.ring.stage(emitter, step);
            let full = self.ring.begin(emitter, step)?;
            for (operand, matrix) in self.stages.matrices.into_iter().enumerate() {
                let of_row = STEP / matrix.r#type.width();
                let (first, position) = (self.tile.firsts[operand], step * of_row);
                let boxes = if matrix.is_along_depth { 1 } else { matrix.side / of_row };
                for number in 0..boxes {
                    let [x, y] = match matrix.is_along_depth {
                        true => [position, first],
                        false => [first + number * of_row, position],
                    };
                    let place = BoxPlace {
                        description: self.descriptions[operand],
                        address: self.stages.address,
                        to: self.stages.place(stage, operand) + number * (matrix.bytes() / boxes),
                        first: [x, y, self.tile.batch],
                    };
                    place.copy(emitter, full)?;
                }
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// What the threads do that multiply: the sums of one.
    fn multiply(&self, emitter: &mut Elemental<'a, 'c>, lane: Expr<'c>) -> Result<Vec<Value<'c>>> {
        let (zeros, sum_type) = (self.stages.zeros(self.tile), self.tile.zero.element_type);
        let sums = emitter.loop_in(Interval::of_size(self.steps), None, zeros, &mut |emitter, step, sums| {
            self.ring.wait(emitter, step)?;
            let stage = self.ring.stage(emitter, step);
            if self.adds_sums {
                let products = self.stages.multiply(emitter, stage, (&[], sum_type))?;
                self.ring.release(emitter, step, lane)?;
                let add = |(sum, product): (Value<'c>, Value<'c>)| emitter.builder.addf(sum, product);
                return Ok(sums.into_iter().zip(products).map(add).collect());
            }
            // Those of the step before have ended when these have begun: the units never wait for the threads.
            let products = self.stages.multiply(emitter, stage, (&sums, sum_type))?;
            let products = wait_for_products(emitter.builder, 1, (&products, sum_type), &[]);
            let before = step + (self.ring.stages - 1);
            emitter.where_not_negative(&[step - 1], |emitter| self.ring.release(emitter, before, lane))?;
            Ok(products)
        })?;
        Ok(if self.adds_sums { sums } else { wait_for_products(emitter.builder, 0, (&sums, sum_type), &[]) })
    }
}
