//! Operands of which a unit copies boxes by itself (`cp.async.bulk.tensor`): what lies in memory as four warps multiply it.
//!
//! One thread asks for what a step needs, two steps ahead. A barrier of each stage in shared memory (`mbarrier`) lets all
//! threads pass when its bytes have come; which boxes there are a description says, which the host makes of the array.
//!
//! ```text
//!  first thread:  ask for steps 0, 1                 all threads, for each step:  wait for its stage
//!                                                                                 pass a barrier: the stage of the step before is free
//!                 ask for the second next step  <--                               multiply
//! ```

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::launch_plan::Boxes;
use hlo::mapping::WorkMapping;
use indexing::{Expr, Interval, Linear};
use melior::Context;
use melior::ir::Type;
use mlir_ext::builder::{Body, Machine, OpBuilder, Value};
use mlir_ext::control::AffineConditions;
use mlir_ext::gpu;

use super::chunks::{CHUNK, is_only_moved};
use super::tensor_types::{TensorOperands, TensorType};
use super::warp_groups::{BYTES, SIDE, STEP, stage_of};
use super::{Product, Result, Tile, is_near_along_depth};
use crate::elemental::Elemental;
use crate::scalar;
use crate::scope::Scope;
use crate::team::{SharedValues, barrier};
use crate::trace::{split_merged, trace};
use crate::walk::substitute;

/// Stages that operands have in turns.
pub(super) const STAGES: i64 = 3;

/// What sizes and strides of descriptions are less than.
const MOST_ELEMENTS: i64 = 1 << 32;
const MOST_BYTES: i64 = 1 << 40;

/// Boxes of an array among a fusion's parameters.
pub(crate) struct ParameterBoxes {
    pub parameter: usize,
    /// The byte at which the array begins that they are of.
    pub first: usize,
    pub boxes: Boxes,
}

/// The boxes of both operands of a fusion's product, where it is multiplied by four warps together and neither is computed on the
/// way. `alignment` is that of the parameters.
pub(crate) fn boxes_of<'c>(
    context: &'c Context,
    computation: &Computation,
    mapping: &WorkMapping<'c>,
    machine: Machine,
    alignment: &dyn Fn(usize) -> i64,
) -> Result<Option<[ParameterBoxes; 2]>> {
    if !machine.warp_group_matrices || mapping.dimensions.get(1).is_none_or(|rows| rows.tile != SIDE) {
        return Ok(None);
    }
    let Some(product) = Product::of(context, computation)? else { return Ok(None) };
    let Some(TensorOperands([left, right])) = TensorOperands::of(computation, &product)? else { return Ok(None) };
    if left != right || left.width() > 2 {
        return Ok(None);
    }
    let boxes = |operand| boxes_of_operand(context, computation, (&product, mapping), (operand, left));
    let (Some(left), Some(right)) = (boxes(0)?, boxes(1)?) else { return Ok(None) };
    let is_aligned = |own: &ParameterBoxes| (alignment(own.parameter) | own.first as i64) % CHUNK == 0;
    Ok((is_aligned(&left) && is_aligned(&right)).then_some([left, right]))
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
    let strides = [outer, 0].map(|number: usize| match sizes[number] {
        1 => CHUNK,
        _ => distance(places[number]) * width,
    });
    let is_stride = |&stride: &i64| stride > 0 && stride % CHUNK == 0 && stride < MOST_BYTES;
    let are_described = is_plain
        && constant >= 0
        && distance(places[inner]) == 1
        && strides.iter().all(is_stride)
        && sizes.iter().all(|&size| size < MOST_ELEMENTS);
    let rows = if is_along_depth { SIDE } else { STEP / width };
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

/// A kernel's boxes under construction.
pub(super) struct BoxCopies<'c> {
    /// Where the descriptions are.
    descriptions: [Value<'c>; 2],
    are_along_depth: [bool; 2],
    width: i64,
    /// Where the stages are, and their barriers.
    address: Value<'c>,
    barriers: Value<'c>,
}

impl<'c> BoxCopies<'c> {
    /// Those of stages at an address, and memory for their barriers.
    pub fn new(
        builder: &OpBuilder<'c>,
        function: &Body<'c>,
        descriptions: [Value<'c>; 2],
        (are_along_depth, width, address): ([bool; 2], i64, Value<'c>),
    ) -> Self {
        let zero = scalar::constant(builder, ElementType::S64, &[], None);
        let barriers = SharedValues::new(builder, function, &zero, &[STAGES]).address(builder);
        BoxCopies { descriptions, are_along_depth, width, address, barriers }
    }

    /// Emits the steps of a tile, which `multiply` adds to the sums by stages: the sums after them.
    pub fn emit_steps<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        (steps, sums): (i64, Vec<Value<'c>>),
        multiply: &mut MultiplyStage<'_, 'a, 'c>,
    ) -> Result<Vec<Value<'c>>> {
        let ahead = STAGES - 1;
        in_first_thread(tile, emitter, &[], |emitter| {
            let builder = emitter.builder;
            self.descriptions.iter().for_each(|&own| call(builder, gpu::ACQUIRE_BOXES, &[own]));
            let one = builder.constant_integer(builder.integer_type(32), 1);
            for stage in 0..STAGES {
                let barrier = self.barrier(emitter, emitter.scope.constant(stage))?;
                call(builder, gpu::MAKE_BARRIER, &[barrier, one]);
            }
            call(builder, gpu::FENCE_FOR_BARRIERS, &[]);
            for step in (0..ahead.min(steps)).map(|step| emitter.scope.constant(step)) {
                self.ask(tile, emitter, step)?;
            }
            Ok(())
        })?;
        barrier(emitter.builder);
        emitter.loop_in(Interval::of_size(steps), None, sums, &mut |emitter, step, sums| {
            let builder = emitter.builder;
            let stage = emitter.scope.simplify(step.modulo(STAGES));
            let phase = emitter.scope.simplify(step.floordiv(STAGES).modulo(2));
            let phase = emit_number(emitter, phase, builder.integer_type(32))?;
            let of_stage = self.barrier(emitter, stage)?;
            call(builder, gpu::WAIT_FOR_PHASE, &[of_stage, phase]);
            barrier(builder);
            // Where there is one.
            if steps > ahead {
                in_first_thread(tile, emitter, &[-step + (steps - 1 - ahead)], |emitter| {
                    self.ask(tile, emitter, emitter.scope.simplify(step + ahead))
                })?;
            }
            multiply(emitter, stage, sums)
        })
    }

    /// The address of a stage's barrier.
    fn barrier(&self, emitter: &Elemental<'_, 'c>, stage: Expr<'c>) -> Result<Value<'c>> {
        address_at(emitter, self.barriers, stage * 8)
    }

    /// Asks for the boxes of a step.
    fn ask<'a>(&self, tile: &Tile<'_, 'a, 'c>, emitter: &Elemental<'a, 'c>, step: Expr<'c>) -> Result<()> {
        let builder = emitter.builder;
        let word = builder.integer_type(32);
        let of_row = STEP / self.width;
        let stage = emitter.scope.simplify(step.modulo(STAGES));
        let barrier = self.barrier(emitter, stage)?;
        call(builder, gpu::EXPECT_BYTES, &[barrier, builder.constant_integer(word, 2 * BYTES)]);
        for operand in 0..2 {
            let (first, position) = (tile.firsts[operand], step * of_row);
            let boxes = if self.are_along_depth[operand] { 1 } else { SIDE / of_row };
            for number in 0..boxes {
                let [x, y] = match self.are_along_depth[operand] {
                    true => [position, first],
                    false => [first + number * of_row, position],
                };
                let to = stage_of(stage, operand) + number * (BYTES / boxes);
                let mut operands = vec![address_at(emitter, self.address, to)?, self.descriptions[operand]];
                for place in [x, y, tile.batch] {
                    operands.push(emit_number(emitter, emitter.scope.simplify(place), word)?);
                }
                operands.push(barrier);
                call(builder, gpu::COPY_BOX, &operands);
            }
        }
        Ok(())
    }
}

/// Adds the products of what is in a stage to sums.
pub(super) type MultiplyStage<'m, 'a, 'c> =
    dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>> + 'm;

/// Runs `body` in the first thread, where values are not negative.
fn in_first_thread<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    values: &[Expr<'c>],
    body: impl FnOnce(&mut Elemental<'a, 'c>) -> Result<()>,
) -> Result<()> {
    let values: Vec<Expr<'c>> = [-tile.thread].iter().chain(values).copied().collect();
    let holds =
        AffineConditions { values: emitter.scope.affine_bounds(&values)?, equalities: vec![false; values.len()] };
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
