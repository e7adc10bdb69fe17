//! `potrf`, `trsm` and `getrf`: factorisation into triangular matrices, and solving with those.

use super::{
    letter, letters,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{
    RunContext,
    custom_call::CustomCall,
    linear_algebra::{for_each_group, for_each_matrix},
};
use linear_algebra::{Element, TOGETHER, Together, TriangularSystem, lu};
use std::ops::Range;

/// (a) -> (factor, info): Cholesky; `uplo` says which triangle is read and written. `info` is the order of the first leading
/// minor that is not positive definite.
pub(super) fn potrf<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let lower = letter(call, "uplo")? == 'L';
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let info = Vectors::<i32>::new(&call.results, 1, input.count)?;
    if input.rows == input.columns && Together::<T>::suits(input.count, input.rows, input.columns) {
        for_each_group(context, input.count, input.rows.pow(3) / 6, |group| {
            // SAFETY: this thread alone handles these matrices.
            unsafe {
                let oriented = |index: usize| {
                    if lower { input.read(index) } else { input.read(index).transpose() }
                };
                let mut together = Together::read(&group.clone().map(oriented).collect::<Vec<_>>());
                let failed = together.cholesky();
                for (lane, index) in group.enumerate() {
                    output.copy_from(&input, index);
                    let matrix = output.write(index);
                    let triangle = if lower { matrix } else { matrix.transpose_mut() };
                    together.write(lane, triangle, |row, column| column <= row);
                    info.set(index, failed[lane]);
                }
            }
        });
        return Ok(());
    }
    for_each_matrix(context, input.count, input.rows.pow(3) / 6, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            let matrix = output.write(index);
            let result = T::cholesky(if lower { matrix } else { matrix.transpose_mut() });
            info.set(index, result.err().map_or(0, |order| order as i32));
        }
    });
    Ok(())
}

/// (a, b) -> x with op(a) x = b or x op(a) = b.
pub(super) fn trsm<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let [transpose, side, triangle, diagonal] = letters(call, ["trans_x", "side", "uplo", "diag"])?;
    let system = TriangularSystem {
        left_side: side == 'L',
        lower: triangle == 'L',
        unit_diagonal: diagonal == 'U',
        transposed: transpose != 'N',
        conjugated: transpose == 'C',
    };
    let (a, b) = (Matrices::<T>::new(&call.operands, 0)?, Matrices::<T>::new(&call.operands, 1)?);
    let output = Matrices::<T>::new(&call.results, 0)?.like(&b)?;
    let size = if system.left_side { b.rows } else { b.columns };
    if (a.count, a.rows, a.columns) != (b.count, size, size) {
        return Err("the matrices do not fit".into());
    }
    if Together::<T>::suits_sides(b.count, b.rows, b.columns) {
        for_each_group(context, b.count, size * b.rows * b.columns / 4, |group| {
            // SAFETY: this thread alone handles these matrices.
            unsafe {
                let mut x = read_together(&b, &group);
                x.solve(&read_together(&a, &group), system);
                group.enumerate().for_each(|(lane, index)| x.write(lane, output.write(index), |_, _| true));
            }
        });
        return Ok(());
    }
    for_each_matrix(context, b.count, size * b.rows * b.columns / 4, |index| {
        // SAFETY: this thread alone handles these matrices.
        unsafe {
            output.copy_from(&b, index);
            T::solve_triangular(a.read(index), output.write(index), system);
        }
    });
    Ok(())
}

/// (a) -> (lu, pivots, info): LU with row exchanges; row `i` was exchanged with row `pivots[i]`, counted from 1.
pub(super) fn getrf<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let pivots = Vectors::<i32>::new(&call.results, 1, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 2, input.count)?;
    let steps = input.rows.min(input.columns);
    if input.count > 0 && pivots.length < steps {
        return Err("too few pivots".into());
    }
    if Together::<T>::suits_lu(input.count, input.rows, input.columns) {
        for_each_group(context, input.count, steps * input.rows * input.columns / 2, |group| {
            // SAFETY: this thread alone handles these matrices.
            unsafe {
                let mut together = read_together(&input, &group);
                let mut exchanged = vec![[0; TOGETHER]; steps];
                let failed = together.lu(&mut exchanged);
                for (lane, index) in group.enumerate() {
                    together.write(lane, output.write(index), |_, _| true);
                    let rows = pivots.write(index).iter_mut().zip(&exchanged);
                    rows.for_each(|(pivot, exchanged)| *pivot = exchanged[lane]);
                    info.set(index, failed[lane]);
                }
            }
        });
        return Ok(());
    }
    for_each_matrix(context, input.count, steps * input.rows * input.columns / 2, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            let failed = lu(output.write(index), pivots.write(index));
            info.set(index, failed);
        }
    });
    Ok(())
}

/// The matrices of a group.
///
/// # Safety
/// The buffer must hold them, and no one may write them meanwhile.
unsafe fn read_together<T: Element>(matrices: &Matrices<T>, group: &Range<usize>) -> Together<T> {
    // SAFETY: the caller's promise.
    let read = |index: usize| unsafe { matrices.read(index) };
    Together::read(&group.clone().map(read).collect::<Vec<_>>())
}
