//! Windows from the lists that the builder documents take: sizes, strides, dilations and padding by dimension.

use crate::attributes::WindowDimension;
use crate::ops::window::dilated_size;

/// Padding of the edges before windows are laid over an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// As much as makes the result of stride 1 as large as the array, one more at the high edge where it is odd.
    Same,
    /// None.
    Valid,
    /// (low, high) by dimension.
    Explicit(Vec<(i64, i64)>),
}

/// A window by dimension; lists other than `sizes` may be empty for ones.
pub(super) struct WindowLists<'a> {
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub base_dilations: &'a [i64],
    pub window_dilations: &'a [i64],
    pub padding: &'a Padding,
}

impl WindowLists<'_> {
    /// The window over an array of the given sizes; the error is the end of a sentence about the method.
    pub fn over(&self, base: &[i64]) -> Result<Vec<WindowDimension>, String> {
        let rank = base.len();
        let lists = [
            ("window sizes", self.sizes, false),
            ("strides", self.strides, true),
            ("base dilations", self.base_dilations, true),
            ("window dilations", self.window_dilations, true),
        ];
        for (name, list, optional) in lists {
            if list.len() != rank && !(optional && list.is_empty()) {
                return Err(format!("takes {rank} {name}, one for each dimension, got {list:?}"));
            }
        }
        let number = |list: &[i64], dimension: usize| list.get(dimension).map_or(1, |&number| number);
        let mut window: Vec<WindowDimension> = (0..rank)
            .map(|dimension| WindowDimension {
                stride: number(self.strides, dimension),
                base_dilation: number(self.base_dilations, dimension),
                window_dilation: number(self.window_dilations, dimension),
                ..WindowDimension::new(self.sizes[dimension])
            })
            .collect();
        match self.padding {
            Padding::Valid => {}
            Padding::Explicit(padding) if padding.len() == rank => {
                for (entry, &(low, high)) in window.iter_mut().zip(padding) {
                    (entry.padding_low, entry.padding_high) = (low, high);
                }
            }
            Padding::Explicit(padding) => {
                return Err(format!("takes {rank} pairs of padding, one for each dimension, got {padding:?}"));
            }
            Padding::Same => {
                for (entry, &size) in window.iter_mut().zip(base) {
                    let total = same_padding(entry, size).ok_or_else(|| {
                        format!("takes positive sizes, strides and dilations that do not overflow, got {entry:?}")
                    })?;
                    (entry.padding_low, entry.padding_high) = (total / 2, total - total / 2);
                }
            }
        }
        Ok(window)
    }
}

/// Padding in all that gives ceil(size / stride) windows; `None` for numbers that are no window's.
fn same_padding(entry: &WindowDimension, size: i64) -> Option<i64> {
    if entry.stride < 1 || entry.base_dilation < 1 || entry.window_dilation < 1 || entry.size < 1 {
        return None;
    }
    let base = dilated_size(size, entry.base_dilation)?;
    let window = dilated_size(entry.size, entry.window_dilation)?;
    let windows = base / entry.stride + i64::from(base % entry.stride != 0);
    let covered = (windows - 1).checked_mul(entry.stride)?.checked_add(window)?;
    Some(covered.checked_sub(base)?.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(size: i64, window: i64, stride: i64) -> (i64, i64) {
        let lists = WindowLists {
            sizes: &[window],
            strides: &[stride],
            base_dilations: &[],
            window_dilations: &[],
            padding: &Padding::Same,
        };
        let window = lists.over(&[size]).unwrap();
        (window[0].padding_low, window[0].padding_high)
    }

    // Values of XLA's MakePadding.
    #[test]
    fn same_padding_keeps_the_size_and_is_larger_at_the_high_edge() {
        assert_eq!(same(10, 3, 1), (1, 1));
        assert_eq!(same(10, 2, 1), (0, 1));
        assert_eq!(same(10, 3, 2), (0, 1));
        assert_eq!(same(10, 1, 4), (0, 0));
        assert_eq!(same(5, 7, 1), (3, 3));
    }

    #[test]
    fn lists_of_another_length_are_refused() {
        let lists = WindowLists {
            sizes: &[2],
            strides: &[],
            base_dilations: &[],
            window_dilations: &[],
            padding: &Padding::Valid,
        };
        assert!(lists.over(&[4, 4]).unwrap_err().contains("window sizes"));
    }
}
