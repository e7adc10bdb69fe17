//! The builder has every operation of the documents: each is built once, checked, written, read back, brought to MLIR and back.

use std::collections::BTreeSet;

use halo::builder::{
    Convolution, CustomCallOptions, GatherDimensions, HloBuilder, Op, Padding, ScatterDimensions, TriangularSolve,
};
use halo::{Module, Shape};
use hlo::attributes::{ConvolutionDimensions, PaddingDimension, WindowDimension};
use hlo::element_type::ElementType::{F16, F32, S32, U32};
use hlo::graph::Computation;
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotDimensions;
use hlo::ops::enumerations::{FftType, RngAlgorithm, TransposeKind};
use hlo::shape::ArrayShape;

/// What only HLO text has: the forms that passes and backends make, and operations that came after the documents.
const TEXT_ONLY: [OpKind; 16] = [
    OpKind::AllGatherDone,
    OpKind::AllGatherStart,
    OpKind::AllReduceDone,
    OpKind::AllReduceStart,
    OpKind::AsyncDone,
    OpKind::AsyncStart,
    OpKind::AsyncUpdate,
    OpKind::Bitcast,
    OpKind::CollectivePermuteDone,
    OpKind::CollectivePermuteStart,
    OpKind::CopyDone,
    OpKind::CopyStart,
    OpKind::Domain,
    OpKind::Fusion,
    OpKind::RaggedAllToAll,
    OpKind::RngGetAndUpdateState,
];

fn vector(b: &HloBuilder) -> Op<'_> {
    b.constant([0.5f32, 0.25])
}

fn integers(b: &HloBuilder) -> Op<'_> {
    b.constant([6i32, 3])
}

fn unary(b: &HloBuilder) -> Op<'_> {
    let (x, n) = (vector(b), integers(b));
    let floats = [
        b.abs(x),
        b.acos(x),
        b.acosh(x),
        b.asin(x),
        b.asinh(x),
        b.atanh(x),
        b.cbrt(x),
        b.ceil(x),
        b.cos(x),
        b.cosh(x),
        b.erf(x),
        b.exp(x),
        b.expm1(x),
        b.floor(x),
        b.log(x),
        b.log1p(x),
        b.logistic(x),
        b.neg(x),
        b.round(x),
        b.round_nearest_even(x),
        b.rsqrt(x),
        b.sign(x),
        b.sin(x),
        b.sinh(x),
        b.sqrt(x),
        b.tan(x),
        b.tanh(x),
        b.copy(x),
        b.reduce_precision(x, 5, 10),
        b.convert_element_type(x, F16),
        b.bitcast_convert_type(x, U32),
        b.is_finite(x),
    ];
    let complex = b.complex(x, x, &[]);
    let others = [b.clz(n), b.population_count(n), b.not(n), b.real(complex), b.imag(complex)];
    b.tuple(&[&floats[..], &others].concat())
}

fn binary(b: &HloBuilder) -> Op<'_> {
    let (x, n) = (vector(b), integers(b));
    let (y, predicate) = (b.constant([1f32, 2.]), b.constant([true, false]));
    b.tuple(&[
        b.add(x, y, &[]),
        b.sub(x, y, &[]),
        b.mul(x, y, &[]),
        b.div(x, y, &[]),
        b.rem(x, y, &[]),
        b.pow(x, y, &[]),
        b.max(x, y, &[]),
        b.min(x, y, &[]),
        b.atan2(x, y, &[]),
        b.and(n, n, &[]),
        b.or(n, n, &[]),
        b.xor(n, n, &[]),
        b.shift_left(n, n, &[]),
        b.shift_right_arithmetic(n, n, &[]),
        b.shift_right_logical(n, n, &[]),
        b.logical_and(predicate, predicate, &[]),
        b.logical_or(predicate, predicate, &[]),
        b.logical_not(predicate),
        b.eq(x, y, &[]),
        b.ne_total_order(x, y, &[]),
        b.clamp(x, y, y),
        b.select(predicate, x, y),
    ])
}

fn movement(b: &HloBuilder) -> Op<'_> {
    let matrix = b.constant([[1f32, 2.], [3., 4.]]);
    let zero = b.constant(0i32);
    let edges = PaddingDimension { low: 1, high: 0, interior: 1 };
    let gather = GatherDimensions {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let scatter = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let rows = b.constant([1i32, 0]);
    b.tuple(&[
        b.broadcast(matrix, &[3]),
        b.reshape(matrix, &[4]),
        b.transpose(matrix, &[1, 0]),
        b.rev(matrix, &[0]),
        b.slice_in_dim(matrix, 0, 1, 1, 1),
        b.dynamic_slice(matrix, &[zero, zero], &[1, 2]),
        b.dynamic_update_slice(matrix, b.constant([[9f32]]), &[zero, zero]),
        b.pad(matrix, b.constant(0f32), &[edges, edges]),
        b.concat_in_dim(&[matrix, matrix], 1),
        b.iota(Shape::array(S32, [3]), 0),
        b.get_dimension_size(matrix, 0),
        b.gather(matrix, rows, &gather, &[1, 2], false),
        b.scatter(matrix, rows, matrix, &scatter, |_, old, new| old + new),
    ])
}

fn dynamic_sizes(b: &HloBuilder) -> Op<'_> {
    let short = b.set_dimension_size(vector(b), b.constant(1i32), 0);
    b.reduce(short, b.constant(0f32), |_, x, y| x + y, &[0])
}

fn reductions(b: &HloBuilder) -> Op<'_> {
    let (matrix, zero) = (b.constant([[1f32, 2.], [3., 4.]]), b.constant(0f32));
    b.tuple(&[
        b.reduce(matrix, zero, |_, x, y| x + y, &[0]),
        b.reduce_window(matrix, zero, |_, x, y| x + y, &[2, 1], &[1, 1], &Padding::Valid),
        b.select_and_scatter(
            matrix,
            |_, x, y| x.ge(y),
            &[2, 1],
            &[2, 1],
            &Padding::Valid,
            b.constant([[5f32, 6.]]),
            zero,
            |_, x, y| x + y,
        ),
        b.map(&[matrix], |_, values| values[0] * 2.0, &[0, 1], &[]),
        b.sort(matrix),
        b.top_k(matrix, 1, true),
    ])
}

fn contractions(b: &HloBuilder) -> Op<'_> {
    let matrix = b.constant([[1f32, 2.], [3., 4.]]);
    let batch =
        DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![1], lhs_batch: vec![0], rhs_batch: vec![0] };
    let convolution = Convolution {
        window: vec![WindowDimension::new(2)],
        dimensions: ConvolutionDimensions {
            input_batch: 0,
            input_feature: 2,
            input_spatial: vec![1],
            kernel_input_feature: 1,
            kernel_output_feature: 2,
            kernel_spatial: vec![0],
            output_batch: 0,
            output_feature: 2,
            output_spatial: vec![1],
        },
        feature_group_count: 1,
        batch_group_count: 1,
    };
    let image = b.constant([[[1f32], [2.], [3.]]]);
    let kernel = b.constant([[[1f32]], [[10.]]]);
    b.tuple(&[
        b.dot(matrix, matrix),
        b.dot_general(matrix, matrix, &batch, None),
        b.conv_general(image, kernel, &convolution, None),
    ])
}

fn libraries(b: &HloBuilder) -> Op<'_> {
    let matrix = b.constant([[4f32, 2.], [2., 3.]]);
    let solve =
        TriangularSolve { left_side: true, lower: true, unit_diagonal: false, transpose_a: TransposeKind::NoTranspose };
    let one = b.constant([1f32, 1.]);
    b.tuple(&[
        b.cholesky(matrix, true),
        b.triangular_solve(matrix, matrix, solve),
        b.fft(matrix, FftType::Rfft, &[2]),
        b.batch_norm_training(matrix, one, one, 0.001, 1),
        b.batch_norm_inference(matrix, one, one, one, one, 0.001, 1),
        b.batch_norm_grad(matrix, one, one, one, matrix, 0.001, 1),
    ])
}

fn random(b: &HloBuilder) -> Op<'_> {
    let (zero, one) = (b.constant(0f32), b.constant(1f32));
    b.tuple(&[
        b.rng_uniform(zero, one, Shape::array(F32, [4])),
        b.rng_normal(zero, one, Shape::array(F32, [4])),
        b.rng_bernoulli(one, ArrayShape::new(U32, [4])),
        b.rng_bit_generator(RngAlgorithm::Philox, b.constant([1u64, 2]), Shape::array(U32, [4])),
    ])
}

fn control(b: &HloBuilder) -> Op<'_> {
    let x = b.constant(3f32);
    let square = b.function("square", &[Shape::scalar(F32)], |_, values| values[0] * values[0]);
    let call = CustomCallOptions { target: "every.unknown".to_string(), ..CustomCallOptions::default() };
    let token = b.after_all(&[]);
    b.tuple(&[
        b.call(&square, &[x]),
        b.while_(x, |_, x| x.lt(10.0), |_, x| x * 2.0),
        b.conditional(b.constant(true), x, |_, x| x, x, |_, x| -x),
        b.optimization_barrier(x),
        b.custom_call_with(&call, &[x], Shape::scalar(F32)),
        b.add_dependency(x, token),
    ])
}

fn host(b: &HloBuilder) -> Op<'_> {
    let value = b.infeed(Shape::array(F32, [2]));
    b.outfeed(value);
    b.send(value, 1);
    b.recv(Shape::array(F32, [2]), 1)
}

fn collectives(b: &HloBuilder) -> Op<'_> {
    let x = vector(b);
    let groups = [vec![0, 1]];
    b.tuple(&[
        b.cross_replica_sum(x),
        b.all_reduce(b.tuple(&[x, x]), |_, x, y| x.max(y), &groups, Some(1)),
        b.all_gather(x, 0, 2, &groups, None),
        b.all_to_all(x, 0, 0, 2, &groups),
        b.collective_permute(x, &[(0, 1), (1, 0)], None),
        b.collective_broadcast(x, &groups, None),
        b.reduce_scatter(x, |_, x, y| x + y, 0, 2, &groups, None),
        b.replica_id(),
        b.partition_id(),
    ])
}

fn later_operations(b: &HloBuilder) -> Op<'_> {
    let x = vector(b);
    let matrix = b.constant([[1f32, 2.], [3., 4.]]);
    let sides = DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDimensions::default() };
    let groups = b.constant([[[1f32, 2.], [3., 4.]]; 2]);
    b.tuple(&[
        b.stochastic_convert_type(x, b.constant([1u32, 2]), F16),
        b.dynamic_reshape(x, &[b.constant(1i32), b.constant(2i32)], ArrayShape::new(F32, [1, 2])),
        b.ragged_dot(matrix, groups, b.constant([1i32, 1]), &sides, 0, Some(0)),
    ])
}

/// Operations of one kind, as a tuple.
type Part = fn(&HloBuilder) -> Op<'_>;

const PARTS: [(&str, Part); 13] = [
    ("unary", unary),
    ("binary", binary),
    ("movement", movement),
    ("dynamic_sizes", dynamic_sizes),
    ("reductions", reductions),
    ("contractions", contractions),
    ("libraries", libraries),
    ("random", random),
    ("control", control),
    ("host", host),
    ("collectives", collectives),
    ("later_operations", later_operations),
    ("parameter", |b| b.parameter(0, Shape::scalar(F32), "x")),
];

fn module(name: &str, part: Part) -> Module {
    let b = HloBuilder::new(name);
    let root = part(&b);
    b.build(root).unwrap_or_else(|errors| panic!("{errors}"))
}

fn kinds(computation: &Computation, found: &mut BTreeSet<OpKind>) {
    for instruction in &computation.instructions {
        found.insert(instruction.kind);
        instruction.computations.iter().for_each(|nested| kinds(nested, found));
    }
}

#[test]
fn every_operation_of_the_documents_can_be_built() {
    let mut found = BTreeSet::new();
    for (name, part) in PARTS {
        module(name, part).functions.iter().for_each(|function| kinds(function, &mut found));
    }
    let missing: Vec<_> =
        OpKind::ALL.iter().filter(|kind| !found.contains(kind) && !TEXT_ONLY.contains(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_is_built_passes_every_check_and_form() {
    for (name, part) in PARTS {
        let module = module(name, part);
        module.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = hlo::text::print(&module);
        let read = hlo::text::read(&text).unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
        assert_eq!(hlo::text::print(&read), text, "{name}");
        let context = hlo::dialect::context();
        let mlir = hlo::dialect::graph_to_mlir(&context, &module).unwrap_or_else(|error| panic!("{name}: {error}"));
        let back = hlo::dialect::mlir_to_graph(&mlir).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hlo::text::print(&back), text, "{name}");
    }
}
