//! The largest and smallest elements of rows.

use exec::runtime::top_k::{TopKDescriptor, halo_top_k};
use exec::runtime::{RunContext, primitive_type};

fn top_k(input: &[f32], length: usize, k: usize, largest: bool) -> (Vec<f32>, Vec<i32>) {
    let batch = input.len() / length;
    let descriptor = TopKDescriptor {
        key_type: primitive_type::F32,
        batch: batch as i64,
        length: length as i64,
        k: k as i64,
        largest: largest.into(),
    };
    let (mut values, mut indices) = (vec![0f32; batch * k], vec![0i32; batch * k]);
    let context = RunContext::new(None);
    // SAFETY: the buffers have the described sizes.
    unsafe {
        halo_top_k(&context, &descriptor, input.as_ptr().cast(), values.as_mut_ptr().cast(), indices.as_mut_ptr());
    }
    assert_eq!(context.failure(), None);
    (values, indices)
}

#[test]
fn rows_are_selected_in_order() {
    let input = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
    assert_eq!(top_k(&input, 4, 2, true), (vec![4.0, 3.0, 9.0, 6.0], vec![2, 0, 1, 3]));
    assert_eq!(top_k(&input, 4, 3, false), (vec![1.0, 1.0, 3.0, 2.0, 5.0, 6.0], vec![1, 3, 0, 2, 0, 3]));
    assert_eq!(top_k(&input, 8, 8, true).1, vec![5, 7, 4, 2, 0, 6, 1, 3]);
    assert_eq!(top_k(&input, 8, 0, true).1, Vec::<i32>::new());
}

#[test]
fn few_and_many_are_selected_alike() {
    let input: Vec<f32> = (0..1000).map(|number| ((number * 7919) % 613) as f32 - 300.0).collect();
    for largest in [true, false] {
        let (values, indices) = top_k(&input, 1000, 100, largest);
        let (few, few_indices) = top_k(&input, 1000, 20, largest);
        assert_eq!((&values[..20], &indices[..20]), (&few[..], &few_indices[..]));
        let mut expected: Vec<usize> = (0..1000).collect();
        expected.sort_by(|&a, &b| {
            let order = input[a].total_cmp(&input[b]);
            if largest { order.reverse() } else { order }
        });
        assert!(indices.iter().zip(expected).all(|(&index, expected)| index as usize == expected));
    }
}

/// Rows that are sorted side by side, those of the last group too, with equal elements, zeros of both signs and NaNs.
#[test]
fn many_short_rows() {
    for (rows, length) in [(16, 2), (37, 10), (50, 31), (19, 64)] {
        let mut input: Vec<f32> = (0..rows * length).map(|number| ((number * 7919) % 13) as f32 - 6.0).collect();
        input.iter_mut().step_by(length + 3).for_each(|element| *element = -0.0);
        input.iter_mut().skip(1).step_by(length + 7).for_each(|element| *element = f32::NAN);
        input.iter_mut().skip(2).step_by(length + 7).for_each(|element| *element = -f32::NAN);
        for (largest, k) in [(true, 1), (false, 2), (true, length), (false, length)] {
            let (values, indices) = top_k(&input, length, k, largest);
            for (row, elements) in input.chunks(length).enumerate() {
                let mut expected: Vec<usize> = (0..length).collect();
                expected.sort_by(|&a, &b| {
                    let order = elements[a].total_cmp(&elements[b]);
                    if largest { order.reverse() } else { order }
                });
                for (place, expected) in expected.into_iter().take(k).enumerate() {
                    assert_eq!(indices[row * k + place] as usize, expected, "row {row} of {length}");
                    assert_eq!(values[row * k + place].to_bits(), elements[expected].to_bits());
                }
            }
        }
    }
}

/// Rows of which 32 parts say what is large, for up to 16 elements, with many equal elements, and with the largest ones all in one part or behind the last round.
#[test]
fn long_rows_with_equal_elements() {
    for length in [128, 131, 200, 1000] {
        let mut inputs = [13, 613, 1]
            .map(|kinds| -> Vec<f32> { (0..length).map(|number| ((number * 7919) % kinds) as f32 - 6.0).collect() });
        (0..length).step_by(32).for_each(|place| inputs[1][place] = place as f32 + 1000.0);
        (length - 3..length).for_each(|place| inputs[2][place] = f32::NAN);
        for (input, largest) in inputs.iter().flat_map(|input| [(input, true), (input, false)]) {
            let mut expected: Vec<usize> = (0..length).collect();
            expected.sort_by(|&a, &b| {
                let order = input[a].total_cmp(&input[b]);
                if largest { order.reverse() } else { order }
            });
            for k in [1, 2, 5, 16, 17] {
                let (_, indices) = top_k(input, length, k, largest);
                assert!(indices.iter().zip(&expected).all(|(&index, &expected)| index as usize == expected));
            }
        }
    }
}

#[test]
fn nan_is_largest_and_zeros_differ() {
    let (values, indices) = top_k(&[0.0, -0.0, f32::NAN, f32::INFINITY], 4, 4, true);
    assert!(values[0].is_nan());
    assert_eq!(indices, vec![2, 3, 0, 1]);
}
