//! Every example of the broadcasting page, with its numbers.

use super::assert_result;

#[test]
fn a_vector_and_a_matrix() {
    assert_result(
        |b| b.add(b.constant([[1f32, 2., 3.], [4., 5., 6.]]), b.constant([7f32, 8., 9.]), &[1]),
        [[8f32, 10., 12.], [11., 13., 15.]],
    );
}

#[test]
fn a_scalar_and_a_matrix() {
    assert_result(|b| b.constant([[1f32, 2., 3.], [4., 5., 6.]]) + 7, [[8f32, 9., 10.], [11., 12., 13.]]);
    assert_result(
        |b| b.add(b.constant(7f32), b.constant([[1f32, 2., 3.], [4., 5., 6.]]), &[]),
        [[8f32, 9., 10.], [11., 12., 13.]],
    );
}

/// The vector |7 8 9| and a matrix of zeros.
#[test]
fn a_vector_as_rows_or_columns() {
    assert_result(
        |b| b.add(b.constant([[0f32; 3]; 2]), b.constant([7f32, 8., 9.]), &[1]),
        [[7f32, 8., 9.], [7., 8., 9.]],
    );
    assert_result(
        |b| b.add(b.constant([[0f32; 3]; 3]), b.constant([7f32, 8., 9.]), &[1]),
        [[7f32, 8., 9.], [7., 8., 9.], [7., 8., 9.]],
    );
    assert_result(
        |b| b.add(b.constant([[0f32; 3]; 3]), b.constant([7f32, 8., 9.]), &[0]),
        [[7f32, 7., 7.], [8., 8., 8.], [9., 9., 9.]],
    );
}

#[test]
fn a_matrix_and_a_cuboid() {
    let matrix = [[1i32, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]];
    assert_result(|b| b.add(b.constant([[[0i32; 4]; 3]; 2]), b.constant(matrix), &[1, 2]), [matrix, matrix]);
}

/// T and TxV matched to MxNxPxQ, here 2x3x2x3.
#[test]
fn lower_ranks_match_any_increasing_dimensions() {
    let zeros = [[[[0i32; 3]; 2]; 3]; 2];
    let filled = |value: &dyn Fn([usize; 4]) -> i32| {
        let mut result = zeros;
        for (i, cube) in result.iter_mut().enumerate() {
            for (j, matrix) in cube.iter_mut().enumerate() {
                for (k, row) in matrix.iter_mut().enumerate() {
                    for (l, element) in row.iter_mut().enumerate() {
                        *element = value([i, j, k, l]);
                    }
                }
            }
        }
        result
    };
    assert_result(|b| b.add(b.constant(zeros), b.constant([1i32, 2, 3]), &[3]), filled(&|at| at[3] as i32 + 1));
    assert_result(|b| b.add(b.constant(zeros), b.constant([1i32, 2]), &[2]), filled(&|at| at[2] as i32 + 1));
    assert_result(|b| b.add(b.constant(zeros), b.constant([1i32, 2, 3]), &[1]), filled(&|at| at[1] as i32 + 1));
    assert_result(|b| b.add(b.constant(zeros), b.constant([1i32, 2]), &[0]), filled(&|at| at[0] as i32 + 1));
    let two_by_three = [[1i32, 2, 3], [4, 5, 6]];
    let value = |row: usize, column: usize| (3 * row + column + 1) as i32;
    assert_result(|b| b.add(b.constant(zeros), b.constant(two_by_three), &[2, 3]), filled(&|at| value(at[2], at[3])));
    assert_result(|b| b.add(b.constant(zeros), b.constant(two_by_three), &[0, 3]), filled(&|at| value(at[0], at[3])));
    let three_by_two = [[1i32, 2], [3, 4], [5, 6]];
    let value = |row: usize, column: usize| (2 * row + column + 1) as i32;
    assert_result(|b| b.add(b.constant(zeros), b.constant(three_by_two), &[1, 2]), filled(&|at| value(at[1], at[2])));
}

#[test]
fn degenerate_dimensions() {
    assert_result(
        |b| b.add(b.constant([[10i32], [20]]), b.constant([[1i32, 2, 3], [4, 5, 6]]), &[]),
        [[11i32, 12, 13], [24, 25, 26]],
    );
    let mut cuboid = [[[0i32; 5]; 2]; 7];
    let mut expected = cuboid;
    for i in 0..7 {
        for j in 0..2 {
            for k in 0..5 {
                cuboid[i][j][k] = (100 * i + 10 * j + k) as i32;
                expected[i][j][k] = cuboid[i][j][k] + (5 * j + k) as i32;
            }
        }
    }
    let slice = [[[0i32, 1, 2, 3, 4], [5, 6, 7, 8, 9]]];
    assert_result(|b| b.add(b.constant(slice), b.constant(cuboid), &[]), expected);
    for (matrix, rows) in expected.iter_mut().zip(&cuboid) {
        for (row, values) in matrix.iter_mut().zip(rows) {
            for (k, (element, value)) in row.iter_mut().zip(values).enumerate() {
                *element = value + k as i32;
            }
        }
    }
    assert_result(|b| b.add(b.constant(cuboid), b.constant([[[0i32, 1, 2, 3, 4]]; 7]), &[]), expected);
}

/// (2,1) and (1,3): an outer operation.
#[test]
fn degenerate_dimensions_on_both_sides() {
    assert_result(
        |b| b.mul(b.constant([[2i32], [3]]), b.constant([[5i32, 7, 11]]), &[]),
        [[10i32, 14, 22], [15, 21, 33]],
    );
}

/// |1 2 3 4| + [5 6] with broadcast dimension 0.
#[test]
fn both_kinds_at_once() {
    assert_result(
        |b| b.add(b.constant([1i32, 2, 3, 4]), b.constant([[5i32, 6]]), &[0]),
        [[6i32, 7], [7, 8], [8, 9], [9, 10]],
    );
    let mut expected = [[[0i32; 2]; 3]; 4];
    for (i, matrix) in expected.iter_mut().enumerate() {
        for (j, row) in matrix.iter_mut().enumerate() {
            *row = [100, 200].map(|value| value + (3 * i + j) as i32);
        }
    }
    let column: [[[i32; 1]; 3]; 4] = std::array::from_fn(|i| std::array::from_fn(|j| [(3 * i + j) as i32]));
    assert_result(|b| b.add(b.constant(column), b.constant([[100i32, 200]]), &[1, 2]), expected);
}
