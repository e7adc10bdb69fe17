//! Every two operations as a program: the second works on what the first gives, compiled and evaluated.
//!
//! A step takes a matrix of any sizes and gives a matrix of `f32`, so that any two steps follow each other. What passes do
//! to neighbours (fold a transpose into a dot, a broadcast into a reshape, fuse, share memory) is met by some pair.

use evaluator::Environment;
use halo::builder::{
    FftType, GatherDimensions, HloBuilder, Op, Padding, PaddingDimension, RngAlgorithm, ScatterDimensions,
    TransposeKind, TriangularSolve,
};
use halo::{Client, CompileOptions, ElementType, Literal, Module, Shape};

use crate::compare::{self, ArrayComparison, Tolerance};

/// A step of a program.
pub struct PairStep {
    /// What it does.
    pub name: &'static str,
    apply: for<'b> fn(&'b HloBuilder, Op<'b>, [i64; 2]) -> Op<'b>,
}

macro_rules! steps {
    ($($name:literal => |$b:ident, $x:ident, [$rows:pat, $columns:pat]| $step:expr;)*) => {
        &[$({
            fn apply<'b>($b: &'b HloBuilder, $x: Op<'b>, [$rows, $columns]: [i64; 2]) -> Op<'b> {
                let _ = $b;
                $step
            }
            PairStep { name: $name, apply }
        }),*]
    };
}

/// Every step.
pub const STEPS: &[PairStep] = steps! {
    "add" => |b, x, [m, n]| x + b.iota(Shape::of::<f32>([m, n]), 1);
    "multiply" => |b, x, [_, _]| x * x;
    "divide" => |b, x, [_, _]| x / 3.0;
    "negate" => |b, x, [_, _]| -x;
    "power" => |b, x, [_, _]| b.pow(x, b.number_like(x, 2.0), &[]);
    "exponential" => |b, x, [_, _]| x.tanh().exp();
    "logistic" => |b, x, [_, _]| b.logistic(x);
    "sign" => |b, x, [_, _]| b.sign(x);
    "floor" => |b, x, [_, _]| b.floor(x);
    "maximum" => |b, x, [_, _]| b.max(x, b.number_like(x, 0.25), &[]);
    "clamp" => |b, x, [_, _]| x.clamp(-0.5, 0.5);
    "select" => |b, x, [_, _]| x.gt(0.0).select(x, -1.0);
    "compare" => |b, x, [_, _]| x.lt(0.5).convert(ElementType::F32);
    "convert bf16" => |b, x, [_, _]| x.convert(ElementType::BF16).convert(ElementType::F32);
    "convert f64" => |b, x, [_, _]| x.convert(ElementType::F64).sin().convert(ElementType::F32);
    "convert s32" => |b, x, [_, _]| (x.clamp(-100.0, 100.0).convert(ElementType::S32) + 1).convert(ElementType::F32);
    "convert s8" => |b, x, [_, _]| x.clamp(-100.0, 100.0).convert(ElementType::S8).convert(ElementType::F32);
    "bitcast-convert" => |b, x, [_, _]| b.bitcast_convert_type(b.bitcast_convert_type(x, ElementType::U32), ElementType::F32);
    "reduce-precision" => |b, x, [_, _]| b.reduce_precision(x, 8, 7);
    "complex" => |b, x, [_, _]| b.imag(b.complex(x, x * 2.0, &[]) * b.complex(x, x, &[]));
    "transpose" => |b, x, [_, _]| x.transpose(&[1, 0]);
    "reshape swap" => |b, x, [m, n]| x.reshape(&[n, m]);
    "reshape flat" => |b, x, [m, n]| x.reshape(&[1, m * n]);
    "broadcast rows" => |b, x, [m, n]| b.broadcast_in_dim(b.slice(x, &[0, 0], &[1, n], &[1, 1]).reshape(&[n]), &[m, n], &[1]);
    "reverse" => |b, x, [_, _]| b.rev(x, &[0, 1]);
    "slice" => |b, x, [m, n]| b.slice(x, &[0, n / 2], &[m, n], &[1, 1]);
    "slice strided" => |b, x, [m, n]| b.slice(x, &[0, 0], &[m, n], &[2, 1]);
    "pad" => |b, x, [_, _]| b.pad(x, b.constant(0.5f32), &[
        PaddingDimension { low: 1, high: 0, interior: 1 },
        PaddingDimension { low: 0, high: 2, interior: 0 },
    ]);
    "pad negative" => |b, x, [_, _]| b.pad(x, b.constant(0f32), &[
        PaddingDimension { low: 1, high: 1, interior: 0 },
        PaddingDimension { low: -1, high: 2, interior: 0 },
    ]);
    "concatenate" => |b, x, [_, _]| b.concat_in_dim(&[x, -x], 0);
    "concatenate columns" => |b, x, [_, _]| b.concat_in_dim(&[x * 2.0, x], 1);
    "copy" => |b, x, [_, _]| b.copy(x);
    "optimization-barrier" => |b, x, [_, _]| b.optimization_barrier(x);
    "reduce rows" => |b, x, [m, n]| b.broadcast_in_dim(b.reduce(x, b.constant(0f32), |_, a, c| a + c, &[0]), &[m, n], &[1]);
    "reduce columns" => |b, x, [m, _]| b.reduce(x, b.constant(f32::NEG_INFINITY), |b, a, c| b.max(a, c, &[]), &[1]).reshape(&[m, 1]);
    "reduce all" => |b, x, [_, _]| b.reduce_all(x, b.constant(0f32), |_, a, c| a + c).reshape(&[1, 1]);
    "reduce variadic" => |b, x, [m, _]| b.reduce_variadic(
        &[x, x * 2.0], &[b.constant(0f32), b.constant(0f32)], |b, a, c| b.tuple(&[a[0] + c[0], a[1] + c[1]]), &[1],
    ).get(1).reshape(&[m, 1]);
    "reduce-window" => |b, x, [_, _]| b.reduce_window(x, b.constant(0f32), |_, a, c| a + c, &[2, 2], &[1, 1], &Padding::Same);
    "reduce-window cumulative" => |b, x, [m, _]| b.reduce_window(
        x, b.constant(0f32), |_, a, c| a + c, &[m, 1], &[1, 1], &Padding::Explicit(vec![(m - 1, 0), (0, 0)]),
    );
    "dot" => |b, x, [m, _]| x.dot(x.transpose(&[1, 0])) * (1.0 / m as f64);
    "dot left" => |b, x, [m, _]| b.iota(Shape::of::<f32>([3, m]), 0).dot(x);
    "dot vector" => |b, x, [m, n]| x.dot(b.iota(Shape::of::<f32>([n]), 0)).reshape(&[m, 1]);
    "convolution" => |b, x, [m, n]| b.conv(
        x.reshape(&[1, 1, m, n]), b.constant([[[[0.5f32, -1.0], [2.0, 0.25]]]]), &[1, 1], &Padding::Same,
    ).reshape(&[m, n]);
    "gather" => |b, x, [_, n]| b.gather(x, b.constant([0i32, 2, 0]), &GatherDimensions {
        offset_dims: vec![1], collapsed_slice_dims: vec![0], start_index_map: vec![0], index_vector_dim: 1,
        ..GatherDimensions::default()
    }, &[1, n], false);
    "scatter" => |b, x, [_, n]| b.scatter(
        x, b.constant([1i32, 0]), b.iota(Shape::of::<f32>([2, n]), 1),
        &ScatterDimensions {
            update_window_dims: vec![1], inserted_window_dims: vec![0], scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1, ..ScatterDimensions::default()
        },
        |_, a, c| a + c,
    );
    "dynamic-slice" => |b, x, [_, n]| b.dynamic_slice(x, &[b.constant(1i32), b.constant(0i32)], &[1, n]);
    "dynamic-update-slice" => |b, x, [_, _]| b.dynamic_update_slice(
        x, b.constant([[7f32]]), &[b.constant(0i32), b.constant(1i32)],
    );
    "select-and-scatter" => |b, x, [m, n]| b.select_and_scatter(
        x, |_, a, c| a.ge(c), &[m, 1], &[1, 1], &Padding::Valid, b.iota(Shape::of::<f32>([1, n]), 1),
        b.constant(0f32), |_, a, c| a + c,
    );
    "sort" => |b, x, [_, _]| b.sort(x);
    "sort pairs" => |b, x, [m, n]| b.sort_by(
        &[x, b.iota(Shape::of::<f32>([m, n]), 0)], |_, pairs| pairs[0].0.lt(pairs[0].1), 0, true,
    ).get(1);
    "topk" => |b, x, [_, n]| b.top_k(x, n.min(2), true).get(0);
    "map" => |b, x, [_, _]| b.map(&[x], |_, values| values[0] * 0.5 - 1.0, &[0, 1], &[]);
    "tuple" => |b, x, [_, _]| b.tuple(&[x.cos(), x]).get(0);
    "while" => |b, x, [_, _]| b.while_(
        b.tuple(&[b.constant(0i32), x]), |_, state| state.get(0).lt(3), |b, state| b.tuple(&[state.get(0) + 1, state.get(1) * 0.5]),
    ).get(1);
    "conditional" => |b, x, [m, n]| b.conditional(
        b.slice(x, &[0, 0], &[1, 1], &[1, 1]).reshape(&[]).gt(0.0), x, |_, x| x + 1.0, x, |_, x| x - 1.0,
    ).reshape(&[m, n]);
    "fft" => |b, x, [_, n]| b.real(b.fft(b.complex(x, x * 0.0, &[]), FftType::Fft, &[n]));
    "cholesky" => |b, x, [m, _]| b.cholesky(
        x.tanh().dot(x.tanh().transpose(&[1, 0])) + diagonal(b, m) * 100.0, true,
    );
    "triangular-solve" => |b, x, [m, _]| b.triangular_solve(
        diagonal(b, m) * 2.0, x,
        TriangularSolve { left_side: true, lower: true, unit_diagonal: false, transpose_a: TransposeKind::NoTranspose },
    );
    "rng-bit-generator" => |b, x, [m, n]| x + b.rng_bit_generator(
        RngAlgorithm::ThreeFry, b.constant([1u64, 2]), Shape::of::<u32>([m, n]),
    ).get(1).convert(ElementType::F32) * 1e-10;
    "dynamic size" => |b, x, [m, n]| b.broadcast_in_dim(
        b.reduce(b.set_dimension_size(x, b.constant(1i32), 0), b.constant(0f32), |_, a, c| a + c, &[0]), &[m, n], &[1],
    );
};

/// The identity matrix.
fn diagonal(b: &HloBuilder, size: i64) -> Op<'_> {
    let shape = Shape::of::<i32>([size, size]);
    b.iota(shape.clone(), 0).eq(b.iota(shape, 1)).convert(ElementType::F32)
}

fn sizes(x: Op<'_>) -> Result<[i64; 2], String> {
    let shape = x.shape().map_err(|error| error.to_string())?;
    let sizes = shape.as_array().map(|array| array.dimensions.clone()).unwrap_or_default();
    sizes.as_slice().try_into().map_err(|_| format!("{shape} is no matrix"))
}

/// The program of two steps; its result holds what each of them gives.
///
/// # Errors
/// If a step breaks a rule.
pub fn program(first: &PairStep, second: &PairStep) -> Result<Module, String> {
    let b = HloBuilder::new("pair");
    let x = b.parameter(0, Shape::of::<f32>([3, 5]), "x");
    let middle = (first.apply)(&b, x, sizes(x)?);
    let end = (second.apply)(&b, middle, sizes(middle)?);
    b.build(b.tuple(&[end, middle])).map_err(|errors| errors.to_string())
}

/// Runs two steps on both engines.
///
/// # Errors
/// If they differ.
pub fn check(first: &PairStep, second: &PairStep, client: &Client) -> Result<(), String> {
    let failed = |what: String| format!("{} then {}: {what}", first.name, second.name);
    let module = program(first, second).map_err(failed)?;
    let values: Vec<f32> = (0..15).map(|number| ((number * 7) % 15) as f32 / 8.0 - 0.75).collect();
    let arguments = [Literal::from_slice([3, 5], &values).map_err(|error| failed(error.to_string()))?];
    let expected = evaluator::evaluate(&module, &arguments, &mut Environment::default());
    let expected = expected.map_err(|error| failed(format!("not evaluated: {error}")))?;
    let options = CompileOptions { excess_precision: false, verify: true, ..CompileOptions::default() };
    let found = client.compile(&module, &options).and_then(|executable| executable.execute(&arguments));
    let found = found.map_err(|error| failed(format!("not run: {error}")))?;
    for (found, expected) in found.leaves().into_iter().zip(expected.leaves()) {
        let (Some(found), Some(expected)) = (found.as_array(), expected.as_array()) else { continue };
        let magnitude = compare::root_mean_square(compare::elements(expected));
        let tolerance = Tolerance::default_for(expected.element_type());
        let mut comparison = ArrayComparison::default();
        for (position, pair) in compare::elements(found).zip(compare::elements(expected)).enumerate() {
            comparison.add(position, expected.element_type(), [pair.0, pair.1], magnitude, tolerance);
        }
        if !comparison.agrees() || found.shape().dimensions != expected.shape().dimensions {
            return Err(failed(format!("compiled {found:?}, evaluated {expected:?}\n{}", hlo::text::print(&module))));
        }
    }
    Ok(())
}
