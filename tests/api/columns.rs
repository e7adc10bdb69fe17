//! Reductions along the columns of arrays that no cache holds, and of few columns.

use crate::against_evaluation::{check_with, combination};

#[track_caller]
fn check_columns(element_type: &str, operation: &str, array: &str, (dimensions, result): (&str, &str)) {
    let entry = format!(
        " x = {element_type}[{array}] parameter(0)\n z = {element_type}[] constant(1)\n \
         ROOT r = {element_type}[{result}] reduce(x, z), dimensions={{{dimensions}}}, to_apply={operation}"
    );
    check_with(&combination(element_type, operation), &entry);
}

#[test]
fn long_columns_are_combined_in_blocks_of_rows() {
    // Rows and columns that blocks and vectors divide, and others.
    for (array, result) in [("1600,1024", "1024"), ("1601,1003", "1003"), ("20003,83", "83")] {
        check_columns("f32", "add", array, ("0", result));
        check_columns("f32", "maximum", array, ("0", result));
        check_columns("s32", "add", array, ("0", result));
    }
    check_columns("f64", "add", "803,1001", ("0", "1001"));
    check_columns("f64", "minimum", "803,1001", ("0", "1001"));
    check_columns("u32", "or", "1601,1003", ("0", "1003"));
    check_columns("s64", "multiply", "803,1001", ("0", "1001"));
    check_columns("f32", "add", "3,801,700", ("1", "3,700"));
    check_columns("f32", "add", "60,60,501", ("0,1", "501"));
    check_columns("f32", "add", "61,500,60", ("0", "500,60"));
}

#[test]
fn wide_rows_are_combined_in_chunks_of_columns() {
    // Sixteen rows are two blocks; the last chunk has few columns, or none of its own.
    for (array, result) in
        [("16,120000", "120000"), ("21,100003", "100003"), ("40,65536", "65536"), ("17,3,40001", "3,40001")]
    {
        check_columns("f32", "add", array, ("0", result));
        check_columns("s64", "maximum", array, ("0", result));
    }
    check_columns("s8", "add", "100,70001", ("0", "70001"));
    check_columns("u16", "minimum", "50,70001", ("0", "70001"));
    let any = combination("pred", "or");
    for columns in [30_011, 65_536, 100_003] {
        check_with(
            &any,
            &format!(
                " x = s64[40,{columns}] parameter(0)\n z = pred[] constant(false)\n n = s64[] constant(2)\n \
                 b = s64[40,{columns}] broadcast(n), dimensions={{}}\n \
                 c = pred[40,{columns}] compare(x, b), direction=GT\n \
                 ROOT r = pred[{columns}] reduce(c, z), dimensions={{0}}, to_apply=or"
            ),
        );
    }
}

#[test]
fn few_columns_are_combined_in_parts() {
    for columns in [1, 2, 3, 4, 5, 17, 40, 64, 100, 300, 511] {
        let rows = (1 << 18) / columns + 13;
        check_columns("f32", "add", &format!("{rows},{columns}"), ("0", &columns.to_string()));
        check_columns("s32", "maximum", &format!("{rows},{columns}"), ("0", &columns.to_string()));
    }
    check_columns("f32", "add", "9,40,1000,3", ("0,2", "40,3"));
    check_columns("f32", "add", "64,70,70,5", ("0,1,2", "5"));
}

#[test]
fn what_is_made_of_sums_of_columns_follows_their_last_block() {
    let sums = combination("f32", "add");
    // Both moments, and what reads another argument, over which the result may lie.
    check_with(
        &sums,
        " x = f32[1601,1003] parameter(0)\n z = f32[] constant(0)\n y = f32[1601,1003] multiply(x, x)\n \
         s = f32[1003] reduce(x, z), dimensions={0}, to_apply=add\n q = f32[1003] reduce(y, z), dimensions={0}, to_apply=add\n \
         n = f32[] constant(0.5)\n h = f32[1003] broadcast(n), dimensions={}\n m = f32[1003] multiply(s, h)\n \
         v = f32[1003] subtract(q, m)\n ROOT t = (f32[1003], f32[1003]) tuple(m, v)",
    );
    check_with(
        &sums,
        " x = f32[1601,1003] parameter(0)\n w = f32[1003] parameter(1)\n z = f32[] constant(0)\n \
         s = f32[1003] reduce(x, z), dimensions={0}, to_apply=add\n o = f32[1003] add(w, w)\n ROOT r = f32[1003] subtract(o, s)",
    );
    check_with(
        &format!("{sums}{}", combination("s32", "maximum")),
        " x = f32[1601,1003] parameter(0)\n z = f32[] constant(0)\n i = s32[1601,1003] convert(x)\n y = s32[] constant(-3)\n \
         s = f32[1003] reduce(x, z), dimensions={0}, to_apply=add\n \
         m = s32[1003] reduce(i, y), dimensions={0}, to_apply=maximum\n \
         ROOT t = (s32[1003], f32[1003]) tuple(m, s)",
    );
}

/// Vectors of positions are as long as those of elements, whichever are wider.
#[test]
fn positions_of_the_largest_in_rows() {
    for (element_type, position_type) in
        [("f32", "s64"), ("f64", "s64"), ("s8", "s64"), ("bf16", "s64"), ("f64", "s32")]
    {
        let choice = format!(
            "choice {{\n a = {element_type}[] parameter(0)\n i = {position_type}[] parameter(1)\n \
             b = {element_type}[] parameter(2)\n j = {position_type}[] parameter(3)\n \
             larger = pred[] compare(a, b), direction=GT\n same = pred[] compare(a, b), direction=EQ\n \
             before = pred[] compare(i, j), direction=LT\n first = pred[] and(same, before)\n \
             p = pred[] or(larger, first)\n c = {element_type}[] select(p, a, b)\n k = {position_type}[] select(p, i, j)\n \
             ROOT t = ({element_type}[], {position_type}[]) tuple(c, k)\n}}\n"
        );
        for columns in [3, 16, 31, 64, 129, 500] {
            check_with(
                &choice,
                &format!(
                    " x = {element_type}[7,{columns}] parameter(0)\n i = {position_type}[7,{columns}] iota(), iota_dimension=1\n \
                     z = {element_type}[] constant(0)\n n = {position_type}[] constant(0)\n \
                     ROOT r = ({element_type}[7], {position_type}[7]) reduce(x, i, z, n), dimensions={{1}}, to_apply=choice"
                ),
            );
        }
    }
}

#[test]
fn extrema_of_small_floats_in_rows_columns_and_all() {
    for element_type in ["f16", "bf16"] {
        for operation in ["maximum", "minimum"] {
            check_columns(element_type, operation, "1601,103", ("0", "103"));
            check_columns(element_type, operation, "31,257", ("1", "31"));
            check_columns(element_type, operation, "257,1003", ("0,1", ""));
            check_columns(element_type, operation, "40,7", ("1", "40"));
        }
    }
}

#[test]
fn rows_of_small_integers() {
    for element_type in ["s8", "u8", "s16", "u16"] {
        for columns in [15, 63, 64, 130, 256, 1000] {
            for operation in ["add", "minimum", "xor"] {
                check_columns(element_type, operation, &format!("9,{columns}"), ("1", "9"));
            }
        }
    }
}
