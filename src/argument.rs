//! What programs take: anything that is arrays in memory, by reference and without a copy.
//!
//! [`Arguments`] is implemented for slices and arrays of one kind of value and for tuples of several kinds, so that a call
//! reads `execute((&image, &weights))`. Tuples among the program's parameters are flattened.

use std::borrow::Cow;

use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal, NativeElement};
use hlo::shape::{ArrayShape, Shape};

use crate::buffer::{Buffer, Donated};

/// An array in memory: row-major, without gaps, 64-bit sizes or Rust's own.
#[derive(Clone, Copy, Debug)]
pub struct ArrayRef<'a> {
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes of the dimensions.
    pub sizes: Sizes<'a>,
    /// The elements, [`ElementType::byte_width`] bytes each, aligned to one element.
    pub address: *const u8,
}

/// Sizes of dimensions in either integer type.
#[derive(Clone, Copy, Debug)]
pub enum Sizes<'a> {
    /// As shapes have them.
    Signed(&'a [i64]),
    /// As slices and `ndarray` have them.
    Unsigned(&'a [usize]),
}

impl Sizes<'_> {
    /// Whether these are the sizes of a shape.
    pub fn are(self, dimensions: &[i64]) -> bool {
        match self {
            Sizes::Signed(sizes) => sizes == dimensions,
            Sizes::Unsigned(sizes) => {
                sizes.len() == dimensions.len()
                    && sizes.iter().zip(dimensions).all(|(&size, &other)| i64::try_from(size) == Ok(other))
            }
        }
    }

    fn to_vec(self) -> Vec<i64> {
        match self {
            Sizes::Signed(sizes) => sizes.to_vec(),
            Sizes::Unsigned(sizes) => sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect(),
        }
    }
}

impl ArrayRef<'_> {
    /// The shape.
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(self.element_type, self.sizes.to_vec())
    }

    /// Whether the array is of this shape, layouts apart and dynamic dimensions at their bounds.
    pub fn has_shape(&self, shape: &ArrayShape) -> bool {
        self.element_type == shape.element_type && self.sizes.are(&shape.dimensions)
    }
}

/// One leaf of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// An array.
    Array(ArrayRef<'a>),
    /// An array in a device's memory.
    Buffer(&'a Buffer),
    /// An array that the program may overwrite.
    Donated(&'a Donated),
    /// A token: nothing in memory.
    Token,
    /// Something that is no array in memory, for this reason.
    Unusable(&'static str),
}

/// A value that can be an argument.
///
/// # Safety
/// The array of every leaf must be readable, for as many bytes as its sizes and type say, until `self` is changed or ends.
pub unsafe trait Argument {
    /// Calls `visit` with each leaf, in order.
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>));
}

// SAFETY: literals own their data, whose size fits their shape.
unsafe impl Argument for ArrayLiteral {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(Leaf::Array(ArrayRef {
            element_type: self.element_type(),
            sizes: Sizes::Signed(&self.shape().dimensions),
            address: self.bytes().as_ptr(),
        }));
    }
}

// SAFETY: as for its leaves.
unsafe impl Argument for Literal {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        match self {
            Literal::Array(array) => array.for_each_leaf(visit),
            Literal::Tuple(elements) => elements.iter().for_each(|element| element.for_each_leaf(visit)),
            Literal::Token => visit(Leaf::Token),
            Literal::Elided(_) => visit(Leaf::Unusable("its text left the value out: `{...}`")),
        }
    }
}

// SAFETY: as for what it refers to.
unsafe impl<T: Argument + ?Sized> Argument for &T {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        (**self).for_each_leaf(visit);
    }
}

macro_rules! scalar_arguments {
    ($($scalar:ty),*) => {
        $(
            // SAFETY: a native element is one element in memory.
            unsafe impl Argument for $scalar {
                fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
                    visit(Leaf::Array(ArrayRef {
                        element_type: <$scalar>::ELEMENT_TYPE,
                        sizes: Sizes::Signed(&[]),
                        address: std::ptr::from_ref(self).cast(),
                    }));
                }
            }
        )*
    };
}

scalar_arguments!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

// SAFETY: a slice has as many elements as it says.
unsafe impl<T: NativeElement> Argument for [T] {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(Leaf::Array(ArrayRef {
            element_type: T::ELEMENT_TYPE,
            sizes: Sizes::Unsigned(&[self.len()]),
            address: self.as_ptr().cast(),
        }));
    }
}

// SAFETY: as for a slice.
unsafe impl<T: NativeElement, const N: usize> Argument for [T; N] {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        self.as_slice().for_each_leaf(visit);
    }
}

// SAFETY: as for a slice.
unsafe impl<T: NativeElement> Argument for Vec<T> {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        self.as_slice().for_each_leaf(visit);
    }
}

/// A slice seen as an array of several dimensions: borrowed, not copied.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    dimensions: Cow<'a, [i64]>,
    values: &'a [T],
}

impl<'a, T: NativeElement> View<'a, T> {
    /// The values as an array of these dimensions; `None` if they are not as many.
    pub fn new(dimensions: impl Into<Cow<'a, [i64]>>, values: &'a [T]) -> Option<Self> {
        let dimensions = dimensions.into();
        let shape = ArrayShape::new(T::ELEMENT_TYPE, dimensions.as_ref());
        let is_whole = shape.checked_byte_size() == i64::try_from(size_of_val(values)).ok();
        is_whole.then_some(View { dimensions, values })
    }
}

// SAFETY: `new` checks the number of elements.
unsafe impl<T: NativeElement> Argument for View<'_, T> {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(Leaf::Array(ArrayRef {
            element_type: T::ELEMENT_TYPE,
            sizes: Sizes::Signed(&self.dimensions),
            address: self.values.as_ptr().cast(),
        }));
    }
}

/// The arguments of a call.
///
/// # Safety
/// As for [`Argument`].
pub unsafe trait Arguments {
    /// Calls `visit` with each leaf of each argument, in order.
    fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>));
}

// SAFETY: as for the elements.
unsafe impl<A: Argument> Arguments for [A] {
    fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        self.iter().for_each(|argument| argument.for_each_leaf(visit));
    }
}

// SAFETY: as for the elements.
unsafe impl<A: Argument, const N: usize> Arguments for [A; N] {
    fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        self.as_slice().for_each(visit);
    }
}

// SAFETY: as for the elements.
unsafe impl<A: Argument> Arguments for Vec<A> {
    fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        self.as_slice().for_each(visit);
    }
}

// SAFETY: as for what it refers to.
unsafe impl<A: Arguments + ?Sized> Arguments for &A {
    fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        (**self).for_each(visit);
    }
}

macro_rules! tuple_arguments {
    ($($($name:ident)*;)*) => {
        $(
            // SAFETY: as for the elements.
            unsafe impl<$($name: Argument),*> Arguments for ($($name,)*) {
                #[allow(non_snake_case, unused_variables)]
                fn for_each(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
                    let ($($name,)*) = self;
                    $($name.for_each_leaf(visit);)*
                }
            }
        )*
    };
}

tuple_arguments! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

/// The shape of an array leaf as an error names it.
pub(crate) fn shape_text(shape: &ArrayShape) -> String {
    Shape::Array(shape.clone()).without_layout().to_string()
}
