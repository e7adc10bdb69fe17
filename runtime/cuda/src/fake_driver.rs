//! A driver for tests: its device is the host's memory, its kernels are functions of this file.
//!
//! Launches are done when the stream is waited for, as on a device: so are their faults.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::{DevicePointer, Driver, Handle};

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
    /// A kernel, by its handle, with its first arguments.
    Launch(usize, Vec<u64>),
    Copy(u64, u64, usize),
}

#[derive(Default)]
struct State {
    allocations: HashMap<u64, Vec<u128>>,
    waiting: Vec<Work>,
    recording: Option<Vec<Work>>,
    graphs: HashMap<usize, Vec<Work>>,
    next: usize,
    counts: Counts,
    /// Bytes that launches may give kernels, by their handles, and bytes that each launch gave.
    allowed_bytes: Vec<(usize, c_int)>,
    given_bytes: Vec<c_uint>,
}

/// What the driver was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub launches: usize,
    pub graph_launches: usize,
    pub allocations: usize,
    /// Bytes from the host.
    pub uploaded: usize,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static USERS: Mutex<()> = Mutex::new(());

fn with_state<T>(ask: impl FnOnce(&mut State) -> T) -> T {
    ask(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// A fresh driver, for one test at a time.
pub(crate) fn fresh() -> (&'static Driver, MutexGuard<'static, ()>) {
    let user = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    with_state(|state| *state = State::default());
    (Box::leak(Box::new(driver())), user)
}

/// What was asked for so far, and how many allocations are left.
pub(crate) fn counts() -> (Counts, usize) {
    with_state(|state| (state.counts, state.allocations.len()))
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

fn driver() -> Driver {
    Driver::fake(
        init,
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
        elapsed,
        destroy_event,
        error_text,
    )
}

/// The kernels, which have one array: number and function.
const KERNELS: [&CStr; 3] = [c"double", c"increment", c"faulty"];

fn enqueue(work: Work) {
    with_state(|state| match &mut state.recording {
        Some(recording) => recording.push(work),
        None => state.waiting.push(work),
    });
}

/// # Safety
/// Addresses in the work must be those of live memory.
unsafe fn work_off() -> c_int {
    for work in with_state(|state| std::mem::take(&mut state.waiting)) {
        match work {
            Work::Copy(from, to, bytes) => {
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
            }
            Work::Launch(kernel, arguments) => {
                let [from, to] = arguments[..] else { return ILLEGAL_ADDRESS };
                // SAFETY: the caller's promise.
                let value = unsafe { *(from as *const i32) };
                let value = match kernel {
                    1 => value * 2,
                    2 => value + 1,
                    _ => return ILLEGAL_ADDRESS,
                };
                // SAFETY: as above.
                unsafe { *(to as *mut i32) = value };
            }
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

unsafe extern "C" fn device_count(count: *mut c_int) -> c_int {
    // SAFETY: the caller passes a live variable, as everywhere below.
    unsafe { *count = 1 };
    0
}

unsafe extern "C" fn device(device: *mut c_int, number: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *device = number };
    0
}

unsafe extern "C" fn device_attribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    // SAFETY: as above. Compute capability 8.6.
    unsafe { *value = if attribute == 75 { 8 } else { 6 } };
    0
}

unsafe extern "C" fn retain_context(context: *mut Handle, _: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *context = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn release_context(_: c_int) -> c_int {
    0
}

unsafe extern "C" fn set_context(_: Handle) -> c_int {
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
        if text.to_bytes().ends_with(b"nonsense") {
            std::ptr::copy_nonoverlapping(COMPLAINT.as_ptr(), (*values).cast(), COMPLAINT.len());
            return BAD_IMAGE;
        }
    }
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
    _: Handle,
    arguments: *const *const u64,
    _: *const *mut c_void,
) -> c_int {
    with_state(|state| {
        state.counts.launches += 1;
        state.given_bytes.push(shared);
    });
    // SAFETY: the kernels have two arguments.
    let arguments = unsafe { vec![**arguments, **arguments.add(1)] };
    enqueue(Work::Launch(kernel as usize, arguments));
    0
}

unsafe extern "C" fn allocate(address: *mut DevicePointer, bytes: usize) -> c_int {
    if bytes > DEVICE_BYTES {
        return OUT_OF_MEMORY;
    }
    let memory = vec![0u128; bytes.div_ceil(16)];
    let start = memory.as_ptr() as u64;
    with_state(|state| {
        state.counts.allocations += 1;
        state.allocations.insert(start, memory);
    });
    // SAFETY: a live variable.
    unsafe { *address = start };
    0
}

unsafe extern "C" fn free(address: DevicePointer) -> c_int {
    with_state(|state| state.allocations.remove(&address)).map_or(ILLEGAL_ADDRESS, |_| 0)
}

unsafe extern "C" fn copy_to_device(to: DevicePointer, from: *const c_void, bytes: usize, _: Handle) -> c_int {
    with_state(|state| state.counts.uploaded += bytes);
    enqueue(Work::Copy(from as u64, to, bytes));
    0
}

unsafe extern "C" fn copy_to_host(to: *mut c_void, from: DevicePointer, bytes: usize, _: Handle) -> c_int {
    enqueue(Work::Copy(from, to as u64, bytes));
    0
}

unsafe extern "C" fn copy(to: DevicePointer, from: DevicePointer, bytes: usize, _: Handle) -> c_int {
    enqueue(Work::Copy(from, to, bytes));
    0
}

unsafe extern "C" fn create_stream(stream: *mut Handle, _: c_uint) -> c_int {
    // SAFETY: a live variable.
    unsafe { *stream = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn destroy_stream(_: Handle) -> c_int {
    0
}

unsafe extern "C" fn synchronize(_: Handle) -> c_int {
    // SAFETY: whoever asked for the work keeps its memory until now.
    unsafe { work_off() }
}

unsafe extern "C" fn begin_capture(_: Handle, _: c_int) -> c_int {
    with_state(|state| state.recording = Some(Vec::new()));
    0
}

unsafe extern "C" fn end_capture(_: Handle, graph: *mut Handle) -> c_int {
    let number = with_state(|state| {
        let work = state.recording.take().unwrap_or_default();
        let number = new_handle(state);
        state.graphs.insert(number, work);
        number
    });
    // SAFETY: a live variable.
    unsafe { *graph = number as Handle };
    0
}

unsafe extern "C" fn instantiate_graph(executable: *mut Handle, graph: Handle, _: u64) -> c_int {
    let number = with_state(|state| {
        let work = state.graphs.get(&(graph as usize)).cloned().unwrap_or_default();
        let number = new_handle(state);
        state.graphs.insert(number, work);
        number
    });
    // SAFETY: a live variable.
    unsafe { *executable = number as Handle };
    0
}

unsafe extern "C" fn destroy_graph(graph: Handle) -> c_int {
    with_state(|state| state.graphs.remove(&(graph as usize)));
    0
}

unsafe extern "C" fn launch_graph(graph: Handle, _: Handle) -> c_int {
    with_state(|state| {
        state.counts.graph_launches += 1;
        let work = state.graphs.get(&(graph as usize)).cloned().unwrap_or_default();
        state.waiting.extend(work);
    });
    0
}

unsafe extern "C" fn destroy_graph_exec(graph: Handle) -> c_int {
    with_state(|state| state.graphs.remove(&(graph as usize)));
    0
}

unsafe extern "C" fn create_event(event: *mut Handle, _: c_uint) -> c_int {
    // SAFETY: a live variable.
    unsafe { *event = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn record_event(_: Handle, _: Handle) -> c_int {
    0
}

unsafe extern "C" fn elapsed(milliseconds: *mut f32, _: Handle, _: Handle) -> c_int {
    // SAFETY: a live variable.
    unsafe { *milliseconds = 2.5 };
    0
}

unsafe extern "C" fn destroy_event(_: Handle) -> c_int {
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
