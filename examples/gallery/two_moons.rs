//! A small network that tells two interleaving half circles apart, trained by gradient descent in one `while`; the loss is
//! plotted. Arguments: the file, `two_moons.svg` by default.

use std::f32::consts::PI;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use halo::builder::{HloBuilder, Op};
use halo::{Client, CompileOptions, Literal, Module, Shape, View};
use hlo::ops::dot::DotDimensions;

const POINTS: i64 = 200;
const HIDDEN: i64 = 16;
const STEPS: i64 = 1000;
const RATE: f64 = 1.0;

fn sum<'b>(b: &'b HloBuilder, values: Op<'b>, dimensions: &[i64]) -> Op<'b> {
    b.reduce(values, b.constant(0f32), |_, total, value| total + value, dimensions)
}

/// The product of matrices, contracted over a dimension of either.
fn product<'b>(b: &'b HloBuilder, lhs: Op<'b>, over_lhs: usize, rhs: Op<'b>, over_rhs: usize) -> Op<'b> {
    let dimensions =
        DotDimensions { lhs_contracting: vec![over_lhs], rhs_contracting: vec![over_rhs], ..DotDimensions::default() };
    b.dot_general(lhs, rhs, &dimensions, None)
}

/// One step of training of the state (step, losses, x, labels, w1, b1, w2, b2).
fn step<'b>(b: &'b HloBuilder, state: Op<'b>) -> Op<'b> {
    let [number, losses, x, labels, w1, b1, w2, b2] = [0, 1, 2, 3, 4, 5, 6, 7].map(|index| state.get(index));
    // Forward: tanh(x w1 + b1) w2 + b2, then the logistic function.
    let hidden = b.add(product(b, x, 1, w1, 0), b1, &[1]).tanh();
    let logits = product(b, hidden, 1, w2, 0) + b2;
    let guess = logits.logistic();
    // The cross entropy, written so that no logarithm overflows.
    let terms = logits.max(0.0) - logits * labels + (-logits.abs()).exp().log1p();
    let loss = sum(b, terms, &[0]) / POINTS;
    // Backward.
    let d_logits = (guess - labels) / POINTS;
    let d_w2 = product(b, hidden, 0, d_logits, 0);
    let d_b2 = sum(b, d_logits, &[0]);
    let grid = [POINTS, HIDDEN];
    let d_hidden = b.broadcast_in_dim(d_logits, &grid, &[0]) * b.broadcast_in_dim(w2, &grid, &[1]);
    let d_sum = d_hidden * (1.0 - hidden * hidden);
    let d_w1 = product(b, x, 0, d_sum, 0);
    let d_b1 = sum(b, d_sum, &[0]);
    let losses = b.dynamic_update_slice(losses, loss.reshape(&[1]), &[number]);
    let moved = |weight: Op<'b>, gradient: Op<'b>| weight - gradient * RATE;
    b.tuple(&[number + 1, losses, x, labels, moved(w1, d_w1), moved(b1, d_b1), moved(w2, d_w2), moved(b2, d_b2)])
}

/// Trains from the given first weights; the result is (losses, share of the points told right).
fn program() -> Result<Module, Box<dyn std::error::Error>> {
    let b = HloBuilder::new("two_moons");
    let x = b.parameter(0, Shape::of::<f32>([POINTS, 2]), "x");
    let labels = b.parameter(1, Shape::of::<f32>([POINTS]), "labels");
    let w1 = b.parameter(2, Shape::of::<f32>([2, HIDDEN]), "w1");
    let w2 = b.parameter(3, Shape::of::<f32>([HIDDEN]), "w2");
    let losses = b.broadcast(b.constant(0f32), &[STEPS]);
    let b1 = b.broadcast(b.constant(0f32), &[HIDDEN]);
    let start = b.tuple(&[b.constant(0i32), losses, x, labels, w1, b1, w2, b.constant(0f32)]);
    let end = b.while_(start, |_, state| state.get(0).lt(STEPS), step);
    let [w1, b1, w2, b2] = [4, 5, 6, 7].map(|index| end.get(index));
    let logits = b.dot(b.add(b.dot(x, w1), b1, &[1]).tanh(), w2) + b2;
    let right = logits.gt(0.0).convert(halo::ElementType::F32).eq(labels);
    let share = sum(&b, right.convert(halo::ElementType::F32), &[0]) / POINTS;
    Ok(b.build(b.tuple(&[end.get(1), share]))?)
}

/// Points of two half circles in turn, and which one each is of.
fn moons() -> (Vec<f32>, Vec<f32>) {
    let mut points = Vec::new();
    let mut labels = Vec::new();
    for number in 0..POINTS {
        let angle = PI * (number / 2) as f32 / (POINTS / 2) as f32;
        let off = 0.1 * (number as f32 * 7.3).sin();
        let is_lower = number % 2 == 1;
        let (x, y) = if is_lower { (1. - angle.cos(), 0.5 - angle.sin()) } else { (angle.cos(), angle.sin()) };
        points.extend([x + off, y - off]);
        labels.push(f32::from(is_lower));
    }
    (points, labels)
}

/// First weights: small numbers without a pattern.
fn weights(count: i64) -> Vec<f32> {
    (0..count).map(|number| (number as f32 * 12.9898).sin() * 1.2).collect()
}

/// The loss over the steps as a line.
fn plot(losses: &[f32]) -> String {
    let (width, height) = (640., 360.);
    let highest = losses.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let mut line = String::new();
    for (number, loss) in losses.iter().enumerate() {
        let x = 40. + (width - 60.) * number as f32 / losses.len() as f32;
        let y = height - 30. - (height - 50.) * loss / highest;
        // Writing to a string does not fail.
        let _ = write!(line, "{x:.1},{y:.1} ");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <path d=\"M40 20V330H620\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"44\" y=\"18\" font-size=\"12\">loss, from {highest:.3}</text>\n\
         <text x=\"540\" y=\"350\" font-size=\"12\">{} steps</text>\n\
         <polyline points=\"{}\" fill=\"none\" stroke=\"steelblue\" stroke-width=\"2\"/>\n</svg>\n",
        losses.len(),
        line.trim_end()
    )
}

/// Trains and plots.
pub fn run(arguments: &[PathBuf]) -> super::Outcome {
    let path = arguments.first().map_or(Path::new("two_moons.svg"), PathBuf::as_path);
    let executable = Client::cpu()?.compile(&program()?, &CompileOptions::default())?;
    let (points, labels) = moons();
    let (w1, w2) = (weights(2 * HIDDEN), weights(HIDDEN));
    let points = View::new(&[POINTS, 2][..], &points).ok_or("two numbers a point")?;
    let w1 = View::new(&[2, HIDDEN][..], &w1).ok_or("two rows of weights")?;
    let result = executable.execute((&points, &labels, &w1, &w2))?;
    let leaves: Vec<&[f32]> = result.leaves().into_iter().filter_map(Literal::as_slice).collect();
    let [losses @ [first, .., last], [share]] = leaves[..] else { return Err("losses and a share".into()) };
    std::fs::write(path, plot(losses))?;
    Ok(format!("{}: loss {first:.3} -> {last:.3}, {:.0} % told right", path.display(), share * 100.))
}
