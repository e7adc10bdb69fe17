//! Operations on windows of an array: `reduce-window` ("ReduceWindow") and `select-and-scatter`.

use super::binary;
use super::data::{advance, build, for_each_index, row_major_strides, sizes};
use super::scalar_function::ScalarFunction;
use super::{EvalFailure, Evaluator};
use hlo::attributes::WindowDimension;
use hlo::literal::ArrayLiteral;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// Positions of windows over a base array.
pub(super) struct Windows<'a> {
    window: Vec<&'a WindowDimension>,
    /// Sizes of a window, in positions.
    pub(super) window_sizes: Vec<usize>,
    base_sizes: Vec<usize>,
}

impl<'a> Windows<'a> {
    pub(super) fn new(window: &'a [WindowDimension], base_sizes: Vec<usize>) -> Result<Windows<'a>, EvalFailure> {
        if window.len() != base_sizes.len() {
            return Err(EvalFailure::malformed(format!(
                "a window of {} dimensions over an array of {}",
                window.len(),
                base_sizes.len()
            )));
        }
        Ok(Windows {
            window_sizes: window.iter().map(|w| w.size.max(0) as usize).collect(),
            window: window.iter().collect(),
            base_sizes,
        })
    }

    /// The dimension along which each window holds all elements up to its own, as in a cumulative sum: its value is that of
    /// the window before it, combined with one element.
    fn running_dimension(&self) -> Option<usize> {
        let is_plain = |w: &WindowDimension| {
            (w.stride, w.window_dilation, w.base_dilation.max(1), w.padding_high, w.reversal) == (1, 1, 1, 0, false)
        };
        let mut wide = (0..self.window.len()).filter(|&d| self.window_sizes[d] != 1 || self.window[d].padding_low != 0);
        let (d, None) = (wide.next()?, wide.next()) else { return None };
        let (w, base) = (self.window[d], self.base_sizes[d]);
        let is_running = w.padding_low == w.size - 1 && self.window_sizes[d] >= base;
        (is_running && self.window.iter().all(|w| is_plain(w))).then_some(d)
    }

    /// Index in the base along dimension `d` of position `inside` of the window numbered `outside`; `None` in the
    /// padding and between the elements of a dilated base.
    #[inline]
    pub(super) fn base_index(&self, d: usize, outside: usize, inside: usize) -> Option<usize> {
        let w = self.window[d];
        let inside = if w.reversal { self.window_sizes[d] - 1 - inside } else { inside };
        let dilated = (outside as i64)
            .saturating_mul(w.stride)
            .saturating_add((inside as i64).saturating_mul(w.window_dilation))
            .saturating_sub(w.padding_low);
        let dilation = w.base_dilation.max(1);
        if dilated < 0 || dilated % dilation != 0 {
            return None;
        }
        usize::try_from(dilated / dilation).ok().filter(|&index| index < self.base_sizes[d])
    }

    /// Calls `visit` with the position in the base's data of each element of a window, in row-major order.
    fn for_each_element(
        &self,
        strides: &[usize],
        outside: &[usize],
        scratch: &mut Vec<usize>,
        mut visit: impl FnMut(usize) -> Result<(), EvalFailure>,
    ) -> Result<(), EvalFailure> {
        if self.window_sizes.contains(&0) {
            return Ok(());
        }
        scratch.clear();
        scratch.resize(outside.len(), 0);
        loop {
            let position = (0..outside.len())
                .try_fold(0, |sum, d| Some(sum + self.base_index(d, outside[d], scratch[d])? * strides[d]));
            if let Some(position) = position {
                visit(position)?;
            }
            if !advance(scratch, &self.window_sizes) {
                return Ok(());
            }
        }
    }
}

/// Reduces each window. Padding and holes hold the initial value, which is an identity, so they are skipped.
pub(super) fn reduce_window(
    evaluator: &mut Evaluator<'_, '_, '_>,
    operands: &[&ArrayLiteral],
    initial: &[&ArrayLiteral],
    window: &[WindowDimension],
    function: &mut ScalarFunction<'_>,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (Some(first), Some(result)) = (operands.first(), results.first()) else {
        return Err(EvalFailure::malformed("a reduction needs an operand"));
    };
    let base_sizes = sizes(&first.shape().dimensions);
    let strides = row_major_strides(&base_sizes);
    let windows = Windows::new(window, base_sizes)?;
    let start: Vec<Scalar> = initial.iter().map(|array| load(array.element_type(), array.bytes(), 0)).collect();
    let count = operands.len();
    let mut reduced: Vec<Scalar> = Vec::with_capacity(result.element_count() as usize * count);
    let single = match (operands, function.single_operation()) {
        ([operand], Some(kind)) => binary::function(kind, operand.element_type()),
        _ => None,
    };
    let (mut arguments, mut accumulators, mut combined) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = Vec::new();
    let running = windows.running_dimension();
    for_each_index(&sizes(&result.dimensions), |outside| {
        let place = reduced.len() / count;
        let before = running.filter(|&d| outside[d] > 0).map(|d| (place - strides[d]) * count);
        accumulators.clear();
        accumulators.extend_from_slice(before.map_or(&start[..], |before| &reduced[before..before + count]));
        let mut combine = |position: usize| {
            if let Some(single) = single {
                let element_type = first.element_type();
                let element = load(element_type, first.bytes(), position);
                accumulators[0] = single.apply(accumulators[0], element, element_type.bit_width());
                return Ok(());
            }
            arguments.clear();
            arguments.extend_from_slice(&accumulators);
            arguments.extend(operands.iter().map(|o| load(o.element_type(), o.bytes(), position)));
            function.call(evaluator, &arguments, &mut combined)?;
            accumulators.copy_from_slice(&combined[..count]);
            Ok(())
        };
        match before {
            Some(_) => combine(place)?,
            None => windows.for_each_element(&strides, outside, &mut scratch, combine)?,
        }
        reduced.extend_from_slice(&accumulators);
        Ok(())
    })?;
    results
        .iter()
        .enumerate()
        .map(|(number, result)| {
            build::<u8>(result, |target| {
                for (index, value) in reduced.iter().skip(number).step_by(count).enumerate() {
                    store(result.element_type, target, index, *value);
                }
                Ok(())
            })
        })
        .collect()
}

/// Selects an element of each window of the operand and combines the source's element for that window into the
/// result there ("SelectAndScatter"). Operands: operand, source, initial value.
pub(super) fn select_and_scatter(
    evaluator: &mut Evaluator<'_, '_, '_>,
    [operand, source, initial]: [&ArrayLiteral; 3],
    window: &[WindowDimension],
    select: &mut ScalarFunction<'_>,
    scatter: &mut ScalarFunction<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let base_sizes = sizes(&operand.shape().dimensions);
    let strides = row_major_strides(&base_sizes);
    let windows = Windows::new(window, base_sizes)?;
    let element_type = operand.element_type();
    let start = load(initial.element_type(), initial.bytes(), 0);
    let mut output = vec![start; operand.shape().element_count() as usize];
    let mut values = Vec::new();
    let mut scratch = Vec::new();
    let mut source_position = 0;
    for_each_index(&sizes(&source.shape().dimensions), |outside| {
        // Elements come in lexicographic order, so the chosen one is always the first parameter of `select`.
        let mut chosen: Option<(usize, Scalar)> = None;
        windows.for_each_element(&strides, outside, &mut scratch, |position| {
            let candidate = load(element_type, operand.bytes(), position);
            let keep = match chosen {
                Some((_, best)) => select.holds(evaluator, &[best, candidate], &mut values)?,
                None => false,
            };
            if !keep {
                chosen = Some((position, candidate));
            }
            Ok(())
        })?;
        if let Some((position, _)) = chosen {
            let update = load(source.element_type(), source.bytes(), source_position);
            scatter.call(evaluator, &[output[position], update], &mut values)?;
            output[position] = values.first().copied().unwrap_or(update);
        }
        source_position += 1;
        Ok(())
    })?;
    build::<u8>(result, |target| {
        for (index, value) in output.iter().enumerate() {
            store(result.element_type, target, index, *value);
        }
        Ok(())
    })
}
