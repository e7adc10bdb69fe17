//! Hand-written modules through the passes and conversions of this crate.

mod memrefs_to_pointers;
mod nvptx;
mod unsigned_divisions;
mod vector_constants;

use melior::Context;

/// A context with the upstream dialects.
fn upstream_context() -> Context {
    Context::new_with_registry(&mlir_ext::dialects::registry(), false)
}
