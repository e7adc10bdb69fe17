//! Maps between places in memory instead of indices: the dimensions of an array in the order of its layout,
//! the slowest first.

use indexing::{IndexingMap, maps};

use crate::shape::ArrayShape;

/// The map `map` from an element of `from` to one of `to`, with places in memory on both sides. Simplified.
pub fn physical(map: &IndexingMap, from: &ArrayShape, to: &ArrayShape) -> IndexingMap {
    let before = maps::physical_to_logical(&from.dimensions, &from.layout_or_default().minor_to_major);
    let after = maps::logical_to_physical(&to.dimensions, &to.layout_or_default().minor_to_major);
    let composed = before.compose(map).and_then(|first| first.compose(&after));
    // Ranks that do not agree cannot come from a checked instruction; the map is left as it is.
    let mut physical = composed.unwrap_or_else(|_| map.clone());
    physical.simplify();
    physical.remove_unused_symbols();
    physical
}
