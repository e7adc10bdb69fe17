//! Few columns: slices of wider rows, lookups along rows, and narrow arrays transposed.

use crate::against_evaluation::check;

/// Vectors that go through the rows read several registers, or some runs of neighbours.
#[test]
fn few_columns_of_wider_rows() {
    for element_type in ["f32", "f64", "bf16", "u8", "pred"] {
        for (rows, width) in [(70, 12), (33, 30), (160, 50)] {
            for (first, columns) in [(1, 3), (2, 5), (0, 7), (1, 11)] {
                let end = first + columns;
                let shape = format!("{element_type}[{rows},{columns}]");
                let slice = format!(
                    " a = {element_type}[{rows},{width}] parameter(0)\n \
                     s = {shape} slice(a), slice={{[0:{rows}], [{first}:{end}]}}\n"
                );
                check(&format!("{slice} ROOT r = {shape} copy(s)"));
                check(&format!("{slice} m = {shape} multiply(s, s)\n ROOT r = {shape} add(m, s)"));
            }
        }
    }
}

#[test]
fn columns_at_places_that_all_rows_share() {
    for element_type in ["f32", "f64", "bf16", "s8"] {
        for (rows, width, columns) in [(70, 8, 5), (70, 16, 7), (33, 16, 8), (40, 40, 12), (20, 100, 9), (17, 9, 21)] {
            let shape = format!("{element_type}[{rows},{columns}]");
            let gather = format!(
                " a = {element_type}[{rows},{width}] parameter(0)\n i = s32[{columns},1] parameter(1)\n \
                 g = {shape} gather(a, i), offset_dims={{0}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, \
                 index_vector_dim=1, slice_sizes={{{rows},1}}\n"
            );
            check(&format!("{gather} ROOT r = {shape} copy(g)"));
            check(&format!("{gather} m = {shape} multiply(g, g)\n ROOT r = {shape} add(m, g)"));
        }
    }
}

#[test]
fn narrow_arrays_are_transposed() {
    for element_type in ["f32", "f64", "bf16", "u8"] {
        for narrow in [5, 8, 9, 12, 15, 17, 24] {
            for (from, to) in
                [(format!("{narrow},133"), format!("133,{narrow}")), (format!("133,{narrow}"), format!("{narrow},133"))]
            {
                check(&format!(
                    " a = {element_type}[{from}] parameter(0)\n ROOT r = {element_type}[{to}] transpose(a), dimensions={{1,0}}"
                ));
            }
        }
    }
}
