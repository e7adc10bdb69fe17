//! Sizes of windowed results (reduce-window, select-and-scatter, convolution), in checked arithmetic.
//!
//! Source: operation semantics, "ReduceWindow", "ConvWithGeneralPadding (convolution)".

use super::view::Label;
use super::{OpError, OpView};
use crate::attributes::WindowDimension;
use crate::shape::ArrayShape;

/// Size of `size` elements with `dilation - 1` holes between neighbours; `None` when it overflows.
pub fn dilated_size(size: i64, dilation: i64) -> Option<i64> {
    if size == 0 {
        return Some(0);
    }
    size.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)
}

/// Size of a dimension after dilation and padding, before windows are laid over it; `None` when it overflows.
pub fn padded_base_size(base: i64, window: &WindowDimension) -> Option<i64> {
    dilated_size(base, window.base_dilation)?.checked_add(window.padding_low)?.checked_add(window.padding_high)
}

/// Number of window positions over a base of `base` elements; `None` when it overflows.
///
/// The base is dilated, then padded; a window that does not fit gives 0.
pub fn windowed_output_size(base: i64, window: &WindowDimension) -> Option<i64> {
    let padded = padded_base_size(base, window)?;
    let size = dilated_size(window.size, window.window_dilation)?;
    if padded <= 0 || size > padded || window.stride <= 0 {
        return Some(0);
    }
    padded.checked_sub(size)?.checked_div(window.stride)?.checked_add(1)
}

impl OpView<'_> {
    /// Shape of the windows' positions over `base`; the window must have an entry for each dimension (first
    /// label) with valid numbers (second label).
    pub fn windowed(
        &self,
        count: Label,
        numbers: Label,
        window: &[WindowDimension],
        base: &ArrayShape,
    ) -> Result<ArrayShape, OpError> {
        if window.len() != base.rank() {
            let message = format!("must have length {}, one for each dimension, got {}", base.rank(), window.len());
            return Err(self.attribute_error(count, "window", message));
        }
        let mut result = base.clone();
        for (dimension, entry) in window.iter().enumerate() {
            result.dimensions[dimension] =
                self.window_positions(numbers, base.dimensions[dimension], entry, dimension)?;
        }
        Ok(result)
    }

    /// Number of positions of one window dimension, whose numbers must be valid.
    pub fn window_positions(
        &self,
        label: Label,
        base: i64,
        entry: &WindowDimension,
        dimension: usize,
    ) -> Result<i64, OpError> {
        let named = [
            ("size", entry.size),
            ("stride", entry.stride),
            ("rhs_dilate", entry.window_dilation),
            ("lhs_dilate", entry.base_dilation),
        ];
        if let Some((name, value)) = named.into_iter().find(|(_, value)| *value < 1) {
            let message = format!("must have a positive {name} in dimension {dimension}, got {value}");
            return Err(self.attribute_error(label, "window", message));
        }
        windowed_output_size(base, entry).ok_or_else(|| {
            let message = format!("overflows in dimension {dimension} of size {base}");
            self.attribute_error(label, "window", message)
        })
    }
}
