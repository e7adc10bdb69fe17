//! What the memory of a GPU does by itself with a number in it, whichever thread comes first.

use hlo::element_type::ElementClass;
use hlo::op_kind::OpKind;
use indexing::{Expr, Interval};
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::memory::{ArrayRef, address_of, global_pointer, shared_pointer};
use crate::scalar::RegisterValue;
use crate::team::SharedValues;
use crate::walk::linear_address;

/// (operation, its number among those of `llvm.atomicrmw`, for signed and for unsigned numbers)
const OPERATIONS: [(OpKind, [i64; 2]); 6] = [
    (OpKind::Add, [1, 1]),
    (OpKind::And, [3, 3]),
    (OpKind::Or, [5, 5]),
    (OpKind::Xor, [6, 6]),
    (OpKind::Maximum, [7, 9]),
    (OpKind::Minimum, [8, 10]),
];

/// Number of the order of accesses among LLVM's that says nothing about others.
const MONOTONIC: i64 = 2;

impl<'c> Elemental<'_, 'c> {
    /// Combines an element of an array, which is a whole number of 32 or 64 bits, with a value.
    ///
    /// # Errors
    /// [`LoweringError::Bug`] for operations that memory does not have.
    pub(crate) fn combine_atomically(
        &mut self,
        operation: OpKind,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
        value: &RegisterValue<'c>,
    ) -> Result<(), LoweringError> {
        let builder = self.builder;
        let is_unsigned = array.element_type.class() == ElementClass::Unsigned;
        let (_, numbers) = OPERATIONS
            .iter()
            .find(|(own, _)| *own == operation)
            .ok_or_else(|| LoweringError::bug(format!("memory has no {operation}")))?;
        let number = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        let first = index_binding(builder, address_of(builder, array.flat(builder)));
        let first = self.scope.add_variable(Interval::new(0, i64::MAX), first);
        let address = self.scope.emit(builder, first + number * array.element_type.byte_width() as i64)?;
        let pointer = global_pointer(builder, address);
        combine(builder, (numbers[usize::from(is_unsigned)], "device"), pointer, value.value);
        Ok(())
    }
}

/// Adds a word to one of those that the threads of a block share.
pub(crate) fn add_in_shared_memory<'c>(
    builder: &OpBuilder<'c>,
    memory: &SharedValues<'c>,
    place: Value<'c>,
    word: Value<'c>,
) {
    let distance = builder.muli(place, builder.constant_index(4));
    combine(builder, (1, "block"), shared_pointer(builder, memory.address(builder), distance), word);
}

/// An operation by its number, whose result all threads within a scope agree about.
fn combine<'c>(builder: &OpBuilder<'c>, (operation, scope): (i64, &str), pointer: Value<'c>, value: Value<'c>) {
    let integer = |number: i64| builder.integer_attribute(builder.integer_type(64), number);
    let attributes = [
        ("bin_op", integer(operation)),
        ("ordering", integer(MONOTONIC)),
        ("syncscope", builder.string_attribute(scope)),
    ];
    builder.value("llvm.atomicrmw", &[pointer, value], value.r#type(), &attributes);
}
