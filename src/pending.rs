//! Calls that run while the caller goes on.
//!
//! A program has a queue: its calls run one after another, in the order they were made, on a thread of their own. Calls of
//! different programs run at the same time; they meet only in the loops that take the client's threads.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::error::Error;

/// The result of a call that may still run: waited for, asked about, or awaited.
#[must_use = "a call that nobody waits for may fail unseen"]
pub struct Pending<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

struct State<T> {
    result: Option<Result<T, Error>>,
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    fn finish(&self, result: Result<T, Error>) {
        let waker = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            state.waker.take()
        };
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// Those of the call.
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the result is there.
    pub fn is_done(&self) -> bool {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).result.is_some()
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs calls one after another; its thread starts with the first and ends with the queue.
#[derive(Default)]
pub(crate) struct Queue {
    sender: Mutex<Option<Sender<Job>>>,
}

impl Queue {
    /// Runs `call` after all that were submitted before.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<Pending<T>, Error> {
        let shared = Arc::new(Shared { state: Mutex::new(State { result: None, waker: None }), done: Condvar::new() });
        let finished = Arc::clone(&shared);
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(call));
            finished.finish(result.unwrap_or_else(|_| Err(Error::Failed("the call panicked".to_string()))));
        });
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let started = match sender.take() {
            Some(started) => started,
            None => {
                let (sender, jobs) = channel::<Job>();
                thread::Builder::new()
                    .name("halo-queue".to_string())
                    .spawn(move || jobs.into_iter().for_each(|job| job()))?;
                sender
            }
        };
        // The thread takes jobs as long as there is a sender, and no job unwinds.
        let sent = started.send(job);
        *sender = Some(started);
        sent.map_err(|_| Error::Failed("the queue's thread has ended".to_string()))?;
        Ok(Pending { shared })
    }
}
