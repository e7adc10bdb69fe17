//! Maps between places in memory instead of indices: the dimensions of an array in the order of its layout,
//! the slowest first.

use indexing::queries::{Access, Utilisation, linearize, stride_along, strides_of_layout, utilisation};
use indexing::{IndexingMap, Var};

use super::{ValueIndexing, maps};
use crate::shape::ArrayShape;

/// The map `map` from an element of `from` to one of `to`, with places in memory on both sides. Simplified.
pub fn physical<'c>(map: &IndexingMap<'c>, from: &ArrayShape, to: &ArrayShape) -> IndexingMap<'c> {
    let before = maps::physical_to_logical(map.context(), &from.dimensions, &from.layout_or_default().minor_to_major);
    let after = maps::logical_to_physical(map.context(), &to.dimensions, &to.layout_or_default().minor_to_major);
    let composed = before.compose(map).and_then(|first| first.compose(&after));
    // Ranks that do not agree cannot come from a checked instruction; the map is left as it is.
    composed.unwrap_or_else(|_| map.clone()).simplified()
}

/// How `width` elements of `from` that follow each other in memory lie in `to`: whether they can be loaded at once.
///
/// `map` takes elements of `from` to elements of `to`. Vectors start at multiples of `width` along the fastest dimension
/// that has more than one element.
pub fn coalescing(map: &IndexingMap<'_>, from: &ArrayShape, to: &ArrayShape, width: i64) -> Access {
    let layout = from.layout_or_default();
    let several = |dimension: &&i64| usize::try_from(**dimension).is_ok_and(|d| from.dimensions.get(d) > Some(&1));
    let Some(&fastest) = layout.minor_to_major.iter().find(several) else { return Access::Broadcast };
    let strides = strides_of_layout(&to.dimensions, &to.layout_or_default().minor_to_major);
    stride_along(map, linearize(map, &strides), Var::Dim(fastest as u32), width)
}

/// Which part of an operand is read when the whole result is computed; all of it where maps are not known.
pub fn operand_utilisation(indexing: &ValueIndexing<'_>, operand: &ArrayShape) -> Utilisation {
    match indexing {
        ValueIndexing::Unknown => {
            let total = operand.element_count().unsigned_abs();
            Utilisation { elements: total, total, exact: false }
        }
        ValueIndexing::Known(entries) => {
            let maps: Vec<IndexingMap<'_>> = entries.iter().map(|entry| entry.map.clone()).collect();
            utilisation(&maps, &operand.dimensions)
        }
    }
}
