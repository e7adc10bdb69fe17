//! Loops and switches as nodes of a graph that have a condition, which a kernel sets: nobody waits for the host.
//!
//! ```text
//!  while { condition {C} body if P {B} }        C, set w = P, WHILE w { B, C, set w = P }
//!  switch S { branch {X} branch {Y} }           set x = S chooses 0, set y = S chooses 1, IF x {X}, IF y {Y}
//! ```
//!
//! A loop of several rounds goes through them in its body, each within the one before. As what a predicate lies in may be
//! another value's by then, such a loop has a byte of its own that says whether it goes on.

use std::ffi::{CStr, c_int};
use std::ptr;

use hlo::buffers::Slice;
use hlo::launch_plan::{CountedRound, PlanStep, Round};

use crate::driver::{Condition, ConditionFunctions, ConditionalNode, DevicePointer, Driver, Handle};
use crate::execution::{Device, PlanMemory, is_of_device};
use crate::recording_order::OrderedRecording;
use crate::stream_device::{OF_THIS_THREAD, StreamDevice};
use crate::{Error, Gpu};

/// The kernel that sets conditions.
const KERNEL: &CStr = c"halo_set_condition";

/// Its code.
const PTX: &str = concat!(include_str!("set_condition.ptx"), "\0");

/// Nodes that a graph has at most where loops of known length within others are written out.
const MOST_NODES: u64 = 4096;

/// Nodes that a loop of known length has at most as a part of a graph.
const MOST_REPEATED_NODES: u64 = 1024;

/// What sets conditions on a device.
pub(crate) struct Conditions {
    functions: &'static ConditionFunctions,
    module: Handle,
    kernel: Handle,
}

// SAFETY: the handles are the driver's, which is made for any number of threads.
unsafe impl Send for Conditions {}
// SAFETY: as above.
unsafe impl Sync for Conditions {}

impl Conditions {
    /// That of a device, which the caller has entered, unless the driver is too old.
    pub fn load(gpu: &Gpu) -> Option<Self> {
        let driver: &'static Driver = gpu.driver;
        let functions = driver.conditions.as_ref()?;
        let module = gpu.load_module(PTX.as_bytes()).ok()?;
        match gpu.kernel(module, KERNEL) {
            Ok(kernel) => Some(Conditions { functions, module, kernel }),
            Err(_) => {
                // SAFETY: nothing of the module is used.
                unsafe { (driver.unload_module)(module) };
                None
            }
        }
    }

    /// Takes the code from the device.
    pub fn unload(self, gpu: &Gpu) {
        if gpu.enter().is_ok() {
            // SAFETY: graphs that use it are gone: their programs hold the device.
            unsafe { (gpu.driver.unload_module)(self.module) };
        }
    }
}

/// What recording some steps needs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Recordable {
    /// Nodes of the graph and of those within it, at most.
    nodes: u64,
    /// Graphs within one another.
    pub depth: usize,
    /// Loops that need a byte.
    pub flags: usize,
}

impl Recordable {
    /// Whether a step can be part of a graph that begins with it.
    pub fn is_recordable(step: &PlanStep) -> bool {
        // Through a longer loop of known length the host goes without waiting for anything.
        let most = if matches!(step, PlanStep::Repeat { .. }) { MOST_REPEATED_NODES } else { MOST_NODES };
        Self::of(std::slice::from_ref(step)).nodes <= most
    }

    /// Of steps; those that are none of the device's have more nodes than any graph.
    pub fn of(steps: &[PlanStep]) -> Self {
        steps.iter().map(Self::of_step).fold(Self::default(), Self::and)
    }

    fn and(self, other: Self) -> Self {
        let nodes = self.nodes.saturating_add(other.nodes);
        Recordable { nodes, depth: self.depth.max(other.depth), flags: self.flags + other.flags }
    }

    fn of_step(step: &PlanStep) -> Self {
        let node = Recordable { nodes: 1, ..Self::default() };
        match step {
            PlanStep::Launch(_) | PlanStep::Copy { .. } => node,
            PlanStep::HostCall(_) => Recordable { nodes: u64::MAX, ..node },
            PlanStep::While(rounds) => {
                let parts = |round: &Round| {
                    let condition = Self::of(&round.condition);
                    // Before the loop and in it.
                    condition.and(condition).and(Self::of(&round.body)).and(Self::of(&round.leave))
                };
                let all = rounds.iter().map(parts).fold(node, Self::and);
                let flags = all.flags + usize::from(rounds.len() > 1);
                Recordable { depth: all.depth + rounds.len() + 1, flags, ..all }
            }
            PlanStep::Repeat { times, rounds } => {
                let parts = |round: &CountedRound| Self::of(&round.body).and(Self::of(&round.leave));
                let all = rounds.iter().map(parts).fold(Self::default(), Self::and);
                let flags = usize::try_from(*times).unwrap_or(usize::MAX).saturating_mul(all.flags);
                Recordable { nodes: all.nodes.saturating_mul(*times), flags, ..all }
            }
            PlanStep::Switch { branches, .. } => {
                let all = branches.iter().map(|branch| Self::of(branch).and(node).and(node)).fold(node, Self::and);
                Recordable { depth: all.depth + 1, ..all }
            }
        }
    }
}

/// A scalar in the device's memory and one of the ways that it may choose.
#[derive(Clone, Copy)]
struct Choice {
    selector: DevicePointer,
    size: usize,
    last: usize,
    number: usize,
}

impl Choice {
    /// That a byte is not 0.
    fn holds(selector: DevicePointer) -> Self {
        Choice { selector, size: 1, last: 1, number: 0 }
    }
}

/// Records steps on the target of a device.
pub(crate) struct Recorder<'r, 'p> {
    device: &'r mut StreamDevice<'p>,
    memory: &'r PlanMemory,
    conditions: &'p Conditions,
    recording: OrderedRecording,
    /// The next loop's byte.
    flag: Option<DevicePointer>,
    depth: usize,
}

impl<'r, 'p> Recorder<'r, 'p> {
    /// With as many bytes at `flags` as [`Recordable::flags`] says.
    pub fn new(
        device: &'r mut StreamDevice<'p>,
        memory: &'r PlanMemory,
        conditions: &'p Conditions,
        flag: Option<DevicePointer>,
    ) -> Self {
        let recording = OrderedRecording::new(conditions.functions);
        Recorder { device, memory, conditions, recording, flag, depth: 0 }
    }

    /// Records all steps of a graph.
    ///
    /// # Safety
    /// As for [`Self::steps`].
    pub unsafe fn graph(mut self, steps: &[PlanStep]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.steps(steps)? };
        self.recording.join(self.device)
    }

    /// Records steps behind what was recorded on the target before.
    ///
    /// # Safety
    /// As for running them. The target must be recording.
    unsafe fn steps(&mut self, steps: &[PlanStep]) -> Result<(), Error> {
        for step in steps {
            // SAFETY: the caller's promise.
            unsafe {
                match step {
                    step if is_of_device(step) => self.recording.step(self.device, self.memory, step)?,
                    PlanStep::While(rounds) => self.run_while(rounds)?,
                    PlanStep::Switch { selector, branches } => self.switch(*selector, branches)?,
                    PlanStep::Repeat { times, rounds } => {
                        for (round, number) in rounds.iter().cycle().zip(0..=*times) {
                            self.steps(if number < *times { &round.body } else { &round.leave })?;
                        }
                    }
                    _ => return Err(Error::Plan("the host's part in a graph".into())),
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn run_while(&mut self, rounds: &[Round]) -> Result<(), Error> {
        let goes_on = self.condition()?;
        // SAFETY: the caller's promise.
        unsafe {
            match rounds {
                [] => Err(Error::Plan("a loop without a body".into())),
                [round] => {
                    let holds = Choice::holds(self.memory.address(round.predicate)?);
                    self.steps(&round.condition)?;
                    self.set(goes_on, holds)?;
                    self.node(ConditionalNode::WHILE, goes_on, &mut |inner| {
                        inner.steps(&round.body)?;
                        inner.steps(&round.condition)?;
                        inner.set(goes_on, holds)
                    })?;
                    self.steps(&round.leave)
                }
                [first, ..] => {
                    let flag = self.flag.ok_or_else(|| Error::Plan("a loop that nobody counted".into()))?;
                    self.flag = Some(flag + 1);
                    self.enter(first, flag)?;
                    self.set(goes_on, Choice::holds(flag))?;
                    self.node(ConditionalNode::WHILE, goes_on, &mut |inner| {
                        inner.rounds_from(rounds, 0, flag)?;
                        inner.set(goes_on, Choice::holds(flag))
                    })
                }
            }
        }
    }

    /// Computes a round's condition into a loop's byte, and leaves the loop if it does not hold.
    ///
    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn enter(&mut self, round: &Round, flag: DevicePointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            self.steps(&round.condition)?;
            self.recording.join(self.device)?;
            self.device.copy(self.memory.address(round.predicate)?, flag, 1)?;
            self.when(Choice { number: 1, ..Choice::holds(flag) }, &mut |inner| inner.steps(&round.leave))
        }
    }

    /// The rest of a round whose condition holds, and the rounds behind it.
    ///
    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn rounds_from(&mut self, rounds: &[Round], number: usize, flag: DevicePointer) -> Result<(), Error> {
        let next = (number + 1) % rounds.len();
        // SAFETY: the caller's promise.
        unsafe {
            self.steps(&rounds[number].body)?;
            self.enter(&rounds[next], flag)?;
            match next {
                0 => Ok(()),
                _ => self.when(Choice::holds(flag), &mut |inner| inner.rounds_from(rounds, next, flag)),
            }
        }
    }

    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn switch(&mut self, selector: Slice, branches: &[Vec<PlanStep>]) -> Result<(), Error> {
        let last = branches.len().checked_sub(1).ok_or_else(|| Error::Plan("a switch without ways".into()))?;
        let address = self.memory.address(selector)?;
        let mut ways = Vec::with_capacity(branches.len());
        // SAFETY: the caller's promise. All are asked first: a way may write where the selector is.
        unsafe {
            for (number, branch) in branches.iter().enumerate().filter(|(_, branch)| !branch.is_empty()) {
                let condition = self.condition()?;
                self.set(condition, Choice { selector: address, size: selector.size, last, number })?;
                ways.push((condition, branch));
            }
            for (condition, branch) in ways {
                self.node(ConditionalNode::IF, condition, &mut |inner| inner.steps(branch))?;
            }
        }
        Ok(())
    }

    /// Records what is done if a way is chosen.
    ///
    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn when(
        &mut self,
        choice: Choice,
        inner: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let condition = self.condition()?;
        // SAFETY: the caller's promise.
        unsafe {
            self.set(condition, choice)?;
            self.node(ConditionalNode::IF, condition, inner)
        }
    }

    /// A new condition of the graph that is recorded.
    fn condition(&self) -> Result<Condition, Error> {
        let (graph, _) = self.recording.recorded(self.device)?;
        let (mut condition, context) = (0, self.device.gpu().context);
        // SAFETY: the condition is written to a live variable; it has no value until a kernel sets it.
        let code = unsafe { (self.conditions.functions.create_condition)(&raw mut condition, graph, context, 0, 0) };
        self.device.driver().check("cuGraphConditionalHandleCreate", code).map(|()| condition)
    }

    /// Sets a condition to whether a way is chosen.
    ///
    /// # Safety
    /// The selector must be live memory of the device.
    unsafe fn set(&mut self, condition: Condition, choice: Choice) -> Result<(), Error> {
        let Choice { selector, size, last, number } = choice;
        let arguments = [selector, size as u64, last as u64, number as u64, condition];
        self.recording.join(self.device)?;
        // SAFETY: the kernel takes these; the rest is the caller's promise.
        unsafe { self.device.launch_function(self.conditions.kernel, [1, 1, 0], &arguments) }
    }

    /// Records a node that runs what `inner` records, once or as long as the condition holds.
    ///
    /// # Safety
    /// As for [`Self::steps`].
    unsafe fn node(
        &mut self,
        kind: c_int,
        condition: Condition,
        inner: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (driver, functions) = (self.device.driver(), self.conditions.functions);
        let outer = self.device.target;
        self.recording.join(self.device)?;
        let (graph, before) = self.recording.recorded(self.device)?;
        let mut parameters = ConditionalNode::new(condition, kind, self.device.gpu().context);
        let mut node = ptr::null_mut();
        let target = self.device.stream.recorder(self.depth).ok_or_else(|| Error::Plan("graphs too deep".into()))?;
        let (no_nodes, mut ended) = (ptr::null(), ptr::null_mut());
        // SAFETY: the graph is being recorded by this thread, and nodes are those of the driver; `inner` only records.
        unsafe {
            let added = (functions.add_node)(&raw mut node, graph, before.as_ptr(), before.len(), &raw mut parameters);
            driver.check("cuGraphAddNode", added)?;
            self.recording.wait_for(self.device, &mut [node])?;
            let body = *parameters.graphs;
            let begun = (functions.begin_capture_to_graph)(target, body, no_nodes, ptr::null(), 0, OF_THIS_THREAD);
            driver.check("cuStreamBeginCaptureToGraph", begun)?;
            (self.device.target, self.depth) = (target, self.depth + 1);
            let recorded = inner(self).and_then(|()| self.recording.join(self.device));
            (self.device.target, self.depth) = (outer, self.depth - 1);
            let ended = driver.check("cuStreamEndCapture", (driver.end_capture)(target, &raw mut ended));
            recorded.and(ended)
        }
    }
}
