//! Arguments in panels, kept from one call to the next.
//!
//! Products pack their right-hand side anew in each call. An argument that comes as the same [`Buffer`](crate::Buffer) again is packed
//! once, if the client has room: a buffer that is not donated does not change, so the panels stay right. Memory that a caller
//! only lends for a call, such as a slice, may change, and is never kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Buffer as PoolBuffer, BufferPool};
use hlo::packed_parameter::PackedParameter;

/// Bytes of packed arguments that a client keeps if its options say nothing else.
const DEFAULT_LIMIT: usize = 1 << 30;

/// What of an array's contents has no equal: two buffers of the same identity hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(usize);

impl Identity {
    /// One that no buffer has had.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Identity(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The memory that a client has for packed arguments.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    used: AtomicUsize,
}

impl Room {
    pub(crate) fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Room { limit: limit.unwrap_or(DEFAULT_LIMIT), used: AtomicUsize::new(0) })
    }

    fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let grown = |used: usize| used.checked_add(bytes).filter(|&used| used <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).ok()?;
        Some(Reserved { room: Arc::clone(self), bytes })
    }
}

/// A part of a client's room.
#[derive(Debug)]
struct Reserved {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// An argument in panels.
#[derive(Debug)]
pub(crate) struct Packed {
    identity: Identity,
    memory: PoolBuffer,
    _reserved: Reserved,
}

impl Packed {
    /// Where the panels are.
    pub(crate) fn address(&self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

/// What is known of the arguments for one parameter.
#[derive(Debug, Default)]
struct Known {
    /// The last one, of which there are no panels.
    last: Option<Identity>,
    packed: Option<Arc<Packed>>,
}

/// The packed arguments of a program.
#[derive(Debug)]
pub(crate) struct PrepackedArguments {
    /// By parameter: those that are packed.
    parameters: Vec<Option<(PackedParameter, Mutex<Known>)>>,
}

impl PrepackedArguments {
    /// None yet; `packed` are those of so many parameters that are packed.
    pub(crate) fn new(packed: &[PackedParameter], count: usize) -> Self {
        let mut parameters: Vec<_> = (0..count).map(|_| None).collect();
        for packed in packed {
            if let Some(place) = parameters.get_mut(packed.parameter) {
                *place = Some((packed.clone(), Mutex::default()));
            }
        }
        PrepackedArguments { parameters }
    }

    /// Whether a parameter is packed.
    pub(crate) fn packs(&self, parameter: usize) -> bool {
        self.parameters.get(parameter).is_some_and(Option::is_some)
    }

    /// The panels of an argument: they are made when it comes for the second time in a row, so that arguments that come once cost
    /// nothing.
    pub(crate) fn of(
        &self,
        parameter: usize,
        (identity, bytes): (Identity, &[u8]),
        (room, pool): (&Arc<Room>, &BufferPool),
    ) -> Option<Arc<Packed>> {
        let (parameter, known) = self.parameters.get(parameter)?.as_ref()?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = known.packed.as_ref().filter(|packed| packed.identity == identity) {
            return Some(Arc::clone(packed));
        }
        if known.last.replace(identity) != Some(identity) {
            return None;
        }
        // Those of the argument before make room.
        known.packed = None;
        let size = parameter.byte_size();
        let reserved = room.reserve(size)?;
        let mut memory = pool.allocate(size).ok()?;
        if !parameter.pack(bytes, memory.as_mut_slice()) {
            return None;
        }
        let packed = Arc::new(Packed { identity, memory, _reserved: reserved });
        known.packed = Some(Arc::clone(&packed));
        Some(packed)
    }
}

#[cfg(test)]
mod tests {
    use hlo::packed_parameter::PackedAxis;

    use super::*;

    #[test]
    fn what_comes_again_is_packed_within_the_limit() {
        let (columns, rows) = (PackedAxis { count: 2, distance: 1 }, vec![PackedAxis { count: 3, distance: 2 }]);
        let parameter = PackedParameter { parameter: 0, element_bytes: 1, first: 0, panel: 2, columns, rows };
        let (room, pool) = (Room::new(Some(12)), BufferPool::new());
        let (first, second) = (Identity::fresh(), Identity::fresh());
        let programs = [(); 2].map(|()| PrepackedArguments::new(std::slice::from_ref(&parameter), 1));
        let of = |program: usize, identity| programs[program].of(0, (identity, &[7; 6]), (&room, &pool));
        assert!(of(0, first).is_none());
        let packed = of(0, first).expect("it came twice");
        assert_eq!(packed.memory.as_slice(), [7, 7, 7, 7, 7, 7, 0, 0]);
        assert!(of(0, second).is_none());
        assert!(of(0, first).is_some_and(|again| Arc::ptr_eq(&again, &packed)));
        // Another program finds no room.
        assert!(of(1, first).is_none() && of(1, first).is_none());
        // What takes the place of the first one has to wait until no call uses that.
        assert!(of(0, second).is_none() && of(0, second).is_none());
        drop(packed);
        assert!(of(0, second).is_some());
        assert_eq!(room.used.load(Ordering::Relaxed), 8);
        drop(programs);
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }
}
