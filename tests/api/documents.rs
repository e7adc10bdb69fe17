//! The examples of the operation-semantics documents, written through the builder.

use halo::Literal;
use halo::builder::{HloBuilder, Op, Padding};
use hlo::attributes::PaddingDimension;
use hlo::element_type::ElementType::{F32, S8, S32, U16, U32};
use hlo::ops::dot::DotDimensions;
use hlo::shape::Shape;

use super::assert_result;

const V: [[[f32; 3]; 2]; 4] = [
    [[10., 11., 12.], [15., 16., 17.]],
    [[20., 21., 22.], [25., 26., 27.]],
    [[30., 31., 32.], [35., 36., 37.]],
    [[40., 41., 42.], [45., 46., 47.]],
];

const GRID: [[f32; 3]; 4] = [[0., 1., 2.], [3., 4., 5.], [6., 7., 8.], [9., 10., 11.]];

#[test]
fn bitcast_convert_type() {
    assert_result(|b| b.bitcast_convert_type(b.constant([1f32, -2.]), S32), [0x3f80_0000i32, -0x4000_0000]);
    assert_result(|b| b.bitcast_convert_type(b.constant(0x0102_0304i32), S8), [4i8, 3, 2, 1]);
    assert_result(|b| b.bitcast_convert_type(b.constant([[0x0304u16, 0x0102]]), U32), [0x0102_0304u32]);
    assert_result(|b| b.bitcast_convert_type(b.constant([0x0102_0304u32]), U16), [[0x0304u16, 0x0102]]);
}

#[test]
fn broadcast() {
    assert_result(|b| b.broadcast(b.constant(2f32), &[2, 3]), [[2f32; 3]; 2]);
    assert_result(|b| b.broadcast(b.constant([1f32, 2.]), &[3]), [[1f32, 2.]; 3]);
}

#[test]
fn broadcast_in_dim() {
    assert_result(|b| b.broadcast_in_dim(b.constant([1i32, 2]), &[2, 3], &[0]), [[1i32, 1, 1], [2, 2, 2]]);
    assert_result(|b| b.broadcast_in_dim(b.constant([[1i32], [2]]), &[2, 3], &[0, 1]), [[1i32, 1, 1], [2, 2, 2]]);
}

#[test]
fn clamp() {
    assert_result(|b| b.clamp(b.constant(0i32), b.constant([-1i32, 5, 9]), b.constant(6i32)), [0i32, 5, 6]);
}

#[test]
fn collapse() {
    let flat = [
        10f32, 11., 12., 15., 16., 17., 20., 21., 22., 25., 26., 27., 30., 31., 32., 35., 36., 37., 40., 41., 42., 45.,
        46., 47.,
    ];
    assert_result(|b| b.collapse(b.constant(V), &[0, 1, 2]), flat);
    assert_result(
        |b| b.collapse(b.constant(V), &[0, 1]),
        [
            [10f32, 11., 12.],
            [15., 16., 17.],
            [20., 21., 22.],
            [25., 26., 27.],
            [30., 31., 32.],
            [35., 36., 37.],
            [40., 41., 42.],
            [45., 46., 47.],
        ],
    );
    assert_result(
        |b| b.collapse(b.constant(V), &[1, 2]),
        [
            [10f32, 11., 12., 15., 16., 17.],
            [20., 21., 22., 25., 26., 27.],
            [30., 31., 32., 35., 36., 37.],
            [40., 41., 42., 45., 46., 47.],
        ],
    );
    let b = HloBuilder::new("collapse");
    for dimensions in [[1, 0], [0, 2]] {
        assert!(b.collapse(b.constant(V), &dimensions).shape().is_err());
    }
}

#[test]
fn concatenate() {
    assert_result(
        |b| b.concat_in_dim(&[b.constant([2i32, 3]), b.constant([4i32, 5]), b.constant([6i32, 7])], 0),
        [2i32, 3, 4, 5, 6, 7],
    );
    assert_result(
        |b| b.concat_in_dim(&[b.constant([[1i32, 2], [3, 4], [5, 6]]), b.constant([[7i32, 8]])], 0),
        [[1i32, 2], [3, 4], [5, 6], [7, 8]],
    );
}

#[test]
fn conditional() {
    for (predicate, expected) in [(true, 15f32), (false, -7.)] {
        assert_result(
            |b| {
                let (on_true, on_false) = (b.constant(5f32), b.constant(7f32));
                b.conditional(b.constant(predicate), on_true, |_, x| x * 3.0, on_false, |_, x| -x)
            },
            expected,
        );
    }
    // Out of range, the last branch is the default.
    for (index, expected) in [(0, 2f32), (1, 4.), (2, 9.), (-1, 9.), (3, 9.)] {
        assert_result(
            |b| {
                let operand = b.constant(2f32);
                let last = b.constant(3f32);
                b.conditional_indexed(
                    b.constant(index),
                    &[(&|_, x| x, operand), (&|_, x| x + x, operand), (&|_, x| x * x, last)],
                )
            },
            expected,
        );
    }
}

#[test]
fn convolution() {
    // The pseudo-code of ConvWithGeneralPadding on one image of one feature.
    let image = [[[[1f32, 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
    let kernel = [[[[1f32, 10.], [100., 1000.]]]];
    assert_result(
        |b| b.conv(b.constant(image), b.constant(kernel), &[1, 1], &Padding::Valid),
        [[[[5421f32, 6532.], [8754., 9865.]]]],
    );
    assert_result(
        |b| b.conv(b.constant(image), b.constant(kernel), &[1, 1], &Padding::Same),
        [[[[5421f32, 6532., 603.], [8754., 9865., 906.], [87., 98., 9.]]]],
    );
    assert_result(
        |b| {
            let padding = Padding::Explicit(vec![(1, 0), (0, -1)]);
            b.conv_with_general_padding(b.constant(image), b.constant(kernel), &[2, 1], &padding, &[], &[1, 1], 1, 1)
        },
        [[[[2100f32], [8754.]]]],
    );
}

#[test]
fn convert_element_type() {
    assert_result(|b| b.convert_element_type(b.constant([0i32, 1, 2]), F32), [0f32, 1., 2.]);
}

#[test]
fn dot() {
    assert_result(|b| b.dot(b.constant([1f32, 2., 3.]), b.constant([4f32, 5., 6.])), 32f32);
    assert_result(|b| b.dot(b.constant([[1f32, 2.], [3., 4.]]), b.constant([5f32, 6.])), [17f32, 39.]);
    assert_result(
        |b| b.dot(b.constant([[1f32, 2.], [3., 4.]]), b.constant([[5f32, 6.], [7., 8.]])),
        [[19f32, 22.], [43., 50.]],
    );
}

#[test]
fn dot_general() {
    let contracting = DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDimensions::default() };
    assert_result(
        |b| {
            let lhs = b.constant([[1f32, 2., 3.], [4., 5., 6.]]);
            b.dot_general(lhs, b.constant([[1f32, 1., 1.], [2., 2., 2.]]), &contracting, None)
        },
        [[6f32, 12.], [15., 30.]],
    );
    let batch =
        DotDimensions { lhs_contracting: vec![2], rhs_contracting: vec![1], lhs_batch: vec![0], rhs_batch: vec![0] };
    let lhs = [[[1f32, 2.], [3., 4.]], [[5., 6.], [7., 8.]]];
    assert_result(|b| b.dot_general(b.constant(lhs), b.constant([[[1f32, 0.], [0., 1.]]; 2]), &batch, None), lhs);
}

#[test]
fn dynamic_slice() {
    assert_result(|b| b.dynamic_slice(b.constant([0f32, 1., 2., 3., 4.]), &[b.constant(2i32)], &[2]), [2f32, 3.]);
    let expected = [[7f32, 8.], [10., 11.]];
    assert_result(|b| b.dynamic_slice(b.constant(GRID), &[b.constant(2i32), b.constant(1i32)], &[2, 2]), expected);
    // 2017: one array of indices.
    assert_result(|b| b.dynamic_slice(b.constant(GRID), &[b.constant([2i32, 1])], &[2, 2]), expected);
}

#[test]
fn dynamic_update_slice() {
    assert_result(
        |b| b.dynamic_update_slice(b.constant([0f32, 1., 2., 3., 4.]), b.constant([5f32, 6.]), &[b.constant(2i32)]),
        [0f32, 1., 5., 6., 4.],
    );
    assert_result(
        |b| {
            let update = b.constant([[12f32, 13.], [14., 15.], [16., 17.]]);
            b.dynamic_update_slice(b.constant(GRID), update, &[b.constant(1i32), b.constant(1i32)])
        },
        [[0f32, 1., 2.], [3., 12., 13.], [6., 14., 15.], [9., 16., 17.]],
    );
}

#[test]
fn total_order() {
    let values = [-f32::NAN, f32::NEG_INFINITY, -1., -0., 0., 1., f32::INFINITY, f32::NAN];
    for (left, &lhs) in values.iter().enumerate() {
        let expected: [bool; 8] = std::array::from_fn(|right| left < right);
        assert_result(|b| b.lt_total_order(b.constant(lhs), b.constant(values), &[]), expected);
        let expected: [bool; 8] = std::array::from_fn(|right| left == right);
        assert_result(|b| b.eq_total_order(b.constant(lhs), b.constant(values), &[]), expected);
    }
    assert_result(|b| b.lt(b.constant(-0f32), b.constant(0f32), &[]), false);
    assert_result(|b| b.eq(b.constant(f32::NAN), b.constant(f32::NAN), &[]), false);
}

#[test]
fn remainder_and_sign() {
    assert_result(|b| b.constant([7i32, -7, 7, -7]) % b.constant([3i32, 3, -3, -3]), [1i32, -1, 1, -1]);
    assert_result(|b| b.constant([-2.5f32, 0., 3.]).sign(), [-1f32, 0., 1.]);
    assert_result(|b| b.logical_not(b.constant([true, false])), [false, true]);
    assert_result(|b| b.logical_and(b.constant([true, true]), b.constant([true, false]), &[]), [true, false]);
    assert_result(|b| b.logical_or(b.constant([false, true]), b.constant([false, false]), &[]), [false, true]);
}

#[test]
fn dimension_sizes() {
    let v = [1f32, 2., 3., 4., 5., 6., 7., 8., 9., 10.];
    let sized = |b: &HloBuilder, size: i32| -> f32 {
        let padded = b.set_dimension_size(b.constant(v), b.constant(size), 0);
        let sum = b.reduce(padded, b.constant(0f32), |_, x, y| x + y, &[0]);
        let module = b.build(sum).unwrap();
        let result = evaluator::evaluate(&module, &[], &mut evaluator::Environment::default()).unwrap();
        result.as_slice::<f32>().unwrap()[0]
    };
    assert_eq!(sized(&HloBuilder::new("five"), 5), 15.);
    assert_eq!(sized(&HloBuilder::new("six"), 6), 21.);
    assert_result(|b| b.get_dimension_size(b.constant(v), 0), 10i32);
}

#[test]
fn tuples() {
    assert_result(
        |b| {
            let v = b.iota(Shape::array(F32, [10]), 0);
            b.get_tuple_element(b.tuple(&[v, b.constant(5i32)]), 1)
        },
        5i32,
    );
}

#[test]
fn iota() {
    let rows: [[i32; 8]; 4] = std::array::from_fn(|row| [row as i32; 8]);
    assert_result(|b| b.iota(Shape::array(S32, [4, 8]), 0), rows);
    assert_result(|b| b.iota(Shape::array(S32, [4, 8]), 1), [[0i32, 1, 2, 3, 4, 5, 6, 7]; 4]);
}

#[test]
fn map_with_static_operands() {
    assert_result(
        |b| {
            let (x, y) = (b.constant([1f32, 2., 3.]), b.constant([10f32, 20., 30.]));
            b.map(&[x, y], |_, values| values[0] * values[1] + values[2], &[0], &[b.constant(0.5f32)])
        },
        [10.5f32, 40.5, 90.5],
    );
}

#[test]
fn pad() {
    let edges = |low, high, interior| PaddingDimension { low, high, interior };
    assert_result(
        |b| {
            let padding = [edges(0, 1, 0), edges(1, -1, 1)];
            b.pad(b.constant([[1i32, 2, 3], [4, 5, 6]]), b.constant(0i32), &padding)
        },
        [[0i32, 1, 0, 2, 0], [0, 4, 0, 5, 0], [0, 0, 0, 0, 0]],
    );
}

#[test]
fn reduce() {
    let sum = |b: &HloBuilder, dimensions: &[i64]| -> Literal {
        let cuboid = b.constant([[[1f32, 2., 3.], [4., 5., 6.]]; 4]);
        let total = b.reduce(cuboid, b.constant(0f32), |_, x, y| x + y, dimensions);
        super::compile(&b.build(total).unwrap()).execute(()).unwrap()
    };
    assert_eq!(sum(&HloBuilder::new("0"), &[0]), Literal::from([[4f32, 8., 12.], [16., 20., 24.]]));
    assert_eq!(sum(&HloBuilder::new("2"), &[2]), Literal::from([[6f32, 15.]; 4]));
    assert_eq!(sum(&HloBuilder::new("0 1"), &[0, 1]), Literal::from([20f32, 28., 36.]));
    assert_eq!(sum(&HloBuilder::new("all"), &[0, 1, 2]), Literal::from(84f32));
}

/// The document's maximum and its index.
#[test]
fn variadic_reduce() {
    assert_result(
        |b| {
            let values = b.constant([3f32, 9., -2., 9., 4.]);
            let index = b.iota(Shape::array(S32, [5]), 0);
            let inits = [b.constant(f32::NEG_INFINITY), b.constant(-1i32)];
            b.reduce_variadic(
                &[values, index],
                &inits,
                |b, old, new| {
                    let takes_new = new[0].ge(old[0]);
                    b.tuple(&[takes_new.select(new[0], old[0]), takes_new.select(new[1], old[1])])
                },
                &[0],
            )
        },
        Literal::Tuple(vec![9f32.into(), 3i32.into()]),
    );
}

#[test]
fn reduce_window() {
    fn minima<'b>(b: &'b HloBuilder, padding: &Padding) -> Op<'b> {
        let input = b.constant([10000f32, 1000., 100., 10., 1.]);
        b.reduce_window(input, b.constant(f32::MAX), |_, x, y| x.min(y), &[3], &[2], padding)
    }
    assert_result(|b| minima(b, &Padding::Valid), [100f32, 1.]);
    assert_result(|b| minima(b, &Padding::Same), [1000f32, 10., 1.]);
    assert_result(
        |b| {
            let input = b.iota(Shape::array(F32, [4, 6]), 1);
            b.reduce_window(input, b.constant(f32::MIN), |_, x, y| x.max(y), &[2, 3], &[2, 3], &Padding::Valid)
        },
        [[2f32, 5.]; 2],
    );
}

#[test]
fn reshape() {
    assert_result(
        |b| b.reshape_in_order(b.constant(V), &[0, 1, 2], &[2, 12]),
        [
            [10f32, 11., 12., 15., 16., 17., 20., 21., 22., 25., 26., 27.],
            [30., 31., 32., 35., 36., 37., 40., 41., 42., 45., 46., 47.],
        ],
    );
    assert_result(
        |b| b.reshape_in_order(b.constant(V), &[1, 2, 0], &[24]),
        [
            10f32, 20., 30., 40., 11., 21., 31., 41., 12., 22., 32., 42., 15., 25., 35., 45., 16., 26., 36., 46., 17.,
            27., 37., 47.,
        ],
    );
    assert_result(
        |b| b.reshape_in_order(b.constant(V), &[1, 2, 0], &[8, 3]),
        [
            [10f32, 20., 30.],
            [40., 11., 21.],
            [31., 41., 12.],
            [22., 32., 42.],
            [15., 25., 35.],
            [45., 16., 26.],
            [36., 46., 17.],
            [27., 37., 47.],
        ],
    );
    assert_result(
        |b| b.reshape_in_order(b.constant(V), &[1, 2, 0], &[2, 6, 2]),
        [
            [[10f32, 20.], [30., 40.], [11., 21.], [31., 41.], [12., 22.], [32., 42.]],
            [[15., 25.], [35., 45.], [16., 26.], [36., 46.], [17., 27.], [37., 47.]],
        ],
    );
    assert_result(|b| b.reshape_in_order(b.constant([[5f32]]), &[0, 1], &[]), 5f32);
    assert_result(|b| b.reshape_in_order(b.constant(5f32), &[], &[1, 1]), [[5f32]]);
}

#[test]
fn rev_and_transpose() {
    assert_result(|b| b.rev(b.constant([[1i32, 2], [3, 4]]), &[1]), [[2i32, 1], [4, 3]]);
    assert_result(|b| b.transpose(b.constant([[1i32, 2, 3], [4, 5, 6]]), &[1, 0]), [[1i32, 4], [2, 5], [3, 6]]);
    // Transpose is Reshape(operand, permutation, Permute(permutation, operand.shape.dimensions)).
    assert_result(
        |b| {
            let same =
                b.transpose(b.constant(V), &[2, 0, 1]).eq(b.reshape_in_order(b.constant(V), &[2, 0, 1], &[3, 4, 2]));
            b.reduce_all(same, b.constant(true), |_, x, y| x & y)
        },
        true,
    );
}

#[test]
fn bernoulli_numbers_are_zeros_and_ones_of_the_mean() {
    let b = HloBuilder::new("bernoulli");
    let numbers = b.rng_bernoulli(b.constant(0.25f32), hlo::shape::ArrayShape::new(U32, [1000]));
    let module = b.build(numbers).unwrap();
    let result = evaluator::evaluate(&module, &[], &mut evaluator::Environment::default()).unwrap();
    let numbers = result.as_slice::<u32>().unwrap();
    assert!(numbers.iter().all(|&number| number <= 1));
    let ones: u32 = numbers.iter().sum();
    // Ten standard deviations on either side.
    assert!((113..387).contains(&ones), "{ones}");
}

#[test]
fn select() {
    let choices = |b: &HloBuilder| -> [Literal; 2] {
        let _ = b;
        [[1i32, 2, 3, 4].into(), [100i32, 200, 300, 400].into()]
    };
    assert_result(
        |b| {
            let [v1, v2] = choices(b).map(|literal| b.constant(literal));
            b.select(b.constant([true, false, false, true]), v1, v2)
        },
        [1i32, 200, 300, 4],
    );
    assert_result(
        |b| {
            let [v1, v2] = choices(b).map(|literal| b.constant(literal));
            b.select(b.constant(true), v1, v2)
        },
        [1i32, 2, 3, 4],
    );
    assert_result(
        |b| {
            let first = b.tuple(&[b.constant(1i32), b.constant(2f32)]);
            let second = b.tuple(&[b.constant(3i32), b.constant(4f32)]);
            b.select(b.constant(false), first, second)
        },
        Literal::Tuple(vec![3i32.into(), 4f32.into()]),
    );
}

#[test]
fn select_and_scatter() {
    // Both windows of the first row select the 9; its place gets 2 + 6, as in the document's second figure.
    assert_result(
        |b| {
            b.select_and_scatter(
                b.constant([[1f32, 2., 9., 3., 4.]]),
                |_, a, b| a.ge(b),
                &[1, 3],
                &[1, 2],
                &Padding::Valid,
                b.constant([[2f32, 6.]]),
                b.constant(0f32),
                |_, old, new| old + new,
            )
        },
        [[0f32, 0., 8., 0., 0.]],
    );
}

#[test]
fn slice() {
    assert_result(|b| b.slice(b.constant([0f32, 1., 2., 3., 4.]), &[2], &[4], &[]), [2f32, 3.]);
    assert_result(|b| b.slice(b.constant(GRID), &[2, 1], &[4, 3], &[]), [[7f32, 8.], [10., 11.]]);
    assert_result(|b| b.slice(b.constant(GRID), &[0, 0], &[4, 3], &[2, 2]), [[0f32, 2.], [6., 8.]]);
}

#[test]
fn sort() {
    assert_result(|b| b.sort(b.constant([3f32, -1., 2.])), [-1f32, 2., 3.]);
    assert_result(
        |b| {
            let operands = [b.constant([3i32, 1]), b.constant([42i32, 50]), b.constant([-3f32, 1.1])];
            b.sort_by(&operands, |_, pairs| pairs[0].0.lt(pairs[0].1), 0, false)
        },
        Literal::Tuple(vec![[1i32, 3].into(), [50i32, 42].into(), [1.1f32, -3.].into()]),
    );
    // Dimension 0 sorts each column, dimension 1 each row; without a number, the last one is chosen.
    for (dimension, expected) in [(0, [[1i32, 2], [3, 4]]), (1, [[2, 3], [1, 4]]), (-1, [[2, 3], [1, 4]])] {
        assert_result(
            |b| b.sort_by(&[b.constant([[3i32, 2], [1, 4]])], |_, pairs| pairs[0].0.lt(pairs[0].1), dimension, false),
            expected,
        );
    }
}

/// The document's loop: a counter, and a vector that a constant vector is added to a thousand times.
#[test]
fn while_loop() {
    assert_result(
        |b| {
            let init = b.tuple(&[b.constant(0i32), b.constant([0f32; 10])]);
            b.while_(
                init,
                |_, state| state.get(0).lt(1000),
                |b, state| b.tuple(&[state.get(0) + 1, state.get(1) + b.constant([0.5f32; 10])]),
            )
        },
        Literal::Tuple(vec![1000i32.into(), [500f32; 10].into()]),
    );
}

/// On one replica, collectives of no groups return what they are given.
#[test]
fn collectives_of_one_replica() {
    assert_result(|b| b.cross_replica_sum(b.constant([1f32, 2.5])), [1f32, 2.5]);
    assert_result(|b| b.all_gather(b.constant([1f32, 2.5]), 0, 1, &[], None), [1f32, 2.5]);
    assert_result(|b| b.all_to_all(b.constant([1f32, 2.5]), 0, 0, 1, &[]), [1f32, 2.5]);
    assert_result(|b| b.reduce_scatter(b.constant([1f32, 2.5]), |_, x, y| x + y, 0, 1, &[], None), [1f32, 2.5]);
    assert_result(|b| b.collective_permute(b.constant([1f32, 2.5]), &[(0, 0)], None), [1f32, 2.5]);
    assert_result(|b| b.replica_id(), 0u32);
}
