//! Columns of a matrix as slices, and the loops over them that factorisations spend their time in.
//!
//! faer's products and triangular solves are fast where they are large; between them stand steps of a few columns. These are
//! copied out, since the columns of a matrix whose size is a power of two evict each other from the cache.

use faer::{
    MatMut, MatRef,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{abs1, add, conj, is_finite, mul, sub, zero},
};
use pulp::{Arch, NullaryFnOnce};

use crate::Element;

/// Evaluates an expression that is compiled for the widest vectors of the processor; the functions it calls must be inlined to be
/// so too.
#[macro_export]
macro_rules! in_vectors {
    ($what:expr) => {
        // There is code for each width of vectors, and a closure that several call is not inlined by itself.
        $crate::call_in_vectors(
            #[inline(always)]
            || $what,
        )
    };
}

/// Calls a function that is compiled for the widest vectors of the processor, if it is inlined: [`in_vectors!`] sees to that.
#[inline(always)]
pub fn call_in_vectors<R>(what: impl FnOnce() -> R) -> R {
    struct Call<F>(F);

    impl<R, F: FnOnce() -> R> NullaryFnOnce for Call<F> {
        type Output = R;

        #[inline(always)]
        fn call(self) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Call(what))
}

/// A matrix whose columns lie one after the other, each followed by zeros up to a multiple of [`STEP`].
pub(crate) struct Panel<T> {
    rows: usize,
    /// Distance of columns.
    stride: usize,
    elements: Vec<T>,
}

impl<T: Element> Panel<T> {
    pub(crate) fn of(matrix: MatRef<'_, T>) -> Self {
        let (rows, columns) = matrix.shape();
        let stride = rows.next_multiple_of(STEP);
        let mut elements = vec![zero(); stride * columns];
        copy(matrix, MatMut::from_column_major_slice_with_stride_mut(&mut elements, rows, columns, stride));
        Self { rows, stride, elements }
    }

    pub(crate) fn write_to(&self, matrix: MatMut<'_, T>) {
        copy(self.matrix(), matrix);
    }

    /// The whole matrix.
    pub(crate) fn matrix(&self) -> MatRef<'_, T> {
        let columns = self.elements.len() / self.stride.max(1);
        MatRef::from_column_major_slice_with_stride(&self.elements, self.rows, columns, self.stride)
    }

    #[inline(always)]
    pub(crate) fn column(&mut self, column: usize) -> &mut [T] {
        &mut self.elements[column * self.stride..][..self.rows]
    }

    /// Subtracts from each column behind `step` the multiple of a vector that stands in row `step`. The vector has zeros down to
    /// that row and behind the last one, so that whole steps of rows are computed.
    #[inline(always)]
    pub(crate) fn subtract_multiples(&mut self, step: usize, vector: &[T]) {
        match self.stride {
            STEP => return self.subtract_multiples_of_short::<STEP>(step, vector),
            TWO_STEPS => return self.subtract_multiples_of_short::<TWO_STEPS>(step, vector),
            _ => {}
        }
        let begin = step / STEP * STEP;
        for open in self.elements.chunks_exact_mut(self.stride).skip(step + 1) {
            let factor = open[step];
            if !is_finite(&factor) {
                subtract_multiple(&mut open[step + 1..self.rows], factor, &vector[step + 1..self.rows]);
            } else if factor != zero::<T>() {
                subtract_multiple(&mut open[begin..], factor, &vector[begin..]);
            }
        }
    }

    /// The same of columns of this many rows and zeros: no loop over rows has an end to be found.
    #[inline(always)]
    fn subtract_multiples_of_short<const ROWS: usize>(&mut self, step: usize, vector: &[T]) {
        let Some(vector) = vector.as_chunks::<ROWS>().0.first() else { return };
        for open in self.elements.as_chunks_mut::<ROWS>().0.iter_mut().skip(step + 1) {
            let factor = open[step];
            if !is_finite(&factor) {
                subtract_multiple(&mut open[step + 1..self.rows], factor, &vector[step + 1..self.rows]);
            } else if factor != zero::<T>() {
                // All is read before anything is written, so that it is seen to be vectors.
                *open = std::array::from_fn(|row| sub(&open[row], &mul(&vector[row], &factor)));
            }
        }
    }

    /// A column with zeros down to row `begin`, in `vector`.
    #[inline(always)]
    pub(crate) fn copy_below(&self, column: usize, begin: usize, vector: &mut [T]) {
        vector[..begin].fill(zero());
        vector[begin..].copy_from_slice(&self.elements[column * self.stride..][begin..self.stride]);
    }

    /// Rows of a column with the zeros behind them.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Exchanges two columns.
    pub(crate) fn exchange(&mut self, one: usize, other: usize) {
        if one != other {
            let (before, after) = self.elements.split_at_mut(one.max(other) * self.stride);
            before[one.min(other) * self.stride..][..self.rows].swap_with_slice(&mut after[..self.rows]);
        }
    }

    /// A column and a later one.
    #[inline(always)]
    pub(crate) fn columns(&mut self, first: usize, second: usize) -> (&[T], &mut [T]) {
        let (before, after) = self.elements.split_at_mut(second * self.stride);
        (&before[first * self.stride..][..self.rows], &mut after[..self.rows])
    }
}

/// Copies a matrix into one of the same size: along columns whose elements follow each other in both, otherwise along rows, of which one
/// matrix has the elements together.
fn copy<T: Element>(from: MatRef<'_, T>, to: MatMut<'_, T>) {
    let are_columns_together = from.row_stride() == 1 && to.row_stride() == 1;
    let (from, to) = if are_columns_together { (from, to) } else { (from.transpose(), to.transpose_mut()) };
    for (from, mut to) in from.col_iter().zip(to.col_iter_mut()) {
        match (from.try_as_col_major(), to.rb_mut().try_as_col_major_mut()) {
            (Some(from), Some(to)) => to.as_slice_mut().copy_from_slice(from.as_slice()),
            (Some(from), None) => to.iter_mut().zip(from.as_slice()).for_each(|(to, from)| *to = *from),
            (None, Some(to)) => to.as_slice_mut().iter_mut().zip(from.iter()).for_each(|(to, from)| *to = *from),
            (None, None) => to.copy_from(from),
        }
    }
}

/// Rows of a panel that are computed side by side.
const STEP: usize = 16;
const TWO_STEPS: usize = 2 * STEP;

/// Columns up to which a matrix is factorised column by column.
pub(crate) const FEW_COLUMNS: usize = 16;

/// Works on a matrix as a panel.
pub(crate) fn in_panel<T: Element, R>(mut a: MatMut<'_, T>, work: impl FnOnce(&mut Panel<T>) -> R) -> R {
    let mut panel = Panel::of(a.rb());
    let result = work(&mut panel);
    panel.write_to(a.rb_mut());
    result
}

/// Sums that are computed side by side, of long vectors and of what is left of them.
const LANES: usize = 32;
const FEW_LANES: usize = 8;

/// Combines the second half of some values with the first, until one is left: that waits for few operations, and has vectors.
#[inline(always)]
pub(crate) fn combine_halves<V: Copy, const COUNT: usize>(mut values: [V; COUNT], combine: impl Fn(V, V) -> V) -> V {
    let mut width = COUNT;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            values[lane] = combine(values[lane], values[lane + width]);
        }
    }
    values[0]
}

/// The inner product, the first vector conjugated.
#[inline(always)]
pub(crate) fn inner_product<T: Element>(a: &[T], b: &[T]) -> T {
    let (a_lanes, a) = a.as_chunks::<LANES>();
    let (b_lanes, b) = b.as_chunks::<LANES>();
    let (a_few, a) = a.as_chunks::<FEW_LANES>();
    let (b_few, b) = b.as_chunks::<FEW_LANES>();
    let mut few = [zero::<T>(); FEW_LANES];
    a_few.iter().zip(b_few).for_each(|(a, b)| add_products(&mut few, a, b));
    add_products(&mut few, a, b);
    let rest = combine_halves(few, |sum, other| add(&sum, &other));
    if a_lanes.is_empty() {
        return rest;
    }
    let mut sums = [zero::<T>(); LANES];
    a_lanes.iter().zip(b_lanes).for_each(|(a, b)| add_products(&mut sums, a, b));
    add(&rest, &combine_halves(sums, |sum, other| add(&sum, &other)))
}

/// Adds the products of elements to a sum for each, the first ones conjugated.
#[inline(always)]
fn add_products<T: Element>(sums: &mut [T], a: &[T], b: &[T]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum = add(sum, &mul(&conj(a), b));
    }
}

/// Subtracts a multiple of a vector.
#[inline(always)]
pub(crate) fn subtract_multiple<T: Element>(target: &mut [T], factor: T, vector: &[T]) {
    target.iter_mut().zip(vector).for_each(|(value, vector)| *value = sub(value, &mul(vector, &factor)));
}

/// Multiplies a vector.
#[inline(always)]
pub(crate) fn scale<T: Element>(target: &mut [T], factor: T) {
    target.iter_mut().for_each(|value| *value = mul(value, &factor));
}

/// The largest sum of the absolute values of real and imaginary part; NaN counts only as the first element.
#[inline(always)]
pub(crate) fn largest<T: Element>(values: &[T]) -> T::Real {
    let first = values.first().map_or(zero(), abs1);
    let larger = |most: T::Real, size: T::Real| if size > most { size } else { most };
    let mut lanes = [first; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks.iter().map(|chunk| &chunk[..]).chain([rest]) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane = larger(*lane, abs1(value)));
    }
    combine_halves(lanes, larger)
}

/// The first place of the largest such sum, where there are whole steps of rows with zeros down to the first row searched.
#[inline(always)]
pub(crate) fn place_of_largest<T: Element>(values: &[T], begin: usize) -> usize {
    let steps = values[begin / STEP * STEP..].as_chunks::<STEP>().0;
    let mut lanes = [zero::<T::Real>(); STEP];
    for step in steps {
        for (lane, value) in lanes.iter_mut().zip(step) {
            let size = abs1(value);
            *lane = if size > *lane { size } else { *lane };
        }
    }
    let most = combine_halves(lanes, |most, size| if size > most { size } else { most });
    let is_there = |step: &[T; STEP]| step.iter().fold(false, |found, value| found | (abs1(value) == most));
    let step = steps.iter().position(is_there).unwrap_or(0);
    let lane = steps.get(step).and_then(|step| step.iter().position(|value| abs1(value) == most)).unwrap_or(0);
    (begin / STEP * STEP + step * STEP + lane).max(begin)
}
