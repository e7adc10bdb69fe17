//! The `indexing` dialect of MLIR: indexing maps as the attribute `#indexing.map`, and operations that apply them.
//!
//! The dialect is declared in ODS (`td/`); what a map is and which operands an operation has is known here. [`lower`]
//! turns the operations into the dialects `arith` and `scf`.

mod ffi;
mod lower;
mod verifier;

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Attribute;

pub use lower::lower;

use crate::map::IndexingMap;

/// Registers the dialect.
pub fn register(registry: &DialectRegistry) {
    ffi::dialect_handle().insert_dialect(registry);
    ffi::set_callbacks(verifier::normalize_map, verifier::verify_operation);
}

/// `#indexing.map<"…">`. What run-time variables stand for is not part of it.
///
/// The context has the dialect registered.
pub fn map_attribute<'c>(context: &'c Context, map: &IndexingMap) -> Attribute<'c> {
    ffi::dialect_handle().load_dialect(context);
    ffi::map_attribute(context, &map.to_string())
}

/// The map of an attribute; `None` for other attributes.
pub fn map_of(attribute: Attribute<'_>) -> Option<IndexingMap> {
    ffi::map_text(attribute)?.parse().ok()
}

#[cfg(test)]
mod tests;
