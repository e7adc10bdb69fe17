//! What the collectives share: replica groups, checked without writing the groups out, and results.

use std::collections::HashSet;

use super::enumerations::CollectiveMode;
use super::view::Label;
use super::{OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::shape::Shape;

impl OpView<'_> {
    /// The replica groups must be valid: no group empty, no number negative or repeated, and where `uniform`, all
    /// of one size. Returns that size; `None` where there are no groups (then all replicas are one group).
    pub(super) fn group_size(
        &self,
        label: Label,
        groups: Option<&ReplicaGroups>,
        uniform: bool,
    ) -> Result<Option<i64>, OpError> {
        let error = |message: String| Err(self.attribute_error(label, "replica_groups", message));
        let groups = match groups {
            None => return Ok(None),
            Some(ReplicaGroups::Explicit(groups)) => groups,
            Some(mesh @ ReplicaGroups::Mesh { axes, grouped }) => {
                let Some(iota) = mesh.mesh_as_iota() else {
                    return error(format!("must group a mesh {axes:?} along its axes, each once, got {grouped:?}"));
                };
                return Ok(Some(iota.largest()));
            }
            Some(ReplicaGroups::Iota { dimensions, reshape, transpose }) => {
                let rank = reshape.len();
                let mut order = transpose.clone();
                order.sort_unstable();
                if !order.is_empty() && !order.iter().copied().eq(0..rank as i64) {
                    return error(format!("must transpose by a permutation of 0..{rank}, got {transpose:?}"));
                }
                let (expected, found) = (positive_product(reshape), positive_product(dimensions));
                if expected.is_none() || expected != found || dimensions.len() < 2 {
                    return error(format!("must split {reshape:?} into groups, got {dimensions:?}"));
                }
                return Ok(positive_product(dimensions.get(1..).unwrap_or_default()));
            }
        };
        let Some(first) = groups.first() else {
            return Ok(None);
        };
        let mut seen = HashSet::new();
        for group in groups {
            if group.is_empty() && groups.len() > 1 {
                return error("must not have an empty group".to_string());
            }
            if uniform && group.len() != first.len() {
                return error(format!("must all have size {}, as the first, got {}", first.len(), group.len()));
            }
            if let Some(number) = group.iter().find(|&&number| number < 0 || !seen.insert(number)) {
                return error(format!("must not have a negative or repeated number, got {number}"));
            }
        }
        Ok((!first.is_empty()).then_some(first.len() as i64))
    }

    /// As [`Self::group_size`], of groups that are all of one size. With a channel, groups may number replicas that take part
    /// with all of their partitions, whose number only the module knows: the size is then what the shapes say.
    pub(super) fn uniform_group_size(
        &self,
        label: Label,
        groups: Option<&ReplicaGroups>,
        channel: Option<i64>,
        use_global: bool,
        mode: Option<CollectiveMode>,
    ) -> Result<Option<i64>, OpError> {
        let size = self.group_size(label, groups, true)?;
        let has_partitions = match mode {
            Some(mode) => mode == CollectiveMode::CrossReplicaAndPartition,
            None => channel.is_some() && !use_global,
        };
        Ok(size.filter(|_| !has_partitions))
    }

    /// Device numbers need a channel.
    pub(super) fn device_ids(&self, label: Label, use_global: bool, channel: Option<i64>) -> Result<(), OpError> {
        if use_global && channel.is_none() {
            return Err(self.attribute_error(label, "use_global_device_ids", "needs a channel_id".to_string()));
        }
        Ok(())
    }

    /// One result bare, several as a tuple; one is a tuple, too, where the declared result is.
    pub fn collective_result(&self, mut results: Vec<Shape>) -> Shape {
        let declared_tuple = self.result.is_some_and(|shape| shape.as_tuple().is_some());
        match results.pop() {
            Some(only) if results.is_empty() && !declared_tuple => only,
            last => {
                results.extend(last);
                Shape::Tuple(results)
            }
        }
    }

    /// The operands, all arrays.
    pub fn array_operands(&self) -> Result<Vec<&crate::shape::ArrayShape>, OpError> {
        (0..self.operands.len()).map(|index| self.array(index)).collect()
    }
}

/// Product of positive sizes; `None` when one is not positive, or it overflows.
fn positive_product(sizes: &[i64]) -> Option<i64> {
    sizes.iter().try_fold(1i64, |product, &size| if size > 0 { product.checked_mul(size) } else { None })
}
