//! Each handler's results multiplied back.

use super::*;
use crate::runtime::custom_call::CallBuffer;
use num_complex::Complex;

type C = Complex<f64>;

/// A column-major matrix.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    data: Vec<C>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, element: impl Fn(usize, usize) -> C) -> Self {
        let data = (0..rows * columns).map(|index| element(index % rows, index / rows)).collect();
        Self { rows, columns, data }
    }

    fn zeros(rows: usize, columns: usize) -> Self {
        Self::new(rows, columns, |_, _| C::default())
    }

    fn sample(rows: usize, columns: usize, seed: usize) -> Self {
        Self::new(rows, columns, |row, column| {
            let value = |factor: usize| ((row * 5 + column * 3 + row * column + seed) * factor % 19) as f64 / 9.0 - 1.0;
            C::new(value(7), value(11))
        })
    }

    fn at(&self, row: usize, column: usize) -> C {
        self.data[row + column * self.rows]
    }

    fn adjoint(&self) -> Self {
        Self::new(self.columns, self.rows, |row, column| self.at(column, row).conj())
    }

    fn times(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows);
        Self::new(self.rows, other.columns, |row, column| {
            (0..self.columns).map(|i| self.at(row, i) * other.at(i, column)).sum()
        })
    }

    fn assert_close(&self, other: &Self) {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        for (a, b) in self.data.iter().zip(&other.data) {
            assert!((a - b).norm() < 1e-9 * (1.0 + b.norm()), "{self:?}\n{other:?}");
        }
    }

    fn assert_orthonormal(&self) {
        self.adjoint().times(self).assert_close(&identity(self.columns));
    }
}

fn identity(size: usize) -> Matrix {
    Matrix::new(size, size, |row, column| C::new(f64::from(u8::from(row == column)), 0.0))
}

/// What a call gets: matrices, column-major, and vectors.
enum Data<'a> {
    Matrix(&'a mut Matrix),
    Complex(&'a mut [C]),
    Real(&'a mut [f64]),
    Integers(&'a mut [i32]),
}

fn run(name: &str, configuration: &str, operands: Vec<Data>, results: Vec<Data>) {
    let (_, handler) = handlers().find(|(handler, _)| handler == name).unwrap();
    let mut dimensions = Vec::new();
    let mut addresses: Vec<*mut u8> = Vec::new();
    let operand_count = operands.len();
    for data in operands.into_iter().chain(results) {
        let (shape, address): (Vec<i64>, *mut u8) = match data {
            Data::Matrix(m) => (vec![m.rows as i64, m.columns as i64], m.data.as_mut_ptr().cast()),
            Data::Complex(v) => (vec![v.len() as i64], v.as_mut_ptr().cast()),
            Data::Real(v) => (vec![v.len() as i64], v.as_mut_ptr().cast()),
            Data::Integers(v) => (vec![v.len() as i64], v.as_mut_ptr().cast()),
        };
        dimensions.push(shape);
        addresses.push(address);
    }
    let mut buffers: Vec<CallBuffer> = dimensions
        .iter()
        .zip(addresses)
        .map(|(dimensions, address)| CallBuffer {
            element_type: 18,
            dimensions,
            minor_to_major: if dimensions.len() == 2 { &[0, 1] } else { &[0] },
            declared_minor_to_major: if dimensions.len() == 2 { &[0, 1] } else { &[0] },
            address,
        })
        .collect();
    let results = buffers.split_off(operand_count);
    let call = CustomCall { target: name, configuration, operands: buffers, results, is_tuple: true };
    handler(&call, &RunContext::new(None)).unwrap();
}

#[test]
fn attributes_are_found() {
    assert_eq!(attribute("{mode = 86 : ui8, uplo = 76 : ui8}", "uplo"), Some(76));
    assert_eq!(attribute("{low = -1 : i32}", "low"), Some(-1));
    assert_eq!(attribute("{}", "uplo"), None);
}

#[test]
fn getrf_permutes_and_factors() {
    for (rows, columns) in [(1, 1), (4, 4), (6, 3), (3, 6)] {
        let mut a = Matrix::sample(rows, columns, 2);
        let size = rows.min(columns);
        let (mut lu, mut pivots, mut info) = (Matrix::zeros(rows, columns), vec![0; size], [7]);
        let results = vec![Data::Matrix(&mut lu), Data::Integers(&mut pivots), Data::Integers(&mut info)];
        run("lapack_zgetrf_ffi", "{}", vec![Data::Matrix(&mut a)], results);
        assert_eq!(info, [0]);
        let lower = Matrix::new(rows, size, |row, column| match row.cmp(&column) {
            std::cmp::Ordering::Greater => lu.at(row, column),
            std::cmp::Ordering::Equal => C::new(1.0, 0.0),
            std::cmp::Ordering::Less => C::default(),
        });
        let upper =
            Matrix::new(size, columns, |row, column| if row <= column { lu.at(row, column) } else { C::default() });
        let mut order: Vec<usize> = (0..rows).collect();
        pivots.iter().enumerate().for_each(|(row, &pivot)| order.swap(row, pivot as usize - 1));
        let permuted = Matrix::new(rows, columns, |row, column| a.at(order[row], column));
        lower.times(&upper).assert_close(&permuted);
    }
}

#[test]
fn getrf_reports_singular_matrices() {
    let mut a = Matrix::new(2, 2, |_, _| C::new(1.0, 0.0));
    let (mut lu, mut pivots, mut info) = (Matrix::zeros(2, 2), vec![0; 2], [0]);
    let results = vec![Data::Matrix(&mut lu), Data::Integers(&mut pivots), Data::Integers(&mut info)];
    run("lapack_zgetrf_ffi", "{}", vec![Data::Matrix(&mut a)], results);
    assert_eq!(info, [2]);
}

#[test]
fn geqrf_and_orgqr_multiply_back() {
    for (rows, columns) in [(1, 1), (4, 4), (6, 3)] {
        let mut a = Matrix::sample(rows, columns, 4);
        let (mut packed, mut taus) = (Matrix::zeros(rows, columns), vec![C::default(); columns]);
        let results = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus)];
        run("lapack_zgeqrf_ffi", "{}", vec![Data::Matrix(&mut a)], results);
        let r = Matrix::new(
            columns,
            columns,
            |row, column| if row <= column { packed.at(row, column) } else { C::default() },
        );
        let mut q = Matrix::zeros(rows, columns);
        let operands = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus)];
        run("lapack_zungqr_ffi", "{}", operands, vec![Data::Matrix(&mut q)]);
        q.assert_orthonormal();
        q.times(&r).assert_close(&a);
        // LAPACK makes the diagonal of R real.
        assert!((0..columns).all(|i| r.at(i, i).im.abs() < 1e-12));
    }
}

#[test]
fn syevd_gives_ascending_eigenvalues() {
    for uplo in [b'L', b'U'] {
        let x = Matrix::sample(5, 5, 1);
        let a = Matrix::new(5, 5, |row, column| x.at(row, column) + x.at(column, row).conj());
        let mut read = Matrix::new(5, 5, |row, column| {
            let inside = if uplo == b'L' { row >= column } else { row <= column };
            if inside { a.at(row, column) } else { C::new(f64::NAN, 0.0) }
        });
        let (mut vectors, mut values, mut info) = (Matrix::zeros(5, 5), vec![0.0; 5], [7]);
        let results = vec![Data::Matrix(&mut vectors), Data::Real(&mut values), Data::Integers(&mut info)];
        let configuration = format!("{{mode = 86 : ui8, uplo = {uplo} : ui8}}");
        run("lapack_zheevd_ffi", &configuration, vec![Data::Matrix(&mut read)], results);
        assert_eq!(info, [0]);
        assert!(values.is_sorted());
        vectors.assert_orthonormal();
        let scaled = Matrix::new(5, 5, |row, column| vectors.at(row, column) * values[column]);
        a.times(&vectors).assert_close(&scaled);
    }
}

#[test]
fn gesdd_gives_descending_singular_values() {
    for (rows, columns) in [(5, 3), (3, 5), (4, 4)] {
        for mode in [b'A', b'S'] {
            let size = rows.min(columns);
            let (left, right) = if mode == b'A' { (rows, columns) } else { (size, size) };
            let mut a = Matrix::sample(rows, columns, 6);
            let (mut destroyed, mut values, mut info) = (Matrix::zeros(rows, columns), vec![0.0; size], [7]);
            let (mut u, mut vt) = (Matrix::zeros(rows, left), Matrix::zeros(right, columns));
            let results = vec![
                Data::Matrix(&mut destroyed),
                Data::Real(&mut values),
                Data::Matrix(&mut u),
                Data::Matrix(&mut vt),
                Data::Integers(&mut info),
            ];
            run("lapack_zgesdd_ffi", &format!("{{mode = {mode} : ui8}}"), vec![Data::Matrix(&mut a)], results);
            assert_eq!(info, [0]);
            assert!(values.is_sorted_by(|a, b| a >= b));
            u.assert_orthonormal();
            vt.adjoint().assert_orthonormal();
            let scaled =
                Matrix::new(
                    rows,
                    right,
                    |row, column| {
                        if column < size { u.at(row, column) * values[column] } else { C::default() }
                    },
                );
            scaled.times(&vt).assert_close(&a);
        }
    }
}

#[test]
fn potrf_and_trsm_solve_in_column_major_order() {
    let x = Matrix::sample(4, 4, 8);
    let mut a = x.times(&x.adjoint());
    (0..4).for_each(|i| a.data[i * 5] += 4.0);
    let (mut factor, mut info) = (Matrix::zeros(4, 4), [7]);
    let results = vec![Data::Matrix(&mut factor), Data::Integers(&mut info)];
    run("lapack_zpotrf_ffi", "{uplo = 76 : ui8}", vec![Data::Matrix(&mut a)], results);
    assert_eq!(info, [0]);
    factor.times(&factor.adjoint()).assert_close(&a);
    let (mut b, mut solution) = (Matrix::sample(4, 2, 9), Matrix::zeros(4, 2));
    let configuration = "{diag = 78 : ui8, side = 76 : ui8, trans_x = 67 : ui8, uplo = 76 : ui8}";
    let operands = vec![Data::Matrix(&mut factor), Data::Matrix(&mut b)];
    run("lapack_ztrsm_ffi", configuration, operands, vec![Data::Matrix(&mut solution)]);
    factor.adjoint().times(&solution).assert_close(&b);
}
