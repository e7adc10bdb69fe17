//! The programs of the document "Indexing analysis" from text to maps, with the document's text. Its misprints
//! are noted where the maps themselves are tested, in the crate `indexing`.

use hlo::graph::InstructionId;
use hlo::indexing_maps::{Analysis, ValueIndexing};
use melior::Context;

/// Maps of the root of a program's entry computation: for each operand (or, forwards, each result).
fn maps(body: &str, input: Option<usize>) -> Vec<Vec<String>> {
    let text = format!("HloModule m\n{body}");
    let module = hlo::text::read(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let context = Context::new_with_threading(false);
    let mut analysis = Analysis::new(&context, entry);
    let root: InstructionId = entry.root;
    let groups = match input {
        Some(operand) => analysis.input_to_output(root, operand),
        None => analysis.output_to_input(root, 0),
    };
    let texts = |group: &ValueIndexing| match group {
        ValueIndexing::Unknown => vec!["unknown".to_string()],
        ValueIndexing::Known(entries) => entries.iter().map(|entry| entry.map.to_string()).collect(),
    };
    groups.iter().map(texts).collect()
}

fn entry(instructions: &str) -> String {
    format!("ENTRY e {{\n{instructions}\n}}\n")
}

/// A fusion of `computation` with the parameters' shapes given.
fn fusion(computation: &str, shapes: &[&str], result: &str) -> String {
    let parameters: String =
        shapes.iter().enumerate().map(|(i, shape)| format!("  q{i} = {shape} parameter({i})\n")).collect();
    let operands = (0..shapes.len()).map(|i| format!("q{i}")).collect::<Vec<_>>().join(", ");
    format!(
        "{computation}\nENTRY e {{\n{parameters}  ROOT fusion = {result} fusion({operands}), kind=kLoop, calls=f\n}}\n"
    )
}

#[test]
fn elementwise_and_broadcast() {
    let add =
        entry("p0 = f32[10, 20] parameter(0)\n p1 = f32[10, 20] parameter(1)\n ROOT add = f32[10, 20] add(p0, p1)");
    let identity = "(d0, d1) -> (d0, d1), domain: d0 in [0, 9], d1 in [0, 19]";
    assert_eq!(maps(&add, None), [[identity], [identity]]);
    assert_eq!(maps(&add, Some(1)), [[identity]]);
    let broadcast = entry("p0 = f32[20] parameter(0)\n ROOT bc0 = f32[10, 20, 30] broadcast(p0), dimensions={1}");
    assert_eq!(maps(&broadcast, None), [["(d0, d1, d2) -> (d1), domain: d0 in [0, 9], d1 in [0, 19], d2 in [0, 29]"]]);
    assert_eq!(
        maps(&broadcast, Some(0)),
        [["(d0)[s0, s1] -> (s0, d0, s1), domain: d0 in [0, 19], s0 in [0, 9], s1 in [0, 29]"]]
    );
}

/// An example: instructions, maps from the result to each operand, maps from each operand to the result.
type Example = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The operations of the document that have one map to each operand and back. Line breaks of the document are spaces.
const UNFUSED: [Example; 10] = [
    (
        "p0 = f32[3, 12288, 6, 128] parameter(0)
         ROOT transpose = f32[3, 6, 128, 12288] transpose(p0), dimensions={0, 2, 3, 1}",
        &["(d0, d1, d2, d3) -> (d0, d3, d1, d2), domain: d0 in [0, 2], d1 in [0, 5], d2 in [0, 127], d3 in [0, 12287]"],
        &["(d0, d1, d2, d3) -> (d0, d2, d3, d1), domain: d0 in [0, 2], d1 in [0, 12287], d2 in [0, 5], d3 in [0, 127]"],
    ),
    (
        "p0 = f32[1, 17, 9, 9] parameter(0)
         ROOT reverse = f32[1, 17, 9, 9] reverse(p0), dimensions={1, 2}",
        &[
            "(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3), domain: d0 in [0, 0], d1 in [0, 16], d2 in [0, 8], d3 in [0, 8]",
        ],
        &[
            "(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3), domain: d0 in [0, 0], d1 in [0, 16], d2 in [0, 8], d3 in [0, 8]",
        ],
    ),
    (
        "p0 = f32[10, 20, 50] parameter(0)
         ROOT slice = f32[5, 3, 25] slice(f32[10, 20, 50] p0), slice={[5:10:1], [3:20:7], [0:50:2]}",
        &["(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2), domain: d0 in [0, 4], d1 in [0, 2], d2 in [0, 24]"],
        &["(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2), domain: d0 in [5, 9], d1 in [3, 17], \
           d2 in [0, 48], (d1 - 3) mod 7 in [0, 0], d2 mod 2 in [0, 0]"],
    ),
    (
        "p0 = f32[4,8] parameter(0)\n ROOT reshape = f32[32] reshape(p0)",
        &["(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 31]"],
        &["(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]"],
    ),
    (
        "p0 = f32[32] parameter(0)\n ROOT reshape = f32[4, 8] reshape(p0)",
        &["(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]"],
        &["(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 31]"],
    ),
    (
        "p0 = f32[4,8] parameter(0)\n ROOT reshape = f32[2, 4, 4] reshape(p0)",
        &[
            "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, (d1 mod 2) * 4 + d2), domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 3]",
        ],
        &["(d0, d1) -> (d0 floordiv 2, (d0 mod 2) * 2 + d1 floordiv 4, d1 mod 4), domain: d0 in [0, 3], d1 in [0, 7]"],
    ),
    (
        "p0 = f32[4, 8, 12] parameter(0)\n ROOT reshape = f32[32, 3, 4] reshape(p0)",
        &["(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2), domain: d0 in [0, 31], d1 in [0, 2], d2 in [0, 3]"],
        &["(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4), domain: d0 in [0, 3], d1 in [0, 7], d2 in [0, 11]"],
    ),
    (
        "p0 = f32[2, 5, 7] parameter(0)\n p1 = f32[2, 11, 7] parameter(1)\n p2 = f32[2, 17, 7] parameter(2)
         ROOT concat = f32[2, 33, 7] concatenate(f32[2, 5, 7] p0, f32[2, 11, 7] p1, f32[2, 17, 7] p2), dimensions={1}",
        &[
            "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 1], d1 in [0, 4], d2 in [0, 6]",
            "(d0, d1, d2) -> (d0, d1 - 5, d2), domain: d0 in [0, 1], d1 in [5, 15], d2 in [0, 6]",
            "(d0, d1, d2) -> (d0, d1 - 16, d2), domain: d0 in [0, 1], d1 in [16, 32], d2 in [0, 6]",
        ],
        &[
            "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 1], d1 in [0, 4], d2 in [0, 6]",
            "(d0, d1, d2) -> (d0, d1 + 5, d2), domain: d0 in [0, 1], d1 in [0, 10], d2 in [0, 6]",
            "(d0, d1, d2) -> (d0, d1 + 16, d2), domain: d0 in [0, 1], d1 in [0, 16], d2 in [0, 6]",
        ],
    ),
    (
        "p0 = f32[4, 128, 256] parameter(0)\n p1 = f32[4, 256, 64] parameter(1)
         ROOT dot = f32[4, 128, 64] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0},
           lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        &[
            "(d0, d1, d2)[s0] -> (d0, d1, s0), domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 63], s0 in [0, 255]",
            "(d0, d1, d2)[s0] -> (d0, s0, d2), domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 63], s0 in [0, 255]",
        ],
        &[
            "(d0, d1, d2)[s0] -> (d0, d1, s0), domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 255], s0 in [0, 63]",
            // The document has `d1` and `s0`'s dimension swapped: (d0, s0, d1).
            "(d0, d1, d2)[s0] -> (d0, s0, d2), domain: d0 in [0, 3], d1 in [0, 255], d2 in [0, 63], s0 in [0, 127]",
        ],
    ),
    (
        "p0 = f32[4, 4] parameter(0)\n p1 = f32[] parameter(1)
         ROOT pad = f32[12, 16] pad(p0, p1), padding=1_4_1x4_8_0",
        &[
            "(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4), domain: d0 in [1, 7], d1 in [4, 7], (d0 - 1) mod 2 in [0, 0]",
            "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [0, 15]",
        ],
        &[
            // Not in the document.
            "(d0, d1) -> (d0 * 2 + 1, d1 + 4), domain: d0 in [0, 3], d1 in [0, 3]",
            "()[s0, s1] -> (s0, s1), domain: s0 in [0, 11], s1 in [0, 15]",
        ],
    ),
];

#[test]
fn unfused_operations() {
    for (instructions, backwards, forwards) in UNFUSED {
        let program = entry(instructions);
        assert_eq!(maps(&program, None).concat(), backwards, "{instructions}");
        let found: Vec<String> =
            (0..forwards.len()).flat_map(|operand| maps(&program, Some(operand)).concat()).collect();
        assert_eq!(found, forwards, "{instructions}");
    }
}

#[test]
fn gather_and_reduce_window() {
    let gather = entry(
        "operand = f32[33,76,70] parameter(0)\n indices = s32[1806,2] parameter(1)
         ROOT gather = f32[1806,7,8,4] gather(operand, indices), offset_dims={1,2,3}, collapsed_slice_dims={},
           start_index_map={0,1}, index_vector_dim=1, slice_sizes={7,8,4}",
    );
    let domain = "domain: d0 in [0, 1805], d1 in [0, 6], d2 in [0, 7], d3 in [0, 3]";
    assert_eq!(
        maps(&gather, None).concat(),
        [
            format!(
                "(d0, d1, d2, d3){{rt0, rt1}} -> (d1 + rt0, d2 + rt1, d3), {domain}, rt0 in [0, 26], rt1 in [0, 68]"
            ),
            format!("(d0, d1, d2, d3)[s0] -> (d0, s0), {domain}, s0 in [0, 1]"),
        ]
    );
    let window = format!(
        "max {{\n p0 = f32[] parameter(0)\n p1 = f32[] parameter(1)\n ROOT max = f32[] maximum(p0, p1)\n}}\n{}",
        entry(
            "c_inf = f32[] constant(-inf)\n p0 = f32[1024, 514] parameter(0)
             ROOT reduce-window = f32[1024, 3] reduce-window(p0, c_inf), window={size=1x512 pad=0_0x0_0}, to_apply=max"
        )
    );
    assert_eq!(
        maps(&window, None).concat(),
        [
            "(d0, d1)[s0] -> (d0, d1 + s0), domain: d0 in [0, 1023], d1 in [0, 2], s0 in [0, 511]",
            "(d0, d1) -> (), domain: d0 in [0, 1023], d1 in [0, 2]",
        ]
    );
}

#[test]
fn dynamic_slice_and_update() {
    let slice = entry(
        "src = s32[2,2,258] parameter(0)\n of1 = s32[] parameter(1)\n of2 = s32[] parameter(2)\n of3 = s32[] parameter(3)\n
         ROOT ds = s32[1,2,32] dynamic-slice(src, of1, of2, of3), dynamic_slice_sizes={1, 2, 32}",
    );
    let scalar = "(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 1], d2 in [0, 31]";
    let found = maps(&slice, None);
    assert_eq!(
        found[0],
        ["(d0, d1, d2){rt0, rt1, rt2} -> (d0 + rt0, d1 + rt1, d2 + rt2), domain: d0 in [0, 0], d1 in [0, 1], \
          d2 in [0, 31], rt0 in [0, 1], rt1 in [0, 0], rt2 in [0, 226]"]
    );
    assert_eq!(found[1..], [[scalar], [scalar], [scalar]]);
    let update = entry(
        "src = s32[20,30] parameter(0)\n upd = s32[5,10] parameter(1)\n of1 = s32[] parameter(2)\n of2 = s32[] parameter(3)\n
         ROOT dus = s32[20,30] dynamic-update-slice(src, upd, of1, of2)",
    );
    let found = maps(&update, None);
    assert_eq!(found[0], ["(d0, d1) -> (d0, d1), domain: d0 in [0, 19], d1 in [0, 29]"]);
    assert_eq!(
        found[1],
        [
            "(d0, d1){rt0, rt1} -> (d0 - rt0, d1 - rt1), domain: d0 in [0, 19], d1 in [0, 29], rt0 in [0, 15], rt1 in [0, 20]"
        ]
    );
    let scalar = "(d0, d1) -> (), domain: d0 in [0, 19], d1 in [0, 29]";
    assert_eq!(found[2..], [[scalar], [scalar]]);
}

#[test]
fn variadic_reduce() {
    let reduce = format!(
        "max {{\n p0 = f32[] parameter(0)\n p1 = s32[] parameter(1)\n p2 = f32[] parameter(2)\n p3 = s32[] parameter(3)\n
          m = f32[] maximum(p0, p2)\n n = s32[] maximum(p1, p3)\n ROOT t = (f32[], s32[]) tuple(m, n)\n}}\n{}",
        entry(
            "p0 = f32[256,10] parameter(0)\n p0_init = f32[] constant(-inf)\n p1 = s32[256,10] parameter(1)\n
             p1_init = s32[] constant(0)\n
             ROOT reduce = (f32[10], s32[10]) reduce(p0, p1, p0_init, p1_init), dimensions={0}, to_apply=max"
        )
    );
    let input = "(d0)[s0] -> (s0, d0), domain: d0 in [0, 9], s0 in [0, 255]";
    let init = "(d0) -> (), domain: d0 in [0, 9]";
    assert_eq!(maps(&reduce, None), [[input], [input], [init], [init]]);
    let back = "(d0, d1) -> (d1), domain: d0 in [0, 255], d1 in [0, 9]";
    assert_eq!(maps(&reduce, Some(0)), [[back], [back]]);
    let all = "()[s0] -> (s0), domain: s0 in [0, 9]";
    assert_eq!(maps(&reduce, Some(2)), [[all], [all]]);
}

#[test]
fn one_input_with_several_maps() {
    let text = fusion(
        "f {\n p0 = f32[1000, 1000] parameter(0)\n
          transpose_p0 = f32[1000, 1000]{0, 1} transpose(p0), dimensions={1, 0}\n
          ROOT a0 = f32[1000, 1000] add(p0, transpose_p0)\n}",
        &["f32[1000, 1000]"],
        "f32[1000, 1000]",
    );
    let domain = "domain: d0 in [0, 999], d1 in [0, 999]";
    let mut found = maps(&text, None).remove(0);
    found.sort();
    assert_eq!(found, [format!("(d0, d1) -> (d0, d1), {domain}"), format!("(d0, d1) -> (d1, d0), {domain}")]);
}

#[test]
fn one_input_with_equal_maps() {
    let text = fusion(
        "f {\n p0 = f32[20, 10, 50] parameter(0)\n
          lhs_transpose_1 = f32[10, 20, 50] transpose(p0), dimensions={1, 0, 2}\n
          lhs_e = f32[10, 20, 50] exponential(lhs_transpose_1)\n
          lhs_transpose_2 = f32[10, 50, 20] transpose(lhs_e), dimensions={0, 2, 1}\n
          rhs_transpose_1 = f32[50, 10, 20] transpose(p0), dimensions={2, 1, 0}\n
          rhs_log = f32[50, 10, 20] exponential(rhs_transpose_1)\n
          rhs_transpose_2 = f32[10, 50, 20] transpose(rhs_log), dimensions={1, 0, 2}\n
          ROOT add = f32[10, 50, 20] add(lhs_transpose_2, rhs_transpose_2)\n}",
        &["f32[20, 10, 50]"],
        "f32[10, 50, 20]",
    );
    assert_eq!(
        maps(&text, None),
        [["(d0, d1, d2) -> (d2, d0, d1), domain: d0 in [0, 9], d1 in [0, 49], d2 in [0, 19]"]]
    );
}

#[test]
fn softmax() {
    let text = format!(
        "add_computation {{\n p0 = f32[] parameter(0)\n p1 = f32[] parameter(1)\n ROOT add = f32[] add(p0, p1)\n}}\n
         max_computation {{\n p0 = f32[] parameter(0)\n p1 = f32[] parameter(1)\n ROOT max = f32[] maximum(p0, p1)\n}}\n{}",
        fusion(
            "f {\n p0 = f32[2, 65, 125] parameter(0)\n zero = f32[] constant(0)\n minus_inf = f32[] constant(-inf)\n
              max = f32[2, 65] reduce(p0, minus_inf), dimensions={2}, to_apply=max_computation\n
              max_b = f32[2, 65, 125] broadcast(max), dimensions={0, 1}\n
              shifted = f32[2, 65, 125] subtract(p0, max_b)\n
              exp = f32[2, 65, 125] exponential(shifted)\n
              sum = f32[2, 65] reduce(exp, zero), dimensions={2}, to_apply=add_computation\n
              sum_b = f32[2, 65, 125] broadcast(sum), dimensions={0, 1}\n
              ROOT divide = f32[2, 65, 125] divide(exp, sum_b)\n}",
            &["f32[2, 65, 125]"],
            "f32[2, 65, 125]",
        )
    );
    let domain = "domain: d0 in [0, 1], d1 in [0, 64], d2 in [0, 124]";
    let mut found = maps(&text, None).remove(0);
    found.sort();
    assert_eq!(
        found,
        [
            format!("(d0, d1, d2) -> (d0, d1, d2), {domain}"),
            format!("(d0, d1, d2)[s0] -> (d0, d1, s0), {domain}, s0 in [0, 124]")
        ]
    );
}

#[test]
fn chained_reshapes_cancel() {
    let text = fusion(
        "f {\n p0 = f32[10, 10, 10] parameter(0)\n reshape1 = f32[50, 20] reshape(p0)\n
          ROOT reshape2 = f32[10, 10, 10] reshape(reshape1)\n}",
        &["f32[10, 10, 10]"],
        "f32[10, 10, 10]",
    );
    let identity = "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]";
    assert_eq!(maps(&text, None), [[identity]]);
    assert_eq!(maps(&text, Some(0)), [[identity]]);
}

#[test]
fn a_long_chain_takes_linear_time_and_no_stack() {
    let mut body = String::from("f {\n i0 = f32[64] parameter(0)\n");
    let length = 20_000;
    for i in 1..=length {
        let root = if i == length { "ROOT " } else { "" };
        body.push_str(&format!(" {root}i{i} = f32[64] reverse(i{}), dimensions={{0}}\n", i - 1));
    }
    body.push('}');
    let text = fusion(&body, &["f32[64]"], "f32[64]");
    assert_eq!(maps(&text, None), [["(d0) -> (d0), domain: d0 in [0, 63]"]]);
}
