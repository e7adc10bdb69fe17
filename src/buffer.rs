//! Arrays in the device's memory.
//!
//! A [`Buffer`] is shared: cloning it is cheap, and its memory goes back to the client's pool with the last clone. The
//! memory of every buffer starts on a cache line. Results come as buffers without a copy, and a literal becomes a buffer
//! without one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal, NativeElement};
use hlo::shape::{ArrayShape, Shape};

use crate::argument::{Argument, ArrayRef, Leaf, Sizes};
use crate::error::Error;
use crate::results::{Place, ResultPlace, ResultTarget};

/// An array in the device's memory.
#[derive(Clone)]
pub struct Buffer {
    shape: Arc<ArrayShape>,
    memory: Memory,
}

#[derive(Clone)]
enum Memory {
    /// Of a client's pool.
    Pooled(Arc<exec::Buffer>),
    /// A literal's own.
    Literal(ArrayLiteral),
}

impl Buffer {
    /// A buffer on memory of a pool that holds at least the shape's bytes.
    pub(crate) fn pooled(shape: Arc<ArrayShape>, memory: exec::Buffer) -> Self {
        Buffer { shape, memory: Memory::Pooled(Arc::new(memory)) }
    }

    /// The shape.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.shape.element_type
    }

    /// The bytes of the elements in row-major order.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Pooled(memory) => &memory.as_slice()[..self.shape.byte_size()],
            Memory::Literal(literal) => literal.bytes(),
        }
    }

    /// The elements as native values, if the element type is `T`'s.
    pub fn as_slice<T: NativeElement>(&self) -> Option<&[T]> {
        if T::ELEMENT_TYPE != self.element_type() {
            return None;
        }
        let bytes = self.bytes();
        // SAFETY: the memory starts on a cache line and holds whole elements; any bits are a valid `T`.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>()) })
    }

    /// A copy of the elements, if the element type is `T`'s.
    pub fn to_vec<T: NativeElement>(&self) -> Option<Vec<T>> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// The bytes for writing, if no other clone of the buffer is left.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            Memory::Pooled(memory) => {
                Arc::get_mut(memory).map(|memory| &mut memory.as_mut_slice()[..self.shape.byte_size()])
            }
            Memory::Literal(literal) => Some(literal.bytes_mut()),
        }
    }

    /// Gives the buffer's memory to the program that takes it as an argument, which may overwrite it: a result that
    /// `input_output_alias` puts in the place of this argument is then written there, and no memory is needed for it.
    ///
    /// This holds for buffers that a program returned ([`execute_buffers`](crate::Executable::execute_buffers),
    /// [`result_buffers`](crate::Executable::result_buffers)), and of which no clone is left; memory that is shared is
    /// copied, and so is a literal's.
    pub fn donate(self) -> Donated {
        Donated { buffer: self, is_taken: AtomicBool::new(false) }
    }

    /// The array as an argument.
    fn array(&self) -> ArrayRef<'_> {
        ArrayRef {
            element_type: self.element_type(),
            sizes: Sizes::Signed(&self.shape.dimensions),
            address: self.bytes().as_ptr(),
        }
    }

    /// The array on the host: a copy, unless the buffer came from a literal.
    ///
    /// # Errors
    /// None but [`Error::Literal`], for sizes beyond what memory can hold.
    pub fn to_literal(&self) -> Result<Literal, Error> {
        match &self.memory {
            Memory::Literal(literal) => Ok(Literal::Array(literal.clone())),
            Memory::Pooled(_) => {
                Ok(Literal::Array(ArrayLiteral::from_bytes(ArrayShape::clone(&self.shape), self.bytes())?))
            }
        }
    }
}

impl From<ArrayLiteral> for Buffer {
    fn from(literal: ArrayLiteral) -> Self {
        Buffer { shape: Arc::new(literal.shape().clone()), memory: Memory::Literal(literal) }
    }
}

impl TryFrom<Literal> for Buffer {
    type Error = Error;

    fn try_from(literal: Literal) -> Result<Self, Error> {
        match literal {
            Literal::Array(array) => Ok(array.into()),
            other => Err(Error::NoArray(other.shape())),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({})", Shape::Array(ArrayShape::clone(&self.shape)))
    }
}

// SAFETY: the memory holds the shape's bytes and lives as long as the buffer.
unsafe impl Argument for Buffer {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(Leaf::Array(self.array()));
    }
}

/// A buffer given up for a result to be written over it: see [`Buffer::donate`].
#[derive(Debug)]
pub struct Donated {
    buffer: Buffer,
    /// Whether a call has it: no other call may.
    is_taken: AtomicBool,
}

impl Donated {
    /// The array as an argument.
    pub(crate) fn array(&self) -> ArrayRef<'_> {
        self.buffer.array()
    }

    /// The buffer, for writing, if nothing else refers to its memory.
    ///
    /// # Errors
    /// For a buffer that an earlier call has taken.
    pub(crate) fn take(&self) -> Result<Option<Buffer>, &'static str> {
        let Memory::Pooled(memory) = &self.buffer.memory else { return Ok(None) };
        if self.is_taken.swap(true, Ordering::AcqRel) {
            return Err("it was donated to an earlier call");
        }
        // No other reference can appear: this is the only one, and it is not handed out.
        Ok((Arc::strong_count(memory) == 1).then(|| self.buffer.clone()))
    }
}

// SAFETY: as for the buffer.
unsafe impl Argument for Donated {
    fn for_each_leaf(&self, visit: &mut dyn FnMut(Leaf<'_>)) {
        visit(Leaf::Donated(self));
    }
}

// SAFETY: the memory is only handed out if nothing else refers to it.
unsafe impl ResultPlace for Buffer {
    fn for_each_place(&mut self, visit: &mut dyn FnMut(Place<'_>)) {
        let shape = Arc::clone(&self.shape);
        match self.bytes_mut() {
            Some(bytes) => {
                let address = bytes.as_mut_ptr();
                let sizes = Sizes::Signed(&shape.dimensions);
                let array = ArrayRef { element_type: shape.element_type, sizes, address };
                visit(Place::Array(ResultTarget { array, address }));
            }
            None => visit(Place::Unusable("another clone of the buffer is in use")),
        }
    }
}

#[cfg(test)]
mod tests {
    use exec::BufferPool;

    use super::*;
    use crate::argument::Arguments;

    fn pooled(pool: &BufferPool, values: &[f32]) -> Buffer {
        let shape = Arc::new(ArrayShape::new(ElementType::F32, [values.len() as i64]));
        let memory = pool.allocate(shape.byte_size()).unwrap();
        let mut buffer = Buffer::pooled(shape, memory);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        buffer.bytes_mut().expect("the only clone").copy_from_slice(&bytes);
        buffer
    }

    #[test]
    fn clones_share_memory_and_the_last_one_frees_it() {
        let pool = BufferPool::new();
        let mut first = pooled(&pool, &[1., 2., 3.]);
        let second = first.clone();
        assert!(first.bytes_mut().is_none());
        assert_eq!(first.bytes().as_ptr(), second.bytes().as_ptr());
        assert_eq!(pool.unused_bytes(), 0);
        drop(first);
        assert_eq!(pool.unused_bytes(), 0);
        assert_eq!(second.as_slice::<f32>(), Some(&[1., 2., 3.][..]));
        assert_eq!(second.as_slice::<i32>(), None);
        drop(second);
        assert_eq!(pool.unused_bytes(), 64);
    }

    #[test]
    fn literals_become_buffers_and_back_without_a_copy() {
        let literal = ArrayLiteral::from_slice([2, 2], &[1f64, 2., 3., 4.]).unwrap();
        let buffer = Buffer::from(literal.clone());
        assert_eq!(buffer.bytes().as_ptr(), literal.bytes().as_ptr());
        assert_eq!(buffer.to_literal().unwrap(), Literal::Array(literal));
        let pool = BufferPool::new();
        assert_eq!(pooled(&pool, &[5., 6.]).to_literal().unwrap(), Literal::from([5f32, 6.]));
    }

    #[test]
    fn arguments_and_places_see_the_same_memory() {
        let pool = BufferPool::new();
        let mut buffer = pooled(&pool, &[1., 2.]);
        let mut address = std::ptr::null_mut();
        buffer.for_each_place(&mut |place| match place {
            Place::Array(target) => address = target.address,
            Place::Token | Place::Unusable(_) => panic!("{place:?}"),
        });
        // SAFETY: the buffer is alive, and nothing else looks at it.
        unsafe { address.cast::<f32>().write(7.) };
        let mut seen = 0.;
        (&buffer,).for_each(&mut |leaf| match leaf {
            // SAFETY: the buffer is alive.
            Leaf::Array(array) => seen = unsafe { array.address.cast::<f32>().read() },
            Leaf::Donated(_) | Leaf::Token | Leaf::Unusable(_) => panic!("{leaf:?}"),
        });
        assert_eq!(seen, 7.);
    }

    #[test]
    fn empty_arrays_have_an_address() {
        let pool = BufferPool::new();
        let buffer = pooled(&pool, &[]);
        assert_eq!(buffer.as_slice::<f32>(), Some(&[][..]));
    }
}
