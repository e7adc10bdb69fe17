//! Register values and the emission of elementwise operations on them.
//!
//! A [`Lanes`] holds one element or a vector of elements. Registers hold `pred` as `i1`, integers of 8 bits and
//! more as their own width, 2- and 4-bit integers as `i8` (kept in range after each operation), `f32`/`f64` as
//! themselves, every smaller float as an `f32` that is exactly a value of its type, complex numbers as two values.

use hlo::element_type::ElementType;
use mlir_ext::builder::Value;

/// One element or a vector of elements in registers.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<'c> {
    /// Type of the elements in HLO.
    pub element_type: ElementType,
    /// Number of lanes; `None` for a single element that is not a vector.
    pub lanes: Option<u32>,
    /// The value, or the real part.
    pub value: Value<'c>,
    /// The imaginary part of complex elements.
    pub imaginary: Option<Value<'c>>,
}
