//! Factors and solutions multiplied back.

use exec::ThreadPool;
use exec::runtime::linear_algebra::{
    CholeskyDescriptor, TriangularSolveDescriptor, halo_cholesky, halo_triangular_solve,
};
use exec::runtime::{RunContext, primitive_type};
use num_complex::Complex;

type C = Complex<f64>;

fn sample(count: usize, seed: usize) -> Vec<C> {
    (0..count)
        .map(|index| {
            let value = |factor: usize| ((index + seed) * factor % 23) as f64 / 11.0 - 1.0;
            C::new(value(7), value(13))
        })
        .collect()
}

/// op(x) y for row-major matrices.
fn multiply(x: &[C], y: &[C], [n, k, m]: [usize; 3]) -> Vec<C> {
    let mut result = vec![C::default(); n * m];
    for row in 0..n {
        for column in 0..m {
            result[row * m + column] = (0..k).map(|i| x[row * k + i] * y[i * m + column]).sum();
        }
    }
    result
}

fn adjoint(x: &[C], n: usize) -> Vec<C> {
    (0..n * n).map(|index| x[index % n * n + index / n].conj()).collect()
}

fn assert_close(actual: &[C], expected: &[C]) {
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).norm() < 1e-9 * (1.0 + e.norm()), "{actual:?} {expected:?}");
    }
}

#[test]
fn factors_multiply_back() {
    let threads = ThreadPool::new(2).unwrap();
    let context = RunContext::new(Some(&threads));
    for size in [1, 2, 5, 40] {
        // x xᴴ + size, Hermitian and positive definite.
        let x = sample(size * size, 3);
        let mut a = multiply(&x, &adjoint(&x, size), [size; 3]);
        (0..size).for_each(|i| a[i * size + i] += size as f64);
        for lower in [true, false] {
            let mut read = a.clone();
            // The other triangle must not matter.
            for row in 0..size {
                for column in 0..size {
                    if (lower && column > row) || (!lower && column < row) {
                        read[row * size + column] = C::new(f64::NAN, 99.0);
                    }
                }
            }
            let batch = [read.clone(), read].concat();
            let mut output = vec![C::default(); batch.len()];
            let descriptor = CholeskyDescriptor {
                element_type: primitive_type::C128,
                batch: 2,
                size: size as i64,
                lower: lower.into(),
            };
            // SAFETY: the buffers hold two matrices.
            unsafe { halo_cholesky(&context, &descriptor, batch.as_ptr().cast(), output.as_mut_ptr().cast()) };
            assert_eq!(context.failure(), None);
            for factor in output.chunks(size * size) {
                let h = adjoint(factor, size);
                let product = if lower { multiply(factor, &h, [size; 3]) } else { multiply(&h, factor, [size; 3]) };
                assert_close(&product, &a);
            }
        }
    }
}

#[test]
fn indefinite_matrices_give_nan() {
    let a = [1f32, 0.0, 0.0, -1.0];
    let mut output = [0f32; 4];
    let descriptor = CholeskyDescriptor { element_type: primitive_type::F32, batch: 1, size: 2, lower: 1 };
    let context = RunContext::new(None);
    // SAFETY: the buffers hold one matrix.
    unsafe { halo_cholesky(&context, &descriptor, a.as_ptr().cast(), output.as_mut_ptr().cast()) };
    assert!(output.iter().all(|value| value.is_nan()));
}

#[test]
fn solutions_solve() {
    let context = RunContext::new(None);
    let (rows, columns) = (6, 4);
    for case in 0..48 {
        let (left, lower, unit, transpose) = (case % 2 == 0, case / 2 % 2 == 0, case / 4 % 2 == 0, case / 8 % 3);
        let size = if left { rows } else { columns };
        let mut a = sample(size * size, case);
        (0..size).for_each(|i| a[i * size + i] += 5.0);
        let b = sample(rows * columns, case + 100);
        let mut x = vec![C::default(); rows * columns];
        let descriptor = TriangularSolveDescriptor {
            element_type: primitive_type::C128,
            batch: 1,
            rows: rows as i64,
            columns: columns as i64,
            left_side: left.into(),
            lower: lower.into(),
            unit_diagonal: unit.into(),
            transpose: transpose as i64,
        };
        // SAFETY: the buffers hold one matrix each.
        unsafe {
            halo_triangular_solve(&context, &descriptor, a.as_ptr().cast(), b.as_ptr().cast(), x.as_mut_ptr().cast());
        }
        assert_eq!(context.failure(), None);
        let mut t = vec![C::default(); size * size];
        for row in 0..size {
            for column in 0..size {
                let inside = if lower { column <= row } else { column >= row };
                if inside {
                    t[row * size + column] =
                        if unit && row == column { C::new(1.0, 0.0) } else { a[row * size + column] };
                }
            }
        }
        let op = match transpose {
            0 => t,
            1 => adjoint(&t, size).iter().map(Complex::conj).collect(),
            _ => adjoint(&t, size),
        };
        let product =
            if left { multiply(&op, &x, [rows, rows, columns]) } else { multiply(&x, &op, [rows, columns, columns]) };
        assert_close(&product, &b);
    }
}
