//! The emitted `f32` functions against `f64` references, over samples of all bit patterns, on every vector width.

use std::convert::Infallible;
use std::mem::transmute;

use exec::Jit;
use lowering_affine::math::{Binary, Math, MathTarget, Unary};
use lowering_llvm::Target;
use melior::ir::Type;

use super::machine_code;

const COUNT: usize = 1 << 16;

/// Compiles `f_<lanes>(x, y, result)`, which maps `COUNT` elements.
/// Runs a function that [`compile`] made, of elements of its type.
fn run<T>(jit: &Jit, symbol: &str, [x, y]: [&[T]; 2], result: &mut [T]) {
    assert!([x.len(), y.len(), result.len()].iter().all(|&length| length == COUNT));
    // SAFETY: the signature that `compile` gives its functions, and arrays of as many elements.
    unsafe {
        let code: unsafe extern "C" fn(*const T, *const T, *mut T) = transmute(jit.lookup(symbol).unwrap());
        code(x.as_ptr(), y.as_ptr(), result.as_mut_ptr());
    }
}

fn compile(double: bool, target: MathTarget, functions: &[Function]) -> Jit {
    let context = machine_code::context();
    let module = machine_code::build(&context, |builder| {
        let element = if double { Type::float64(&context) } else { Type::float32(&context) };
        let memory = builder.memref_type(&[COUNT as i64], element);
        for function in functions {
            for lanes in LANES {
                let name = format!("{}_{lanes}", function.name);
                let Ok(()) = builder.function(&name, &[memory, memory, memory], &[], &[], |builder, body| {
                    let arrays = body.parameters();
                    let (zero, end, step) = (
                        builder.constant_index(0),
                        builder.constant_index(COUNT as i64),
                        builder.constant_index(i64::from(lanes)),
                    );
                    let Ok(_) = builder.for_loop(zero, end, step, &[], |builder, index, _| {
                        let r#type = if lanes == 1 { element } else { builder.vector_type(lanes, element) };
                        let load = if lanes == 1 { "memref.load" } else { "vector.load" };
                        let store = if lanes == 1 { "memref.store" } else { "vector.store" };
                        let operand = |number| builder.value(load, &[arrays[number], index], r#type, &[]);
                        let math = Math::new(builder, target);
                        let result = match function.kind {
                            Kind::Unary(function, _) => math.unary(function, operand(0)),
                            Kind::Binary(function, _) => math.binary(function, operand(0), operand(1)),
                        };
                        builder.effect(store, &[result, arrays[2], index], &[]);
                        Ok::<_, Infallible>(Vec::new())
                    });
                    builder.effect("func.return", &[], &[]);
                    Ok::<_, Infallible>(())
                });
            }
        }
    });
    machine_code::load(&module)
}

const LANES: [u32; 4] = [1, 4, 8, 16];

struct Function {
    name: &'static str,
    kind: Kind,
    /// Units in the last place allowed.
    limit: f64,
}

enum Kind {
    Unary(Unary, fn(f64) -> f64),
    Binary(Binary, fn(f64, f64) -> f64),
}

fn unary(name: &'static str, function: Unary, reference: fn(f64) -> f64, limit: f64) -> Function {
    Function { name, kind: Kind::Unary(function, reference), limit }
}

fn functions() -> Vec<Function> {
    // The standard library has no erf, and its own, less exact inverse hyperbolic functions.
    unsafe extern "C" {
        safe fn acosh(x: f64) -> f64;
        safe fn asinh(x: f64) -> f64;
        safe fn atanh(x: f64) -> f64;
        safe fn erf(x: f64) -> f64;
    }
    vec![
        unary("acos", Unary::Acos, f64::acos, 0.51),
        unary("acosh", Unary::Acosh, |x| acosh(x), 0.51),
        unary("asin", Unary::Asin, f64::asin, 0.51),
        unary("asinh", Unary::Asinh, |x| asinh(x), 0.51),
        unary("atan", Unary::Atan, f64::atan, 0.51),
        unary("atanh", Unary::Atanh, |x| atanh(x), 0.51),
        unary("cbrt", Unary::Cbrt, f64::cbrt, 0.51),
        unary("cos", Unary::Cos, f64::cos, 1.6),
        unary("cosh", Unary::Cosh, f64::cosh, 0.51),
        unary("erf", Unary::Erf, |x| erf(x), 1.5),
        unary("exp", Unary::Exp, f64::exp, 0.87),
        unary("expm1", Unary::Expm1, f64::exp_m1, 1.0),
        unary("log", Unary::Log, f64::ln, 0.87),
        unary("log1p", Unary::Log1p, f64::ln_1p, 0.88),
        unary("logistic", Unary::Logistic, |x| 1.0 / (1.0 + (-x).exp()), 2.5),
        unary("rsqrt", Unary::Rsqrt, |x| 1.0 / x.sqrt(), 1.5),
        unary("sin", Unary::Sin, f64::sin, 1.6),
        unary("sinh", Unary::Sinh, f64::sinh, 0.51),
        unary("sqrt", Unary::Sqrt, f64::sqrt, 0.5),
        unary("tan", Unary::Tan, f64::tan, 0.51),
        unary("tanh", Unary::Tanh, f64::tanh, 2.4),
        Function { name: "atan2", kind: Kind::Binary(Binary::Atan2, f64::atan2), limit: 0.51 },
        Function { name: "hypot", kind: Kind::Binary(Binary::Hypot, f64::hypot), limit: 0.51 },
        Function { name: "pow", kind: Kind::Binary(Binary::Pow, f64::powf), limit: 0.51 },
    ]
}

/// Every special value, then numbers around 1, then bit patterns from all over.
fn samples(seed: u32) -> Vec<f32> {
    let specials = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        2.5,
        88.0,
        89.5,
        104.5,
        1e-45,
        f32::MIN_POSITIVE,
        1e-40,
        f32::MAX,
        8_388_608.0,
        16_777_216.0,
        16_777_217.0,
        105_615.0,
        105_616.0,
        1e10,
        f32::INFINITY,
        f32::NAN,
    ];
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    (0..COUNT)
        .map(|index| match index {
            _ if index < specials.len() && seed == 0 => specials[index],
            _ if index < 2 * specials.len() && seed == 0 => -specials[index - specials.len()],
            _ if index % 4 == 0 => f32::from_bits(0x3f00_0000 + (random() >> 8)),
            _ if index % 4 == 1 => (random() >> 8) as f32 / 524_288.0 - 16.0,
            _ => f32::from_bits(random()),
        })
        .collect()
}

/// The distance in units in the last place of `expected`, 0 for equal specials, infinite if one is special.
fn error(actual: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if rounded.is_nan() || actual.is_nan() {
        return if rounded.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded == 0.0 && actual == 0.0 {
        return if rounded.is_sign_negative() == actual.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    let largest = f64::from(f32::MAX);
    if actual.is_infinite() || rounded.is_infinite() {
        let beyond = expected.abs() > largest * (1.0 - 1e-6) && actual.abs() >= f32::MAX * 0.999_999;
        return if beyond && (actual > 0.0) == (expected > 0.0) { 0.0 } else { f64::INFINITY };
    }
    let exponent = expected.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    ((f64::from(actual) - expected) / (exponent - 23.0).exp2()).abs()
}

fn check_all(target: MathTarget) {
    let functions = functions();
    let jit = compile(false, target, &functions);
    let mut failures = Vec::new();
    for function in &functions {
        let mut worst = [(0.0, 0.0, 0.0); LANES.len()];
        for seed in 0..3u32 {
            let x = samples(seed);
            let y = if seed == 0 { pair_with(&x) } else { samples(seed + 100) };
            let mut result = vec![0f32; COUNT];
            for (worst, lanes) in worst.iter_mut().zip(LANES) {
                run(&jit, &format!("{}_{lanes}", function.name), [&x, &y], &mut result);
                for index in 0..COUNT {
                    let (a, b) = (f64::from(x[index]), f64::from(y[index]));
                    let expected = match function.kind {
                        Kind::Unary(_, reference) => reference(a),
                        Kind::Binary(_, reference) => reference(a, b),
                    };
                    let error = error(result[index], expected);
                    if error > worst.0 {
                        *worst = (error, x[index], y[index]);
                    }
                }
            }
        }
        println!("{:9} {worst:?}", function.name);
        if worst.iter().any(|(error, ..)| *error > function.limit) {
            failures.push(function.name);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// Second operands that put all pairs of the first specials together.
fn pair_with(x: &[f32]) -> Vec<f32> {
    let mut y = samples(7);
    y.iter_mut().enumerate().for_each(|(index, y)| {
        if index < 44 {
            *y = x[(index * 7 + 3) % 44];
        }
    });
    y
}

#[test]
fn functions_with_the_vector_library() {
    let bits = exec::runtime::vector_math::widest_vector_bits();
    if bits == 0 {
        println!("skipped: no vector library");
        return;
    }
    check_all(MathTarget { scale_instruction: false, vector_library_bits: bits });
}

#[test]
fn functions_without_the_vector_library() {
    check_all(MathTarget::default());
}

/// Whether the host has the vectors that [`MathTarget::scale_instruction`] is about.
fn has_instructions_of_avx512() -> bool {
    let target = Target::host();
    target.has_feature("avx512f") && target.has_feature("avx512vl")
}

#[test]
fn functions_with_instructions_of_avx512() {
    if has_instructions_of_avx512() {
        check_all(MathTarget { scale_instruction: true, vector_library_bits: 0 });
        check_doubles(MathTarget { scale_instruction: true, vector_library_bits: 0 }, 2.6);
    }
}

/// Units in the last place between doubles; specials as in `error`.
fn error_f64(actual: f64, expected: f64) -> f64 {
    if expected.is_nan() || actual.is_nan() {
        return if expected.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if actual == expected {
        return if actual.is_sign_negative() == expected.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    let exponent = expected.abs().max(f64::MIN_POSITIVE).log2().floor();
    (actual - expected).abs() / (exponent - 52.0).exp2()
}

#[test]
fn doubles_are_the_library_s() {
    let bits = exec::runtime::vector_math::widest_vector_bits();
    // glibc promises 4 units for its vector functions, 1 for the scalar reference.
    check_doubles(MathTarget { scale_instruction: false, vector_library_bits: bits }, 5.0);
}

#[test]
fn doubles_without_a_library() {
    check_doubles(MathTarget::default(), 2.6);
}

/// Numbers around 1, and of all sizes and kinds.
fn double_samples(seed: u32) -> Vec<f64> {
    let specials =
        [0.0, 1.0, 2.0, 0.5, 5e-324, 1e-310, f64::MIN_POSITIVE, f64::MAX, 1e300, 1e22, f64::INFINITY, f64::NAN];
    let singles = samples(seed).into_iter().map(|value| f64::from(value) * 1.000_000_012_3);
    let mut state = u64::from(seed);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    singles
        .enumerate()
        .map(|(index, single)| match index {
            _ if seed == 0 && index < 12 => specials[index],
            _ if seed == 0 && index < 24 => -specials[index - 12],
            _ if index % 3 == 0 => f64::from_bits(random()),
            _ if index % 3 == 1 => (random() >> 11) as f64 * (-43f64).exp2() - 512.0,
            _ => single,
        })
        .collect()
}

/// Doubles agree with the host's library.
fn check_doubles(target: MathTarget, limit: f64) {
    let mut functions = functions();
    functions.iter_mut().filter(|function| function.name == "logistic").for_each(|function| {
        function.kind = Kind::Unary(Unary::Logistic, |x| {
            let e = (-x.abs()).exp();
            if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
        });
    });
    let jit = compile(true, target, &functions);
    let (x, y) = (double_samples(0), double_samples(5));
    let mut result = vec![0f64; COUNT];
    let mut failures = Vec::new();
    for function in &functions {
        let mut worst = (0.0, 0.0, 0.0, 0.0);
        for lanes in LANES {
            run(&jit, &format!("{}_{lanes}", function.name), [&x, &y], &mut result);
            for ((&x, &y), &result) in x.iter().zip(&y).zip(&result) {
                let expected = match function.kind {
                    Kind::Unary(_, reference) => reference(x),
                    Kind::Binary(_, reference) => reference(x, y),
                };
                let error = error_f64(result, expected);
                if error > worst.0 {
                    worst = (error, x, y, result);
                }
            }
        }
        println!("{:9} {worst:?}", function.name);
        if worst.0 > limit {
            failures.push(function.name);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// Functions made of powers of two, where those leave the normal numbers, and a little beyond: limits in units of the result's last
/// place, denormal ones included.
#[test]
fn exponentials_near_their_limits() {
    let exponentials = || {
        let mut functions = functions();
        functions.retain(|function| ["exp", "logistic", "tanh"].contains(&function.name));
        // Denormal results are rounded a second time.
        functions.iter_mut().for_each(|function| function.limit = function.limit.max(1.7));
        functions
    };
    let spread = |low: f64, high: f64| (0..COUNT).map(move |index| low + (high - low) * index as f64 / COUNT as f64);
    for scale_instruction in [false, has_instructions_of_avx512()] {
        let target = MathTarget { scale_instruction, vector_library_bits: 0 };
        let (singles, doubles) = (compile(false, target, &exponentials()), compile(true, target, &exponentials()));
        for (function, lanes) in exponentials().iter().flat_map(|function| LANES.map(|lanes| (function, lanes))) {
            let Function { name, kind: Kind::Unary(_, reference), limit } = *function else { continue };
            let x: Vec<f32> = spread(-180.0, 110.0).map(|x| x as f32).collect();
            let mut result = vec![0f32; COUNT];
            run(&singles, &format!("{name}_{lanes}"), [&x, &x], &mut result);
            for (&x, &result) in x.iter().zip(&result) {
                assert!(error(result, reference(x.into())) <= limit, "{name}({x}) = {result:e}");
            }
            let x: Vec<f64> = spread(-1450.0, 750.0).collect();
            let mut result = vec![0f64; COUNT];
            run(&doubles, &format!("{name}_{lanes}"), [&x, &x], &mut result);
            for (&x, &result) in x.iter().zip(&result) {
                // The reference, too, is rounded, and a quotient of rounded ones more than once.
                let expected = if name == "logistic" && x < -700.0 { x.exp() } else { reference(x) };
                assert!(error_f64(result, expected) <= limit + 1.5, "{name}({x}) = {result:e}, not {expected:e}");
            }
        }
    }
}

#[test]
fn all_pairs_of_special_values() {
    let specials: Vec<f32> =
        [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 2.5, 1e-45, f32::MAX, 16_777_217.0, f32::INFINITY, f32::NAN]
            .into_iter()
            .flat_map(|x: f32| [x, -x])
            .collect();
    let functions: Vec<_> =
        functions().into_iter().filter(|function| matches!(function.kind, Kind::Binary(..))).collect();
    let jit = compile(false, MathTarget::default(), &functions);
    let pairs: Vec<(f32, f32)> = specials.iter().flat_map(|&x| specials.iter().map(move |&y| (x, y))).collect();
    let mut x: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
    let mut y: Vec<f32> = pairs.iter().map(|pair| pair.1).collect();
    x.resize(COUNT, 1.0);
    y.resize(COUNT, 1.0);
    let mut result = vec![0f32; COUNT];
    for function in &functions {
        let Kind::Binary(_, reference) = function.kind else { continue };
        run(&jit, &format!("{}_8", function.name), [&x, &y], &mut result);
        for (result, &(x, y)) in result.iter().zip(&pairs) {
            let expected = reference(x.into(), y.into());
            assert!(error(*result, expected) < 1.0, "{}({x}, {y}) = {result}, not {expected}", function.name);
        }
    }
}
