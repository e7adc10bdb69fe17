//! Ctrl-C: a message and exit status 130, at once, whatever the tool does. Compiled code cannot be stopped otherwise.

use std::ffi::c_int;

use crate::outer_boundary::INTERRUPTED;

const MESSAGE: &[u8] = b"\nerror: interrupted\n";

/// Lets the process end so when it is interrupted from now on.
pub fn end_with_a_message() {
    let handler: extern "C" fn(c_int) = end;
    // SAFETY: the handler calls only functions that a signal may interrupt anything with. A process that was started with
    // the signal ignored keeps ignoring it.
    unsafe {
        if libc::signal(libc::SIGINT, libc::SIG_IGN) != libc::SIG_IGN {
            libc::signal(libc::SIGINT, handler as libc::sighandler_t);
        }
    }
}

extern "C" fn end(_signal: c_int) {
    // SAFETY: both may be called in signal handlers; the bytes are static.
    unsafe {
        // A message that cannot be written is lost; the status says the same.
        let _ = libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(INTERRUPTED.into());
    }
}
