//! Each handler's results multiplied back.

use exec::runtime::{RunContext, primitive_type};
use num_complex::Complex;

use crate::custom_call::{Buffer, call};

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

/// A column-major matrix of real numbers.
struct RealMatrix {
    rows: usize,
    columns: usize,
    data: Vec<f64>,
}

impl RealMatrix {
    /// The real parts of a matrix.
    fn of(matrix: &Matrix) -> Self {
        let data = matrix.data.iter().map(|value| value.re).collect();
        Self { rows: matrix.rows, columns: matrix.columns, data }
    }

    fn whole(&self) -> Matrix {
        Matrix::new(self.rows, self.columns, |row, column| C::new(self.data[row + column * self.rows], 0.0))
    }
}

fn identity(size: usize) -> Matrix {
    Matrix::new(size, size, |row, column| C::new(f64::from(u8::from(row == column)), 0.0))
}

/// What a call gets: matrices, column-major, and vectors.
enum Data<'a> {
    Matrix(&'a mut Matrix),
    Complex(&'a mut [C]),
    RealMatrix(&'a mut RealMatrix),
    Real(&'a mut [f64]),
    Integers(&'a mut [i32]),
}

fn run(name: &str, configuration: &str, operands: Vec<Data>, results: Vec<Data>) {
    let described = |data: Data| {
        let (element_type, sizes, address): (_, Vec<usize>, *mut u8) = match data {
            Data::Matrix(m) => (primitive_type::C128, vec![m.rows, m.columns], m.data.as_mut_ptr().cast()),
            Data::RealMatrix(m) => (primitive_type::F64, vec![m.rows, m.columns], m.data.as_mut_ptr().cast()),
            Data::Complex(v) => (primitive_type::C128, vec![v.len()], v.as_mut_ptr().cast()),
            Data::Real(v) => (primitive_type::F64, vec![v.len()], v.as_mut_ptr().cast()),
            Data::Integers(v) => (primitive_type::S32, vec![v.len()], v.as_mut_ptr().cast()),
        };
        let dimensions = sizes.iter().map(|&size| size as i64).collect();
        let column_major = (0..sizes.len() as i64).collect();
        Buffer { element_type, dimensions, order: column_major, declared_order: None, address }
    };
    let operands: Vec<Buffer> = operands.into_iter().map(described).collect();
    let results: Vec<Buffer> = results.into_iter().map(described).collect();
    let context = RunContext::new(None);
    // SAFETY: the arrays have these sizes.
    unsafe { call(&context, name, configuration, &operands, &results, true) };
    assert_eq!(context.failure(), None);
}

#[test]
fn getrf_permutes_and_factors() {
    for (rows, columns) in [(1, 1), (4, 4), (6, 3), (3, 6), (40, 40), (70, 33), (33, 70)] {
        let mut a = Matrix::sample(rows, columns, 2);
        a.data.iter_mut().step_by(rows + 1).for_each(|value| *value += 3.0);
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
    for (rows, columns) in [(1, 1), (4, 4), (6, 3), (40, 40), (70, 33)] {
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
fn gesdd_and_gesvd_give_descending_singular_values() {
    for (rows, columns) in [(5, 3), (3, 5), (4, 4)] {
        for (name, mode) in [("gesdd", b'A'), ("gesdd", b'S'), ("gesvd", b'A'), ("gesvd", b'S')] {
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
            let name = format!("lapack_z{name}_ffi");
            run(&name, &format!("{{mode = {mode} : ui8}}"), vec![Data::Matrix(&mut a)], results);
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
    let lower = Matrix::new(4, 4, |row, column| if row >= column { factor.at(row, column) } else { C::default() });
    assert!((0..4).all(|row| (row + 1..4).all(|column| factor.at(row, column) == a.at(row, column))));
    lower.times(&lower.adjoint()).assert_close(&a);
    let (mut b, mut solution) = (Matrix::sample(4, 2, 9), Matrix::zeros(4, 2));
    let configuration = "{diag = 78 : ui8, side = 76 : ui8, trans_x = 67 : ui8, uplo = 76 : ui8}";
    let operands = vec![Data::Matrix(&mut factor), Data::Matrix(&mut b)];
    run("lapack_ztrsm_ffi", configuration, operands, vec![Data::Matrix(&mut solution)]);
    lower.adjoint().times(&solution).assert_close(&b);
}

#[test]
fn potrf_leaves_the_other_triangle() {
    for size in [1, 15, 17, 40, 150, 203] {
        let x = Matrix::sample(size, size, 8);
        let mut a = x.times(&x.adjoint());
        (0..size).for_each(|i| a.data[i * (size + 1)] += size as f64);
        for uplo in [b'L', b'U'] {
            let is_factor = |row, column| if uplo == b'L' { row >= column } else { row <= column };
            let (mut factor, mut info) = (Matrix::zeros(size, size), [7]);
            let results = vec![Data::Matrix(&mut factor), Data::Integers(&mut info)];
            run("lapack_zpotrf_ffi", &format!("{{uplo = {uplo} : ui8}}"), vec![Data::Matrix(&mut a)], results);
            assert_eq!(info, [0]);
            let others = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
            let mut others = others.filter(|&(row, column)| !is_factor(row, column));
            assert!(others.all(|(row, column)| factor.at(row, column) == a.at(row, column)), "{size}");
            let triangle = Matrix::new(size, size, |row, column| match is_factor(row, column) {
                true => factor.at(row, column),
                false => C::default(),
            });
            let adjoint = triangle.adjoint();
            let product = if uplo == b'L' { triangle.times(&adjoint) } else { adjoint.times(&triangle) };
            product.assert_close(&a);
        }
    }
}

#[test]
fn potrf_says_where_a_matrix_is_not_positive_definite() {
    for (size, place) in [(1, 0), (3, 1), (70, 0), (70, 69), (150, 100)] {
        for uplo in [b'L', b'U'] {
            let element =
                |row, column| if row == column && row == place { -1.0 } else { f64::from(u8::from(row == column)) };
            let mut a = Matrix::new(size, size, |row, column| C::new(element(row, column), 0.0));
            let (mut factor, mut info) = (Matrix::zeros(size, size), [7]);
            let results = vec![Data::Matrix(&mut factor), Data::Integers(&mut info)];
            run("lapack_zpotrf_ffi", &format!("{{uplo = {uplo} : ui8}}"), vec![Data::Matrix(&mut a)], results);
            assert_eq!(info, [place as i32 + 1], "{size} {place}");
        }
    }
}

#[test]
fn reflections_of_extreme_columns_are_unitary() {
    for scale in [1e-310, 1e-200, 1e200, 1e307] {
        let a = Matrix::new(3, 2, |row, column| C::new(scale * (row + 2 * column) as f64, scale));
        let (mut packed, mut taus) = (Matrix::zeros(3, 2), vec![C::default(); 2]);
        let results = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus)];
        run("lapack_zgeqrf_ffi", "{}", vec![Data::Matrix(&mut a.clone())], results);
        apply(&packed, &taus, &identity(3), true, false).assert_orthonormal();
    }
}

/// (packed, columns from 1, taus) of `geqp3`.
fn factorise_with_exchanges(a: &Matrix, fixed: &[i32]) -> (Matrix, Vec<i32>, Vec<C>) {
    let size = a.rows.min(a.columns);
    let (mut packed, mut order) = (Matrix::zeros(a.rows, a.columns), vec![0; a.columns]);
    let (mut a, mut fixed, mut taus) = (a.clone(), fixed.to_vec(), vec![C::default(); size]);
    let operands = vec![Data::Matrix(&mut a), Data::Integers(&mut fixed)];
    let results = vec![Data::Matrix(&mut packed), Data::Integers(&mut order), Data::Complex(&mut taus)];
    run("lapack_zgeqp3_ffi", "{}", operands, results);
    (packed, order, taus)
}

/// op(q) c or c op(q), by `unmqr`.
fn apply(packed: &Matrix, taus: &[C], c: &Matrix, left: bool, adjoint: bool) -> Matrix {
    let (mut packed, mut taus, mut c) = (packed.clone(), taus.to_vec(), c.clone());
    let mut result = Matrix::zeros(c.rows, c.columns);
    let operands = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus), Data::Matrix(&mut c)];
    let configuration = format!("{{left = {left}, transpose = {adjoint}}}");
    run("lapack_zunmqr_ffi", &configuration, operands, vec![Data::Matrix(&mut result)]);
    result
}

#[test]
fn geqp3_takes_the_longest_column_first() {
    for (rows, columns) in [(1, 1), (4, 4), (6, 3), (3, 6), (9, 9)] {
        let a = Matrix::sample(rows, columns, 5);
        let (packed, order, taus) = factorise_with_exchanges(&a, &vec![0; columns]);
        let r =
            Matrix::new(rows, columns, |row, column| if row <= column { packed.at(row, column) } else { C::default() });
        let exchanged = Matrix::new(rows, columns, |row, column| a.at(row, order[column] as usize - 1));
        apply(&packed, &taus, &r, true, false).assert_close(&exchanged);
        let diagonal: Vec<f64> = (0..rows.min(columns)).map(|i| r.at(i, i).norm()).collect();
        assert!(diagonal.is_sorted_by(|a, b| *a >= b * (1.0 - 1e-9)), "{diagonal:?}");
    }
}

#[test]
fn geqp3_keeps_columns_in_front() {
    let a = Matrix::new(3, 3, |row, column| C::new(if row == column { (column + 1) as f64 } else { 0.0 }, 0.0));
    assert_eq!(factorise_with_exchanges(&a, &[0, 0, 0]).1, [3, 2, 1]);
    assert_eq!(factorise_with_exchanges(&a, &[1, 0, 0]).1, [1, 3, 2]);
    assert_eq!(factorise_with_exchanges(&a, &[0, 1, 0]).1, [2, 3, 1]);
}

#[test]
fn unmqr_multiplies_by_the_product_of_reflections() {
    let a = Matrix::sample(4, 4, 3);
    let (mut packed, mut taus) = (Matrix::zeros(4, 4), vec![C::default(); 4]);
    let results = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus)];
    run("lapack_zgeqrf_ffi", "{}", vec![Data::Matrix(&mut a.clone())], results);
    let mut q = Matrix::zeros(4, 4);
    let operands = vec![Data::Matrix(&mut packed), Data::Complex(&mut taus)];
    run("lapack_zungqr_ffi", "{}", operands, vec![Data::Matrix(&mut q)]);
    let (tall, wide) = (Matrix::sample(4, 2, 1), Matrix::sample(2, 4, 1));
    apply(&packed, &taus, &tall, true, false).assert_close(&q.times(&tall));
    apply(&packed, &taus, &tall, true, true).assert_close(&q.adjoint().times(&tall));
    apply(&packed, &taus, &wide, false, false).assert_close(&wide.times(&q));
    apply(&packed, &taus, &wide, false, true).assert_close(&wide.times(&q.adjoint()));
}

/// (t, z, eigenvalues, info) of `gees`, of the real parts or of the whole matrix.
fn schur_form(a: &Matrix, real: bool) -> (Matrix, Matrix, Vec<C>, i32) {
    let size = a.rows;
    let (mut selected, mut info) = ([7], [7]);
    let configuration = "{mode = 86 : ui8, sort = 78 : ui8}";
    let (t, z, values) = if real {
        let mut a = RealMatrix::of(a);
        let (mut t, mut z) = (RealMatrix::of(&a.whole()), RealMatrix::of(&a.whole()));
        let (mut re, mut im) = (vec![0.0; size], vec![0.0; size]);
        let mut results = vec![Data::RealMatrix(&mut t), Data::RealMatrix(&mut z), Data::Real(&mut re)];
        results.extend([Data::Real(&mut im), Data::Integers(&mut selected), Data::Integers(&mut info)]);
        run("lapack_dgees_ffi", configuration, vec![Data::RealMatrix(&mut a)], results);
        (t.whole(), z.whole(), re.iter().zip(&im).map(|(&re, &im)| C::new(re, im)).collect())
    } else {
        let (mut t, mut z, mut values) = (a.clone(), a.clone(), vec![C::default(); size]);
        let mut results = vec![Data::Matrix(&mut t), Data::Matrix(&mut z), Data::Complex(&mut values)];
        results.extend([Data::Integers(&mut selected), Data::Integers(&mut info)]);
        run("lapack_zgees_ffi", configuration, vec![Data::Matrix(&mut a.clone())], results);
        (t, z, values)
    };
    assert_eq!(selected, [0]);
    (t, z, values, info[0])
}

/// Matrices that are hard in some way, besides ordinary ones.
fn square_matrices() -> Vec<Matrix> {
    let at = |places: &'static [(usize, usize, f64)]| {
        move |row, column| {
            let value = places.iter().find(|&&(r, c, _)| (r, c) == (row, column)).map_or(0.0, |&(_, _, value)| value);
            C::new(value, 0.0)
        }
    };
    let mut matrices: Vec<Matrix> = [0, 1, 2, 3, 4, 7, 20].map(|size| Matrix::sample(size, size, 6)).into();
    matrices.extend([
        Matrix::zeros(4, 4),
        identity(5),
        // A quarter of a turn; a cyclic shift, whose eigenvalues lie on a circle; one that is nilpotent.
        Matrix::new(2, 2, at(&[(0, 1, -1.0), (1, 0, 1.0)])),
        Matrix::new(4, 4, at(&[(0, 3, 1.0), (1, 0, 1.0), (2, 1, 1.0), (3, 2, 1.0)])),
        Matrix::new(3, 3, at(&[(0, 1, 1.0), (1, 2, 1.0)])),
        // Permuted to upper triangular form by balancing; triangular but for one block.
        Matrix::new(3, 3, at(&[(0, 0, 1.0), (1, 0, 5.0), (1, 1, 2.0), (2, 1, 4.0), (2, 2, 3.0)])),
        Matrix::new(4, 4, at(&[(0, 0, 3.0), (0, 2, 2.0), (1, 2, 4.0), (2, 1, -9.0), (3, 0, 1.0), (3, 3, 8.0)])),
        // Far from balanced.
        Matrix::new(3, 3, |row, column| C::new(((row * 3 + column) % 5 + 1) as f64 * 10f64.powi(4 * row as i32), 0.5)),
    ]);
    matrices
}

fn largest(matrix: &Matrix) -> f64 {
    matrix.data.iter().map(|value| value.norm()).fold(1e-300, f64::max)
}

fn assert_equal_in_norm(found: &Matrix, expected: &Matrix, scale: f64) {
    let difference = found.data.iter().zip(&expected.data).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
    assert!(difference <= 1e-12 * scale, "{found:?}\n{expected:?}");
}

#[test]
fn gees_gives_the_schur_form() {
    for a in square_matrices() {
        for real in [false, true] {
            let a = if real { RealMatrix::of(&a).whole() } else { a.clone() };
            let (t, z, values, info) = schur_form(&a, real);
            assert_eq!(info, 0);
            z.assert_orthonormal();
            assert_equal_in_norm(&z.times(&t).times(&z.adjoint()), &a, 10.0 * largest(&a));
            for row in 0..a.rows {
                assert!((0..row.saturating_sub(1)).all(|column| t.at(row, column) == C::default()), "{t:?}");
                let is_block = row > 0 && t.at(row, row - 1) != C::default();
                if !is_block {
                    assert_eq!(t.at(row, row).re, values[row].re);
                    continue;
                }
                // A block in standard form: its eigenvalues are a conjugate pair, the one above the real axis first.
                assert!(real);
                assert_eq!(t.at(row, row), t.at(row - 1, row - 1));
                assert!(t.at(row, row - 1).re * t.at(row - 1, row).re < 0.0);
                assert!(values[row - 1].im > 0.0);
                assert_eq!(values[row], values[row - 1].conj());
            }
        }
    }
}

/// (eigenvalues, left eigenvectors, right ones, info) of `geev`.
fn eigen(a: &Matrix, real: bool) -> (Vec<C>, Matrix, Matrix, i32) {
    let size = a.rows;
    let (mut left, mut right, mut info) = (a.clone(), a.clone(), [7]);
    let configuration = "{compute_left = 86 : ui8, compute_right = 86 : ui8}";
    let values = if real {
        let (mut a, mut re, mut im) = (RealMatrix::of(a), vec![0.0; size], vec![0.0; size]);
        let mut results = vec![Data::Real(&mut re), Data::Real(&mut im), Data::Matrix(&mut left)];
        results.extend([Data::Matrix(&mut right), Data::Integers(&mut info)]);
        run("lapack_dgeev_ffi", configuration, vec![Data::RealMatrix(&mut a)], results);
        re.iter().zip(&im).map(|(&re, &im)| C::new(re, im)).collect()
    } else {
        let mut values = vec![C::default(); size];
        let mut results = vec![Data::Complex(&mut values), Data::Matrix(&mut left)];
        results.extend([Data::Matrix(&mut right), Data::Integers(&mut info)]);
        run("lapack_zgeev_ffi", configuration, vec![Data::Matrix(&mut a.clone())], results);
        values
    };
    (values, left, right, info[0])
}

#[test]
fn geev_gives_eigenvectors_of_both_sides() {
    for a in square_matrices() {
        for real in [false, true] {
            let a = if real { RealMatrix::of(&a).whole() } else { a.clone() };
            let (values, left, right, info) = eigen(&a, real);
            assert_eq!(info, 0);
            let scaled = |vectors: &Matrix, conjugated: bool| {
                Matrix::new(a.rows, a.rows, |row, column| {
                    vectors.at(row, column) * if conjugated { values[column].conj() } else { values[column] }
                })
            };
            assert_equal_in_norm(&a.times(&right), &scaled(&right, false), 10.0 * largest(&a));
            assert_equal_in_norm(&a.adjoint().times(&left), &scaled(&left, true), 10.0 * largest(&a));
            for vectors in [&left, &right] {
                for column in 0..a.rows {
                    let elements = || (0..a.rows).map(|row| vectors.at(row, column));
                    assert!((elements().map(|value| value.norm_sqr()).sum::<f64>() - 1.0).abs() < 1e-12);
                    let size = elements().map(|value| value.norm()).fold(0.0, f64::max);
                    assert!(elements().any(|value| value.im == 0.0 && value.re.abs() >= size * (1.0 - 1e-12)));
                }
            }
            for pair in values.windows(2).filter(|pair| real && pair[0].im > 0.0) {
                assert_eq!(pair[1], pair[0].conj());
            }
        }
    }
}

#[test]
fn eigenvalues_of_extreme_matrices_are_found() {
    for scale in [1e-300, 1e-200, 1e200, 1e300] {
        let a = Matrix::new(2, 2, |row, column| C::new(scale * [[2.0, 1.0], [1.0, 2.0]][row][column], 0.0));
        for real in [false, true] {
            let (mut values, _, _, info) = eigen(&a, real);
            values.sort_by(|a, b| a.re.total_cmp(&b.re));
            assert_eq!(info, 0);
            assert!((values[0] / scale - 1.0).norm() < 1e-12 && (values[1] / scale - 3.0).norm() < 1e-12, "{values:?}");
        }
    }
}

#[test]
fn matrices_that_are_not_finite_have_no_eigenvalues() {
    for value in [f64::NAN, f64::INFINITY] {
        let a = Matrix::new(3, 3, |row, column| C::new(if row == column { value } else { 1.0 }, 0.0));
        for real in [false, true] {
            let (values, _, right, info) = eigen(&a, real);
            assert_eq!(info, -4);
            assert!(values.iter().chain(&right.data).all(|value| value.re.is_nan()));
            let (t, _, _, info) = schur_form(&a, real);
            assert!(info > 0);
            assert!(t.data.iter().all(|value| value.re.is_nan()));
        }
    }
}

/// Solves with diagonals that are given as real numbers.
fn solve_perturbed(bands: [&[f64]; 3], b: &RealMatrix) -> RealMatrix {
    let mut x = RealMatrix { rows: b.rows, columns: b.columns, data: vec![0.0; b.data.len()] };
    let mut b = RealMatrix { rows: b.rows, columns: b.columns, data: b.data.clone() };
    let [mut below, mut diagonal, mut above] = bands.map(<[f64]>::to_vec);
    let operands =
        vec![Data::Real(&mut below), Data::Real(&mut diagonal), Data::Real(&mut above), Data::RealMatrix(&mut b)];
    run("tridiagonal_solve_perturbed_ffi", "{}", operands, vec![Data::RealMatrix(&mut x)]);
    x
}

#[test]
fn perturbed_solutions_solve_regular_systems() {
    let (below, diagonal, above) = ([9.0, 3.0, -1.0, 4.0], [1.0, -2.0, 0.0, 0.5], [2.0, 1.0, 5.0, 9.0]);
    let b = RealMatrix::of(&Matrix::sample(4, 2, 3));
    let x = solve_perturbed([&below, &diagonal, &above], &b).whole();
    let whole = Matrix::new(4, 4, |row, column| {
        let value = match column as i64 - row as i64 {
            -1 => below[row],
            0 => diagonal[row],
            1 => above[row],
            _ => 0.0,
        };
        C::new(value, 0.0)
    });
    whole.times(&x).assert_close(&b.whole());
}

#[test]
fn perturbed_solutions_of_singular_systems_are_finite() {
    // (1, -1) is in the kernel: the solution points there, and is as long as the precision makes it.
    let b = RealMatrix { rows: 2, columns: 1, data: vec![1.0, 0.0] };
    let x = solve_perturbed([&[0.0, 1.0], &[1.0, 1.0], &[1.0, 0.0]], &b);
    assert!(x.data.iter().all(|value| value.is_finite() && value.abs() > 1e12), "{:?}", x.data);
    assert!((x.data[0] / x.data[1] + 1.0).abs() < 1e-12);
    let x = solve_perturbed([&[0.0], &[0.0], &[0.0]], &RealMatrix { rows: 1, columns: 1, data: vec![1.0] });
    assert!(x.data[0].is_finite() && x.data[0] > 1e300);
}
