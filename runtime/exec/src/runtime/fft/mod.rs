//! Discrete Fourier transforms of one to three dimensions.
//!
//! Semantics: HLO `fft` (XLA operation semantics, "Fft"). Inverse transforms are divided by the number of points.
//!
//! ```text
//!  transform: an axis after the other ── axis: the signals along an axis ─┬─ lanes: several side by side, in vectors
//!                                                                         ├─ short_rows: products with a matrix
//!                                                                         └─ rustfft: one by one, real ones of even length by real, odd by realfft
//! ```

mod axis;
mod lanes;
mod plans;
mod primes;
mod real;
mod short_rows;
use super::{RunContext, context::context_at};
use axis::{Axis, Signals};
use num_complex::Complex;
use plans::Planned;
use rustfft::FftDirection;
use std::cell::Cell;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
                transform::<f64>(context, &shape, input, output);
            } else {
                transform::<f32>(context, &shape, input, output);
            }
        }
        Ok(())
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

    /// Points of one transform, and the size of the last dimension.
    fn points(&self) -> (usize, usize) {
        (self.lengths.iter().product(), self.lengths.last().copied().unwrap_or(1))
    }

    /// The signals along each dimension, the last one first, of an array whose last dimension has `last` elements.
    fn signals(&self, last: usize) -> impl DoubleEndedIterator<Item = Signals> + '_ {
        let (points, real_last) = self.points();
        let total = self.batch * points / real_last * last;
        (0..self.lengths.len()).rev().map(move |dimension| {
            let minor = &self.lengths[dimension..];
            let (length, stride) = match minor {
                [_] => (last, 1),
                _ => (minor[0], minor[1..minor.len() - 1].iter().product::<usize>() * last),
            };
            Signals { count: total / length, length, stride }
        })
    }
}

thread_local! {
    /// The memory of the thread's last transform from complex to real: fresh pages cost as much as transforming in them.
    static KEPT: Cell<Vec<u64>> = Cell::default();
}

/// Memory that is kept longer than a call, at most, in words.
const KEPT_WORDS: usize = 1 << 20;

/// # Safety
/// The buffers must hold what `shape` says, of type `T`.
unsafe fn transform<T: Planned>(context: &RunContext, shape: &Shape, input: *const u8, output: *mut u8) {
    let (points, last) = shape.points();
    if points * shape.batch == 0 {
        return;
    }
    let half = last / 2 + 1;
    let forward = Axis { context, direction: FftDirection::Forward, scale: T::one() };
    let inverse = Axis { direction: FftDirection::Inverse, ..forward };
    let scale = T::rounded(1.0 / points as f64);
    // SAFETY: the caller's promise; each step reads the input or what an earlier one wrote.
    unsafe {
        match shape.kind {
            FftKind::Forward | FftKind::Inverse => {
                let mut source = input.cast::<Complex<T>>();
                for (index, signals) in shape.signals(last).enumerate() {
                    let is_last = index + 1 == shape.lengths.len();
                    let axis = match shape.kind {
                        FftKind::Inverse if is_last => Axis { scale, ..inverse },
                        FftKind::Inverse => inverse,
                        _ => forward,
                    };
                    axis.transform(signals, source, output.cast());
                    source = output.cast();
                }
            }
            FftKind::RealForward => {
                let mut signals = shape.signals(half);
                if let Some(rows) = signals.next() {
                    forward.real_forward(rows.count, last, input.cast(), output.cast());
                }
                signals.for_each(|signals| forward.transform(signals, output.cast(), output.cast()));
            }
            FftKind::RealInverse => {
                let mut source = input.cast::<Complex<T>>();
                let mut memory = KEPT.take();
                let rows = shape.batch * points / last;
                if shape.lengths.len() > 1 {
                    memory.resize((rows * half * size_of::<Complex<T>>()).div_ceil(size_of::<u64>()), 0);
                }
                for signals in shape.signals(half).skip(1) {
                    inverse.transform(signals, source, memory.as_mut_ptr().cast());
                    source = memory.as_ptr().cast();
                }
                Axis { scale, ..inverse }.real_inverse(rows, last, source, output.cast());
                if memory.len() <= KEPT_WORDS {
                    KEPT.set(memory);
                }
            }
        }
    }
}
