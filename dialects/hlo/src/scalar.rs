//! One array element: reading it from and writing it to literal data, with rounding to its type.
//!
//! The evaluator computes every element in the widest type of its class: integers in 64 bits, floats in `f64`,
//! complex numbers in two of them. Storing rounds (floats) or wraps (integers) once.

use bytemuck::pod_read_unaligned as read;
use num_complex::{Complex32, Complex64};

use crate::element_type::{ElementClass, ElementType};
use crate::float_format;

/// Value of one element, in the widest type of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A `pred`.
    Predicate(bool),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A complex number.
    Complex(Complex64),
}

impl Scalar {
    /// Zero of a type.
    pub fn zero(element_type: ElementType) -> Scalar {
        match element_type.class() {
            ElementClass::Predicate => Scalar::Predicate(false),
            ElementClass::Signed => Scalar::Signed(0),
            ElementClass::Unsigned => Scalar::Unsigned(0),
            ElementClass::Float => Scalar::Float(0.0),
            ElementClass::Complex => Scalar::Complex(Complex64::new(0.0, 0.0)),
        }
    }

    /// The value as a `f64`; the real part of a complex number.
    pub fn to_float(self) -> f64 {
        match self {
            Scalar::Predicate(value) => f64::from(u8::from(value)),
            Scalar::Signed(value) => value as f64,
            Scalar::Unsigned(value) => value as f64,
            Scalar::Float(value) => value,
            Scalar::Complex(value) => value.re,
        }
    }

    /// The value as a complex number.
    pub fn to_complex(self) -> Complex64 {
        match self {
            Scalar::Complex(value) => value,
            other => Complex64::new(other.to_float(), 0.0),
        }
    }

    /// The low 64 bits of an integer; floats are truncated.
    pub fn to_bits(self) -> u64 {
        match self {
            Scalar::Predicate(value) => value.into(),
            Scalar::Signed(value) => value as u64,
            Scalar::Unsigned(value) => value,
            Scalar::Float(value) => value as i64 as u64,
            Scalar::Complex(value) => value.re as i64 as u64,
        }
    }

    /// The value as an index: unsigned values beyond `i64` saturate.
    pub fn to_index(self) -> i64 {
        match self {
            Scalar::Unsigned(value) => i64::try_from(value).unwrap_or(i64::MAX),
            other => other.to_bits() as i64,
        }
    }

    /// Whether the value is not zero; NaN is not zero.
    pub fn is_true(self) -> bool {
        match self {
            Scalar::Predicate(value) => value,
            Scalar::Signed(value) => value != 0,
            Scalar::Unsigned(value) => value != 0,
            Scalar::Float(value) => value != 0.0,
            Scalar::Complex(value) => value.re != 0.0 || value.im != 0.0,
        }
    }

    /// The value as the element type holds it: rounded, wrapped around, of the type's class.
    pub fn rounded(self, element_type: ElementType) -> Scalar {
        match element_type {
            ElementType::F64 => Scalar::Float(self.to_float()),
            ElementType::C128 => Scalar::Complex(self.to_complex()),
            ElementType::F32 => Scalar::Float(f64::from(self.to_float() as f32)),
            ElementType::C64 => {
                let value = self.to_complex();
                Scalar::Complex(Complex64::new(f64::from(value.re as f32), f64::from(value.im as f32)))
            }
            _ => match element_type.class() {
                ElementClass::Predicate => Scalar::Predicate(self.is_true()),
                ElementClass::Signed => Scalar::Signed(wrap_signed(self.to_bits() as i64, element_type.bit_width())),
                ElementClass::Unsigned => Scalar::Unsigned(wrap_unsigned(self.to_bits(), element_type.bit_width())),
                ElementClass::Float | ElementClass::Complex => {
                    let bits = float_format::encode(element_type, self.to_float());
                    Scalar::Float(float_format::decode(element_type, bits))
                }
            },
        }
    }
}

/// The low `width` bits, sign-extended.
pub fn wrap_signed(value: i64, width: u32) -> i64 {
    let unused = 64 - width.min(64);
    value << unused >> unused
}

/// The low `width` bits.
pub fn wrap_unsigned(value: u64, width: u32) -> u64 {
    let unused = 64 - width.min(64);
    value << unused >> unused
}

/// Element `index` of literal data.
#[inline]
pub fn load(element_type: ElementType, bytes: &[u8], index: usize) -> Scalar {
    use ElementType::*;
    let width = element_type.byte_width();
    let element = &bytes[index * width..][..width];
    match element_type {
        Pred => Scalar::Predicate(element[0] != 0),
        S2 | S4 | S8 => Scalar::Signed(i64::from(element[0] as i8)),
        U2 | U4 | U8 => Scalar::Unsigned(u64::from(element[0])),
        S16 => Scalar::Signed(i64::from(read::<i16>(element))),
        U16 => Scalar::Unsigned(u64::from(read::<u16>(element))),
        S32 => Scalar::Signed(i64::from(read::<i32>(element))),
        U32 => Scalar::Unsigned(u64::from(read::<u32>(element))),
        S64 => Scalar::Signed(read(element)),
        U64 => Scalar::Unsigned(read(element)),
        F32 => Scalar::Float(f64::from(read::<f32>(element))),
        F64 => Scalar::Float(read(element)),
        C64 => {
            let value = read::<Complex32>(element);
            Scalar::Complex(Complex64::new(value.re.into(), value.im.into()))
        }
        C128 => Scalar::Complex(read(element)),
        BF16 | F16 => Scalar::Float(float_format::decode(element_type, read(element))),
        F4E2M1FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3B11FNUZ | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
            Scalar::Float(float_format::decode(element_type, u16::from(element[0])))
        }
    }
}

/// Writes element `index` of literal data, rounding or wrapping around to the type.
#[inline]
pub fn store(element_type: ElementType, bytes: &mut [u8], index: usize, value: Scalar) {
    use ElementType::*;
    let width = element_type.byte_width();
    let element = &mut bytes[index * width..][..width];
    match element_type {
        Pred => element[0] = value.is_true().into(),
        S2 | S4 | S8 => element[0] = wrap_signed(value.to_bits() as i64, element_type.bit_width()) as u8,
        U2 | U4 | U8 => element[0] = wrap_unsigned(value.to_bits(), element_type.bit_width()) as u8,
        S16 | U16 => element.copy_from_slice(&(value.to_bits() as u16).to_ne_bytes()),
        S32 | U32 => element.copy_from_slice(&(value.to_bits() as u32).to_ne_bytes()),
        S64 | U64 => element.copy_from_slice(&value.to_bits().to_ne_bytes()),
        F32 => element.copy_from_slice(&(value.to_float() as f32).to_ne_bytes()),
        F64 => element.copy_from_slice(&value.to_float().to_ne_bytes()),
        C64 => {
            let value = value.to_complex();
            element.copy_from_slice(bytemuck::bytes_of(&Complex32::new(value.re as f32, value.im as f32)));
        }
        C128 => element.copy_from_slice(bytemuck::bytes_of(&value.to_complex())),
        BF16 | F16 => element.copy_from_slice(&float_format::encode(element_type, value.to_float()).to_ne_bytes()),
        F4E2M1FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3B11FNUZ | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
            element[0] = float_format::encode(element_type, value.to_float()) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_integers_wrap_around_and_are_sign_extended() {
        let mut bytes = [0u8; 1];
        store(ElementType::S4, &mut bytes, 0, Scalar::Signed(9));
        assert_eq!(bytes[0] as i8, -7);
        assert_eq!(load(ElementType::S4, &bytes, 0), Scalar::Signed(-7));
        store(ElementType::U2, &mut bytes, 0, Scalar::Unsigned(7));
        assert_eq!(load(ElementType::U2, &bytes, 0), Scalar::Unsigned(3));
        assert_eq!(Scalar::Signed(2).rounded(ElementType::S2), Scalar::Signed(-2));
    }

    #[test]
    fn rounding_equals_storing_and_loading() {
        for element_type in ElementType::all() {
            for value in [0.0, -0.0, 1.1, -2.7, 300.0, 1e-9, 5.0] {
                let scalar = match element_type.class() {
                    ElementClass::Signed => Scalar::Signed(value as i64),
                    ElementClass::Unsigned => Scalar::Unsigned(value as i64 as u64),
                    _ => Scalar::Float(value),
                };
                let mut bytes = vec![0; element_type.byte_width()];
                store(element_type, &mut bytes, 0, scalar);
                let loaded = load(element_type, &bytes, 0);
                let rounded = scalar.rounded(element_type);
                assert_eq!(format!("{loaded:?}"), format!("{rounded:?}"), "{element_type} {value}");
            }
        }
    }
}
