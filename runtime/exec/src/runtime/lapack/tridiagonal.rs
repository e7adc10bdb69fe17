//! `gtsv` and `tridiagonal_solve_perturbed`: tridiagonal systems.

use super::matrices::{Matrices, Vectors};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut,
    traits::math_utils::{
        abs, abs1, add, eps, from_real, is_nan, max, min_positive, mul, mul_real, neg, one, real, recip, sub, zero,
    },
};
use linear_algebra::Element;

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

/// (below, diagonal, above, b) -> x: solves tridiagonal systems, singular ones too. A pivot so small that a quotient would
/// overflow becomes a little larger, by the precision of the type times the largest element of the upper factor. That gives
/// eigenvectors by inverse iteration (LAPACK `lagtf` and `lagts`).
pub(super) fn solve_perturbed<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let b = Matrices::<T>::new(&call.operands, 3)?;
    let x = Matrices::<T>::new(&call.results, 0)?.like(&b)?;
    let band = |number| Vectors::<T>::new(&call.operands, number, b.count);
    let bands = [band(0)?, band(1)?, band(2)?];
    let same_type = call
        .operands
        .iter()
        .chain(&call.results)
        .all(|buffer| Some(buffer.element_type) == call.operands.first().map(|operand| operand.element_type));
    if !same_type || (b.count > 0 && bands.iter().any(|band| band.length != b.rows)) {
        return Err("the diagonals do not fit the right-hand sides".into());
    }
    for_each_matrix(context, b.count, 10 * b.rows * (b.columns + 1), |index| {
        // SAFETY: this thread alone handles this system.
        unsafe {
            x.copy_from(&b, index);
            let [below, diagonal, above] = bands.each_ref().map(|band| &*band.write(index));
            perturbed(below, diagonal, above, x.write(index));
        }
    });
    Ok(())
}

/// Solves in place of the right-hand sides. A row is the pivot whose first element is larger in proportion to the row.
fn perturbed<T: Element>(below: &[T], diagonal: &[T], above: &[T], mut x: MatMut<'_, T>) {
    let (size, columns) = x.shape();
    // The upper factor has two diagonals above the main one.
    let mut upper = vec![[zero::<T>(); 3]; size];
    let above = |row: usize| if row + 1 < size { above[row] } else { zero() };
    let length = |elements: &[T]| elements.iter().map(abs).fold(zero::<T::Real>(), |sum, size| add(&sum, &size));
    if size > 0 {
        upper[0] = [diagonal[0], above(0), zero()];
    }
    let mut pivot_length = upper.first().map_or(zero(), |row| length(row));
    for row in 0..size.saturating_sub(1) {
        let next = row + 1;
        let incoming = [below[next], diagonal[next], above(next)];
        let incoming_length = length(&incoming);
        let [pivot, beside, _] = upper[row];
        let share = |element: &T, length: &T::Real| {
            if *element == zero::<T>() { zero() } else { mul(&abs(element), &recip(length)) }
        };
        if share(&incoming[0], &incoming_length) <= share(&pivot, &pivot_length) {
            let factor = if incoming[0] == zero::<T>() { zero() } else { mul(&incoming[0], &recip(&pivot)) };
            upper[next] = [sub(&incoming[1], &mul(&factor, &beside)), incoming[2], zero()];
            pivot_length = incoming_length;
            for column in 0..columns {
                x[(next, column)] = sub(&x[(next, column)], &mul(&factor, &x[(row, column)]));
            }
        } else {
            let factor = mul(&pivot, &recip(&incoming[0]));
            upper[row] = incoming;
            upper[next] = [sub(&beside, &mul(&factor, &incoming[1])), neg(&mul(&factor, &incoming[2])), zero()];
            pivot_length = length(&upper[next]);
            for column in 0..columns {
                let (own, other) = (x[(row, column)], x[(next, column)]);
                x[(row, column)] = other;
                x[(next, column)] = sub(&own, &mul(&factor, &other));
            }
        }
    }
    let largest = upper.iter().flatten().map(abs).fold(zero::<T::Real>(), |largest, size| max(&largest, &size));
    let perturbation = mul(&eps::<T::Real>(), &largest);
    for row in (0..size).rev() {
        for column in 0..columns {
            for distance in (1..3).filter(|distance| row + distance < size) {
                let known = mul(&upper[row][distance], &x[(row + distance, column)]);
                x[(row, column)] = sub(&x[(row, column)], &known);
            }
        }
        let divisor = safe_divisor(upper[row][0], perturbation, x.as_mut().subrows_mut(row, 1));
        for column in 0..columns {
            x[(row, column)] = mul(&x[(row, column)], &recip(&divisor));
        }
    }
}

/// The pivot, moved away from zero in steps that double until `row` can be divided by it. If only the pivot's reciprocal
/// overflows, pivot and row are multiplied by a large number instead.
fn safe_divisor<T: Element>(mut pivot: T, perturbation: T::Real, mut row: MatMut<'_, T>) -> T {
    let least = min_positive::<T::Real>();
    let most = recip(&least);
    let columns = row.ncols();
    let largest = (0..columns).map(|column| abs(&row[(0, column)])).fold(zero(), |a, b| max::<T::Real>(&a, &b));
    let step = max(&perturbation, &least);
    let mut step = if real(&pivot) < zero::<T::Real>() { neg(&step) } else { step };
    loop {
        let size = abs(&pivot);
        if size >= one::<T::Real>() || is_nan(&size) {
            return pivot;
        }
        let is_tiny = size < least;
        let overflows = if is_tiny {
            size == zero::<T::Real>() || mul(&largest, &least) > size
        } else {
            largest > mul(&size, &most)
        };
        if overflows {
            pivot = add(&pivot, &from_real::<T>(&step));
            step = add(&step, &step);
        } else if is_tiny {
            for column in 0..columns {
                row[(0, column)] = mul_real(&row[(0, column)], &most);
            }
            return mul_real(&pivot, &most);
        } else {
            return pivot;
        }
    }
}
