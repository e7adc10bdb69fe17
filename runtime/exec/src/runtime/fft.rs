//! Discrete Fourier transforms of one to three dimensions, through the rustfft and realfft crates.
//!
//! Semantics: HLO `fft` (XLA operation semantics, "Fft"). Inverse transforms are divided by the number of points.

use super::{RunContext, context::context_at};
use crate::thread_pool::{for_each_chunk, grain_for_cost};
use num_complex::Complex;
use realfft::RealFftPlanner;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::{
    ops::Range,
    slice,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Which transform.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FftDescriptor {
    /// An [`FftKind`].
    pub kind: i64,
    /// Whether the numbers are `f64` and `c128` rather than `f32` and `c64`.
    pub double: i64,
    /// Independent transforms, one after the other in memory.
    pub batch: i64,
    /// Transformed dimensions, 1 to 3.
    pub rank: i64,
    /// Their sizes, major first, of the real side for real transforms; unused ones are ignored.
    pub lengths: [i64; 3],
}

/// The kinds of transforms.
#[repr(i64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FftKind {
    /// Complex to complex.
    Forward = 0,
    /// Complex to complex, the inverse.
    Inverse = 1,
    /// Real to complex; of the last dimension, `n`, only the first `n / 2 + 1` results are produced.
    RealForward = 2,
    /// The inverse of `RealForward`: complex to real.
    RealInverse = 3,
}

/// Columns handled together, so that each cache line is read once.
const COLUMNS: usize = 8;

/// Transforms `input` into `output`, row-major arrays that do not overlap.
///
/// # Safety
/// `context` must be null or live; the buffers must hold the described number of elements.
pub unsafe extern "C" fn halo_fft(
    context: *const RunContext,
    descriptor: *const FftDescriptor,
    input: *const u8,
    output: *mut u8,
) {
    // SAFETY: the caller's promise.
    let (context, descriptor) = unsafe { (context_at(context), &*descriptor) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("fft", || {
        let shape = Shape::new(descriptor)?;
        // SAFETY: the caller's promise.
        unsafe {
            if descriptor.double != 0 {
                transform::<f64>(context, &shape, input, output)
            } else {
                transform::<f32>(context, &shape, input, output)
            }
        }
    });
}

struct Shape {
    kind: FftKind,
    batch: usize,
    /// At least one.
    lengths: Vec<usize>,
}

impl Shape {
    fn new(descriptor: &FftDescriptor) -> Result<Self, String> {
        let kind = match descriptor.kind {
            0 => FftKind::Forward,
            1 => FftKind::Inverse,
            2 => FftKind::RealForward,
            3 => FftKind::RealInverse,
            other => return Err(format!("no kind {other}")),
        };
        let rank = usize::try_from(descriptor.rank).ok().filter(|rank| (1..=3).contains(rank));
        let rank = rank.ok_or_else(|| format!("rank {} is not 1 to 3", descriptor.rank))?;
        let size = |value: i64| usize::try_from(value).map_err(|_| format!("size {value}"));
        let lengths = descriptor.lengths[..rank].iter().map(|&length| size(length)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { kind, batch: size(descriptor.batch)?, lengths })
    }

    fn last(&self) -> usize {
        self.lengths.last().copied().unwrap_or(1)
    }

    /// Rows along the last dimension.
    fn rows(&self) -> usize {
        self.batch * self.lengths[..self.lengths.len() - 1].iter().product::<usize>()
    }
}

/// A float type with its plans, which are costly and kept for the life of the process.
trait Planned: FftNum + Default {
    fn complex_plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;
    fn with_real_planner<R>(call: impl FnOnce(&mut RealFftPlanner<Self>) -> R) -> R;
    fn reciprocal(count: usize) -> Self;
}

macro_rules! planned {
    ($float:ty, $complex:ident, $real:ident) => {
        static $complex: LazyLock<Mutex<FftPlanner<$float>>> = LazyLock::new(|| Mutex::new(FftPlanner::new()));
        static $real: LazyLock<Mutex<RealFftPlanner<$float>>> = LazyLock::new(|| Mutex::new(RealFftPlanner::new()));

        impl Planned for $float {
            fn complex_plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>> {
                $complex.lock().unwrap_or_else(PoisonError::into_inner).plan_fft(length, direction)
            }

            fn with_real_planner<R>(call: impl FnOnce(&mut RealFftPlanner<Self>) -> R) -> R {
                call(&mut $real.lock().unwrap_or_else(PoisonError::into_inner))
            }

            fn reciprocal(count: usize) -> Self {
                1.0 / count as $float
            }
        }
    };
}

planned!(f32, COMPLEX_F32, REAL_F32);
planned!(f64, COMPLEX_F64, REAL_F64);

/// A buffer that threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: every use takes disjoint ranges.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// The range must be inside the buffer, and nothing else may use it meanwhile.
    unsafe fn range<'a>(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

/// # Safety
/// The buffers must hold what `shape` says, of type `T`.
unsafe fn transform<T: Planned>(
    context: &RunContext,
    shape: &Shape,
    input: *const u8,
    output: *mut u8,
) -> Result<(), String> {
    let points: usize = shape.lengths.iter().product();
    if points * shape.batch == 0 {
        return Ok(());
    }
    let half = shape.last() / 2 + 1;
    let (complex_rows, real) = (shape.rows(), shape.last());
    // SAFETY: the caller's promise.
    unsafe {
        match shape.kind {
            FftKind::Forward | FftKind::Inverse => {
                let count = complex_rows * real;
                std::ptr::copy_nonoverlapping(input.cast::<Complex<T>>(), output.cast(), count);
                let data = Shared(output.cast::<Complex<T>>());
                let (direction, scale) = match shape.kind {
                    FftKind::Inverse => (FftDirection::Inverse, T::reciprocal(points)),
                    _ => (FftDirection::Forward, T::one()),
                };
                along_axes(context, data, shape, real, true, direction);
                if shape.kind == FftKind::Inverse {
                    slice::from_raw_parts_mut(output.cast::<Complex<T>>(), count)
                        .iter_mut()
                        .for_each(|value| *value = *value * scale);
                }
            }
            FftKind::RealForward => {
                let data = Shared(output.cast::<Complex<T>>());
                let input = slice::from_raw_parts(input.cast::<T>(), complex_rows * real);
                real_forward(context, input, data, real);
                along_axes(context, data, shape, half, false, FftDirection::Forward);
            }
            FftKind::RealInverse => {
                let mut copy = slice::from_raw_parts(input.cast::<Complex<T>>(), complex_rows * half).to_vec();
                along_axes(context, Shared(copy.as_mut_ptr()), shape, half, false, FftDirection::Inverse);
                real_inverse(context, Shared(copy.as_mut_ptr()), Shared(output.cast::<T>()), shape, points);
            }
        }
    }
    Ok(())
}

/// Transforms complex data, whose last dimension has `last` elements, along each dimension, the last one only if asked to.
///
/// # Safety
/// `data` must hold the array, unused by others.
unsafe fn along_axes<T: Planned>(
    context: &RunContext,
    data: Shared<Complex<T>>,
    shape: &Shape,
    last: usize,
    include_last: bool,
    direction: FftDirection,
) {
    let total = shape.rows() * last;
    let mut stride = 1;
    for (axis, &length) in shape.lengths.iter().enumerate().rev() {
        let is_last = axis + 1 == shape.lengths.len();
        let length = if is_last { last } else { length };
        if (include_last || !is_last) && length > 1 {
            let plan = T::complex_plan(length, direction);
            // SAFETY: the caller's promise.
            unsafe { along_axis(context, data, total, length, stride, &*plan) };
        }
        stride *= length;
    }
}

/// # Safety
/// `data` must hold `total` elements, unused by others.
unsafe fn along_axis<T: Planned>(
    context: &RunContext,
    data: Shared<Complex<T>>,
    total: usize,
    length: usize,
    stride: usize,
    plan: &dyn Fft<T>,
) {
    let zero = Complex::new(T::zero(), T::zero());
    let scratch = || vec![zero; plan.get_inplace_scratch_len()];
    if stride == 1 {
        in_chunks(context, total / length, length, |rows| {
            // SAFETY: chunks of rows are disjoint.
            let rows = unsafe { data.range(rows.start * length..rows.end * length) };
            plan.process_with_scratch(rows, &mut scratch());
        });
        return;
    }
    let groups = stride.div_ceil(COLUMNS);
    in_chunks(context, total / (length * stride) * groups, length * COLUMNS, |chunk| {
        let mut scratch = scratch();
        let mut columns = vec![zero; COLUMNS * length];
        for group in chunk {
            let first_column = group % groups * COLUMNS;
            let count = COLUMNS.min(stride - first_column);
            let base = group / groups * length * stride + first_column;
            for position in 0..length {
                let start = base + position * stride;
                // SAFETY: groups of columns are disjoint.
                let elements = unsafe { data.range(start..start + count) };
                elements.iter().enumerate().for_each(|(column, &value)| columns[column * length + position] = value);
            }
            plan.process_with_scratch(&mut columns[..count * length], &mut scratch);
            for position in 0..length {
                let start = base + position * stride;
                // SAFETY: as above.
                let elements = unsafe { data.range(start..start + count) };
                elements
                    .iter_mut()
                    .enumerate()
                    .for_each(|(column, value)| *value = columns[column * length + position]);
            }
        }
    });
}

fn real_forward<T: Planned>(context: &RunContext, input: &[T], output: Shared<Complex<T>>, real: usize) {
    let plan = T::with_real_planner(|planner| planner.plan_fft_forward(real));
    let half = real / 2 + 1;
    in_chunks(context, input.len() / real, real, |rows| {
        let (mut row, mut scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
        for index in rows {
            row.copy_from_slice(&input[index * real..(index + 1) * real]);
            // SAFETY: rows are disjoint.
            let output = unsafe { output.range(index * half..(index + 1) * half) };
            // Fails on wrong lengths only.
            let _ = plan.process_with_scratch(&mut row, output, &mut scratch);
        }
    });
}

fn real_inverse<T: Planned>(
    context: &RunContext,
    input: Shared<Complex<T>>,
    output: Shared<T>,
    shape: &Shape,
    points: usize,
) {
    let real = shape.last();
    let plan = T::with_real_planner(|planner| planner.plan_fft_inverse(real));
    let half = real / 2 + 1;
    let scale = T::reciprocal(points);
    in_chunks(context, shape.rows(), real, |rows| {
        let mut scratch = plan.make_scratch_vec();
        for index in rows {
            // SAFETY: rows are disjoint.
            let (row, output) = unsafe {
                (input.range(index * half..(index + 1) * half), output.range(index * real..(index + 1) * real))
            };
            // A real signal has none there, and the result does not depend on it.
            row[0].im = T::zero();
            if real.is_multiple_of(2) {
                row[half - 1].im = T::zero();
            }
            // Fails on wrong lengths only.
            let _ = plan.process_with_scratch(row, output, &mut scratch);
            output.iter_mut().for_each(|value| *value = *value * scale);
        }
    });
}

/// Runs `body` for chunks of `0..count` items of `points` points each.
fn in_chunks(context: &RunContext, count: usize, points: usize, body: impl Fn(Range<usize>) + Sync) {
    match context.threads() {
        // About 3 ns for each point.
        Some(threads) => {
            let grain = grain_for_cost(3 * points as u64) as usize;
            for_each_chunk(threads, count, grain, |begin, end| body(begin..end));
        }
        None => body(0..count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;
    use std::f64::consts::TAU;

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
        let shapes: [&[usize]; 9] = [&[1], &[2], &[8], &[9], &[17], &[4, 6], &[3, 11], &[2, 3, 5], &[4, 1, 10]];
        for lengths in shapes {
            let points: usize = lengths.iter().product();
            let batch = 3;
            let input = signal(batch * points);
            let last = lengths[lengths.len() - 1];
            let half = last / 2 + 1;
            for inverse in [false, true] {
                let kind = if inverse { FftKind::Inverse } else { FftKind::Forward };
                let output: Vec<Complex<f64>> = run(&context, kind, true, batch, lengths, &input, input.len());
                let expected: Vec<_> =
                    input.chunks(points).flat_map(|signal| reference(signal, lengths, inverse)).collect();
                assert_close(&output, &expected, 1e-13);
                let single: Vec<Complex<f32>> =
                    input.iter().map(|value| Complex::new(value.re as f32, value.im as f32)).collect();
                let output: Vec<Complex<f32>> = run(&context, kind, false, batch, lengths, &single, input.len());
                let output: Vec<_> =
                    output.iter().map(|value| Complex::new(value.re.into(), value.im.into())).collect();
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
            let spectrum: Vec<Complex<f64>> =
                run(&context, FftKind::RealForward, true, batch, lengths, &real, expected.len());
            assert_close(&spectrum, &expected, 1e-13);
            let back: Vec<f64> = run(&context, FftKind::RealInverse, true, batch, lengths, &spectrum, real.len());
            assert!(back.iter().zip(&real).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?} {real:?}");
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
}
