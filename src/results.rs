//! Where `execute_into` writes: memory that the caller has.

use hlo::literal::{ArrayLiteral, Literal, NativeElement};

use crate::argument::{ArrayRef, Sizes};
use crate::buffer::Buffer;

/// One array to be written.
#[derive(Clone, Copy, Debug)]
pub struct ResultTarget<'a> {
    /// Type and sizes.
    pub array: ArrayRef<'a>,
    /// The first byte.
    pub address: *mut u8,
}

/// One leaf of a place for results.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// An array.
    Array(ResultTarget<'a>),
    /// A buffer on a GPU, whose memory nothing else refers to.
    Buffer(&'a Buffer),
    /// A token: nothing in memory.
    Token,
    /// Something that cannot be written, for this reason.
    Unusable(&'static str),
}

/// A value that a result can be written to.
///
/// # Safety
/// The array of every leaf must be writable, for as many bytes as its sizes and type say, until `self` is used again, and must
/// not overlap that of another leaf.
pub unsafe trait ResultPlace {
    /// Calls `visit` with each leaf, in order.
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>));
}

// SAFETY: the data are made this literal's own by `bytes_mut`.
unsafe impl ResultPlace for ArrayLiteral {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        let address = self.bytes_mut().as_mut_ptr();
        let sizes = Sizes::Signed(&self.shape().dimensions);
        let array = ArrayRef { element_type: self.element_type(), sizes, address };
        visit(Place::Array(ResultTarget { array, address }));
    }
}

// SAFETY: as for the leaves.
unsafe impl ResultPlace for Literal {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        match self {
            Literal::Array(array) => array.for_each_place(visit),
            Literal::Tuple(elements) => elements.iter_mut().for_each(|element| element.for_each_place(visit)),
            Literal::Token => visit(Place::Token),
            Literal::Elided(_) => visit(Place::Unusable("it is a constant without a value")),
        }
    }
}

// SAFETY: a slice has as many elements as it says, and any bytes that a program writes are elements.
unsafe impl<T: NativeElement> ResultPlace for [T] {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        let address = self.as_mut_ptr().cast::<u8>();
        let array = ArrayRef { element_type: T::ELEMENT_TYPE, sizes: Sizes::Unsigned(&[self.len()]), address };
        visit(Place::Array(ResultTarget { array, address }));
    }
}

// SAFETY: as for a slice.
unsafe impl<T: NativeElement, const N: usize> ResultPlace for [T; N] {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        self.as_mut_slice().for_each_place(visit);
    }
}

// SAFETY: as for a slice.
unsafe impl<T: NativeElement> ResultPlace for Vec<T> {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        self.as_mut_slice().for_each_place(visit);
    }
}

// SAFETY: as for what it refers to.
unsafe impl<T: ResultPlace + ?Sized> ResultPlace for &mut T {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        (**self).for_each_place(visit);
    }
}

/// Places for all results of a call; tuples of results are flattened.
///
/// # Safety
/// As for [`ResultPlace`].
pub unsafe trait Results {
    /// Calls `visit` with each leaf of each place, in order.
    fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>));
}

// SAFETY: as for the elements.
unsafe impl<R: ResultPlace> Results for [R] {
    fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        self.iter_mut().for_each(|place| place.for_each_place(visit));
    }
}

// SAFETY: as for the elements.
unsafe impl<R: ResultPlace, const N: usize> Results for [R; N] {
    fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        self.as_mut_slice().for_each(visit);
    }
}

// SAFETY: as for the elements.
unsafe impl<R: ResultPlace> Results for Vec<R> {
    fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        self.as_mut_slice().for_each(visit);
    }
}

// SAFETY: as for what it refers to.
unsafe impl<R: Results + ?Sized> Results for &mut R {
    fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        (**self).for_each(visit);
    }
}

macro_rules! tuple_results {
    ($($($name:ident)*;)*) => {
        $(
            // SAFETY: as for the elements.
            unsafe impl<$($name: ResultPlace),*> Results for ($($name,)*) {
                #[allow(non_snake_case, unused_variables)]
                fn for_each(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
                    let ($($name,)*) = self;
                    $($name.for_each_place(visit);)*
                }
            }
        )*
    };
}

tuple_results! {
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
