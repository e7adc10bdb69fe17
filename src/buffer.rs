//! Arrays in the device's memory.
//!
//! A [`Buffer`] is shared: cloning it is cheap, and its memory goes back to the client's pool with the last clone. The
//! memory of every buffer starts on a cache line. Results come as buffers without a copy, and a literal becomes a buffer
//! without one. Of a GPU, results stay in its memory, and come to the host when their bytes are asked for.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cuda::{DeviceArray, DeviceMemory};
use hlo::element_type::ElementType;
use hlo::literal::{self, ArrayLiteral, Literal, NativeElement};
use hlo::shape::{ArrayShape, Shape};

use crate::argument::{Argument, ArrayRef, Leaf, Sizes};
use crate::client::Client;
use crate::error::Error;
use crate::prepacked::Identity;
use crate::results::{Place, ResultPlace, ResultTarget};

/// Why a result is not written over a buffer.
const OTHER_CLONE: &str = "another clone of the buffer is in use";

/// An array in the device's memory.
#[derive(Clone)]
pub struct Buffer {
    shape: Arc<ArrayShape>,
    memory: Memory,
    /// Of the contents.
    identity: Identity,
}

#[derive(Clone)]
enum Memory {
    /// Of a client's pool.
    Pooled(Arc<exec::Buffer>),
    /// A literal's own.
    Literal(ArrayLiteral),
    /// Of a GPU, with a copy of the host's, once one was asked for.
    Device(Arc<DeviceArray>, OnceLock<ArrayLiteral>),
}

impl Buffer {
    fn new(shape: Arc<ArrayShape>, memory: Memory) -> Self {
        Buffer { shape, memory, identity: Identity::fresh() }
    }

    /// What only buffers of the same contents have in common.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// A buffer on memory of a pool that holds at least the shape's bytes.
    pub(crate) fn pooled(shape: Arc<ArrayShape>, memory: exec::Buffer) -> Self {
        Buffer::new(shape, Memory::Pooled(Arc::new(memory)))
    }

    /// A buffer on memory of a GPU that holds at least the shape's bytes.
    pub(crate) fn on_device(shape: Arc<ArrayShape>, memory: DeviceArray) -> Self {
        Buffer::new(shape, Memory::Device(Arc::new(memory), OnceLock::new()))
    }

    /// The shape.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.shape.element_type
    }

    /// The bytes of the elements in row-major order. Those of a GPU's memory are copied to the host when they are first asked
    /// for.
    ///
    /// # Errors
    /// None of the host's memory; [`Error::Cuda`] for a copy that fails, [`Error::Literal`] where there is no memory for one.
    pub fn bytes(&self) -> Result<&[u8], Error> {
        match &self.memory {
            Memory::Pooled(memory) => Ok(&memory.as_slice()[..self.shape.byte_size()]),
            Memory::Literal(literal) => Ok(literal.bytes()),
            Memory::Device(array, copy) => Ok(self.host_copy(array, copy)?.bytes()),
        }
    }

    fn host_copy<'a>(&self, array: &DeviceArray, copy: &'a OnceLock<ArrayLiteral>) -> Result<&'a ArrayLiteral, Error> {
        if let Some(known) = copy.get() {
            return Ok(known);
        }
        let size = self.shape.byte_size();
        let mut bytes = literal::reserve(size)?;
        bytes.resize(size, 0);
        array.download(&mut bytes)?;
        let copied = ArrayLiteral::new(ArrayShape::clone(&self.shape), bytes)?;
        Ok(copy.get_or_init(|| copied))
    }

    /// Whether the array is in the host's memory.
    pub fn is_on_host(&self) -> bool {
        matches!(self.memory, Memory::Pooled(_) | Memory::Literal(_))
    }

    /// The array in the memory of a client's devices: a copy, unless it is there.
    ///
    /// # Errors
    /// When memory runs out, and for copies that fail.
    pub fn to_device(&self, client: &Client) -> Result<Buffer, Error> {
        let device = client.inner.device.as_ref();
        if self.suits(device) {
            return Ok(self.clone());
        }
        client.buffer_of(Arc::clone(&self.shape), self.bytes()?)
    }

    /// The array in the host's memory: a copy, unless it is there.
    ///
    /// # Errors
    /// As for [`Self::bytes`].
    pub fn to_host(&self) -> Result<Buffer, Error> {
        match &self.memory {
            Memory::Pooled(_) | Memory::Literal(_) => Ok(self.clone()),
            Memory::Device(array, copy) => Ok(self.host_copy(array, copy)?.clone().into()),
        }
    }

    /// Whether programs use the array where it is: on this GPU, or where there is none on the host.
    pub(crate) fn suits(&self, device: Option<&DeviceMemory>) -> bool {
        match (&self.memory, device) {
            (Memory::Device(array, _), Some(device)) => array.memory().is_same(device),
            (Memory::Device(..), None) => false,
            (Memory::Pooled(_) | Memory::Literal(_), device) => device.is_none(),
        }
    }

    /// The elements as native values, if the element type is `T`'s; none either of an array on a GPU that cannot be copied, for
    /// reasons that [`Self::bytes`] gives.
    pub fn as_slice<T: NativeElement>(&self) -> Option<&[T]> {
        if T::ELEMENT_TYPE != self.element_type() {
            return None;
        }
        let bytes = self.bytes().ok()?;
        // SAFETY: the memory starts on a cache line and holds whole elements; any bits are a valid `T`.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>()) })
    }

    /// A copy of the elements, if the element type is `T`'s.
    pub fn to_vec<T: NativeElement>(&self) -> Option<Vec<T>> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// The bytes for writing, if no other clone of the buffer is left. An array on a GPU moves to the host for that.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if let Memory::Device(array, copy) = &mut self.memory {
            Arc::get_mut(array)?;
            let copied = match copy.take() {
                Some(copied) => copied,
                None => self.clone().to_host().ok()?.into_literal()?,
            };
            self.memory = Memory::Literal(copied);
        }
        self.identity = Identity::fresh();
        match &mut self.memory {
            Memory::Pooled(memory) => {
                Arc::get_mut(memory).map(|memory| &mut memory.as_mut_slice()[..self.shape.byte_size()])
            }
            Memory::Literal(literal) => Some(literal.bytes_mut()),
            Memory::Device(..) => None,
        }
    }

    fn into_literal(self) -> Option<ArrayLiteral> {
        match self.memory {
            Memory::Literal(literal) => Some(literal),
            Memory::Pooled(_) | Memory::Device(..) => None,
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

    /// The array as an argument of programs that run there, and whether its address is one of a GPU.
    ///
    /// # Errors
    /// For an array of another device that cannot be copied to the host.
    pub(crate) fn array(&self, device: Option<&DeviceMemory>) -> Result<(ArrayRef<'_>, bool), &'static str> {
        let (address, is_on_device) = match &self.memory {
            Memory::Device(array, _) if self.suits(device) => (array.address() as *const u8, true),
            _ => (self.bytes().map_err(|_| "it cannot be copied from its GPU")?.as_ptr(), false),
        };
        let sizes = Sizes::Signed(&self.shape.dimensions);
        Ok((ArrayRef { element_type: self.element_type(), sizes, address }, is_on_device))
    }

    /// The array on the host: a copy, unless the buffer came from a literal.
    ///
    /// # Errors
    /// As for [`Self::bytes`], and [`Error::Literal`] for sizes beyond what memory can hold.
    pub fn to_literal(&self) -> Result<Literal, Error> {
        match &self.memory {
            Memory::Literal(literal) => Ok(Literal::Array(literal.clone())),
            Memory::Pooled(_) => {
                Ok(Literal::Array(ArrayLiteral::from_bytes(ArrayShape::clone(&self.shape), self.bytes()?)?))
            }
            Memory::Device(array, copy) => Ok(Literal::Array(self.host_copy(array, copy)?.clone())),
        }
    }
}

impl From<ArrayLiteral> for Buffer {
    fn from(literal: ArrayLiteral) -> Self {
        Buffer::new(Arc::new(literal.shape().clone()), Memory::Literal(literal))
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
        visit(Leaf::Buffer(self));
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
    /// The buffer as an argument.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The buffer, for writing by programs that run there, if nothing else refers to its memory.
    ///
    /// # Errors
    /// For a buffer that an earlier call has taken.
    pub(crate) fn take(&self, device: Option<&DeviceMemory>) -> Result<Option<Buffer>, &'static str> {
        // No other reference can appear: where there is one only, it is this, and it is not handed out.
        let (is_only, memory) = match &self.buffer.memory {
            Memory::Pooled(memory) => (Arc::strong_count(memory) == 1, Memory::Pooled(Arc::clone(memory))),
            // What the host has of it is not what will be there.
            Memory::Device(array, _) => {
                (Arc::strong_count(array) == 1, Memory::Device(Arc::clone(array), OnceLock::new()))
            }
            Memory::Literal(_) => return Ok(None),
        };
        if self.is_taken.swap(true, Ordering::AcqRel) {
            return Err("it was donated to an earlier call");
        }
        let is_usable = is_only && self.buffer.suits(device);
        Ok(is_usable.then(|| Buffer::new(Arc::clone(&self.buffer.shape), memory)))
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
        if let Memory::Device(array, copy) = &mut self.memory {
            copy.take();
            let is_only = Arc::get_mut(array).is_some();
            return visit(if is_only { Place::Buffer(self) } else { Place::Unusable(OTHER_CLONE) });
        }
        let shape = Arc::clone(&self.shape);
        match self.bytes_mut() {
            Some(bytes) => {
                let address = bytes.as_mut_ptr();
                let sizes = Sizes::Signed(&shape.dimensions);
                let array = ArrayRef { element_type: shape.element_type, sizes, address };
                visit(Place::Array(ResultTarget { array, address }));
            }
            None => visit(Place::Unusable(OTHER_CLONE)),
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
        assert_eq!(first.bytes().unwrap().as_ptr(), second.bytes().unwrap().as_ptr());
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
        assert_eq!(buffer.bytes().unwrap().as_ptr(), literal.bytes().as_ptr());
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
            Place::Buffer(_) | Place::Token | Place::Unusable(_) => panic!("{place:?}"),
        });
        // SAFETY: the buffer is alive, and nothing else looks at it.
        unsafe { address.cast::<f32>().write(7.) };
        let mut seen = 0.;
        (&buffer,).for_each(&mut |leaf| match leaf {
            // SAFETY: the buffer is alive.
            Leaf::Buffer(buffer) => seen = unsafe { buffer.array(None).unwrap().0.address.cast::<f32>().read() },
            Leaf::Array(_) | Leaf::Donated(_) | Leaf::Token | Leaf::Unusable(_) => panic!("{leaf:?}"),
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
