//! Attribute values: text to [`crate::attributes::AttributeValue`] and back, by the form that the operation declares.

mod read;
mod write;

pub(crate) use read::{all_shapes, first_shape, integers, read};
pub(crate) use write::write;

/// The attribute of a constant, whose value stands between the parentheses.
pub(crate) const VALUE: &str = "value";

/// The attribute of a parameter, whose value stands between the parentheses.
pub(crate) const PARAMETER_NUMBER: &str = "parameter_number";

/// Whether an attribute's value stands between the parentheses.
pub(crate) fn is_payload(name: &str) -> bool {
    matches!(name, VALUE | PARAMETER_NUMBER)
}
