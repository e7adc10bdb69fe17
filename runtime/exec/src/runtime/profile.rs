//! When each step of a run began and ended. Code calls this only if it was compiled for a profile.

use super::RunContext;
use super::context::context_at;
use std::time::Instant;

/// One execution of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Number of the step in its program.
    pub step: i64,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// The steps of one run so far.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Steps that have ended, in that order.
    pub(crate) times: Vec<StepTime>,
    /// Steps that have begun and not ended, outer ones first.
    open: Vec<(i64, Instant)>,
}

impl Recorder {
    fn begin(&mut self, step: i64) {
        self.open.push((step, Instant::now()));
    }

    fn end(&mut self, step: i64) {
        let end = Instant::now();
        if let Some((_, start)) = self.open.pop_if(|(open, _)| *open == step) {
            self.times.push(StepTime { step, start, end });
        }
    }
}

/// Notes that a step begins.
///
/// # Safety
/// `context` must be null or live.
pub unsafe extern "C" fn halo_step_begins(context: *const RunContext, step: i64) {
    // SAFETY: the caller's promise.
    if let Some(context) = unsafe { context_at(context) } {
        context.recorder().begin(step);
    }
}

/// Notes that the step that began last ends.
///
/// # Safety
/// `context` must be null or live.
pub unsafe extern "C" fn halo_step_ends(context: *const RunContext, step: i64) {
    // SAFETY: the caller's promise.
    if let Some(context) = unsafe { context_at(context) } {
        context.recorder().end(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_nest() {
        let context = RunContext::new(None);
        // SAFETY: the context lives.
        unsafe {
            halo_step_begins(&context, 7);
            halo_step_begins(&context, 8);
            halo_step_ends(&context, 8);
            halo_step_ends(&context, 7);
            halo_step_ends(std::ptr::null(), 7);
        }
        let times = context.take_times();
        assert_eq!(times.iter().map(|time| time.step).collect::<Vec<_>>(), [8, 7]);
        assert!(times[1].start <= times[0].start && times[0].end <= times[1].end);
        assert!(context.take_times().is_empty());
    }
}
