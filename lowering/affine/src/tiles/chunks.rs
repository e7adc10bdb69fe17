//! What the threads of a block bring of a product's operands in each step: chunks of 16 bytes, as matrix instructions want them.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::Expr;

use super::tensor_types::TensorType;
use super::{Result, THREADS, Tile, are_vectors, is_near_along_depth};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::scalar::{self, RegisterValue};
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
    /// Whether the walk to its elements only moves them.
    is_moved: bool,
    /// Elements of a row of chunks, and rows, of a step.
    pub row: i64,
    pub rows: i64,
    /// Where the thread's chunks are: the row and the number in it.
    pub places: Vec<[Expr<'c>; 2]>,
}

impl<'c> Chunks<'c> {
    /// Those of an operand in steps of so many bytes.
    pub fn new<'a>(
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        (operand, r#type): (usize, TensorType),
        step: i64,
    ) -> Result<Self> {
        let (computation, side, width) = (emitter.computation, tile.side(), r#type.width());
        let of_chunk = CHUNK / width;
        let product = &tile.product;
        let is_near_along_depth = is_near_along_depth(computation, product.instruction, &product.maps, operand)?;
        // Elements of a byte cannot be transposed on the way to the instructions.
        let is_along_depth = is_near_along_depth || width == 1;
        let number = product.instruction.operands[operand];
        let is_moved = is_only_moved(computation, number, r#type.element_type());
        let is_vector = are_vectors(tile, computation, operand, usize::from(is_along_depth), of_chunk)?;
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
        Ok(Chunks { operand, r#type, step, is_along_depth, is_vector, is_moved, row, rows, places })
    }

    /// The thread's chunks in a step, as bits.
    pub fn bring<'a>(
        &self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        step: Expr<'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let of_chunk = CHUNK / self.r#type.width();
        let bring = |&[row, chunk]: &[Expr<'c>; 2]| {
            let (along, depth) = if self.is_along_depth { (row, chunk * of_chunk) } else { (chunk * of_chunk, row) };
            let along = tile.firsts[self.operand] + along;
            let position = step * (self.step / self.r#type.width()) + depth;
            self.chunk(tile, emitter, [along, position])
        };
        self.places.iter().map(bring).collect()
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
            if self.is_moved {
                return emitter.evaluate_bits(id, index);
            }
            let value = emitter.evaluate(id, index)?;
            let value = scalar::convert::convert(emitter.builder, &value, r#type)
                .ok_or_else(|| LoweringError::bug("an operand that tensor cores do not have"))?;
            Ok(RegisterValue { element_type: bits, value: scalar::to_memory(emitter.builder, &value), ..value })
        })
    }
}

/// Whether an instruction's elements are those of a parameter of a type.
fn is_only_moved(computation: &Computation, id: InstructionId, element_type: ElementType) -> bool {
    let mut own = computation.get(id);
    while own.kind != OpKind::Parameter {
        if definition(own.kind).fusion != FusionRole::View {
            return false;
        }
        own = computation.get(own.operands[0]);
    }
    own.shape.as_array().is_some_and(|shape| shape.element_type == element_type)
}
