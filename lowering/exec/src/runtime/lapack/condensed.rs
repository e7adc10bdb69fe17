//! `gehrd`, `sytrd` (`hetrd`) and `gtsv`: reduction to Hessenberg and tridiagonal form, and tridiagonal systems.

use super::{
    attribute, letter,
    matrices::{Matrices, Vectors},
    orthogonal::{make_reflection, reflect},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut,
    prelude::ReborrowMut,
    traits::math_utils::{abs1, add, conj, mul, real, recip, sub, zero},
};
use linear_algebra::Element;

/// (a) -> (packed, taus, info): qᴴ a q is zero below the first subdiagonal, where the reflections that make q stand.
pub(super) fn gehrd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let taus = Vectors::<T>::new(&call.results, 1, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 2, input.count)?;
    let size = input.rows;
    let bound =
        |name: &str, whole: usize| attribute(call.configuration, name).is_none_or(|value| value == whole as i64);
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

/// Similarity transformations by reflections, one a column.
fn reduce<T: Element>(mut a: MatMut<'_, T>, taus: &mut [T]) {
    let size = a.nrows();
    for (step, slot) in taus.iter_mut().enumerate().take(size.saturating_sub(1)) {
        let tau = make_reflection(a.rb_mut().submatrix_mut(1, 0, size - 1, size), step);
        *slot = tau;
        let v = |a: &MatMut<'_, T>, position: usize| {
            if position == 0 { faer::traits::math_utils::one() } else { a[(step + 1 + position, step)] }
        };
        for row in 0..size {
            let product = (0..size - step - 1)
                .map(|position| mul(&a[(row, step + 1 + position)], &v(&a, position)))
                .fold(zero::<T>(), |sum, term| add(&sum, &term));
            let factor = mul(&tau, &product);
            for position in 0..size - step - 1 {
                let change = mul(&factor, &conj(&v(&a, position)));
                a[(row, step + 1 + position)] = sub(&a[(row, step + 1 + position)], &change);
            }
        }
        for column in step + 1..size {
            reflect(a.rb_mut().submatrix_mut(1, 0, size - 1, size), step, column, conj(&tau));
        }
    }
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
    let mut whole = faer::Mat::from_fn(size, size, |row, column| {
        if row >= column { matrix[(row, column)] } else { conj(&matrix[(column, row)]) }
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

/// (below, diagonal, above, b) -> (below, diagonal, above, x, info): solves tridiagonal systems by elimination with row
/// exchanges. The first element of `below` and the last of `above` are not read; the three are given back as they are.
pub(super) fn gtsv<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let b = Matrices::<T>::new(&call.operands, 3)?;
    let x = Matrices::<T>::new(&call.results, 3)?.like(&b)?;
    let info = Vectors::<i32>::new(&call.results, 4, b.count)?;
    let vectors = |buffers, number| Vectors::<T>::new(buffers, number, b.count);
    let bands = [vectors(&call.operands, 0)?, vectors(&call.operands, 1)?, vectors(&call.operands, 2)?];
    let results = [vectors(&call.results, 0)?, vectors(&call.results, 1)?, vectors(&call.results, 2)?];
    if b.count > 0 && bands.iter().chain(&results).any(|band| band.length != b.rows) {
        return Err("the diagonals do not fit the right-hand sides".into());
    }
    for_each_matrix(context, b.count, 10 * b.rows * (b.columns + 1), |index| {
        // SAFETY: this thread alone handles this system.
        unsafe {
            x.copy_from(&b, index);
            let [below, diagonal, above] = bands.each_ref().map(|band| band.write(index).to_vec());
            for (result, band) in results.iter().zip([&below, &diagonal, &above]) {
                result.write(index).copy_from_slice(band);
            }
            info.set(index, solve_tridiagonal(below, diagonal, above, x.write(index)));
        }
    });
    Ok(())
}

/// Solves in place of the right-hand sides; the place of a zero pivot counted from 1, or 0.
fn solve_tridiagonal<T: Element>(
    mut below: Vec<T>,
    mut diagonal: Vec<T>,
    mut above: Vec<T>,
    mut b: MatMut<'_, T>,
) -> i32 {
    let (size, columns) = b.shape();
    // Row exchanges fill a second diagonal above.
    let mut second = vec![zero::<T>(); size];
    for row in 0..size {
        let next = row + 1;
        if next < size && abs1(&below[next]) > abs1(&diagonal[row]) {
            std::mem::swap(&mut diagonal[row], &mut below[next]);
            let (own, other) = (above[row], diagonal[next]);
            (above[row], diagonal[next]) = (other, own);
            if next + 1 < size {
                (second[row], above[next]) = (above[next], zero());
            }
            for column in 0..columns {
                let upper = b[(row, column)];
                b[(row, column)] = b[(next, column)];
                b[(next, column)] = upper;
            }
        }
        if diagonal[row] == zero::<T>() {
            return row as i32 + 1;
        }
        if next < size {
            let factor = mul(&below[next], &recip(&diagonal[row]));
            diagonal[next] = sub(&diagonal[next], &mul(&factor, &above[row]));
            above[next] = sub(&above[next], &mul(&factor, &second[row]));
            for column in 0..columns {
                b[(next, column)] = sub(&b[(next, column)], &mul(&factor, &b[(row, column)]));
            }
        }
    }
    for column in 0..columns {
        for row in (0..size).rev() {
            let mut rest = b[(row, column)];
            if row + 1 < size {
                rest = sub(&rest, &mul(&above[row], &b[(row + 1, column)]));
            }
            if row + 2 < size {
                rest = sub(&rest, &mul(&second[row], &b[(row + 2, column)]));
            }
            b[(row, column)] = mul(&rest, &recip(&diagonal[row]));
        }
    }
    0
}
