//! What the threads of a block bring of a product's operands in each step: chunks of 16 bytes, as matrix instructions want them.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::Expr;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use super::tensor_types::{TensorOperands, TensorType};
use super::{Result, THREADS, Tile, is_near_along_depth, vectors_of};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{GLOBAL_SPACE, address_of, byte_behind, global_pointer};
use crate::scalar::{self, RegisterValue};
use crate::trace::trace;
use crate::walk::Visitor;

/// Bytes of a chunk.
pub(super) const CHUNK: i64 = 16;

/// The chunks of one operand.
pub(super) struct Chunks<'c> {
    operand: usize,
    pub r#type: TensorType,
    /// Bytes of contracted positions of a step.
    step: i64,
    /// Whether chunks are along the contracted positions, rather than across them.
    pub is_along_depth: bool,
    /// Whether a chunk is a vector in memory.
    is_vector: bool,
    /// Whether it is copied from there as it is.
    pub is_copied: bool,
    /// Whether the walk to its elements only moves them.
    is_moved: bool,
    /// Elements of a row of chunks, and rows, of a step.
    pub row: i64,
    pub rows: i64,
    /// Where the thread's chunks are: the row and the number in it.
    pub places: Vec<[Expr<'c>; 2]>,
}

impl<'c> Chunks<'c> {
    /// Those of both operands in steps of so many bytes.
    pub fn of_operands<'a>(
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        TensorOperands([left, right]): TensorOperands,
        step: i64,
    ) -> Result<[Self; 2]> {
        Ok([Self::new(tile, emitter, (0, left), step)?, Self::new(tile, emitter, (1, right), step)?])
    }

    /// Those of an operand.
    fn new<'a>(
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        (operand, r#type): (usize, TensorType),
        step: i64,
    ) -> Result<Self> {
        let side = [tile.side(), tile.columns()][operand];
        let (computation, width) = (emitter.computation, r#type.width());
        let of_chunk = CHUNK / width;
        let product = &tile.product;
        let is_near_along_depth = is_near_along_depth(computation, product.instruction, &product.maps, operand)?;
        // Only elements of two bytes can be transposed on the way to the instructions; those of eight are loaded one by one.
        let is_along_depth = is_near_along_depth || !matches!(width, 2 | 8);
        let number = product.instruction.operands[operand];
        let is_moved = is_only_moved(computation, number, r#type.element_type());
        let vectors =
            vectors_of(product, &tile.mapping.map, computation, (operand, usize::from(is_along_depth)), of_chunk)?;
        let is_copied = is_moved && vectors.as_ref().is_some_and(|source| source.is_of_chunks(emitter));
        let is_vector = vectors.is_some();
        let (row, rows) = if is_along_depth { (step / width, side) } else { (side, step / width) };
        let of_row = row / of_chunk;
        let mut places = Vec::new();
        for number in 0..rows * of_row / THREADS {
            let chunk = tile.thread + number * THREADS;
            // Neighbouring threads bring neighbouring chunks, or neighbouring elements of different ones.
            let [row, place] = match is_near_along_depth == is_along_depth {
                true => [chunk.floordiv(of_row), chunk.modulo(of_row)],
                false => [chunk.modulo(rows), chunk.floordiv(rows)],
            };
            let (row, place) = (emitter.scope.simplify(row), emitter.scope.simplify(place));
            places.push([emitter.emit_symbol(row, rows)?, emitter.emit_symbol(place, of_row)?]);
        }
        Ok(Chunks { operand, r#type, step, is_along_depth, is_vector, is_copied, is_moved, row, rows, places })
    }

    /// The thread's chunks in a step, as bits.
    pub fn bring<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        step: Expr<'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        self.places.iter().map(|&place| self.chunk(tile, emitter, self.first(tile, step, place))).collect()
    }

    /// The row (or column) and the contracted position at which a chunk of a step begins.
    fn first(&self, tile: &Tile<'_, '_, 'c>, step: Expr<'c>, [row, chunk]: [Expr<'c>; 2]) -> [Expr<'c>; 2] {
        let of_chunk = CHUNK / self.r#type.width();
        let (along, depth) = if self.is_along_depth { (row, chunk * of_chunk) } else { (chunk * of_chunk, row) };
        [tile.firsts[self.operand] + along, step * (self.step / self.r#type.width()) + depth]
    }

    /// Has the thread's chunks in a step copied to places in shared memory, zeros where there are none.
    pub fn copy<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        step: Expr<'c>,
        goals: &[Value<'c>],
    ) -> Result<()> {
        for (&place, &goal) in self.places.iter().zip(goals) {
            copy_elements(tile, emitter, (self.operand, self.first(tile, step, place)), (goal, CHUNK))?;
        }
        Ok(())
    }

    /// The elements of a chunk that begins at a row (or column) and a contracted position, as bits.
    fn chunk<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        first: [Expr<'c>; 2],
    ) -> Result<RegisterValue<'c>> {
        let builder = emitter.builder;
        let count = (CHUNK / self.r#type.width()) as u32;
        let at = |distance: Expr<'c>| match (self.is_along_depth, first) {
            (true, [along, position]) => [along, position + distance],
            (false, [along, position]) => [along + distance, position],
        };
        if self.is_vector {
            let chunk = emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(count);
                self.elements(tile, emitter, (at(lane), first))
            })?;
            return Ok(scalar::splat(builder, &chunk, Some(count)));
        }
        let mut elements = Vec::with_capacity(count as usize);
        for number in 0..count {
            let place = at(emitter.scope.constant(number.into()));
            elements.push(emitter.nested(|emitter| self.elements(tile, emitter, (place, place)))?);
        }
        scalar::from_elements(builder, &elements).ok_or_else(|| LoweringError::bug("a chunk without elements"))
    }

    /// Elements of an operand as bits, zeros where there are none.
    fn elements<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        places: ([Expr<'c>; 2], [Expr<'c>; 2]),
    ) -> Result<RegisterValue<'c>> {
        let (r#type, bits) = (self.r#type.element_type(), self.r#type.bits());
        let zero = scalar::constant(emitter.builder, bits, &[], None);
        tile.element(emitter, self.operand, places, zero, &mut |emitter, id, index| {
            if self.is_moved && bits != r#type {
                return emitter.evaluate_bits(id, index);
            }
            let value = emitter.evaluate(id, index)?;
            let value = scalar::convert::convert(emitter.builder, &value, r#type)
                .ok_or_else(|| LoweringError::bug("an operand that tensor cores do not have"))?;
            Ok(RegisterValue { element_type: bits, value: scalar::to_memory(emitter.builder, &value), ..value })
        })
    }
}

/// Has so many bytes of an operand's neighbours, from a row (or column) and a contracted position on, copied to a place in shared
/// memory; zeros where there are none.
pub(super) fn copy_elements<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    (operand, first): (usize, [Expr<'c>; 2]),
    (goal, bytes): (Value<'c>, i64),
) -> Result<()> {
    let builder = emitter.builder;
    let nowhere = scalar::constant(builder, ElementType::S64, &[], None);
    let mut found = None;
    let source = emitter.nested(|emitter| {
        tile.element(emitter, operand, (first, first), nowhere, &mut |emitter, id, index| {
            let source = address_of_element(emitter, id, index)?;
            found = Some(source);
            Ok(nowhere.with_values(&[source]))
        })
    })?;
    // Often there always is one.
    let is_there = (found != Some(source.value))
        .then(|| builder.cmpi(CmpiPredicate::Ne, source.value, builder.constant_integer(builder.integer_type(64), 0)));
    copy_bytes(builder, (goal, bytes), source.value, is_there);
    Ok(())
}

/// The address of an operand's element, as a number.
fn address_of_element<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    id: InstructionId,
    index: &[Expr<'c>],
) -> Result<Value<'c>> {
    let (builder, computation) = (emitter.builder, emitter.computation);
    // What the tracer adds to the scope has no code.
    let loads = emitter.nested(|emitter| trace(computation, &[id], index, &mut emitter.scope))?.loads;
    let &[(parameter, element)] = &loads[..] else { return Err(LoweringError::bug("a copy of several arrays")) };
    let array = emitter.inputs.get(parameter).ok_or_else(|| LoweringError::bug("missing fusion input"))?;
    let byte = emitter.scope.simplify(element * array.element_type.byte_width() as i64);
    let first = global_pointer(builder, address_of(builder, array.memref));
    // A distance from a pointer, of which what is constant becomes a part of the instruction.
    let pointer = byte_behind(builder, first, emitter.scope.emit(builder, byte)?);
    Ok(builder.value("llvm.ptrtoint", &[pointer], builder.integer_type(64), &[]))
}

/// Has a chunk copied to a place in shared memory from an address, if there is one; else zeros.
pub(super) fn copy_chunk<'c>(builder: &OpBuilder<'c>, goal: Value<'c>, source: Value<'c>, is_there: Option<Value<'c>>) {
    copy_bytes(builder, (goal, CHUNK), source, is_there);
}

/// As [`copy_chunk`], of a chunk or a word.
fn copy_bytes<'c>(
    builder: &OpBuilder<'c>,
    (goal, bytes): (Value<'c>, i64),
    source: Value<'c>,
    is_there: Option<Value<'c>>,
) {
    let name = match bytes {
        CHUNK => "llvm.nvvm.cp.async.cg.shared.global.16.s",
        _ => "llvm.nvvm.cp.async.ca.shared.global.4.s",
    };
    let [all, none] = [bytes, 0].map(|bytes| builder.constant_integer(builder.integer_type(32), bytes));
    let bytes = is_there.map_or(all, |is_there| builder.select(is_there, all, none));
    let global = melior::dialect::llvm::r#type::pointer(builder.context(), GLOBAL_SPACE);
    let source = builder.value("llvm.inttoptr", &[source], global, &[]);
    builder.intrinsic_effect(name, &[goal, source, bytes]);
}

/// Whether an instruction's elements are those of a parameter of a type.
pub(crate) fn is_only_moved(computation: &Computation, id: InstructionId, element_type: ElementType) -> bool {
    let mut own = computation.get(id);
    while own.kind != OpKind::Parameter {
        if definition(own.kind).fusion != FusionRole::View {
            return false;
        }
        own = computation.get(own.operands[0]);
    }
    own.shape.as_array().is_some_and(|shape| shape.element_type == element_type)
}
