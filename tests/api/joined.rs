//! Reductions of all elements of joined arrays.

use crate::against_evaluation::{check_with, combination};

#[test]
fn sums_of_joined_arrays() {
    let sums = combination("f32", "add");
    for [first, second] in [[300_000, 100_001], [262_147, 5], [3, 300_000], [200_000, 200_000]] {
        let all = first + second;
        let joined = format!(
            " a = f32[{first}] parameter(0)\n b = f32[{second}] parameter(1)\n \
             j = f32[{all}] concatenate(a, b), dimensions={{0}}\n one = f32[] constant(1)\n"
        );
        check_with(&sums, &format!("{joined} ROOT r = f32[] reduce(j, one), dimensions={{0}}, to_apply=add"));
        // Others read what is joined too.
        check_with(
            &sums,
            &format!(
                "{joined} n = f32[{all}] negate(j)\n r = f32[] reduce(n, one), dimensions={{0}}, to_apply=add\n \
                 ROOT t = (f32[], f32[{all}]) tuple(r, j)"
            ),
        );
        // Arrays that meet at different places.
        check_with(
            &sums,
            &format!(
                "{joined} k = f32[{all}] concatenate(b, a), dimensions={{0}}\n d = f32[{all}] subtract(j, k)\n \
                 ones = f32[{all}] broadcast(one), dimensions={{}}\n m = f32[{all}] maximum(d, ones)\n \
                 ROOT r = f32[] reduce(m, one), dimensions={{0}}, to_apply=add"
            ),
        );
    }
}

#[test]
fn of_several_dimensions_and_types() {
    check_with(
        &combination("s32", "maximum"),
        " a = s32[3,200000] parameter(0)\n b = s32[3,70001] parameter(1)\n j = s32[3,270001] concatenate(a, b), dimensions={1}\n \
         z = s32[] constant(-9)\n ROOT r = s32[3] reduce(j, z), dimensions={1}, to_apply=maximum",
    );
    check_with(
        &combination("f64", "add"),
        " a = f64[200,1000] parameter(0)\n b = f64[100,1000] parameter(1)\n c = f64[1,1000] parameter(2)\n \
         j = f64[301,1000] concatenate(a, b, c), dimensions={0}\n z = f64[] constant(0)\n \
         ROOT r = f64[] reduce(j, z), dimensions={0,1}, to_apply=add",
    );
    check_with(
        &combination("s32", "minimum"),
        " a = f32[400000] parameter(0)\n b = f32[300001] parameter(1)\n j = f32[700001] concatenate(a, b), dimensions={0}\n \
         k = s32[700001] bitcast-convert(j)\n z = s32[] constant(9)\n \
         ROOT r = s32[] reduce(k, z), dimensions={0}, to_apply=minimum",
    );
    check_with(
        &combination("u16", "maximum"),
        " a = f32[200000] parameter(0)\n b = f32[150001] parameter(1)\n j = f32[350001] concatenate(a, b), dimensions={0}\n \
         k = u16[350001,2] bitcast-convert(j)\n z = u16[] constant(9)\n \
         ROOT r = u16[] reduce(k, z), dimensions={0,1}, to_apply=maximum",
    );
    check_with(
        &combination("bf16", "maximum"),
        " a = bf16[300000] parameter(0)\n b = bf16[300000] parameter(1)\n j = bf16[600000] concatenate(a, b), dimensions={0}\n \
         z = bf16[] constant(-inf)\n ROOT r = bf16[] reduce(j, z), dimensions={0}, to_apply=maximum",
    );
}
