//! Attribute values: text to [`hlo::attributes::AttributeValue`] and back, by the form that the operation declares.

mod read;
mod write;

pub(crate) use read::{all_shapes, first_shape, integers, read};
pub(crate) use write::write;
