//! The fast orders against the comparator path, and both against the standard library.

use std::cmp::Ordering;
use std::time::Instant;

use exec::ThreadPool;
use exec::runtime::sort::{Comparator, SortDescriptor, SortOrder, halo_sort};
use exec::runtime::{RunContext, primitive_type};

#[repr(C)]
struct Described<const N: usize> {
    descriptor: SortDescriptor,
    sizes: [i64; N],
}

fn describe<const N: usize>(dimensions: [usize; 3], order: SortOrder, key_type: i64, sizes: [i64; N]) -> Described<N> {
    let [outer, length, inner] = dimensions.map(|dimension| dimension as i64);
    Described {
        descriptor: SortDescriptor {
            operands: N as i64,
            outer,
            length,
            inner,
            order: order as i64,
            descending: 0,
            key_operand: 0,
            key_type,
        },
        sizes,
    }
}

fn run<const N: usize>(
    context: &RunContext,
    described: &Described<N>,
    comparator: Option<Comparator>,
    inputs: [*const u8; N],
    outputs: [*mut u8; N],
) {
    // SAFETY: tests pass arrays of the described sizes.
    unsafe { halo_sort(context, (&raw const *described).cast(), comparator, inputs.as_ptr(), outputs.as_ptr()) };
    assert_eq!(context.failure(), None);
}

unsafe extern "C" fn f32_less(elements: *const *const u8) -> u8 {
    // SAFETY: called with two floats.
    unsafe { ((*elements).cast::<f32>().read() < (*elements.add(1)).cast::<f32>().read()).into() }
}

unsafe extern "C" fn f64_less(elements: *const *const u8) -> u8 {
    // SAFETY: called with two floats.
    unsafe { ((*elements).cast::<f64>().read() < (*elements.add(1)).cast::<f64>().read()).into() }
}

/// The upper bits of a `bool` that compiled code returns are not defined.
unsafe extern "C" fn f32_total_greater(elements: *const *const u8) -> u8 {
    // SAFETY: called with two floats.
    let (a, b) = unsafe { ((*elements).cast::<f32>().read(), (*elements.add(1)).cast::<f32>().read()) };
    0xf0 | u8::from(a.total_cmp(&b).is_gt())
}

unsafe extern "C" fn always(_: *const *const u8) -> u8 {
    1
}

fn random(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / 1000.0).floor() - 8000.0
        })
        .collect()
}

fn specials() -> Vec<f32> {
    vec![
        1.0,
        f32::NAN,
        -0.0,
        0.0,
        -f32::NAN,
        f32::NEG_INFINITY,
        -1.0,
        0.0,
        f32::INFINITY,
        -0.0,
        f32::MIN_POSITIVE,
        1e-45,
    ]
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_order_of_one_operand() {
    let threads = ThreadPool::new(2).unwrap();
    for context in [RunContext::new(None), RunContext::new(Some(&threads))] {
        for input in [specials(), random(1, 1), Vec::new(), random(100, 2), random(5000, 3), random(70_001, 4)] {
            let mut expected = input.clone();
            expected.sort_by(f32::total_cmp);
            let mut output = vec![0f32; input.len()];
            let described = describe([1, input.len(), 1], SortOrder::Total, primitive_type::F32, [4]);
            run(&context, &described, None, [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
            assert_eq!(bits(&output), bits(&expected));

            expected.reverse();
            let described = describe([1, input.len(), 1], SortOrder::Comparator, primitive_type::F32, [4]);
            run(&context, &described, Some(f32_total_greater), [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
            assert_eq!(bits(&output), bits(&expected));
        }
    }
}

#[test]
fn sorts_are_stable_and_carry_other_operands() {
    let threads = ThreadPool::new(2).unwrap();
    for context in [RunContext::new(None), RunContext::new(Some(&threads))] {
        for (order, input) in [
            (SortOrder::Less, random(40_000, 5)),
            (SortOrder::Less, random(9, 7)),
            (SortOrder::Less, random(16, 8)),
            (SortOrder::Less, vec![0.0, -0.0, 3.0, 0.0, -0.0, -3.0]),
            (SortOrder::Comparator, random(3000, 6)),
        ] {
            let indices: Vec<u16> = (0..input.len()).map(|index| index as u16).collect();
            let mut expected: Vec<(f32, u16)> = input.iter().copied().zip(indices.iter().copied()).collect();
            expected.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap());
            let (mut values, mut order_out) = (vec![0f32; input.len()], vec![0u16; input.len()]);
            let described = describe([1, input.len(), 1], order, primitive_type::F32, [4, 2]);
            let outputs = [values.as_mut_ptr().cast(), order_out.as_mut_ptr().cast()];
            run(&context, &described, Some(f32_less), [input.as_ptr().cast(), indices.as_ptr().cast()], outputs);
            let (expected_values, expected_order): (Vec<f32>, Vec<u16>) = expected.into_iter().unzip();
            assert_eq!(bits(&values), bits(&expected_values));
            assert_eq!(order_out, expected_order);
        }
    }
}

#[test]
fn canonical_order_puts_all_nans_last_and_keeps_their_bits() {
    let input = specials();
    let mut output = vec![0f32; input.len()];
    let described = describe([1, input.len(), 1], SortOrder::TotalCanonical, primitive_type::F32, [4]);
    run(&RunContext::new(None), &described, None, [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
    let expected = [
        f32::NEG_INFINITY,
        -1.0,
        -0.0,
        0.0,
        0.0,
        -0.0,
        1e-45,
        f32::MIN_POSITIVE,
        1.0,
        f32::INFINITY,
        f32::NAN,
        -f32::NAN,
    ];
    assert_eq!(bits(&output), bits(&expected));
}

/// An array sorted alone, in place, and beside its places, with these.
fn sorted<T: Copy + Default>(
    context: &RunContext,
    (dimensions, order): ([usize; 3], SortOrder),
    (key_type, less): (i64, Comparator),
    input: &[T],
) -> (Vec<T>, Vec<T>, Vec<u16>) {
    let bytes = size_of::<T>() as i64;
    let (mut alone, mut values, mut places) = (input.to_vec(), vec![T::default(); input.len()], vec![0; input.len()]);
    let indices: Vec<u16> = (0..input.len()).map(|index| index as u16).collect();
    let address: *mut u8 = alone.as_mut_ptr().cast();
    let one = describe(dimensions, order, key_type, [bytes]);
    run(context, &one, Some(less), [address.cast_const()], [address]);
    let two = describe(dimensions, order, key_type, [bytes, 2]);
    let inputs = [input.as_ptr().cast(), indices.as_ptr().cast()];
    run(context, &two, Some(less), inputs, [values.as_mut_ptr().cast(), places.as_mut_ptr().cast()]);
    (alone, values, places)
}

/// Rows of all lengths around those that are sorted side by side, among them zeros of both signs and NaNs.
#[test]
fn many_short_rows() {
    let threads = ThreadPool::new(2).unwrap();
    let context = RunContext::new(Some(&threads));
    for (count, length) in
        (2..40).map(|length| (37, length)).chain([(3, 9), (4, 9), (16, 64), (21, 255), (5, 257), (12, 512)])
    {
        let rare: Vec<f32> =
            random(count * length, length as u32).iter().map(|value| (value / 100.0).floor()).collect();
        let mut special = rare.clone();
        special.iter_mut().step_by(length + 3).for_each(|value| *value = -0.0);
        special.iter_mut().skip(1).step_by(length + 5).for_each(|value| *value = 0.0);
        let mut with_nan = special.clone();
        with_nan[count * length / 2] = f32::NAN;
        with_nan[count * length - 1] = -f32::NAN;
        for input in [rare, special, with_nan] {
            for (order, dimensions) in [SortOrder::Less, SortOrder::Total, SortOrder::TotalCanonical]
                .into_iter()
                .flat_map(|order| [[count, length, 1], [1, length, count]].map(|dimensions| (order, dimensions)))
            {
                let [outer, length, inner] = dimensions;
                let sort = (dimensions, order);
                let (alone, values, places) = sorted(&context, sort, (primitive_type::F32, f32_less), &input);
                let wide_input: Vec<f64> = input.iter().copied().map(f64::from).collect();
                let wide = sorted(&context, sort, (primitive_type::F64, f64_less), &wide_input);
                let place = |row: usize, position: usize| (row / inner * length + position) * inner + row % inner;
                for row in 0..outer * inner {
                    let mut expected: Vec<usize> = (0..length).map(|position| place(row, position)).collect();
                    // A NaN is compared as the program says, which may be no order: its row has other tests.
                    if order == SortOrder::Less && expected.iter().any(|&element| input[element].is_nan()) {
                        continue;
                    }
                    expected.sort_by(|&a, &b| match (order, input[a], input[b]) {
                        (SortOrder::Total, a, b) => a.total_cmp(&b),
                        (_, a, b) => a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal)),
                    });
                    for (position, element) in expected.into_iter().enumerate() {
                        let found = place(row, position);
                        assert_eq!(alone[found].to_bits(), input[element].to_bits(), "{order:?} {dimensions:?}");
                        assert_eq!(values[found].to_bits(), input[element].to_bits(), "{order:?} {dimensions:?}");
                        assert_eq!(usize::from(places[found]), element, "{order:?} {dimensions:?}");
                        assert_eq!(wide.0[found].to_bits(), wide_input[element].to_bits(), "{order:?} {dimensions:?}");
                        assert_eq!(wide.1[found].to_bits(), wide_input[element].to_bits(), "{order:?} {dimensions:?}");
                        assert_eq!(usize::from(wide.2[found]), element, "{order:?} {dimensions:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn middle_dimensions_and_in_place() {
    let threads = ThreadPool::new(2).unwrap();
    let context = RunContext::new(Some(&threads));
    let [outer, length, inner] = [3, 17, 5];
    let mut data: Vec<i64> = (0..outer * length * inner).map(|index| ((index * 7919) % 101) as i64 - 50).collect();
    let mut expected = data.clone();
    for o in 0..outer {
        for i in 0..inner {
            let at = |position: usize| (o * length + position) * inner + i;
            let mut row: Vec<i64> = (0..length).map(|position| data[at(position)]).collect();
            row.sort_by(|a, b| b.cmp(a));
            row.iter().enumerate().for_each(|(position, &value)| expected[at(position)] = value);
        }
    }
    let mut described = describe([outer, length, inner], SortOrder::Total, primitive_type::S64, [8]);
    described.descriptor.descending = 1;
    let address: *mut u8 = data.as_mut_ptr().cast();
    run(&context, &described, None, [address.cast_const()], [address]);
    assert_eq!(data, expected);
}

#[test]
fn several_operands_in_place() {
    for length in [9, 1000] {
        let mut keys: Vec<f32> = random(60 * length, 5);
        let mut places: Vec<i32> = (0..keys.len() as i32).collect();
        let before = keys.clone();
        let described = describe([60, length, 1], SortOrder::Total, primitive_type::F32, [4, 4]);
        let addresses: [*mut u8; 2] = [keys.as_mut_ptr().cast(), places.as_mut_ptr().cast()];
        run(&RunContext::new(None), &described, None, addresses.map(|it| it.cast_const()), addresses);
        assert!(keys.chunks(length).all(|row| row.is_sorted_by(|a, b| a.total_cmp(b).is_le())));
        let moved = places.iter().zip(&keys).enumerate();
        for (position, (&place, key)) in moved {
            assert_eq!(before[place as usize].to_bits(), key.to_bits());
            assert_eq!(place as usize / length, position / length);
        }
    }
}

#[test]
fn small_types_in_both_directions() {
    let input: Vec<i8> = (0..3000).map(|index| (index * 77 % 251) as u8 as i8).collect();
    let mut output = vec![0i8; input.len()];
    let mut expected = input.clone();
    expected.sort_unstable();
    let mut described = describe([1, input.len(), 1], SortOrder::Less, primitive_type::S8, [1]);
    run(&RunContext::new(None), &described, Some(always), [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
    assert_eq!(output, expected);
    described.descriptor.descending = 1;
    expected.reverse();
    run(&RunContext::new(None), &described, Some(always), [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
    assert_eq!(output, expected);
}

#[test]
fn a_comparator_that_is_no_order_still_permutes() {
    let input = random(1000, 9);
    let mut output = vec![0f32; input.len()];
    let described = describe([1, input.len(), 1], SortOrder::Comparator, primitive_type::F32, [4]);
    run(&RunContext::new(None), &described, Some(always), [input.as_ptr().cast()], [output.as_mut_ptr().cast()]);
    let sorted = |mut values: Vec<f32>| {
        values.sort_by(f32::total_cmp);
        values
    };
    assert_eq!(sorted(output), sorted(input));
}

#[test]
fn bad_descriptors_are_failures() {
    let context = RunContext::new(None);
    let described = describe([1, 4, 1], SortOrder::Total, primitive_type::F64, [4]);
    let data = [0f32; 4];
    let mut output = [0f32; 4];
    let (inputs, outputs) = ([data.as_ptr().cast::<u8>()], [output.as_mut_ptr().cast::<u8>()]);
    // SAFETY: the arrays have the described number of elements.
    unsafe { halo_sort(&context, (&raw const described).cast(), None, inputs.as_ptr(), outputs.as_ptr()) };
    assert!(context.failure().unwrap().contains("operand 0"));
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed() {
    let count = 1_000_000;
    let input: Vec<f32> = random(count, 11).iter().zip(random(count, 12)).map(|(a, b)| a + b / 9000.0).collect();
    let indices: Vec<u32> = (0..count as u32).collect();
    let (mut values, mut order) = (vec![0f32; count], vec![0u32; count]);
    let threads = ThreadPool::new(0).unwrap();
    for (name, context) in [("one thread", RunContext::new(None)), ("all threads", RunContext::new(Some(&threads)))] {
        for kind in [SortOrder::Total, SortOrder::Less, SortOrder::Comparator] {
            let mut best = [f64::INFINITY; 3];
            for _ in 0..5 {
                let outputs = [values.as_mut_ptr().cast(), order.as_mut_ptr().cast()];
                let inputs = [input.as_ptr().cast(), indices.as_ptr().cast()];
                let start = Instant::now();
                let one = describe([1, count, 1], kind, primitive_type::F32, [4]);
                run(&context, &one, Some(f32_less), [inputs[0]], [outputs[0]]);
                best[0] = best[0].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                run(
                    &context,
                    &describe([1, count, 1], kind, primitive_type::F32, [4, 4]),
                    Some(f32_less),
                    inputs,
                    outputs,
                );
                best[1] = best[1].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                let rows = describe([1000, 1000, 1], kind, primitive_type::F32, [4]);
                run(&context, &rows, Some(f32_less), [inputs[0]], [outputs[0]]);
                best[2] = best[2].min(start.elapsed().as_secs_f64());
            }
            println!("{name} {kind:?}: sort, argsort, 1000 rows of 1000 (ms): {:.1?}", best.map(|time| time * 1e3));
        }
    }
}
