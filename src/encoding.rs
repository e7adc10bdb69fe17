//! The bytes of saved executables: numbers little-endian, everything of varying length behind its length.

use hlo::cost::Cost;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::shape::{ArrayShape, ProgramShape, Shape};

/// Tuples that may stand in one another.
const DEPTH_LIMIT: usize = 128;

/// Why bytes could not be read.
pub(crate) type Malformed = String;

/// Writes values one after another.
#[derive(Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn number(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.block(text.as_bytes());
    }

    pub fn array_shape(&mut self, shape: &ArrayShape) {
        self.text(shape.element_type.name());
        self.number(shape.rank() as u64);
        for (dimension, &size) in shape.dimensions.iter().enumerate() {
            self.number(size as u64);
            self.number(shape.is_dynamic_dimension(dimension).into());
        }
    }

    pub fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Array(array) => {
                self.number(0);
                self.array_shape(array);
            }
            Shape::Tuple(elements) => {
                self.number(1);
                self.number(elements.len() as u64);
                elements.iter().for_each(|element| self.shape(element));
            }
            Shape::Token => self.number(2),
            Shape::Opaque => self.number(3),
        }
    }

    pub fn program_shape(&mut self, shape: &ProgramShape) {
        self.number(shape.parameters.len() as u64);
        shape.parameters.iter().for_each(|parameter| self.shape(parameter));
        self.shape(&shape.result);
    }

    pub fn cost(&mut self, cost: Cost) {
        let Cost { flops, transcendentals, bytes_accessed } = cost;
        [flops, transcendentals, bytes_accessed].into_iter().for_each(|figure| self.number(figure));
    }

    pub fn literal(&mut self, literal: &ArrayLiteral) {
        self.array_shape(literal.shape());
        self.block(literal.bytes());
    }

    pub fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| write(self, value));
    }
}

/// Reads what a [`Writer`] wrote; never past the end.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number of things of at least `width` bytes each, which the rest can hold.
    fn count(&mut self, width: usize) -> Result<usize, Malformed> {
        let count = self.number()?;
        usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(width).is_some_and(|bytes| bytes <= self.rest.len()))
            .ok_or_else(|| format!("it has no room for {count} values"))
    }

    pub fn block(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.count(1)?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.block()?).map_err(|error| error.to_string())
    }

    pub fn cost(&mut self) -> Result<Cost, Malformed> {
        Ok(Cost { flops: self.number()?, transcendentals: self.number()?, bytes_accessed: self.number()? })
    }

    pub fn array_shape(&mut self) -> Result<ArrayShape, Malformed> {
        let element_type: ElementType = self.text()?.parse().map_err(|error| format!("{error}"))?;
        let rank = self.count(16)?;
        let mut shape = ArrayShape::new(element_type, Vec::with_capacity(rank));
        let mut dynamic = Vec::with_capacity(rank);
        for _ in 0..rank {
            shape.dimensions.push(self.number()? as i64);
            dynamic.push(self.number()? != 0);
        }
        for (dimension, is_dynamic) in dynamic.into_iter().enumerate().filter(|(_, is_dynamic)| *is_dynamic) {
            shape.set_dynamic_dimension(dimension, is_dynamic);
        }
        shape.checked_byte_size().ok_or_else(|| format!("the size of {shape} does not fit 63 bits"))?;
        Ok(shape)
    }

    pub fn shape(&mut self) -> Result<Shape, Malformed> {
        self.nested_shape(DEPTH_LIMIT)
    }

    fn nested_shape(&mut self, depth: usize) -> Result<Shape, Malformed> {
        let depth = depth.checked_sub(1).ok_or("its tuples nest too deep")?;
        Ok(match self.number()? {
            0 => Shape::Array(self.array_shape()?),
            1 => {
                let count = self.count(8)?;
                Shape::Tuple((0..count).map(|_| self.nested_shape(depth)).collect::<Result<_, _>>()?)
            }
            2 => Shape::Token,
            3 => Shape::Opaque,
            kind => return Err(format!("there is no kind {kind} of shapes")),
        })
    }

    pub fn program_shape(&mut self) -> Result<ProgramShape, Malformed> {
        let parameters = self.list(8, Self::shape)?;
        Ok(ProgramShape { parameters, result: self.shape()? })
    }

    pub fn literal(&mut self) -> Result<ArrayLiteral, Malformed> {
        let shape = self.array_shape()?;
        ArrayLiteral::from_bytes(shape, self.block()?).map_err(|error| error.to_string())
    }

    /// A list of values of at least `width` bytes each.
    pub fn list<T>(
        &mut self,
        width: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.count(width)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes are left over", self.rest.len())) }
    }
}
