//! Profiles of programs compiled with [`CompileOptions::profile`](crate::CompileOptions::profile).

use std::sync::PoisonError;
use std::time::Instant;

pub use hlo::profile::ProfiledStep;

use crate::executable::Executable;

/// One execution of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRun {
    /// Its place in [`Executable::profiled_steps`].
    pub step: usize,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
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
            Some(StepRun { step, start: time.start, end: time.end })
        });
        known.collect()
    }
}
