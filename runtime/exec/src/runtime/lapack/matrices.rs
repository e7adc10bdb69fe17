//! Batches of matrices, vectors and numbers in the buffers of a call.

use crate::runtime::custom_call::CallBuffer;
use faer::{MatMut, MatRef};
use linear_algebra::Element;
use std::marker::PhantomData;

/// The matrices of a buffer: its last two dimensions.
pub(super) struct Matrices<T> {
    start: *mut T,
    pub(super) count: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    row_stride: isize,
    column_stride: isize,
    element: PhantomData<T>,
}

// SAFETY: each matrix is used by one thread.
unsafe impl<T: Sync> Sync for Matrices<T> {}

impl<T: Element> Matrices<T> {
    /// The matrices of `buffers[index]`.
    pub(super) fn new(buffers: &[CallBuffer], index: usize) -> Result<Self, String> {
        let buffer = buffers.get(index).ok_or_else(|| format!("no buffer {index}"))?;
        let (batch, matrix) = buffer
            .dimensions
            .len()
            .checked_sub(2)
            .and_then(|rank| buffer.dimensions.split_at_checked(rank))
            .ok_or_else(|| format!("buffer {index} is no matrix"))?;
        let size = |value: &i64| usize::try_from(*value).map_err(|_| format!("size {value}"));
        let (rows, columns) = (size(&matrix[0])?, size(&matrix[1])?);
        let count = batch.iter().map(size).product::<Result<usize, _>>()?;
        let rank = buffer.dimensions.len();
        let (row_stride, column_stride) = match *buffer.minor_to_major {
            [minor, next, ..] if minor as usize == rank - 1 && next as usize == rank - 2 => (columns as isize, 1),
            [minor, next, ..] if minor as usize == rank - 2 && next as usize == rank - 1 => (1, rows as isize),
            _ => return Err(format!("the matrices of buffer {index} are not contiguous")),
        };
        let start = buffer.address.cast();
        Ok(Self { start, count, rows, columns, row_stride, column_stride, element: PhantomData })
    }

    fn address(&self, index: usize) -> *mut T {
        self.start.wrapping_add(index * self.rows * self.columns)
    }

    /// Matrix `index`, to be read.
    ///
    /// # Safety
    /// The buffer must hold it, and no one may write it meanwhile.
    pub(super) unsafe fn read(&self, index: usize) -> MatRef<'_, T> {
        // SAFETY: the caller's promise.
        unsafe {
            MatRef::from_raw_parts(
                self.address(index).cast_const(),
                self.rows,
                self.columns,
                self.row_stride,
                self.column_stride,
            )
        }
    }

    /// Matrix `index`, to be written.
    ///
    /// # Safety
    /// The buffer must hold it, and no one else may use it meanwhile.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn write(&self, index: usize) -> MatMut<'_, T> {
        // SAFETY: the caller's promise.
        unsafe {
            MatMut::from_raw_parts_mut(
                self.address(index),
                self.rows,
                self.columns,
                self.row_stride,
                self.column_stride,
            )
        }
    }

    /// Copies matrix `index` of another buffer here, unless it is the same buffer.
    ///
    /// # Safety
    /// Both buffers must hold it, and no one else may use it meanwhile.
    pub(super) unsafe fn copy_from(&self, other: &Self, index: usize) {
        if self.start != other.start {
            // SAFETY: the caller's promise; different buffers do not overlap.
            unsafe { self.write(index).copy_from(other.read(index)) };
        }
    }

    /// Checks that there are as many matrices of the same size as in `other`.
    pub(super) fn like(self, other: &Self) -> Result<Self, String> {
        if (self.count, self.rows, self.columns) == (other.count, other.rows, other.columns) {
            Ok(self)
        } else {
            Err("operand and result differ in shape".into())
        }
    }
}

/// The rows of a buffer: its last dimension, or single elements.
pub(super) struct Vectors<T> {
    start: *mut T,
    pub(super) length: usize,
}

// SAFETY: each vector is used by one thread.
unsafe impl<T: Sync> Sync for Vectors<T> {}

impl<T> Vectors<T> {
    /// `count` vectors in `buffers[index]`.
    pub(super) fn new(buffers: &[CallBuffer], index: usize, count: usize) -> Result<Self, String> {
        let buffer = buffers.get(index).ok_or_else(|| format!("no buffer {index}"))?;
        let elements = buffer.dimensions.iter().product::<i64>();
        let elements = usize::try_from(elements).map_err(|_| format!("size {elements}"))?;
        Ok(Self { start: buffer.address.cast(), length: elements.checked_div(count).unwrap_or(0) })
    }

    /// Vector `index`.
    ///
    /// # Safety
    /// The buffer must hold it, and no one else may use it meanwhile.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn write(&self, index: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.wrapping_add(index * self.length), self.length) }
    }

    /// Writes vector `index`, or fills it with `missing`.
    ///
    /// # Safety
    /// As for `write`.
    pub(super) unsafe fn fill(&self, index: usize, values: Option<&[T]>, missing: T)
    where
        T: Copy,
    {
        // SAFETY: the caller's promise.
        let vector = unsafe { self.write(index) };
        match values {
            Some(values) if values.len() == vector.len() => vector.copy_from_slice(values),
            _ => vector.fill(missing),
        }
    }

    /// Writes the first element of vector `index`.
    ///
    /// # Safety
    /// As for `write`.
    pub(super) unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        if let Some(first) = unsafe { self.write(index) }.first_mut() {
            *first = value;
        }
    }
}
