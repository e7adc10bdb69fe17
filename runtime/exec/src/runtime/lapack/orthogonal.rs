//! `geqrf`, `orgqr` and `ormqr`: QR factorisation by Householder reflections, in LAPACK's packed form and with its signs.
//!
//! Reflection `k` is I - τ v vᴴ, with v zero above row `k` and one there; the rest of v stands below the diagonal of column `k`.

use super::{
    flag,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut, MatRef,
    traits::math_utils::{add, conj, mul, sub},
};
use linear_algebra::{Element, multiply_out, qr};

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
            qr(output.write(index), taus.write(index));
        }
    });
    Ok(())
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
