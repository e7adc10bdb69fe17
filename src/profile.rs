//! Profiles of programs compiled with [`CompileOptions::profile`](crate::CompileOptions::profile).

use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub use hlo::profile::ProfiledStep;

use crate::executable::Executable;

/// One execution of a step; of loops with very many trips, after the first ones, all further executions in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepRun {
    /// Its place in [`Executable::profiled_steps`].
    pub step: usize,
    /// Executions.
    pub calls: usize,
    /// When the first began.
    pub start: Instant,
    /// When the last ended.
    pub end: Instant,
    /// Time of all of them.
    pub time: Duration,
}

impl Executable {
    /// The steps of the program: its kernels, library calls and copies, and the loops and branches that consist of such.
    /// Empty if it was not compiled for a profile.
    pub fn profiled_steps(&self) -> &[ProfiledStep] {
        &self.inner.interface.steps
    }

    /// What runs have noted since the last call: each execution of each step, in the order in which they ended.
    pub fn take_profile(&self) -> Vec<StepRun> {
        let times = std::mem::take(&mut *self.state().profile.lock().unwrap_or_else(PoisonError::into_inner));
        let known = times.into_iter().filter_map(|time| {
            let step = usize::try_from(time.step).ok().filter(|&step| step < self.profiled_steps().len())?;
            Some(StepRun { step, calls: time.calls, start: time.start, end: time.end, time: time.time })
        });
        known.collect()
    }
}
