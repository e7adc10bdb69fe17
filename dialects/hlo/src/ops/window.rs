//! Sizes of windowed results (reduce-window, select-and-scatter, convolution), in checked arithmetic.

use crate::attributes::WindowDimension;

/// Size of `size` elements with `dilation - 1` holes between neighbours; `None` when it overflows.
pub fn dilated_size(size: i64, dilation: i64) -> Option<i64> {
    if size == 0 {
        return Some(0);
    }
    size.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)
}

/// Number of window positions over a base of `base` elements; `None` when it overflows.
///
/// The base is dilated, then padded; a window that does not fit gives 0.
pub fn windowed_output_size(base: i64, window: &WindowDimension) -> Option<i64> {
    let padded =
        dilated_size(base, window.base_dilation)?.checked_add(window.padding_low)?.checked_add(window.padding_high)?;
    let size = dilated_size(window.size, window.window_dilation)?;
    if padded <= 0 || size > padded || window.stride <= 0 {
        return Some(0);
    }
    (padded - size).checked_div(window.stride)?.checked_add(1)
}
