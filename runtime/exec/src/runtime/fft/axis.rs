//! Transforms of all signals along one axis of an array.

use super::{
    FftKind, RunContext,
    lanes::{Buffers, Lane, Rows},
    plans::Planned,
};
use crate::runtime::tiles::{Square, square_of_eight};
use crate::thread_pool::{for_each_chunk, grain_for_cost};
use num_complex::Complex;
use rustfft::FftDirection;
use std::{array::from_fn, ops::Range, slice};

/// How to transform along an axis.
#[derive(Clone, Copy)]
pub(super) struct Axis<'a, T> {
    pub(super) context: &'a RunContext<'a>,
    pub(super) direction: FftDirection,
    /// What results are multiplied by.
    pub(super) scale: T,
}

/// The signals along an axis of a row-major array.
#[derive(Clone, Copy)]
pub(super) struct Signals {
    pub(super) count: usize,
    pub(super) length: usize,
    /// Elements between those of a signal.
    pub(super) stride: usize,
}

impl Signals {
    pub(super) fn rows(count: usize, length: usize) -> Self {
        Self { count, length, stride: 1 }
    }

    /// Where a signal begins.
    fn start(&self, signal: usize) -> usize {
        signal / self.stride * self.length * self.stride + signal % self.stride
    }

    /// Whether the signals' elements of one position are neighbours.
    fn are_neighbours(&self, signals: &Range<usize>) -> bool {
        signals.start % self.stride + signals.len() <= self.stride
    }
}

/// A buffer that threads read and write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: every use takes disjoint ranges.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// # Safety
    /// The range must be inside the buffer, and nothing else may use it meanwhile.
    unsafe fn range<'a>(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }

    /// Where an element is.
    fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }

    /// # Safety
    /// The element must be inside the buffer, and nothing may write it meanwhile.
    unsafe fn read(self, index: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index).read() }
    }

    /// # Safety
    /// The element must be inside the buffer, and nothing else may use it meanwhile.
    unsafe fn write(self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index).write(value) }
    }
}

/// Positions whose elements are moved together: a cache line of each signal.
pub(super) const BLOCK: usize = 8;

/// Real numbers of a row that needs no plan, at most: their spectrum is a sum and a difference.
const MOST_WITHOUT_PLAN: usize = 2;

/// The bytes between some complex numbers.
fn bytes<T>(distance: usize) -> isize {
    distance.wrapping_mul(size_of::<Complex<T>>()) as isize
}

/// What transposes as many positions of as many rows as there are lanes, if that is what some signals are.
fn square_of<T: Lane>(signals: Signals, range: &Range<usize>) -> Option<Square> {
    let is_square = T::LANES == BLOCK && range.len() == BLOCK && signals.stride == 1;
    square_of_eight().filter(|_| is_square && size_of::<Complex<T>>() == size_of::<f64>())
}

/// Places the first `positions` elements of some signals side by side.
///
/// # Safety
/// The signals must be inside `source`, and nothing may write them meanwhile.
unsafe fn gather<T: Lane>(
    source: Shared<Complex<T>>,
    signals: Signals,
    range: Range<usize>,
    positions: usize,
    lanes: &mut [Complex<T>],
) {
    let start = signals.start(range.start);
    if signals.are_neighbours(&range) {
        for (position, row) in lanes.chunks_exact_mut(T::LANES).take(positions).enumerate() {
            let start = start + position * signals.stride;
            // SAFETY: the caller's promise.
            let elements = unsafe { source.range(start..start + range.len()) };
            // A length known to the compiler is copied by a vector or two.
            if elements.len() == T::LANES {
                row.copy_from_slice(&elements[..T::LANES]);
            } else {
                row[..elements.len()].copy_from_slice(elements);
            }
        }
        return;
    }
    let square = square_of::<T>(signals, &range);
    for (block, rows) in lanes[..positions * T::LANES].chunks_mut(BLOCK * T::LANES).enumerate() {
        let offset = block * BLOCK * signals.stride;
        if let Some(square) = square.filter(|_| rows.len() == BLOCK * T::LANES) {
            let from = source.0.wrapping_add(start + offset);
            // SAFETY: the caller's promise; the square has as many signals and positions.
            unsafe { square(from.cast(), bytes::<T>(signals.length), rows.as_mut_ptr().cast(), bytes::<T>(T::LANES)) };
            continue;
        }
        for (lane, signal) in range.clone().enumerate() {
            let start = signals.start(signal) + offset;
            if signals.stride == 1 && rows.len() == BLOCK * T::LANES {
                // SAFETY: the caller's promise.
                let elements = unsafe { source.range(start..start + BLOCK) };
                for position in 0..BLOCK {
                    rows[position * T::LANES + lane] = elements[position];
                }
                continue;
            }
            for (position, row) in rows.chunks_exact_mut(T::LANES).enumerate() {
                // SAFETY: the caller's promise.
                row[lane] = unsafe { source.read(start + position * signals.stride) };
            }
        }
    }
}

/// The inverse of [`gather`], of rows in the order that `row_of` says.
///
/// # Safety
/// The signals must be inside `target`, and nothing else may use them meanwhile.
unsafe fn scatter<T: Lane>(
    lanes: &[Complex<T>],
    row_of: impl Fn(usize) -> usize,
    target: Shared<Complex<T>>,
    signals: Signals,
    range: Range<usize>,
) {
    let start = signals.start(range.start);
    if signals.are_neighbours(&range) {
        let row = |position: usize| &lanes[row_of(position) * T::LANES..][..T::LANES];
        for position in 0..signals.length {
            let start = start + position * signals.stride;
            // SAFETY: the caller's promise.
            let elements = unsafe { target.range(start..start + range.len()) };
            if elements.len() == T::LANES {
                elements[..T::LANES].copy_from_slice(row(position));
            } else {
                elements.copy_from_slice(&row(position)[..elements.len()]);
            }
        }
        return;
    }
    let square = square_of::<T>(signals, &range);
    for block in (0..signals.length).step_by(BLOCK) {
        let positions = BLOCK.min(signals.length - block);
        let rows: [usize; BLOCK] = from_fn(|position| row_of(block + position.min(positions - 1)) * T::LANES);
        let distance = rows[1].wrapping_sub(rows[0]);
        let is_regular = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == distance);
        if let Some(square) = square.filter(|_| positions == BLOCK && is_regular) {
            let (from, to) = (lanes.as_ptr().wrapping_add(rows[0]), target.0.wrapping_add(start + block));
            // SAFETY: the caller's promise; the square has as many signals and positions.
            unsafe { square(from.cast(), bytes::<T>(distance), to.cast(), bytes::<T>(signals.length)) };
            continue;
        }
        for (lane, signal) in range.clone().enumerate() {
            let start = signals.start(signal) + block * signals.stride;
            if signals.stride == 1 && positions == BLOCK {
                // SAFETY: the caller's promise.
                let elements = unsafe { target.range(start..start + BLOCK) };
                elements.iter_mut().zip(rows).for_each(|(element, row)| *element = lanes[row + lane]);
                continue;
            }
            for (position, &row) in rows[..positions].iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { target.write(start + position * signals.stride, lanes[row + lane]) };
            }
        }
    }
}

impl<T: Planned> Axis<'_, T> {
    /// Transforms rows, if they are short.
    ///
    /// # Safety
    /// As for [`ShortRowPlan::transform`].
    unsafe fn transform_short(&self, rows: Signals, kind: FftKind, source: *const T, target: *mut T) -> bool {
        let Some(plan) = T::short_rows(kind, rows.length).filter(|_| rows.stride == 1) else { return false };
        let (source, target) = (Shared(source.cast_mut()), Shared(target));
        let [before, after] = plan.lengths();
        self.in_chunks(rows.count, rows.length, |rows| {
            let (source, target) = (source.at(rows.start * before), target.at(rows.start * after));
            // SAFETY: the caller's promise; rows are disjoint.
            unsafe { plan.transform(rows.len(), source, target, self.scale) };
        });
        true
    }

    /// Runs `body` for chunks of `0..count` groups of signals, of `points` points each group.
    fn in_chunks(&self, count: usize, points: usize, body: impl Fn(Range<usize>) + Sync) {
        match self.context.threads() {
            // About 3 ns for each point.
            Some(threads) => {
                let grain = grain_for_cost(3 * points as u64) as usize;
                for_each_chunk(threads, count, grain, |begin, end| body(begin..end));
            }
            None => body(0..count),
        }
    }

    /// Runs `body` for groups of signals that fill the lanes, with buffers of `positions` positions.
    fn in_groups(&self, count: usize, positions: usize, body: impl Fn(Range<usize>, &mut Buffers<T>) + Sync) {
        self.in_chunks(count.div_ceil(T::LANES), positions * T::LANES, |groups| {
            let mut buffers = Buffers::new(positions);
            for group in groups {
                let first = group * T::LANES;
                body(first..count.min(first + T::LANES), &mut buffers);
            }
        });
    }

    /// The position of a result in what a forward transform gives: an inverse one is the same in the opposite order.
    fn row_of(&self, length: usize) -> impl Fn(usize) -> usize + use<T> {
        let reversed = self.direction == FftDirection::Inverse;
        move |position| if reversed && position > 0 { length - position } else { position }
    }

    fn multiply(&self, values: &mut [Complex<T>]) {
        if self.scale != T::one() {
            values.iter_mut().for_each(|value| *value = *value * self.scale);
        }
    }

    /// Transforms the signals of `source` into `target`, which may be the same.
    ///
    /// # Safety
    /// Both must hold the signals, unused by others, and not overlap otherwise.
    pub(super) unsafe fn transform(&self, signals: Signals, source: *const Complex<T>, target: *mut Complex<T>) {
        let kind = match self.direction {
            FftDirection::Forward => FftKind::Forward,
            FftDirection::Inverse => FftKind::Inverse,
        };
        // SAFETY: the caller's promise; a complex number is two real ones.
        if unsafe { self.transform_short(signals, kind, source.cast(), target.cast()) } {
            return;
        }
        let (source, target) = (Shared(source.cast_mut()), Shared(target));
        if signals.length == 1 {
            self.in_chunks(signals.count, 1, |points| {
                for point in points {
                    // SAFETY: the caller's promise; points are disjoint.
                    unsafe { target.write(point, source.read(point) * self.scale) };
                }
            });
        } else if let Some(plan) = T::lanes(signals) {
            self.in_groups(signals.count, signals.length, |range, buffers| {
                if range.len() == T::LANES && signals.are_neighbours(&range) {
                    let (start, stride) = (signals.start(range.start), signals.stride);
                    let rows = |array: Shared<Complex<T>>, reversed| Rows {
                        start: array.0.wrapping_add(start),
                        stride,
                        reversed,
                    };
                    let (from, to) = (rows(source, false), rows(target, self.direction == FftDirection::Inverse));
                    // SAFETY: the caller's promise; groups are disjoint.
                    return unsafe { plan.forward_between(from, to, buffers, self.scale) };
                }
                // SAFETY: as above.
                unsafe { gather(source, signals, range.clone(), signals.length, buffers.data()) };
                plan.forward(buffers, self.scale);
                let row_of = self.row_of(signals.length);
                // SAFETY: as above.
                unsafe { scatter(buffers.data(), row_of, target, signals, range) };
            });
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.one_by_one(signals, source, target) };
        }
    }

    /// # Safety
    /// As for [`Axis::transform`].
    unsafe fn one_by_one(&self, signals: Signals, source: Shared<Complex<T>>, target: Shared<Complex<T>>) {
        let Signals { count, length, stride } = signals;
        let plan = T::complex(length, self.direction);
        if stride == 1 {
            self.in_chunks(count, length, |rows| {
                let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
                for row in rows {
                    let place = row * length..(row + 1) * length;
                    if !std::ptr::eq(source.0, target.0) {
                        // SAFETY: the caller's promise; rows are disjoint.
                        unsafe { target.range(place.clone()).copy_from_slice(source.range(place.clone())) };
                    }
                    // SAFETY: as above.
                    let row = unsafe { target.range(place) };
                    plan.process_with_scratch(row, &mut scratch);
                    self.multiply(row);
                }
            });
            return;
        }
        // Neighbours are read together, so that each cache line is read once.
        let groups = stride.div_ceil(BLOCK);
        self.in_chunks(count / stride * groups, length * BLOCK, |chunk| {
            let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
            let mut columns = vec![Complex::default(); BLOCK * length];
            for group in chunk {
                let first = group % groups * BLOCK;
                let neighbours = BLOCK.min(stride - first);
                let start = group / groups * length * stride + first;
                for position in 0..length {
                    let start = start + position * stride;
                    // SAFETY: the caller's promise; groups are disjoint.
                    let elements = unsafe { source.range(start..start + neighbours) };
                    elements
                        .iter()
                        .enumerate()
                        .for_each(|(column, &value)| columns[column * length + position] = value);
                }
                plan.process_with_scratch(&mut columns[..neighbours * length], &mut scratch);
                self.multiply(&mut columns[..neighbours * length]);
                for position in 0..length {
                    let start = start + position * stride;
                    // SAFETY: as above.
                    let elements = unsafe { target.range(start..start + neighbours) };
                    elements
                        .iter_mut()
                        .enumerate()
                        .for_each(|(column, value)| *value = columns[column * length + position]);
                }
            }
        });
    }

    /// Transforms `count` rows of `length` real numbers to the first halves of their spectra.
    ///
    /// # Safety
    /// `source` and `target` must hold them, unused by others.
    pub(super) unsafe fn real_forward(&self, count: usize, length: usize, source: *const T, target: *mut Complex<T>) {
        let half = length / 2 + 1;
        let target = Shared(target);
        if length <= MOST_WITHOUT_PLAN {
            let source = Shared(source.cast_mut());
            self.in_chunks(count, length, |rows| {
                for row in rows {
                    // SAFETY: the caller's promise; rows are disjoint.
                    let (row, spectrum) = unsafe {
                        (source.range(row * length..(row + 1) * length), target.range(row * half..(row + 1) * half))
                    };
                    match (row, spectrum) {
                        ([a, b], [sum, difference]) => (*sum, *difference) = ((*a + *b).into(), (*a - *b).into()),
                        (row, spectrum) => spectrum.iter_mut().zip(row).for_each(|(to, from)| *to = (*from).into()),
                    }
                }
            });
            return;
        }
        // SAFETY: the caller's promise; a complex number is two real ones.
        if unsafe { self.transform_short(Signals::rows(count, length), FftKind::RealForward, source, target.0.cast()) }
        {
            return;
        }
        if let Some(plan) = T::real_lanes(Signals::rows(count, length)) {
            let source = Shared(source.cast_mut().cast::<Complex<T>>());
            let (pairs, spectra) = (Signals::rows(count, length / 2), Signals::rows(count, half));
            self.in_groups(count, half, |range, buffers| {
                // Padding is common, and its spectrum known.
                // SAFETY: the caller's promise; groups are disjoint.
                let signals = unsafe { source.range(range.start * pairs.length..range.end * pairs.length) };
                if signals.iter().all(|value| *value == Complex::default()) {
                    // SAFETY: as above.
                    return unsafe { target.range(range.start * half..range.end * half) }.fill(Complex::default());
                }
                // SAFETY: as above.
                unsafe { gather(source, pairs, range.clone(), length / 2, buffers.data()) };
                plan.forward(buffers);
                // SAFETY: as above.
                unsafe { scatter(buffers.data(), |position| position, target, spectra, range) };
            });
            return;
        }
        let source = Shared(source.cast_mut());
        if let Some(plan) = T::odd_lanes(count, length) {
            let spectra = Signals::rows(count, half);
            self.in_groups(count, length, |range, buffers| {
                let lanes = buffers.data();
                for (lane, signal) in range.clone().enumerate() {
                    // SAFETY: the caller's promise; groups are disjoint.
                    let values = unsafe { source.range(signal * length..(signal + 1) * length) };
                    for (row, &value) in lanes.chunks_exact_mut(T::LANES).zip(&*values) {
                        row[lane] = value.into();
                    }
                }
                plan.forward(buffers, T::one());
                // SAFETY: as above.
                unsafe { scatter(buffers.data(), |position| position, target, spectra, range) };
            });
            return;
        }
        if let Some(plan) = T::real_rows(length, FftDirection::Forward) {
            let pairs = Shared(source.0.cast::<Complex<T>>());
            self.in_chunks(count, length, |rows| {
                let mut scratch = plan.scratch();
                for index in rows {
                    // SAFETY: the caller's promise; rows are disjoint.
                    let (row, spectrum) = unsafe {
                        let row = pairs.range(index * length / 2..(index + 1) * length / 2);
                        (row, target.range(index * half..(index + 1) * half))
                    };
                    plan.forward(row, spectrum, &mut scratch);
                }
            });
            return;
        }
        let plan = T::from_real(length);
        self.in_chunks(count, length, |rows| {
            let (mut row, mut scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
            for index in rows {
                // SAFETY: the caller's promise; rows are disjoint.
                let (source, target) = unsafe {
                    (source.range(index * length..(index + 1) * length), target.range(index * half..(index + 1) * half))
                };
                row.copy_from_slice(source);
                // Fails on wrong lengths only.
                let _ = plan.process_with_scratch(&mut row, target, &mut scratch);
            }
        });
    }

    /// Transforms the first halves of `count` spectra back to rows of `length` real numbers.
    ///
    /// # Safety
    /// As for [`Axis::real_forward`].
    pub(super) unsafe fn real_inverse(&self, count: usize, length: usize, source: *const Complex<T>, target: *mut T) {
        let half = length / 2 + 1;
        let source = Shared(source.cast_mut());
        if length <= MOST_WITHOUT_PLAN {
            let target = Shared(target);
            self.in_chunks(count, length, |rows| {
                for row in rows {
                    // SAFETY: the caller's promise; rows are disjoint.
                    let (row, spectrum) = unsafe {
                        (target.range(row * length..(row + 1) * length), source.range(row * half..(row + 1) * half))
                    };
                    match (row, spectrum) {
                        ([a, b], [sum, difference]) => {
                            (*a, *b) = ((sum.re + difference.re) * self.scale, (sum.re - difference.re) * self.scale);
                        }
                        (row, spectrum) => {
                            row.iter_mut().zip(spectrum).for_each(|(to, from)| *to = from.re * self.scale)
                        }
                    }
                }
            });
            return;
        }
        // SAFETY: the caller's promise; a complex number is two real ones.
        if unsafe { self.transform_short(Signals::rows(count, length), FftKind::RealInverse, source.0.cast(), target) }
        {
            return;
        }
        // A real signal has no imaginary parts there, and the result does not depend on them.
        let last_is_real = length.is_multiple_of(2);
        if let Some(plan) = T::real_lanes(Signals::rows(count, length)) {
            let target = Shared(target.cast::<Complex<T>>());
            let (pairs, spectra) = (Signals::rows(count, length / 2), Signals::rows(count, half));
            self.in_groups(count, half, |range, buffers| {
                let lanes = buffers.data();
                // SAFETY: the caller's promise; groups are disjoint.
                unsafe { gather(source, spectra, range.clone(), half, lanes) };
                let (first, last) = (0..T::LANES, (half - 1) * T::LANES..half * T::LANES);
                lanes[first].iter_mut().for_each(|value| value.im = T::zero());
                lanes[last].iter_mut().for_each(|value| value.im = T::zero());
                plan.inverse(buffers, self.scale);
                let row_of = self.row_of(length / 2);
                // SAFETY: as above.
                unsafe { scatter(buffers.data(), row_of, target, pairs, range) };
            });
            return;
        }
        let target = Shared(target);
        if let Some(plan) = T::odd_lanes(count, length) {
            let spectra = Signals::rows(count, half);
            self.in_groups(count, length, |range, buffers| {
                let lanes = buffers.data();
                // SAFETY: the caller's promise; groups are disjoint.
                unsafe { gather(source, spectra, range.clone(), half, lanes) };
                lanes[..T::LANES].iter_mut().for_each(|value| value.im = T::zero());
                // The other half of the spectrum of a real signal is conjugates of the first.
                let (first, second) = lanes.split_at_mut(half * T::LANES);
                let mirrored = first[T::LANES..].chunks_exact(T::LANES).rev();
                for (row, other) in second.chunks_exact_mut(T::LANES).zip(mirrored) {
                    row.iter_mut().zip(other).for_each(|(value, other)| *value = other.conj());
                }
                plan.forward(buffers, self.scale);
                let (lanes, row_of) = (buffers.data(), self.row_of(length));
                for (lane, signal) in range.enumerate() {
                    // SAFETY: as above.
                    let values = unsafe { target.range(signal * length..(signal + 1) * length) };
                    for (position, value) in values.iter_mut().enumerate() {
                        *value = lanes[row_of(position) * T::LANES + lane].re;
                    }
                }
            });
            return;
        }
        if let Some(plan) = T::real_rows(length, FftDirection::Inverse) {
            let pairs = Shared(target.0.cast::<Complex<T>>());
            self.in_chunks(count, length, |rows| {
                let mut scratch = plan.scratch();
                for index in rows {
                    // SAFETY: the caller's promise; rows are disjoint.
                    let (spectrum, row) = unsafe {
                        let row = pairs.range(index * length / 2..(index + 1) * length / 2);
                        (source.range(index * half..(index + 1) * half), row)
                    };
                    plan.inverse(spectrum, row, &mut scratch, self.scale);
                }
            });
            return;
        }
        let plan = T::to_real(length);
        self.in_chunks(count, length, |rows| {
            let (mut row, mut scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
            for index in rows {
                // SAFETY: as above.
                let (source, target) = unsafe {
                    (source.range(index * half..(index + 1) * half), target.range(index * length..(index + 1) * length))
                };
                row.copy_from_slice(source);
                row[0].im = T::zero();
                if last_is_real {
                    row[half - 1].im = T::zero();
                }
                // Fails on wrong lengths only.
                let _ = plan.process_with_scratch(&mut row, target, &mut scratch);
                target.iter_mut().for_each(|value| *value = *value * self.scale);
            }
        });
    }
}
