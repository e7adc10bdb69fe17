//! `dot` ("Dot", "DotGeneral") and `ragged-dot`.
//!
//! Both operands are brought to the order batch, free, contracted (rhs: batch, contracted, free) and multiplied
//! as matrices; floats are multiplied and summed in double precision and rounded once.

use bytemuck::Pod;
use num_complex::Complex64;

use super::EvalFailure;
use super::complex;
use super::convert::convert_scalar;
use super::data::{build, view};
use super::movement::transpose;
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::ArrayLiteral;
use hlo::ops::dot::DotDimensions;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// The number type that products are summed in.
pub(super) trait Accumulator: Copy + Pod + Default {
    /// `self + a * b`.
    fn add_product(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// The value of an element.
    fn from_scalar(value: Scalar) -> Self;
    /// The value to be rounded to the result's type.
    fn to_scalar(self, result: ElementType) -> Scalar;
}

impl Accumulator for f64 {
    #[inline]
    fn add_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }

    fn add(self, other: f64) -> f64 {
        self + other
    }

    #[inline]
    fn from_scalar(value: Scalar) -> f64 {
        value.to_float()
    }

    fn to_scalar(self, result: ElementType) -> Scalar {
        match result.class() {
            ElementClass::Float => Scalar::Float(self),
            _ => convert_scalar(Scalar::Float(self), result),
        }
    }
}

/// Integers of every width and sign: sums modulo 2^64 are right modulo any smaller power too. A `pred` result is
/// whether any product is true.
impl Accumulator for i64 {
    #[inline]
    fn add_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }

    fn add(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    fn from_scalar(value: Scalar) -> i64 {
        value.to_bits() as i64
    }

    fn to_scalar(self, result: ElementType) -> Scalar {
        match result.class() {
            ElementClass::Predicate => Scalar::Predicate(self != 0),
            ElementClass::Unsigned => Scalar::Unsigned(self as u64),
            ElementClass::Float => Scalar::Float(self as f64),
            ElementClass::Signed | ElementClass::Complex => Scalar::Signed(self),
        }
    }
}

impl Accumulator for Complex64 {
    #[inline]
    fn add_product(self, a: Complex64, b: Complex64) -> Complex64 {
        self + complex::multiply(a, b)
    }

    fn add(self, other: Complex64) -> Complex64 {
        self + other
    }

    fn from_scalar(value: Scalar) -> Complex64 {
        value.to_complex()
    }

    fn to_scalar(self, _: ElementType) -> Scalar {
        Scalar::Complex(self)
    }
}

/// Every element as an accumulator value.
pub(super) fn load_all<A: Accumulator>(array: &ArrayLiteral) -> Vec<A> {
    let element_type = array.element_type();
    match element_type {
        ElementType::F32 => view::<f32>(array).iter().map(|&x| A::from_scalar(Scalar::Float(x.into()))).collect(),
        ElementType::F64 => view::<f64>(array).iter().map(|&x| A::from_scalar(Scalar::Float(x))).collect(),
        ElementType::BF16 => {
            view::<half::bf16>(array).iter().map(|x| A::from_scalar(Scalar::Float(x.to_f64()))).collect()
        }
        _ => (0..array.shape().element_count() as usize)
            .map(|index| A::from_scalar(load(element_type, array.bytes(), index)))
            .collect(),
    }
}

/// Array of the given values, rounded to the result's type.
pub(super) fn store_all<A: Accumulator>(values: &[A], result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let element_type = result.element_type;
    build::<u8>(result, |target| {
        for (index, value) in values.iter().enumerate() {
            store(element_type, target, index, value.to_scalar(element_type));
        }
        Ok(())
    })
}

/// Runs a body with the accumulator type for operands and a result of the given types.
macro_rules! with_accumulator {
    ($types:expr, $accumulator:ident => $body:expr) => {{
        let types: [ElementType; 3] = $types;
        if types.iter().any(|t| t.is_complex()) {
            type $accumulator = Complex64;
            $body
        } else if types.iter().any(|t| t.is_float()) {
            type $accumulator = f64;
            $body
        } else {
            type $accumulator = i64;
            $body
        }
    }};
}
pub(super) use with_accumulator;

/// An operand in matrix order, with the sizes of its groups of dimensions.
struct Matrices {
    array: ArrayLiteral,
    batch: usize,
    free: usize,
    contracted: usize,
}

fn product(shape: &ArrayShape, dimensions: &[usize]) -> usize {
    dimensions.iter().map(|&d| shape.dimensions.get(d).map_or(0, |&size| size.max(0) as usize)).product()
}

impl Matrices {
    /// Dimensions in the order batch, free, contracted, or batch, contracted, free.
    fn new(
        operand: &ArrayLiteral,
        batch: &[usize],
        contracted: &[usize],
        contracted_last: bool,
    ) -> Result<Matrices, EvalFailure> {
        let shape = operand.shape();
        let free: Vec<usize> = (0..shape.rank()).filter(|d| !batch.contains(d) && !contracted.contains(d)).collect();
        let order: Vec<usize> = if contracted_last {
            batch.iter().chain(&free).chain(contracted).copied().collect()
        } else {
            batch.iter().chain(contracted).chain(&free).copied().collect()
        };
        let mut sizes = Vec::new();
        for &d in &order {
            let size = shape.dimensions.get(d);
            sizes.push(*size.ok_or_else(|| EvalFailure::malformed(format!("the operand has no dimension {d}")))?);
        }
        if sizes.len() != shape.rank() {
            return Err(EvalFailure::malformed("the dimension numbers do not fit the operand"));
        }
        let numbers: Vec<i64> = order.iter().map(|&d| d as i64).collect();
        Ok(Matrices {
            batch: product(shape, batch),
            free: product(shape, &free),
            contracted: product(shape, contracted),
            array: transpose(operand, &numbers, &ArrayShape::new(shape.element_type, sizes))?,
        })
    }
}

/// The sum of products over the contracted dimensions, for each batch index.
pub(super) fn dot(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    dimensions: &DotDimensions,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let lhs = Matrices::new(lhs, &dimensions.lhs_batch, &dimensions.lhs_contracting, true)?;
    let rhs = Matrices::new(rhs, &dimensions.rhs_batch, &dimensions.rhs_contracting, false)?;
    if lhs.batch != rhs.batch || lhs.contracted != rhs.contracted {
        return Err(EvalFailure::malformed("batch or contracted sizes differ"));
    }
    if lhs.batch * lhs.free * rhs.free != result.element_count() as usize {
        return Err(EvalFailure::malformed("the result does not have the size of the product"));
    }
    let types = [lhs.array.element_type(), rhs.array.element_type(), result.element_type];
    with_accumulator!(types, A => {
        let (a, b) = (load_all::<A>(&lhs.array), load_all::<A>(&rhs.array));
        let mut c = vec![A::default(); result.element_count() as usize];
        let (m, k, n) = (lhs.free, lhs.contracted, rhs.free);
        for batch in 0..lhs.batch {
            multiply(&a[batch * m * k..][..m * k], &b[batch * k * n..][..k * n], &mut c[batch * m * n..][..m * n], [m, k, n]);
        }
        store_all(&c, result)
    })
}

/// Rows that share one pass over the right matrix, and columns that stay in the first-level cache.
const ROWS: usize = 4;
const COLUMNS: usize = 256;

/// Partial sums of a product of two rows: independent, so that they can be vectorised.
const LANES: usize = 8;

/// c = a b for row-major matrices of sizes m × k and k × n; c is zero before.
fn multiply<A: Accumulator>(a: &[A], b: &[A], c: &mut [A], [m, k, n]: [usize; 3]) {
    if k == 0 || m == 0 || n == 0 {
        return;
    }
    if n < LANES {
        let columns: Vec<A> = (0..n * k).map(|p| b[p % k * n + p / k]).collect();
        for (a, c) in a.chunks(k).zip(c.chunks_mut(n)) {
            columns.chunks(k).zip(c).for_each(|(b, c)| *c = row_product(a, b));
        }
        return;
    }
    for first in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - first);
        for row in (0..m).step_by(ROWS) {
            let mut sums = [[A::default(); COLUMNS]; ROWS];
            let rows = ROWS.min(m - row);
            if rows == ROWS {
                four_rows(&a[row * k..], &b[first..], &mut sums, [k, n, width]);
            } else {
                for (a, sums) in a[row * k..].chunks(k).zip(&mut sums).take(rows) {
                    one_row(a, &b[first..], &mut sums[..width], n);
                }
            }
            for (r, sums) in sums.iter().enumerate().take(rows) {
                c[(row + r) * n + first..][..width].copy_from_slice(&sums[..width]);
            }
        }
    }
}

#[multiversion::multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn row_product<A: Accumulator>(a: &[A], b: &[A]) -> A {
    let mut sums = [A::default(); LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] = sums[lane].add_product(a[lane], b[lane]);
        }
    }
    let rest = rest.fold(A::default(), |sum, (&a, &b)| sum.add_product(a, b));
    sums.iter().fold(rest, |sum, &part| sum.add(part))
}

#[multiversion::multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn four_rows<A: Accumulator>(a: &[A], b: &[A], sums: &mut [[A; COLUMNS]; ROWS], [k, n, width]: [usize; 3]) {
    let [s0, s1, s2, s3] = sums;
    let (s0, s1, s2, s3) = (&mut s0[..width], &mut s1[..width], &mut s2[..width], &mut s3[..width]);
    for step in 0..k {
        let b = &b[step * n..][..width];
        let (a0, a1, a2, a3) = (a[step], a[k + step], a[2 * k + step], a[3 * k + step]);
        for j in 0..width {
            s0[j] = s0[j].add_product(a0, b[j]);
            s1[j] = s1[j].add_product(a1, b[j]);
            s2[j] = s2[j].add_product(a2, b[j]);
            s3[j] = s3[j].add_product(a3, b[j]);
        }
    }
}

#[multiversion::multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn one_row<A: Accumulator>(a: &[A], b: &[A], sums: &mut [A], n: usize) {
    for (step, &factor) in a.iter().enumerate() {
        for (sum, &b) in sums.iter_mut().zip(&b[step * n..]) {
            *sum = sum.add_product(factor, b);
        }
    }
}
