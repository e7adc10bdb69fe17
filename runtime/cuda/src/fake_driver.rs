//! A driver for tests: its device is the host's memory, its kernels are functions of this file.
//!
//! Launches are done when the stream is waited for, as on a device: so are their faults.

mod graphs;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::{
    BoxDescription, BoxFunctions, Condition, ConditionFunctions, ConditionalNode, DevicePointer, Driver, Functions,
    Handle, LinkFunctions, PoolFunctions,
};
use graphs::{
    add_node, begin_capture, begin_capture_to_graph, capture_info, create_condition, destroy_graph, destroy_graph_exec,
    end_capture, instantiate_graph, launch_graph, set_capture_dependencies,
};

/// Bytes that the device has.
pub(crate) const DEVICE_BYTES: usize = 1 << 20;

/// Bytes of shared memory that launches may give a kernel.
pub(crate) const MOST_SHARED: c_int = 99 << 10;

/// What the driver says about PTX that it does not take.
pub(crate) const COMPLAINT: &str = "ptxas fatal: unexpected `nonsense`";

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const BAD_IMAGE: c_int = 200;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;

/// What a stream has to do.
#[derive(Clone)]
enum Work {
    /// A kernel, by its handle, with its arguments.
    Launch(usize, Vec<u64>),
    Copy(u64, u64, usize),
    /// A node with a condition: its kind, and its graph, in an executable graph what that does.
    Conditional(c_int, Condition, usize, Vec<Work>),
}

/// A graph that is recorded, and the nodes that the next one waits for.
struct Recorded {
    graph: usize,
    before: Vec<usize>,
}

/// A node of a graph, with those that it waits for.
#[derive(Clone)]
struct Node {
    handle: usize,
    before: Vec<usize>,
    work: Work,
}

#[derive(Default)]
struct State {
    allocations: HashMap<u64, Vec<u128>>,
    /// By stream.
    waiting: HashMap<usize, Vec<Work>>,
    /// What each stream records.
    recording: HashMap<usize, Recorded>,
    graphs: HashMap<usize, Vec<Node>>,
    executables: HashMap<usize, Vec<Work>>,
    /// Of each condition, its graph and its value.
    conditions: HashMap<Condition, (usize, bool)>,
    next: usize,
    counts: Counts,
    /// Bytes that launches may give kernels, by their handles, and bytes that each launch gave.
    allowed_bytes: Vec<(usize, c_int)>,
    given_bytes: Vec<c_uint>,
    lacks: Lacks,
    /// The device's of the calling thread: one more than its number.
    context: usize,
    /// Those that hold a context.
    holders: usize,
    /// Bytes of the device's memory that are left, where that is limited.
    left_bytes: Option<usize>,
    loads: Loads,
}

/// What a driver has not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lacks {
    pub pools: bool,
    pub conditions: bool,
    /// Whether it has the functions, and refuses their use.
    pub conditional_nodes: bool,
    /// Whether it refuses what nodes wait for.
    pub order: bool,
    pub pinned_memory: bool,
    pub boxes: bool,
    pub links: bool,
}

/// How kernels came to the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loads {
    /// As PTX.
    pub texts: usize,
    /// PTX that machine code was made of.
    pub links: usize,
    /// As machine code.
    pub cubins: usize,
}

/// What the driver was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub launches: usize,
    pub graph_launches: usize,
    pub allocations: usize,
    /// Allocations of pinned memory of the host, and waits for events.
    pub pinned: usize,
    pub waits: usize,
    /// Times that the host waited for a stream.
    pub synchronizations: usize,
    /// Descriptions of boxes.
    pub described: usize,
    /// Bytes from the host.
    pub uploaded: usize,
    /// Streams, events and pinned memory that were given back when nobody held a context any more.
    pub late: usize,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static USERS: Mutex<()> = Mutex::new(());

fn with_state<T>(ask: impl FnOnce(&mut State) -> T) -> T {
    ask(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// A fresh driver, for one test at a time.
pub(crate) fn fresh() -> (&'static Driver, MutexGuard<'static, ()>) {
    fresh_without(Lacks::default())
}

/// One that does not have everything.
pub(crate) fn fresh_without(lacks: Lacks) -> (&'static Driver, MutexGuard<'static, ()>) {
    let user = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    with_state(|state| *state = State { lacks, ..State::default() });
    (Box::leak(Box::new(driver(lacks))), user)
}

/// What was asked for so far, and how many allocations are left.
pub(crate) fn counts() -> (Counts, usize) {
    with_state(|state| (state.counts, state.allocations.len()))
}

/// The context that was last entered: one more than the number of its device.
pub(crate) fn current_context() -> usize {
    with_state(|state| state.context)
}

/// How kernels came to the device so far.
pub(crate) fn loads() -> Loads {
    with_state(|state| state.loads)
}

/// From now on the device has so much memory.
pub(crate) fn limit_memory(bytes: usize) {
    with_state(|state| state.left_bytes = Some(bytes));
}

/// Kernels, and the bytes of shared memory that launches were allowed to give them.
pub(crate) fn allowed_bytes() -> Vec<(&'static str, c_int)> {
    let name = |kernel: usize| KERNELS[kernel - 1].to_str().unwrap_or_default();
    with_state(|state| state.allowed_bytes.iter().map(|&(kernel, bytes)| (name(kernel), bytes)).collect())
}

/// Bytes of shared memory that each launch gave.
pub(crate) fn given_bytes() -> Vec<c_uint> {
    with_state(|state| state.given_bytes.clone())
}

fn driver(lacks: Lacks) -> Driver {
    let functions = Functions {
        init,
        version,
        device_count,
        device,
        device_attribute,
        retain_context,
        release_context,
        set_context,
        load_module,
        unload_module,
        function,
        set_function_attribute,
        launch,
        allocate,
        free,
        allocate_pinned,
        free_pinned,
        copy_to_device,
        copy_to_host,
        copy,
        create_stream,
        destroy_stream,
        synchronize,
        begin_capture,
        end_capture,
        instantiate_graph,
        destroy_graph,
        launch_graph,
        destroy_graph_exec,
        create_event,
        record_event,
        wait_for_event,
        elapsed,
        destroy_event,
        error_text,
    };
    let pools = PoolFunctions { default_pool, set_attribute, allocate: allocate_in_order, free: free_in_order };
    let conditions = ConditionFunctions {
        capture_info,
        set_capture_dependencies,
        begin_capture_to_graph,
        create_condition,
        add_node,
    };
    let boxes = BoxFunctions { describe };
    let links =
        LinkFunctions { create: create_link, add_data: add_to_link, complete: complete_link, destroy: destroy_link };
    Driver::fake(
        functions,
        (!lacks.pools).then_some(pools),
        (!lacks.conditions).then_some(conditions),
        (!lacks.boxes).then_some(boxes),
        (!lacks.links).then_some(links),
    )
}

/// The kernels, which work on a number, and what sets conditions.
const KERNELS: [&CStr; 5] = [c"double", c"increment", c"faulty", c"less_than_100", c"halo_set_condition"];

fn enqueue(stream: Handle, work: Work) {
    with_state(|state| {
        let handle = new_handle(state);
        match state.recording.get_mut(&(stream as usize)) {
            Some(Recorded { graph, before }) => {
                let before = std::mem::replace(before, vec![handle]);
                state.graphs.entry(*graph).or_default().push(Node { handle, before, work });
            }
            None => state.waiting.entry(stream as usize).or_default().push(work),
        }
    });
}

/// # Safety
/// Addresses in the work must be those of live memory.
unsafe fn work_off(stream: Handle) -> c_int {
    let work = with_state(|state| state.waiting.remove(&(stream as usize)).unwrap_or_default());
    // SAFETY: the caller's promise.
    unsafe { run(&work) }
}

/// # Safety
/// As for [`work_off`].
unsafe fn run(work: &[Work]) -> c_int {
    for work in work {
        // SAFETY: the caller's promise.
        let code = unsafe {
            match work {
                Work::Copy(from, to, bytes) => {
                    std::ptr::copy(*from as *const u8, *to as *mut u8, *bytes);
                    0
                }
                Work::Launch(kernel, arguments) => run_kernel(*kernel, arguments),
                Work::Conditional(kind, condition, _, inner) => run_conditional(*kind, *condition, inner),
            }
        };
        if code != 0 {
            return code;
        }
    }
    0
}

/// # Safety
/// As for [`work_off`].
unsafe fn run_conditional(kind: c_int, condition: Condition, inner: &[Work]) -> c_int {
    while with_state(|state| state.conditions.get(&condition).is_some_and(|(_, value)| *value)) {
        // SAFETY: the caller's promise.
        let code = unsafe { run(inner) };
        if code != 0 || kind == ConditionalNode::IF {
            return code;
        }
    }
    0
}

/// # Safety
/// As for [`work_off`].
unsafe fn run_kernel(kernel: usize, arguments: &[u64]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match (kernel, arguments) {
            (1, &[from, to]) => *(to as *mut i32) = *(from as *const i32) * 2,
            (2, &[from, to]) => *(to as *mut i32) = *(from as *const i32) + 1,
            (4, &[from, to]) => *(to as *mut bool) = *(from as *const i32) < 100,
            (5, &[selector, size, last, number, condition]) => {
                let chosen = match size {
                    1 => u64::from(*(selector as *const u8) == 0),
                    _ => u64::from(*(selector as *const u32)),
                };
                let is_chosen = chosen.min(last) == number;
                let known = with_state(|state| state.conditions.get_mut(&condition).map(|own| own.1 = is_chosen));
                return if known.is_some() { 0 } else { ILLEGAL_ADDRESS };
            }
            _ => return ILLEGAL_ADDRESS,
        }
    }
    0
}

fn new_handle(state: &mut State) -> usize {
    state.next += 1;
    state.next
}

unsafe extern "C" fn init(_: c_uint) -> c_int {
    0
}

unsafe extern "C" fn version(version: *mut c_int) -> c_int {
    // SAFETY: the caller passes a live variable.
    unsafe { *version = 12040 };
    0
}

unsafe extern "C" fn device_count(count: *mut c_int) -> c_int {
    // SAFETY: the caller passes a live variable, as everywhere below.
    unsafe { *count = 2 };
    0
}

unsafe extern "C" fn device(device: *mut c_int, number: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *device = number };
    0
}

unsafe extern "C" fn device_attribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    // SAFETY: as above. Compute capability 8.6; memory pools.
    unsafe {
        *value = match attribute {
            75 => 8,
            76 => 6,
            _ => 1,
        };
    }
    0
}

unsafe extern "C" fn retain_context(context: *mut Handle, device: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *context = (device as usize + 1) as Handle };
    with_state(|state| state.holders += 1);
    0
}

unsafe extern "C" fn release_context(_: c_int) -> c_int {
    with_state(|state| state.holders -= 1);
    0
}

/// Something of a context is given back.
fn give_back() {
    with_state(|state| state.counts.late += usize::from(state.holders == 0));
}

unsafe extern "C" fn set_context(context: Handle) -> c_int {
    with_state(|state| state.context = context as usize);
    0
}

unsafe extern "C" fn load_module(
    module: *mut Handle,
    text: *const c_void,
    _: c_uint,
    _: *const c_int,
    values: *const *mut c_void,
) -> c_int {
    // SAFETY: text and log are those of the caller, who leaves more room than the complaint needs.
    unsafe {
        *module = std::ptr::null_mut();
        let text = CStr::from_ptr(text.cast());
        if text.to_bytes().starts_with(b"\x7fELF") {
            with_state(|state| state.loads.cubins += 1);
            return 0;
        }
        if text == c"damaged" {
            return BAD_IMAGE;
        }
        with_state(|state| state.loads.texts += usize::from(!text.to_bytes().starts_with(b"//")));
        if text.to_bytes().ends_with(b"nonsense") {
            std::ptr::copy_nonoverlapping(COMPLAINT.as_ptr(), (*values).cast(), COMPLAINT.len());
            return BAD_IMAGE;
        }
    }
    0
}

unsafe extern "C" fn create_link(_: c_uint, _: *const c_int, _: *const *mut c_void, state: *mut Handle) -> c_int {
    // SAFETY: a live variable.
    unsafe { *state = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn add_to_link(
    _: Handle,
    kind: c_int,
    _: *const c_void,
    _: usize,
    _: *const c_char,
    _: c_uint,
    _: *const c_int,
    _: *const *mut c_void,
) -> c_int {
    with_state(|state| state.loads.links += 1);
    if kind == 1 { 0 } else { INVALID_VALUE }
}

unsafe extern "C" fn complete_link(_: Handle, code: *mut *mut c_void, size: *mut usize) -> c_int {
    const CODE: &CStr = c"\x7fELF";
    // SAFETY: live variables; the code is static.
    unsafe {
        *code = CODE.as_ptr().cast_mut().cast();
        *size = CODE.to_bytes_with_nul().len();
    }
    0
}

unsafe extern "C" fn destroy_link(_: Handle) -> c_int {
    0
}

unsafe extern "C" fn unload_module(_: Handle) -> c_int {
    0
}

unsafe extern "C" fn function(kernel: *mut Handle, _: Handle, name: *const c_char) -> c_int {
    // SAFETY: a live text and a live variable.
    unsafe {
        let name = CStr::from_ptr(name);
        let Some(number) = KERNELS.iter().position(|&kernel| kernel == name) else { return NOT_FOUND };
        *kernel = (number + 1) as Handle;
    }
    0
}

unsafe extern "C" fn set_function_attribute(kernel: Handle, attribute: c_int, value: c_int) -> c_int {
    if attribute != 8 || value > MOST_SHARED {
        return INVALID_VALUE;
    }
    with_state(|state| state.allowed_bytes.push((kernel as usize, value)));
    0
}

unsafe extern "C" fn launch(
    kernel: Handle,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    shared: c_uint,
    stream: Handle,
    arguments: *const *const u64,
    _: *const *mut c_void,
) -> c_int {
    with_state(|state| {
        state.counts.launches += 1;
        state.given_bytes.push(shared);
    });
    let count = if kernel as usize == KERNELS.len() { 5 } else { 2 };
    // SAFETY: the kernels have as many arguments.
    let arguments = (0..count).map(|number| unsafe { **arguments.add(number) }).collect();
    enqueue(stream, Work::Launch(kernel as usize, arguments));
    0
}

unsafe extern "C" fn allocate(address: *mut DevicePointer, bytes: usize) -> c_int {
    let has_room = with_state(|state| match &mut state.left_bytes {
        Some(left) => left.checked_sub(bytes).map(|rest| *left = rest).is_some(),
        None => bytes <= DEVICE_BYTES,
    });
    if !has_room {
        return OUT_OF_MEMORY;
    }
    with_state(|state| state.counts.allocations += 1);
    // SAFETY: a live variable.
    unsafe { *address = new_memory(bytes) };
    0
}

/// Memory that is there until it is freed.
fn new_memory(bytes: usize) -> DevicePointer {
    let memory = vec![0u128; bytes.div_ceil(16)];
    let start = memory.as_ptr() as u64;
    with_state(|state| state.allocations.insert(start, memory));
    start
}

unsafe extern "C" fn free(address: DevicePointer) -> c_int {
    let freed = with_state(|state| {
        let memory = state.allocations.remove(&address)?;
        state.left_bytes.iter_mut().for_each(|left| *left += memory.len() * 16);
        Some(())
    });
    freed.map_or(ILLEGAL_ADDRESS, |()| 0)
}

unsafe extern "C" fn default_pool(pool: *mut Handle, _: c_int) -> c_int {
    // SAFETY: a live variable.
    unsafe { *pool = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn set_attribute(_: Handle, attribute: c_int, _: *mut c_void) -> c_int {
    if attribute == 4 { 0 } else { INVALID_VALUE }
}

unsafe extern "C" fn allocate_in_order(address: *mut DevicePointer, bytes: usize, _: Handle) -> c_int {
    // SAFETY: a live variable.
    unsafe { allocate(address, bytes) }
}

unsafe extern "C" fn free_in_order(address: DevicePointer, stream: Handle) -> c_int {
    // SAFETY: memory lives until the stream has done what it was asked for before.
    unsafe {
        work_off(stream);
        free(address)
    }
}

unsafe extern "C" fn allocate_pinned(address: *mut *mut c_void, bytes: usize, _: c_uint) -> c_int {
    if with_state(|state| state.lacks.pinned_memory) {
        return OUT_OF_MEMORY;
    }
    with_state(|state| state.counts.pinned += 1);
    // SAFETY: a live variable.
    unsafe { *address = new_memory(bytes) as *mut c_void };
    0
}

unsafe extern "C" fn free_pinned(address: *mut c_void) -> c_int {
    give_back();
    // SAFETY: it was allocated in the same way.
    unsafe { free(address as u64) }
}

unsafe extern "C" fn copy_to_device(to: DevicePointer, from: *const c_void, bytes: usize, stream: Handle) -> c_int {
    with_state(|state| state.counts.uploaded += bytes);
    enqueue(stream, Work::Copy(from as u64, to, bytes));
    0
}

unsafe extern "C" fn copy_to_host(to: *mut c_void, from: DevicePointer, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, Work::Copy(from, to as u64, bytes));
    0
}

unsafe extern "C" fn copy(to: DevicePointer, from: DevicePointer, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, Work::Copy(from, to, bytes));
    0
}

unsafe extern "C" fn create_stream(stream: *mut Handle, _: c_uint) -> c_int {
    // SAFETY: a live variable.
    unsafe { *stream = with_state(new_handle) as Handle };
    0
}

unsafe extern "C" fn destroy_stream(_: Handle) -> c_int {
    give_back();
    0
}

unsafe extern "C" fn synchronize(stream: Handle) -> c_int {
    with_state(|state| state.counts.synchronizations += 1);
    // SAFETY: whoever asked for the work keeps its memory until now.
    unsafe { work_off(stream) }
}

unsafe extern "C" fn describe(
    description: *mut BoxDescription,
    _: c_int,
    rank: c_uint,
    _: DevicePointer,
    sizes: *const u64,
    _: *const u64,
    _: *const c_uint,
    _: *const c_uint,
    _: c_int,
    swizzle: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    if (rank, swizzle) != (3, 3) {
        return INVALID_VALUE;
    }
    with_state(|state| state.counts.described += 1);
    // SAFETY: live variables.
    unsafe { (*description).0[0] = 2 * *sizes };
    0
}

unsafe extern "C" fn create_event(event: *mut Handle, _: c_uint) -> c_int {
    // SAFETY: a live variable.
    unsafe { *event = NonNull::dangling().as_ptr() };
    0
}

unsafe extern "C" fn record_event(_: Handle, _: Handle) -> c_int {
    0
}

unsafe extern "C" fn wait_for_event(_: Handle) -> c_int {
    let streams: Vec<usize> = with_state(|state| {
        state.counts.waits += 1;
        state.waiting.keys().copied().collect()
    });
    // SAFETY: as for `synchronize`.
    streams.into_iter().map(|stream| unsafe { work_off(stream as Handle) }).max().unwrap_or(0)
}

unsafe extern "C" fn elapsed(milliseconds: *mut f32, _: Handle, _: Handle) -> c_int {
    // SAFETY: a live variable.
    unsafe { *milliseconds = 2.5 };
    0
}

unsafe extern "C" fn destroy_event(_: Handle) -> c_int {
    give_back();
    0
}

unsafe extern "C" fn error_text(code: c_int, text: *mut *const c_char) -> c_int {
    let said = match code {
        INVALID_VALUE => c"invalid argument",
        BAD_IMAGE => c"device kernel image is invalid",
        NOT_FOUND => c"named symbol not found",
        _ => c"an illegal memory access was encountered",
    };
    // SAFETY: a live variable; the text is static.
    unsafe { *text = said.as_ptr() };
    0
}
