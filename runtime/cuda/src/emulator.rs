//! A GPU played by the host: kernels compiled for it, their threads run one after another, in an order without pattern.
//!
//! Accesses are checked: a thread may touch the arrays that its kernel was launched with and nothing else, and no two threads
//! of a launch may touch the same byte if one of them writes it. What would be out of bounds goes elsewhere, and the run
//! fails.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;

use exec::Jit;
use exec::jit::Symbol;
use exec::runtime::RunContext;
use hlo::launch_plan::{HostCall, Launch, LaunchArgument, LaunchPlan};

use crate::execution::{self, Device, PlanMemory};
use crate::{Error, host_call};

/// What the function of a kernel that takes a table of its arguments is called behind the kernel's name.
const BY_TABLE: &str = ".by_table";

type KernelFunction = unsafe extern "C" fn(*const u64);

/// A program's kernels for the host, and the plan of their launches.
pub struct Emulator {
    // Holds the code that `kernels` points to.
    _jit: Jit,
    kernels: HashMap<String, KernelFunction>,
    plan: LaunchPlan,
}

impl Emulator {
    /// Loads the kernels of a plan.
    ///
    /// # Safety
    /// The objects must come from this compiler, for this CPU, and the plan with them.
    ///
    /// # Errors
    /// [`Error::Load`] for objects that cannot be loaded, and without a kernel of the plan.
    pub unsafe fn load<O: AsRef<[u8]>>(objects: &[O], plan: LaunchPlan) -> Result<Self, Error> {
        let functions: [Symbol; 4] = [
            ("halo_emulator_block", halo_emulator_block as *const ()),
            ("halo_emulator_load", halo_emulator_load as *const ()),
            ("halo_emulator_store", halo_emulator_store as *const ()),
            ("halo_emulator_thread", halo_emulator_thread as *const ()),
        ];
        // SAFETY: the caller answers for the objects; the functions live as long as the process.
        let jit = unsafe { Jit::load(objects, &functions)? };
        let mut kernels = HashMap::new();
        for launch in plan.launches() {
            if !kernels.contains_key(&launch.kernel) {
                let address = jit.lookup(&format!("{}{BY_TABLE}", launch.kernel))?;
                // SAFETY: the code generator gives the symbol this type.
                let function = unsafe { std::mem::transmute::<*mut c_void, KernelFunction>(address.as_ptr()) };
                kernels.insert(launch.kernel.clone(), function);
            }
        }
        Ok(Emulator { _jit: jit, kernels, plan })
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Runs the program on memory of the host.
    ///
    /// # Safety
    /// The memory must be that of the program, live and used by nothing else.
    ///
    /// # Errors
    /// For accesses that are out of bounds, and those that depend on the order of threads.
    pub unsafe fn run(&self, memory: &PlanMemory, context: &RunContext<'_>) -> Result<(), Error> {
        let mut device = EmulatedDevice { emulator: self, context };
        // SAFETY: the caller's promise.
        unsafe { execution::run(&self.plan, memory, &mut device) }
    }
}

struct EmulatedDevice<'e> {
    emulator: &'e Emulator,
    context: &'e RunContext<'e>,
}

// SAFETY: addresses are those of the host, and used for what the trait says.
unsafe impl Device for EmulatedDevice<'_> {
    unsafe fn launch(&mut self, launch: &Launch, arguments: &[u64]) -> Result<(), Error> {
        let kernel = self.emulator.kernels.get(&launch.kernel);
        let kernel = *kernel.ok_or_else(|| Error::Plan(format!("there is no kernel `{}`", launch.kernel)))?;
        let arrays = launch.arguments.iter().zip(arguments).filter_map(|(argument, &address)| match argument {
            LaunchArgument::Array(slice) => Some((address, slice.size as u64)),
            LaunchArgument::Number(_) => None,
        });
        CHECKS.with_borrow_mut(|checks| *checks = Checks::of(arrays));
        let threads = u64::from(launch.threads);
        for number in shuffled(launch.blocks * threads) {
            BLOCK.set((number / threads) as u32);
            THREAD.set((number % threads) as u32);
            // A number that is never 0, which is no thread.
            NUMBER.set(number as u32 + 1);
            // SAFETY: the kernel is of this plan, and gets what the plan says; its accesses are checked.
            unsafe { kernel(arguments.as_ptr()) };
        }
        let fault = CHECKS.with_borrow_mut(|checks| std::mem::take(checks).fault);
        match fault {
            None => Ok(()),
            Some(fault) => Err(Error::Kernel { kernel: launch.kernel.clone(), fault }),
        }
    }

    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn host_call(&mut self, call: &HostCall, operands: &[u64], results: &[u64]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { host_call::call(call, self.context, operands, results) }
    }
}

/// All numbers below `count`, each once, far from each other.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    let count = u128::from(count.max(1));
    let divisor = |mut a: u128, mut b: u128| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // About the golden ratio, and prime to the count.
    let mut step = (count * 618 / 1000).max(1);
    while divisor(step, count) != 1 {
        step += 1;
    }
    (0..count).map(move |number| ((number * step + count / 3) % count) as u64)
}

thread_local! {
    static BLOCK: Cell<u32> = const { Cell::new(0) };
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static CHECKS: RefCell<Checks> = const { RefCell::new(Checks { arrays: Vec::new(), fault: None }) };
    /// Where accesses out of bounds go.
    static ELSEWHERE: RefCell<[u64; 32]> = const { RefCell::new([0; 32]) };
}

/// Several threads.
const SEVERAL: u32 = u32::MAX;

/// What the threads of a launch may do, and did.
#[derive(Default)]
struct Checks {
    arrays: Vec<CheckedMemory>,
    fault: Option<String>,
}

/// Memory of one array, or of several that overlap.
struct CheckedMemory {
    first: u64,
    /// Who wrote and who read each byte; 0 for nobody.
    users: Vec<[u32; 2]>,
}

impl CheckedMemory {
    fn end(&self) -> u64 {
        self.first + self.users.len() as u64
    }
}

impl Checks {
    /// For arrays of addresses and sizes.
    fn of(arrays: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<(u64, u64)> = arrays.map(|(first, size)| (first, first + size)).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, end) in ranges {
            match joined.last_mut() {
                Some((_, last)) if first < *last => *last = end.max(*last),
                _ => joined.push((first, end)),
            }
        }
        let arrays =
            joined.into_iter().map(|(first, end)| CheckedMemory { first, users: vec![[0; 2]; (end - first) as usize] });
        Checks { arrays: arrays.collect(), fault: None }
    }

    /// Notes an access; whether it is to be made.
    fn access(&mut self, address: u64, bytes: u64, thread: u32, is_store: bool) -> bool {
        let place = self.arrays.partition_point(|array| array.end() <= address);
        let array = self.arrays.get_mut(place);
        let Some(array) = array.filter(|array| array.first <= address && address + bytes <= array.end()) else {
            let what = if is_store { "writes" } else { "reads" };
            let fault = || format!("thread {} {what} {bytes} bytes outside of its arrays", thread - 1);
            self.fault.get_or_insert_with(fault);
            return false;
        };
        let first = (address - array.first) as usize;
        for [writer, reader] in &mut array.users[first..first + bytes as usize] {
            let is_other = |user: u32| user != 0 && user != thread;
            let other = if is_other(*writer) { *writer } else { *reader };
            if is_other(*writer) || is_store && is_other(*reader) {
                let other = if other == SEVERAL { "others".to_string() } else { format!("thread {}", other - 1) };
                let what = if is_store { "writes" } else { "reads" };
                let fault = || format!("thread {} {what} what {other} uses, in no order", thread - 1);
                self.fault.get_or_insert_with(fault);
            }
            match is_store {
                true => *writer = thread,
                false => *reader = if *reader == 0 || *reader == thread { thread } else { SEVERAL },
            }
        }
        true
    }
}

extern "C" fn halo_emulator_block() -> u32 {
    BLOCK.get()
}

extern "C" fn halo_emulator_thread() -> u32 {
    THREAD.get()
}

extern "C" fn halo_emulator_load(address: u64, bytes: u64) -> u64 {
    checked(address, bytes, false)
}

extern "C" fn halo_emulator_store(address: u64, bytes: u64) -> u64 {
    checked(address, bytes, true)
}

/// The address that an access goes to.
fn checked(address: u64, bytes: u64, is_store: bool) -> u64 {
    let is_allowed = CHECKS.with_borrow_mut(|checks| checks.access(address, bytes, NUMBER.get(), is_store));
    if is_allowed { address } else { ELSEWHERE.with_borrow_mut(|elsewhere| elsewhere.as_mut_ptr() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_once() {
        for count in [1, 2, 3, 7, 256, 1000] {
            let mut numbers: Vec<u64> = shuffled(count).collect();
            assert!(count < 7 || !numbers.is_sorted());
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn faults_are_found() {
        let arrays = [(100, 8), (200, 4), (202, 6)];
        let fault = |accesses: &[(u64, u64, u32, bool)]| {
            let mut checks = Checks::of(arrays.into_iter());
            accesses.iter().for_each(|&(address, bytes, thread, is_store)| {
                checks.access(address, bytes, thread, is_store);
            });
            checks.fault.unwrap_or_default()
        };
        assert_eq!(fault(&[(100, 4, 1, true), (104, 4, 2, true), (100, 4, 1, false), (200, 8, 3, false)]), "");
        assert_eq!(fault(&[(200, 4, 1, false), (200, 4, 2, false)]), "");
        assert_eq!(fault(&[(108, 4, 1, true)]), "thread 0 writes 4 bytes outside of its arrays");
        assert_eq!(fault(&[(106, 4, 3, false)]), "thread 2 reads 4 bytes outside of its arrays");
        assert_eq!(fault(&[(100, 4, 1, true), (102, 1, 2, true)]), "thread 1 writes what thread 0 uses, in no order");
        assert_eq!(fault(&[(100, 4, 1, true), (102, 1, 2, false)]), "thread 1 reads what thread 0 uses, in no order");
        let read_by_two = [(100, 4, 1, false), (100, 4, 2, false), (100, 4, 2, true)];
        assert_eq!(fault(&read_by_two), "thread 1 writes what others uses, in no order");
    }
}
