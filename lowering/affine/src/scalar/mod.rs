//! Register values and the emission of elementwise operations on them.
//!
//! A [`RegisterValue`] holds one element or a vector of elements. Registers hold `pred` as `i1`, integers of 8 bits and
//! more as their own width, 2- and 4-bit integers as `i8` (kept in range after each operation), `f32`/`f64` as
//! themselves, every smaller float as an `f32` that is exactly a value of its type, complex numbers as two values.
//!
//! ```text
//!  elementwise ─┬─ table: one row an operation, one column a class of element types
//!               │    └─ integer, float, transcendental, complex: the rows that take more than one MLIR operation
//!               └─ special: operations whose types or attributes a table cannot say (compare, convert, select …)
//!  registers: memory <-> registers, constants, lanes        small_float: formats below 32 bits
//!  combiner: reduction computations that are one associative operation
//!  approximate: with fewer digits, where a kernel says that these are enough
//! ```
//!
//! Results are XLA:CPU's: integers wrap, nothing traps, NaN propagates through minimum and maximum. Sums of products
//! become fused multiply-adds where [`mlir_ext::builder::Machine::allow_fma`] says so, as in XLA; nothing else is relaxed.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use mlir_ext::builder::{OpBuilder, Value};

use crate::error::LoweringError;

pub mod approximate;
pub mod combiner;
pub mod compare;
mod complex;
mod complex_functions;
mod constant_divisor;
pub mod convert;
mod float;
mod integer;
mod long_quotient;
pub mod reduce_precision;
pub mod registers;
mod small_float;
mod special;
mod stochastic;
mod table;
mod transcendental;

pub use registers::{
    code_type, constant, from_elements, from_memory, is_coded, load_type, memory_type, register_type, select, splat,
    to_memory,
};

/// One element or a vector of elements in registers.
#[derive(Clone, Copy, Debug)]
pub struct RegisterValue<'c> {
    /// Type of the elements in HLO.
    pub element_type: ElementType,
    /// Number of lanes; `None` for a single element that is not a vector.
    pub lanes: Option<u32>,
    /// The value, or the real part.
    pub value: Value<'c>,
    /// The imaginary part of complex elements.
    pub imaginary: Option<Value<'c>>,
}

impl<'c> RegisterValue<'c> {
    /// Real (not complex) elements in a register of [`register_type`].
    pub fn real(builder: &OpBuilder<'c>, element_type: ElementType, value: Value<'c>) -> Self {
        RegisterValue { element_type, lanes: builder.lanes_of(value.r#type()), value, imaginary: None }
    }

    /// Elements with real and imaginary parts.
    pub fn complex(builder: &OpBuilder<'c>, element_type: ElementType, re: Value<'c>, im: Value<'c>) -> Self {
        RegisterValue { element_type, lanes: builder.lanes_of(re.r#type()), value: re, imaginary: Some(im) }
    }

    /// The value and, of complex elements, the imaginary part: what a loop carries.
    pub fn values(&self) -> Vec<Value<'c>> {
        std::iter::once(self.value).chain(self.imaginary).collect()
    }

    /// Elements of the same type and number in other registers, the inverse of [`Self::values`].
    pub fn with_values(&self, values: &[Value<'c>]) -> Self {
        RegisterValue {
            value: values.first().copied().unwrap_or(self.value),
            imaginary: self.imaginary.map(|imaginary| values.get(1).copied().unwrap_or(imaginary)),
            ..*self
        }
    }
}

/// Whether [`elementwise`] emits the operation, for some element types at least.
pub fn is_elementwise(kind: OpKind) -> bool {
    table::has_row(kind) || special::find(kind).is_some()
}

/// Which use of an elementwise operation that its rules allow has no code.
pub fn refusal(kind: OpKind, result: ElementType) -> Option<&'static str> {
    let is_refused = kind == OpKind::StochasticConvert && !result.is_integer();
    is_refused.then_some("to a type that is not an integer")
}

/// Emits an elementwise operation: element `i` of the result is the operation on elements `i` of the operands.
///
/// Operands that are a single element are broadcast when another operand is a vector. `result` is the element type
/// of the instruction.
///
/// # Errors
/// [`LoweringError::Bug`] for operations that are not elementwise, or not allowed for the element types by their rules or by
/// [`refusal`].
pub fn elementwise<'c>(
    builder: &OpBuilder<'c>,
    kind: OpKind,
    attributes: &Attributes,
    operands: &[RegisterValue<'c>],
    result: ElementType,
) -> Result<RegisterValue<'c>, LoweringError> {
    let lanes = operands.iter().find_map(|operand| operand.lanes);
    let operands: Vec<RegisterValue> = operands.iter().map(|operand| splat(builder, operand, lanes)).collect();
    match special::find(kind) {
        Some(emit) => emit(builder, attributes, &operands, result),
        None => table::emit(builder, kind, &operands),
    }
    .ok_or_else(|| {
        let types: Vec<&str> = operands.iter().map(|operand| operand.element_type.name()).collect();
        LoweringError::bug(format!("`{kind}` has no code for ({})", types.join(", ")))
    })
}
