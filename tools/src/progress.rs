//! A progress bar for long work: on a terminal only, nothing in a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how many of `total` steps are done; appears after half a second, so that short work shows nothing.
pub fn bar(total: u64, what: &'static str) -> ProgressBar {
    // Drawn to standard error; hidden by indicatif where that is not a terminal.
    let bar = ProgressBar::new(total).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// Shows that something of unknown length is going on.
pub fn spinner(what: impl Into<String>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what.into());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}
