//! Uninterpreted annotations as the discardable dictionary `hlo.annotations`.
//!
//! A dictionary has no order. Annotations come back in the order XLA prints them; another order is kept beside the
//! dictionary in `hlo.annotation_order`.

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, Attribute, StringAttribute};
use mlir_ext::attributes;

use super::attributes::dictionary;
use crate::metadata::METADATA;

/// Keys in the order of XLA's text; others follow by name.
const ORDER: [&str; 9] = [
    "sharding",
    "frontend_attributes",
    "control-predecessors",
    "parameter_replication",
    METADATA,
    "backend_config",
    "origin",
    "statistics",
    "schedule",
];

fn rank(key: &str) -> usize {
    ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len())
}

/// Entries for an attribute dictionary: the annotations, and their order where it is not the usual one.
/// `located`: whether `metadata` is carried by a location, and so left out here.
pub(super) fn annotation_attributes<'c>(
    context: &'c Context,
    annotations: &[(String, String)],
    located: bool,
) -> Vec<(&'static str, Attribute<'c>)> {
    let text = |text: &str| Attribute::from(StringAttribute::new(context, text));
    let mut entries: Vec<(&str, Attribute)> = Vec::new();
    for (key, value) in annotations {
        let is_known = entries.iter().any(|(known, _)| known == key);
        let is_elsewhere = located && key == METADATA;
        if !is_known && !is_elsewhere && !key.is_empty() {
            entries.push((key, text(value)));
        }
    }
    let mut attributes = Vec::new();
    if !entries.is_empty() {
        attributes.push(("hlo.annotations", dictionary(context, &entries)));
    }
    let in_order = annotations.windows(2).all(|pair| (rank(&pair[0].0), &pair[0].0) <= (rank(&pair[1].0), &pair[1].0));
    if !in_order {
        let keys: Vec<Attribute> = annotations.iter().map(|(key, _)| text(key)).collect();
        attributes.push(("hlo.annotation_order", ArrayAttribute::new(context, &keys).into()));
    }
    attributes
}

/// Annotations of a dictionary, with the metadata of a location, in order. `find` looks up the attributes that
/// [`annotation_attributes`] made.
pub(super) fn annotations_of<'c>(
    find: impl Fn(&str) -> Option<Attribute<'c>>,
    metadata: Option<&str>,
) -> Vec<(String, String)> {
    let mut annotations: Vec<(String, String)> = find("hlo.annotations")
        .and_then(attributes::entries)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_string(), attributes::string(value)?.to_string())))
        .collect();
    if let Some(metadata) = metadata {
        annotations.push((METADATA.to_string(), metadata.to_string()));
    }
    let order: Vec<&str> = find("hlo.annotation_order")
        .and_then(attributes::elements)
        .unwrap_or_default()
        .into_iter()
        .filter_map(attributes::string)
        .collect();
    annotations.sort_by(|(a, _), (b, _)| {
        let place = |key: &str| (order.iter().position(|known| *known == key).unwrap_or(order.len()), rank(key));
        (place(a), a).cmp(&(place(b), b))
    });
    annotations
}
