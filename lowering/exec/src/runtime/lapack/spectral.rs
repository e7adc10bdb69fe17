//! `syevd` (`heevd`) and `gesdd`: eigenvalues of symmetric matrices and singular values.

use super::{
    letter,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{
    RunContext,
    custom_call::CustomCall,
    linear_algebra::{Element, for_each_matrix},
};
use faer::{
    Mat, MatRef, Par, Spec,
    diag::Diag,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch},
        svd::{ComputeSvdVectors, svd, svd_scratch},
    },
    prelude::ReborrowMut,
    traits::math_utils::{conj, is_finite, real},
};

/// (a) -> (eigenvectors in columns, eigenvalues, ascending, info).
pub(super) fn syevd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let lower = letter(call, "uplo")? == 'L';
    let with_vectors = letter(call, "mode")? == 'V';
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let vectors = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let values = Vectors::<T::Real>::new(&call.results, 1, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 2, input.count)?;
    if input.rows != input.columns || (input.count > 0 && values.length != input.rows) {
        return Err("the matrices are not square, or the eigenvalues do not fit".into());
    }
    let size = input.rows;
    for_each_matrix(context, input.count, 10 * size.pow(3), |index| {
        // SAFETY: this thread alone handles this matrix.
        let (input, mut vectors, values) = unsafe { (input.read(index), vectors.write(index), values.write(index)) };
        // The algorithm reads the lower triangle, which is the adjoint of the upper one.
        let symmetric = Mat::from_fn(size, size, |row, column| {
            if (row >= column) == lower || row == column { input[(row, column)] } else { conj(&input[(column, row)]) }
        });
        let compute = if with_vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
        let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<T>(size, compute, Par::Seq, Spec::default()));
        let mut eigenvalues = Diag::<T>::zeros(size);
        let succeeded = all_finite(symmetric.as_ref())
            && self_adjoint_evd(
                symmetric.as_ref(),
                eigenvalues.as_mut(),
                with_vectors.then(|| vectors.rb_mut()),
                Par::Seq,
                MemStack::new(&mut memory),
                Spec::default(),
            )
            .is_ok();
        let nan = T::NAN;
        for (place, value) in values.iter_mut().enumerate() {
            *value = real(if succeeded { &eigenvalues[place] } else { &nan });
        }
        // SAFETY: as above.
        unsafe { info.set(index, if succeeded { 0 } else { 1 }) };
    });
    Ok(())
}

/// (a) -> (a destroyed, singular values, descending, u, vᴴ, info); `mode`: `A` square u and v, `S` thin ones, `N` none.
pub(super) fn gesdd<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let compute = match letter(call, "mode")? {
        'A' => ComputeSvdVectors::Full,
        'S' => ComputeSvdVectors::Thin,
        'N' => ComputeSvdVectors::No,
        other => return Err(format!("no mode {other}")),
    };
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let values = Vectors::<T::Real>::new(&call.results, 1, input.count)?;
    let left = Matrices::<T>::new(&call.results, 2)?;
    let right = Matrices::<T>::new(&call.results, 3)?;
    let info = Vectors::<i32>::new(&call.results, 4, input.count)?;
    let (rows, columns) = (input.rows, input.columns);
    let size = rows.min(columns);
    let (left_columns, right_columns) = match compute {
        ComputeSvdVectors::Full => (rows, columns),
        ComputeSvdVectors::Thin => (size, size),
        ComputeSvdVectors::No => (0, 0),
    };
    let with_vectors = compute != ComputeSvdVectors::No;
    let fits = (left.rows, left.columns, right.rows, right.columns) == (rows, left_columns, right_columns, columns);
    if input.count > 0 && (values.length != size || (with_vectors && !fits)) {
        return Err("the results do not fit".into());
    }
    for_each_matrix(context, input.count, 20 * rows * columns * size, |index| {
        // SAFETY: this thread alone handles this matrix.
        let (input, values) = unsafe { (input.read(index), values.write(index)) };
        let mut memory = MemBuffer::new(svd_scratch::<T>(rows, columns, compute, compute, Par::Seq, Spec::default()));
        let mut singular = Diag::<T>::zeros(size);
        let (mut u, mut v) = (Mat::<T>::zeros(rows, left_columns), Mat::<T>::zeros(columns, right_columns));
        let succeeded = all_finite(input)
            && svd(
                input,
                singular.as_mut(),
                with_vectors.then(|| u.as_mut()),
                with_vectors.then(|| v.as_mut()),
                Par::Seq,
                MemStack::new(&mut memory),
                Spec::default(),
            )
            .is_ok();
        let nan = T::NAN;
        for (place, value) in values.iter_mut().enumerate() {
            *value = real(if succeeded { &singular[place] } else { &nan });
        }
        // SAFETY: as above.
        unsafe {
            if with_vectors {
                left.write(index).copy_from(&u);
                let mut right = right.write(index);
                for row in 0..right_columns {
                    for column in 0..columns {
                        right[(row, column)] = conj(&v[(column, row)]);
                    }
                }
            }
            info.set(index, if succeeded { 0 } else { 1 });
        }
    });
    Ok(())
}

/// Iterations on NaN or infinity need not end.
fn all_finite<T: Element>(matrix: MatRef<'_, T>) -> bool {
    (0..matrix.ncols()).all(|column| (0..matrix.nrows()).all(|row| is_finite(&matrix[(row, column)])))
}
