//! Inputs as a command line gives them: files, or values written out.
//!
//! ```text
//!  input   = [ NAME "=" ] ( FILE.npy | [ SHAPE "=" ] values | [ SHAPE ] literal )
//!  SHAPE   = 3xf32 | 2x2xs32 | f32 | f32[3]
//!  values  = zeros | ones | iota | element ("," element)*        one element fills the array
//!  literal = {{1, 2}, {3, 4}}                                    as HLO text and hlo-run write arrays
//! ```

use std::path::Path;

use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::scalar::{self, Scalar};
use hlo::shape::ArrayShape;
use num_complex::Complex;

use crate::error::ToolError;
use crate::npy;

/// What an input may be, for messages.
const HINT: &str =
    "an input is a .npy file, zeros, ones, iota, elements such as 1,2.5, or a literal such as {{1, 2}, {3, 4}}";

/// An input that was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input<'t> {
    /// The parameter that it is for; otherwise the next one without an input.
    pub(super) name: Option<&'t str>,
    shape: Option<ArrayShape>,
    value: &'t str,
}

impl<'t> Input<'t> {
    /// Splits a text into name, shape and value.
    pub(super) fn parse(text: &'t str) -> Input<'t> {
        let mut input = Input { name: None, shape: None, value: text };
        while let Some((left, right)) = input.value.split_once('=') {
            if input.shape.is_none()
                && let Some(shape) = shape(left.trim())
            {
                input.shape = Some(shape);
            } else if input.name.is_none() && input.shape.is_none() && !Path::new(input.value).exists() {
                input.name = Some(left.trim().trim_start_matches('%'));
            } else {
                break;
            }
            input.value = right;
        }
        if let Some((left, _)) = input.value.split_once('{')
            && let Some(shape) = shape(left.trim())
        {
            input.shape = Some(shape);
            input.value = &input.value[left.len()..];
        }
        input
    }

    /// The array for a parameter of some shape.
    pub(super) fn read(&self, shape: &ArrayShape) -> Result<ArrayLiteral, ToolError> {
        let usage = |message: String| ToolError::Usage(format!("input `{}`: {message}", self.value));
        if let Some(given) = &self.shape
            && (given.element_type != shape.element_type || given.dimensions != shape.dimensions)
        {
            let expected = ArrayShape { layout: None, ..shape.clone() };
            return Err(usage(format!("expected an array of {expected}, got {given}")));
        }
        if self.value.ends_with(".npz") {
            return Err(usage("an archive is given with --inputs".to_string()));
        }
        let path = Path::new(self.value);
        // A folder or a pipe is no value either; what is named like one is.
        let is_file = self.value.ends_with(".npy") || path.exists() || path.is_absolute();
        if self.shape.is_none() && is_file {
            return Ok(npy::read(path, shape)?);
        }
        if self.value.trim_start().starts_with('{') {
            return literal(self.value, shape).map_err(usage);
        }
        let element_type = shape.element_type;
        let count = shape.element_count() as usize;
        let mut array = ArrayLiteral::zeros(ArrayShape { layout: None, ..shape.clone() })?;
        let mut store = |index: usize, value: Scalar| scalar::store(element_type, array.bytes_mut(), index, value);
        match self.value.trim() {
            "zeros" => {}
            "ones" => (0..count).for_each(|index| store(index, whole(element_type, 1))),
            "iota" => (0..count).for_each(|index| store(index, whole(element_type, index as u64))),
            values => {
                // The comma of a complex number, (1, 2), separates nothing.
                let mut is_inside = false;
                let separated = |character: char| {
                    is_inside = character == '(' || is_inside && character != ')';
                    !is_inside && (character == ',' || character.is_whitespace())
                };
                let words = values.split(separated).filter(|word| !word.is_empty());
                let values: Vec<Scalar> = words
                    .map(|word| element(element_type, word))
                    .collect::<Result<_, _>>()
                    .map_err(|message| usage(format!("{message}; {HINT}")))?;
                if values.len() != count && values.len() != 1 {
                    return Err(usage(format!(
                        "expected {count} elements for {}, got {}",
                        ArrayShape { layout: None, ..shape.clone() },
                        values.len()
                    )));
                }
                let values = values.iter().cycle().take(count);
                values.enumerate().for_each(|(index, &value)| store(index, value));
            }
        }
        Ok(array)
    }
}

/// An array as HLO text writes it.
fn literal(text: &str, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    let shape = ArrayShape { layout: None, ..shape.clone() };
    match hlo::text::literal::parse_literal(text, &shape.into()) {
        Ok(Literal::Array(array)) => Ok(array),
        Ok(_) => Err(HINT.to_string()),
        Err(error) => Err(format!("{error}; {HINT}")),
    }
}

/// `2x3xf32`, `f32` or `f32[2,3]`.
fn shape(text: &str) -> Option<ArrayShape> {
    if let Some((name, rest)) = text.split_once('[') {
        let sizes = rest.strip_suffix(']')?.split(',').map(str::trim).filter(|size| !size.is_empty());
        let dimensions: Vec<i64> = sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?;
        return Some(ArrayShape::new(name.parse().ok()?, dimensions));
    }
    let mut parts: Vec<&str> = text.split('x').collect();
    let element_type: ElementType = parts.pop()?.parse().ok()?;
    let dimensions: Vec<i64> = parts.into_iter().map(|size| size.parse().ok()).collect::<Option<_>>()?;
    Some(ArrayShape::new(element_type, dimensions))
}

/// A whole number in an element type.
fn whole(element_type: ElementType, value: u64) -> Scalar {
    match element_type.class() {
        ElementClass::Predicate => Scalar::Predicate(value != 0),
        ElementClass::Signed => Scalar::Signed(value as i64),
        ElementClass::Unsigned => Scalar::Unsigned(value),
        ElementClass::Float => Scalar::Float(value as f64),
        ElementClass::Complex => Scalar::Complex(Complex::new(value as f64, 0.0)),
    }
}

fn element(element_type: ElementType, word: &str) -> Result<Scalar, String> {
    let wrong = || format!("`{word}` is not a value of type {element_type}");
    let bits = element_type.bit_width();
    Ok(match element_type.class() {
        ElementClass::Predicate => match word {
            "true" | "1" => Scalar::Predicate(true),
            "false" | "0" => Scalar::Predicate(false),
            _ => return Err(wrong()),
        },
        ElementClass::Signed => {
            let value: i64 = word.parse().map_err(|_| wrong())?;
            let bound = 1i128 << (bits - 1);
            if !(-bound..bound).contains(&value.into()) {
                return Err(wrong());
            }
            Scalar::Signed(value)
        }
        ElementClass::Unsigned => {
            let value: u64 = word.parse().map_err(|_| wrong())?;
            if u128::from(value) >> bits != 0 {
                return Err(wrong());
            }
            Scalar::Unsigned(value)
        }
        ElementClass::Float => Scalar::Float(word.parse().map_err(|_| wrong())?),
        ElementClass::Complex => {
            let pair = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')?.split_once(','));
            Scalar::Complex(match pair {
                // As HLO text writes it.
                Some((real, imaginary)) => {
                    let part = |text: &str| text.trim().parse().map_err(|_| wrong());
                    Complex::new(part(real)?, part(imaginary)?)
                }
                None => word.parse().map_err(|_| wrong())?,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
        Input::parse(text).read(shape).map_err(|error| error.to_string())
    }

    #[test]
    fn names_shapes_and_values() {
        let shape = ArrayShape::new(ElementType::F32, [3]);
        for text in ["1,2,3", "3xf32=1,2,3", "x=1 2 3", "x=3xf32=1,2,3", "f32[3]=1, 2, 3"] {
            assert_eq!(read(text, &shape).unwrap().as_slice::<f32>(), Some(&[1.0, 2.0, 3.0][..]), "{text}");
        }
        assert_eq!(Input::parse("x=3xf32=1,2,3").name, Some("x"));
        assert_eq!(Input::parse("3xf32=1,2,3").name, None);
        assert_eq!(read("iota", &shape).unwrap().as_slice::<f32>(), Some(&[0.0, 1.0, 2.0][..]));
        assert_eq!(read("7", &shape).unwrap().as_slice::<f32>(), Some(&[7.0; 3][..]));
        for text in ["{1, 2, 3}", "f32[3] {1, 2, 3}", "x={1,2,3}", "x=f32[3]{1,2,3}"] {
            assert_eq!(read(text, &shape).unwrap().as_slice::<f32>(), Some(&[1.0, 2.0, 3.0][..]), "{text}");
        }
        let scalar = ArrayShape::new(ElementType::C64, []);
        let value = read("1+2i", &scalar).unwrap();
        assert_eq!(scalar::load(ElementType::C64, value.bytes(), 0), Scalar::Complex(Complex::new(1.0, 2.0)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let shape = ArrayShape::new(ElementType::S8, [2]);
        assert_eq!(
            read("1,200", &shape).unwrap_err(),
            format!("input `1,200`: `200` is not a value of type s8; {HINT}")
        );
        assert_eq!(read("1,2,3", &shape).unwrap_err(), "input `1,2,3`: expected 2 elements for s8[2], got 3");
        assert_eq!(read("3xs8=1", &shape).unwrap_err(), "input `1`: expected an array of s8[2], got s8[3]");
        assert_eq!(
            read("1,2.5", &shape).unwrap_err(),
            format!("input `1,2.5`: `2.5` is not a value of type s8; {HINT}")
        );
    }
}
