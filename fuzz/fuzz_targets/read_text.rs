//! HLO text: what is read prints, and reads back as the same program.
#![no_main]

use hlo::text::{print, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(module) = read(text) {
        let printed = print(&module);
        let again = read(&printed).unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
        assert_eq!(printed, print(&again));
    }
});
