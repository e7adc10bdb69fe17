//! Products with matrices of a few rows and columns, and of many rows to such matrices.

use crate::against_evaluation::check;

#[test]
fn rows_times_a_small_matrix() {
    for element_type in ["f32", "f64"] {
        for (terms, columns) in [(2, 2), (3, 3), (3, 4), (4, 3), (5, 7), (8, 8), (8, 2), (9, 3), (3, 9)] {
            for rows in [63, 64, 131] {
                check(&format!(
                    " a = {element_type}[{rows},{terms}] parameter(0)\n b = {element_type}[{terms},{columns}] parameter(1)\n \
                     ROOT d = {element_type}[{rows},{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
                ));
            }
        }
    }
}

#[test]
fn in_any_order_of_dimensions() {
    for (lhs, rhs, result, numbers) in [
        ("3,70", "5,3", "70,5", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        ("7,3,11,2", "2,3,5", "7,11,5", "lhs_contracting_dims={1,3}, rhs_contracting_dims={1,0}"),
        (
            "66,3,3",
            "66,3,3",
            "66,3,3",
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
        (
            "4,66,6",
            "66,6,4",
            "66,4,4",
            "lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
        (
            "5,13,2,70",
            "13,5,3,2",
            "13,5,70,3",
            "lhs_batch_dims={1,0}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={3}",
        ),
    ] {
        check(&format!(
            " a = f32[{lhs}] parameter(0)\n b = f32[{rhs}] parameter(1)\n c = f32[{result}] parameter(2)\n \
             d = f32[{result}] dot(a, b), {numbers}\n ROOT r = f32[{result}] add(d, c)"
        ));
    }
}

/// Sums that stay in registers while many rows go by.
#[test]
fn many_rows_to_a_small_matrix() {
    for element_type in ["f32", "f64", "s32", "bf16"] {
        for (terms, rows, columns) in [(1000, 3, 3), (1001, 7, 7), (333, 2, 17), (77, 8, 9), (130, 5, 1), (129, 1, 40)]
        {
            check(&format!(
                " a = {element_type}[{terms},{rows}] parameter(0)\n b = {element_type}[{terms},{columns}] parameter(1)\n \
                 ROOT d = {element_type}[{rows},{columns}] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
            ));
        }
    }
    check(
        " a = f32[11,40,3] parameter(0)\n b = f32[40,11,5] parameter(1)\n e = f32[40,11,5] exponential(b)\n \
         f = f32[40,11,5] floor(e)\n \
         ROOT d = f32[3,5] dot(a, f), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
    );
}

/// Sums of products wrap around in the type of the result, of a matrix that is large and of one that is not.
#[test]
fn matrices_of_small_integers_times_vectors() {
    for element_type in ["s8", "u8", "s16", "s32"] {
        for (rows, columns) in [(5, 130), (33, 64), (1030, 1024)] {
            for (matrix, dimension) in [(format!("{rows},{columns}"), 1), (format!("{columns},{rows}"), 0)] {
                check(&format!(
                    " a = {element_type}[{matrix}] parameter(0)\n b = {element_type}[{columns}] parameter(1)\n \
                     c = {element_type}[{matrix}] multiply(a, a)\n \
                     ROOT d = {element_type}[{rows}] dot(c, b), lhs_contracting_dims={{{dimension}}}, rhs_contracting_dims={{0}}"
                ));
            }
        }
    }
}
