//! HLO text: what is read prints, and reads back as the same program.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(module) = hlo_text::read(text) {
        let printed = hlo_text::print(&module);
        let again = hlo_text::read(&printed).unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
        assert_eq!(printed, hlo_text::print(&again));
    }
});
