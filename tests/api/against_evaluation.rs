//! Programs of one or a few instructions, compared with their evaluation.

use evaluator::{Environment, evaluate};
use halo::{Client, CompileOptions, Literal};

/// Values that are exact in every type, as the bytes of an element.
fn argument(shape: &halo::Shape, seed: usize) -> Literal {
    let array = shape.as_array().expect("an array");
    let count = array.dimensions.iter().product::<i64>() as usize;
    let number = |index: usize| (index * 7 + index / 11 + seed) % 5;
    let values: Vec<f64> = (0..count).map(|index| number(index) as f64).collect();
    let wide = Literal::from_slice(array.dimensions.clone(), &values).expect("as many values");
    let text = format!(
        "HloModule c\nENTRY e {{\n a = f64{0:?} parameter(0)\n ROOT c = {1}{0:?} convert(a)\n}}\n",
        array.dimensions, array.element_type
    );
    let module = hlo::text::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    evaluate(&module, &[wide], &mut Environment::default()).expect("a conversion")
}

/// A computation of two elements, by one operation.
pub(crate) fn combination(element_type: &str, operation: &str) -> String {
    format!(
        "{operation} {{\n a = {element_type}[] parameter(0)\n b = {element_type}[] parameter(1)\n \
         ROOT c = {element_type}[] {operation}(a, b)\n}}\n"
    )
}

/// Compares a program with its evaluation, on one thread and on two.
#[track_caller]
pub(crate) fn check(entry: &str) {
    check_with("", entry);
}

/// The same for an entry that uses other computations.
#[track_caller]
pub(crate) fn check_with(computations: &str, entry: &str) {
    let text = format!("HloModule m\n{computations}\nENTRY e {{\n{entry}\n}}\n");
    let module = hlo::text::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for threads in [1, 2] {
        let client = Client::with_threads(threads).unwrap();
        let executable =
            client.compile(&text[..], &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let parameters = executable.program_shape().parameters.iter().enumerate();
        let arguments: Vec<Literal> = parameters.map(|(number, shape)| argument(shape, number)).collect();
        let expected = evaluate(&module, &arguments, &mut Environment::default()).unwrap();
        let result = executable.execute(&arguments).unwrap();
        assert_eq!(result, expected, "{entry} on {threads} threads");
    }
}
