//! Applying a scalar function to whole arrays, with simple loops for the types that programs use most.

use bytemuck::Pod;
use num_complex::{Complex32, Complex64};

use super::EvalFailure;
use super::binary::{maximum, minimum};
use super::complex;
use super::data::{build, view};
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// A function of one element; integer functions take the width in bits too.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnaryFunction {
    Predicate(fn(bool) -> bool),
    Signed(fn(i64, u32) -> i64),
    Unsigned(fn(u64, u32) -> u64),
    Float(fn(f64) -> f64),
    FloatToPredicate(fn(f64) -> bool),
    Complex(fn(Complex64) -> Complex64),
    ComplexToReal(fn(Complex64) -> f64),
    ComplexToPredicate(fn(Complex64) -> bool),
}

impl UnaryFunction {
    /// Value of the function, not yet rounded to the result's type; an operand of another class is returned as it is.
    #[inline]
    pub(super) fn apply(self, operand: Scalar, width: u32) -> Scalar {
        match (self, operand) {
            (UnaryFunction::Predicate(f), Scalar::Predicate(x)) => Scalar::Predicate(f(x)),
            (UnaryFunction::Signed(f), Scalar::Signed(x)) => Scalar::Signed(f(x, width)),
            (UnaryFunction::Unsigned(f), Scalar::Unsigned(x)) => Scalar::Unsigned(f(x, width)),
            (UnaryFunction::Float(f), Scalar::Float(x)) => Scalar::Float(f(x)),
            (UnaryFunction::FloatToPredicate(f), Scalar::Float(x)) => Scalar::Predicate(f(x)),
            (UnaryFunction::Complex(f), Scalar::Complex(x)) => Scalar::Complex(f(x)),
            (UnaryFunction::ComplexToReal(f), Scalar::Complex(x)) => Scalar::Float(f(x)),
            (UnaryFunction::ComplexToPredicate(f), Scalar::Complex(x)) => Scalar::Predicate(f(x)),
            (_, other) => other,
        }
    }
}

/// A function of two elements of one type; integer functions take the width in bits too.
#[derive(Clone, Copy, Debug)]
pub(super) enum BinaryFunction {
    Predicate(fn(bool, bool) -> bool),
    Signed(fn(i64, i64, u32) -> i64),
    Unsigned(fn(u64, u64, u32) -> u64),
    Float(fn(f64, f64) -> f64),
    FloatToComplex(fn(f64, f64) -> Complex64),
    Complex(fn(Complex64, Complex64) -> Complex64),
}

impl BinaryFunction {
    /// Value of the function, not yet rounded to the result's type; operands of another class give the first one.
    #[inline]
    pub(super) fn apply(self, lhs: Scalar, rhs: Scalar, width: u32) -> Scalar {
        match (self, lhs, rhs) {
            (BinaryFunction::Predicate(f), Scalar::Predicate(a), Scalar::Predicate(b)) => Scalar::Predicate(f(a, b)),
            (BinaryFunction::Signed(f), Scalar::Signed(a), Scalar::Signed(b)) => Scalar::Signed(f(a, b, width)),
            (BinaryFunction::Unsigned(f), Scalar::Unsigned(a), Scalar::Unsigned(b)) => Scalar::Unsigned(f(a, b, width)),
            (BinaryFunction::Float(f), Scalar::Float(a), Scalar::Float(b)) => Scalar::Float(f(a, b)),
            (BinaryFunction::FloatToComplex(f), Scalar::Float(a), Scalar::Float(b)) => Scalar::Complex(f(a, b)),
            (BinaryFunction::Complex(f), Scalar::Complex(a), Scalar::Complex(b)) => Scalar::Complex(f(a, b)),
            (_, other, _) => other,
        }
    }
}

/// Applies a function to each element.
pub(super) fn unary(
    function: UnaryFunction,
    operand: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    match (function, operand.element_type()) {
        (UnaryFunction::Float(f), ElementType::F32) => map::<f32, f32>(operand, result, |x| f(x.into()) as f32),
        (UnaryFunction::Float(f), ElementType::F64) => map::<f64, f64>(operand, result, f),
        (UnaryFunction::ComplexToReal(f), ElementType::C64) => {
            map::<Complex32, f32>(operand, result, |z| f(Complex64::new(z.re.into(), z.im.into())) as f32)
        }
        (UnaryFunction::Predicate(f), _) => map::<u8, u8>(operand, result, |x| f(x != 0).into()),
        (_, operand_type) => {
            let count = operand.shape().element_count() as usize;
            let width = operand_type.bit_width();
            build::<u8>(result, |target| {
                for index in 0..count {
                    let value = function.apply(load(operand_type, operand.bytes(), index), width);
                    store(result.element_type, target, index, value);
                }
                Ok(())
            })
        }
    }
}

/// Applies a function to each pair of elements.
pub(super) fn binary(
    function: BinaryFunction,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let operand_type = lhs.element_type();
    if lhs.bytes().len() != rhs.bytes().len() {
        return Err(EvalFailure::malformed("the operands differ in size"));
    }
    match (function, operand_type) {
        (BinaryFunction::Float(f), ElementType::F32) => {
            zip::<f32, f32>(lhs, rhs, result, |a, b| f(a.into(), b.into()) as f32)
        }
        (BinaryFunction::Float(f), ElementType::F64) => zip::<f64, f64>(lhs, rhs, result, f),
        (BinaryFunction::Predicate(f), _) => zip::<u8, u8>(lhs, rhs, result, |a, b| f(a != 0, b != 0).into()),
        _ => {
            let count = lhs.shape().element_count() as usize;
            let width = operand_type.bit_width();
            build::<u8>(result, |target| {
                for index in 0..count {
                    let a = load(operand_type, lhs.bytes(), index);
                    let b = load(operand_type, rhs.bytes(), index);
                    store(result.element_type, target, index, function.apply(a, b, width));
                }
                Ok(())
            })
        }
    }
}

/// One loop: `function` of each element.
pub(super) fn map<T: Pod, U: Pod>(
    operand: &ArrayLiteral,
    result: &ArrayShape,
    function: impl Fn(T) -> U,
) -> Result<ArrayLiteral, EvalFailure> {
    build::<U>(result, |target| {
        for (target, &x) in target.iter_mut().zip(view::<T>(operand)) {
            *target = function(x);
        }
        Ok(())
    })
}

/// One loop: `function` of each pair of elements.
pub(super) fn zip<T: Pod, U: Pod>(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    result: &ArrayShape,
    function: impl Fn(T, T) -> U,
) -> Result<ArrayLiteral, EvalFailure> {
    build::<U>(result, |target| {
        for ((target, &a), &b) in target.iter_mut().zip(view::<T>(lhs)).zip(view::<T>(rhs)) {
            *target = function(a, b);
        }
        Ok(())
    })
}

/// A shift amount; none if it is out of every range.
fn amount(value: impl TryInto<u32>) -> Option<u32> {
    value.try_into().ok()
}

/// The frequent operations of the frequent types, each its own loop; `None` for every other combination.
pub(super) fn native_binary(
    kind: OpKind,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<Option<ArrayLiteral>, EvalFailure> {
    macro_rules! float {
        ($t:ty) => {
            match kind {
                OpKind::Add => zip::<$t, $t>(lhs, rhs, result, |a, b| a + b),
                OpKind::Subtract => zip::<$t, $t>(lhs, rhs, result, |a, b| a - b),
                OpKind::Multiply => zip::<$t, $t>(lhs, rhs, result, |a, b| a * b),
                OpKind::Divide => zip::<$t, $t>(lhs, rhs, result, |a, b| a / b),
                OpKind::Maximum => zip::<$t, $t>(lhs, rhs, result, |a, b| maximum(a.into(), b.into()) as $t),
                OpKind::Minimum => zip::<$t, $t>(lhs, rhs, result, |a, b| minimum(a.into(), b.into()) as $t),
                _ => return Ok(None),
            }
        };
    }
    macro_rules! integer {
        ($t:ty) => {
            match kind {
                OpKind::Add => zip::<$t, $t>(lhs, rhs, result, |a, b| a.wrapping_add(b)),
                OpKind::Subtract => zip::<$t, $t>(lhs, rhs, result, |a, b| a.wrapping_sub(b)),
                OpKind::Multiply => zip::<$t, $t>(lhs, rhs, result, |a, b| a.wrapping_mul(b)),
                OpKind::Maximum => zip::<$t, $t>(lhs, rhs, result, |a, b| a.max(b)),
                OpKind::Minimum => zip::<$t, $t>(lhs, rhs, result, |a, b| a.min(b)),
                OpKind::And => zip::<$t, $t>(lhs, rhs, result, |a, b| a & b),
                OpKind::Or => zip::<$t, $t>(lhs, rhs, result, |a, b| a | b),
                OpKind::Xor => zip::<$t, $t>(lhs, rhs, result, |a, b| a ^ b),
                OpKind::ShiftLeft => zip::<$t, $t>(lhs, rhs, result, |a, b| {
                    amount(b).and_then(|b| a.checked_shl(b)).map_or(0, |shifted| shifted)
                }),
                OpKind::ShiftRightLogical if <$t>::MIN == 0 => zip::<$t, $t>(lhs, rhs, result, |a, b| {
                    amount(b).and_then(|b| a.checked_shr(b)).map_or(0, |shifted| shifted)
                }),
                _ => return Ok(None),
            }
        };
    }
    match lhs.element_type() {
        ElementType::F32 => float!(f32),
        ElementType::F64 => float!(f64),
        ElementType::S32 => integer!(i32),
        ElementType::U32 => integer!(u32),
        ElementType::S64 => integer!(i64),
        ElementType::U64 => integer!(u64),
        ElementType::U8 => integer!(u8),
        ElementType::C64 => match kind {
            OpKind::Add => zip::<Complex32, Complex32>(lhs, rhs, result, |a, b| a + b),
            OpKind::Subtract => zip::<Complex32, Complex32>(lhs, rhs, result, |a, b| a - b),
            OpKind::Multiply => zip::<Complex32, Complex32>(lhs, rhs, result, |a, b| {
                let wide = |z: Complex32| Complex64::new(z.re.into(), z.im.into());
                let product = complex::multiply(wide(a), wide(b));
                Complex32::new(product.re as f32, product.im as f32)
            }),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }
    .map(Some)
}
