//! Arithmetic on vectors of `bf16`, of which two are computed with as they are read: lanes stay apart, and NaN stays NaN.

use halo::{CompileOptions, Literal, bf16};

use super::CLIENT;
use super::against_evaluation::{check, check_with, combination};

fn run(entry: &str, arguments: &[Literal]) -> Vec<bf16> {
    let text = format!("HloModule m\nENTRY e {{\n{entry}\n}}\n");
    let executable = CLIENT.compile(&text[..], &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    executable.execute(arguments).unwrap().as_slice::<bf16>().expect("bf16").to_vec()
}

#[track_caller]
fn assert_same(found: &[bf16], expected: impl IntoIterator<Item = bf16>) {
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(is_same, "{place}: {:#x}, not {:#x}", found.to_bits(), expected.to_bits());
    }
}

fn all_codes() -> Vec<bf16> {
    (0..=u16::MAX).map(bf16::from_bits).collect()
}

fn codes_in_another_order() -> Vec<bf16> {
    (0..=u16::MAX).map(|code| bf16::from_bits(code.wrapping_mul(40503))).collect()
}

#[test]
fn sums_and_products_of_all_codes() {
    let codes = all_codes();
    let others = codes_in_another_order();
    let arguments = [&codes, &others].map(|own| Literal::from_slice([codes.len() as i64], own).unwrap());
    let pairs = || codes.iter().zip(&others).map(|(a, b)| (a.to_f32(), b.to_f32()));
    let of = |operation: &str| {
        let entry = format!(
            " a = bf16[65536] parameter(0)\n b = bf16[65536] parameter(1)\n ROOT r = bf16[65536] {operation}(a, b)"
        );
        run(&entry, &arguments)
    };
    assert_same(&of("add"), pairs().map(|(a, b)| bf16::from_f32(a + b)));
    assert_same(&of("multiply"), pairs().map(|(a, b)| bf16::from_f32(a * b)));
}

/// NaN of NaN of either sign, and of zeros of both signs 0 as the larger and -0 as the smaller: of columns of two codes.
#[test]
fn extrema_of_all_codes() {
    let codes = all_codes();
    let others = codes_in_another_order();
    let both = [&codes[..], &others].concat();
    let argument = [Literal::from_slice([2, codes.len() as i64], &both).unwrap()];
    for (operation, start, takes_first) in
        [("maximum", "-inf", f32::gt as fn(&f32, &f32) -> bool), ("minimum", "inf", f32::lt)]
    {
        let text = format!(
            "HloModule m\n{}\nENTRY e {{\n a = bf16[2,65536] parameter(0)\n i = bf16[] constant({start})\n \
             ROOT r = bf16[65536] reduce(a, i), dimensions={{0}}, to_apply={operation}\n}}\n",
            combination("bf16", operation)
        );
        let executable = CLIENT.compile(&text[..], &CompileOptions::default()).unwrap();
        let found = executable.execute(&argument).unwrap();
        let expected = codes.iter().zip(&others).map(|(&a, &b)| match (a.to_f32(), b.to_f32()) {
            (x, y) if x.is_nan() || y.is_nan() => bf16::NAN,
            (x, y) if x == y => {
                if a.is_sign_negative() == (operation == "minimum") {
                    a
                } else {
                    b
                }
            }
            (x, y) => {
                if takes_first(&x, &y) {
                    a
                } else {
                    b
                }
            }
        });
        assert_same(found.as_slice::<bf16>().unwrap(), expected);
    }
}

/// Of those that are NaN the lower half may carry into the upper one, or be all that makes it NaN.
#[test]
fn numbers_with_lower_halves_are_rounded() {
    let bits =
        [0x7fff_ffff_u32, 0xffff_ffff, 0x7f80_0001, 0xff80_8000, 0x7fc0_0000, 0x7f7f_ffff, 0x3f80_8000, 0x3f81_8000];
    let numbers: Vec<f32> = bits.iter().cycle().take(40).map(|&bits| f32::from_bits(bits)).collect();
    let expected = || numbers.iter().map(|&number| bf16::from_f32(number));
    let argument = [Literal::from_slice([40], &numbers).unwrap()];
    assert_same(&run(" a = f32[40] parameter(0)\n ROOT r = bf16[40] convert(a)", &argument), expected());
    let words: Vec<u32> = bits.iter().copied().cycle().take(40).collect();
    let argument = [Literal::from_slice([40], &words).unwrap()];
    let entry = " a = u32[40] parameter(0)\n b = f32[40] bitcast-convert(a)\n ROOT r = bf16[40] convert(b)";
    assert_same(&run(entry, &argument), expected());
}

/// What a program itself makes of NaN, before it takes the upper halves of numbers, is what it says.
#[test]
fn halves_that_are_taken_by_hand() {
    let codes = [0x3f80_u16, 0x7fc0, 0xffff, 0x7f80, 0xc0a0, 0, 0x8000, 0x7f81];
    let numbers: Vec<bf16> = codes.iter().cycle().take(48).map(|&code| bf16::from_bits(code)).collect();
    let argument = Literal::from_slice([48], &numbers).unwrap();
    let entry = " a = bf16[48] parameter(0)\n x = f32[48] convert(a)\n b = u32[48] bitcast-convert(x)\n \
                 p = pred[48] compare(x, x), direction=NE\n n = u32[] constant(305419896)\n \
                 m = u32[48] broadcast(n), dimensions={}\n s = u32[48] select(p, m, b)\n c = u32[] constant(16)\n \
                 d = u32[48] broadcast(c), dimensions={}\n h = u32[48] shift-right-logical(s, d)\n \
                 ROOT r = u16[48] convert(h)";
    let text = format!("HloModule m\nENTRY e {{\n{entry}\n}}\n");
    let executable = CLIENT.compile(&text[..], &CompileOptions::default()).unwrap();
    let found = executable.execute([&argument]).unwrap();
    let expected: Vec<u16> = numbers.iter().map(|own| if own.is_nan() { 0x1234 } else { own.to_bits() }).collect();
    assert_eq!(found.as_slice::<u16>().unwrap(), expected);
}

#[test]
fn lanes_that_are_not_alike() {
    for size in [16, 33, 64, 200] {
        for entry in [
            "i = bf16[N] iota(), iota_dimension=0\n ROOT r = bf16[N] add(a, i)",
            "v = bf16[N] reverse(a), dimensions={0}\n ROOT r = bf16[N] multiply(a, v)",
            "n = bf16[N] negate(a)\n p = pred[N] compare(a, n), direction=GT\n ROOT r = bf16[N] select(p, a, n)",
            "c = f32[N] convert(a)\n m = f32[N] multiply(c, c)\n b = bf16[N] convert(m)\n ROOT t = (f32[N], bf16[N]) tuple(m, b)",
            "s = bf16[M] slice(a), slice={[1:N]}\n t = bf16[M] slice(a), slice={[0:M]}\n ROOT r = bf16[M] subtract(s, t)",
            "o = bf16[] constant(0.5)\n h = bf16[N] broadcast(o), dimensions={}\n m = bf16[N] maximum(a, h)\n \
             ROOT t = (bf16[N], bf16[N]) tuple(m, h)",
        ] {
            let entry = entry.replace('N', &size.to_string()).replace('M', &(size - 1).to_string());
            check(&format!(" a = bf16[{size}] parameter(0)\n {entry}"));
        }
    }
    check(
        " a = bf16[7,48] parameter(0)\n b = bf16[48] parameter(1)\n c = bf16[7] parameter(2)\n \
         r = bf16[7,48] broadcast(b), dimensions={1}\n s = bf16[7,48] broadcast(c), dimensions={0}\n \
         m = bf16[7,48] multiply(a, r)\n ROOT o = bf16[7,48] add(m, s)",
    );
}

#[test]
fn numbers_beside_reductions() {
    let larger = combination("bf16", "maximum");
    check_with(
        &larger,
        " a = bf16[40,64] parameter(0)\n i = bf16[] constant(-inf)\n \
         m = bf16[40] reduce(a, i), dimensions={1}, to_apply=maximum\n \
         r = bf16[40,64] broadcast(m), dimensions={0}\n ROOT s = bf16[40,64] subtract(a, r)",
    );
}
