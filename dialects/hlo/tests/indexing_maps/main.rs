//! Indexing maps of operations and of fusions.

mod directions;
mod document;
mod fusions;
mod queries;

use indexing::IndexingMap;
use melior::Context;

thread_local! {
    static CONTEXT: &'static Context = Box::leak(Box::new(Context::new_with_threading(false)));
}

/// The context of this thread's maps.
fn context() -> &'static Context {
    CONTEXT.with(|context| *context)
}

/// A map from its text.
fn map(text: &str) -> IndexingMap<'static> {
    IndexingMap::parse(context(), text).expect("parses")
}
