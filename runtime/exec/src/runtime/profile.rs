//! When each step of a run began and ended. Code calls this only if it was compiled for a profile.

use super::RunContext;
use super::context::context_at;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Executions of a run that are noted one by one; the steps of long loops have millions.
const MOST_SINGLE: usize = 1 << 16;

/// One execution of a step, or all those of it after the first many of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Number of the step in its program.
    pub step: i64,
    /// Executions.
    pub calls: usize,
    /// When the first began.
    pub start: Instant,
    /// When the last ended.
    pub end: Instant,
    /// Time of all of them.
    pub time: Duration,
}

/// The steps of one run so far.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Steps that have ended, in that order.
    pub(crate) times: Vec<StepTime>,
    /// Steps that have begun and not ended, outer ones first.
    open: Vec<(i64, Instant)>,
    /// Where in `times` the further executions of a step stand together.
    together: HashMap<i64, usize>,
}

impl Recorder {
    fn begin(&mut self, step: i64) {
        self.open.push((step, Instant::now()));
    }

    fn end(&mut self, step: i64) {
        let end = Instant::now();
        if let Some((_, start)) = self.open.pop_if(|(open, _)| *open == step) {
            let time = end - start;
            if self.times.len() >= MOST_SINGLE {
                if let Some(further) = self.together.get(&step).and_then(|&place| self.times.get_mut(place)) {
                    further.calls += 1;
                    further.end = end;
                    further.time += time;
                    return;
                }
                self.together.insert(step, self.times.len());
            }
            self.times.push(StepTime { step, calls: 1, start, end, time });
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

    #[test]
    fn of_a_long_loop_the_last_executions_stand_together() {
        let mut recorder = Recorder::default();
        for _ in 0..MOST_SINGLE {
            recorder.begin(0);
            recorder.begin(1);
            recorder.end(1);
            recorder.end(0);
        }
        assert!(recorder.times.len() <= MOST_SINGLE + 2);
        for step in [0, 1] {
            let of_step = recorder.times.iter().filter(|time| time.step == step);
            assert_eq!(of_step.map(|time| time.calls).sum::<usize>(), MOST_SINGLE);
        }
    }
}
