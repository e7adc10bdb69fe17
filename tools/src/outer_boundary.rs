//! The outermost frame of every tool: prints errors, and turns a panic into a report of a bug.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::Mutex;

use anstream::{AutoStream, ColorChoice};
use hlo::text::error_message::Style;

use crate::error::ToolError;

/// Exit status when a value differs from the expected one.
pub const DIFFERS: u8 = 1;
/// Exit status of invalid input or usage.
pub const INVALID: u8 = 2;
/// Exit status of a bug in halo.
pub const BUG: u8 = 3;
/// Exit status when the user interrupts it: what a shell shows of a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;
/// Exit status when nobody reads the output: what a shell shows of a program that a closed pipe ended.
pub const CLOSED_OUTPUT: u8 = 141;

static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Remembers the place and message of panics instead of printing them.
pub fn quiet_panics() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let place = info.location().map(|location| format!(" at {}:{}", location.file(), location.line()));
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = Some(format!("{message}{}", place.unwrap_or_default()));
        }
    }));
}

/// Runs `work`; a panic in it becomes [`ToolError::Bug`].
pub fn catch<T>(work: impl FnOnce() -> Result<T, ToolError>) -> Result<T, ToolError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = LAST_PANIC.lock().ok().and_then(|mut last| last.take());
        Err(ToolError::Bug(message.unwrap_or_else(|| "no message".into())))
    })
}

/// Writes to standard output.
///
/// # Errors
/// If it is full, or nobody reads it.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), ToolError> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_ref()).and_then(|()| output.flush()).map_err(ToolError::output)
}

/// Prints an error to standard error, with colours if that is a terminal that shows them and `NO_COLOR` is not set.
pub fn print_error(error: &ToolError) {
    let output = std::io::stderr();
    let style = match AutoStream::choice(&output) {
        ColorChoice::Never => Style::Plain,
        _ => Style::Colored,
    };
    // Where errors cannot be written, the status must do.
    let _ = output.lock().write_all(error.render_in(style).as_bytes());
}

/// Runs a tool: errors go to standard error, and the status says what kind they are.
pub fn run(work: impl FnOnce() -> Result<u8, ToolError>) -> ExitCode {
    quiet_panics();
    match catch(work) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            print_error(&error);
            ExitCode::from(error.exit_status())
        }
    }
}
