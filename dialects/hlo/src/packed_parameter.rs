//! How the code of a program takes an argument in the panels of its products, where an earlier run has packed it.
//!
//! A product reads its right-hand side in panels of some columns, whose rows follow one another. Code packs them as it goes; of an
//! argument that comes again and again, such as a model's weights, the panels can be kept.

/// Numbers of [`PackedParameter::to_numbers`] before the rows.
const FIXED_NUMBERS: usize = 6;

/// Rows from the end of a panel to the next one: panels do not begin a power of two apart, where they would compete for places in the
/// cache.
pub const ROWS_BETWEEN_PANELS: usize = 1;

/// A parameter that is packed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedParameter {
    /// Number of the parameters' leaf.
    pub parameter: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// The first element.
    pub first: usize,
    /// Columns of a panel.
    pub panel: usize,
    /// The columns.
    pub columns: PackedAxis,
    /// The contracted positions, of which the last ones follow one another in a panel.
    pub rows: Vec<PackedAxis>,
}

/// Positions the same distance apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAxis {
    /// How many there are.
    pub count: usize,
    /// Elements from one to the next.
    pub distance: usize,
}

impl PackedParameter {
    /// Rows of a panel.
    pub fn row_count(&self) -> usize {
        self.rows.iter().map(|axis| axis.count).product()
    }

    /// Elements from one panel to the next.
    pub fn panel_elements(&self) -> usize {
        (self.row_count() + ROWS_BETWEEN_PANELS) * self.panel
    }

    /// Bytes of all panels.
    pub fn byte_size(&self) -> usize {
        self.columns.count.div_ceil(self.panel.max(1)) * self.panel_elements() * self.element_bytes
    }

    /// Packs an argument's bytes. Columns that are missing in the last panel are zero.
    ///
    /// Returns whether both are as long as they must be; else nothing useful is written.
    pub fn pack(&self, source: &[u8], target: &mut [u8]) -> bool {
        let panel_bytes = self.panel_elements() * self.element_bytes;
        let row_bytes = self.panel * self.element_bytes;
        if panel_bytes == 0 || target.len() < self.byte_size() {
            return false;
        }
        let mut is_complete = true;
        for (number, panel) in target[..self.byte_size()].chunks_exact_mut(panel_bytes).enumerate() {
            let first_column = number * self.panel;
            let columns = self.panel.min(self.columns.count - first_column);
            let begin = self.first + first_column * self.columns.distance;
            for (row, packed) in panel.chunks_exact_mut(row_bytes).enumerate() {
                let columns = if row < self.row_count() { columns } else { 0 };
                let (there, missing) = packed.split_at_mut(columns * self.element_bytes);
                missing.fill(0);
                is_complete &= there.is_empty() || self.pack_row(source, begin + self.row_offset(row), there);
            }
        }
        is_complete
    }

    /// Where a row begins, in elements.
    fn row_offset(&self, row: usize) -> usize {
        let mut rest = row;
        let offsets = self.rows.iter().rev().map(|axis| {
            let position = rest % axis.count;
            rest /= axis.count;
            position * axis.distance
        });
        offsets.sum()
    }

    fn pack_row(&self, source: &[u8], begin: usize, packed: &mut [u8]) -> bool {
        let width = self.element_bytes;
        let element = |from: usize, count: usize| source.get(from * width..(from + count) * width);
        if self.columns.distance == 1 {
            let row = element(begin, packed.len() / width);
            return row.map(|row| packed.copy_from_slice(row)).is_some();
        }
        packed.chunks_exact_mut(width).enumerate().all(|(column, packed)| {
            let value = element(begin + column * self.columns.distance, 1);
            value.map(|value| packed.copy_from_slice(value)).is_some()
        })
    }

    /// As a list of numbers.
    pub fn to_numbers(&self) -> Vec<u64> {
        let PackedAxis { count, distance } = self.columns;
        let fixed = [self.parameter, self.element_bytes, self.first, self.panel, count, distance];
        let rows = self.rows.iter().flat_map(|axis| [axis.count, axis.distance]);
        fixed.into_iter().chain(rows).map(|number| number as u64).collect()
    }

    /// The one that a list of numbers stands for, if it is for one of so many parameters.
    pub fn from_numbers(numbers: &[u64], parameters: usize) -> Option<Self> {
        let numbers: Vec<usize> = numbers.iter().map(|&number| usize::try_from(number).ok()).collect::<Option<_>>()?;
        let (&[parameter, element_bytes, first, panel, count, distance], rows) =
            numbers.split_first_chunk::<FIXED_NUMBERS>()?;
        let (rows, rest) = rows.as_chunks::<2>();
        let rows: Vec<PackedAxis> = rows.iter().map(|&[count, distance]| PackedAxis { count, distance }).collect();
        // What is computed of them later does not overflow.
        let sizes = rows.iter().map(|axis| axis.count).chain([count.checked_add(panel)?, 2, panel, element_bytes]);
        sizes.into_iter().try_fold(1usize, |product, size| product.checked_mul(size))?;
        let ends = rows.iter().map(|axis| axis.count.checked_mul(axis.distance)).chain([count.checked_mul(distance)]);
        let end = ends.into_iter().try_fold(first, |sum, size| sum.checked_add(size?))?;
        end.checked_mul(element_bytes)?;
        let is_whole = rest.is_empty() && panel > 0 && element_bytes > 0 && rows.iter().all(|axis| axis.count > 0);
        (is_whole && parameter < parameters).then_some(PackedParameter {
            parameter,
            element_bytes,
            first,
            panel,
            columns: PackedAxis { count, distance },
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(packed: &PackedParameter, elements: u8) -> Option<Vec<u8>> {
        let source: Vec<u8> = (0..elements).collect();
        let mut target = vec![99; packed.byte_size()];
        packed.pack(&source, &mut target).then_some(target)
    }

    #[test]
    fn panels_hold_columns_side_by_side() {
        // Two rows of three columns, of which two are in a panel.
        let rows = vec![PackedAxis { count: 2, distance: 3 }];
        let columns = PackedAxis { count: 3, distance: 1 };
        let by_rows = PackedParameter { parameter: 0, element_bytes: 1, first: 0, panel: 2, columns, rows };
        assert_eq!(packed(&by_rows, 6), Some(vec![0, 1, 3, 4, 0, 0, 2, 0, 5, 0, 0, 0]));
        assert_eq!(packed(&by_rows, 5), None);
        // The same of the transpose.
        let columns = PackedAxis { count: 3, distance: 2 };
        let transposed =
            PackedParameter { columns, rows: vec![PackedAxis { count: 2, distance: 1 }], ..by_rows.clone() };
        assert_eq!(packed(&transposed, 6), Some(vec![0, 2, 1, 3, 0, 0, 4, 0, 5, 0, 0, 0]));
        // Several contracted dimensions follow each other.
        let rows = vec![PackedAxis { count: 2, distance: 1 }, PackedAxis { count: 2, distance: 4 }];
        let columns = PackedAxis { count: 2, distance: 2 };
        let several = PackedParameter { columns, rows, ..by_rows };
        assert_eq!(packed(&several, 8), Some(vec![0, 2, 4, 6, 1, 3, 5, 7, 0, 0]));
    }

    #[test]
    fn numbers_are_read_back() {
        let rows = vec![PackedAxis { count: 9, distance: 64 }, PackedAxis { count: 64, distance: 1 }];
        let columns = PackedAxis { count: 128, distance: 576 };
        let packed = PackedParameter { parameter: 3, element_bytes: 4, first: 0, panel: 16, columns, rows };
        assert_eq!(PackedParameter::from_numbers(&packed.to_numbers(), 4), Some(packed.clone()));
        assert_eq!(PackedParameter::from_numbers(&packed.to_numbers(), 3), None);
        assert_eq!(PackedParameter::from_numbers(&packed.to_numbers()[..7], 4), None);
        assert_eq!(PackedParameter::from_numbers(&[], 4), None);
    }
}
