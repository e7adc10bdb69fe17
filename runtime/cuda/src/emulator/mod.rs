//! A GPU played by the host: kernels compiled for it, their threads run one after another, in an order without pattern. Threads
//! that wait for each other are coroutines (`block`).
//!
//! Accesses are checked (`checks`): a thread may touch the arrays that its kernel was launched with and nothing else, and no two
//! threads of a launch may touch the same byte if one of them writes it; of the memory that the threads of a block share, not
//! between the same barriers. What would be out of bounds goes elsewhere, and the run fails.

mod aligned_memory;
mod block;
mod checks;
mod copies;
mod matrices;
mod order;
mod pending;
mod phases;
mod warp_groups;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use exec::Jit;
use exec::jit::Symbol;
use exec::runtime::RunContext;
use hlo::buffers::Slice;
use hlo::launch_plan::{Boxes, HostCall, Launch, LaunchArgument, LaunchPlan};

use crate::execution::{self, Device, PlanMemory};
use crate::{BufferSizes, Error, host_call};
use aligned_memory::AlignedMemory;
use block::Wait;
use checks::{Access, CheckedArray, Checks, Moment};
use copies::{Copies, Copy};
use matrices::{WarpKind, WarpOperation};
use order::{ThreadOrder, seed, shuffled};
use pending::{Pending, WarpGroupWait};
use phases::{BOX_ALIGNMENT, BoxCopy, Phases};
use warp_groups::WarpGroupOperation;

/// What the function of a kernel that takes a table of its arguments is called behind the kernel's name.
const BY_TABLE: &str = ".by_table";

/// What that of a kernel is called whose threads wait for each other.
const TOGETHER: &str = ".together";

type KernelFunction = unsafe extern "C" fn(*const u64);

/// A program's kernels for the host, and the plan of their launches.
pub struct Emulator {
    // Holds the code that `kernels` points to.
    _jit: Jit,
    kernels: HashMap<String, Kernel>,
    plan: LaunchPlan,
    sizes: BufferSizes,
    /// Held by a launch whose threads share memory: there is one place for it.
    sharing: Mutex<()>,
}

#[derive(Clone, Copy)]
struct Kernel {
    function: KernelFunction,
    waits: bool,
}

impl Emulator {
    /// Loads the kernels of a plan.
    ///
    /// # Safety
    /// The objects must come from this compiler, for this CPU, and the plan with them.
    ///
    /// # Errors
    /// [`Error::Load`] for objects that cannot be loaded, and without a kernel of the plan.
    pub unsafe fn load<O: AsRef<[u8]>>(objects: &[O], plan: LaunchPlan, sizes: BufferSizes) -> Result<Self, Error> {
        let functions: [Symbol; 34] = [
            ("halo_emulator_acquire_boxes", halo_emulator_acquire_boxes as *const ()),
            ("halo_emulator_arrive", halo_emulator_arrive as *const ()),
            ("halo_emulator_barrier", halo_emulator_barrier as *const ()),
            ("halo_emulator_block", halo_emulator_block as *const ()),
            ("halo_emulator_combine", halo_emulator_combine as *const ()),
            ("halo_emulator_commit_copies", halo_emulator_commit_copies as *const ()),
            ("halo_emulator_copy", halo_emulator_copy as *const ()),
            ("halo_emulator_copy_word", halo_emulator_copy_word as *const ()),
            ("halo_emulator_copy_box", halo_emulator_copy_box as *const ()),
            ("halo_emulator_exchange_f32", halo_emulator_exchange_f32 as *const ()),
            ("halo_emulator_exchange_i32", halo_emulator_exchange_i32 as *const ()),
            ("halo_emulator_expect_bytes", halo_emulator_expect_bytes as *const ()),
            ("halo_emulator_fence", halo_emulator_fence as *const ()),
            ("halo_emulator_fence_barriers", halo_emulator_fence_barriers as *const ()),
            ("halo_emulator_load", halo_emulator_load as *const ()),
            ("halo_emulator_load_matrices", halo_emulator_load_matrices as *const ()),
            ("halo_emulator_load_shared", halo_emulator_load_shared as *const ()),
            ("halo_emulator_make_barrier", halo_emulator_make_barrier as *const ()),
            ("halo_emulator_multiply_matrices", halo_emulator_multiply_matrices as *const ()),
            ("halo_emulator_multiply_warp_group", halo_emulator_multiply_warp_group as *const ()),
            ("halo_emulator_power_of_two", halo_emulator_power_of_two as *const ()),
            ("halo_emulator_reciprocal", halo_emulator_reciprocal as *const ()),
            ("halo_emulator_read", halo_emulator_read as *const ()),
            ("halo_emulator_round_to_tf32", halo_emulator_round_to_tf32 as *const ()),
            ("halo_emulator_set_registers", halo_emulator_set_registers as *const ()),
            ("halo_emulator_share", halo_emulator_share as *const ()),
            ("halo_emulator_store", halo_emulator_store as *const ()),
            ("halo_emulator_store_shared", halo_emulator_store_shared as *const ()),
            ("halo_emulator_combine_shared", halo_emulator_combine_shared as *const ()),
            ("halo_emulator_thread", halo_emulator_thread as *const ()),
            ("halo_emulator_wait_for_copies", halo_emulator_wait_for_copies as *const ()),
            ("halo_emulator_wait_for_phase", halo_emulator_wait_for_phase as *const ()),
            ("halo_emulator_wait_for_warp_group", halo_emulator_wait_for_warp_group as *const ()),
            // What processors without such an instruction call.
            ("__truncsfbf2", halo_emulator_round_to_bf16 as *const ()),
        ];
        // SAFETY: the caller answers for the objects; the functions live as long as the process.
        let jit = unsafe { Jit::load(objects, &functions)? };
        let mut kernels = HashMap::new();
        for launch in plan.launches() {
            if !kernels.contains_key(&launch.kernel) {
                let named = |suffix: &str| jit.lookup(&format!("{}{suffix}", launch.kernel));
                let together = named(TOGETHER).ok();
                let address = together.map_or_else(|| named(BY_TABLE), Ok)?;
                // SAFETY: the code generator gives the symbol this type.
                let function = unsafe { std::mem::transmute::<*mut c_void, KernelFunction>(address.as_ptr()) };
                kernels.insert(launch.kernel.clone(), Kernel { function, waits: together.is_some() });
            }
        }
        Ok(Emulator { _jit: jit, kernels, plan, sizes, sharing: Mutex::new(()) })
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Runs the program on memory of the host.
    ///
    /// # Safety
    /// The memory must be that of the program, live, of the program's sizes and used by nothing else.
    ///
    /// # Errors
    /// For accesses that are out of bounds, and those that depend on the order of threads.
    pub unsafe fn run(&self, memory: &PlanMemory, context: &RunContext<'_>) -> Result<(), Error> {
        let mut device = EmulatedDevice { emulator: self, context };
        // SAFETY: the caller's promise.
        unsafe {
            let mut aligned = AlignedMemory::of(memory, &self.sizes);
            // What a kernel gets for a description is its number.
            for (number, described) in (0..).zip(self.plan.boxes()) {
                aligned.memory.boxes.push((described, number));
            }
            let place =
                |&(slice, boxes): &(Slice, Boxes)| aligned.memory.address(slice).map(|address| (address, boxes));
            let places = self.plan.boxes().iter().map(place).collect::<Result<Vec<_>, Error>>();
            BOXES.set(places?);
            execution::run(&self.plan, &aligned.memory, &mut device)?;
            aligned.copy_back();
        }
        Ok(())
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
            LaunchArgument::Array(slice) => Some(CheckedArray::new(address, slice.size, false)),
            LaunchArgument::Written(slice) => Some(CheckedArray::new(address, slice.size, true)),
            LaunchArgument::Number(_) | LaunchArgument::Boxes(..) => None,
        });
        CHECKS.with_borrow_mut(|checks| *checks = Checks::of(&arrays.collect::<Vec<_>>()));
        // SAFETY: the kernel is of this plan, and gets what the plan says; its accesses are checked.
        unsafe {
            match kernel.waits {
                true => self.run_blocks(kernel.function, launch, arguments),
                false => run_threads(kernel.function, launch, arguments),
            }
        }
        let fault = CHECKS.with_borrow_mut(|checks| std::mem::take(checks).fault);
        match fault {
            None => Ok(()),
            Some(fault) => Err(Error::Kernel { kernel: launch.label(), fault }),
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

/// # Safety
/// As for a launch.
unsafe fn run_threads(kernel: KernelFunction, launch: &Launch, arguments: &[u64]) {
    let threads = u64::from(launch.threads);
    for number in shuffled(launch.blocks * threads, seed()) {
        BLOCK.set((number / threads) as u32);
        THREAD.set((number % threads) as u32);
        // A number that is never 0, which is no thread.
        NOW.set(Moment { thread: number as u32 + 1, epoch: 0 });
        // SAFETY: the caller's promise.
        unsafe { kernel(arguments.as_ptr()) };
    }
}

impl EmulatedDevice<'_> {
    /// The blocks one after another.
    ///
    /// # Safety
    /// As for a launch.
    unsafe fn run_blocks(&self, kernel: KernelFunction, launch: &Launch, arguments: &[u64]) {
        let _alone = self.emulator.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        for block in shuffled(launch.blocks, seed()) {
            CHECKS.with_borrow_mut(Checks::begin_block);
            COPIES.with_borrow_mut(Copies::clear);
            PHASES.with_borrow_mut(Phases::clear);
            PENDING.with_borrow_mut(Pending::clear);
            let order = ThreadOrder::new(launch.threads as usize, seed().wrapping_add(block));
            let mut last = 0;
            let mut enter = |thread: usize, epoch: u32| {
                if launch.blocks == 1 && epoch != last {
                    CHECKS.with_borrow_mut(Checks::all_wait);
                    last = epoch;
                }
                BLOCK.set(block as u32);
                THREAD.set(thread as u32);
                let number = block * u64::from(launch.threads) + thread as u64;
                NOW.set(Moment { thread: number as u32 + 1, epoch });
            };
            // SAFETY: the caller's promise.
            let run = unsafe { block::run(kernel, arguments.as_ptr(), order, &mut enter) };
            if let Err(fault) = run {
                CHECKS.with_borrow_mut(|checks| checks.report(|| format!("block {block}: {fault}")));
                return;
            }
        }
    }
}

thread_local! {
    static BLOCK: Cell<u32> = const { Cell::new(0) };
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static NOW: Cell<Moment> = const { Cell::new(Moment { thread: 1, epoch: 0 }) };
    static CHECKS: RefCell<Checks> = RefCell::default();
    static COPIES: RefCell<Copies> = RefCell::default();
    static PHASES: RefCell<Phases> = RefCell::default();
    static PENDING: RefCell<Pending> = RefCell::default();
    /// The arrays of which kernels copy boxes, with their addresses.
    static BOXES: RefCell<Vec<(u64, Boxes)>> = RefCell::default();
    /// Where accesses out of bounds go.
    static ELSEWHERE: RefCell<[u128; 16]> = const { RefCell::new([0; 16]) };
}

extern "C" fn halo_emulator_block() -> u32 {
    BLOCK.get()
}

extern "C" fn halo_emulator_thread() -> u32 {
    THREAD.get()
}

extern "C" fn halo_emulator_barrier(number: u32) {
    block::wait(Wait::Barrier(number));
}

extern "C" fn halo_emulator_exchange_i32(_: u32, value: u32, distance: u32, _: u32) -> u32 {
    block::wait(Wait::Exchange { value, distance })
}

extern "C" fn halo_emulator_exchange_f32(_: u32, value: f32, distance: u32, _: u32) -> f32 {
    f32::from_bits(block::wait(Wait::Exchange { value: value.to_bits(), distance }))
}

extern "C" fn halo_emulator_power_of_two(exponent: f32) -> f32 {
    let flushed = |value: f32| if value.is_subnormal() { 0.0 } else { value };
    flushed(flushed(exponent).exp2())
}

/// A reciprocal; numbers that are not normal are zeros.
extern "C" fn halo_emulator_reciprocal(divisor: f32) -> f32 {
    let normal = |value: f32| if value.is_subnormal() { 0f32.copysign(value) } else { value };
    normal(1.0 / normal(divisor))
}

/// The nearest number with 10 bits behind the point, of two the one that is further from 0.
extern "C" fn halo_emulator_round_to_tf32(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_finite() { bits.wrapping_add(0x1000) & !0x1fff } else { bits }
}

/// The nearest number with the upper half of the bits, these in the lower half.
extern "C" fn halo_emulator_round_to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = match value.is_nan() {
        true => bits | 1 << 22,
        false => bits.wrapping_add(0x7fff + (bits >> 16 & 1)),
    };
    f32::from_bits(rounded >> 16)
}

extern "C" fn halo_emulator_share(address: u64, bytes: u64) {
    CHECKS.with_borrow_mut(|checks| checks.share(address, bytes));
}

extern "C" fn halo_emulator_read(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked(address, bytes, alignment, Access::Read)
}

extern "C" fn halo_emulator_load(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked(address, bytes, alignment, Access::Load)
}

extern "C" fn halo_emulator_store(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked(address, bytes, alignment, Access::Store)
}

extern "C" fn halo_emulator_combine(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked(address, bytes, alignment, Access::Combine)
}

extern "C" fn halo_emulator_load_shared(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked_shared(address, bytes, alignment, Access::Load)
}

extern "C" fn halo_emulator_store_shared(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked_shared(address, bytes, alignment, Access::Store)
}

extern "C" fn halo_emulator_combine_shared(address: u64, bytes: u64, alignment: u64) -> u64 {
    checked_shared(address, bytes, alignment, Access::Combine)
}

extern "C" fn halo_emulator_load_matrices(words: *mut u32, transposed: u32) {
    // SAFETY: the code generator passes ten words, of which the first two are an address.
    let address = unsafe { words.cast::<u64>().read_unaligned() };
    let row = checked_shared(address, matrices::ROW_BYTES, matrices::ROW_BYTES, Access::Load);
    block::wait(Wait::Warp(WarpOperation {
        kind: WarpKind::LoadMatrices { is_transposed: transposed != 0 },
        words,
        row,
    }));
}

extern "C" fn halo_emulator_multiply_matrices(words: *mut u32, types: u32) {
    block::wait(Wait::Warp(WarpOperation { kind: WarpKind::Multiply { types }, words, row: 0 }));
}

extern "C" fn halo_emulator_multiply_warp_group(words: *mut u32, code: u32, parts: u32, sums: u32) {
    let operation = WarpGroupOperation { words, code, parts, sums };
    let thread = THREAD.get();
    if warp_groups::is_pending(code) {
        // SAFETY: the code generator passes as many words.
        return PENDING.with_borrow_mut(|pending| unsafe { pending.begin(thread, operation) });
    }
    if PENDING.with_borrow(|pending| pending.has(thread)) {
        report_error(Err("a product that is waited for behind others that are not".into()));
    }
    block::wait(Wait::WarpGroup(operation));
}

extern "C" fn halo_emulator_wait_for_warp_group(words: *mut u32, pending: u32, sums: u32) {
    block::wait(Wait::Products(WarpGroupWait { words, sums, pending }));
}

extern "C" fn halo_emulator_copy(to: u64, from: u64, bytes: u32) {
    begin_copy(Copy { to, from, bytes, filled: 16 });
}

extern "C" fn halo_emulator_copy_word(to: u64, from: u64, bytes: u32) {
    begin_copy(Copy { to, from, bytes, filled: 4 });
}

/// A thread begins a copy.
fn begin_copy(copy: Copy) {
    let Copy { to, from, bytes, filled } = copy;
    // What is in shared memory from here on until the thread has waited, nobody knows.
    let to = checked_shared(to, filled, filled, Access::Store);
    let from = if bytes == 0 { 0 } else { checked(from, bytes.into(), filled, Access::Load) };
    COPIES.with_borrow_mut(|copies| copies.begin(NOW.get().thread, Copy { to, from, ..copy }));
}

extern "C" fn halo_emulator_commit_copies() {
    COPIES.with_borrow_mut(|copies| copies.commit(NOW.get().thread));
}

extern "C" fn halo_emulator_wait_for_copies(pending: u32) {
    let done = COPIES.with_borrow_mut(|copies| copies.wait(NOW.get().thread, pending as usize));
    for copy in done {
        checked_shared(copy.to, copy.filled, copy.filled, Access::Store);
        // SAFETY: both places were checked when the copy began, and are live as long as the launch.
        unsafe { copy.run() };
    }
}

extern "C" fn halo_emulator_fence() {
    CHECKS.with_borrow_mut(|checks| checks.fence(NOW.get().thread));
}

extern "C" fn halo_emulator_fence_barriers() {}

extern "C" fn halo_emulator_set_registers() {}

extern "C" fn halo_emulator_acquire_boxes(_: u64) {}

extern "C" fn halo_emulator_make_barrier(barrier: u64, count: u32) {
    checked_shared(barrier, BARRIER_BYTES, BARRIER_BYTES, Access::Store);
    PHASES.with_borrow_mut(|phases| phases.init(barrier, count));
}

extern "C" fn halo_emulator_arrive(barrier: u64) {
    halo_emulator_expect_bytes(barrier, 0);
}

extern "C" fn halo_emulator_expect_bytes(barrier: u64, bytes: u32) {
    report_error(PHASES.with_borrow_mut(|phases| phases.arrive(barrier, bytes.into())));
}

extern "C" fn halo_emulator_copy_box(to: u64, number: u64, x: u32, y: u32, z: u32, barrier: u64) {
    let described = BOXES.with_borrow(|known| known.get(number as usize).copied());
    let Some((from, boxes)) = described else {
        return report_error(Err("a box of an array that nobody described".into()));
    };
    let now = NOW.get();
    let first = [x, y, z].map(|place| place as i32);
    let copy = BoxCopy { to, from, boxes, first, thread: now.thread };
    let is_allowed = CHECKS.with_borrow_mut(|checks| {
        checks.align(to, BOX_ALIGNMENT, now.thread);
        checks.begin_unit_copy(to, copy.bytes(), now)
    });
    if is_allowed {
        report_error(PHASES.with_borrow_mut(|phases| phases.begin(barrier, copy)));
    }
}

extern "C" fn halo_emulator_wait_for_phase(barrier: u64, is_odd: u32) {
    block::wait(Wait::Phase { barrier, is_odd: is_odd != 0 });
}

/// Bytes of a barrier.
const BARRIER_BYTES: u64 = 8;

fn report_error(result: Result<(), String>) {
    if let Err(fault) = result {
        CHECKS.with_borrow_mut(|checks| checks.report(|| fault));
    }
}

/// The numbers of a chunk as a unit rounds them on their way.
fn rounded_to_tf32(mut bytes: [u8; phases::CHUNK as usize]) -> [u8; phases::CHUNK as usize] {
    for number in bytes.as_chunks_mut().0 {
        *number = halo_emulator_round_to_tf32(f32::from_ne_bytes(*number)).to_ne_bytes();
    }
    bytes
}

/// Whether a phase of a barrier has ended; what has come then is there.
fn phase_ended(barrier: u64, is_odd: bool) -> Result<bool, String> {
    let Some(copies) = PHASES.with_borrow_mut(|phases| phases.ended(barrier, is_odd))? else { return Ok(false) };
    CHECKS.with_borrow_mut(|checks| {
        for copy in &copies {
            for chunk in copy.chunks() {
                let mut bytes = [0u8; phases::CHUNK as usize];
                if chunk.bytes > 0 && checks.access(chunk.from, chunk.bytes, copy.thread, Access::Load) {
                    // SAFETY: the array is live, and has these bytes.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            chunk.from as *const u8,
                            bytes.as_mut_ptr(),
                            chunk.bytes as usize,
                        );
                    }
                }
                if copy.boxes.width == 4 {
                    bytes = rounded_to_tf32(bytes);
                }
                checks.end_unit_copy(chunk.to, phases::CHUNK, NOW.get().epoch);
                // SAFETY: the place is shared memory of the running block, which was checked when the copy began.
                unsafe { (chunk.to as *mut [u8; phases::CHUNK as usize]).write_unaligned(bytes) };
            }
        }
    });
    Ok(true)
}

/// Does what the threads of four warps have come to do.
///
/// # Safety
/// As for [`warp_groups::run`].
unsafe fn multiply_warp_group(operations: &[WarpGroupOperation]) -> Result<(), String> {
    CHECKS.with_borrow_mut(|checks| {
        let epoch = NOW.get().epoch;
        let mut read = |address| match checks.read_by_unit(address, warp_groups::CHUNK, epoch) {
            // SAFETY: the bytes are shared memory of the running block, whose threads wait.
            Some(place) => unsafe { (place as *const [u8; warp_groups::CHUNK]).read_unaligned() },
            None => [0; warp_groups::CHUNK],
        };
        // SAFETY: the caller's promise.
        unsafe { warp_groups::run(operations, &mut read) }
    })
}

/// Ends products of the four warps whose threads begin at one, which wait for them.
///
/// # Safety
/// As for [`Pending::end`].
unsafe fn end_products(first: u32, waits: &[WarpGroupWait]) -> Result<(), String> {
    // SAFETY: the words of products are theirs; those of waits the caller answers for.
    PENDING.with_borrow_mut(|pending| unsafe {
        pending.end(first, waits, &mut |operations| multiply_warp_group(operations))
    })
}

/// The address that an access goes to.
fn checked(address: u64, bytes: u64, alignment: u64, access: Access) -> u64 {
    let is_allowed = CHECKS.with_borrow_mut(|checks| {
        checks.align(address, alignment, NOW.get().thread);
        checks.access(address, bytes, NOW.get().thread, access)
    });
    if is_allowed { address } else { elsewhere() }
}

fn checked_shared(address: u64, bytes: u64, alignment: u64, access: Access) -> u64 {
    let is_allowed = CHECKS.with_borrow_mut(|checks| {
        checks.align(address, alignment, NOW.get().thread);
        checks.access_shared(address, bytes, NOW.get(), access)
    });
    if is_allowed { address } else { elsewhere() }
}

fn elsewhere() -> u64 {
    ELSEWHERE.with_borrow_mut(|elsewhere| elsewhere.as_mut_ptr() as u64)
}
