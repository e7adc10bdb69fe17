//! Cholesky factorisation and triangular solves of batches of matrices, through the crate `linear-algebra`.
//!
//! Semantics: HLO `cholesky` and `triangular-solve` (XLA operation semantics, same names). Matrices are row-major and
//! contiguous, one after the other.

use super::{RunContext, context::context_at, primitive_type};
use crate::thread_pool::{for_each_chunk, grain_for_cost};
use faer::{MatMut, MatRef, linalg::zip::Diag, prelude::ReborrowMut, traits::math_utils::zero, unzip, zip};
use linear_algebra::{Element, TOGETHER, Together, TriangularSystem};
use std::{ops::Range, sync::Mutex};

/// What to factorise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CholeskyDescriptor {
    /// Element type, as XLA's `PrimitiveType`.
    pub element_type: i64,
    /// Number of matrices.
    pub batch: i64,
    /// Rows and columns.
    pub size: i64,
    /// Whether the lower triangle is read and produced, rather than the upper one.
    pub lower: i64,
}

/// What to solve.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TriangularSolveDescriptor {
    /// Element type, as XLA's `PrimitiveType`.
    pub element_type: i64,
    /// Number of systems.
    pub batch: i64,
    /// Rows of each right-hand side.
    pub rows: i64,
    /// Columns of each right-hand side.
    pub columns: i64,
    /// Whether to solve `op(a) x = b` rather than `x op(a) = b`.
    pub left_side: i64,
    /// Whether `a` is lower triangular; the other triangle is not read.
    pub lower: i64,
    /// Whether the diagonal of `a` is taken to be ones, and not read.
    pub unit_diagonal: i64,
    /// `op`: 0 nothing, 1 transpose, 2 conjugate transpose.
    pub transpose: i64,
}

/// Dispatches on an element type.
macro_rules! with_element {
    ($code:expr, $call:ident($($argument:expr),* $(,)?)) => {
        match $code {
            primitive_type::F32 => $call::<f32>($($argument),*),
            primitive_type::F64 => $call::<f64>($($argument),*),
            primitive_type::C64 => $call::<faer::c32>($($argument),*),
            primitive_type::C128 => $call::<faer::c64>($($argument),*),
            other => return Err(format!("no matrices of type {other}")),
        }
    };
}

/// Addresses of matrices, of which each is used by one thread.
#[derive(Clone, Copy)]
struct Batch<T> {
    start: *mut T,
    size: usize,
}

// SAFETY: each matrix is used by one thread.
unsafe impl<T> Sync for Batch<T> {}

impl<T> Batch<T> {
    fn at(self, index: usize) -> *mut T {
        self.start.wrapping_add(index * self.size)
    }
}

/// Factorises symmetric or Hermitian positive definite matrices: `a = l lᴴ` or `a = uᴴ u`. The other triangle of the result
/// is zero; a matrix that is not positive definite gives NaN. `input` and `output` may be equal.
///
/// # Safety
/// `context` must be null or live; the buffers must hold the described matrices.
pub unsafe extern "C" fn halo_cholesky(
    context: *const RunContext,
    descriptor: *const CholeskyDescriptor,
    input: *const u8,
    output: *mut u8,
) {
    // SAFETY: the caller's promise.
    let (context, descriptor) = unsafe { (context_at(context), &*descriptor) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("cholesky", || {
        let (batch, size) = (dimension(descriptor.batch)?, dimension(descriptor.size)?);
        let lower = descriptor.lower != 0;
        with_element!(descriptor.element_type, cholesky(context, batch, size, lower, input.cast(), output.cast()));
        Ok(())
    });
}

fn dimension(value: i64) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("size {value}"))
}

fn cholesky<T: Element>(context: &RunContext, batch: usize, size: usize, lower: bool, input: *const T, output: *mut T) {
    let (input, output) =
        (Batch { start: input.cast_mut(), size: size * size }, Batch { start: output, size: size * size });
    if Together::<T>::suits(batch, size, size) {
        return for_each_group(context, batch, size * size * size / 6, move |group| {
            let strides = if lower { (size as isize, 1) } else { (1, size as isize) };
            // SAFETY: this thread alone uses these matrices; what is written was read before.
            let read = |index: usize| unsafe {
                MatRef::from_raw_parts(input.at(index).cast_const(), size, size, strides.0, strides.1)
            };
            let mut together = Together::read(&group.clone().map(read).collect::<Vec<_>>());
            let failed = together.cholesky();
            for (lane, index) in group.enumerate() {
                // SAFETY: as above.
                let mut matrix =
                    unsafe { MatMut::from_raw_parts_mut(output.at(index), size, size, strides.0, strides.1) };
                matrix.fill(if failed[lane] > 0 { T::NAN } else { zero() });
                together.write(lane, matrix, |row, column| column <= row);
            }
        });
    }
    for_each_matrix(context, batch, size * size * size / 6, move |index| {
        if input.at(index) != output.at(index) {
            // SAFETY: both hold a matrix, and do not overlap as they are not equal.
            unsafe { std::ptr::copy_nonoverlapping(input.at(index), output.at(index), size * size) };
        }
        // The transposed view of the upper triangle is a lower one: uᵀ of a symmetric, the conjugate of uᴴ of a Hermitian
        // matrix, whose factor is the conjugate of lᴴ's, which is uᵀ again.
        let (row_stride, column_stride) = if lower { (size as isize, 1) } else { (1, size as isize) };
        // SAFETY: this thread alone uses the matrix.
        let mut matrix = unsafe { MatMut::from_raw_parts_mut(output.at(index), size, size, row_stride, column_stride) };
        let result = T::cholesky(matrix.rb_mut());
        let other = if result.is_ok() { zero() } else { T::NAN };
        zip!(matrix).for_each_triangular_upper(Diag::Skip, |unzip!(element)| *element = other);
    });
}

/// Solves triangular systems. `b` and `output` may be equal.
///
/// # Safety
/// `context` must be null or live; the buffers must hold the described matrices.
pub unsafe extern "C" fn halo_triangular_solve(
    context: *const RunContext,
    descriptor: *const TriangularSolveDescriptor,
    a: *const u8,
    b: *const u8,
    output: *mut u8,
) {
    // SAFETY: the caller's promise.
    let (context, descriptor) = unsafe { (context_at(context), &*descriptor) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("triangular-solve", || {
        let (rows, columns) = (dimension(descriptor.rows)?, dimension(descriptor.columns)?);
        let batch = dimension(descriptor.batch)?;
        if !(0..=2).contains(&descriptor.transpose) {
            return Err(format!("no transposition {}", descriptor.transpose));
        }
        let system = TriangularSystem {
            left_side: descriptor.left_side != 0,
            lower: descriptor.lower != 0,
            unit_diagonal: descriptor.unit_diagonal != 0,
            transposed: descriptor.transpose != 0,
            conjugated: descriptor.transpose == 2,
        };
        with_element!(
            descriptor.element_type,
            triangular_solve(context, batch, [rows, columns], system, a.cast(), b.cast(), output.cast())
        );
        Ok(())
    });
}

fn triangular_solve<T: Element>(
    context: &RunContext,
    batch: usize,
    [rows, columns]: [usize; 2],
    system: TriangularSystem,
    a: *const T,
    b: *const T,
    output: *mut T,
) {
    let size = if system.left_side { rows } else { columns };
    let a = Batch { start: a.cast_mut(), size: size * size };
    let (b, output) =
        (Batch { start: b.cast_mut(), size: rows * columns }, Batch { start: output, size: rows * columns });
    if Together::<T>::suits_sides(batch, rows, columns) {
        return for_each_group(context, batch, size * rows * columns / 4, move |group| {
            let read = |from: Batch<T>, rows: usize, columns: usize| {
                // SAFETY: `a` is only read, and this thread alone uses its part of the others; what is written was read before.
                let matrix = |index: usize| unsafe {
                    MatRef::from_raw_parts(from.at(index).cast_const(), rows, columns, columns as isize, 1)
                };
                Together::read(&group.clone().map(matrix).collect::<Vec<_>>())
            };
            let (a, mut x) = (read(a, size, size), read(b, rows, columns));
            x.solve(&a, system);
            for (lane, index) in group.clone().enumerate() {
                // SAFETY: as above.
                let matrix =
                    unsafe { MatMut::from_raw_parts_mut(output.at(index), rows, columns, columns as isize, 1) };
                x.write(lane, matrix, |_, _| true);
            }
        });
    }
    for_each_matrix(context, batch, size * rows * columns / 4, move |index| {
        if b.at(index) != output.at(index) {
            // SAFETY: both hold a matrix, and do not overlap as they are not equal.
            unsafe { std::ptr::copy_nonoverlapping(b.at(index), output.at(index), rows * columns) };
        }
        // SAFETY: `a` is only read, and this thread alone uses its part of the output.
        let (a, x) = unsafe {
            (
                MatRef::from_raw_parts(a.at(index).cast_const(), size, size, size as isize, 1),
                MatMut::from_raw_parts_mut(output.at(index), rows, columns, columns as isize, 1),
            )
        };
        T::solve_triangular(a, x, system);
    });
}

/// As [`for_each_matrix`], of as many matrices at once as are computed together.
pub(super) fn for_each_group(context: &RunContext, count: usize, cost: usize, body: impl Fn(Range<usize>) + Sync) {
    for_each_matrix(context, count.div_ceil(TOGETHER), cost * TOGETHER, |group| {
        let first = group * TOGETHER;
        body(first..count.min(first + TOGETHER));
    });
}

/// Runs `body` for each matrix of a batch, in parallel if that is worth it; `cost` is in nanoseconds for each. A panic of the
/// body is passed on on this thread, where it can be caught.
pub(super) fn for_each_matrix(context: &RunContext, count: usize, cost: usize, body: impl Fn(usize) + Sync) {
    let Some(threads) = context.threads() else {
        return (0..count).for_each(body);
    };
    let panic = Mutex::new(None);
    for_each_chunk(threads, count, grain_for_cost(cost as u64) as usize, |begin, end| {
        let chunk = std::panic::AssertUnwindSafe(|| (begin..end).for_each(&body));
        if let Err(payload) = std::panic::catch_unwind(chunk) {
            panic.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(payload);
        }
    });
    if let Some(payload) = panic.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        std::panic::resume_unwind(payload);
    }
}
