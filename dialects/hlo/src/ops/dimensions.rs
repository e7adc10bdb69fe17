//! Checks of dimension numbers that come from attributes, and arithmetic on sizes that cannot overflow.

use super::view::Label;
use super::{OpError, OpView};

impl OpView<'_> {
    /// The dimension numbers of an attribute as indices; each must be in `0..rank`.
    pub fn dimension_indices(
        &self,
        label: Label,
        attribute: &'static str,
        values: &[i64],
        rank: usize,
    ) -> Result<Vec<usize>, OpError> {
        values.iter().map(|&value| self.dimension_index(label, attribute, value, rank)).collect()
    }

    /// One dimension number of an attribute as an index; it must be in `0..rank`.
    pub fn dimension_index(
        &self,
        label: Label,
        attribute: &'static str,
        value: i64,
        rank: usize,
    ) -> Result<usize, OpError> {
        usize::try_from(value)
            .ok()
            .filter(|&index| index < rank)
            .ok_or_else(|| self.attribute_error(label, attribute, format!("must be in 0..{rank}, got {value}")))
    }

    /// The values must be in strictly increasing order where `sorted`, and in any case different.
    pub fn distinct(&self, label: Label, attribute: &'static str, values: &[i64], sorted: bool) -> Result<(), OpError> {
        let mut order = values.to_vec();
        order.sort_unstable();
        let repeated = order.windows(2).any(|pair| pair[0] == pair[1]);
        if repeated {
            return Err(self.attribute_error(label, attribute, format!("must not repeat a value, got {values:?}")));
        }
        if sorted && order != values {
            return Err(self.attribute_error(label, attribute, format!("must be in increasing order, got {values:?}")));
        }
        Ok(())
    }
}
