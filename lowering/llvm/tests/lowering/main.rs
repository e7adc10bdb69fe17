//! Hand-written modules through the passes and conversions of this crate.

mod nvptx;
mod unsigned_divisions;

use melior::{Context, dialect::DialectRegistry, utility::register_all_dialects};

/// A context with every upstream dialect.
fn upstream_context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    Context::new_with_registry(&registry, false)
}
