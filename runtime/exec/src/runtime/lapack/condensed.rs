//! `gehrd` and `sytrd` (`hetrd`): reduction to Hessenberg and tridiagonal form.

use super::{
    letter,
    matrices::{Matrices, Vectors},
    values,
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut,
    traits::math_utils::{conj, from_real, real, zero},
};
use linear_algebra::{Element, reduce};
use std::cmp::Ordering;

/// (a) -> (packed, taus, info): qᴴ a q is zero below the first subdiagonal, where the reflections that make q stand.
pub(super) fn gehrd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let taus = Vectors::<T>::new(&call.results, 1, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 2, input.count)?;
    let size = input.rows;
    let bound = |name: &str, whole: usize| {
        let [value] = values(call.configuration, [name]);
        value.is_none_or(|value| value.parse().is_ok_and(|value: usize| value == whole))
    };
    if size != input.columns || (input.count > 0 && taus.length + 1 < size) {
        return Err("the matrices are not square, or there are too few scalars".into());
    }
    if !bound("low", 1) || !bound("high", size) {
        return Err(format!("only whole matrices are reduced, not those of `{}`", call.configuration));
    }
    for_each_matrix(context, input.count, 10 * size.pow(3) / 3, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            let taus = taus.write(index);
            taus.fill(zero());
            reduce(output.write(index), taus);
            info.set(index, 0);
        }
    });
    Ok(())
}

/// (a) -> (packed, diagonal, off-diagonal, taus, info): qᴴ a q is tridiagonal. One triangle is read and written.
pub(super) fn sytrd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let lower = letter(call, "uplo")? == 'L';
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let diagonal = Vectors::<T::Real>::new(&call.results, 1, input.count)?;
    let beside = Vectors::<T::Real>::new(&call.results, 2, input.count)?;
    let taus = Vectors::<T>::new(&call.results, 3, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 4, input.count)?;
    let size = input.rows;
    let fits = diagonal.length == size && beside.length + 1 >= size && taus.length + 1 >= size;
    if size != input.columns || (input.count > 0 && !fits) {
        return Err("the matrices are not square, or the results do not fit".into());
    }
    for_each_matrix(context, input.count, 4 * size.pow(3) / 3, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            let (diagonal, beside, taus) = (diagonal.write(index), beside.write(index), taus.write(index));
            tridiagonalise(output.write(index), lower, diagonal, beside, taus);
            info.set(index, 0);
        }
    });
    Ok(())
}

fn tridiagonalise<T: Element>(
    matrix: MatMut<'_, T>,
    lower: bool,
    diagonal: &mut [T::Real],
    beside: &mut [T::Real],
    taus: &mut [T],
) {
    let size = matrix.nrows();
    // The upper triangle is the lower one of the matrix read backwards, and so are the results.
    let mut matrix = if lower { matrix } else { matrix.reverse_rows_and_cols_mut() };
    // A Hermitian matrix has a real diagonal: what imaginary parts stand there is not read.
    let mut whole = faer::Mat::from_fn(size, size, |row, column| match row.cmp(&column) {
        Ordering::Equal => from_real(&real(&matrix[(row, row)])),
        Ordering::Greater => matrix[(row, column)],
        Ordering::Less => conj(&matrix[(column, row)]),
    });
    taus.fill(zero());
    reduce(whole.as_mut(), taus);
    for column in 0..size {
        for row in column..size {
            matrix[(row, column)] = whole[(row, column)];
        }
        diagonal[column] = real(&whole[(column, column)]);
        if column + 1 < size {
            beside[column] = real(&whole[(column + 1, column)]);
        }
    }
    if !lower {
        diagonal.reverse();
        let count = size.saturating_sub(1);
        beside[..count].reverse();
        taus[..count].reverse();
    }
}
