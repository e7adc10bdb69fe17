//! Every example of the document "Indexing analysis", with the document's text.
//!
//! The document has misprints; the tests have what is meant:
//! - the introduction gives the broadcast's dimensions as `i in [0, 10]`, `[0, 20]`, `[0, 30]`; bounds are inclusive;
//! - dynamic slice: "between 0 and tensor_size - slice_size - 1" should end in `tensor_size - slice_size`;
//! - transpose has a comma too many at its end, the reshape to `[32, 3, 4]` lacks one;
//! - reshape `[4, 8] -> [2, 4, 4]` writes summands in another order than the rest of the document;
//! - the dot's second operand, input to output, has `s0` and `d1` swapped;
//! - rule 2 of the simplifier has its end printed twice.
//!
//! Examples of whole programs, fusions among them, are in `programs`.

use hlo::attributes::WindowDimension;
use hlo::indexing_maps::maps::{self, Offset};
use hlo::ops::dot::DotAttributes;
use hlo::ops::gather::GatherAttributes;
use indexing::{IndexingMap, PointVariables};

use super::{context, map as parsed};

/// Compares a map with the document's text, line breaks and spaces aside.
fn check(map: IndexingMap<'static>, text: &str) {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(map.to_string(), one_line);
    assert_eq!(parsed(&one_line), without_sources(map));
}

fn converse(map: IndexingMap<'static>) -> IndexingMap<'static> {
    map.converse().expect("only chooses indices")
}

fn without_sources(map: IndexingMap<'static>) -> IndexingMap<'static> {
    parsed(&map.to_string())
}

#[test]
fn function_and_domain() {
    check(
        maps::reduce(context(), &[2, 4, 8, 16], &[0, 3]),
        "(d0, d1)[s0, s1] -> (s0, d0, d1, s1), domain: d0 in [0, 3], d1 in [0, 7], s0 in [0, 1], s1 in [0, 15]",
    );
    let affine = parsed("(d0)[s0, s1] -> (s0 + 5, d0 * 2, s1 * 3 + 50)");
    assert_eq!(affine.to_string(), "(d0)[s0, s1] -> (s0 + 5, d0 * 2, s1 * 3 + 50)");
}

#[test]
fn elementwise() {
    check(maps::identity(context(), &[10, 20]), "(d0, d1) -> (d0, d1), domain: d0 in [0, 9], d1 in [0, 19]");
}

#[test]
fn broadcast() {
    check(
        maps::broadcast(context(), &[10, 20, 30], &[1]),
        "(d0, d1, d2) -> (d1), domain: d0 in [0, 9], d1 in [0, 19], d2 in [0, 29]",
    );
    check(
        converse(maps::broadcast(context(), &[10, 20, 30], &[1])),
        "(d0)[s0, s1] -> (s0, d0, s1), domain: d0 in [0, 19], s0 in [0, 9], s1 in [0, 29]",
    );
}

#[test]
fn dynamic_slice() {
    let offsets = [Offset::Value(1), Offset::Value(2), Offset::Value(3)];
    let map = maps::dynamic_slice(context(), &[2, 2, 258], &[1, 2, 32], &offsets);
    let sources: Vec<u64> = map.runtimes().iter().filter_map(|v| Some(v.source.as_ref()?.value)).collect();
    assert_eq!(sources, [1, 2, 3]);
    check(
        map,
        "(d0, d1, d2){rt0, rt1, rt2} -> (d0 + rt0, d1 + rt1, d2 + rt2),
         domain: d0 in [0, 0], d1 in [0, 1], d2 in [0, 31], rt0 in [0, 1], rt1 in [0, 0], rt2 in [0, 226]",
    );
    check(
        maps::scalar(context(), &[1, 2, 32]),
        "(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 1], d2 in [0, 31]",
    );
}

#[test]
fn dynamic_update_slice() {
    check(maps::identity(context(), &[20, 30]), "(d0, d1) -> (d0, d1), domain: d0 in [0, 19], d1 in [0, 29]");
    check(
        maps::dynamic_update_slice(context(), &[20, 30], &[5, 10], &[Offset::Value(2), Offset::Value(3)]),
        "(d0, d1){rt0, rt1} -> (d0 - rt0, d1 - rt1),
         domain: d0 in [0, 19], d1 in [0, 29], rt0 in [0, 15], rt1 in [0, 20]",
    );
    check(maps::scalar(context(), &[20, 30]), "(d0, d1) -> (), domain: d0 in [0, 19], d1 in [0, 29]");
}

#[test]
fn gather() {
    let numbers = GatherAttributes::new(&[1, 2, 3], &[], &[0, 1], 1, &[7, 8, 4]);
    let (operand, indices) = maps::gather(context(), &[33, 76, 70], &[1806, 2], &[1806, 7, 8, 4], &numbers, 1);
    let index = |i: usize| {
        let source = operand.runtimes()[i].source.as_ref().expect("a run-time variable of an instruction");
        operand.with_results(source.index.clone()).signature().to_string()
    };
    assert_eq!(index(0), "(d0, d1, d2, d3){rt0, rt1} -> (d0, 0)");
    assert_eq!(index(1), "(d0, d1, d2, d3){rt0, rt1} -> (d0, 1)");
    check(
        operand,
        "(d0, d1, d2, d3){rt0, rt1} -> (d1 + rt0, d2 + rt1, d3),
         domain: d0 in [0, 1805], d1 in [0, 6], d2 in [0, 7], d3 in [0, 3], rt0 in [0, 26], rt1 in [0, 68]",
    );
    check(
        indices,
        "(d0, d1, d2, d3)[s0] -> (d0, s0),
         domain: d0 in [0, 1805], d1 in [0, 6], d2 in [0, 7], d3 in [0, 3], s0 in [0, 1]",
    );
}

#[test]
fn transpose() {
    let (input, output) = ([3, 12288, 6, 128], [3, 6, 128, 12288]);
    check(
        maps::transpose(context(), &input, &[0, 2, 3, 1]),
        "(d0, d1, d2, d3) -> (d0, d3, d1, d2),
         domain: d0 in [0, 2], d1 in [0, 5], d2 in [0, 127], d3 in [0, 12287]",
    );
    check(
        maps::transpose(context(), &output, &[0, 3, 1, 2]),
        "(d0, d1, d2, d3) -> (d0, d2, d3, d1),
         domain: d0 in [0, 2], d1 in [0, 12287], d2 in [0, 5], d3 in [0, 127]",
    );
}

#[test]
fn reverse() {
    check(
        maps::reverse(context(), &[1, 17, 9, 9], &[1, 2]),
        "(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3),
         domain: d0 in [0, 0], d1 in [0, 16], d2 in [0, 8], d3 in [0, 8]",
    );
}

#[test]
fn variadic_reduce() {
    check(maps::reduce(context(), &[256, 10], &[0]), "(d0)[s0] -> (s0, d0), domain: d0 in [0, 9], s0 in [0, 255]");
    check(maps::scalar(context(), &[10]), "(d0) -> (), domain: d0 in [0, 9]");
    check(
        converse(maps::reduce(context(), &[256, 10], &[0])),
        "(d0, d1) -> (d1), domain: d0 in [0, 255], d1 in [0, 9]",
    );
    check(converse(maps::scalar(context(), &[10])), "()[s0] -> (s0), domain: s0 in [0, 9]");
}

#[test]
fn slice() {
    let (output, starts, strides) = ([5, 3, 25], [5, 3, 0], [1, 7, 2]);
    check(
        maps::slice(context(), &output, &starts, &strides),
        "(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2), domain: d0 in [0, 4], d1 in [0, 2], d2 in [0, 24]",
    );
    check(
        maps::slice_to_output(context(), &[10, 20, 50], &output, &starts, &strides),
        "(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2),
         domain: d0 in [5, 9], d1 in [3, 17], d2 in [0, 48], (d1 - 3) mod 7 in [0, 0], d2 mod 2 in [0, 0]",
    );
}

#[test]
fn reshape_collapse_and_expand() {
    let split = "(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 31]";
    let joined = "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]";
    check(maps::reshape(context(), &[4, 8], &[32]), split);
    check(maps::reshape(context(), &[32], &[4, 8]), joined);
}

#[test]
fn reshape_generic() {
    check(
        maps::reshape(context(), &[4, 8], &[2, 4, 4]),
        "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, (d1 mod 2) * 4 + d2),
         domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 3]",
    );
    check(
        maps::reshape(context(), &[2, 4, 4], &[4, 8]),
        "(d0, d1) -> (d0 floordiv 2, (d0 mod 2) * 2 + d1 floordiv 4, d1 mod 4),
         domain: d0 in [0, 3], d1 in [0, 7]",
    );
    check(
        maps::reshape(context(), &[4, 8, 12], &[32, 3, 4]),
        "(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2),
         domain: d0 in [0, 31], d1 in [0, 2], d2 in [0, 3]",
    );
    check(
        maps::reshape(context(), &[32, 3, 4], &[4, 8, 12]),
        "(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4),
         domain: d0 in [0, 3], d1 in [0, 7], d2 in [0, 11]",
    );
}

#[test]
fn bitcast_is_transpose_reshape_transpose() {
    // f32[16,17,3]{2,1,0} seen as f32[51,16]{0,1}: memory order is kept, the matrix is column-major.
    check(
        maps::bitcast(context(), &[16, 17, 3], &[2, 1, 0], &[51, 16], &[0, 1]),
        "(d0, d1) -> (d1, d0 floordiv 3, d0 mod 3), domain: d0 in [0, 50], d1 in [0, 15]",
    );
}

#[test]
fn concatenate() {
    let (output, sizes) = ([2, 33, 7], [5, 11, 17]);
    for (which, (expr, bounds)) in
        [("d1", "[0, 4]"), ("d1 - 5", "[5, 15]"), ("d1 - 16", "[16, 32]")].into_iter().enumerate()
    {
        check(
            maps::concatenate(context(), &output, 1, sizes[..which].iter().sum(), sizes[which]),
            &format!("(d0, d1, d2) -> (d0, {expr}, d2), domain: d0 in [0, 1], d1 in {bounds}, d2 in [0, 6]"),
        );
    }
    for (size, offset, expr) in [(5, 0, "d1"), (11, 5, "d1 + 5"), (17, 16, "d1 + 16")] {
        let last = size - 1;
        check(
            maps::concatenate_to_output(context(), &[2, size, 7], 1, offset),
            &format!("(d0, d1, d2) -> (d0, {expr}, d2), domain: d0 in [0, 1], d1 in [0, {last}], d2 in [0, 6]"),
        );
    }
}

#[test]
fn dot() {
    let numbers = DotAttributes {
        lhs_batch_dims: &[0],
        lhs_contracting_dims: &[2],
        rhs_batch_dims: &[0],
        rhs_contracting_dims: &[1],
        ..DotAttributes::new()
    };
    let (lhs, rhs) = maps::dot(context(), &[4, 128, 256], &[4, 256, 64], &[4, 128, 64], &numbers);
    let domain = "domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 63], s0 in [0, 255]";
    check(lhs.clone(), &format!("(d0, d1, d2)[s0] -> (d0, d1, s0), {domain}"));
    check(rhs.clone(), &format!("(d0, d1, d2)[s0] -> (d0, s0, d2), {domain}"));
    let (lhs, rhs) = (converse(lhs), converse(rhs));
    check(lhs, "(d0, d1, d2)[s0] -> (d0, d1, s0), domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 255], s0 in [0, 63]");
    check(rhs, "(d0, d1, d2)[s0] -> (d0, s0, d2), domain: d0 in [0, 3], d1 in [0, 255], d2 in [0, 63], s0 in [0, 127]");
}

#[test]
fn pad() {
    check(
        maps::pad(context(), &[12, 16], &[4, 4], &[1, 4], &[1, 0]),
        "(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4),
         domain: d0 in [1, 7], d1 in [4, 7], (d0 - 1) mod 2 in [0, 0]",
    );
    check(maps::scalar(context(), &[12, 16]), "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [0, 15]");
}

#[test]
fn reduce_window() {
    let window = [WindowDimension::new(1), WindowDimension { size: 512, ..WindowDimension::new(1) }];
    check(
        maps::reduce_window(context(), &[1024, 514], &[1024, 3], &window),
        "(d0, d1)[s0] -> (d0, d1 + s0), domain: d0 in [0, 1023], d1 in [0, 2], s0 in [0, 511]",
    );
}

#[test]
fn fusion_of_transposes() {
    // Both chains of the document's second fusion example are the same function of the output index.
    let chain = |maps: &[IndexingMap<'static>]| {
        let mut composed = maps[0].clone();
        for map in &maps[1..] {
            composed = composed.compose(map).expect("ranks agree");
        }
        composed.simplify();
        composed
    };
    let expected = "(d0, d1, d2) -> (d2, d0, d1), domain: d0 in [0, 9], d1 in [0, 49], d2 in [0, 19]";
    check(
        chain(&[
            maps::transpose(context(), &[10, 20, 50], &[0, 2, 1]),
            maps::transpose(context(), &[20, 10, 50], &[1, 0, 2]),
        ]),
        expected,
    );
    check(
        chain(&[
            maps::transpose(context(), &[50, 10, 20], &[1, 0, 2]),
            maps::transpose(context(), &[20, 10, 50], &[2, 1, 0]),
        ]),
        expected,
    );
}

fn simplified(text: &str) -> String {
    let mut map = parsed(text);
    map.simplify_with(PointVariables::Replace);
    map.to_string()
}

#[test]
fn simplifier_rules() {
    assert_eq!(
        simplified("(d0, d1) -> (d0 + d1 floordiv 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]"),
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 6], d1 in [0, 14]"
    );
    let nine = "d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]";
    assert_eq!(
        simplified(&format!(
            "(d0, d1, d2) -> ((d0 * 100 + d1 * 10 + d2) floordiv 100,
             ((d0 * 100 + d1 * 10 + d2) mod 100) floordiv 10, d2 mod 10), domain: {nine}"
        )),
        format!("(d0, d1, d2) -> (d0, d1, d2), domain: {nine}")
    );
    assert_eq!(
        simplified(&format!(
            "(d0, d1, d2) -> ((d0 * 16 + d1 * 4 + d2) floordiv 8, (d0 * 16 + d1 * 4 + d2) mod 8), domain: {nine}"
        )),
        format!("(d0, d1, d2) -> (d0 * 2 + (d1 * 4 + d2) floordiv 8, (d1 * 4 + d2) mod 8), domain: {nine}")
    );
    assert_eq!(
        simplified("(d0, d1) -> (-((d0 * -11 - d1 + 109) floordiv 11) + 9), domain: d0 in [0, 9], d1 in [0, 10]"),
        "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 10]"
    );
}

#[test]
fn chained_reshapes_cancel() {
    let mut map = maps::reshape(context(), &[50, 20], &[10, 10, 10])
        .compose(&maps::reshape(context(), &[10, 10, 10], &[50, 20]))
        .expect("ranks agree");
    map.simplify();
    check(map, "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]");
}

#[test]
fn simplifier_constraint_rules() {
    assert_eq!(
        simplified("(d0) -> (d0), domain: d0 in [0, 99], d0 floordiv 8 + 3 in [8, 14]"),
        "(d0) -> (d0), domain: d0 in [40, 95]"
    );
    assert_eq!(
        simplified("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 5], s0 in [1, 3], d0 + s0 in [0, 20]"),
        "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 5], s0 in [1, 3]"
    );
}
