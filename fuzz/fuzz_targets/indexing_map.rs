//! Indexing maps: what is read is simplified, prints, and reads back.
#![no_main]

use indexing::IndexingMap;
use libfuzzer_sys::fuzz_target;
use melior::Context;

thread_local! {
    static CONTEXT: &'static Context = Box::leak(Box::new(Context::new()));
}

fuzz_target!(|text: &str| {
    CONTEXT.with(|context| {
        if let Ok(mut map) = IndexingMap::parse(context, text) {
            map.simplify();
            let printed = map.to_string();
            assert!(IndexingMap::parse(context, &printed).is_ok(), "{printed}");
        }
    });
});
