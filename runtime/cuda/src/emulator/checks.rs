//! What the threads of a launch may do, and did: accesses out of bounds, and those that depend on the order of threads.

use std::collections::HashMap;

/// Several threads, and a unit that reads shared memory by itself, in the place of a thread.
const SEVERAL: u32 = u32::MAX;
const UNIT: u32 = u32::MAX - 1;

/// In the place of a writer: threads that have combined something with what is there, in any order.
const COMBINED: u32 = u32::MAX - 2;

/// Addresses in shared memory that units know have so many bits.
const ADDRESS_BITS: u32 = 18;

/// How the memory of an access is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Of an array that nobody writes.
    Read,
    Load,
    Store,
    /// At once with what is there: among each other, such accesses have no order.
    Combine,
}

/// A thread at a moment: its number in the launch, from 1, and how many barriers it has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub thread: u32,
    pub epoch: u32,
}

/// The accesses of one launch.
#[derive(Default)]
pub(super) struct Checks {
    arrays: Vec<CheckedArrays>,
    /// Where the arrays are that may be written, first byte and end of each.
    written: Vec<(u64, u64)>,
    /// Memory that the threads of the running block share.
    shared: Vec<CheckedShared>,
    /// What each thread has written there since its last fence.
    unfenced: HashMap<u32, Vec<(u64, u64)>>,
    pub fault: Option<String>,
}

/// An array of a launch.
pub(super) struct CheckedArray {
    first: u64,
    end: u64,
    is_written: bool,
}

impl CheckedArray {
    /// At an address, of so many bytes, which a kernel may write, or only read.
    pub fn new(address: u64, size: usize, is_written: bool) -> Self {
        CheckedArray { first: address, end: address + size as u64, is_written }
    }
}

/// Memory of one array, or of several that overlap.
struct CheckedArrays {
    first: u64,
    end: u64,
    /// Who wrote and who read each byte; 0 for nobody. Empty until somebody does both.
    users: Vec<[u32; 2]>,
}

/// Memory that the threads of a block share. What they do between two barriers is in no order.
struct CheckedShared {
    first: u64,
    /// Who wrote and who read each byte last.
    users: Vec<[Moment; 2]>,
}

impl Checks {
    /// For the arrays of a launch.
    pub fn of(arrays: &[CheckedArray]) -> Self {
        let written = arrays.iter().filter(|array| array.is_written).map(|array| (array.first, array.end)).collect();
        let mut ranges: Vec<(u64, u64)> = arrays.iter().map(|array| (array.first, array.end)).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, end) in ranges {
            match joined.last_mut() {
                Some((_, last)) if first < *last => *last = end.max(*last),
                _ => joined.push((first, end)),
            }
        }
        let arrays = joined.into_iter().map(|(first, end)| CheckedArrays { first, end, users: Vec::new() });
        Checks { arrays: arrays.collect(), written, ..Checks::default() }
    }

    /// A block begins: nothing is in its shared memory.
    pub fn begin_block(&mut self) {
        self.shared.clear();
        self.unfenced.clear();
    }

    /// All threads of the launch wait for each other: what they do from now on is behind everything before.
    pub fn all_wait(&mut self) {
        self.arrays.iter_mut().for_each(|array| array.users.clear());
    }

    /// The running block has shared memory there.
    pub fn share(&mut self, first: u64, bytes: u64) {
        if self.shared.iter().all(|shared| shared.first != first) {
            self.shared.push(CheckedShared { first, users: vec![[Moment::default(); 2]; bytes as usize] });
        }
    }

    /// What is wrong, if nothing was before.
    pub fn report(&mut self, fault: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(fault);
    }

    /// Whether an address is as aligned as an access says.
    pub fn align(&mut self, address: u64, alignment: u64, thread: u32) {
        if !address.is_multiple_of(alignment.max(1)) {
            self.report(|| {
                format!("thread {} accesses what does not begin at a multiple of {alignment} bytes", thread - 1)
            });
        }
    }

    /// Notes an access to an array; whether it is to be made.
    pub fn access(&mut self, address: u64, bytes: u64, thread: u32, access: Access) -> bool {
        let place = self.arrays.partition_point(|array| array.end <= address);
        let array = self.arrays.get_mut(place);
        let Some(array) = array.filter(|array| array.first <= address && address + bytes <= array.end) else {
            self.report(|| format!("thread {} {} {bytes} bytes outside of its arrays", thread - 1, verb(access)));
            return false;
        };
        if access == Access::Read {
            return true;
        }
        let is_around = |&(first, end): &(u64, u64)| first <= address && address + bytes <= end;
        if access != Access::Load && !self.written.iter().any(is_around) {
            self.report(|| {
                format!("thread {} {} {bytes} bytes of arrays that it may only read", thread - 1, verb(access))
            });
            return false;
        }
        if array.users.is_empty() {
            array.users = vec![[0; 2]; (array.end - array.first) as usize];
        }
        let (is_store, combines) = (access == Access::Store, access == Access::Combine);
        let first = (address - array.first) as usize;
        let mut met = None;
        for [writer, reader] in &mut array.users[first..first + bytes as usize] {
            let is_other = |user: u32| user != 0 && user != thread;
            if is_other(*writer) && !(combines && *writer == COMBINED) {
                met = Some(*writer);
            } else if (is_store || combines) && is_other(*reader) {
                met = Some(*reader);
            }
            match (is_store, combines) {
                (true, _) => *writer = thread,
                (_, true) => *writer = COMBINED,
                _ => *reader = if *reader == 0 || *reader == thread { thread } else { SEVERAL },
            }
        }
        if let Some(other) = met {
            self.report(|| in_no_order(thread, other, access));
        }
        true
    }

    /// A thread's writes to shared memory become visible to the units that read it by themselves.
    pub fn fence(&mut self, thread: u32) {
        self.unfenced.remove(&thread);
    }

    /// Notes that a unit reads from shared memory, at an address of which it knows the last bits; where that is.
    pub fn read_by_unit(&mut self, address: u64, bytes: usize, epoch: u32) -> Option<u64> {
        let bytes = bytes as u64;
        let place = |shared: &CheckedShared| {
            let distance = address.wrapping_sub(shared.first) & ((1 << ADDRESS_BITS) - 1);
            (distance + bytes <= shared.users.len() as u64).then(|| shared.first + distance)
        };
        let Some(place) = self.shared.iter().find_map(place) else {
            self.report(|| format!("the matrix unit reads {bytes} bytes outside of shared memory"));
            return None;
        };
        let meets = |&(first, end): &(u64, u64)| first < place + bytes && place < end;
        let unfenced = self.unfenced.iter().find(|(_, written)| written.iter().any(meets));
        if let Some((&thread, _)) = unfenced {
            self.report(|| format!("the matrix unit reads what thread {} wrote without a fence", thread - 1));
        }
        self.access_shared(place, bytes, Moment { thread: UNIT, epoch }, Access::Load).then_some(place)
    }

    /// Notes that a unit is asked to copy to shared memory, of which nobody knows from here on what is in it; whether it is to
    /// be done.
    pub fn begin_unit_copy(&mut self, address: u64, bytes: u64, now: Moment) -> bool {
        let mut met = None;
        let Some(users) = self.shared_users(address, bytes) else {
            self.report(|| format!("thread {} has {bytes} bytes copied outside of shared memory", now.thread - 1));
            return false;
        };
        for users in users {
            // The matrix unit that reads too late finds nothing there.
            let is_thread = |user: &&Moment| user.thread != 0 && user.thread != UNIT && user.epoch == now.epoch;
            let other = users.iter().find(is_thread);
            met = met.or(other.map(|other| other.thread));
            users[0] = Moment::default();
        }
        if let Some(other) = met {
            self.report(|| in_no_order(now.thread, other, Access::Store));
        }
        true
    }

    /// Notes that what a unit has copied is there.
    pub fn end_unit_copy(&mut self, address: u64, bytes: u64, epoch: u32) {
        let users = self.shared_users(address, bytes);
        users.into_iter().flatten().for_each(|users| users[0] = Moment { thread: UNIT, epoch });
    }

    /// Who used bytes of shared memory last.
    fn shared_users(&mut self, address: u64, bytes: u64) -> Option<&mut [[Moment; 2]]> {
        self.shared.iter_mut().find_map(|shared| {
            let first = address.checked_sub(shared.first)? as usize;
            shared.users.get_mut(first..first + bytes as usize)
        })
    }

    /// Notes an access to shared memory; whether it is to be made.
    pub fn access_shared(&mut self, address: u64, bytes: u64, now: Moment, access: Access) -> bool {
        let within = |shared: &&mut CheckedShared| {
            shared.first <= address && address + bytes <= shared.first + shared.users.len() as u64
        };
        let Some(shared) = self.shared.iter_mut().find(within) else {
            let fault = || format!("thread {} {} {bytes} bytes outside of shared memory", now.thread - 1, verb(access));
            self.report(fault);
            return false;
        };
        let (is_store, combines) = (access == Access::Store, access == Access::Combine);
        if is_store || combines {
            self.unfenced.entry(now.thread).or_default().push((address, address + bytes));
        }
        let first = (address - shared.first) as usize;
        let (mut met, mut is_unwritten) = (None, false);
        for [writer, reader] in &mut shared.users[first..first + bytes as usize] {
            let meets = |user: &Moment| user.thread != 0 && user.thread != now.thread && user.epoch == now.epoch;
            if meets(writer) && !(combines && writer.thread == COMBINED) {
                met = Some(writer.thread);
            } else if (is_store || combines) && meets(reader) {
                met = Some(reader.thread);
            }
            is_unwritten |= !is_store && writer.thread == 0;
            if is_store || combines {
                *writer = if combines { Moment { thread: COMBINED, ..now } } else { now };
                continue;
            }
            *reader = if meets(reader) { Moment { thread: SEVERAL, ..now } } else { now };
        }
        if let Some(other) = met {
            self.report(|| in_no_order(now.thread, other, access));
        }
        if is_unwritten {
            self.report(|| format!("{} reads shared memory that nobody has written", name(now.thread)));
        }
        true
    }
}

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read | Access::Load => "reads",
        Access::Store => "writes",
        Access::Combine => "combines something with",
    }
}

fn name(thread: u32) -> String {
    match thread {
        UNIT => "the matrix unit".to_string(),
        thread => format!("thread {}", thread - 1),
    }
}

fn in_no_order(thread: u32, other: u32, access: Access) -> String {
    let other = match other {
        SEVERAL => "others use".to_string(),
        COMBINED => "others combine something with".to_string(),
        other => format!("{} uses", name(other)),
    };
    format!("{} {} what {other}, in no order", name(thread), verb(access))
}

#[cfg(test)]
mod tests {
    use super::Access::{Combine, Load, Read, Store};
    use super::*;

    #[test]
    fn what_is_combined_has_no_order() {
        let fault = |accesses: &[(u32, Access)]| {
            let mut checks = Checks::of(&[CheckedArray::new(64, 4, true)]);
            accesses.iter().for_each(|&(thread, access)| assert!(checks.access(64, 4, thread, access)));
            checks.fault
        };
        assert_eq!(fault(&[(1, Combine), (2, Combine), (1, Combine)]), None);
        assert!(fault(&[(1, Combine), (2, Load)]).is_some());
        assert!(fault(&[(1, Load), (2, Combine)]).is_some());
        assert!(fault(&[(1, Store), (2, Combine)]).is_some());
        assert!(fault(&[(2, Combine), (1, Store)]).is_some());
    }

    #[test]
    fn what_is_combined_in_shared_memory_has_an_order_behind_a_barrier() {
        let fault = |accesses: &[(u32, u32, Access)]| {
            let mut checks = Checks::of(&[]);
            checks.share(1 << 20, 64);
            for &(thread, epoch, access) in accesses {
                assert!(checks.access_shared(1 << 20, 4, Moment { thread, epoch }, access));
            }
            checks.fault
        };
        let first = (1, 0, Store);
        assert_eq!(fault(&[first, (1, 1, Combine), (2, 1, Combine), (1, 1, Combine), (2, 2, Load)]), None);
        assert!(fault(&[first, (2, 0, Combine)]).is_some());
        assert!(fault(&[first, (1, 1, Combine), (2, 1, Load)]).is_some());
        assert!(fault(&[first, (1, 1, Load), (2, 1, Combine)]).is_some());
        assert!(fault(&[first, (1, 1, Combine), (2, 1, Store)]).is_some());
        assert!(fault(&[(1, 1, Combine)]).is_some());
    }

    #[test]
    fn faults_are_found() {
        let arrays =
            [(100, 8, true), (200, 4, false), (202, 6, false)].map(|(at, size, out)| CheckedArray::new(at, size, out));
        let fault = |accesses: &[(u64, u64, u32, Access)]| {
            let mut checks = Checks::of(&arrays);
            accesses.iter().for_each(|&(address, bytes, thread, access)| {
                checks.access(address, bytes, thread, access);
            });
            checks.fault.unwrap_or_default()
        };
        assert_eq!(fault(&[(100, 4, 1, Store), (104, 4, 2, Store), (100, 4, 1, Load), (200, 8, 3, Load)]), "");
        assert_eq!(fault(&[(200, 4, 1, Load), (200, 4, 2, Load), (200, 4, 3, Read)]), "");
        assert_eq!(fault(&[(108, 4, 1, Store)]), "thread 0 writes 4 bytes outside of its arrays");
        assert_eq!(fault(&[(200, 4, 1, Store)]), "thread 0 writes 4 bytes of arrays that it may only read");
        assert_eq!(fault(&[(106, 4, 3, Read)]), "thread 2 reads 4 bytes outside of its arrays");
        assert_eq!(fault(&[(100, 4, 1, Store), (102, 1, 2, Store)]), "thread 1 writes what thread 0 uses, in no order");
        assert_eq!(fault(&[(100, 4, 1, Store), (102, 1, 2, Load)]), "thread 1 reads what thread 0 uses, in no order");
        let read_by_two = [(100, 4, 1, Load), (100, 4, 2, Load), (100, 4, 2, Store)];
        assert_eq!(fault(&read_by_two), "thread 1 writes what others use, in no order");
    }

    #[test]
    fn units_read_what_is_fenced() {
        let fault = |fences: &[u32], reads: &[(u64, u32)]| {
            let mut checks = Checks::of(&[]);
            checks.begin_block();
            checks.share(1 << 20, 64);
            for thread in [1, 2] {
                let place = (1 << 20) + u64::from(thread - 1) * 16;
                checks.access_shared(place, 16, Moment { thread, epoch: 0 }, Store);
            }
            fences.iter().for_each(|&thread| checks.fence(thread));
            for &(address, epoch) in reads {
                let place = checks.read_by_unit(address, 16, epoch);
                assert!(place.is_none_or(|place| place == (1 << 20) + address));
            }
            checks.fault.unwrap_or_default()
        };
        assert_eq!(fault(&[1, 2], &[(0, 1), (16, 1)]), "");
        assert_eq!(fault(&[1], &[(0, 1), (16, 1)]), "the matrix unit reads what thread 1 wrote without a fence");
        assert_eq!(fault(&[1, 2], &[(0, 0)]), "the matrix unit reads what thread 0 uses, in no order");
        assert_eq!(fault(&[1, 2], &[(32, 1)]), "the matrix unit reads shared memory that nobody has written");
        assert_eq!(fault(&[1, 2], &[(64, 1)]), "the matrix unit reads 16 bytes outside of shared memory");
    }

    #[test]
    fn units_copy_to_what_nobody_reads() {
        let fault = |has_come: bool, is_stored: bool| {
            let mut checks = Checks::of(&[]);
            checks.begin_block();
            checks.share(1 << 20, 64);
            let now = Moment { thread: 1, epoch: 1 };
            for _ in 0..2 {
                assert!(checks.begin_unit_copy(1 << 20, 32, now));
                if has_come {
                    checks.end_unit_copy(1 << 20, 32, 1);
                }
                checks.read_by_unit(0, 16, 1);
                if is_stored {
                    checks.access_shared((1 << 20) + 16, 16, Moment { thread: 2, epoch: 1 }, Store);
                }
            }
            checks.fault.unwrap_or_default()
        };
        assert_eq!(fault(true, false), "");
        assert_eq!(fault(false, false), "the matrix unit reads shared memory that nobody has written");
        assert_eq!(fault(true, true), "thread 1 writes what the matrix unit uses, in no order");
        let mut checks = Checks::of(&[]);
        checks.begin_block();
        assert!(!checks.begin_unit_copy(1 << 20, 16, Moment { thread: 3, epoch: 0 }));
        assert_eq!(checks.fault.unwrap_or_default(), "thread 2 has 16 bytes copied outside of shared memory");
    }

    #[test]
    fn vectors_must_be_aligned() {
        let mut checks = Checks::of(&[]);
        checks.align(64, 16, 1);
        assert_eq!(checks.fault, None);
        checks.align(72, 16, 1);
        let fault = checks.fault.unwrap_or_default();
        assert_eq!(fault, "thread 0 accesses what does not begin at a multiple of 16 bytes");
    }

    #[test]
    fn barriers_order_accesses_to_shared_memory() {
        let fault = |accesses: &[(u64, u32, u32, Access)]| {
            let mut checks = Checks::of(&[]);
            checks.begin_block();
            checks.share(64, 16);
            checks.share(64, 16);
            for &(address, thread, epoch, access) in accesses {
                checks.access_shared(address, 4, Moment { thread, epoch }, access);
            }
            checks.fault.unwrap_or_default()
        };
        assert_eq!(fault(&[(64, 1, 0, Store), (68, 2, 0, Store), (64, 2, 1, Load), (64, 1, 1, Load)]), "");
        assert_eq!(fault(&[(64, 1, 0, Store), (64, 2, 1, Load), (64, 1, 2, Store)]), "");
        assert_eq!(fault(&[(64, 1, 0, Store), (64, 2, 0, Load)]), "thread 1 reads what thread 0 uses, in no order");
        let written_too_early = [(64, 1, 0, Store), (64, 2, 1, Load), (64, 3, 1, Load), (64, 1, 1, Store)];
        assert_eq!(fault(&written_too_early), "thread 0 writes what others use, in no order");
        assert_eq!(fault(&[(72, 3, 0, Load)]), "thread 2 reads shared memory that nobody has written");
        assert_eq!(fault(&[(78, 1, 0, Store)]), "thread 0 writes 4 bytes outside of shared memory");
    }
}
