//! What a running program has at hand.

use super::{
    devices::Devices,
    feeds::{Channels, Feeds},
    profile::{Recorder, StepTime},
    random::RandomState,
};
use crate::ThreadPool;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a program keeps from one run to the next.
#[derive(Debug, Default)]
pub struct ProgramState {
    /// Its random numbers.
    pub random: Mutex<RandomState>,
    /// Its queues.
    pub feeds: Feeds,
    /// Times of its steps, if it was compiled for a profile.
    pub profile: Mutex<Vec<StepTime>>,
}

impl ProgramState {
    /// The state of a program that shares its channels with others.
    pub fn with_channels(channels: Arc<Channels>) -> Self {
        Self { feeds: Feeds { channels, ..Feeds::default() }, ..Self::default() }
    }
}

/// The context of one run; compiled code passes its address through.
pub struct RunContext<'a> {
    threads: Option<&'a ThreadPool>,
    state: Option<&'a ProgramState>,
    /// The devices that run the program together, and the number of this one.
    device: Option<(&'a Devices, usize)>,
    failure: Mutex<Option<String>>,
    recorder: Mutex<Recorder>,
}

impl<'a> RunContext<'a> {
    /// A context whose parallel loops use `threads`, or the calling thread alone; operations that need a program's
    /// state fail.
    pub fn new(threads: Option<&'a ThreadPool>) -> Self {
        Self { threads, state: None, device: None, failure: Mutex::new(None), recorder: Mutex::default() }
    }

    /// A context of a program with this state.
    pub fn with_state(threads: Option<&'a ThreadPool>, state: &'a ProgramState) -> Self {
        Self { state: Some(state), ..Self::new(threads) }
    }

    /// The same on one of several devices.
    #[must_use]
    pub fn on_device(self, devices: &'a Devices, number: usize) -> Self {
        Self { device: Some((devices, number)), ..self }
    }

    /// The devices that run the program together and the number of this one; `None` where it runs alone.
    pub fn device(&self) -> Option<(&'a Devices, usize)> {
        self.device
    }

    fn state(&self) -> Result<&'a ProgramState, String> {
        self.state.ok_or_else(|| "the program has no state".into())
    }

    /// The program's random numbers.
    pub(crate) fn random(&self) -> Result<MutexGuard<'a, RandomState>, String> {
        Ok(self.state()?.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The program's queues.
    pub(crate) fn feeds(&self) -> Result<&'a Feeds, String> {
        Ok(&self.state()?.feeds)
    }

    /// The threads for parallel loops.
    pub fn threads(&self) -> Option<&'a ThreadPool> {
        self.threads
    }

    /// Reports a failure; only the first is kept. Devices that run together fail together.
    pub fn fail(&self, message: String) {
        if let Some((devices, number)) = self.device {
            devices.fail(number, message.clone());
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    }

    /// What failed since the last call, if anything did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where steps note when they begin and end.
    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The times of the steps that have ended since the last call.
    pub fn take_times(&self) -> Vec<StepTime> {
        std::mem::take(&mut *self.recorder()).times
    }

    /// Runs `body`, turning an error or a panic into a failure of this run.
    pub(crate) fn guard(&self, what: &str, body: impl FnOnce() -> Result<(), String>) {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => {}
            Ok(Err(message)) => self.fail(format!("{what}: {message}")),
            Err(panic) => self.fail(format!("{what} panicked: {}", panic_message(&*panic))),
        }
    }
}

/// The text of a panic, as far as it has one.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no message",
    }
}

/// The context behind an address that compiled code passed.
///
/// # Safety
/// The address must be null or that of a live context.
pub(crate) unsafe fn context_at<'a>(address: *const RunContext<'a>) -> Option<&'a RunContext<'a>> {
    // SAFETY: the caller's promise.
    unsafe { address.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_kept() {
        let context = RunContext::new(None);
        assert_eq!(context.failure(), None);
        context.guard("sort", || Err("bad length".into()));
        context.guard("fft", || Err("later".into()));
        assert_eq!(context.failure().as_deref(), Some("sort: bad length"));
        assert_eq!(context.failure(), None);
    }

    #[test]
    fn panics_become_failures() {
        let context = RunContext::new(None);
        context.guard("sort", || panic!("no {}", "order"));
        assert_eq!(context.failure().as_deref(), Some("sort panicked: no order"));
    }
}
