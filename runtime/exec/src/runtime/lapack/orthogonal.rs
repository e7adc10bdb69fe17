//! `geqrf`, `orgqr` and `ormqr`: QR factorisation by Householder reflections, in LAPACK's packed form and with its signs.
//!
//! Reflection `k` is I - τ v vᴴ, with v zero above row `k` and one there; the rest of v stands below the diagonal of column `k`.

use super::{
    flag,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    Mat, MatMut, MatRef,
    prelude::{Reborrow, ReborrowMut},
    traits::{
        ComplexField,
        math_utils::{
            abs1, abs2, add, conj, from_real, imag, max, min_positive, mul, mul_real, neg, one, real, recip, sqrt,
            sqrt_max_positive, sqrt_min_positive, sub, zero,
        },
    },
};
use linear_algebra::Element;
use std::{cmp::Ordering, ops::Range};

/// (a) -> (packed, taus).
pub(super) fn geqrf<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let taus = Vectors::<T>::new(&call.results, 1, input.count)?;
    let steps = input.rows.min(input.columns);
    if input.count > 0 && taus.length < steps {
        return Err("too few scalars".into());
    }
    for_each_matrix(context, input.count, 2 * steps * input.rows * input.columns, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            factorise(output.write(index), taus.write(index));
        }
    });
    Ok(())
}

/// Reflections that are applied at once.
const BLOCK: usize = 32;

fn factorise<T: Element>(mut a: MatMut<'_, T>, taus: &mut [T]) {
    let (rows, columns) = a.shape();
    let steps = rows.min(columns);
    for begin in (0..steps).step_by(BLOCK) {
        let end = steps.min(begin + BLOCK);
        for step in begin..end {
            let tau = make_reflection(a.rb_mut(), step);
            taus[step] = tau;
            for column in step + 1..end {
                // The adjoint of the reflection.
                reflect(a.rb_mut(), step, column, conj(&tau));
            }
        }
        let (panel, open) = a.rb_mut().split_at_col_mut(end);
        Reflections::new(panel.rb(), begin..end, taus).apply(open, true);
    }
}

/// The product of consecutive reflections: I - V T Vᴴ.
struct Reflections<T: ComplexField> {
    /// The first row that they change.
    begin: usize,
    vectors: Mat<T>,
    /// An upper triangle.
    factor: Mat<T>,
}

impl<T: Element> Reflections<T> {
    fn new(packed: MatRef<'_, T>, steps: Range<usize>, taus: &[T]) -> Self {
        let begin = steps.start;
        let vectors = Mat::from_fn(packed.nrows() - begin, steps.len(), |row, column| match row.cmp(&column) {
            Ordering::Less => zero(),
            Ordering::Equal => one(),
            Ordering::Greater => packed[(begin + row, begin + column)],
        });
        // The negative of the vectors' products with each other.
        let mut products = Mat::zeros(steps.len(), steps.len());
        T::subtract_product(products.rb_mut(), vectors.rb(), true, vectors.rb());
        let mut factor = Mat::zeros(steps.len(), steps.len());
        for column in 0..steps.len() {
            let tau = taus[begin + column];
            factor[(column, column)] = tau;
            for row in 0..column {
                let terms = (row..column).map(|k| mul(&factor[(row, k)], &products[(k, column)]));
                let sum = terms.fold(zero(), |sum: T, term| add(&sum, &term));
                factor[(row, column)] = mul(&sum, &tau);
            }
        }
        Self { begin, vectors, factor }
    }

    /// Multiplies `c` by the product, or by its adjoint, from the left.
    fn apply(&self, c: MatMut<'_, T>, adjoint: bool) {
        if c.ncols() == 0 {
            return;
        }
        let (count, rows, columns) = (self.factor.nrows(), c.nrows(), c.ncols());
        let mut c = c.submatrix_mut(self.begin, 0, rows - self.begin, columns);
        // Both are subtracted from zero: the signs cancel.
        let (mut products, mut combined) = (Mat::zeros(count, columns), Mat::zeros(count, columns));
        T::subtract_product(products.rb_mut(), self.vectors.rb(), true, c.rb());
        T::subtract_product(combined.rb_mut(), self.factor.rb(), adjoint, products.rb());
        T::subtract_product(c.rb_mut(), self.vectors.rb(), false, combined.rb());
    }
}

/// Puts the reflection that clears column `step` below the diagonal there, the remaining entry on the diagonal; returns τ.
pub(super) fn make_reflection<T: Element>(mut a: MatMut<'_, T>, step: usize) -> T {
    let rows = a.nrows();
    let largest = (step..rows).map(|row| abs1(&a[(row, step)])).fold(zero(), |a, b| max::<T::Real>(&a, &b));
    // Numbers whose squares are no numbers are scaled; others keep their bits.
    let is_ordinary = largest > sqrt_min_positive() && largest < sqrt_max_positive();
    let unit = if is_ordinary { one() } else { max(&largest, &min_positive()) };
    let scaled = |value: &T| mul_real(value, &recip(&unit));
    let alpha = scaled(&a[(step, step)]);
    let below = (step + 1..rows).map(|row| abs2(&scaled(&a[(row, step)]))).fold(zero(), |sum, term| add(&sum, &term));
    if below == zero::<T::Real>() && imag(&alpha) == zero::<T::Real>() {
        return zero();
    }
    let norm = sqrt(&add(&abs2(&alpha), &below));
    let beta: T = from_real(&if real(&alpha) >= zero::<T::Real>() { neg(&norm) } else { norm });
    let scale = recip(&sub(&alpha, &beta));
    for row in step + 1..rows {
        a[(row, step)] = mul(&scaled(&a[(row, step)]), &scale);
    }
    a[(step, step)] = mul_real(&beta, &unit);
    mul(&sub(&beta, &alpha), &recip(&beta))
}

/// Applies I - τ v vᴴ, with v from column `step`, to `column`.
pub(super) fn reflect<T: ComplexField + Copy>(mut a: MatMut<'_, T>, step: usize, column: usize, tau: T) {
    let below = a.nrows() - step - 1;
    let (left, mut right) = a.rb_mut().split_at_col_mut(column);
    let vector = left.rb().col(step).subrows(step + 1, below);
    let (head, tail) = right.rb_mut().col_mut(0).split_at_row_mut(step + 1);
    let head = head.get_mut(step);
    let products = vector.iter().zip(tail.rb().iter()).map(|(vector, value)| mul(&conj(vector), value));
    let factor = mul(&tau, &products.fold(*head, |sum, term| add(&sum, &term)));
    *head = sub(head, &factor);
    tail.iter_mut().zip(vector.iter()).for_each(|(value, vector)| *value = sub(value, &mul(vector, &factor)));
}

/// (packed, taus) -> the first columns of the product of the reflections.
pub(super) fn orgqr<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let packed = Matrices::<T>::new(&call.operands, 0)?;
    let taus = Vectors::<T>::new(&call.operands, 1, packed.count)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&packed)?;
    let reflections = taus.length;
    if reflections > packed.columns || packed.columns > packed.rows {
        return Err("more columns than rows, or more reflections than columns".into());
    }
    for_each_matrix(context, packed.count, 2 * reflections * packed.rows * packed.columns, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&packed, index);
            multiply_out(output.write(index), taus.write(index));
        }
    });
    Ok(())
}

/// Replaces packed reflections by the leading columns of their product: from the last to the first, each is applied to the
/// columns right of it, then its own column becomes its product with a unit vector.
pub(super) fn multiply_out<T: Element>(mut q: MatMut<'_, T>, taus: &[T]) {
    let (rows, columns) = q.shape();
    for column in taus.len()..columns {
        for row in 0..rows {
            q[(row, column)] = if row == column { one() } else { zero() };
        }
    }
    for begin in (0..taus.len()).step_by(BLOCK).rev() {
        let end = taus.len().min(begin + BLOCK);
        let (panel, right) = q.rb_mut().split_at_col_mut(end);
        Reflections::new(panel.rb(), begin..end, taus).apply(right, false);
        for (step, tau) in (begin..end).zip(&taus[begin..end]).rev() {
            for column in step + 1..end {
                reflect(q.rb_mut(), step, column, *tau);
            }
            for row in 0..step {
                q[(row, step)] = zero();
            }
            q[(step, step)] = sub(&one::<T>(), tau);
            for row in step + 1..rows {
                q[(row, step)] = neg(&mul(&q[(row, step)], tau));
            }
        }
    }
}

/// (packed, taus, c) -> q c, or c q, or with qᴴ in place of q, where q is the product of the reflections.
pub(super) fn ormqr<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let (left, adjoint) = (flag(call, "left")?, flag(call, "transpose")?);
    let packed = Matrices::<T>::new(&call.operands, 0)?;
    let taus = Vectors::<T>::new(&call.operands, 1, packed.count)?;
    let c = Matrices::<T>::new(&call.operands, 2)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&c)?;
    let order = if left { c.rows } else { c.columns };
    if packed.count != c.count || packed.rows != order || taus.length > packed.columns.min(packed.rows) {
        return Err("the reflections do not fit the matrices".into());
    }
    for_each_matrix(context, c.count, 2 * taus.length * c.rows * c.columns, |index| {
        // SAFETY: this thread alone handles these matrices.
        unsafe {
            output.copy_from(&c, index);
            apply(packed.read(index), taus.write(index), output.write(index), left, adjoint);
        }
    });
    Ok(())
}

/// Multiplies `c` by the product of packed reflections, or by its adjoint.
fn apply<T: Element>(packed: MatRef<'_, T>, taus: &[T], c: MatMut<'_, T>, left: bool, adjoint: bool) {
    // c q is the transpose of qᵀ cᵀ, and a reflection's transpose is the one by the conjugate of its vector.
    let mut c = if left { c } else { c.transpose_mut() };
    let conjugated = |value: &T| if left { *value } else { conj(value) };
    let forwards = left == adjoint;
    let (rows, columns) = c.shape();
    for count in 0..taus.len() {
        let step = if forwards { count } else { taus.len() - 1 - count };
        let tau = if adjoint { conj(&taus[step]) } else { taus[step] };
        for column in 0..columns {
            let product = (step + 1..rows)
                .map(|row| mul(&conj(&conjugated(&packed[(row, step)])), &c[(row, column)]))
                .fold(c[(step, column)], |sum, term| add(&sum, &term));
            let factor = mul(&tau, &product);
            c[(step, column)] = sub(&c[(step, column)], &factor);
            for row in step + 1..rows {
                c[(row, column)] = sub(&c[(row, column)], &mul(&conjugated(&packed[(row, step)]), &factor));
            }
        }
    }
}
