//! Reading literals: one pass over the text, straight into the bytes of the element type.

use crate::element_type::ElementType;
use crate::literal::{self, ArrayLiteral, Literal, LiteralError};
use crate::shape::{ArrayShape, Shape};

use super::number::{self, NumberError};
use crate::text::error::Error;
use crate::text::grammar::{self, Rule};
use crate::text::scan::Cursor;
use crate::text::shapes;
use crate::text::source::SourceLines;

/// Reads a text that holds nothing but a literal of the given shape.
pub fn parse_literal(text: &str, shape: &Shape) -> Result<Literal, Error> {
    read(SourceLines::new(text), shape, text)
}

/// Reads all of `text` as a literal of the given shape. `{...}` gives a literal without values.
pub(crate) fn read(source: SourceLines<'_>, shape: &Shape, text: &str) -> Result<Literal, Error> {
    let cursor = Cursor::at(source, text);
    let mut reader = Reader { end: cursor.position + text.len(), cursor };
    reader.skip_shape(shape);
    let literal = reader.literal(shape)?;
    reader.cursor.skip_blank()?;
    if reader.cursor.position < reader.end {
        return Err(reader.cursor.expected("the end of this literal"));
    }
    Ok(literal)
}

struct Reader<'t> {
    cursor: Cursor<'t>,
    end: usize,
}

impl<'t> Reader<'t> {
    /// Until 2019 the shape stood in front of the value again.
    fn skip_shape(&mut self, shape: &Shape) {
        let text = self.cursor.rest();
        let Some(array) = shape.as_array().filter(|array| text.starts_with(array.element_type.name())) else { return };
        let own = ArrayShape::new(array.element_type, array.dimensions.clone()).to_string();
        if let Some(rest) = text.strip_prefix(&own) {
            let layout = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).filter(|(layout, _)| {
                // Braces right behind the shape are its layout, a blank before them makes them the value.
                !layout.is_empty() || array.rank() == 0
            });
            self.cursor.position += text.len() - layout.map_or(rest, |(_, rest)| rest).len();
        }
    }

    /// Recursion is bounded by the nesting of the shape.
    fn literal(&mut self, shape: &Shape) -> Result<Literal, Error> {
        self.cursor.skip_blank()?;
        if self.cursor.rest().starts_with("{...}") {
            self.cursor.position += "{...}".len();
            return Ok(elided(shape));
        }
        match shape {
            Shape::Array(array) => self.array(array),
            Shape::Tuple(elements) => self.tuple(elements),
            Shape::Token => {
                if self.cursor.identifier() != Some("token") {
                    return Err(self.cursor.expected("`token`"));
                }
                if self.cursor.rest().starts_with("[]") {
                    self.cursor.position += 2;
                }
                Ok(Literal::Token)
            }
            Shape::Opaque => Err(self.cursor.expected("no literal: `opaque[]` has no values")),
        }
    }

    fn tuple(&mut self, elements: &[Shape]) -> Result<Literal, Error> {
        self.expect(b'(')?;
        let mut literals = Vec::new();
        for (position, element) in elements.iter().enumerate() {
            if position > 0 {
                self.expect(b',')?;
            }
            self.cursor.skip_blank()?;
            self.element_shape(element)?;
            literals.push(self.literal(element)?);
        }
        self.expect(b')')?;
        Ok(Literal::Tuple(literals))
    }

    /// An element of a tuple may be written with its shape: `(f32[2] {1, 2}, s32[] 3)`.
    fn element_shape(&mut self, expected: &Shape) -> Result<(), Error> {
        let mut ahead = self.cursor;
        if ahead.identifier().is_none() || ahead.peek() != Some(b'[') {
            return Ok(());
        }
        let pair = grammar::read(Rule::array_of_literal, &mut self.cursor)?;
        let text = pair.as_str();
        let found = shapes::shape(self.cursor.source, pair)?;
        if !found.compatible(expected) {
            let at = self.cursor.source.location_of(text);
            return Err(Error::Literal { at, shape: expected.to_string(), reason: format!("found the shape {found}") });
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        self.cursor.skip_blank()?;
        if self.cursor.eat(byte) { Ok(()) } else { Err(self.cursor.expected(&format!("`{}`", byte as char))) }
    }

    fn array(&mut self, shape: &ArrayShape) -> Result<Literal, Error> {
        use ElementType::*;
        let element_type = shape.element_type;
        if shape.rank() > 0 && !matches!(self.cursor.peek(), None | Some(b'{')) {
            return self.splat(shape);
        }
        // Every element takes two bytes of text at least, so what is reserved is bounded by the text.
        let text_length = self.end.saturating_sub(self.cursor.position);
        let count = (shape.element_count() as usize).min(text_length / 2 + 1);
        let reserved = count.saturating_mul(element_type.byte_width());
        let mut bytes = literal::reserve(reserved).map_err(|error| self.literal_error(shape, error))?;
        let out = &mut bytes;
        macro_rules! elements {
            ($parse:expr) => {
                self.elements(shape, |reader| {
                    let value = reader.number(shape, $parse)?;
                    out.extend_from_slice(&value.to_ne_bytes());
                    Ok(())
                })
            };
        }
        match element_type {
            Pred => elements!(|token| number::predicate(token).map(u8::from)),
            S2 | S4 | S8 => elements!(|token| number::signed(token, element_type.bit_width()).map(|value| value as i8)),
            S16 => elements!(|token| number::signed(token, 16).map(|value| value as i16)),
            S32 => elements!(|token| number::signed(token, 32).map(|value| value as i32)),
            S64 => elements!(|token| number::signed(token, 64)),
            U2 | U4 | U8 => {
                elements!(|token| number::unsigned(token, element_type.bit_width()).map(|value| value as u8))
            }
            U16 => elements!(|token| number::unsigned(token, 16).map(|value| value as u16)),
            U32 => elements!(|token| number::unsigned(token, 32).map(|value| value as u32)),
            U64 => elements!(|token| number::unsigned(token, 64)),
            BF16 | F16 => elements!(|token| number::narrow(token, element_type)),
            F4E2M1FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3B11FNUZ | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
                elements!(|token| number::narrow(token, element_type).map(|bits| bits as u8))
            }
            F32 => elements!(number::f32),
            F64 => elements!(number::f64),
            C64 => self.elements(shape, |reader| {
                let (real, imaginary) = reader.complex(shape, number::f32)?;
                out.extend_from_slice(&real.to_ne_bytes());
                out.extend_from_slice(&imaginary.to_ne_bytes());
                Ok(())
            }),
            C128 => self.elements(shape, |reader| {
                let (real, imaginary) = reader.complex(shape, number::f64)?;
                out.extend_from_slice(&real.to_ne_bytes());
                out.extend_from_slice(&imaginary.to_ne_bytes());
                Ok(())
            }),
        }?;
        let array = ArrayLiteral::new(ArrayShape { layout: None, ..shape.clone() }, bytes)
            .map_err(|error| self.literal_error(shape, error))?;
        Ok(Literal::Array(array))
    }

    fn literal_error(&self, shape: &ArrayShape, error: LiteralError) -> Error {
        let at = self.cursor.source.location(self.end..self.end);
        Error::Literal { at, shape: shape.to_string(), reason: error.to_string() }
    }

    /// One scalar for every element: `bf16[17,22] constant(1)`. Unlike other literals its size is not bounded by the
    /// text's, so it has a bound of its own.
    fn splat(&mut self, shape: &ArrayShape) -> Result<Literal, Error> {
        const MOST_BYTES: i64 = 1 << 30;
        let start = self.cursor.position;
        let scalar = self.array(&ArrayShape::new(shape.element_type, []))?;
        let found = scalar.as_array().map(ArrayLiteral::bytes).unwrap_or_default();
        let failed = |reader: &Self, reason: String| Error::Literal {
            at: reader.cursor.source.location(start..reader.cursor.position),
            shape: shape.to_string(),
            reason,
        };
        if shape.checked_byte_size().is_none_or(|size| size > MOST_BYTES) {
            return Err(failed(self, format!("a single value fills at most {MOST_BYTES} bytes")));
        }
        let mut bytes = literal::reserve(shape.byte_size()).map_err(|error| failed(self, error.to_string()))?;
        for _ in 0..shape.element_count() {
            bytes.extend_from_slice(found);
        }
        ArrayLiteral::new(ArrayShape { layout: None, ..shape.clone() }, bytes)
            .map(Literal::Array)
            .map_err(|error| failed(self, error.to_string()))
    }

    /// Walks the braces and calls `element` at each element. The state is one counter a dimension, not recursion.
    fn elements(
        &mut self,
        shape: &ArrayShape,
        mut element: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let rank = shape.rank();
        if rank == 0 {
            return element(self);
        }
        let sizes = &shape.dimensions;
        let mut counts = vec![0i64; rank];
        let mut depth = 0;
        loop {
            // Down to the innermost dimension, or to one without elements.
            loop {
                self.expect(b'{')?;
                counts[depth] = 0;
                depth += 1;
                if depth == rank || sizes[depth - 1] <= 0 {
                    break;
                }
            }
            if depth == rank {
                for position in 0..sizes[rank - 1].max(0) {
                    if position > 0 {
                        self.separator(shape, rank - 1, position)?;
                    }
                    element(self)?;
                }
            }
            // Up, as far as dimensions are complete.
            loop {
                self.close(shape, depth - 1)?;
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
                counts[depth - 1] += 1;
                if counts[depth - 1] < sizes[depth - 1] {
                    self.separator(shape, depth - 1, counts[depth - 1])?;
                    break;
                }
            }
        }
    }

    /// The comma before element `position` of a dimension.
    fn separator(&mut self, shape: &ArrayShape, dimension: usize, position: i64) -> Result<(), Error> {
        if self.cursor.eat(b',') {
            return Ok(());
        }
        self.cursor.skip_blank()?;
        match self.cursor.peek() {
            Some(b',') => {
                self.cursor.position += 1;
                Ok(())
            }
            Some(b'}') => Err(self.fault(
                shape,
                format!("dimension {dimension} needs {} elements, got {position}", shape.dimensions[dimension]),
            )),
            _ => Err(self.cursor.expected("`,`")),
        }
    }

    fn close(&mut self, shape: &ArrayShape, dimension: usize) -> Result<(), Error> {
        self.cursor.skip_blank()?;
        if self.cursor.eat(b'}') {
            return Ok(());
        }
        // XLA reads a comma behind the last element.
        let mut ahead = self.cursor;
        if ahead.eat(b',') {
            ahead.skip_blank()?;
            if ahead.eat(b'}') {
                self.cursor = ahead;
                return Ok(());
            }
        }
        let size = shape.dimensions[dimension];
        match self.cursor.peek() {
            None | Some(b')') => Err(self.cursor.expected("`}`")),
            Some(_) => Err(self.fault(shape, format!("dimension {dimension} needs {size} elements, got more"))),
        }
    }

    fn fault(&self, shape: &ArrayShape, reason: String) -> Error {
        let position = self.cursor.position;
        Error::Literal { at: self.cursor.source.location(position..position + 1), shape: shape.to_string(), reason }
    }

    fn complex<T>(
        &mut self,
        shape: &ArrayShape,
        parse: impl Fn(&str) -> Result<T, NumberError> + Copy,
    ) -> Result<(T, T), Error> {
        self.expect(b'(')?;
        let real = self.number(shape, parse)?;
        self.expect(b',')?;
        let imaginary = self.number(shape, parse)?;
        self.expect(b')')?;
        Ok((real, imaginary))
    }

    fn number<T>(&mut self, shape: &ArrayShape, parse: impl Fn(&str) -> Result<T, NumberError>) -> Result<T, Error> {
        self.cursor.eat(b' ');
        if !self.cursor.peek().is_some_and(is_number_byte) {
            self.cursor.skip_blank()?;
        }
        let source = self.cursor.source;
        let bytes = source.text().as_bytes();
        let start = self.cursor.position;
        let mut end = start;
        while bytes.get(end).copied().is_some_and(is_number_byte) {
            end += 1;
        }
        // The payload of a NaN.
        if bytes.get(end) == Some(&b'(') && bytes[start..end].ends_with(b"nan") {
            end += memchr::memchr(b')', &bytes[end..]).map_or(0, |length| length + 1);
        }
        let token = source.text().get(start..end).unwrap_or_default();
        if token.is_empty() {
            let expected = if shape.rank() == 0 { "a number" } else { "a number of the innermost dimension" };
            return Err(self.cursor.expected(expected));
        }
        self.cursor.position = end;
        parse(token).map_err(|error| Error::Literal {
            at: source.location(start..end),
            shape: shape.to_string(),
            reason: match error {
                NumberError::Malformed => format!("`{token}` is not a number of type {}", shape.element_type),
                NumberError::OutOfRange => format!("{token} is out of the range of {}", shape.element_type),
            },
        })
    }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+')
}

/// A literal of which only the shape is known.
fn elided(shape: &Shape) -> Literal {
    match shape {
        Shape::Array(array) => Literal::Elided(array.clone()),
        Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(elided).collect()),
        Shape::Token | Shape::Opaque => Literal::Token,
    }
}
