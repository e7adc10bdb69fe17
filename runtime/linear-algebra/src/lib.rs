//! Dense factorisations by the faer crate, for the four element types that programs have.
//!
//! A crate of its own for the sake of build time: faer is generic, its code is generated where it is used, and that takes
//! longer than the whole runtime. Here it happens once.

mod cholesky;
mod jacobi;
mod lu;
mod panel;
mod pivoted_qr;
mod range;
mod reflections;
mod substitution;
mod together;
mod values;

pub use jacobi::{EigenTogether, SingularTogether};
pub use lu::lu;
pub use panel::call_in_vectors;
pub use pivoted_qr::pivoted_qr;
pub use reflections::{multiply_out, qr, reduce};
pub use together::{TOGETHER, Together};

use std::ops::{Div, Mul, Sub};

use faer::{
    Accum, Auto, Conj, Mat, MatMut, MatRef, Par, Spec,
    diag::Diag,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        evd::{ComputeEigenvectors, SelfAdjointEvdParams, self_adjoint_evd, self_adjoint_evd_scratch},
        matmul::matmul_with_conj,
        svd::{ComputeSvdVectors, SvdParams, svd, svd_scratch},
        triangular_solve::{
            solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
            solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
        },
        zip,
    },
    traits::{
        ComplexField,
        math_utils::{is_finite, neg, one, real, recip},
    },
    unzip, zip,
};
use substitution::substitute;

/// How a triangular matrix `a` is to be read, and on which side of the unknown it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriangularSystem {
    /// `op(a) x = b` rather than `x op(a) = b`.
    pub left_side: bool,
    /// The lower triangle is read, rather than the upper one.
    pub lower: bool,
    /// The diagonal is taken to be ones and not read.
    pub unit_diagonal: bool,
    /// `op` transposes.
    pub transposed: bool,
    /// `op` conjugates.
    pub conjugated: bool,
}

/// Singular vectors to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingularVectors {
    /// None.
    None,
    /// As many as there are singular values.
    Thin,
    /// Square matrices of them.
    Full,
}

/// A matrix element.
pub trait Element:
    ComplexField<Real: Copy> + Copy + Send + Sync + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Not a number.
    const NAN: Self;

    /// Whether `f64` has twice as many digits.
    const IS_SINGLE: bool;

    /// A real number of the type's precision.
    fn widen(real: Self::Real) -> f64;

    /// The nearest number of the type's precision.
    fn narrow(real: f64) -> Self::Real;

    /// Replaces the lower triangle of a Hermitian matrix, which is read, by its Cholesky factor; if the matrix is not positive
    /// definite, by NaN, and the error is the order of its first leading minor that is not. The other triangle stays.
    fn cholesky(matrix: MatMut<'_, Self>) -> Result<(), usize>;

    /// Replaces the right-hand side `b` by the solution of a triangular system.
    fn solve_triangular(a: MatRef<'_, Self>, b: MatMut<'_, Self>, system: TriangularSystem);

    /// Subtracts the product of two matrices, or of the adjoint of the first with the second, from `target`.
    fn subtract_product(target: MatMut<'_, Self>, a: MatRef<'_, Self>, adjoint: bool, b: MatRef<'_, Self>);

    /// Eigenvalues of a Hermitian matrix, in ascending order, and if wanted the eigenvectors as columns. The lower triangle
    /// is read. `None` if the matrix is not finite or the iteration does not end.
    fn hermitian_eigen(matrix: MatRef<'_, Self>, vectors: Option<MatMut<'_, Self>>) -> Option<Vec<Self::Real>>;

    /// Singular values in descending order, and the left and right singular vectors as columns. `None` if the matrix is not
    /// finite or the iteration does not end.
    fn singular(matrix: MatRef<'_, Self>, vectors: SingularVectors) -> Option<Singular<Self>>;
}

/// Singular values and vectors.
pub struct Singular<T: ComplexField> {
    /// The values, in descending order.
    pub values: Vec<T::Real>,
    /// Left vectors as columns.
    pub left: Mat<T>,
    /// Right vectors as columns.
    pub right: Mat<T>,
}

macro_rules! element {
    ($element:ty, $real:ident, $nan:expr) => {
        impl Element for $element {
            const NAN: Self = $nan;
            const IS_SINGLE: bool = $real::MANTISSA_DIGITS < f64::MANTISSA_DIGITS;

            fn widen(real: Self::Real) -> f64 {
                real.into()
            }

            fn narrow(real: f64) -> Self::Real {
                real as $real
            }

            fn cholesky(matrix: MatMut<'_, Self>) -> Result<(), usize> {
                cholesky(matrix)
            }

            fn solve_triangular(a: MatRef<'_, Self>, b: MatMut<'_, Self>, system: TriangularSystem) {
                solve_triangular(a, b, system);
            }

            fn subtract_product(target: MatMut<'_, Self>, a: MatRef<'_, Self>, adjoint: bool, b: MatRef<'_, Self>) {
                subtract_product(target, a, adjoint, b);
            }

            fn hermitian_eigen(matrix: MatRef<'_, Self>, vectors: Option<MatMut<'_, Self>>) -> Option<Vec<Self::Real>> {
                match range::scaled(matrix, |row, column| row >= column) {
                    Some((scaled, factor)) => {
                        hermitian_eigen(scaled.as_ref(), vectors).map(|values| range::unscaled::<Self>(values, factor))
                    }
                    None => hermitian_eigen(matrix, vectors),
                }
            }

            fn singular(matrix: MatRef<'_, Self>, vectors: SingularVectors) -> Option<Singular<Self>> {
                let Some((scaled, factor)) = range::scaled(matrix, |_, _| true) else {
                    return singular(matrix, vectors);
                };
                let found = singular(scaled.as_ref(), vectors)?;
                Some(Singular { values: range::unscaled::<Self>(found.values, factor), ..found })
            }
        }
    };
}

element!(f32, f32, f32::NAN);
element!(f64, f64, f64::NAN);
element!(faer::c32, f32, faer::c32 { re: f32::NAN, im: f32::NAN });
element!(faer::c64, f64, faer::c64 { re: f64::NAN, im: f64::NAN });

fn cholesky<T: Element>(mut matrix: MatMut<'_, T>) -> Result<(), usize> {
    let result = cholesky::factorise(matrix.as_mut());
    if result.is_err() {
        zip!(matrix).for_each_triangular_lower(zip::Diag::Include, |unzip!(element)| *element = T::NAN);
    }
    result
}

fn solve_triangular<T: Element>(a: MatRef<'_, T>, b: MatMut<'_, T>, system: TriangularSystem) {
    // x op(a) = b is op(a)ᵀ xᵀ = bᵀ.
    let (b, transposed) =
        if system.left_side { (b, system.transposed) } else { (b.transpose_mut(), !system.transposed) };
    let (a, lower) = if transposed { (a.transpose(), !system.lower) } else { (a, system.lower) };
    // faer multiplies by reciprocals, and by zero what is infinite then: NaN, where a quotient is infinite.
    let divides = || !system.unit_diagonal && (0..a.nrows()).any(|place| !is_finite(&recip(&a[(place, place)])));
    if substitution::suits(a.nrows(), b.ncols()) || divides() {
        return substitute(a, b, TriangularSystem { left_side: true, transposed: false, lower, ..system });
    }
    let conjugated = if system.conjugated { Conj::Yes } else { Conj::No };
    match (lower, system.unit_diagonal) {
        (true, false) => solve_lower_triangular_in_place_with_conj(a, conjugated, b, Par::Seq),
        (true, true) => solve_unit_lower_triangular_in_place_with_conj(a, conjugated, b, Par::Seq),
        (false, false) => solve_upper_triangular_in_place_with_conj(a, conjugated, b, Par::Seq),
        (false, true) => solve_unit_upper_triangular_in_place_with_conj(a, conjugated, b, Par::Seq),
    }
}

fn subtract_product<T: Element>(target: MatMut<'_, T>, a: MatRef<'_, T>, adjoint: bool, b: MatRef<'_, T>) {
    let (a, conjugated) = if adjoint { (a.transpose(), Conj::Yes) } else { (a, Conj::No) };
    matmul_with_conj(target, Accum::Add, a, conjugated, b, Conj::No, neg(&one::<T>()), Par::Seq);
}

/// Subtracts the product of a matrix with the adjoint of another.
fn subtract_product_with_adjoint<T: Element>(target: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    matmul_with_conj(target, Accum::Add, a, Conj::No, b.transpose(), Conj::Yes, neg(&one::<T>()), Par::Seq);
}

/// Size of a matrix from which on eigenvalues come with their vectors from those of its halves: to rotate all vectors for each step of an
/// iteration takes longer. Singular values do not: where halves of less than 128 rows are nearly singular, faer loses digits of them.
const ITERATED: usize = 64;

fn hermitian_eigen<T: Element>(matrix: MatRef<'_, T>, vectors: Option<MatMut<'_, T>>) -> Option<Vec<T::Real>> {
    let size = matrix.nrows();
    let is_readable = (0..size).all(|column| (column..size).all(|row| is_finite(&matrix[(row, column)])));
    if !is_readable {
        return None;
    }
    if vectors.is_none()
        && T::IS_SINGLE
        && let Some(values) = values::eigenvalues(matrix)
    {
        return Some(values);
    }
    let compute = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let mut parameters = <SelfAdjointEvdParams as Auto<T>>::auto();
    parameters.recursion_threshold = ITERATED;
    let parameters = Spec::from(parameters);
    let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<T>(size, compute, Par::Seq, parameters));
    let mut values = Diag::<T>::zeros(size);
    let stack = MemStack::new(&mut memory);
    // Rotations of columns are vectors only where columns are contiguous.
    let mut columns = vectors.as_ref().map(|_| Mat::<T>::zeros(size, size));
    let found = columns.as_mut().map(|columns| columns.as_mut());
    self_adjoint_evd(matrix, values.as_mut(), found, Par::Seq, stack, parameters).ok()?;
    if let (Some(mut vectors), Some(columns)) = (vectors, columns) {
        vectors.copy_from(&columns);
    }
    Some((0..size).map(|place| real(&values[place])).collect())
}

fn singular<T: Element>(matrix: MatRef<'_, T>, vectors: SingularVectors) -> Option<Singular<T>> {
    let (rows, columns) = matrix.shape();
    let size = rows.min(columns);
    // Iterations on NaN or infinity need not end.
    let is_readable = (0..columns).all(|column| (0..rows).all(|row| is_finite(&matrix[(row, column)])));
    if !is_readable {
        return None;
    }
    if vectors == SingularVectors::None
        && T::IS_SINGLE
        && let Some(values) = values::singular_values(matrix)
    {
        return Some(Singular { values, left: Mat::zeros(rows, 0), right: Mat::zeros(columns, 0) });
    }
    let (compute, left, right) = match vectors {
        SingularVectors::None => (ComputeSvdVectors::No, 0, 0),
        SingularVectors::Thin => (ComputeSvdVectors::Thin, size, size),
        SingularVectors::Full => (ComputeSvdVectors::Full, rows, columns),
    };
    let parameters = Spec::from(<SvdParams as Auto<T>>::auto());
    let mut memory = MemBuffer::new(svd_scratch::<T>(rows, columns, compute, compute, Par::Seq, parameters));
    let mut values = Diag::<T>::zeros(size);
    let (mut left, mut right) = (Mat::<T>::zeros(rows, left), Mat::<T>::zeros(columns, right));
    let wanted = vectors != SingularVectors::None;
    svd(
        matrix,
        values.as_mut(),
        wanted.then(|| left.as_mut()),
        wanted.then(|| right.as_mut()),
        Par::Seq,
        MemStack::new(&mut memory),
        parameters,
    )
    .ok()?;
    Some(Singular { values: (0..size).map(|place| real(&values[place])).collect(), left, right })
}
