//! What the runtime moves for compiled code: long rows of arrays, and operands of products that it packs.

use crate::against_evaluation::check;

#[test]
fn long_rows_are_copied_and_cleared() {
    for entry in [
        "a = f32[3,100] parameter(0)\n z = f32[] constant(0)\n ROOT p = f32[5,105] pad(a, z), padding=1_1x2_3",
        "a = f32[3,100] parameter(0)\n z = f32[] constant(1)\n ROOT p = f32[5,105] pad(a, z), padding=1_1x2_3",
        "a = f32[3,100] parameter(0)\n z = f32[] constant(-0)\n ROOT p = f32[4,110] pad(a, z), padding=0_1x0_10",
        "a = f32[3,100] parameter(0)\n z = f32[] parameter(1)\n ROOT p = f32[5,100] pad(a, z), padding=1_1x0_0",
        "a = s8[2,3,300] parameter(0)\n z = s8[] constant(0)\n ROOT p = s8[2,5,295] pad(a, z), padding=0_0x0_2x-5_0",
        "a = f64[2,5,7,64] parameter(0)\n z = f64[] constant(0)\n \
         ROOT p = f64[2,7,9,64] pad(a, z), padding=0_0x1_1x1_1x0_0",
        "a = bf16[70,40] parameter(0)\n z = bf16[] constant(0)\n ROOT p = bf16[139,40] pad(a, z), padding=0_0_1x0_0",
        "a = c64[4,100] parameter(0)\n z = c64[] constant((0, 0))\n ROOT p = c64[6,100] pad(a, z), padding=1_1x0_0",
        "a = f32[9,300] parameter(0)\n ROOT s = f32[5,200] slice(a), slice={[2:7], [50:250]}",
        "a = f32[9,300] parameter(0)\n ROOT s = f32[3,300] slice(a), slice={[0:9:3], [0:300]}",
        "a = f32[9,300] parameter(0)\n ROOT r = f32[9,300] reverse(a), dimensions={0}",
        "a = f32[9,300] parameter(0)\n ROOT r = f32[9,300] reverse(a), dimensions={1}",
        "a = f32[300] parameter(0)\n ROOT b = f32[7,300] broadcast(a), dimensions={1}",
        "a = f32[7] parameter(0)\n ROOT b = f32[7,300] broadcast(a), dimensions={0}",
        "a = f32[5,6,80] parameter(0)\n ROOT t = f32[6,5,80] transpose(a), dimensions={1,0,2}",
        "a = u16[4,200] parameter(0)\n b = u16[2,200] parameter(1)\n \
         ROOT c = u16[6,200] concatenate(a, b), dimensions={0}",
        "a = pred[3,400] parameter(0)\n b = pred[3,300] parameter(1)\n \
         ROOT c = pred[3,700] concatenate(a, b), dimensions={1}",
        "a = f32[2000,1000] parameter(0)\n z = f32[] constant(0)\n ROOT p = f32[2002,1000] pad(a, z), padding=1_1x0_0",
    ] {
        check(entry);
    }
}

#[test]
fn operands_of_all_types_and_orders_are_packed() {
    for (from, to) in [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("s8", "s32"), ("u8", "s32")] {
        for (rows, columns, depth) in [(64, 96, 128), (50, 35, 70), (13, 129, 66), (100, 17, 31)] {
            for (left, right) in [(1, 0), (0, 0), (1, 1), (0, 1)] {
                let [a, b] = [(left, rows), (right, columns)].map(|(contracted, own)| match contracted {
                    0 => format!("{from}[{depth},{own}]"),
                    _ => format!("{from}[{own},{depth}]"),
                });
                check(&format!(
                    " a = {a} parameter(0)\n b = {b} parameter(1)\n ROOT d = {to}[{rows},{columns}] dot(a, b), \
                     lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
                ));
            }
        }
    }
}
