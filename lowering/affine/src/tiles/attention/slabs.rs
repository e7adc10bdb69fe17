//! Queries, keys and values in shared memory: rows of features, zeros where there are none.

use hlo::element_type::ElementType;
use indexing::{Expr, ceil_div};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{Body, OpBuilder, Value};

use super::super::chunks::{CHUNK, copy_chunk};
use super::super::pipeline::{commit_copies, wait_for_copies};
use super::super::where_inside;
use super::{Blocks, Result};
use crate::attention::AttentionForm;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, address_of, shared_pointer};
use crate::scalar::{self, RegisterValue};
use crate::team::{SharedValues, is_term};
use crate::walk::{Choice, Visitor};

/// How elements are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Their type; elements that are kept as bits are those of the array.
    pub element_type: ElementType,
    pub are_bits: bool,
    /// Of how many positions rows are multiples, of the features that are contracted and of those of values.
    pub multiples: [fn(i64) -> i64; 2],
}

impl Layout {
    /// Positions of a row of so many contracted features, or features of values.
    pub fn columns(&self, is_value: bool, features: i64) -> i64 {
        (self.multiples[usize::from(is_value)])(features)
    }

    /// Elements of a chunk of 16 bytes.
    pub fn chunk(&self) -> i64 {
        CHUNK / self.element_type.byte_width() as i64
    }

    /// Elements from a row to the next one: an odd number of chunks, so that rows lie in different banks.
    pub fn row(&self, columns: i64) -> i64 {
        let chunks = columns / self.chunk();
        (chunks + 1 - chunks % 2) * self.chunk()
    }
}

/// Rows of one operand in shared memory.
pub(super) struct Slab<'c> {
    source: ArrayRef<'c>,
    layout: Layout,
    pub memory: SharedValues<'c>,
    /// The address of the memory.
    pub address: Value<'c>,
    /// Rows, and chunks of each.
    rows: i64,
    places_of_row: i64,
    /// Rows that the array has, and features of each.
    count: i64,
    features: i64,
    /// Elements from a row to the next one.
    pub row: i64,
    /// Distances of rows and of features in the array, and where the first one is.
    strides: [i64; 2],
    base: Expr<'c>,
    /// Whether chunks are copied behind the threads' back.
    is_copied: bool,
    /// The rows and numbers of the thread's chunks.
    places: Vec<[Expr<'c>; 2]>,
    zero: RegisterValue<'c>,
}

impl<'c> Slab<'c> {
    /// The memory of queries, keys or values, by their number.
    pub fn new(
        emitter: &mut Elemental<'_, 'c>,
        (form, number, base): (&AttentionForm, usize, Expr<'c>),
        blocks: &Blocks,
        (layout, thread): (Layout, Expr<'c>),
        function: &Body<'c>,
    ) -> Result<Self> {
        let builder = emitter.builder;
        let array = emitter.inputs.get(form.operands[number]);
        let array = array.ok_or_else(|| LoweringError::bug("an attention without its arrays"))?;
        let source = if layout.are_bits { array.as_bits() } else { array.clone() }.flattened(builder);
        let is_value = number == 2;
        let (rows, count, features, distances) = match number {
            0 => (blocks.queries, form.queries(), form.depth, [form.query, form.contracted]),
            1 => (blocks.keys, form.keys(), form.depth, [form.key, form.contracted]),
            _ => (blocks.keys, form.keys(), form.features, [form.key, form.feature]),
        };
        let strides = distances.map(|distances| distances[number]);
        let columns = layout.columns(is_value, features);
        let (chunk, row) = (layout.chunk(), layout.row(columns));
        let width = layout.element_type.byte_width() as i64;
        let is_multiple = |distance: i64| distance % chunk == 0;
        let batch = form.batch.iter().map(|axis| axis.strides[number]);
        let is_copied = strides[1] == 1
            && source.element_type == layout.element_type
            && array.alignment.is_some_and(|bytes| bytes % CHUNK == 0)
            && batch.chain([strides[0], features]).all(is_multiple);
        let zero = scalar::constant(builder, layout.element_type, &[], None);
        let memory = SharedValues::new(builder, function, &zero, &[rows * row]);
        let address = memory.address(builder);
        debug_assert_eq!(row * width % CHUNK, 0);
        // Neighbouring threads bring neighbours in memory. Those of a round are as many rows, or places in rows, as a power of
        // two, so that the rounds are at constant distances.
        let of_row = columns / chunk;
        let is_along_rows = strides[1] > strides[0] && strides[0] > 0;
        let (inner, counts) = if is_along_rows { (rows, [of_row, rows]) } else { (of_row, [rows, of_row]) };
        let inner = inner.unsigned_abs().next_power_of_two().min(blocks.threads.unsigned_abs()) as i64;
        let outer = blocks.threads / inner;
        let near = emitter.emit_symbol(thread.modulo(inner), inner)?;
        let far = emitter.emit_symbol(thread.floordiv(inner), outer)?;
        let mut places = Vec::new();
        for far in (0..ceil_div(counts[0], outer)).map(|round| far + round * outer) {
            for near in (0..ceil_div(counts[1], inner)).map(|round| near + round * inner) {
                places.push(if is_along_rows { [near, far] } else { [far, near] });
            }
        }
        Ok(Slab {
            source,
            layout,
            memory,
            address,
            rows,
            places_of_row: of_row,
            count,
            features,
            row,
            strides,
            base,
            is_copied,
            places,
            zero,
        })
    }

    /// Has the rows from one on come: they are there when the threads have waited and met.
    pub fn begin(&self, emitter: &mut Elemental<'_, 'c>, first: Expr<'c>) -> Result<()> {
        for &[row, place] in &self.places {
            where_inside(emitter, [row, place], [self.rows, self.places_of_row], |emitter| {
                let place = place * self.layout.chunk();
                match self.is_copied {
                    true => self.copy(emitter, first, [row, place]),
                    false => self.bring(emitter, first, [row, place]),
                }
            })?;
        }
        if self.is_copied {
            commit_copies(emitter.builder);
        }
        Ok(())
    }

    /// The element of the array at a row of it and a feature.
    fn element(&self, emitter: &Elemental<'_, 'c>, row: Expr<'c>, feature: Expr<'c>) -> Expr<'c> {
        emitter.scope.simplify(self.base + row * self.strides[0] + feature * self.strides[1])
    }

    fn copy(&self, emitter: &mut Elemental<'_, 'c>, first: Expr<'c>, [row, column]: [Expr<'c>; 2]) -> Result<()> {
        let builder = emitter.builder;
        let width = self.layout.element_type.byte_width() as i64;
        let byte = |emitter: &Elemental<'_, 'c>, element: Expr<'c>| {
            emitter.scope.emit(builder, emitter.scope.simplify(element * width))
        };
        let goal = shared_pointer(builder, self.address, byte(emitter, row * self.row + column)?);
        let source = byte(emitter, self.element(emitter, first + row, column))?;
        let source = builder.addi(address_of(builder, self.source.memref), source);
        let mut source = builder.value("arith.index_cast", &[source], builder.integer_type(64), &[]);
        let mut all = None;
        for (place, count) in [(first + row, self.count), (column, self.features)] {
            if emitter.scope.truth(&is_term(place, count)) != Some(true) {
                let place = emitter.scope.emit(builder, emitter.scope.simplify(place))?;
                let is_there = builder.cmpi(CmpiPredicate::Slt, place, builder.constant_index(count));
                all = Some(all.map_or(is_there, |all| builder.andi(all, is_there)));
            }
        }
        if let Some(is_there) = all {
            source = builder.select(is_there, source, builder.integer_like(source, 0));
        }
        copy_chunk(builder, goal, source, all);
        Ok(())
    }

    fn bring(&self, emitter: &mut Elemental<'_, 'c>, first: Expr<'c>, [row, column]: [Expr<'c>; 2]) -> Result<()> {
        let builder = emitter.builder;
        let count = self.layout.chunk();
        let goal = emitter.scope.emit(builder, emitter.scope.simplify(row * self.row + column))?;
        let chunk = if self.features % count == 0 {
            let chunk = emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(count as u32);
                self.elements(emitter, first + row, (column + lane, column))
            })?;
            scalar::splat(builder, &chunk, Some(count as u32))
        } else {
            let mut elements = Vec::with_capacity(count as usize);
            for number in 0..count {
                let feature = column + number;
                elements.push(emitter.nested(|emitter| self.elements(emitter, first + row, (feature, feature)))?);
            }
            scalar::from_elements(builder, &elements).ok_or_else(|| LoweringError::bug("a chunk without elements"))?
        };
        self.memory.store_vector(builder, &chunk, &[goal]);
        Ok(())
    }

    /// Elements from a row on; whether there are any is asked of `guard`, where a vector begins.
    fn elements(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        row: Expr<'c>,
        (feature, guard): (Expr<'c>, Expr<'c>),
    ) -> Result<RegisterValue<'c>> {
        let size: i64 = self.source.dimensions.iter().product();
        let element = self.element(emitter, row, feature);
        let choice = Choice {
            conditions: &[is_term(row, self.count), is_term(guard, self.features)],
            types: &[self.layout.element_type],
            index: &[element],
            sizes: &[size],
        };
        let inside = &mut |emitter: &mut Elemental<'_, 'c>, index: &[Expr<'c>]| {
            let value = emitter.load_element(&self.source, index)?;
            let value = scalar::convert::convert(emitter.builder, &value, self.layout.element_type);
            Ok(vec![value.ok_or_else(|| LoweringError::bug("an operand that cannot be summed"))?])
        };
        let values = emitter.choose(&choice, inside, &mut |_| Ok(vec![self.zero]))?;
        values.first().copied().ok_or_else(|| LoweringError::bug("an operand without a value"))
    }
}

/// The thread waits for all that it copies.
pub(super) fn wait(builder: &OpBuilder<'_>) {
    wait_for_copies(builder, 0);
}

/// The next multiple of a number.
pub(super) fn multiple_of(number: i64, of: i64) -> i64 {
    ceil_div(number, of) * of
}
