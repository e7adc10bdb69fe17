//! Tiles by the matrix instructions of four warps together, whose operands a unit copies by itself (`cp.async.bulk.tensor`), box by
//! box: which boxes there are a description says, which the host makes of the array.
//!
//! Two groups of warps multiply, and a warp of its own asks for what they need, as many steps ahead as there are stages. Of each
//! stage, two barriers in shared memory (`mbarrier`) say when its bytes have come, and when both groups have multiplied them.
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
use melior::ir::Type;
use mlir_ext::builder::{Body, Machine, OpBuilder, Value};
use mlir_ext::control::AffineConditions;
use mlir_ext::gpu;

use super::chunks::{CHUNK, is_only_moved};
use super::tensor_types::{TensorOperands, TensorType};
use super::warp_groups::{Matrix, Member, STEP, Stages};
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

/// Rows of a tile, and columns: as many as keep the memory of a multiprocessor, for one block, or two.
const ROWS: i64 = 128;
const COLUMNS: [i64; 2] = [256, 128];

/// Stages of tiles of more columns, and of fewer.
const STAGES: [i64; 2] = [4, 3];

/// Bytes of a barrier.
const BARRIER: i64 = 8;

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

/// A product whose operands are copied in boxes.
pub(crate) struct BoxKernel<'c> {
    /// That of the fusion, with tiles of as many columns as such a kernel has.
    pub mapping: WorkMapping<'c>,
    pub boxes: [ParameterBoxes; 2],
}

impl<'c> BoxKernel<'c> {
    /// Threads of a block, and blocks of a multiprocessor that registers must suffice for.
    pub fn limits(&self) -> [i64; 2] {
        [BOX_THREADS, if self.mapping.dimensions[2].tile == COLUMNS[0] { 1 } else { 2 }]
    }

    /// That of a fusion with tiles, where four warps multiply together and neither operand is computed on the way. `alignment` is
    /// that of the parameters.
    pub fn of(
        context: &'c Context,
        computation: &Computation,
        mapping: &WorkMapping<'c>,
        machine: Machine,
        alignment: &dyn Fn(usize) -> i64,
    ) -> Result<Option<Self>> {
        if !machine.warp_group_matrices || mapping.dimensions.get(1).is_none_or(|rows| rows.tile != ROWS) {
            return Ok(None);
        }
        let Some(product) = Product::of(context, computation)? else { return Ok(None) };
        let Some(TensorOperands([left, right])) = TensorOperands::of(computation, &product)? else { return Ok(None) };
        if left != right || left.width() > 2 {
            return Ok(None);
        }
        let with_columns = |tile: i64| {
            let mut mapping = mapping.clone();
            mapping.dimensions[2].tile = tile;
            mapping
        };
        let wide = with_columns(COLUMNS[0]);
        let blocks = tile_grid(&wide).map_or(0, |(blocks, _)| blocks);
        let is_wide = mapping.bounds(2).upper >= COLUMNS[1]
            && blocks >= BUSY_BLOCKS
            && computation.instructions.len() <= MOST_REPEATED / 2;
        let mapping = if is_wide { wide } else { with_columns(COLUMNS[1]) };
        let boxes = |operand| boxes_of_operand(context, computation, (&product, &mapping), (operand, left));
        let (Some(left), Some(right)) = (boxes(0)?, boxes(1)?) else { return Ok(None) };
        let is_aligned = |own: &ParameterBoxes| (alignment(own.parameter) | own.first as i64) % CHUNK == 0;
        let are_aligned = is_aligned(&left) && is_aligned(&right);
        Ok(are_aligned.then_some(BoxKernel { mapping, boxes: [left, right] }))
    }
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
    // Elements of a byte cannot be transposed on the way to the instructions.
    let is_as_it_lies = is_along_depth || width > 1;
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
    let is_stride = |&stride: &i64| stride > 0 && stride % CHUNK == 0 && stride < MOST_BYTES;
    // The driver asks that a stride be a multiple of the one before.
    let is_plain = is_plain && strides[0] != 0 && strides[1] % strides[0] == 0;
    let are_described = is_plain
        && constant >= 0
        && distance(places[inner]) == 1
        && strides.iter().all(is_stride)
        && sizes.iter().all(|&size| size < MOST_ELEMENTS);
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
    (operands, descriptions): (TensorOperands, [Value<'c>; 2]),
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let (builder, computation) = (emitter.builder, emitter.computation);
    let r#type = operands.0[0];
    let number = usize::from(tile.columns() != COLUMNS[0]);
    let (columns, count) = (COLUMNS[number], STAGES[number]);
    let product = &tile.product;
    let matrix = |operand: usize, side: i64| {
        let is_along_depth = is_near_along_depth(computation, product.instruction, &product.maps, operand)?;
        Ok::<_, LoweringError>(Matrix { r#type, is_along_depth, side })
    };
    let matrices = [matrix(0, ROWS)?, matrix(1, columns)?];
    let zero = scalar::constant(builder, r#type.bits(), &[], None);
    let elements = count * (ROWS + columns) * STEP / r#type.width();
    let address = SharedValues::new(builder, function, &zero, &[elements]).address(builder);
    let zero = scalar::constant(builder, ElementType::S64, &[], None);
    let barriers = SharedValues::new(builder, function, &zero, &[2 * count]).address(builder);
    let thread = emitter.emit_symbol(tile.thread, THREADS)?;
    let member = Member::new(emitter, thread)?;
    let stages = Stages { matrices, address, group: member.group };
    let steps = ceil_div(tile.depth * r#type.width(), STEP);
    let kernel = Kernel { tile, stages, descriptions, barriers, count, steps };
    let of_asking = [tile.thread - THREADS, -tile.thread + THREADS];
    where_not_negative(emitter, &of_asking, |emitter| kernel.prepare(emitter))?;
    barrier(builder);
    where_not_negative(emitter, &of_asking, |emitter| kernel.ask(emitter))?;
    where_not_negative(emitter, &[-tile.thread + (THREADS - 1)], |emitter| {
        let sums = kernel.multiply(emitter, member.lane)?;
        member.finish(tile, emitter, sums, outputs)
    })
}

/// A kernel under construction.
struct Kernel<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    stages: Stages<'c>,
    /// Where the descriptions are, and the barriers: those of full stages, then those of free ones.
    descriptions: [Value<'c>; 2],
    barriers: Value<'c>,
    /// How many stages there are, and how many steps.
    count: i64,
    steps: i64,
}

impl<'a, 'c> Kernel<'_, '_, 'a, 'c> {
    /// Makes the barriers.
    fn prepare(&self, emitter: &Elemental<'a, 'c>) -> Result<()> {
        let builder = emitter.builder;
        for stage in (0..self.count).map(|stage| emitter.scope.constant(stage)) {
            for (barrier, arrivals) in [(self.full(emitter, stage)?, 1), (self.free(emitter, stage)?, THREADS / WARP)] {
                let arrivals = builder.constant_integer(builder.integer_type(32), arrivals);
                call(builder, gpu::MAKE_BARRIER, &[barrier, arrivals]);
            }
        }
        call(builder, gpu::FENCE_FOR_BARRIERS, &[]);
        Ok(())
    }

    /// What the thread does that asks for boxes.
    fn ask(&self, emitter: &mut Elemental<'a, 'c>) -> Result<()> {
        self.descriptions.iter().for_each(|&own| call(emitter.builder, gpu::ACQUIRE_BOXES, &[own]));
        emitter.loop_in(Interval::of_size(self.steps), None, Vec::new(), &mut |emitter, step, _| {
            let (builder, word) = (emitter.builder, emitter.builder.integer_type(32));
            let stage = emitter.scope.simplify(step.modulo(self.count));
            // The phase before the first has ended.
            let free = self.free(emitter, stage)?;
            self.wait(emitter, free, (step + self.count).floordiv(self.count))?;
            let full = self.full(emitter, stage)?;
            call(builder, gpu::EXPECT_BYTES, &[full, builder.constant_integer(word, self.stages.bytes())]);
            for (operand, matrix) in self.stages.matrices.into_iter().enumerate() {
                let of_row = STEP / matrix.r#type.width();
                let (first, position) = (self.tile.firsts[operand], step * of_row);
                let boxes = if matrix.is_along_depth { 1 } else { matrix.side / of_row };
                for number in 0..boxes {
                    let [x, y] = match matrix.is_along_depth {
                        true => [position, first],
                        false => [first + number * of_row, position],
                    };
                    let to = self.stages.place(stage, operand) + number * (matrix.bytes() / boxes);
                    let mut operands = vec![address_at(emitter, self.stages.address, to)?, self.descriptions[operand]];
                    for place in [x, y, self.tile.batch] {
                        operands.push(emit_number(emitter, emitter.scope.simplify(place), word)?);
                    }
                    operands.push(full);
                    call(builder, gpu::COPY_BOX, &operands);
                }
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// What the threads do that multiply: the sums of one.
    fn multiply(&self, emitter: &mut Elemental<'a, 'c>, lane: Expr<'c>) -> Result<Vec<Value<'c>>> {
        let zeros = self.stages.zeros(self.tile);
        emitter.loop_in(Interval::of_size(self.steps), None, zeros, &mut |emitter, step, sums| {
            let stage = emitter.scope.simplify(step.modulo(self.count));
            let full = self.full(emitter, stage)?;
            self.wait(emitter, full, step.floordiv(self.count))?;
            let sums = self.stages.multiply(emitter, stage, (&sums, self.tile.zero.element_type))?;
            let free = self.free(emitter, stage)?;
            where_not_negative(emitter, &[-lane], |emitter| {
                call(emitter.builder, gpu::ARRIVE, &[free]);
                Ok(())
            })?;
            Ok(sums)
        })
    }

    /// The addresses of a stage's barriers.
    fn full(&self, emitter: &Elemental<'a, 'c>, stage: Expr<'c>) -> Result<Value<'c>> {
        address_at(emitter, self.barriers, stage * BARRIER)
    }

    fn free(&self, emitter: &Elemental<'a, 'c>, stage: Expr<'c>) -> Result<Value<'c>> {
        address_at(emitter, self.barriers, (stage + self.count) * BARRIER)
    }

    /// Waits until a phase of a barrier has ended.
    fn wait(&self, emitter: &Elemental<'a, 'c>, barrier: Value<'c>, phase: Expr<'c>) -> Result<()> {
        let builder = emitter.builder;
        let parity = emit_number(emitter, emitter.scope.simplify(phase.modulo(2)), builder.integer_type(32))?;
        call(builder, gpu::WAIT_FOR_PHASE, &[barrier, parity]);
        Ok(())
    }
}

/// Runs `body` in threads where values are not negative.
fn where_not_negative<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    values: &[Expr<'c>],
    body: impl FnOnce(&mut Elemental<'a, 'c>) -> Result<()>,
) -> Result<()> {
    let holds =
        AffineConditions { values: emitter.scope.affine_bounds(values)?, equalities: vec![false; values.len()] };
    emitter.builder.affine_if_then(&holds, |_| emitter.nested(body))
}

/// A number as an integer of a type.
fn emit_number<'c>(emitter: &Elemental<'_, 'c>, number: Expr<'c>, r#type: Type<'c>) -> Result<Value<'c>> {
    let number = emitter.scope.emit(emitter.builder, number)?;
    Ok(emitter.builder.value("arith.index_cast", &[number], r#type, &[]))
}

/// An address so many bytes behind another.
fn address_at<'c>(emitter: &Elemental<'_, 'c>, base: Value<'c>, bytes: Expr<'c>) -> Result<Value<'c>> {
    let builder = emitter.builder;
    let bytes = emitter.scope.emit(builder, emitter.scope.simplify(bytes))?;
    let address = builder.addi(base, bytes);
    Ok(builder.value("arith.index_cast", &[address], builder.integer_type(64), &[]))
}

/// Calls a function that stands for an instruction without results.
fn call<'c>(builder: &OpBuilder<'c>, symbol: &str, operands: &[Value<'c>]) {
    builder.define_once(symbol, |builder| {
        let types: Vec<Type<'c>> = operands.iter().map(|operand| operand.r#type()).collect();
        builder.declare_function(symbol, &types, &[]);
    });
    builder.call(symbol, operands, &[]);
}
