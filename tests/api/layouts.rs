//! Products and transposes whose dimensions lie in any order.

use crate::against_evaluation::check;

/// All orders of some dimensions.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: &Vec<usize>, place: usize| [&order[..place], &[count - 1], &order[place..]].concat();
    orders(count - 1).iter().flat_map(|order| (0..count).map(move |place| insert(order, place))).collect()
}

/// The sizes of dimensions in an order, and where some of them are then.
fn arranged(sizes: &[i64], order: &[usize], dimensions: &[usize]) -> (Vec<i64>, Vec<usize>) {
    let place = |dimension: &usize| order.iter().position(|own| own == dimension).expect("one of them");
    (order.iter().map(|&dimension| sizes[dimension]).collect(), dimensions.iter().map(place).collect())
}

fn braces(numbers: &[usize]) -> String {
    format!("{{{}}}", numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

/// A product of operands with a batch dimension, a free one and two contracted ones, in these orders.
fn check_product(element_type: &str, [batch, rows, columns, long, short]: [i64; 5], left: &[usize], right: &[usize]) {
    let (lhs, of_lhs) = arranged(&[batch, rows, long, short], left, &[0, 2, 3]);
    let (rhs, of_rhs) = arranged(&[batch, columns, long, short], right, &[0, 2, 3]);
    check(&format!(
        " a = {element_type}{lhs:?} parameter(0)\n b = {element_type}{rhs:?} parameter(1)\n \
         ROOT d = {element_type}[{batch},{rows},{columns}] dot(a, b), lhs_batch_dims={}, lhs_contracting_dims={}, \
         rhs_batch_dims={}, rhs_contracting_dims={}",
        braces(&of_lhs[..1]),
        braces(&of_lhs[1..]),
        braces(&of_rhs[..1]),
        braces(&of_rhs[1..]),
    ));
}

#[test]
fn products_of_operands_in_all_orders() {
    let all = orders(4);
    for (number, left) in all.iter().enumerate() {
        // Each order of one operand meets others of the other one.
        for step in [0, 7, 13] {
            check_product("f32", [4, 10, 12, 5, 40], left, &all[(number + step) % all.len()]);
        }
        check_product("s32", [3, 300, 2, 6, 20], left, &all[(number + 5) % all.len()]);
        check_product("f64", [1, 40, 3, 7, 90], left, &all[(number + 11) % all.len()]);
    }
}

#[test]
fn products_of_few_columns_and_long_sums() {
    for (lhs, rhs, contracted) in [
        ("f32[32,5000]", "f32[5000,2]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("f32[5000,32]", "f32[2,5000]", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        ("f32[300,32]", "f32[300,2]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ("s32[70,32]", "s32[2,70]", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
    ] {
        let element_type = &lhs[..3];
        check(&format!(
            " a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n ROOT d = {element_type}[32,2] dot(a, b), {contracted}"
        ));
    }
    check(
        " a = f32[40,800] parameter(0)\n b = f32[800,9,3] parameter(1)\n \
         ROOT d = f32[40,9,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    );
    check(
        " a = f32[300,3] parameter(0)\n b = f32[90,3,5] parameter(1)\n \
         ROOT d = f32[300,90,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    );
}

#[test]
fn products_of_vectors_of_any_length() {
    for count in [1, 7, 4097, 100_003, 300_007] {
        check(&format!(
            " a = f64[{count}] parameter(0)\n b = f64[{count}] parameter(1)\n \
             ROOT d = f64[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        ));
        check(&format!(
            " a = s32[1,{count}] parameter(0)\n b = s32[{count},1] parameter(1)\n \
             ROOT d = s32[1,1] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ));
    }
}

#[test]
fn transposes_of_few_neighbours() {
    for element_type in ["f32", "s64", "u8", "bf16", "c64"] {
        for few in 2..=9 {
            for (long, other) in [(40, 3), (129, 5), (9, 33)] {
                check(&format!(
                    " a = {element_type}[{other},{long},{few}] parameter(0)\n \
                     ROOT t = {element_type}[{few},{other},{long}] transpose(a), dimensions={{2,0,1}}"
                ));
            }
        }
    }
}
