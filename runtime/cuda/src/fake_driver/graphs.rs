//! The fake driver's graphs: recorded, with what nodes wait for, and run in another order than they were recorded in, where that allows it.

use std::ffi::{c_int, c_uint, c_void};

use super::{INVALID_VALUE, Node, Recorded, State, Work, new_handle, with_state};
use crate::driver::{Condition, ConditionalNode, Handle};

pub(super) unsafe extern "C" fn begin_capture(stream: Handle, _: c_int) -> c_int {
    with_state(|state| {
        let graph = new_handle(state);
        state.recording.insert(stream as usize, Recorded { graph, before: Vec::new() });
        state.graphs.insert(graph, Vec::new());
    });
    0
}

pub(super) unsafe extern "C" fn end_capture(stream: Handle, graph: *mut Handle) -> c_int {
    let Some(recorded) = with_state(|state| state.recording.remove(&(stream as usize))) else { return INVALID_VALUE };
    // SAFETY: a live variable.
    unsafe { *graph = recorded.graph as Handle };
    0
}

pub(super) unsafe extern "C" fn capture_info(
    stream: Handle,
    _: *mut c_int,
    _: *mut u64,
    graph: *mut Handle,
    nodes: *mut *const Handle,
    count: *mut usize,
) -> c_int {
    with_state(|state| match state.recording.get(&(stream as usize)) {
        Some(recorded) => {
            // SAFETY: live variables; handles are numbers of the size of an address.
            unsafe {
                *graph = recorded.graph as Handle;
                (*nodes, *count) = (recorded.before.as_ptr().cast(), recorded.before.len());
            }
            0
        }
        None => INVALID_VALUE,
    })
}

/// # Safety
/// There must be so many nodes.
unsafe fn numbers(nodes: *const Handle, count: usize) -> Vec<usize> {
    // SAFETY: the caller's promise.
    (0..count).map(|place| unsafe { *nodes.add(place) } as usize).collect()
}

pub(super) unsafe extern "C" fn set_capture_dependencies(
    stream: Handle,
    nodes: *mut Handle,
    count: usize,
    how: c_uint,
) -> c_int {
    // SAFETY: as the driver's header says.
    let nodes = unsafe { numbers(nodes, count) };
    with_state(|state| {
        let lacks_order = state.lacks.order;
        match state.recording.get_mut(&(stream as usize)) {
            Some(recorded) if how == 1 && !lacks_order => {
                recorded.before = nodes;
                0
            }
            _ => INVALID_VALUE,
        }
    })
}

pub(super) unsafe extern "C" fn begin_capture_to_graph(
    stream: Handle,
    graph: Handle,
    _: *const Handle,
    _: *const c_void,
    _: usize,
    _: c_int,
) -> c_int {
    let recorded = Recorded { graph: graph as usize, before: Vec::new() };
    let before = with_state(|state| state.recording.insert(stream as usize, recorded));
    if before.is_none() { 0 } else { INVALID_VALUE }
}

pub(super) unsafe extern "C" fn create_condition(
    condition: *mut Condition,
    graph: Handle,
    _: Handle,
    _: c_uint,
    _: c_uint,
) -> c_int {
    let number = with_state(|state| {
        let number = new_handle(state) as Condition;
        state.conditions.insert(number, (graph as usize, false));
        number
    });
    // SAFETY: a live variable.
    unsafe { *condition = number };
    0
}

pub(super) unsafe extern "C" fn add_node(
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    parameters: *mut ConditionalNode,
) -> c_int {
    // SAFETY: live variables, of the type that the driver has for such nodes.
    let (kind, condition) = unsafe { ((*parameters).kind, (*parameters).condition) };
    // SAFETY: as the driver's header says.
    let before = unsafe { numbers(before, count) };
    let added = with_state(|state| {
        let of_graph = state.conditions.get(&condition).is_some_and(|(own, _)| *own == graph as usize);
        if !of_graph || state.lacks.conditional_nodes {
            return None;
        }
        let body = new_handle(state);
        state.graphs.insert(body, Vec::new());
        let handle = new_handle(state);
        let work = Work::Conditional(kind, condition, body, Vec::new());
        state.graphs.get_mut(&(graph as usize))?.push(Node { handle, before, work });
        Some((body, handle))
    });
    let Some((body, handle)) = added else { return INVALID_VALUE };
    // SAFETY: as above; the driver keeps the table as long as the node.
    unsafe {
        *node = handle as Handle;
        (*parameters).graphs = Box::leak(Box::new(body as Handle));
    }
    0
}

/// What a graph does, with all within it, and the last of it as early as what it waits for allows.
fn whole(state: &State, graph: usize) -> Vec<Work> {
    let mut left = state.graphs.get(&graph).cloned().unwrap_or_default();
    let mut all = Vec::new();
    while !left.is_empty() {
        let waits = |node: &Node| left.iter().any(|other| node.before.contains(&other.handle));
        let next = left.iter().rposition(|node| !waits(node)).expect("a circle of nodes");
        let mut work = left.remove(next).work;
        if let Work::Conditional(_, _, body, inner) = &mut work {
            *inner = whole(state, *body);
        }
        all.push(work);
    }
    all
}

pub(super) unsafe extern "C" fn instantiate_graph(executable: *mut Handle, graph: Handle, _: u64) -> c_int {
    let number = with_state(|state| {
        let work = whole(state, graph as usize);
        let number = new_handle(state);
        state.executables.insert(number, work);
        number
    });
    // SAFETY: a live variable.
    unsafe { *executable = number as Handle };
    0
}

pub(super) unsafe extern "C" fn destroy_graph(graph: Handle) -> c_int {
    with_state(|state| state.graphs.remove(&(graph as usize)));
    0
}

pub(super) unsafe extern "C" fn launch_graph(graph: Handle, stream: Handle) -> c_int {
    with_state(|state| {
        state.counts.graph_launches += 1;
        let work = state.executables.get(&(graph as usize)).cloned().unwrap_or_default();
        state.waiting.entry(stream as usize).or_default().extend(work);
    });
    0
}

pub(super) unsafe extern "C" fn destroy_graph_exec(graph: Handle) -> c_int {
    with_state(|state| state.executables.remove(&(graph as usize)));
    0
}
