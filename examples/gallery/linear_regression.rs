//! A line through points, found by gradient descent: the whole training is one `while` of one program.

use std::path::PathBuf;

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Literal, Module, Shape};

const POINTS: i64 = 100;

/// Trains `slope` and `offset` on points for some steps; the result is (slope, offset, mean squared error).
fn program(steps: i64, rate: f64) -> Result<Module, Box<dyn std::error::Error>> {
    let b = HloBuilder::new("linear_regression");
    let points = Shape::of::<f32>([POINTS]);
    let x = b.parameter(0, points.clone(), "x");
    let y = b.parameter(1, points, "y");
    let start = b.tuple(&[b.constant(0i32), x, y, b.constant(0f32), b.constant(0f32), b.constant(0f32)]);
    let end = b.while_(
        start,
        |_, state| state.get(0).lt(steps),
        |b, state| {
            let [step, x, y, slope, offset] = [0, 1, 2, 3, 4].map(|index| state.get(index));
            let mean = |values| b.reduce_all(values, b.constant(0f32), |_, sum, value| sum + value) / POINTS;
            let error = x * slope + offset - y;
            let slope = slope - mean(error * x) * (2.0 * rate);
            let offset = offset - mean(error) * (2.0 * rate);
            b.tuple(&[step + 1, x, y, slope, offset, mean(error * error)])
        },
    );
    Ok(b.build(b.tuple(&[end.get(3), end.get(4), end.get(5)]))?)
}

/// Points about y = 3 x - 1, off by up to a tenth.
fn points() -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = (0..POINTS).map(|number| number as f32 / POINTS as f32 * 4.0 - 2.0).collect();
    let y = x.iter().enumerate().map(|(number, x)| 3.0 * x - 1.0 + 0.1 * (number as f32 * 2.4).sin()).collect();
    (x, y)
}

/// Trains for 500 steps.
pub fn run(_arguments: &[PathBuf]) -> super::Outcome {
    let executable = Client::cpu()?.compile(&program(500, 0.1)?, &CompileOptions::default())?;
    let (x, y) = points();
    let result = executable.execute((&x, &y))?;
    let values: Vec<f32> =
        result.leaves().into_iter().filter_map(Literal::as_slice::<f32>).flatten().copied().collect();
    match values[..] {
        [slope, offset, error] => Ok(format!("y = {slope:.2} x + {offset:.2}, mean squared error {error:.4}")),
        _ => Err("the program gives three numbers".into()),
    }
}
