//! Rows that kernels copy or clear as a whole, where all they do is to move elements.
//!
//! A call that moves a long row is as fast as vectors and much less code than a loop over these, and a kernel of such calls needs no
//! register allocation to speak of.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::{Expr, Interval};
use melior::ir::attribute::BoolAttribute;
use mlir_ext::builder::Value;

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::library_calls::call_runtime;
use crate::memory::{ArrayRef, pointer_to};
use crate::trace::{coefficient, trace};
use crate::transposed::address_in;
use crate::walk::linear_address;

type Result<T> = std::result::Result<T, LoweringError>;

/// What copies a row, which may be there already.
const MOVE: &str = "halo_move";

/// Bytes of a row from which on a call is not slower than a loop over its vectors.
const LEAST_BYTES: i64 = 256;

/// Whether each element of a computation's one result is an element of a parameter, or one whose bytes are zero.
pub(crate) fn moves_or_clears(computation: &Computation) -> bool {
    let is_moved = |instruction: &Instruction| match instruction.kind {
        OpKind::Parameter => true,
        OpKind::Constant => {
            let array = instruction.literal().and_then(|literal| literal.as_array());
            array.is_some_and(|array| array.bytes().iter().all(|&byte| byte == 0))
        }
        OpKind::Iota => false,
        kind => definition(kind).fusion == FusionRole::View,
    };
    computation.root().kind != OpKind::Tuple && computation.instructions.iter().all(is_moved)
}

impl<'c> Elemental<'_, 'c> {
    /// Copies or clears the elements of a result for which `index` is that of positions in some nested loops, if they are a row of
    /// it and all the same row of an operand or nothing; says whether it did. The computation [moves or clears](moves_or_clears).
    pub(crate) fn move_run(
        &mut self,
        output: &ArrayRef<'c>,
        loops: &[Interval],
        index: impl Fn(&Self, &[Expr<'c>]) -> Vec<Expr<'c>>,
    ) -> Result<bool> {
        let element_bytes = output.element_type.byte_width() as i64;
        let size = |bounds: &Interval| bounds.upper - bounds.lower + 1;
        let bytes = loops.iter().map(size).fold(element_bytes, i64::saturating_mul);
        if bytes < LEAST_BYTES || output.parts() > 1 || self.scope.lanes().is_some() || self.row.is_some() {
            return Ok(false);
        }
        let found = self.nested(|emitter| -> Result<_> {
            let positions: Vec<Expr<'c>> = loops.iter().map(|&bounds| emitter.scope.add_traced(bounds)).collect();
            let index = index(emitter, &positions);
            let to = emitter.scope.simplify(linear_address(emitter.scope.context(), &output.dimensions, &index));
            let computation = emitter.computation;
            let found = trace(computation, &[computation.root], &index, &mut emitter.scope)?;
            // From one position of each loop to the next are as many elements as the loops inside of it have.
            let is_row = |address| {
                let mut distance = 1;
                positions.iter().zip(loops).rev().all(|(position, bounds)| {
                    let expected = distance;
                    distance *= size(bounds);
                    let own = position.as_variable().and_then(|own| coefficient(&emitter.scope, address, own));
                    own == Some(expected) || size(bounds) == 1
                })
            };
            let is_same = found.loads.iter().all(|load| *load == found.loads[0] && is_row(load.1));
            Ok((found.conditions.is_empty() && is_row(to) && is_same).then(|| found.loads.first().map(|load| load.0)))
        })?;
        let Some(parameter) = found else { return Ok(false) };
        // Once more where the row begins.
        let first: Vec<Expr<'c>> = loops.iter().map(|bounds| self.scope.constant(bounds.lower)).collect();
        let (index, computation) = (index(self, &first), self.computation);
        let found = self.nested(|emitter| trace(computation, &[computation.root], &index, &mut emitter.scope))?;
        let from = found.loads.first().map(|load| load.1);
        if from.is_some_and(|from| !self.scope.holds(from)) {
            return Ok(false);
        }
        let to = linear_address(self.scope.context(), &output.dimensions, &index);
        let to = self.pointer_in(output.memref, to * element_bytes)?;
        let size = self.builder.constant_integer(self.builder.integer_type(64), bytes);
        let no_operand = || LoweringError::bug("a row of no operand");
        match (parameter, from) {
            (Some(parameter), Some(from)) => {
                let array = self.inputs.get(parameter).ok_or_else(no_operand)?;
                let from = self.pointer_in(array.memref, from * element_bytes)?;
                call_runtime(self.builder, MOVE, &[from, to, size]);
            }
            (None, None) => {
                let zero = self.builder.constant_integer(self.builder.integer_type(8), 0);
                let is_volatile = [("isVolatile", BoolAttribute::new(self.builder.context(), false).into())];
                self.builder.effect("llvm.intr.memset", &[to, zero, size], &is_volatile);
            }
            _ => return Err(no_operand()),
        }
        Ok(true)
    }

    fn pointer_in(&self, memref: Value<'c>, bytes: Expr<'c>) -> Result<Value<'c>> {
        Ok(pointer_to(self.builder, address_in(self.builder, &self.scope, memref, bytes)?))
    }
}
