//! Literals as text, in XLA's form.
//!
//! Floats have XLA's number of digits: 6 for `f32` where they say the value exactly and 9 otherwise, 15 or 17 for
//! `f64`, and as many as tell neighbours apart for narrower types. All read back to the same value.

use std::fmt::{self, Write};

use crate::element_type::{ElementClass, ElementType};
use crate::float_format;
use crate::literal::{ArrayLiteral, Literal};

/// Arrays of more elements are only named by their shapes in debugging output.
const MOST_SHOWN: usize = 64;

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_literal(&mut text, self);
        f.write_str(&text)
    }
}

impl fmt::Display for ArrayLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_array(&mut text, self);
        f.write_str(&text)
    }
}

impl fmt::Debug for ArrayLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape())?;
        if self.bytes().len() / self.element_type().byte_width() > MOST_SHOWN {
            return f.write_str(" …");
        }
        write!(f, " {self}")
    }
}

/// Writes a literal as it stands between the parentheses of a constant.
pub fn write_literal(out: &mut String, literal: &Literal) {
    match literal {
        Literal::Array(array) => write_array(out, array),
        Literal::Tuple(elements) if elements.is_empty() => out.push_str("()"),
        Literal::Tuple(elements) => {
            out.push_str("( ");
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                write_literal(out, element);
            }
            out.push_str(" )");
        }
        Literal::Token => out.push_str("token"),
        Literal::Elided(_) => out.push_str("{...}"),
    }
}

fn write_array(out: &mut String, array: &ArrayLiteral) {
    let sizes = &array.shape().dimensions;
    let rank = sizes.len();
    let mut elements = array.bytes().chunks_exact(array.element_type().byte_width());
    let mut number = Number { element_type: array.element_type(), scalar: rank == 0, scratch: String::new() };
    if rank == 0 {
        if let Some(element) = elements.next() {
            number.write(out, element);
        }
        return;
    }
    let innermost = sizes[rank - 1].max(0);
    let mut counts = vec![0i64; rank];
    let mut depth = 0;
    loop {
        loop {
            open(out, sizes, &counts, depth);
            counts[depth] = 0;
            depth += 1;
            if depth == rank || sizes[depth - 1] <= 0 {
                break;
            }
        }
        if depth == rank {
            for (position, element) in elements.by_ref().take(innermost as usize).enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                number.write(out, element);
            }
        }
        loop {
            // A row of one number is written `{1}`, a longer one `{ 1, 2 }`; a one-dimensional literal `{1, 2}`.
            let is_row = depth == rank;
            out.push_str(if rank > 1 && (!is_row || innermost > 1) { " }" } else { "}" });
            depth -= 1;
            if depth == 0 {
                return;
            }
            counts[depth - 1] += 1;
            if counts[depth - 1] < sizes[depth - 1] {
                out.push_str(", ");
                break;
            }
        }
    }
}

/// The brace that opens an element of dimension `depth - 1`, with XLA's index comment above rank 3.
fn open(out: &mut String, sizes: &[i64], counts: &[i64], depth: usize) {
    let rank = sizes.len();
    out.push('{');
    if depth + 1 == rank {
        if rank > 1 && sizes[rank - 1] > 1 {
            out.push(' ');
        }
        return;
    }
    if rank > 3 && depth > 0 {
        let _ = write!(out, " /*i{}={}*/", depth - 1, counts[depth - 1]);
    }
    if sizes[depth] > 0 {
        out.push(' ');
    }
}

/// Writes a number as an attribute has it: the fewest digits that read back to the same value.
pub fn write_float(out: &mut String, value: f64) {
    Number { element_type: ElementType::F64, scalar: true, scratch: String::new() }.f64(out, value);
}

struct Number {
    element_type: ElementType,
    scalar: bool,
    scratch: String,
}

impl Number {
    fn write(&mut self, out: &mut String, bytes: &[u8]) {
        let narrow = |bytes: &[u8]| u16::from(bytes[0]) | bytes.get(1).map_or(0, |&high| u16::from(high) << 8);
        match self.element_type.class() {
            ElementClass::Predicate if self.scalar => out.push_str(if bytes[0] != 0 { "true" } else { "false" }),
            ElementClass::Predicate => out.push(if bytes[0] != 0 { '1' } else { '0' }),
            ElementClass::Signed => {
                let _ = write!(out, "{}", integer(bytes, true) as i64);
            }
            ElementClass::Unsigned => {
                let _ = write!(out, "{}", integer(bytes, false));
            }
            ElementClass::Float => match self.element_type {
                ElementType::F32 => self.f32(out, f32_of(bytes)),
                ElementType::F64 => self.f64(out, f64_of(bytes)),
                _ => self.narrow(out, narrow(bytes)),
            },
            ElementClass::Complex => {
                out.push('(');
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                if self.element_type == ElementType::C64 {
                    self.f32(out, f32_of(real));
                    out.push_str(", ");
                    self.f32(out, f32_of(imaginary));
                } else {
                    self.f64(out, f64_of(real));
                    out.push_str(", ");
                    self.f64(out, f64_of(imaginary));
                }
                out.push(')');
            }
        }
    }

    fn f32(&mut self, out: &mut String, value: f32) {
        if value.is_nan() {
            let payload = value.to_bits() & 0x007f_ffff;
            return write_nan(out, value.is_sign_negative(), payload.into(), 0x0040_0000);
        }
        self.scratch.clear();
        let _ = write!(self.scratch, "{value:e}");
        self.general(out, f64::from(value), 6, 9);
    }

    fn f64(&mut self, out: &mut String, value: f64) {
        if value.is_nan() {
            let payload = value.to_bits() & 0x000f_ffff_ffff_ffff;
            return write_nan(out, value.is_sign_negative(), payload, 0x0008_0000_0000_0000);
        }
        self.scratch.clear();
        let _ = write!(self.scratch, "{value:e}");
        self.general(out, value, 15, 17);
    }

    fn narrow(&mut self, out: &mut String, bits: u16) {
        let value = float_format::decode(self.element_type, bits);
        if value.is_nan() {
            let infinity = float_format::encode(self.element_type, f64::INFINITY);
            let negative =
                self.element_type != ElementType::F8E8M0FNU && bits >> (self.element_type.bit_width() - 1) & 1 != 0;
            if !float_format::decode(self.element_type, infinity).is_infinite() {
                return write_nan(out, negative, 0, 0);
            }
            let quiet = float_format::encode(self.element_type, f64::NAN) & !infinity;
            let mantissa = quiet | quiet.wrapping_sub(1);
            return write_nan(out, negative, (bits & mantissa).into(), quiet.into());
        }
        // As many digits as tell two neighbouring values apart: ⌈1 + p·log₁₀2⌉ for p bits of precision.
        let digits = match self.element_type {
            ElementType::F16 => 5,
            ElementType::BF16 => 4,
            ElementType::F8E3M4 | ElementType::F8E4M3 | ElementType::F8E4M3FN => 3,
            ElementType::F8E4M3B11FNUZ | ElementType::F8E4M3FNUZ => 3,
            _ => 2,
        };
        self.scratch.clear();
        let _ = write!(self.scratch, "{value:.*e}", digits - 1);
        self.general(out, value, digits, digits);
    }

    /// Writes the scientific form in `scratch` as C's `%.Pg` does, with `few` digits if it has no more, else `many`.
    fn general(&mut self, out: &mut String, value: f64, few: usize, many: usize) {
        if value.is_infinite() {
            out.push_str(if value > 0.0 { "inf" } else { "-inf" });
            return;
        }
        let digit_count = |text: &str| {
            let mantissa = text.split_once('e').map_or(text, |(mantissa, _)| mantissa);
            mantissa.bytes().filter(u8::is_ascii_digit).count()
        };
        let mut precision = few;
        if digit_count(&self.scratch) > few {
            precision = many;
            self.scratch.clear();
            let _ = write!(self.scratch, "{value:.*e}", many - 1);
        }
        let (mantissa, exponent) = self.scratch.split_once('e').unwrap_or((&self.scratch, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
        let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let rest = rest.trim_end_matches('0');
        out.push_str(sign);
        if exponent < -4 || exponent >= precision as i32 {
            out.push_str(first);
            if !rest.is_empty() {
                out.push('.');
                out.push_str(rest);
            }
            let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs());
        } else if exponent < 0 {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
            out.push_str(first);
            out.push_str(rest);
        } else {
            let whole = exponent as usize;
            out.push_str(first);
            out.push_str(&rest[..whole.min(rest.len())]);
            out.extend(std::iter::repeat_n('0', whole.saturating_sub(rest.len())));
            if rest.len() > whole {
                out.push('.');
                out.push_str(&rest[whole..]);
            }
        }
    }
}

fn write_nan(out: &mut String, negative: bool, payload: u64, quiet: u64) {
    out.push_str(if negative { "-nan" } else { "nan" });
    if payload != quiet {
        let _ = write!(out, "(0x{payload:x})");
    }
}

/// An integer of 1, 2, 4 or 8 bytes, sign- or zero-extended.
fn integer(bytes: &[u8], signed: bool) -> u64 {
    let fill = if signed && bytes.last().is_some_and(|&high| high & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    if cfg!(target_endian = "big") {
        wide[8 - bytes.len()..].copy_from_slice(bytes);
    } else {
        wide[..bytes.len()].copy_from_slice(bytes);
    }
    u64::from_ne_bytes(wide)
}

fn f32_of(bytes: &[u8]) -> f32 {
    f32::from_bits(integer(bytes, false) as u32)
}

fn f64_of(bytes: &[u8]) -> f64 {
    f64::from_bits(integer(bytes, false))
}
