//! Convolutions with a window of 3 × 3 that go by tiles: of any size and padding, layouts, and a kernel that is reversed.

use halo::{Client, CompileOptions, Literal};

use crate::against_evaluation::check;

#[test]
fn convolutions_of_three_by_three() {
    let [input, features] = [128, 160];
    for (batch, [rows, columns], window) in [
        (1, [13, 15], "size=3x3 pad=1_1x1_1"),
        (4, [13, 13], "size=3x3"),
        (3, [12, 14], "size=3x3 pad=0_2x2_0 rhs_reversal=1x1"),
        (3, [12, 9], "size=3x3 pad=-1_0x-2_-1"),
        (60, [2, 1], "size=3x3 pad=1_0x2_0"),
    ] {
        let padding = |number: usize| match window.split_once("pad=") {
            None => 0,
            Some((_, pads)) => {
                let own = pads.split([' ', 'x']).nth(number).unwrap();
                own.split('_').map(|size| size.parse::<i64>().unwrap()).sum()
            }
        };
        let [y, x] = [rows + 2 - padding(0), columns + 2 - padding(1)];
        check(&format!(
            " x = f32[{batch},{y},{x},{input}] parameter(0)\n k = f32[3,3,{input},{features}] parameter(1)\n b = f32[{features}] parameter(2)\n \
             c = f32[{batch},{rows},{columns},{features}] convolution(x, k), window={{{window}}}, dim_labels=b01f_01io->b01f\n \
             d = f32[{batch},{rows},{columns},{features}] broadcast(b), dimensions={{3}}\n ROOT r = f32[{batch},{rows},{columns},{features}] add(c, d)",
        ));
    }
}

#[test]
fn features_before_space() {
    check(
        " x = f32[2,128,13,15] parameter(0)\n k = f32[160,128,3,3] parameter(1)\n \
         ROOT c = f32[2,160,13,15] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01",
    );
}

/// What is infinite is not finite in the elements of the result that see it, and in no others; sums of both signs of it are NaN, but
/// not where more precision is asked for, or rounding as the program says.
#[test]
fn precision_that_is_asked_for() {
    let infinite = |precision: &str, options: &CompileOptions| {
        let text = format!(
            "HloModule m\nENTRY e {{\n x = f32[1,64,64,32] parameter(0)\n k = f32[3,3,32,64] parameter(1)\n \
             ROOT c = f32[1,64,64,64] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{precision}\n}}\n"
        );
        let executable = Client::cpu().unwrap().compile(&text[..], options).unwrap();
        let mut x = vec![1f32; 64 * 64 * 32];
        x[(10 * 64 + 21) * 32] = f32::INFINITY;
        let x = Literal::from_slice([1, 64, 64, 32], &x).unwrap();
        let k = Literal::from_slice([3, 3, 32, 64], &[1f32; 9 * 32 * 64]).unwrap();
        let result = executable.execute(&[x, k]).unwrap();
        let values: Vec<f32> = result.as_array().unwrap().to_vec().unwrap();
        let count = |is: fn(f32) -> bool| values.iter().filter(|&&value| is(value)).count();
        assert_eq!(count(|value| !value.is_finite()), 9 * 64);
        count(f32::is_infinite)
    };
    let (usual, strict) = (CompileOptions::default(), CompileOptions { excess_precision: false, ..Default::default() });
    assert_eq!(infinite(", operand_precision={highest,highest}", &usual), 9 * 64);
    assert_eq!(infinite("", &strict), 9 * 64);
    assert!(infinite("", &usual) < 9 * 64);
}
