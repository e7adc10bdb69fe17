//! The evaluator on programs read from text: what the file tests cannot say in a `run` line.

mod builder;

use std::collections::VecDeque;

use evaluator::{
    CustomCalls, Environment, EvalError, EvalFailure, EvalValue, evaluate, evaluate_instruction, evaluate_values,
    reshape_in_order,
};
use hlo::graph::{Instruction, Module};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::scalar::{Scalar, load};
use hlo::text::literal::{parse_literal, write_literal};
use hlo::text::read;

fn module(text: &str) -> Module {
    read(text).unwrap_or_else(|errors| panic!("{}", errors.render("test.hlo", text)))
}

/// The module of an entry computation with these lines, after other computations.
fn entry(computations: &str, lines: &str) -> Module {
    module(&format!("HloModule m\n{computations}\nENTRY e {{\n{lines}\n}}\n"))
}

fn floats(values: &[f32]) -> Literal {
    ArrayLiteral::from_slice([values.len() as i64], values).unwrap().into()
}

fn run(module: &Module, arguments: &[Literal], environment: &mut Environment<'_>) -> Literal {
    evaluate(module, arguments, environment).unwrap_or_else(|error| panic!("{error}"))
}

fn failure(module: &Module, arguments: &[Literal], environment: &mut Environment<'_>) -> (String, EvalFailure) {
    match evaluate(module, arguments, environment) {
        Err(EvalError::Instruction { instruction, failure, .. }) => (instruction, failure),
        other => panic!("{other:?}"),
    }
}

/// Checks the result of an entry computation without parameters.
fn gives(computations: &str, lines: &str, expected: &str) {
    let module = entry(computations, lines);
    let expected = parse_literal(expected, &module.entry().root().shape).unwrap();
    let found = run(&module, &[], &mut Environment::new());
    let text = |literal: &Literal| {
        let mut text = String::new();
        write_literal(&mut text, literal);
        text
    };
    assert_eq!(text(&found), text(&expected));
}

#[test]
fn infeed_and_outfeed_are_queues() {
    let module = entry(
        "",
        "t = token[] after-all()
         i = ((f32[2], s32[]), token[]) infeed(t)
         d = (f32[2], s32[]) get-tuple-element(i), index=0
         u = token[] get-tuple-element(i), index=1
         a = f32[2] get-tuple-element(d), index=0
         b = f32[2] add(a, a)
         o = token[] outfeed(b, u), outfeed_shape=f32[2]{0}
         ROOT r = s32[] get-tuple-element(d), index=1",
    );
    let mut environment = Environment::new();
    environment.infeed = VecDeque::from([Literal::Tuple(vec![floats(&[1.0, 2.0]), Literal::scalar(7i32)])]);
    assert_eq!(run(&module, &[], &mut environment), Literal::scalar(7i32));
    assert_eq!(environment.outfeed.len(), 1);
    assert_eq!(environment.outfeed[0].as_array().unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0]);
    assert_eq!(failure(&module, &[], &mut environment), ("i".into(), EvalFailure::Empty("the infeed queue".into())));
}

#[test]
fn what_is_sent_is_received() {
    let module = entry(
        "",
        "t = token[] after-all()
         r = (f32[2], u32[], token[]) recv(t), channel_id=3
         c = f32[2] constant({1, 2})
         s = (f32[2], u32[], token[]) send(c, t), channel_id=3
         rd = (f32[2], token[]) recv-done(r), channel_id=3
         sd = token[] send-done(s), channel_id=3
         ROOT d = f32[2] get-tuple-element(rd), index=0",
    );
    let result = run(&module, &[], &mut Environment::new());
    assert_eq!(result.as_array().unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
}

/// The document's `myfunc`, as far as it shows it.
struct MyFunc;

impl CustomCalls for MyFunc {
    fn call(&self, instruction: &Instruction, operands: &[Literal]) -> Option<Result<Literal, String>> {
        let attributes: CustomCallAttributes = instruction.attributes().expect("a verified call");
        if attributes.custom_call_target != "myfunc" {
            return None;
        }
        let values = |number: usize| operands[number].as_array().and_then(|array| array.as_slice::<f32>());
        let (Some(x), Some(y)) = (values(0), values(1)) else {
            return Some(Err("expected f32".into()));
        };
        let mut z = [0f32; 9];
        z[0] = x[1] + y[3];
        Some(ArrayLiteral::from_slice([3, 3], &z).map(Literal::from).map_err(|error| error.to_string()))
    }
}

#[test]
fn custom_call_example_of_the_document() {
    let module = entry(
        "",
        r#"x = f32[2] constant({1, 2})
         y = f32[2,3] constant({{10, 20, 30}, {40, 50, 60}})
         ROOT z = f32[3,3] custom-call(x, y), custom_call_target="myfunc""#,
    );
    let functions = MyFunc;
    let mut environment = Environment::new();
    assert_eq!(
        failure(&module, &[], &mut environment),
        ("z".into(), EvalFailure::Unsupported("custom call `myfunc`".into()))
    );
    environment.custom_calls = Some(&functions);
    let result = run(&module, &[], &mut environment);
    assert_eq!(result.as_array().unwrap().as_slice::<f32>().unwrap()[0], 42.0);
}

#[test]
fn observer_sees_every_instruction_with_its_values() {
    let module = entry(
        "f {\n x = f32[] parameter(0)\n ROOT y = f32[] negate(x)\n}",
        "a = f32[] parameter(0)\n ROOT b = f32[] call(a), to_apply=f",
    );
    let mut seen = Vec::new();
    let mut observer = |instruction: &Instruction, operands: &[Literal], result: &Literal| {
        seen.push((instruction.kind, operands.len(), result.clone()));
    };
    let mut environment = Environment::new();
    environment.observer = Some(&mut observer);
    run(&module, &[Literal::scalar(2f32)], &mut environment);
    drop(environment);
    let kinds: Vec<OpKind> = seen.iter().map(|entry| entry.0).collect();
    assert_eq!(kinds, [OpKind::Parameter, OpKind::Parameter, OpKind::Negate, OpKind::Call]);
    assert_eq!(seen[2].2, Literal::scalar(-2f32));
}

#[test]
fn limits_stop_what_would_not_end_or_not_fit() {
    let forever = entry(
        "c {\n x = s32[] parameter(0)\n ROOT t = pred[] constant(true)\n}
         b {\n x = s32[] parameter(0)\n ROOT y = s32[] negate(x)\n}",
        "i = s32[] constant(1)\n ROOT w = s32[] while(i), condition=c, body=b",
    );
    let mut environment = Environment::new();
    environment.step_limit = Some(1000);
    assert_eq!(evaluate(&forever, &[], &mut environment), Err(EvalError::StepLimit(1000)));
    let huge = entry("", "z = f32[] constant(0)\n ROOT b = f32[1000000,1000000,1000] broadcast(z), dimensions={}");
    assert!(matches!(failure(&huge, &[], &mut Environment::new()), (name, EvalFailure::TooLarge(_)) if name == "b"));
}

#[test]
fn empty_arrays_are_not_walked() {
    let wide = entry("", "ROOT i = f32[1000000000000,0] iota(), iota_dimension=0");
    assert!(run(&wide, &[], &mut Environment::new()).as_array().unwrap().bytes().is_empty());
    gives(
        "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}",
        "a = f32[2,0] constant({{}, {}})
         z = f32[] constant(3)
         ROOT r = f32[2] reduce(a, z), dimensions={1}, to_apply=add",
        "{3, 3}",
    );
    gives(
        "",
        "a = f32[2,0] constant({{}, {}})
         b = f32[0,2] constant({})
         ROOT d = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "{{0, 0}, {0, 0}}",
    );
}

#[test]
fn elided_constants_are_not_executed() {
    let module = entry("", "c = f32[3] constant({...})\n ROOT n = f32[3] negate(c)");
    let (name, failure) = failure(&module, &[], &mut Environment::new());
    assert_eq!((name.as_str(), failure), ("c", EvalFailure::Elided));
}

#[test]
fn arguments_must_fit() {
    let module = entry("", "a = f32[2] parameter(0)\n ROOT b = f32[2] negate(a)");
    assert!(matches!(evaluate(&module, &[], &mut Environment::new()), Err(EvalError::Arguments(_))));
    let wrong = failure(&module, &[floats(&[1.0, 2.0, 3.0])], &mut Environment::new());
    assert_eq!(wrong.0, "a");
}

#[test]
fn a_chain_of_100_000_instructions() {
    let mut lines = String::from("v0 = s64[] constant(0)\n one = s64[] constant(1)\n");
    for number in 1..=100_000 {
        lines += &format!("v{number} = s64[] add(v{}, one)\n", number - 1);
    }
    lines += "ROOT r = s64[] copy(v100000)";
    assert_eq!(run(&entry("", &lines), &[], &mut Environment::new()), Literal::scalar(100_000i64));
}

#[test]
fn a_thousand_functions_calling_one_another() {
    let mut functions = String::from("f0 {\n x = s32[] parameter(0)\n ROOT y = s32[] negate(x)\n}\n");
    for number in 1..1000 {
        let callee = number - 1;
        functions +=
            &format!("f{number} {{\n x = s32[] parameter(0)\n ROOT y = s32[] call(x), to_apply=f{callee}\n}}\n");
    }
    let module = entry(&functions, "x = s32[] constant(5)\n ROOT y = s32[] call(x), to_apply=f999");
    assert_eq!(run(&module, &[], &mut Environment::new()), Literal::scalar(-5i32));
}

#[test]
fn run_time_sizes_travel_through_operations() {
    let module = entry(
        "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}",
        "v = f32[2,4] parameter(0)
         n = s32[] constant(3)
         d = f32[2,<=4] set-dimension-size(v, n), dimensions={1}
         t = f32[<=4,2] transpose(d), dimensions={1,0}
         z = f32[] constant(0)
         s = f32[2] reduce(t, z), dimensions={0}, to_apply=add
         g = s32[] get-dimension-size(t), dimensions={0}
         c = f32[<=8,2] concatenate(t, t), dimensions={0}
         ROOT r = (f32[2], s32[], f32[<=8,2]) tuple(s, g, c)",
    );
    let argument = ArrayLiteral::from_slice([2, 4], &[1f32, 2.0, 3.0, 100.0, 4.0, 5.0, 6.0, 100.0]).unwrap();
    let result = evaluate_values(&module, vec![EvalValue::array(argument)], &mut Environment::new()).unwrap();
    let EvalValue::Tuple(elements) = result else { panic!("not a tuple") };
    assert_eq!(elements[0].to_literal().as_array().unwrap().as_slice::<f32>().unwrap(), [6.0, 15.0]);
    assert_eq!(elements[1].to_literal(), Literal::scalar(3i32));
    let EvalValue::Array(concatenated) = &elements[2] else { panic!("not an array") };
    assert_eq!(concatenated.sizes.as_deref(), Some(&[6i64, 2][..]));
    let compact = concatenated.compacted().unwrap();
    assert_eq!(compact.as_slice::<f32>().unwrap(), [1., 4., 2., 5., 3., 6., 1., 4., 2., 5., 3., 6.]);
}

#[test]
fn a_size_set_back_to_the_bound_uncovers_the_padding() {
    // XLA:CPU computes the padding of elementwise operations too.
    gives(
        "",
        "v = f32[4] constant({1, 2, 3, 4})
         n = s32[] constant(2)
         d = f32[<=4] set-dimension-size(v, n), dimensions={0}
         m = f32[<=4] negate(d)
         f = s32[] constant(4)
         ROOT r = f32[4] set-dimension-size(m, f), dimensions={0}",
        "{-1, -2, -3, -4}",
    );
}

#[test]
fn reshape_with_an_order_of_dimensions() {
    // "Reshape", out-of-order collapse.
    let v: Vec<f32> = (1..=4).flat_map(|i| [0, 1, 2, 5, 6, 7].map(|k| (10 * i + k) as f32)).collect();
    let v = ArrayLiteral::from_slice([4, 2, 3], &v).unwrap();
    let collapsed = reshape_in_order(&v, &[1, 2, 0], &[8, 3]).unwrap();
    assert_eq!(
        collapsed.as_slice::<f32>().unwrap(),
        [
            10., 20., 30., 40., 11., 21., 31., 41., 12., 22., 32., 42., 15., 25., 35., 45., 16., 26., 36., 46., 17.,
            27., 37., 47.
        ]
    );
    assert_eq!(collapsed.shape().dimensions, [8, 3]);
}

#[test]
fn asynchronous_forms_run_as_their_operation() {
    gives(
        "f {\n x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x)\n}",
        "a = f32[2] constant({1, 2})
         s = ((f32[2]), f32[2], u32[]) async-start(a), calls=f
         u = ((f32[2]), f32[2], u32[]) async-update(s)
         ROOT d = f32[2] async-done(u)",
        "{-1, -2}",
    );
    gives(
        "",
        "a = f32[2] constant({1, 2})
         s = (f32[2], f32[2], u32[]) copy-start(a)
         ROOT d = f32[2] copy-done(s)",
        "{1, 2}",
    );
}

#[test]
fn bitcast_follows_layouts() {
    gives(
        "",
        "a = f32[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6}})
         ROOT b = f32[6]{0} bitcast(a)",
        "{1, 4, 2, 5, 3, 6}",
    );
}

#[test]
fn narrow_integers_wrap_around() {
    gives("", "a = s4[3] constant({7, -8, 3})\n ROOT b = s4[3] add(a, a)", "{-2, 0, 6}");
    gives("", "a = u2[3] constant({3, 2, 1})\n ROOT b = u2[3] multiply(a, a)", "{1, 0, 1}");
    gives("", "a = s2[2] constant({-2, 1})\n ROOT b = s2[2] negate(a)", "{-2, -1}");
    gives("", "a = s4[2] constant({-8, 1})\n ROOT b = s4[2] count-leading-zeros(a)", "{0, 3}");
    gives("", "a = s4[2] constant({-1, 5})\n ROOT b = s4[2] popcnt(a)", "{4, 2}");
}

#[test]
fn general_computations_are_interpreted() {
    // A reduction whose computation has a conditional and a call.
    gives(
        "neg {\n x = f32[] parameter(0)\n ROOT y = f32[] negate(x)\n}
         same {\n x = f32[] parameter(0)\n ROOT y = f32[] copy(x)\n}
         f {
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          z = f32[] constant(0)
          p = pred[] compare(y, z), direction=LT
          a = f32[] conditional(p, y, y), true_computation=neg, false_computation=same
          ROOT s = f32[] add(x, a)
         }",
        "v = f32[4] constant({1, -2, 3, -4})
         z = f32[] constant(0)
         ROOT r = f32[] reduce(v, z), dimensions={0}, to_apply=f",
        "10",
    );
}

#[test]
fn random_numbers_lie_in_their_range_and_repeat_with_the_seed() {
    let module = entry(
        "",
        "a = s32[] constant(-3)
         b = s32[] constant(5)
         ROOT r = s32[1000] rng(a, b), distribution=rng_uniform",
    );
    let first = run(&module, &[], &mut Environment::new());
    assert_eq!(first, run(&module, &[], &mut Environment::new()));
    let array = first.as_array().unwrap();
    let values = array.as_slice::<i32>().unwrap();
    assert!((-3..5).all(|expected| values.contains(&expected)));
    assert!(values.iter().all(|value| (-3..5).contains(value)));
    let mut environment = Environment::new();
    assert_ne!(run(&module, &[], &mut environment), run(&module, &[], &mut environment));
}

#[test]
fn one_instruction_folds() {
    let module = entry("", "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] multiply(a, b)");
    let operands = [Literal::scalar(6f32), Literal::scalar(7f32)];
    let folded = evaluate_instruction(None, module.entry().root(), &operands, &mut Environment::new()).unwrap();
    let array = folded.as_array().unwrap();
    assert_eq!(load(array.element_type(), array.bytes(), 0), Scalar::Float(42.0));
}

/// Evaluates one LAPACK call on a 4x3 matrix; the results as `f64`.
fn lapack(call: &str, operands: &[(&str, Vec<f64>)], result: &str) -> Vec<Vec<f64>> {
    let mut lines = String::new();
    let mut names = Vec::new();
    for (number, (shape, _)) in operands.iter().enumerate() {
        lines += &format!("p{number} = {shape} parameter({number})\n");
        names.push(format!("p{number}"));
    }
    lines += &format!("ROOT r = {result} custom-call({}), {call}", names.join(", "));
    let module = entry("", &lines);
    let shapes = module.entry().program_shape().parameters;
    let arguments: Vec<Literal> = operands
        .iter()
        .zip(&shapes)
        .map(|((_, values), shape)| {
            let dimensions = shape.as_array().unwrap().dimensions.clone();
            ArrayLiteral::from_slice(dimensions, values).unwrap().into()
        })
        .collect();
    let result = run(&module, &arguments, &mut Environment::new());
    let values = |literal: &&Literal| {
        let array = literal.as_array().unwrap();
        let count = array.shape().element_count() as usize;
        (0..count).map(|index| load(array.element_type(), array.bytes(), index).to_float()).collect()
    };
    result.leaves().iter().map(values).collect()
}

/// Product of row-major matrices with the given inner size.
fn product(a: &[f64], b: &[f64], inner: usize) -> Vec<f64> {
    let (rows, columns) = (a.len() / inner, b.len() / inner);
    let element = |row: usize, column: usize| (0..inner).map(|k| a[row * inner + k] * b[k * columns + column]).sum();
    (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))).map(|(r, c)| element(r, c)).collect()
}

fn transposed(a: &[f64], rows: usize) -> Vec<f64> {
    let columns = a.len() / rows;
    (0..a.len()).map(|p| a[p % rows * columns + p / rows]).collect()
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} is not {expected:?}");
}

const MATRIX: [f64; 12] = [2.0, -1.0, 0.5, 3.0, 4.0, -2.0, 0.25, 1.0, 6.0, -3.0, 2.0, 1.0];
const IDENTITY: [f64; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];

#[test]
fn lapack_qr_multiplies_back() {
    let matrix = ("f64[4,3]", MATRIX.to_vec());
    let factors = lapack(r#"custom_call_target="lapack_dgeqrf_ffi""#, &[matrix], "(f64[4,3], f64[3])");
    let operands = [("f64[4,3]", factors[0].clone()), ("f64[3]", factors[1].clone())];
    let q = &lapack(r#"custom_call_target="lapack_dorgqr_ffi""#, &operands, "f64[4,3]")[0];
    let r: Vec<f64> = (0..9).map(|p| if p % 3 >= p / 3 { factors[0][p] } else { 0.0 }).collect();
    assert_near(&product(q, &r, 3), &MATRIX);
    assert_near(&product(&transposed(q, 4), q, 4), &IDENTITY);
}

#[test]
fn lapack_svd_multiplies_back() {
    let matrix = ("f64[4,3]", MATRIX.to_vec());
    let call = r#"custom_call_target="lapack_dgesdd_ffi", backend_config={mode = 83 : ui8}"#;
    let results = lapack(call, &[matrix], "(f64[4,3], f64[3], f64[4,3], f64[3,3], s32[])");
    let (s, u, vt) = (&results[1], &results[2], &results[3]);
    assert!(s[0] >= s[1] && s[1] >= s[2] && s[2] > 0.0);
    let scaled: Vec<f64> = (0..12).map(|p| u[p] * s[p % 3]).collect();
    assert_near(&product(&scaled, vt, 3), &MATRIX);
    assert_near(&product(&transposed(u, 4), u, 4), &IDENTITY);
    assert_near(&product(vt, &transposed(vt, 3), 3), &IDENTITY);
}

#[test]
fn lapack_eigenvectors_diagonalize() {
    // The upper triangle is not read.
    let matrix = ("f64[3,3]", vec![4.0, 99.0, 99.0, 1.0, -2.0, 99.0, 0.5, 3.0, 1.0]);
    let call = r#"custom_call_target="lapack_dsyevd_ffi", backend_config={mode = 86 : ui8, uplo = 76 : ui8}"#;
    let results = lapack(call, &[matrix], "(f64[3,3], f64[3], s32[])");
    let (v, w) = (&results[0], &results[1]);
    assert!(w[0] <= w[1] && w[1] <= w[2]);
    let symmetric = [4.0, 1.0, 0.5, 1.0, -2.0, 3.0, 0.5, 3.0, 1.0];
    let scaled: Vec<f64> = (0..9).map(|p| v[p] * w[p % 3]).collect();
    assert_near(&product(&symmetric, v, 3), &scaled);
    assert_near(&product(&transposed(v, 3), v, 3), &IDENTITY);
}

#[test]
fn lapack_lu_multiplies_back() {
    let matrix = ("f64[3,3]", MATRIX[..9].to_vec());
    let results = lapack(r#"custom_call_target="lapack_dgetrf_ffi""#, &[matrix], "(f64[3,3], s32[3], s32[])");
    let lu = &results[0];
    let l: Vec<f64> = (0..9).map(|p| if p / 3 > p % 3 { lu[p] } else { f64::from(u8::from(p / 3 == p % 3)) }).collect();
    let u: Vec<f64> = (0..9).map(|p| if p % 3 >= p / 3 { lu[p] } else { 0.0 }).collect();
    let mut expected = MATRIX[..9].to_vec();
    for (row, &pivot) in results[1].iter().enumerate() {
        (0..3).for_each(|column| expected.swap(row * 3 + column, (pivot as usize - 1) * 3 + column));
    }
    assert_near(&product(&l, &u, 3), &expected);
}
