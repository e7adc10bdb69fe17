//! Loads and stores of elements and vectors.
//!
//! The lanes of a vector are consecutive in memory, all alike (then one element is loaded, and broadcast where it is
//! needed), at constant distances from each other, or anywhere: a gather.

use hlo::element_type::ElementType;
use indexing::{Expr, ExprKind, Interval, Linear, Operator};
use melior::ir::Attribute;
use melior::ir::attribute::BoolAttribute;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::index::Place;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::{LaneAccess, Scope};
use crate::trace::coefficient;
use crate::walk::linear_address;

type Result<T> = std::result::Result<T, LoweringError>;

/// Distances between the elements of a vector up to which vectors are loaded and shuffled, rather than elements.
pub(crate) const MAX_SHUFFLED_STRIDE: i64 = 8;

/// The same for one of these vectors alone, where registers have less than 512 bits: no instruction shuffles two of them, and from here
/// on shuffles take longer than loads.
const MAX_STRIDE_ALONE: i64 = 5;
const WIDE_REGISTER_BITS: u32 = 512;

/// Registers that hold what lies between the lanes of a vector of elements of less than 32 bits, at most.
const MOST_REGISTERS: i64 = 8;

/// Bytes of an array that caches do not hold, and from a row of it to the next, from which on rows are asked for before they are
/// read; how many rows before, and bytes of what comes together.
pub(crate) const LARGE_ARRAY_BYTES: i64 = 6 << 20;
const FAR_ROW_BYTES: i64 = 1024;
const ROWS_AHEAD: i64 = 8;
pub(crate) const LINE_BYTES: i64 = 64;

/// Bits of the elements that are loaded by a mask, at least: processors with AVX-512 do so with all, others have no instruction for
/// small ones.
const LEAST_MASKED_BITS: u32 = 32;

/// Bytes of a page of memory; the part of an array that is read outside of it, at least, where that matters.
const PAGE_BYTES: i64 = 4096;
const MOST_OUTSIDE: i64 = 8;

/// Bits of a lane of a vector at most.
const MOST_LANE_BITS: u32 = 64;

/// Lanes of 32 bits that a register has at most.
const MOST_LANES: usize = 16;

/// The distances from the element of lane 0 of the first and the last element of the lanes, if so many registers hold all between
/// them: of elements of less than 32 bits one holds more than lanes.
fn span_of(offsets: &[i64], element_type: ElementType, registers: i64) -> Option<Interval> {
    let (lower, upper) = (*offsets.iter().min()?, *offsets.iter().max()?);
    let most = match element_type.bit_width() {
        32.. => registers.min(2) * offsets.len() as i64,
        _ => registers * elements_of_register(offsets, element_type),
    };
    (1..most).contains(&(upper - lower)).then(|| Interval::new(lower, upper))
}

/// Elements of a type in a register that holds elements of 32 bits for all lanes, or for some of many.
fn elements_of_register(offsets: &[i64], element_type: ElementType) -> i64 {
    offsets.len().min(MOST_LANES) as i64 * (32 / element_type.bit_width().clamp(8, 32) as i64)
}

/// Asks for an element that is read soon.
pub(crate) fn prefetch<'c>(builder: &OpBuilder<'c>, memref: Value<'c>, position: Value<'c>) {
    let attributes = [
        ("isWrite", BoolAttribute::new(builder.context(), false).into()),
        ("localityHint", builder.integer_attribute(builder.integer_type(32), 2)),
        ("isDataCache", BoolAttribute::new(builder.context(), true).into()),
    ];
    builder.effect("memref.prefetch", &[memref, position], &attributes);
}

impl<'c> Elemental<'_, 'c> {
    /// Loads the element of an array at an index.
    pub(crate) fn load_element(&mut self, array: &ArrayRef<'c>, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        let address = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        let lanes = self.scope.lanes();
        let stored = match (self.scope.lane_access(address), lanes) {
            (LaneAccess::Uniform, _) | (_, None) => {
                let stored = self.load_consecutive(array, index, address, None)?;
                return Ok(self.decoded(array, None, stored));
            }
            (LaneAccess::Strided(1), Some(_)) => self.load_consecutive(array, index, address, lanes)?,
            (LaneAccess::Strided(-1), Some(count)) => {
                let last = self.scope.at_lane(address, count - 1);
                self.reversed(array, self.load_flat(array, last, lanes)?, count)
            }
            (LaneAccess::Strided(stride), Some(count))
                if (2..=self.max_stride(array)).contains(&stride.saturating_abs())
                    && stride.saturating_abs() < i64::from(count)
                    && array.element_type.bit_width() >= 32 =>
            {
                if stride > 0 {
                    self.load_strided(array, self.scope.at_lane(address, 0), stride, count)?
                } else {
                    let last = self.scope.at_lane(address, count - 1);
                    let stored = self.load_strided(array, last, -stride, count)?;
                    self.reversed(array, stored, count)
                }
            }
            (_, Some(_)) => match self.scope.lane_offsets(address) {
                Some(offsets) if let Some(span) = span_of(&offsets, array.element_type, self.registers_between()) => {
                    self.load_near(array, address, &offsets, span)?
                }
                Some(offsets) => return self.load_lanes(array, index, address, &offsets),
                None => match self.load_needed(array, address)? {
                    Some(stored) => stored,
                    None => match self.look_up_in_registers(array, address)? {
                        Some(stored) => stored,
                        None => return self.gather(array, address),
                    },
                },
            },
        };
        Ok(self.decoded(array, lanes, stored))
    }

    /// Consecutive elements, as memory holds them, some lanes of which are elsewhere because nobody needs them: these are zero.
    fn load_needed(&self, array: &ArrayRef<'c>, address: Expr<'c>) -> Result<Option<Value<'c>>> {
        let builder = self.builder;
        let needed = self.scope.unless_unread(address);
        if self.vector_lanes == 1
            || self.scope.lane_access(needed) != LaneAccess::Strided(1)
            || array.parts() != 1
            || (array.element_type.bit_width() < LEAST_MASKED_BITS && !builder.machine().scales_vectors)
        {
            return Ok(None);
        }
        let lanes = self.scope.lanes();
        let integer = self.scope.lane_type(builder, needed);
        let place = self.scope.lane_values(builder, address, integer)?;
        let mask = builder.cmpi(CmpiPredicate::Eq, place, self.scope.lane_values(builder, needed, integer)?);
        let position = self.near_array(array, self.scope.at_lane(needed, 0))?;
        let r#type = scalar::load_type(builder, array.element_type, lanes);
        let operands = [array.flat(builder), position, mask, builder.zero(r#type)];
        Ok(Some(builder.value("vector.maskedload", &operands, r#type, &[])))
    }

    /// Where a vector begins that is loaded by a mask: in the array also if no lane of it is there, where that may be far. Processors look
    /// for a page that no memory is behind, again for each vector, although its mask has nothing.
    fn near_array(&self, array: &ArrayRef<'c>, first: Expr<'c>) -> Result<Value<'c>> {
        let builder = self.builder;
        let own = self.scope.emit(builder, first)?;
        let lanes = self.scope.lanes().map_or(1, i64::from);
        let elements: i64 = array.dimensions.iter().product();
        let range = self.scope.range(first);
        let outside = range.lower.saturating_neg().max(range.upper.saturating_sub(elements));
        let is_far = outside.saturating_mul(array.element_type.byte_width() as i64) > PAGE_BYTES;
        if !is_far || outside < elements / MOST_OUTSIDE {
            return Ok(own);
        }
        let end = self.scope.emit(builder, first + (lanes - 1))?;
        let is_near = builder.cmpi(CmpiPredicate::Ult, end, builder.constant_index(elements + lanes - 1));
        Ok(builder.select(is_near, own, builder.constant_index(0)))
    }

    /// Elements at a small distance from each other, the first of them at an address, as memory holds them: all vectors in which
    /// they are, from which they are shuffled.
    fn load_strided(&mut self, array: &ArrayRef<'c>, first: Expr<'c>, stride: i64, lanes: u32) -> Result<Value<'c>> {
        let width = i64::from(lanes);
        let first = self.named_if_divided(first)?;
        // Vectors follow each other, as lines of a cache do; where the array may end with the last element, so does the last vector.
        let elements = array.dimensions.iter().product::<i64>();
        let is_inside = self.scope.range(first).upper.saturating_add(stride * width) <= elements;
        let last_start = if is_inside { width * (stride - 1) } else { (width - 1) * (stride - 1) };
        let mut chosen: Option<Value<'c>> = None;
        let mut known = 0;
        for number in 0..stride {
            let start = (number * width).min(last_start);
            let vector = self.load_flat(array, first + start, Some(lanes))?;
            let end = (start + width - 1) / stride + 1;
            chosen = Some(match chosen {
                None => vector,
                Some(chosen) => {
                    let mask: Vec<u32> = (0..width)
                        .map(|lane| match lane {
                            lane if lane < known && number == 1 => (lane * stride) as u32,
                            lane if lane < known => lane as u32,
                            lane if lane < end => (width + lane * stride - start) as u32,
                            _ => 0,
                        })
                        .collect();
                    self.shuffled(array, [chosen, vector], &mask)
                }
            });
            known = end;
        }
        chosen.ok_or_else(|| LoweringError::bug("a vector of no elements"))
    }

    /// The elements of the lanes, as memory holds them, shuffled from all between the first and the last of them.
    pub(crate) fn load_near(
        &mut self,
        array: &ArrayRef<'c>,
        address: Expr<'c>,
        offsets: &[i64],
        span: Interval,
    ) -> Result<Value<'c>> {
        let first = self.named_if_divided(self.scope.at_lane(address, 0))? + span.lower;
        let count = span.upper - span.lower + 1;
        // What is no power of two would be loaded in many parts: vectors overlap instead, and lanes are shuffled from two of them.
        let most = elements_of_register(offsets, array.element_type).max(offsets.len() as i64);
        let width = (1 << count.ilog2()).min(most);
        let starts: Vec<i64> = (0..count).step_by(width as usize).map(|start| start.min(count - width)).collect();
        let lanes = offsets.len() as u32;
        let mut chosen: Option<Value<'c>> = None;
        for pair in starts.chunks(2) {
            let (begin, end) = (pair[0], pair[pair.len() - 1]);
            let left = self.load_flat(array, first + begin, Some(width as u32))?;
            let right = if pair.len() == 1 { left } else { self.load_flat(array, first + end, Some(width as u32))? };
            let place = |offset: &i64| match offset - span.lower {
                place if (begin..begin + width).contains(&place) => Some((place - begin) as u32),
                place if (end..end + width).contains(&place) => Some((width + place - end) as u32),
                _ => None,
            };
            let places: Vec<Option<u32>> = offsets.iter().map(place).collect();
            let mask: Vec<u32> = places.iter().map(|place| place.unwrap_or_default()).collect();
            let own = self.shuffled(array, [left, right], &mask);
            let of_pair = |(lane, place): (u32, &Option<u32>)| if place.is_some() { lanes + lane } else { lane };
            chosen = Some(match chosen {
                None => own,
                Some(before) => {
                    let mask: Vec<u32> = (0..).zip(&places).map(of_pair).collect();
                    self.shuffled(array, [before, own], &mask)
                }
            });
        }
        chosen.ok_or_else(|| LoweringError::bug("a vector of no elements"))
    }

    /// The largest distance between elements that are shuffled.
    fn max_stride(&self, array: &ArrayRef<'c>) -> i64 {
        let register_bits = self.vector_lanes * array.element_type.bit_width();
        if register_bits >= WIDE_REGISTER_BITS { MAX_SHUFFLED_STRIDE } else { MAX_STRIDE_ALONE }
    }

    /// Registers that may be loaded for a few elements of each: threads of a GPU have none.
    fn registers_between(&self) -> i64 {
        if self.vector_lanes > 1 { MOST_REGISTERS } else { 1 }
    }

    /// Elements of two vectors of an array's elements, which are as memory holds them: it is there that registers hold most of them,
    /// and what no lane needs is not decoded. Both parts of a complex number are moved as one element where there are such lanes.
    fn shuffled(&self, array: &ArrayRef<'c>, [a, b]: [Value<'c>; 2], mask: &[u32]) -> Value<'c> {
        let (builder, parts) = (self.builder, array.parts() as u32);
        if parts == 1 {
            return builder.shuffle(a, b, mask);
        }
        if array.element_type.bit_width() > MOST_LANE_BITS {
            let places: Vec<u32> =
                mask.iter().flat_map(|lane| (0..parts).map(move |part| lane * parts + part)).collect();
            return builder.shuffle(a, b, &places);
        }
        let element = builder.integer_type(array.element_type.bit_width());
        let whole = |vector: Value<'c>| {
            let count = builder.lanes_of(vector.r#type()).map_or(1, |lanes| lanes / parts);
            builder.value("vector.bitcast", &[vector], builder.vector_type(count, element), &[])
        };
        let chosen = builder.shuffle(whole(a), whole(b), mask);
        let r#type = scalar::load_type(builder, array.element_type, Some(mask.len() as u32));
        builder.value("vector.bitcast", &[chosen], r#type, &[])
    }

    /// Loads the elements of the lanes one by one, where they are at constant distances from that of lane 0.
    fn load_lanes(
        &mut self,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
        address: Expr<'c>,
        offsets: &[i64],
    ) -> Result<RegisterValue<'c>> {
        let count = offsets.len() as u32;
        let lanes = |scope: &Scope<'c>, lane| index.iter().map(|&expr| scope.at_lane(expr, lane)).collect::<Vec<_>>();
        let indices: Vec<Vec<Expr<'c>>> = (0..count).map(|lane| lanes(&self.scope, lane)).collect();
        let stored: Vec<Value<'c>> = if indices.iter().flatten().all(|&expr| divisions(expr) == 0) {
            let places = indices.iter().zip(0..).map(|(index, lane)| (index, self.scope.at_lane(address, lane)));
            places.map(|(index, address)| self.load_consecutive(array, index, address, None)).collect::<Result<_>>()?
        } else {
            let base = self.named_if_divided(self.scope.at_lane(address, 0))?;
            offsets.iter().map(|&offset| self.load_flat(array, base + offset, None)).collect::<Result<_>>()?
        };
        if array.parts() == 1 {
            return Ok(self.decoded(array, Some(count), self.builder.from_elements(&stored)));
        }
        let elements: Vec<_> = stored.into_iter().map(|stored| self.decoded(array, None, stored)).collect();
        scalar::from_elements(self.builder, &elements).ok_or_else(|| LoweringError::bug("vector without lanes"))
    }

    fn reversed(&self, array: &ArrayRef<'c>, stored: Value<'c>, lanes: u32) -> Value<'c> {
        let mask: Vec<u32> = (0..lanes).rev().collect();
        self.shuffled(array, [stored, stored], &mask)
    }

    /// An expression with divisions as a variable, so that they are made once.
    fn named_if_divided(&mut self, expr: Expr<'c>) -> Result<Expr<'c>> {
        if divisions(expr) == 0 { Ok(expr) } else { self.scope.emit_variable(self.builder, expr) }
    }

    /// One element or consecutive elements, the first at an index whose lane is 0, as memory holds them.
    fn load_consecutive(
        &self,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
        address: Expr<'c>,
        lanes: Option<u32>,
    ) -> Result<Value<'c>> {
        self.ask_for_next_rows(array, address, lanes)?;
        if let Some(aligned) = self.aligned_place(array, address, lanes)? {
            return Ok(self.load_aligned(array, &aligned, lanes));
        }
        let (memref, place) = self.place(array, index, address, lanes.is_some())?;
        Ok(place.load(self.builder, memref, scalar::load_type(self.builder, array.element_type, lanes)))
    }

    /// Asks for what vectors load some rows further on, where a loop goes along the columns of an array that caches do not hold:
    /// rows are so far from each other that processors do not see what comes next.
    fn ask_for_next_rows(&self, array: &ArrayRef<'c>, address: Expr<'c>, lanes: Option<u32>) -> Result<()> {
        let (Some(variable), Some(lanes)) = (self.along_columns, lanes) else { return Ok(()) };
        let width = array.element_type.byte_width() as i64;
        let bytes = array.dimensions.iter().product::<i64>().saturating_mul(width);
        if self.vector_lanes == 1 || bytes < LARGE_ARRAY_BYTES || array.parts() != 1 {
            return Ok(());
        }
        let first = self.scope.at_lane(address, 0);
        let Some(distance) = coefficient(&self.scope, first, variable) else { return Ok(()) };
        if !(FAR_ROW_BYTES..bytes).contains(&distance.saturating_abs().saturating_mul(width)) {
            return Ok(());
        }
        let ahead = first + ROWS_AHEAD * distance;
        for line in (0..i64::from(lanes)).step_by((LINE_BYTES / width).max(1) as usize) {
            let place = self.scope.emit(self.builder, self.scope.simplify(ahead + line))?;
            prefetch(self.builder, array.flat(self.builder), place);
        }
        Ok(())
    }

    /// One element or consecutive elements from a lane-free address, as memory holds them.
    fn load_flat(&self, array: &ArrayRef<'c>, address: Expr<'c>, lanes: Option<u32>) -> Result<Value<'c>> {
        let (memref, place) = self.flat_place(array, address)?;
        Ok(place.load(self.builder, memref, scalar::load_type(self.builder, array.element_type, lanes)))
    }

    /// Registers of what memory holds of so many elements.
    fn decoded(&self, array: &ArrayRef<'c>, lanes: Option<u32>, stored: Value<'c>) -> RegisterValue<'c> {
        scalar::from_memory(self.builder, array.element_type, lanes, stored)
    }

    fn load_aligned(&self, array: &ArrayRef<'c>, aligned: &AlignedPlace<'c>, lanes: Option<u32>) -> Value<'c> {
        let builder = self.builder;
        let r#type = scalar::load_type(builder, array.element_type, lanes);
        let operands = [array.flat(builder), aligned.position];
        builder.value("vector.load", &operands, r#type, &[("alignment", aligned.alignment)])
    }

    /// The place of consecutive elements of an array whose alignment is known.
    fn aligned_place(
        &self,
        array: &ArrayRef<'c>,
        address: Expr<'c>,
        lanes: Option<u32>,
    ) -> Result<Option<AlignedPlace<'c>>> {
        let (Some(base), Some(_)) = (array.alignment, lanes) else { return Ok(None) };
        let address = self.scope.simplify(self.scope.at_lane(address, 0) * array.parts());
        let Some(sum) = Linear::from_expr(address) else { return Ok(None) };
        let width = array.element_type.real_part().byte_width() as i64;
        let distances = sum.terms.iter().map(|(_, coefficient)| *coefficient).chain([sum.constant]);
        let alignment = distances.fold(base, |alignment, distance| largest_divisor(alignment, distance * width));
        Ok(Some(AlignedPlace {
            position: self.scope.emit(self.builder, address)?,
            alignment: self.builder.integer_attribute(self.builder.integer_type(64), alignment),
        }))
    }

    /// Loads the elements at any addresses, one a lane. Of 64 bits, of which a register has few, processors load single ones sooner than
    /// they gather them.
    fn gather(&self, array: &ArrayRef<'c>, address: Expr<'c>) -> Result<RegisterValue<'c>> {
        let builder = self.builder;
        let address = self.scope.simplify(address * array.parts());
        let addresses = self.scope.lane_values(builder, address, self.scope.lane_type(builder, address))?;
        let lanes = self.scope.lanes();
        let memory = scalar::memory_type(builder, array.element_type);
        let r#type = lanes.map_or(memory, |lanes| builder.vector_type(lanes, memory));
        let flat = array.flat(builder);
        if let Some(lanes) = lanes
            && self.vector_lanes > 1
            && array.element_type.bit_width() == MOST_LANE_BITS
            && array.parts() == 1
        {
            let load = |lane: u32| {
                let address = builder.extract_lane(addresses, lane);
                let place = builder.value("arith.index_cast", &[address], builder.index_type, &[]);
                builder.value("memref.load", &[flat, place], memory, &[])
            };
            let elements: Vec<Value<'c>> = (0..lanes).map(load).collect();
            return Ok(scalar::from_memory(builder, array.element_type, Some(lanes), builder.from_elements(&elements)));
        }
        let zero = builder.constant_index(0);
        let all = builder.constant_integer(builder.with_element_type(r#type, builder.integer_type(1)), 1);
        let none = builder.zero(r#type);
        let mut parts = Vec::new();
        for part in 0..array.parts() {
            let addresses = match part {
                0 => addresses,
                part => builder.addi(addresses, builder.integer_like(addresses, part)),
            };
            parts.push(builder.value("vector.gather", &[flat, zero, addresses, all, none], r#type, &[]));
        }
        match parts[..] {
            [real] => Ok(scalar::from_memory(builder, array.element_type, lanes, real)),
            [real, imaginary] => Ok(RegisterValue::complex(builder, array.element_type, real, imaginary)),
            _ => Err(LoweringError::bug("an element of more than two parts")),
        }
    }

    /// Stores one element or a vector of elements, without its skipped lanes, at an index that the lane is a variable of,
    /// if there are lanes.
    pub fn store(&self, array: &ArrayRef<'c>, index: &[Expr<'c>], value: &RegisterValue<'c>) -> Result<()> {
        let address = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        let value = scalar::splat(self.builder, value, self.scope.lanes());
        match (self.scope.lanes(), self.scope.lane_access(address), self.skipped_lanes) {
            (None, ..) | (Some(_), LaneAccess::Strided(1), 0) => {
                if let Some(aligned) = self.aligned_place(array, address, value.lanes)? {
                    let stored = scalar::to_memory(self.builder, &value);
                    let operands = [stored, array.flat(self.builder), aligned.position];
                    self.builder.effect("vector.store", &operands, &[("alignment", aligned.alignment)]);
                    return Ok(());
                }
                let (memref, place) = self.place(array, index, address, value.lanes.is_some())?;
                self.store_place(memref, &place, &value);
            }
            (Some(lanes), LaneAccess::Strided(1), skipped) if array.parts() == 1 => {
                let builder = self.builder;
                let (stored, flat) = (scalar::to_memory(builder, &value), array.flat(builder));
                // In halves: a masked store of AVX takes longer on some processors, and no load gets its data from it.
                let mut end = lanes;
                while end > skipped {
                    let start = end - (1 << (end - skipped).ilog2());
                    let position = self.scope.emit(builder, self.scope.at_lane(address, start))?;
                    let part = builder.shuffle(stored, stored, &Vec::from_iter(start..end));
                    builder.effect("vector.store", &[part, flat, position], &[]);
                    end = start;
                }
            }
            (Some(lanes), _, skipped) => {
                for lane in skipped..lanes {
                    let element = scalar::registers::extract(self.builder, &value, lane);
                    let (memref, place) = self.flat_place(array, self.scope.at_lane(address, lane))?;
                    self.store_place(memref, &place, &element);
                }
            }
        }
        Ok(())
    }

    /// Stores vectors of elements that alternate in memory: `values[i]` of lane `l` at the `i`-th of `indices` for that lane.
    pub fn store_alternating(
        &self,
        array: &ArrayRef<'c>,
        indices: &[Vec<Expr<'c>>],
        values: &[RegisterValue<'c>],
    ) -> Result<()> {
        let address =
            |index: &[Expr<'c>]| self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        let addresses: Vec<Expr<'c>> = indices.iter().map(|index| address(index)).collect();
        let count = values.len() as i64;
        let follows = |(&address, number): (&Expr<'c>, i64)| self.scope.simplify(addresses[0] + number) == address;
        let alternate = self.scope.lane_access(addresses[0]) == LaneAccess::Strided(count)
            && addresses.iter().zip(0..).all(follows);
        let lanes = self.scope.lanes().filter(|_| alternate && self.skipped_lanes == 0);
        let Some(lanes) = lanes else {
            return indices.iter().zip(values).try_for_each(|(index, value)| self.store(array, index, value));
        };
        let vectors: Vec<Value<'c>> = values
            .iter()
            .map(|value| scalar::to_memory(self.builder, &scalar::splat(self.builder, value, Some(lanes))))
            .collect();
        let first = self.scope.at_lane(addresses[0], 0);
        for number in 0..count {
            let positions = (0..i64::from(lanes)).map(|lane| number * i64::from(lanes) + lane);
            let mut stored = vectors[0];
            for (source, &vector) in (1..).zip(&vectors[1..]) {
                // From what is there already, and from one vector more.
                let mask: Vec<u32> = (positions.clone().zip(0..))
                    .map(|(position, lane)| match position % count {
                        own if own == source => lanes + (position / count) as u32,
                        0 if source == 1 => (position / count) as u32,
                        _ => lane,
                    })
                    .collect();
                stored = self.shuffled(array, [stored, vector], &mask);
            }
            let (memref, place) = self.flat_place(array, first + number * i64::from(lanes))?;
            place.store(self.builder, stored, memref);
        }
        Ok(())
    }

    fn store_place(&self, memref: Value<'c>, place: &Place<'c>, value: &RegisterValue<'c>) {
        place.store(self.builder, scalar::to_memory(self.builder, value), memref);
    }

    /// A memref of an array and the place of an element in it: in the array's dimensions, or, where that takes fewer
    /// divisions or a vector crosses rows, of all its elements in order.
    fn place(
        &self,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
        address: Expr<'c>,
        is_vector: bool,
    ) -> Result<(Value<'c>, Place<'c>)> {
        let flat = self.scope.at_lane(address, 0);
        let mut ranked: Vec<Expr<'c>> = index
            .iter()
            .zip(&array.dimensions)
            .map(|(&expr, &size)| if size == 1 { self.scope.constant(0) } else { self.scope.at_lane(expr, 0) })
            .collect();
        let crosses_rows = is_vector && !self.scope.is_consecutive_along_last(index);
        if crosses_rows || ranked.iter().map(|&expr| divisions(expr)).sum::<usize>() > divisions(flat) {
            return self.flat_place(array, flat);
        }
        if array.parts() > 1 {
            match ranked.last_mut() {
                Some(last) => *last = self.scope.simplify(*last * array.parts()),
                None => ranked.push(self.scope.constant(0)),
            }
        }
        Ok((array.memref, self.scope.place(self.builder, &ranked)?))
    }

    pub(crate) fn flat_place(&self, array: &ArrayRef<'c>, address: Expr<'c>) -> Result<(Value<'c>, Place<'c>)> {
        let address = self.scope.simplify(address * array.parts());
        Ok((array.flat(self.builder), self.scope.place(self.builder, &[address])?))
    }
}

/// Where consecutive elements begin in all elements of an array, and how the address is aligned.
struct AlignedPlace<'c> {
    position: Value<'c>,
    alignment: Attribute<'c>,
}

/// The largest number that divides two others, of which the first is positive.
fn largest_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { largest_divisor(b.abs(), a % b) }
}

/// Divisions and remainders in an expression.
fn divisions(expr: Expr<'_>) -> usize {
    match expr.kind() {
        ExprKind::Constant(_) | ExprKind::Variable(_) => 0,
        ExprKind::Binary(operator, left, right) => {
            let is_division = matches!(operator, Operator::FloorDiv | Operator::CeilDiv | Operator::Mod);
            usize::from(is_division) + divisions(left) + divisions(right)
        }
    }
}
