//! Queues between a program and its host: HLO's `infeed`, `outfeed`, `send` and `recv`.
//!
//! Values are copied in and out; tuples are lists of their arrays. A program that reads waits as long as somebody holds a
//! [`FeedSender`] of the queue and fails where nobody does, since nothing would ever come.

use super::{RunContext, context::context_at, primitive_type};
use std::{
    collections::{HashMap, VecDeque},
    ptr, slice,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// An array in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedArray {
    /// Element type, as XLA's `PrimitiveType`.
    pub element_type: i64,
    /// The dimensions.
    pub dimensions: Vec<i64>,
    /// The elements, row-major.
    pub bytes: Vec<u8>,
}

/// A value in a queue: the arrays of a tuple, or one array.
pub type FeedValue = Vec<FeedArray>;

#[derive(Debug, Default)]
struct QueueState {
    values: VecDeque<FeedValue>,
    senders: usize,
}

/// A queue of values.
#[derive(Debug, Default)]
pub struct Feed {
    state: Mutex<QueueState>,
    changed: Condvar,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a value.
    pub fn push(&self, value: FeedValue) {
        self.lock().values.push_back(value);
        self.changed.notify_one();
    }

    /// Takes the first value, if there is one.
    pub fn try_pop(&self) -> Option<FeedValue> {
        self.lock().values.pop_front()
    }

    /// Takes the first value; waits for one while there are senders.
    pub fn pop(&self) -> Option<FeedValue> {
        let mut state = self.lock();
        loop {
            if let Some(value) = state.values.pop_front() {
                return Some(value);
            }
            if state.senders == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Announces that values will be pushed; while one exists, readers wait for them.
#[derive(Debug)]
pub struct FeedSender(Arc<Feed>);

impl FeedSender {
    /// A sender to a queue.
    pub fn new(feed: &Arc<Feed>) -> Self {
        feed.lock().senders += 1;
        Self(feed.clone())
    }

    /// Appends a value.
    pub fn push(&self, value: FeedValue) {
        self.0.push(value);
    }
}

impl Drop for FeedSender {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

/// The queues between `send` and `recv`, which programs may share.
#[derive(Debug, Default)]
pub struct Channels(Mutex<HashMap<i64, Arc<Feed>>>);

impl Channels {
    /// The queue of a channel.
    pub fn queue(&self, channel: i64) -> Arc<Feed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(channel).or_default().clone()
    }
}

/// The queues of a program.
#[derive(Debug, Default)]
pub struct Feeds {
    /// What `infeed` reads.
    pub infeed: Arc<Feed>,
    /// What `outfeed` writes.
    pub outfeed: Arc<Feed>,
    /// What `send` writes and `recv` reads.
    pub channels: Arc<Channels>,
}

/// What a descriptor says: the channel, then element type and dimensions of each array.
type Described = (i64, Vec<(i64, Vec<i64>)>);

/// Descriptors hold the channel, the number of arrays, then of each the element type, the rank and the dimensions.
///
/// # Safety
/// The address must be that of a descriptor.
unsafe fn described(mut descriptor: *const i64) -> Result<Described, String> {
    let mut next = || {
        // SAFETY: the array is read in the order it was written.
        let word = unsafe { descriptor.read() };
        descriptor = descriptor.wrapping_add(1);
        word
    };
    let channel = next();
    let arrays = (0..next())
        .map(|_| {
            let (element_type, rank) = (next(), next());
            (element_type, (0..rank).map(|_| next()).collect())
        })
        .collect();
    Ok((channel, arrays))
}

fn byte_size(element_type: i64, dimensions: &[i64]) -> Result<usize, String> {
    let width = primitive_type::byte_width(element_type).ok_or_else(|| format!("no element type {element_type}"))?;
    let count = usize::try_from(dimensions.iter().product::<i64>()).map_err(|error| error.to_string())?;
    Ok(width * count)
}

/// # Safety
/// As for the functions below that write to queues.
unsafe fn write(
    context: *const RunContext,
    what: &str,
    descriptor: *const i64,
    operands: *const *const u8,
    queue: impl FnOnce(&Feeds, i64) -> Arc<Feed>,
) {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context_at(context) }) else { return };
    context.guard(what, || {
        // SAFETY: the caller's promise.
        let (channel, arrays) = unsafe { described(descriptor)? };
        let mut value = Vec::with_capacity(arrays.len());
        for (number, (element_type, dimensions)) in arrays.into_iter().enumerate() {
            let size = byte_size(element_type, &dimensions)?;
            // SAFETY: the caller's promise.
            let bytes = unsafe { slice::from_raw_parts(*operands.add(number), size) }.to_vec();
            value.push(FeedArray { element_type, dimensions, bytes });
        }
        queue(context.feeds()?, channel).push(value);
        Ok(())
    });
}

/// # Safety
/// As for the functions below that read from queues.
unsafe fn read(
    context: *const RunContext,
    what: &str,
    descriptor: *const i64,
    results: *const *mut u8,
    queue: impl FnOnce(&Feeds, i64) -> Arc<Feed>,
) {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context_at(context) }) else { return };
    context.guard(what, || {
        // SAFETY: the caller's promise.
        let (channel, arrays) = unsafe { described(descriptor)? };
        if arrays.is_empty() {
            return Ok(());
        }
        let value = queue(context.feeds()?, channel).pop();
        let value = value.ok_or_else(|| match channel {
            0 => "the queue is empty".to_string(),
            channel => format!("the queue is empty (channel {channel})"),
        })?;
        if value.len() != arrays.len() {
            return Err(format!("expected {} arrays, got {}", arrays.len(), value.len()));
        }
        for (number, (array, (element_type, dimensions))) in value.iter().zip(&arrays).enumerate() {
            let size = byte_size(*element_type, dimensions)?;
            let fits = array.element_type == *element_type && array.dimensions == *dimensions;
            if !fits || array.bytes.len() != size {
                return Err(format!(
                    "array {number} must have dimensions {dimensions:?} and element type {element_type}, got {:?} and {}",
                    array.dimensions, array.element_type
                ));
            }
            // SAFETY: the caller's promise.
            unsafe { ptr::copy_nonoverlapping(array.bytes.as_ptr(), *results.add(number), size) };
        }
        Ok(())
    });
}

/// Reads a value from the infeed queue.
///
/// # Safety
/// `context` must be null or live; `results` must hold the addresses of buffers as the descriptor says.
pub unsafe extern "C" fn halo_infeed(context: *const RunContext, descriptor: *const i64, results: *const *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { read(context, "infeed", descriptor, results, |feeds, _| feeds.infeed.clone()) };
}

/// Appends a value to the outfeed queue.
///
/// # Safety
/// `context` must be null or live; `operands` must hold the addresses of buffers as the descriptor says.
pub unsafe extern "C" fn halo_outfeed(context: *const RunContext, descriptor: *const i64, operands: *const *const u8) {
    // SAFETY: the caller's promise.
    unsafe { write(context, "outfeed", descriptor, operands, |feeds, _| feeds.outfeed.clone()) };
}

/// Appends a value to the queue of a channel.
///
/// # Safety
/// As for [`halo_outfeed`].
pub unsafe extern "C" fn halo_send(context: *const RunContext, descriptor: *const i64, operands: *const *const u8) {
    // SAFETY: the caller's promise.
    unsafe { write(context, "send", descriptor, operands, |feeds, channel| feeds.channels.queue(channel)) };
}

/// Reads a value from the queue of a channel.
///
/// # Safety
/// As for [`halo_infeed`].
pub unsafe extern "C" fn halo_receive(context: *const RunContext, descriptor: *const i64, results: *const *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { read(context, "recv", descriptor, results, |feeds, channel| feeds.channels.queue(channel)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ProgramState;

    fn floats(values: &[f32]) -> FeedValue {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        vec![FeedArray { element_type: primitive_type::F32, dimensions: vec![values.len() as i64], bytes }]
    }

    const TWO_FLOATS: [i64; 5] = [0, 1, primitive_type::F32, 1, 2];

    fn receive(
        context: &RunContext,
        function: unsafe extern "C" fn(*const RunContext, *const i64, *const *mut u8),
    ) -> [f32; 2] {
        let mut result = [0f32; 2];
        let results = [result.as_mut_ptr().cast::<u8>()];
        // SAFETY: as described.
        unsafe { function(context, TWO_FLOATS.as_ptr(), results.as_ptr()) };
        result
    }

    #[test]
    fn values_pass_through_queues_in_order() {
        let state = ProgramState::default();
        let context = RunContext::with_state(None, &state);
        state.feeds.infeed.push(floats(&[1.0, 2.0]));
        state.feeds.infeed.push(floats(&[3.0]));
        assert_eq!(receive(&context, halo_infeed), [1.0, 2.0]);
        assert_eq!(context.failure(), None);
        receive(&context, halo_infeed);
        assert!(context.failure().unwrap().contains("must have dimensions [2]"));
        receive(&context, halo_infeed);
        assert_eq!(context.failure().as_deref(), Some("infeed: the queue is empty"));

        let sent = [5f32, 6.0];
        let operands = [sent.as_ptr().cast::<u8>()];
        // SAFETY: as described.
        unsafe {
            halo_send(&context, TWO_FLOATS.as_ptr(), operands.as_ptr());
            halo_outfeed(&context, TWO_FLOATS.as_ptr(), operands.as_ptr());
        }
        assert_eq!(receive(&context, halo_receive), sent);
        assert_eq!(state.feeds.outfeed.try_pop(), Some(floats(&sent)));
        assert_eq!(context.failure(), None);
    }

    #[test]
    fn readers_wait_for_senders() {
        let state = ProgramState::default();
        let sender = FeedSender::new(&state.feeds.infeed);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| receive(&RunContext::with_state(None, &state), halo_infeed));
            sender.push(floats(&[1.0, 2.0]));
            assert_eq!(reader.join().unwrap(), [1.0, 2.0]);
            let reader = scope.spawn(|| {
                let context = RunContext::with_state(None, &state);
                receive(&context, halo_infeed);
                context.failure()
            });
            drop(sender);
            assert!(reader.join().unwrap().is_some());
        });
    }
}
