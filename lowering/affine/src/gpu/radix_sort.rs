//! Sorting by digits: where the order of one operand's elements is that of their bits, as whole numbers without sign, rows are
//! sorted by eight of these after the other, the lowest first. Each such pass keeps the order of equal digits.
//!
//! A pass is three kernels, of which a block has a part of a row: how often it has each digit; how many elements of the row have a
//! digit before that, for all parts; and the elements to their places. In the last one, a block orders its elements by the
//! digit first, so that threads which are neighbours write neighbours: twice by four bits, for which each thread counts its own
//! elements, and finds where those of each digit go from the sums over digits and threads. All operands go along in
//! every pass, as bits.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use hlo::launch_plan::{LaunchArgument, PlanStep};
use hlo::shape::ArrayShape;
use indexing::ceil_div;
use mlir_ext::arith::CmpiPredicate::{Eq, Sgt, Slt, Ult};
use mlir_ext::builder::{Body, OpBuilder, Value};
use passes::assign_buffers::{Buffer, Slice};

use super::kernels::{KernelArrays, block_id, thread_id};
use super::plan::copy;
use super::sort::are_overlapping;
use super::sort_order::SortOrder;
use super::{GpuProgram, Result};
use crate::atomics::add_in_shared_memory;
use crate::error::LoweringError;
use crate::library_calls::{KeyOrder, Order};
use crate::map_to_gpu::BLOCK_SIZE;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::team::{SharedValues, WARP, barrier};
use crate::team_scan::scan_lanes;

/// Elements of all rows from which on digits take less time than merging, if there are several mergings.
const LEAST_ELEMENTS: i64 = 1 << 16;

/// Elements of each thread, at most.
const MOST_ELEMENTS: i64 = 16;

/// The same at least.
const LEAST_ELEMENTS_OF_THREAD: i64 = 4;

/// Parts of a row up to which a thread sums what these have of a digit.
const MOST_PARTS_OF_THREAD: i64 = 16;

/// Blocks that keep a GPU busy.
const BUSY_BLOCKS: i64 = 1 << 9;

/// Blocks that a multiprocessor has registers for while elements are moved.
const BLOCKS_OF_MULTIPROCESSOR: i64 = 2;

/// Bits of a pass, and the values that these have.
const DIGIT_BITS: u32 = 8;
const DIGITS: i64 = 1 << DIGIT_BITS;

/// The same of a step within a block.
const STEP_BITS: u32 = 4;
const STEP_DIGITS: i64 = 1 << STEP_BITS;

/// In shared memory, so many neighbours are followed by an unused word, so that threads that go through runs of as many find
/// theirs in different banks.
const NEIGHBOURS: i64 = 16;

/// How a sort by digits is divided between blocks.
pub(super) struct RadixSort {
    key: KeyBits,
    rows: i64,
    length: i64,
    /// Elements between neighbours of a row.
    inside: i64,
    /// Elements of each thread.
    of_thread: i64,
    /// Parts of a row.
    parts: i64,
}

impl RadixSort {
    /// For a sort of so many further mergings of runs that blocks have sorted.
    pub fn of(order: &SortOrder<'_>, operands: &[(&ArrayShape, Slice)], along: usize, mergings: u32) -> Option<Self> {
        let SortOrder::Keys(order) = order else { return None };
        let (shape, _) = operands.get(order.operand)?;
        let key = KeyBits { order: *order, element_type: shape.element_type };
        let length = *shape.dimensions.get(along)?;
        let inside: i64 = shape.dimensions[along + 1..].iter().product();
        let elements = shape.element_count();
        i32::try_from(length).ok()?;
        if elements < LEAST_ELEMENTS || mergings == 0 || mergings + 1 < key.passes() {
            return None;
        }
        let wanted = (elements / (BUSY_BLOCKS * BLOCK_SIZE)).min(ceil_div(length, BLOCK_SIZE));
        let of_thread = wanted.clamp(LEAST_ELEMENTS_OF_THREAD, MOST_ELEMENTS);
        let parts = ceil_div(length, of_thread * BLOCK_SIZE);
        Some(RadixSort { key, rows: elements / length, length, inside, of_thread, parts })
    }

    /// Threads that sum what the parts of a row have of a digit.
    fn lanes(&self) -> i64 {
        if self.parts <= MOST_PARTS_OF_THREAD { 1 } else { WARP }
    }

    /// Blocks of such threads.
    fn blocks_of_sums(&self) -> i64 {
        self.rows * DIGITS * self.lanes() / BLOCK_SIZE
    }

    /// Numbers that tell how often each part has each digit, and how many elements a digit has in all: one behind the parts.
    fn counts(&self) -> i64 {
        self.rows * DIGITS * (self.parts + 1)
    }
}

impl GpuProgram<'_, '_> {
    /// The launches of a sort by digits.
    pub(super) fn radix_sort(
        &self,
        (computation, id, single): (&Computation, InstructionId, &Computation),
        radix: &RadixSort,
        operands: &[(&ArrayShape, Slice)],
        to: &[Slice],
    ) -> Result<Vec<PlanStep>> {
        let instruction = computation.get(id);
        let shapes: Vec<ArrayShape> = operands.iter().map(|(shape, _)| bits_of(shape)).collect();
        let counts = ArrayShape::new(ElementType::U32, [radix.counts()]);
        let from: Vec<Slice> = operands.iter().map(|(_, slice)| *slice).collect();
        let passes = radix.key.passes();
        let of_counts = Slice { buffer: Buffer::Arena, offset: 0, size: counts.byte_size() };
        let is_in_place = passes % 2 == 1 && are_overlapping(&from, to);
        let needed = if passes > 1 || is_in_place { [&[of_counts], to].concat() } else { vec![of_counts] };
        let scratch = self.scratch(&needed);
        let (&of_counts, scratch) = scratch.split_first().ok_or_else(|| LoweringError::bug("no scratch memory"))?;
        let mut steps = Vec::new();
        let mut source = from.clone();
        if is_in_place {
            steps.extend(copy(&instruction.shape, &[from, scratch.to_vec()]));
            source = scratch.to_vec();
        }
        let structure = self.kernel_names.number_of(single.structure());
        let builder = self.builder;
        let key_operand = radix.key.order.operand;
        let placed =
            |slices: &[Slice]| shapes.iter().zip(slices).map(|(shape, slice)| (shape, *slice)).collect::<Vec<_>>();
        let blocks = (radix.rows * radix.parts) as u64;
        let threads = BLOCK_SIZE as u32;
        for pass in 0..passes {
            let target = if (passes - pass) % 2 == 1 { to } else { scratch };
            let shift = LaunchArgument::Number(i64::from(pass * DIGIT_BITS));
            let arrays = |inputs, outputs| KernelArrays { inputs, outputs, are_exchanged: false, limits: None };

            let own = arrays(vec![(&shapes[key_operand], source[key_operand])], vec![(&counts, of_counts)]);
            let key = (&*format!("digits {structure}"), &[builder.index_type][..]);
            let kernel = self.kernel(computation, id, &own, key, &|builder, inputs, outputs, function| {
                radix.emit_counts(builder, [&inputs[0], &outputs[0]], function)
            })?;
            let arguments = [own.arguments(), vec![shift]].concat();
            steps.push(kernel.launch(blocks, threads, arguments));

            let own = arrays(Vec::new(), vec![(&counts, of_counts)]);
            let key = format!("sums of digits {structure}");
            let kernel = self.kernel(computation, id, &own, (&key, &[]), &|builder, _, outputs, _| {
                radix.emit_sums(builder, &outputs[0])
            })?;
            steps.push(kernel.launch(radix.blocks_of_sums() as u64, threads, own.arguments()));

            let mut own = arrays([placed(&source), vec![(&counts, of_counts)]].concat(), placed(target));
            own.limits = Some([BLOCK_SIZE, BLOCKS_OF_MULTIPROCESSOR]);
            let key = (&*format!("by digits {structure}"), &[builder.index_type][..]);
            let kernel = self.kernel(computation, id, &own, key, &|builder, inputs, outputs, function| {
                radix.emit_moves(builder, inputs, outputs, function)
            })?;
            let arguments = [own.arguments(), vec![shift]].concat();
            steps.push(kernel.launch(blocks, threads, arguments));
            source = target.to_vec();
        }
        Ok(steps)
    }
}

/// The bits of an array, as whole numbers one behind the other.
fn bits_of(shape: &ArrayShape) -> ArrayShape {
    let bytes = shape.element_type.byte_width();
    let element_type = match bytes {
        1 => ElementType::U8,
        2 => ElementType::U16,
        4 => ElementType::U32,
        _ => ElementType::U64,
    };
    ArrayShape::new(element_type, [shape.element_count() * parts_of(shape.element_type)])
}

/// Such numbers of an element.
fn parts_of(element_type: ElementType) -> i64 {
    (element_type.byte_width() as i64 / 8).max(1)
}

/// The part of a row that a block has, and a thread of it.
struct Part<'c> {
    thread: Value<'c>,
    row: Value<'c>,
    /// Its number in the row.
    number: Value<'c>,
    /// Its first position.
    start: Value<'c>,
    /// The element that the row begins with.
    first: Value<'c>,
}

impl RadixSort {
    fn elements_of_block(&self) -> i64 {
        self.of_thread * BLOCK_SIZE
    }

    /// Blocks that are neighbours have the same part of neighbouring rows.
    fn part<'c>(&self, builder: &OpBuilder<'c>) -> Result<Part<'c>> {
        let number = |number: i64| builder.constant_index(number);
        let thread = thread_id(builder, BLOCK_SIZE)?;
        let block = block_id(builder, self.rows * self.parts)?;
        let (inside, parts) = (number(self.inside), number(self.parts));
        let (place, outside) = (builder.remui(block, inside), builder.divui(block, inside));
        let (own, outer) = (builder.remui(outside, parts), builder.divui(outside, parts));
        let of_outer = builder.muli(outer, inside);
        let first = builder.addi(builder.muli(of_outer, number(self.length)), place);
        let start = builder.muli(own, number(self.elements_of_block()));
        Ok(Part { thread, row: builder.addi(of_outer, place), number: own, start, first })
    }

    /// The element of a row at a position.
    fn element<'c>(&self, builder: &OpBuilder<'c>, part: &Part<'c>, position: Value<'c>) -> Value<'c> {
        builder.addi(part.first, builder.muli(position, builder.constant_index(self.inside)))
    }

    /// Where the numbers of a digit of a row begin.
    fn place_of_counts<'c>(&self, builder: &OpBuilder<'c>, row: Value<'c>, digit: Value<'c>) -> Value<'c> {
        let digit = builder.addi(builder.muli(row, builder.constant_index(DIGITS)), digit);
        builder.muli(digit, builder.constant_index(self.parts + 1))
    }

    /// How often each part has each digit.
    fn emit_counts<'c>(
        &self,
        builder: &OpBuilder<'c>,
        [keys, counts]: [&ArrayRef<'c>; 2],
        function: &Body<'c>,
    ) -> Result<()> {
        let shift = function.parameters()[2];
        let part = self.part(builder)?;
        let memory = words(builder, function, DIGITS);
        memory.store(builder, &word(builder, 0), &[part.thread]);
        barrier(builder);
        for number in 0..self.of_thread {
            let slot = builder.addi(part.thread, builder.constant_index(number * BLOCK_SIZE));
            let position = builder.addi(part.start, slot);
            let is_inside = builder.cmpi(Ult, position, builder.constant_index(self.length));
            builder.if_then(is_inside, |builder| {
                let element = self.element(builder, &part, position);
                let digit = self.key.digit(builder, load(builder, keys, element), shift);
                add_in_shared_memory(builder, &memory, index(builder, digit), builder.integer_like(digit, 1));
                Ok::<_, LoweringError>(())
            })?;
        }
        barrier(builder);
        let count = memory.load(builder, &[part.thread]);
        let place = self.place_of_counts(builder, part.row, part.thread);
        builder.plain_store(count.value, counts.memref, &[builder.addi(place, part.number)]);
        Ok(())
    }

    /// How many elements of a row have a digit before each part, and behind all of them: a thread for each digit, or a warp where
    /// parts are many.
    fn emit_sums<'c>(&self, builder: &OpBuilder<'c>, counts: &ArrayRef<'c>) -> Result<()> {
        let number = |number: i64| builder.constant_index(number);
        let thread = thread_id(builder, BLOCK_SIZE)?;
        let block = block_id(builder, self.blocks_of_sums())?;
        let digits = number(BLOCK_SIZE / self.lanes());
        let (lane, member) = (builder.remui(thread, number(self.lanes())), builder.divui(thread, number(self.lanes())));
        let digit = builder.addi(builder.muli(block, digits), member);
        let first = builder.muli(digit, number(self.parts + 1));
        let zero = word(builder, 0).value;
        if self.lanes() == 1 {
            let total =
                builder.for_loop(number(0), number(self.parts), number(1), &[zero], |builder, own, before| {
                    let place = builder.addi(first, own);
                    let count = load(builder, counts, place);
                    builder.plain_store(before[0], counts.memref, &[place]);
                    Ok::<_, LoweringError>(vec![builder.addi(before[0], count)])
                })?[0];
            builder.plain_store(total, counts.memref, &[builder.addi(first, number(self.parts))]);
            return Ok(());
        }
        let behind = number(ceil_div(self.parts, WARP) * WARP);
        let total = builder.for_loop(number(0), behind, number(WARP), &[zero], |builder, start, before| {
            let own = builder.addi(start, lane);
            let place = builder.addi(first, own);
            let is_inside = builder.cmpi(Ult, own, number(self.parts));
            let count = builder.if_else(is_inside, &[zero.r#type()], |builder, holds| {
                Ok::<_, LoweringError>(vec![if holds { load(builder, counts, place) } else { zero }])
            })?[0];
            let [scanned, total] = sums_of_warp(builder, lane, count)?;
            let own = builder.addi(before[0], builder.subi(scanned, count));
            builder.if_then(is_inside, |builder| {
                builder.plain_store(own, counts.memref, &[place]);
                Ok::<_, LoweringError>(())
            })?;
            Ok::<_, LoweringError>(vec![builder.addi(before[0], total)])
        })?[0];
        builder.if_then(builder.cmpi(Eq, lane, number(0)), |builder| {
            builder.plain_store(total, counts.memref, &[builder.addi(first, number(self.parts))]);
            Ok(())
        })
    }

    /// The elements to their places.
    fn emit_moves<'c>(
        &self,
        builder: &OpBuilder<'c>,
        inputs: &[ArrayRef<'c>],
        outputs: &[ArrayRef<'c>],
        function: &Body<'c>,
    ) -> Result<()> {
        let parameters = function.parameters();
        let shift = parameters[inputs.len() + outputs.len()];
        let (counts, sources) = (&inputs[outputs.len()], &inputs[..outputs.len()]);
        let number = |number: i64| builder.constant_index(number);
        let part = self.part(builder)?;
        let memory = BlockMemory {
            words: words(builder, function, padded_size(self.elements_of_block())),
            counters: words(builder, function, padded_size(STEP_DIGITS * BLOCK_SIZE)),
            offsets: words(builder, function, DIGITS),
            totals: words(builder, function, BLOCK_SIZE / WARP),
        };
        // Each word has the digit of an element and where the element is; behind the row, the largest digit.
        let keys = &sources[self.key.order.operand];
        let slots: Vec<Value<'c>> =
            (0..self.of_thread).map(|turn| builder.addi(part.thread, number(turn * BLOCK_SIZE))).collect();
        let length = number(self.length);
        for &slot in &slots {
            let position = builder.addi(part.start, slot);
            let is_inside = builder.cmpi(Ult, position, length);
            let none = word(builder, DIGITS - 1).value;
            let digit = builder.if_else(is_inside, &[none.r#type()], |builder, holds| {
                let digit = || {
                    let element = self.element(builder, &part, position);
                    self.key.digit(builder, load(builder, keys, element), shift)
                };
                Ok::<_, LoweringError>(vec![if holds { digit() } else { none }])
            })?[0];
            let place = builder.value("arith.index_cast", &[slot], none.r#type(), &[]);
            let high = builder.shli(digit, builder.integer_like(digit, PLACE_BITS));
            memory.words.store(builder, &as_word(builder, builder.ori(high, place)), &[padded(builder, slot)]);
        }
        // Where the elements of digit number `thread` begin in the row, as far as they are before this part.
        let place = self.place_of_counts(builder, part.row, part.thread);
        let [before, behind, all] = [part.number, builder.addi(part.number, number(1)), number(self.parts)]
            .map(|own| load(builder, counts, builder.addi(place, own)));
        let own = builder.subi(behind, before);
        let first = memory.sums_before(builder, part.thread, all)?;
        let of_block = memory.sums_before(builder, part.thread, own)?;
        let offset = builder.subi(builder.addi(first, before), of_block);
        memory.offsets.store(builder, &as_word(builder, offset), &[part.thread]);
        for step in 0..DIGIT_BITS / STEP_BITS {
            memory.order_by(builder, part.thread, self.of_thread, PLACE_BITS + i64::from(step * STEP_BITS))?;
        }
        for &slot in &slots {
            let is_inside = builder.cmpi(Ult, builder.addi(part.start, slot), length);
            builder.if_then(is_inside, |builder| {
                let word = memory.words.load(builder, &[padded(builder, slot)]).value;
                let digit = index(builder, builder.shrui(word, builder.integer_like(word, PLACE_BITS)));
                let place = builder.andi(word, builder.integer_like(word, (1 << PLACE_BITS) - 1));
                let from = self.element(builder, &part, builder.addi(part.start, index(builder, place)));
                let offset = index(builder, memory.offsets.load(builder, &[digit]).value);
                let to = self.element(builder, &part, builder.addi(offset, slot));
                for (source, target) in sources.iter().zip(outputs) {
                    let elements = self.rows * self.length;
                    let parts = source.dimensions[0] / elements.max(1);
                    for own in 0..parts {
                        let [from, to] =
                            [from, to].map(|element| builder.addi(builder.muli(element, number(parts)), number(own)));
                        builder.plain_store(load(builder, source, from), target.memref, &[to]);
                    }
                }
                Ok::<_, LoweringError>(())
            })?;
        }
        Ok(())
    }
}

/// Bits of a word that say where in its block an element is.
const PLACE_BITS: i64 = 16;

/// What the threads of a block share.
struct BlockMemory<'c> {
    words: SharedValues<'c>,
    /// How often each thread has each digit.
    counters: SharedValues<'c>,
    /// For each digit, what leads from a place in the ordered block to one in the row.
    offsets: SharedValues<'c>,
    /// What warps have.
    totals: SharedValues<'c>,
}

impl<'c> BlockMemory<'c> {
    /// Orders the words by the bits from one on, of which those that are equal keep their order.
    fn order_by(&self, builder: &OpBuilder<'c>, thread: Value<'c>, of_thread: i64, bit: i64) -> Result<()> {
        let number = |number: i64| builder.constant_index(number);
        for digit in 0..STEP_DIGITS {
            let place = builder.addi(thread, number(digit * BLOCK_SIZE));
            self.counters.store(builder, &word(builder, 0), &[padded(builder, place)]);
        }
        barrier(builder);
        let first = builder.muli(thread, number(of_thread));
        let own: Vec<(RegisterValue<'c>, Value<'c>)> = (0..of_thread)
            .map(|turn| {
                let word = self.words.load(builder, &[padded(builder, builder.addi(first, number(turn)))]);
                let digit = builder.shrui(word.value, builder.integer_like(word.value, bit));
                let digit = builder.andi(digit, builder.integer_like(digit, STEP_DIGITS - 1));
                let counter = builder.muli(index(builder, digit), number(BLOCK_SIZE));
                (word, padded(builder, builder.addi(counter, thread)))
            })
            .collect();
        for (_, counter) in &own {
            self.count(builder, *counter);
        }
        barrier(builder);
        // A thread has the neighbours of as many counters.
        let first = builder.muli(thread, number(STEP_DIGITS));
        let places: Vec<Value<'c>> =
            (0..STEP_DIGITS).map(|own| padded(builder, builder.addi(first, number(own)))).collect();
        let counts: Vec<Value<'c>> = places.iter().map(|&place| self.counters.load(builder, &[place]).value).collect();
        let total = counts.iter().copied().reduce(|total, own| builder.addi(total, own));
        let mut before = self.sums_before(builder, thread, total.unwrap_or(thread))?;
        for (&place, &count) in places.iter().zip(&counts) {
            self.counters.store(builder, &as_word(builder, before), &[place]);
            before = builder.addi(before, count);
        }
        barrier(builder);
        for (word, counter) in &own {
            let place = index(builder, self.count(builder, *counter));
            self.words.store(builder, word, &[padded(builder, place)]);
        }
        barrier(builder);
        Ok(())
    }

    /// Adds one to a counter that no other thread uses: what it was before.
    fn count(&self, builder: &OpBuilder<'c>, counter: Value<'c>) -> Value<'c> {
        let count = self.counters.load(builder, &[counter]).value;
        let next = builder.addi(count, builder.integer_like(count, 1));
        self.counters.store(builder, &as_word(builder, next), &[counter]);
        count
    }

    /// The sum of what the threads before one have.
    fn sums_before(&self, builder: &OpBuilder<'c>, thread: Value<'c>, own: Value<'c>) -> Result<Value<'c>> {
        let width = builder.constant_index(WARP);
        let (lane, warp) = (builder.remui(thread, width), builder.divui(thread, width));
        let [scanned, total] = sums_of_warp(builder, lane, own)?;
        // What was there before, all have read.
        barrier(builder);
        builder.if_then(builder.cmpi(Eq, lane, builder.constant_index(0)), |builder| {
            self.totals.store(builder, &as_word(builder, total), &[warp]);
            Ok::<_, LoweringError>(())
        })?;
        barrier(builder);
        let mut before = builder.subi(scanned, own);
        for other in 0..BLOCK_SIZE / WARP - 1 {
            let other = builder.constant_index(other);
            let total = self.totals.load(builder, &[other]).value;
            let is_before = builder.cmpi(Ult, other, warp);
            before = builder.addi(before, builder.select(is_before, total, builder.integer_like(total, 0)));
        }
        Ok(before)
    }
}

/// The sum of what the lanes of a warp up to one have, and of all.
fn sums_of_warp<'c>(builder: &OpBuilder<'c>, lane: Value<'c>, own: Value<'c>) -> Result<[Value<'c>; 2]> {
    let sums = scan_lanes(builder, (lane, true), &[as_word(builder, own)], &mut |left, right| {
        Ok(vec![as_word(builder, builder.addi(left[0].value, right[0].value))])
    })?;
    Ok(sums.map(|sum| sum[0].value))
}

fn words<'c>(builder: &OpBuilder<'c>, function: &Body<'c>, count: i64) -> SharedValues<'c> {
    SharedValues::new(builder, function, &word(builder, 0), &[count])
}

fn word<'c>(builder: &OpBuilder<'c>, number: i64) -> RegisterValue<'c> {
    as_word(builder, builder.constant_integer(builder.integer_type(32), number))
}

fn as_word<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> RegisterValue<'c> {
    RegisterValue::real(builder, ElementType::U32, value)
}

fn index<'c>(builder: &OpBuilder<'c>, word: Value<'c>) -> Value<'c> {
    builder.value("arith.index_castui", &[word], builder.index_type, &[])
}

fn load<'c>(builder: &OpBuilder<'c>, array: &ArrayRef<'c>, place: Value<'c>) -> Value<'c> {
    builder.plain_load(array.memref, &[place], scalar::memory_type(builder, array.element_type))
}

/// Where a word is among those with unused ones between them.
fn padded<'c>(builder: &OpBuilder<'c>, place: Value<'c>) -> Value<'c> {
    let shift = builder.constant_index(i64::from(NEIGHBOURS.ilog2()));
    builder.addi(place, builder.shrui(place, shift))
}

fn padded_size(count: i64) -> i64 {
    count + count / NEIGHBOURS
}

/// What is compared of an operand's elements, as bits.
#[derive(Clone, Copy)]
struct KeyBits {
    order: KeyOrder,
    element_type: ElementType,
}

impl KeyBits {
    fn passes(&self) -> u32 {
        self.element_type.bit_width().div_ceil(DIGIT_BITS)
    }

    /// The digit of an element from a bit on, as a word.
    fn digit<'c>(&self, builder: &OpBuilder<'c>, bits: Value<'c>, shift: Value<'c>) -> Value<'c> {
        let key = self.ordered(builder, bits);
        let shift = builder.value("arith.index_cast", &[shift], key.r#type(), &[]);
        let digit = builder.shrui(key, shift);
        let word = builder.integer_type(32);
        let digit = match 8 * self.element_type.byte_width() {
            32 => digit,
            width if width < 32 => builder.extui(digit, word),
            _ => builder.trunci(digit, word),
        };
        let values = 1 << self.element_type.bit_width().min(DIGIT_BITS);
        builder.andi(digit, builder.integer_like(digit, values - 1))
    }

    /// Bits that are in order as whole numbers without sign, as far as the type has bits.
    fn ordered<'c>(&self, builder: &OpBuilder<'c>, bits: Value<'c>) -> Value<'c> {
        let number = |number: i64| builder.integer_like(bits, number);
        let width = i64::from(self.element_type.bit_width());
        let sign = number(-1i64 << (width - 1));
        let ascending = match self.element_type.class() {
            ElementClass::Signed => builder.xori(bits, sign),
            ElementClass::Float => {
                let bits = self.canonical(builder, bits);
                let is_negative = builder.cmpi(Slt, bits, number(0));
                builder.xori(bits, builder.select(is_negative, number(-1), sign))
            }
            _ => bits,
        };
        if self.order.descending { builder.xori(ascending, number(-1)) } else { ascending }
    }

    /// Floats whose zeros, and all NaN, are alike where the order has them so.
    fn canonical<'c>(&self, builder: &OpBuilder<'c>, bits: Value<'c>) -> Value<'c> {
        if self.order.order == Order::Total {
            return bits;
        }
        let number = |number: i64| builder.integer_like(bits, number);
        let infinity = match self.element_type {
            ElementType::F16 => 0x7c00,
            ElementType::BF16 => 0x7f80,
            ElementType::F32 => 0x7f80_0000,
            _ => 0x7ff0_0000_0000_0000,
        };
        let largest = i64::MAX >> (64 - self.element_type.bit_width());
        let magnitude = builder.andi(bits, number(largest));
        let is_nan = builder.cmpi(Sgt, magnitude, number(infinity));
        let is_zero = builder.cmpi(Eq, magnitude, number(0));
        let number_bits = builder.select(is_zero, number(0), bits);
        builder.select(is_nan, number(largest), number_bits)
    }
}
