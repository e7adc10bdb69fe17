//! `dot` ("Punto", "DotGeneral") and `ragged-dot`.
//!
//! Both operands are brought to the order batch, free, contracted (rhs: batch, contracted, free) and multiplied
//! as matrices; floats are multiplied and summed in double precision and rounded once.

use bytemuck::Pod;
use num_complex::Complex64;

use super::Failure;
use super::complex;
use super::data::{build, view};
use super::movement::transpose;
use super::scalar::{Scalar, load, store};
use crate::attributes::Attributes;
use crate::element_type::{ElementClass, ElementType};
use crate::literal::ArrayLiteral;
use crate::shape::ArrayShape;

/// The number type that products are summed in.
pub(super) trait Accumulator: Copy + Pod + Default {
    /// `self + a * b`.
    fn add_product(self, a: Self, b: Self) -> Self;
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

    fn from_scalar(value: Scalar) -> f64 {
        value.to_float()
    }

    fn to_scalar(self, _: ElementType) -> Scalar {
        Scalar::Float(self)
    }
}

/// Integers of every width and sign: sums modulo 2^64 are right modulo any smaller power too. A `pred` result is
/// whether any product is true.
impl Accumulator for i64 {
    #[inline]
    fn add_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
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
        _ => (0..array.shape().element_count() as usize)
            .map(|index| A::from_scalar(load(element_type, array.bytes(), index)))
            .collect(),
    }
}

/// Array of the given values, rounded to the result's type.
pub(super) fn store_all<A: Accumulator>(values: &[A], result: &ArrayShape) -> Result<ArrayLiteral, Failure> {
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

fn product(shape: &ArrayShape, dimensions: &[i64]) -> usize {
    dimensions.iter().map(|&d| shape.dimensions.get(d as usize).map_or(0, |&size| size.max(0) as usize)).product()
}

impl Matrices {
    /// Dimensions in the order batch, free, contracted, or batch, contracted, free.
    fn new(
        operand: &ArrayLiteral,
        batch: &[i64],
        contracted: &[i64],
        contracted_last: bool,
    ) -> Result<Matrices, Failure> {
        let shape = operand.shape();
        let free: Vec<i64> =
            (0..shape.rank() as i64).filter(|d| !batch.contains(d) && !contracted.contains(d)).collect();
        let order: Vec<i64> = if contracted_last {
            batch.iter().chain(&free).chain(contracted).copied().collect()
        } else {
            batch.iter().chain(contracted).chain(&free).copied().collect()
        };
        let mut sizes = Vec::new();
        for &d in &order {
            let size = usize::try_from(d).ok().and_then(|d| shape.dimensions.get(d));
            sizes.push(*size.ok_or_else(|| Failure::malformed(format!("the operand has no dimension {d}")))?);
        }
        if sizes.len() != shape.rank() {
            return Err(Failure::malformed("the dimension numbers do not fit the operand"));
        }
        Ok(Matrices {
            batch: product(shape, batch),
            free: product(shape, &free),
            contracted: product(shape, contracted),
            array: transpose(operand, &order, &ArrayShape::new(shape.element_type, sizes))?,
        })
    }
}

/// The sum of products over the contracted dimensions, for each batch index.
pub(super) fn dot(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    attributes: &Attributes,
    result: &ArrayShape,
) -> Result<ArrayLiteral, Failure> {
    let lhs =
        Matrices::new(lhs, attributes.ints("lhs_batch_dims"), attributes.ints("lhs_contracting_dims"), true)?;
    let rhs =
        Matrices::new(rhs, attributes.ints("rhs_batch_dims"), attributes.ints("rhs_contracting_dims"), false)?;
    if lhs.batch != rhs.batch || lhs.contracted != rhs.contracted {
        return Err(Failure::malformed("batch or contracted sizes differ"));
    }
    if lhs.batch * lhs.free * rhs.free != result.element_count() as usize {
        return Err(Failure::malformed("the result does not have the size of the product"));
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

/// c += a b for row-major matrices of sizes m × k and k × n.
pub(super) fn multiply<A: Accumulator>(a: &[A], b: &[A], c: &mut [A], [m, k, n]: [usize; 3]) {
    if n == 1 {
        for (row, c) in c.iter_mut().enumerate() {
            *c = a[row * k..][..k].iter().zip(b).fold(*c, |sum, (&a, &b)| sum.add_product(a, b));
        }
        return;
    }
    for first in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - first);
        for row in (0..m).step_by(ROWS) {
            let rows = ROWS.min(m - row);
            if rows == ROWS {
                let mut sums = [[A::default(); COLUMNS]; ROWS];
                let [s0, s1, s2, s3] = &mut sums;
                let (s0, s1, s2, s3) = (&mut s0[..width], &mut s1[..width], &mut s2[..width], &mut s3[..width]);
                for step in 0..k {
                    let b = &b[step * n + first..][..width];
                    let factor = |r: usize| a[(row + r) * k + step];
                    let (a0, a1, a2, a3) = (factor(0), factor(1), factor(2), factor(3));
                    for j in 0..width {
                        s0[j] = s0[j].add_product(a0, b[j]);
                        s1[j] = s1[j].add_product(a1, b[j]);
                        s2[j] = s2[j].add_product(a2, b[j]);
                        s3[j] = s3[j].add_product(a3, b[j]);
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    c[(row + r) * n + first..][..width].copy_from_slice(&sums[..width]);
                }
            } else {
                for row in row..row + rows {
                    let c = &mut c[row * n + first..][..width];
                    for step in 0..k {
                        let factor = a[row * k + step];
                        for (c, &b) in c.iter_mut().zip(&b[step * n + first..][..width]) {
                            *c = c.add_product(factor, b);
                        }
                    }
                }
            }
        }
    }
}
