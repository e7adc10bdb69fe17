//! Work that may take so long and no longer.
//!
//! Compiled code cannot be interrupted, so the work runs in a thread of its own, and the process ends while it goes on.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::ToolError;
use crate::outer_boundary;

/// What the main thread has by default on Linux.
const STACK_BYTES: usize = 8 << 20;

/// Runs `work`. When the time is over, the error is printed and the process ends at once.
///
/// # Errors
/// Those of the work, and when no thread can be started.
pub fn run<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // Nobody listens once the time is over.
        let _ = sender.send(outer_boundary::catch(work));
    });
    worker.map_err(|error| ToolError::Execution(format!("cannot start a thread: {error}")))?;
    match receiver.recv_timeout(limit) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(ToolError::Bug("the work ended without an outcome".into())),
        Err(mpsc::RecvTimeoutError::Timeout) => end(&ToolError::TimeLimit(limit.as_secs_f64())),
    }
}

/// Prints an error and ends the process, without what a process usually does at its end: other threads still run.
fn end(error: &ToolError) -> ! {
    outer_boundary::print_error(error);
    // SAFETY: nothing of this process is used again.
    unsafe { libc::_exit(error.exit_status().into()) }
}
