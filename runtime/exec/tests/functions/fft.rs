//! Transforms against their definition.

use std::f64::consts::TAU;

use exec::ThreadPool;
use exec::runtime::RunContext;
use exec::runtime::fft::{FftDescriptor, FftKind, halo_fft};
use num_complex::Complex;

/// The definition, of a row-major array.
fn reference(input: &[Complex<f64>], lengths: &[usize], inverse: bool) -> Vec<Complex<f64>> {
    let points: usize = lengths.iter().product();
    let position = |mut index: usize| {
        let mut result = vec![0; lengths.len()];
        for (axis, &length) in lengths.iter().enumerate().rev() {
            result[axis] = index % length;
            index /= length;
        }
        result
    };
    let sign = if inverse { TAU } else { -TAU };
    let scale = if inverse { 1.0 / points as f64 } else { 1.0 };
    (0..points)
        .map(|k| {
            let k = position(k);
            let sum: Complex<f64> = (0..points)
                .map(|n| {
                    let turns: f64 = position(n)
                        .iter()
                        .zip(&k)
                        .zip(lengths)
                        .map(|((&n, &k), &length)| (n * k) as f64 / length as f64)
                        .sum();
                    input[n] * Complex::from_polar(1.0, sign * turns)
                })
                .sum();
            sum * scale
        })
        .collect()
}

fn signal(count: usize) -> Vec<Complex<f64>> {
    (0..count).map(|index| Complex::new((index * 37 % 11) as f64 - 5.0, (index * 13 % 7) as f64 - 3.0)).collect()
}

fn run<I, O: Clone + Default>(
    context: &RunContext,
    kind: FftKind,
    double: bool,
    batch: usize,
    lengths: &[usize],
    input: &[I],
    outputs: usize,
) -> Vec<O> {
    let mut sizes = [1; 3];
    lengths.iter().zip(&mut sizes).for_each(|(&length, size)| *size = length as i64);
    let descriptor = FftDescriptor {
        kind: kind as i64,
        double: double.into(),
        batch: batch as i64,
        rank: lengths.len() as i64,
        lengths: sizes,
    };
    let mut output = vec![O::default(); outputs];
    // SAFETY: the buffers have the described sizes.
    unsafe { halo_fft(context, &descriptor, input.as_ptr().cast(), output.as_mut_ptr().cast()) };
    assert_eq!(context.failure(), None);
    output
}

fn assert_close(actual: &[Complex<f64>], expected: &[Complex<f64>], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().map(|value| value.norm()).fold(1.0, f64::max);
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).norm() <= tolerance * scale, "{actual:?} {expected:?}");
    }
}

#[test]
fn transforms_follow_the_definition() {
    let threads = ThreadPool::new(2).unwrap();
    let context = RunContext::new(Some(&threads));
    let shapes: [&[usize]; 14] = [
        &[18],
        &[32],
        &[54],
        &[1],
        &[2],
        &[8],
        &[9],
        &[17],
        &[4, 6],
        &[3, 11],
        &[2, 3, 5],
        &[4, 1, 10],
        &[17, 16],
        &[12, 20],
    ];
    for lengths in shapes {
        follow_the_definition(&context, 3, lengths);
    }
}

/// Eight rows at a time, and the rest one by one.
#[test]
fn short_rows_follow_the_definition() {
    let context = RunContext::new(None);
    (2..=32).for_each(|length| follow_the_definition(&context, 11, &[length]));
}

/// Transforms of each kind, and of the numbers of both sizes.
fn follow_the_definition(context: &RunContext, batch: usize, lengths: &[usize]) {
    let points: usize = lengths.iter().product();
    let input = signal(batch * points);
    let last = lengths[lengths.len() - 1];
    let half = last / 2 + 1;
    for inverse in [false, true] {
        let kind = if inverse { FftKind::Inverse } else { FftKind::Forward };
        let output: Vec<Complex<f64>> = run(context, kind, true, batch, lengths, &input, input.len());
        let expected: Vec<_> = input.chunks(points).flat_map(|signal| reference(signal, lengths, inverse)).collect();
        assert_close(&output, &expected, 1e-13);
        let single: Vec<Complex<f32>> =
            input.iter().map(|value| Complex::new(value.re as f32, value.im as f32)).collect();
        let output: Vec<Complex<f32>> = run(context, kind, false, batch, lengths, &single, input.len());
        let output: Vec<_> = output.iter().map(|value| Complex::new(value.re.into(), value.im.into())).collect();
        assert_close(&output, &expected, 1e-6);
    }
    // Real transforms: half of the spectrum there, and the signal back again.
    let real: Vec<f64> = input.iter().map(|value| value.re).collect();
    let complex: Vec<_> = real.iter().map(|&value| Complex::new(value, 0.0)).collect();
    let expected: Vec<_> = complex
        .chunks(points)
        .flat_map(|signal| reference(signal, lengths, false))
        .collect::<Vec<_>>()
        .chunks(last)
        .flat_map(|row| row[..half].to_vec())
        .collect();
    let spectrum: Vec<Complex<f64>> = run(context, FftKind::RealForward, true, batch, lengths, &real, expected.len());
    assert_close(&spectrum, &expected, 1e-13);
    let back: Vec<f64> = run(context, FftKind::RealInverse, true, batch, lengths, &spectrum, real.len());
    assert!(back.iter().zip(&real).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?} {real:?}");
}

/// Lengths with larger primes, of rows and of columns that fill the lanes of vectors, on threads and alone.
#[test]
fn larger_primes_follow_the_definition() {
    let threads = ThreadPool::new(2).unwrap();
    let (alone, shared) = (RunContext::new(None), RunContext::new(Some(&threads)));
    for length in [19, 23, 29, 38, 47, 71, 87, 127, 142, 251, 509, 841] {
        let rows = 8;
        let input = signal(rows * length);
        for inverse in [false, true] {
            let kind = if inverse { FftKind::Inverse } else { FftKind::Forward };
            let expected: Vec<_> =
                input.chunks(length).flat_map(|signal| reference(signal, &[length], inverse)).collect();
            let output: Vec<Complex<f64>> = run(&alone, kind, true, rows, &[length], &input, input.len());
            assert_close(&output, &expected, 1e-12);
            let single: Vec<Complex<f32>> =
                input.iter().map(|value| Complex::new(value.re as f32, value.im as f32)).collect();
            let output: Vec<Complex<f32>> = run(&shared, kind, false, rows, &[length], &single, input.len());
            let output: Vec<_> = output.iter().map(|value| Complex::new(value.re.into(), value.im.into())).collect();
            assert_close(&output, &expected, 2e-6);
            // Columns, and short rows.
            let expected = reference(&input, &[length, rows], inverse);
            let output: Vec<Complex<f64>> = run(&shared, kind, true, 1, &[length, rows], &input, input.len());
            assert_close(&output, &expected, 1e-12);
        }
        let real: Vec<f64> = input.iter().map(|value| value.re).collect();
        let half = length / 2 + 1;
        let spectra: Vec<Complex<f64>> = run(&alone, FftKind::RealForward, true, rows, &[length], &real, rows * half);
        let complex: Vec<_> = real.iter().map(|&value| Complex::new(value, 0.0)).collect();
        let whole = complex.chunks(length).flat_map(|signal| reference(signal, &[length], false)[..half].to_vec());
        assert_close(&spectra, &whole.collect::<Vec<_>>(), 1e-12);
        let back: Vec<f64> = run(&alone, FftKind::RealInverse, true, rows, &[length], &spectra, real.len());
        assert!(back.iter().zip(&real).all(|(a, b)| (a - b).abs() < 1e-11), "{length}");
    }
}

#[test]
fn empty_batches_and_bad_descriptors() {
    let context = RunContext::new(None);
    let output: Vec<Complex<f32>> = run(&context, FftKind::Forward, false, 0, &[4], &[0u8; 0], 0);
    assert!(output.is_empty());
    let descriptor = FftDescriptor { kind: 0, double: 0, batch: 1, rank: 4, lengths: [1; 3] };
    // SAFETY: nothing is read.
    unsafe { halo_fft(&context, &descriptor, [].as_ptr(), [].as_mut_ptr()) };
    assert!(context.failure().unwrap().contains("rank 4"));
}

#[test]
fn spectra_of_zeros_are_zeros() {
    let context = RunContext::new(None);
    let (rows, length) = (24, 34);
    let row: Vec<f32> = (0..length).map(|index| index as f32).collect();
    // Groups with signals, without any, and with both.
    let input: Vec<f32> =
        (0..rows).flat_map(|index| row.iter().map(move |value| if index < 3 { *value } else { 0.0 })).collect();
    let half = length / 2 + 1;
    let spectra: Vec<Complex<f32>> = run(&context, FftKind::RealForward, false, rows, &[length], &input, rows * half);
    let expected = (0..length).sum::<usize>() as f32;
    for (index, spectrum) in spectra.chunks(half).enumerate() {
        assert!((spectrum[0].re - if index < 3 { expected } else { 0.0 }).abs() < 1e-3);
        assert!(index < 3 || spectrum.iter().all(|value| value.norm() == 0.0));
    }
}
