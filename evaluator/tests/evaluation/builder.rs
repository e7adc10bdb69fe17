//! Programs of the builder have the values that their formulas say.

use evaluator::{Environment, evaluate};
use hlo::builder::{HloBuilder, Op};
use hlo::element_type::ElementType::{F32, S32};
use hlo::literal::Literal;
use hlo::shape::Shape;

fn run(b: &HloBuilder, root: Op<'_>, arguments: &[Literal]) -> Literal {
    let module = b.build(root).expect("a valid program");
    evaluate(&module, arguments, &mut Environment::default()).expect("a value")
}

#[test]
fn operators_take_values_and_numbers() {
    let b = HloBuilder::new("operators");
    let x = b.parameter(0, Shape::array(F32, [3]), "x");
    let y = (2.0 * x + x / 4.0 - 1) * -x;
    assert_eq!(run(&b, y, &[[4f32, 0., 8.].into()]), Literal::from([-32f32, 0., -136.]));
    let b = HloBuilder::new("integers");
    let x = b.parameter(0, Shape::array(S32, [3]), "x");
    let y = ((x << 2) | 1) ^ (x >> 1) & !(x % 2);
    assert_eq!(run(&b, y, &[[5i32, -3, 0].into()]), Literal::from([23i32, -11, 1]));
}

#[test]
fn functions_are_called_several_times() {
    let b = HloBuilder::new("calls");
    let square = b.function("square", &[Shape::scalar(F32)], |_, values| values[0] * values[0]);
    let x = b.parameter(0, Shape::scalar(F32), "x");
    let y = b.call(&square, &[b.call(&square, &[x])]);
    let module = b.build(y).unwrap();
    assert_eq!(module.functions.len(), 2);
    module.check().unwrap();
    assert_eq!(run(&b, y, &[3f32.into()]), Literal::from(81f32));
}

#[test]
fn loops_and_branches_are_closures() {
    let b = HloBuilder::new("collatz");
    let n = b.parameter(0, Shape::scalar(S32), "n");
    let state = b.tuple(&[n, b.constant(0i32)]);
    let end = b.while_(
        state,
        |_, state| state.get(0).ne(1),
        |b, state| {
            let n = state.get(0);
            let next = b.conditional((n % 2).eq(0), n, |_, n| n / 2, n, |_, n| n * 3 + 1);
            b.tuple(&[next, state.get(1) + 1])
        },
    );
    assert_eq!(run(&b, end.get(1), &[27i32.into()]), Literal::from(111i32));
}
