//! Eigenvalues of Hermitian matrices and singular values, by Jacobi's method.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use super::{hermitian_element, integers, letter};
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

const ONE: Complex64 = Complex64::new(1.0, 0.0);
const ZERO: Complex64 = Complex64::new(0.0, 0.0);

/// Sweeps over all pairs; the method converges quadratically, a few are enough.
const SWEEPS: usize = 60;

/// A matrix as its columns.
type Columns = Vec<Vec<Complex64>>;

fn inner(a: &[Complex64], b: &[Complex64]) -> Complex64 {
    a.iter().zip(b).map(|(a, b)| a.conj() * b).sum()
}

fn identity(n: usize) -> Columns {
    (0..n).map(|column| (0..n).map(|row| if row == column { ONE } else { ZERO }).collect()).collect()
}

/// The unitary j (by columns p and q) for which jᴴ [[app, apq], [conj apq, aqq]] j is diagonal.
struct Rotation {
    cosine: f64,
    sine: f64,
    phase: Complex64,
}

impl Rotation {
    fn new(app: f64, aqq: f64, apq: Complex64) -> Rotation {
        let size = apq.norm();
        let theta = (aqq - app) / (2.0 * size);
        let tangent = 1f64.copysign(theta) / (theta.abs() + theta.hypot(1.0));
        let cosine = 1.0 / tangent.hypot(1.0);
        Rotation { cosine, sine: tangent * cosine, phase: (apq / size).conj() }
    }

    /// Multiplies columns p and q from the right.
    fn apply(&self, columns: &mut Columns, p: usize, q: usize) {
        for row in 0..columns[p].len() {
            let (x, y) = (columns[p][row], self.phase * columns[q][row]);
            columns[p][row] = self.cosine * x - self.sine * y;
            columns[q][row] = self.sine * x + self.cosine * y;
        }
    }
}

/// Makes the columns orthogonal; returns them with the accumulated rotations.
fn orthogonalize(mut columns: Columns) -> (Columns, Columns) {
    let n = columns.len();
    let mut rotations = identity(n);
    for _ in 0..SWEEPS {
        let mut settled = true;
        for p in 0..n {
            for q in p + 1..n {
                let product = inner(&columns[p], &columns[q]);
                let (pp, qq) = (inner(&columns[p], &columns[p]).re, inner(&columns[q], &columns[q]).re);
                if product.norm() <= 1e-15 * (pp * qq).sqrt() || product.norm() == 0.0 {
                    continue;
                }
                settled = false;
                let rotation = Rotation::new(pp, qq, product);
                rotation.apply(&mut columns, p, q);
                rotation.apply(&mut rotations, p, q);
            }
        }
        if settled {
            break;
        }
    }
    (columns, rotations)
}

/// Eigenvalues, ascending, and the eigenvectors as columns.
fn eigen(mut matrix: Columns) -> (Vec<f64>, Columns) {
    let n = matrix.len();
    let mut vectors = identity(n);
    let size: f64 = matrix.iter().flatten().map(Complex64::norm_sqr).sum::<f64>().sqrt();
    for _ in 0..SWEEPS {
        let mut settled = true;
        for p in 0..n {
            for q in p + 1..n {
                let apq = matrix[q][p];
                if apq.norm() <= 1e-17 * size || apq.norm() == 0.0 {
                    continue;
                }
                settled = false;
                let rotation = Rotation::new(matrix[p][p].re, matrix[q][q].re, apq);
                rotation.apply(&mut matrix, p, q);
                rotation.apply(&mut vectors, p, q);
                // The rows: jᴴ from the left.
                for column in &mut matrix {
                    let (x, y) = (column[p], rotation.phase.conj() * column[q]);
                    column[p] = rotation.cosine * x - rotation.sine * y;
                    column[q] = rotation.sine * x + rotation.cosine * y;
                }
            }
        }
        if settled {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| matrix[a][a].re.total_cmp(&matrix[b][b].re));
    (order.iter().map(|&i| matrix[i][i].re).collect(), order.iter().map(|&i| vectors[i].clone()).collect())
}

/// `syevd`, `heevd`: (eigenvectors, eigenvalues), from one triangle.
pub(super) fn hermitian_eigenvalues(
    lower: bool,
    a: &ArrayLiteral,
    vectors: &ArrayShape,
    values: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (n, columns) = matrix_size(a.shape())?;
    if n != columns {
        return Err(EvalFailure::malformed("the matrices are not square"));
    }
    let mut data = load_all::<Complex64>(a);
    let mut eigenvalues = Vec::new();
    for matrix in data.chunks_mut((n * n).max(1)) {
        let element = |row: usize, column: usize| hermitian_element(matrix, n, lower, (row, column));
        let by_columns: Columns = (0..n).map(|column| (0..n).map(|row| element(row, column)).collect()).collect();
        let is_finite = by_columns.iter().flatten().all(|z| z.re.is_finite() && z.im.is_finite());
        let (found, vectors) =
            if is_finite { eigen(by_columns) } else { (vec![f64::NAN; n], vec![vec![f64::NAN * ONE; n]; n]) };
        eigenvalues.extend(found);
        for (column, vector) in vectors.iter().enumerate() {
            for (row, &value) in vector.iter().enumerate() {
                matrix[row * n + column] = value;
            }
        }
    }
    Ok(vec![store_all(&data, vectors)?, store_all(&eigenvalues, values)?])
}

/// Adds unit columns orthogonal to the others until there are `count`; columns of zeros are replaced.
fn complete(columns: &mut Columns, rows: usize, count: usize) {
    columns.resize(count.max(columns.len()), vec![ZERO; rows]);
    let mut next = 0;
    for number in 0..columns.len() {
        while columns[number].iter().all(|z| z.norm() == 0.0) && next < rows {
            let mut candidate = vec![ZERO; rows];
            candidate[next] = ONE;
            next += 1;
            // Twice, against cancellation.
            for _ in 0..2 {
                for other in columns.iter() {
                    let part = inner(other, &candidate);
                    candidate.iter_mut().zip(other).for_each(|(c, o)| *c -= part * o);
                }
            }
            let length = inner(&candidate, &candidate).re.sqrt();
            if length > 1e-8 {
                columns[number] = candidate.iter().map(|c| c / length).collect();
            }
        }
    }
}

/// (left vectors as columns, values descending, right vectors as columns) of rows × columns with rows ≥ columns.
fn decompose(by_columns: Columns) -> (Columns, Vec<f64>, Columns) {
    let (orthogonal, rotations) = orthogonalize(by_columns);
    let lengths: Vec<f64> = orthogonal.iter().map(|column| inner(column, column).re.sqrt()).collect();
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    let threshold = order.first().map_or(0.0, |&first| lengths[first]) * 1e-15;
    let unit = |&i: &usize| -> Vec<Complex64> {
        orthogonal[i].iter().map(|z| if lengths[i] > threshold { z / lengths[i] } else { ZERO }).collect()
    };
    (
        order.iter().map(unit).collect(),
        order.iter().map(|&i| lengths[i]).collect(),
        order.iter().map(|&i| rotations[i].clone()).collect(),
    )
}

/// `gesdd`: (overwritten operand, singular values, left vectors, right vectors conjugated and transposed, info).
pub(super) fn singular_values(
    instruction: &Instruction,
    a: &ArrayLiteral,
    [overwritten, values, left, right, info]: [&ArrayShape; 5],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let ((_, left_columns), (right_rows, _)) = (matrix_size(left)?, matrix_size(right)?);
    let mode = letter(instruction, "mode")?;
    let fits = match mode {
        b'A' => (left_columns, right_rows) == (rows, columns),
        b'S' => left_columns == right_rows && right_rows == rows.min(columns),
        b'N' => true,
        _ => return Err(EvalFailure::Malformed(format!("there is no mode {mode}"))),
    };
    if !fits {
        return Err(EvalFailure::malformed("the singular vectors do not fit the mode"));
    }
    let data = load_all::<Complex64>(a);
    let (mut singular, mut lefts, mut rights) = (Vec::new(), Vec::new(), Vec::new());
    for matrix in data.chunks((rows * columns).max(1)) {
        let is_finite = matrix.iter().all(|z| z.re.is_finite() && z.im.is_finite());
        if !is_finite {
            singular.extend(vec![f64::NAN; rows.min(columns)]);
            lefts.extend(vec![f64::NAN * ONE; rows * left_columns]);
            rights.extend(vec![f64::NAN * ONE; right_rows * columns]);
            continue;
        }
        // A wide matrix through its conjugate transpose.
        let (mut u, s, mut v) = if rows >= columns {
            decompose((0..columns).map(|c| (0..rows).map(|r| matrix[r * columns + c]).collect()).collect())
        } else {
            let (v, s, u) =
                decompose((0..rows).map(|r| (0..columns).map(|c| matrix[r * columns + c].conj()).collect()).collect());
            (u, s, v)
        };
        complete(&mut u, rows, left_columns);
        complete(&mut v, columns, right_rows);
        singular.extend(s);
        lefts.extend((0..rows * left_columns).map(|p| u[p % left_columns][p / left_columns]));
        rights.extend((0..right_rows * columns).map(|p| v[p / columns][p % columns].conj()));
    }
    if mode == b'N' {
        lefts = vec![ZERO; left.element_count() as usize];
        rights = vec![ZERO; right.element_count() as usize];
    }
    Ok(vec![
        ArrayLiteral::zeros(overwritten.clone())?,
        store_all(&singular, values)?,
        store_all(&lefts, left)?,
        store_all(&rights, right)?,
        integers(Vec::new(), info)?,
    ])
}
