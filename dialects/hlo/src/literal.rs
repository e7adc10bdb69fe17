//! Literals: host values of any shape.
//!
//! Array data is row-major (logical order), native-endian, [`ElementType::byte_width`] bytes an element (a
//! whole byte for 2- and 4-bit types, sign- or zero-extended), aligned to 64 bytes, and shared: cloning is cheap.

use std::sync::Arc;

use aligned_vec::{AVec, ConstAlign};

use crate::element_type::ElementType;
use crate::literal_memory;
use crate::shape::{ArrayShape, Shape};

/// Alignment of literal data and of every buffer of compiled code, in bytes.
pub const ALIGNMENT: usize = 64;

/// Bytes aligned to [`ALIGNMENT`].
pub type AlignedBytes = AVec<u8, ConstAlign<ALIGNMENT>>;

/// A host value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// An array with its data.
    Array(ArrayLiteral),
    /// A tuple of values.
    Tuple(Vec<Literal>),
    /// A token: no data.
    Token,
    /// A constant whose value the text left out (`{...}`): it can be read and printed, not executed.
    Elided(ArrayShape),
}

/// Array data with its shape; see the module documentation for the representation.
#[derive(Clone, PartialEq)]
pub struct ArrayLiteral {
    shape: ArrayShape,
    bytes: Arc<AlignedBytes>,
}

/// The data does not fit the shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiteralError {
    /// Wrong number of bytes.
    #[error("{shape} needs {expected} bytes of data, got {found}")]
    Size {
        /// The shape.
        shape: ArrayShape,
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The shape's size overflows.
    #[error("the size of {0} in bytes does not fit 63 bits")]
    Overflow(ArrayShape),
    /// The system has no memory of this size.
    #[error("out of memory: cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
}

/// Room for bytes, none of which is there yet.
///
/// # Errors
/// [`LiteralError::OutOfMemory`].
pub fn reserve(bytes: usize) -> Result<AlignedBytes, LiteralError> {
    if let Some(kept) = literal_memory::take(bytes) {
        return Ok(kept);
    }
    let mut reserved = AVec::new(ALIGNMENT);
    reserved.try_reserve_exact(bytes).map_err(|_| LiteralError::OutOfMemory { bytes })?;
    Ok(reserved)
}

/// Bytes that are all zero.
///
/// # Errors
/// [`LiteralError::OutOfMemory`].
pub fn zeroed(bytes: usize) -> Result<AlignedBytes, LiteralError> {
    let mut zeroed = reserve(bytes)?;
    zeroed.resize(bytes, 0);
    Ok(zeroed)
}

/// A Rust type whose values are array elements bit for bit.
///
/// # Safety
/// `Self` must be plain data without padding of exactly `ELEMENT_TYPE.byte_width()` bytes.
pub unsafe trait NativeElement: Copy + 'static {
    /// The element type stored.
    const ELEMENT_TYPE: ElementType;
}

macro_rules! native_elements {
    ($($rust:ty => $element:ident),* $(,)?) => {
        $(
            // SAFETY: plain data of the element type's width.
            unsafe impl NativeElement for $rust {
                const ELEMENT_TYPE: ElementType = ElementType::$element;
            }
        )*
    };
}

native_elements! {
    i8 => S8, i16 => S16, i32 => S32, i64 => S64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::bf16 => BF16, half::f16 => F16, f32 => F32, f64 => F64,
    num_complex::Complex<f32> => C64, num_complex::Complex<f64> => C128,
}

impl Drop for ArrayLiteral {
    fn drop(&mut self) {
        if let Some(bytes) = Arc::get_mut(&mut self.bytes) {
            literal_memory::keep(std::mem::replace(bytes, AVec::new(ALIGNMENT)));
        }
    }
}

impl ArrayLiteral {
    /// Array with the given data.
    pub fn new(shape: ArrayShape, bytes: AlignedBytes) -> Result<Self, LiteralError> {
        Self::from_shared(shape, Arc::new(bytes))
    }

    /// Array with data that others have too.
    pub fn from_shared(shape: ArrayShape, bytes: Arc<AlignedBytes>) -> Result<Self, LiteralError> {
        let expected = shape.checked_byte_size().ok_or_else(|| LiteralError::Overflow(shape.clone()))? as usize;
        if bytes.len() != expected {
            return Err(LiteralError::Size { shape, expected, found: bytes.len() });
        }
        Ok(ArrayLiteral { shape, bytes })
    }

    /// Array with a copy of the given data.
    pub fn from_bytes(shape: ArrayShape, bytes: &[u8]) -> Result<Self, LiteralError> {
        let mut copy = reserve(bytes.len())?;
        copy.extend_from_slice(bytes);
        Self::new(shape, copy)
    }

    /// Array of zero bytes.
    pub fn zeros(shape: ArrayShape) -> Result<Self, LiteralError> {
        let size = shape.checked_byte_size().ok_or_else(|| LiteralError::Overflow(shape.clone()))? as usize;
        Self::new(shape, zeroed(size)?)
    }

    /// Array of native values.
    pub fn from_slice<T: NativeElement>(dimensions: impl Into<Vec<i64>>, values: &[T]) -> Result<Self, LiteralError> {
        // SAFETY: `NativeElement` promises plain data without padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        Self::from_bytes(ArrayShape::new(T::ELEMENT_TYPE, dimensions), bytes)
    }

    /// Scalar of a native value.
    pub fn scalar<T: NativeElement>(value: T) -> Self {
        let shape = ArrayShape::new(T::ELEMENT_TYPE, []);
        // SAFETY: `NativeElement` promises plain data without padding.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
        ArrayLiteral { shape, bytes: Arc::new(AVec::from_slice(ALIGNMENT, bytes)) }
    }

    /// The shape.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.shape.element_type
    }

    /// The data.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The data with its owner.
    pub fn shared_bytes(&self) -> &Arc<AlignedBytes> {
        &self.bytes
    }

    /// The data for writing; copied first when shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.bytes).as_mut_slice()
    }

    /// The elements as native values, if the element type is `T`'s.
    pub fn as_slice<T: NativeElement>(&self) -> Option<&[T]> {
        if T::ELEMENT_TYPE != self.shape.element_type {
            return None;
        }
        // SAFETY: the data is aligned to 64 bytes, has a whole number of elements, and any bits are a valid `T`.
        Some(unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast::<T>(), self.bytes.len() / size_of::<T>()) })
    }

    /// A copy of the elements, if the element type is `T`'s.
    pub fn to_vec<T: NativeElement>(&self) -> Option<Vec<T>> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// Same data under another shape of the same element width and count.
    pub fn with_shape(&self, shape: ArrayShape) -> Result<Self, LiteralError> {
        if shape.checked_byte_size() != Some(self.bytes.len() as i64) {
            return Err(LiteralError::Size { expected: shape.byte_size(), found: self.bytes.len(), shape });
        }
        Ok(ArrayLiteral { shape, bytes: Arc::clone(&self.bytes) })
    }
}

impl Literal {
    /// Scalar of a native value.
    pub fn scalar<T: NativeElement>(value: T) -> Self {
        Literal::Array(ArrayLiteral::scalar(value))
    }

    /// Scalar `pred`.
    pub fn pred(value: bool) -> Self {
        let mut array = ArrayLiteral::scalar(u8::from(value));
        array.shape.element_type = ElementType::Pred;
        Literal::Array(array)
    }

    /// Shape of the value.
    pub fn shape(&self) -> Shape {
        match self {
            Literal::Array(array) => Shape::Array(array.shape.clone()),
            Literal::Tuple(elements) => Shape::Tuple(elements.iter().map(Literal::shape).collect()),
            Literal::Token => Shape::Token,
            Literal::Elided(shape) => Shape::Array(shape.clone()),
        }
    }

    /// Array of native values.
    ///
    /// # Errors
    /// If the values are not as many as the dimensions say.
    pub fn from_slice<T: NativeElement>(dimensions: impl Into<Vec<i64>>, values: &[T]) -> Result<Self, LiteralError> {
        ArrayLiteral::from_slice(dimensions, values).map(Literal::Array)
    }

    /// The elements as native values, if this is an array of `T`'s element type.
    pub fn as_slice<T: NativeElement>(&self) -> Option<&[T]> {
        self.as_array().and_then(ArrayLiteral::as_slice)
    }

    /// A copy of the elements, if this is an array of `T`'s element type.
    pub fn to_vec<T: NativeElement>(&self) -> Option<Vec<T>> {
        self.as_array().and_then(ArrayLiteral::to_vec)
    }

    /// The array, if this is one with data.
    pub fn as_array(&self) -> Option<&ArrayLiteral> {
        match self {
            Literal::Array(array) => Some(array),
            Literal::Tuple(_) | Literal::Token | Literal::Elided(_) => None,
        }
    }

    /// The elements, if this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Literal]> {
        match self {
            Literal::Tuple(elements) => Some(elements),
            Literal::Array(_) | Literal::Token | Literal::Elided(_) => None,
        }
    }

    /// The non-tuple leaves, in order.
    pub fn leaves(&self) -> Vec<&Literal> {
        match self {
            Literal::Tuple(elements) => elements.iter().flat_map(Literal::leaves).collect(),
            leaf => vec![leaf],
        }
    }
}

/// Rust values that are literals: numbers, `bool`, and arrays of these nested as deep as the literal's rank.
pub trait NestedValues {
    /// Element type of the innermost values.
    const ELEMENT_TYPE: ElementType;

    /// Adds the sizes of the dimensions, outermost first.
    fn dimensions(dimensions: &mut Vec<i64>);

    /// Adds the bytes of the elements in row-major order.
    fn write(&self, bytes: &mut AlignedBytes);
}

impl<T: NativeElement> NestedValues for T {
    const ELEMENT_TYPE: ElementType = T::ELEMENT_TYPE;

    fn dimensions(_dimensions: &mut Vec<i64>) {}

    fn write(&self, bytes: &mut AlignedBytes) {
        // SAFETY: `NativeElement` promises plain data without padding.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(self).cast::<u8>(), size_of::<T>())
        });
    }
}

impl NestedValues for bool {
    const ELEMENT_TYPE: ElementType = ElementType::Pred;

    fn dimensions(_dimensions: &mut Vec<i64>) {}

    fn write(&self, bytes: &mut AlignedBytes) {
        bytes.push(u8::from(*self));
    }
}

impl<T: NestedValues, const N: usize> NestedValues for [T; N] {
    const ELEMENT_TYPE: ElementType = T::ELEMENT_TYPE;

    fn dimensions(dimensions: &mut Vec<i64>) {
        dimensions.push(N as i64);
        T::dimensions(dimensions);
    }

    fn write(&self, bytes: &mut AlignedBytes) {
        self.iter().for_each(|value| value.write(bytes));
    }
}

impl<T: NestedValues> From<T> for Literal {
    /// The literal of a number or of nested arrays: `Literal::from([[1f32, 2.], [3., 4.]])`.
    fn from(values: T) -> Self {
        let mut dimensions = Vec::new();
        T::dimensions(&mut dimensions);
        let mut bytes = AVec::new(ALIGNMENT);
        values.write(&mut bytes);
        Literal::Array(ArrayLiteral { shape: ArrayShape::new(T::ELEMENT_TYPE, dimensions), bytes: Arc::new(bytes) })
    }
}

impl From<ArrayLiteral> for Literal {
    fn from(array: ArrayLiteral) -> Self {
        Literal::Array(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_arrays_are_row_major() {
        let literal = Literal::from([[1i16, 2, 3], [4, 5, 6]]);
        assert_eq!(literal.shape(), Shape::of::<i16>([2, 3]));
        assert_eq!(literal.as_slice::<i16>(), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(literal.as_slice::<u16>(), None);
        assert_eq!(Literal::from([[[0f64; 0]; 3]; 2]).shape(), Shape::of::<f64>([2, 3, 0]));
        assert_eq!(Literal::from(true), Literal::pred(true));
        assert_eq!(Literal::from(2.5f32), Literal::scalar(2.5f32));
    }

    #[test]
    fn literals_have_a_text() {
        let matrix = Literal::from([[1f32, 2.5], [-3., 4.]]);
        assert_eq!(matrix.to_string(), "{ { 1, 2.5 }, { -3, 4 } }");
        assert_eq!(Literal::Tuple(vec![1i32.into(), Literal::Token]).to_string(), "( 1, token )");
        assert_eq!(format!("{:?}", matrix.as_array().unwrap()), "f32[2,2] { { 1, 2.5 }, { -3, 4 } }");
        let long = ArrayLiteral::from_slice([65], &[0i8; 65]).unwrap();
        assert_eq!(format!("{long:?}"), "s8[65] …");
        assert_eq!(matrix.to_vec::<f32>(), Some(vec![1., 2.5, -3., 4.]));
        assert_eq!(matrix.to_vec::<f64>(), None);
    }

    #[test]
    fn data_start_on_cache_lines() {
        for count in [0, 1, 63, 1000] {
            let array = ArrayLiteral::from_slice([count as i64], &vec![7u8; count]).unwrap();
            assert_eq!(array.bytes().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(array.as_slice::<u8>().map(<[u8]>::len), Some(count));
        }
    }

    #[test]
    fn clones_share_data_until_one_is_written() {
        let first = ArrayLiteral::from_slice([2], &[1u32, 2]).unwrap();
        let mut second = first.clone();
        assert_eq!(first.bytes().as_ptr(), second.bytes().as_ptr());
        second.bytes_mut()[0] = 9;
        assert_eq!(first.as_slice::<u32>(), Some(&[1, 2][..]));
        assert_eq!(second.as_slice::<u32>(), Some(&[9, 2][..]));
        let turned = first.with_shape(ArrayShape::new(ElementType::S32, [1, 2])).unwrap();
        assert_eq!(turned.as_slice::<i32>(), Some(&[1, 2][..]));
    }

    #[test]
    fn data_must_fit_the_shape() {
        let shape = ArrayShape::new(ElementType::F32, [3]);
        assert!(matches!(
            ArrayLiteral::from_bytes(shape, &[0; 11]),
            Err(LiteralError::Size { expected: 12, found: 11, .. })
        ));
        let huge = ArrayShape::new(ElementType::F32, [i64::MAX, 2]);
        assert!(matches!(ArrayLiteral::zeros(huge), Err(LiteralError::Overflow(_))));
        assert!(Literal::from_slice([2, 2], &[0u8; 3]).is_err());
    }

    #[test]
    fn leaves_of_tuples_are_in_order() {
        let literal = Literal::Tuple(vec![1i32.into(), Literal::Tuple(vec![2i32.into(), Literal::Token])]);
        assert_eq!(literal.leaves(), [&Literal::from(1i32), &Literal::from(2i32), &Literal::Token]);
        assert_eq!(literal.as_tuple().map(<[Literal]>::len), Some(2));
    }
}
