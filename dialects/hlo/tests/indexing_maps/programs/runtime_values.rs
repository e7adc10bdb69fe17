//! Run-time variables of known value, and why one case of the reference is not followed.

use hlo::indexing_maps::{Analysis, Outside, RuntimeValue, fold_runtime_values};
use indexing::{IndexingMap, RuntimeSource};
use melior::Context;

#[test]
fn offsets_of_known_value_are_folded() {
    let module = hlo::text::read(
        "HloModule m\nENTRY e {\n p = f32[20,30] parameter(0)\n n = s32[] parameter(1)\n five = s32[] constant(5)\n
         far = s32[] constant(99)\n ROOT s = f32[4,3] dynamic-slice(p, five, n), dynamic_slice_sizes={4,3}\n
         t = f32[4,3] dynamic-slice(p, n, far), dynamic_slice_sizes={4,3}\n}",
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let context = Context::new_with_threading(false);
    let map = |name: &str| {
        let (id, _) = entry.iter().find(|(_, instruction)| instruction.name == name).expect("is there");
        Analysis::new(&context, entry).output_to_input(id, 0)[0].maps()[0].map.to_string()
    };
    assert_eq!(map("s"), "(d0, d1){rt0} -> (d0 + 5, d1 + rt0), domain: d0 in [0, 3], d1 in [0, 2], rt0 in [0, 27]");
    // An offset outside of its bounds stays: the operation clamps it when it runs.
    assert_eq!(
        map("t"),
        "(d0, d1){rt0, rt1} -> (d0 + rt0, d1 + rt1), domain: d0 in [0, 3], d1 in [0, 2], rt0 in [0, 16], rt1 in [0, 27]"
    );
}

/// XLA's test `ReplaceConstantRTVars_PartiallyOptimizableAdd`, which an older version of XLA had: the run-time variable
/// is `constant[d0] + 2 * d0`, and the expected map has the known summand outside and keeps the bounds of the sum for
/// the other one, `(d0){rt0} -> (d0, d0 * 2 + rt0), … rt0 in [0, 11]`. That is another function, in both ways: it loses
/// points where the summand is negative, and has points whose result is outside the operand. The map stays as it is.
#[test]
fn a_partly_known_offset_keeps_the_bounds_of_the_whole() {
    let constants = [0, -2, 1, -6, 0, 0, 0, 0, 0, 0, 0, 5];
    let module = hlo::text::read(&format!(
        "HloModule m\nENTRY e {{\n constant = s64[12] constant({{{}}})\n
         broadcast = s64[12,13,24] broadcast(constant), dimensions={{0}}\n iota = s64[12,13,24] iota(), iota_dimension=2\n
         ROOT add = s64[12,13,24] add(broadcast, iota)\n}}",
        constants.map(|c: i64| c.to_string()).join(", ")
    ))
    .unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let context = Context::new_with_threading(false);
    let parsed = |text| IndexingMap::parse(&context, text).expect("parses");
    let original = parsed("(d0){rt0} -> (d0, rt0), domain: d0 in [0, 11], rt0 in [0, 11]");
    let mut folded = original.clone();
    let value = RuntimeValue { computation: 0, instruction: entry.root }.into();
    let index = parsed("(d0) -> (d0, 7, d0 * 2), domain: d0 in [0, 11]").results().to_vec();
    folded.set_runtime_source(0, RuntimeSource { value, index });
    fold_runtime_values(&mut folded, entry, 0, Outside::Impossible);
    assert_eq!(folded.to_string(), original.to_string());

    let reference = parsed("(d0){rt0} -> (d0, d0 * 2 + rt0), domain: d0 in [0, 11], rt0 in [0, 11]");
    let sum = |d0: i64| constants[d0 as usize] + 2 * d0;
    // The sum 0 is an index of the operand, but its summand -2 is not in the reference's domain.
    assert!(original.contains(&[1], &[], &[sum(1)]) && !reference.contains(&[1], &[], &[constants[1]]));
    // The summand 5 is, but the sum 27 is no index of the 12 elements.
    assert!(!original.contains(&[11], &[], &[sum(11)]) && reference.contains(&[11], &[], &[constants[11]]));
    assert_eq!(reference.evaluate(&[11], &[], &[constants[11]]), Some(vec![11, 27]));
}
