//! `syevd` (`heevd`) and `gesdd`: eigenvalues of symmetric matrices and singular values.

use super::{
    is_read, letter,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{
    RunContext,
    custom_call::CustomCall,
    linear_algebra::{for_each_group, for_each_matrix},
};
use faer::{
    Mat,
    traits::math_utils::{conj, from_real, real},
};
use linear_algebra::{Element, SingularVectors, Together};

/// (a) -> (eigenvectors in columns, eigenvalues, ascending, info).
pub(super) fn syevd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let lower = letter(call, "uplo")? == 'L';
    let with_vectors = letter(call, "mode")? == 'V' && is_read(call, [0]);
    let count = Matrices::<T>::new(&call.operands, 0)?.count;
    let info = Vectors::<i32>::new(&call.results, 2, count)?;
    hermitian::<T>(call, context, lower, with_vectors, |index, converges| {
        // SAFETY: the thread that has this matrix alone writes its number.
        unsafe { info.set(index, i32::from(!converges)) }
    })
}

/// XLA's `Eigh`: (a) -> (eigenvectors in columns, eigenvalues, ascending). The configuration is `lower,sorted,sweeps,tolerance`,
/// of which the triangle is heeded: eigenvalues are sorted and exact whatever is asked for.
pub(super) fn eigh<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    hermitian::<T>(call, context, !call.configuration.starts_with('0'), is_read(call, [0]), |_, _| {})
}

/// Eigenvectors and eigenvalues of matrices of which one triangle is read; `finish` is told of each whether it converged.
fn hermitian<T: Element>(
    call: &CustomCall,
    context: &RunContext,
    lower: bool,
    with_vectors: bool,
    finish: impl Fn(usize, bool) + Sync,
) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let vectors = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let values = Vectors::<T::Real>::new(&call.results, 1, input.count)?;
    if input.rows != input.columns || (input.count > 0 && values.length != input.rows) {
        return Err("the matrices are not square, or the eigenvalues do not fit".into());
    }
    let size = input.rows;
    let write = |index: usize, result: Option<Vec<T::Real>>| {
        // SAFETY: the thread that has this matrix alone writes what belongs to it.
        unsafe {
            if result.is_none() && with_vectors {
                vectors.write(index).fill(T::NAN);
            }
            values.fill(index, result.as_deref(), real(&T::NAN));
        }
        finish(index, result.is_some());
    };
    if Together::<T>::suits_hermitian(input.count, size) {
        for_each_group(context, input.count, 10 * size.pow(3), |group| {
            // SAFETY: this thread alone handles these matrices, which are read before anything is written.
            unsafe {
                let oriented = |index: usize| if lower { input.read(index) } else { input.read(index).transpose() };
                let found = Together::read(&group.clone().map(oriented).collect::<Vec<_>>()).hermitian_eigen();
                for (lane, index) in group.enumerate() {
                    write(index, found.write(lane, with_vectors.then(|| vectors.write(index)), !lower));
                }
            }
        });
        return Ok(());
    }
    for_each_matrix(context, input.count, 10 * size.pow(3), |index| {
        // SAFETY: this thread alone handles this matrix, whose copy is made before the result is written.
        unsafe {
            let matrix = input.read(index);
            // The lower triangle will be read, which is the adjoint of the upper one. A Hermitian matrix has a real diagonal:
            // what imaginary parts stand there is not read.
            let matrix = Mat::from_fn(size, size, |row, column| match lower {
                _ if row == column => from_real(&real(&matrix[(row, row)])),
                true => matrix[(row, column)],
                false => conj(&matrix[(column, row)]),
            });
            write(index, T::hermitian_eigen(matrix.as_ref(), with_vectors.then(|| vectors.write(index))));
        }
    });
    Ok(())
}

/// (a) -> (a destroyed, singular values, descending, u, vᴴ, info); `mode`: `A` square u and v, `S` thin ones, `N` none.
pub(super) fn gesdd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let wanted = match letter(call, "mode")? {
        'A' | 'S' if !is_read(call, [2, 3]) => SingularVectors::None,
        'A' => SingularVectors::Full,
        'S' => SingularVectors::Thin,
        'N' => SingularVectors::None,
        other => return Err(format!("no mode {other}")),
    };
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let values = Vectors::<T::Real>::new(&call.results, 1, input.count)?;
    let left = Matrices::<T>::new(&call.results, 2)?;
    let right = Matrices::<T>::new(&call.results, 3)?;
    let info = Vectors::<i32>::new(&call.results, 4, input.count)?;
    let (rows, columns) = (input.rows, input.columns);
    let size = rows.min(columns);
    let (left_columns, right_rows) = match wanted {
        SingularVectors::Full => (rows, columns),
        SingularVectors::Thin => (size, size),
        SingularVectors::None => (left.columns, right.rows),
    };
    let fits = (left.rows, left.columns, right.rows, right.columns) == (rows, left_columns, right_rows, columns);
    if input.count > 0 && (values.length != size || (wanted != SingularVectors::None && !fits)) {
        return Err("the results do not fit".into());
    }
    // One matrix by an iteration.
    let alone = |index: usize| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            let result = T::singular(input.read(index), wanted);
            info.set(index, i32::from(result.is_none()));
            values.fill(index, result.as_ref().map(|result| &result.values[..]), real(&T::NAN));
            if wanted == SingularVectors::None {
                return;
            }
            let (mut left, mut right) = (left.write(index), right.write(index));
            for row in 0..rows {
                for column in 0..left_columns {
                    left[(row, column)] = result.as_ref().map_or(T::NAN, |result| result.left[(row, column)]);
                }
            }
            for row in 0..right_rows {
                for column in 0..columns {
                    right[(row, column)] = result.as_ref().map_or(T::NAN, |result| conj(&result.right[(column, row)]));
                }
            }
        }
    };
    let has_all_columns = wanted != SingularVectors::Full || rows == columns;
    if !has_all_columns || !Together::<T>::suits_rotations(input.count, rows.max(columns)) {
        for_each_matrix(context, input.count, 20 * rows * columns * size, alone);
        return Ok(());
    }
    // The left vectors of a transposed matrix are the right ones, conjugated, and the other way round.
    let is_wide = columns > rows;
    for_each_group(context, input.count, 20 * rows * columns * size, |group| {
        // SAFETY: this thread alone handles these matrices, which are read before anything is written.
        unsafe {
            let oriented = |index: usize| if is_wide { input.read(index).transpose() } else { input.read(index) };
            let found = Together::read(&group.clone().map(oriented).collect::<Vec<_>>()).singular();
            for (lane, index) in group.enumerate() {
                let result = if wanted == SingularVectors::None {
                    found.write(lane, |_, _, _| {}, |_, _, _| {})
                } else {
                    let (mut left, mut right) = (left.write(index), right.write(index));
                    let mut to_left = |row, column, value| left[(row, column)] = value;
                    let mut to_right = |row, column, value| right[(column, row)] = value;
                    match is_wide {
                        false => found.write(lane, to_left, |row, column, value| to_right(row, column, conj(&value))),
                        true => found.write(lane, to_right, |row, column, value| to_left(row, column, conj(&value))),
                    }
                };
                match result {
                    Some(result) => {
                        info.set(index, 0);
                        values.fill(index, Some(&result), real(&T::NAN));
                    }
                    None => alone(index),
                }
            }
        }
    });
    Ok(())
}
