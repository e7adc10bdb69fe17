//! Arrays of the crate `ndarray` as arguments, as places for results, and as views of buffers and literals: none is copied.
//!
//! An array must be in standard layout, row-major without gaps; `ndarray`'s `as_standard_layout` makes it so.

use hlo::literal::{Literal, NativeElement};
use ndarray::{ArrayBase, ArrayViewD, Data, DataMut, Dimension, IxDyn};

use crate::argument::{Argument, ArrayRef, Leaf, Sizes};
use crate::buffer::Buffer;
use crate::results::{Place, ResultPlace, ResultTarget};

const NOT_STANDARD: &str = "the array is not in standard layout (row-major without gaps)";

// SAFETY: an array in standard layout has its elements one after another in memory, as many as its shape says.
unsafe impl<T: NativeElement, S: Data<Elem = T>, D: Dimension> Argument for ArrayBase<S, D> {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(match self.is_standard_layout() {
            true => Leaf::Array(ArrayRef {
                element_type: T::ELEMENT_TYPE,
                sizes: Sizes::Unsigned(self.shape()),
                address: self.as_ptr().cast(),
            }),
            false => Leaf::Unusable(NOT_STANDARD),
        });
    }
}

// SAFETY: as for arguments; `as_slice_mut` gives the data to this array alone.
unsafe impl<T: NativeElement, S: DataMut<Elem = T>, D: Dimension> ResultPlace for ArrayBase<S, D> {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        let Some(address) = self.as_slice_mut().map(|elements| elements.as_mut_ptr().cast::<u8>()) else {
            return visit(Place::Unusable(NOT_STANDARD));
        };
        let array = ArrayRef { element_type: T::ELEMENT_TYPE, sizes: Sizes::Unsigned(self.shape()), address };
        visit(Place::Array(ResultTarget { array, address }));
    }
}

/// The sizes of dimensions as `ndarray` has them.
fn sizes(dimensions: &[i64]) -> Option<IxDyn> {
    let sizes: Option<Vec<usize>> = dimensions.iter().map(|&size| usize::try_from(size).ok()).collect();
    sizes.map(|sizes| IxDyn(&sizes))
}

impl Buffer {
    /// The elements as an array of `ndarray`, if the element type is `T`'s.
    pub fn as_ndarray<T: NativeElement>(&self) -> Option<ArrayViewD<'_, T>> {
        ArrayViewD::from_shape(sizes(&self.shape().dimensions)?, self.as_slice()?).ok()
    }
}

/// The elements of a literal as an array of `ndarray`, if it is an array of `T`'s element type.
pub fn literal_view<T: NativeElement>(literal: &Literal) -> Option<ArrayViewD<'_, T>> {
    let array = literal.as_array()?;
    ArrayViewD::from_shape(sizes(&array.shape().dimensions)?, array.as_slice()?).ok()
}
