//! Which steps of a graph wait for which others: only those whose memory meets, where at least one of them writes it. The device
//! runs the others side by side.

use std::ffi::c_uint;
use std::ops::Range;
use std::ptr;
use std::slice;

use hlo::launch_plan::{LaunchArgument, PlanStep};

use crate::Error;
use crate::driver::{ConditionFunctions, Handle};
use crate::execution::{PlanMemory, run_each};
use crate::stream_device::StreamDevice;

/// The driver's number for dependencies that take the place of others.
const IN_PLACE_OF_OTHERS: c_uint = 1;

/// The addresses that a step reads, and those that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Accesses {
    read: Vec<Range<u64>>,
    written: Vec<Range<u64>>,
}

impl Accesses {
    fn of(step: &PlanStep, memory: &PlanMemory) -> Result<Self, Error> {
        let range = |slice| memory.address(slice).map(|first| first..first + slice.size as u64);
        let mut accesses = Self::default();
        match step {
            PlanStep::Launch(launch) => {
                for argument in &launch.arguments {
                    let is_written = matches!(argument, LaunchArgument::Written(_));
                    let ranges = if is_written { &mut accesses.written } else { &mut accesses.read };
                    ranges.extend(argument.slice().map(range).transpose()?);
                }
            }
            PlanStep::Copy { from, to } => {
                accesses.read.push(range(*from)?);
                accesses.written.push(range(*to)?);
            }
            PlanStep::While(_) | PlanStep::Repeat { .. } | PlanStep::Switch { .. } | PlanStep::HostCall(_) => {
                return Err(Error::Plan("the host's part among the device's steps".into()));
            }
        }
        Ok(accesses)
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The steps since everything was last waited for.
#[derive(Default)]
struct RecordingOrder {
    steps: Vec<OrderedStep>,
    /// What they have read and written, by their numbers, but for what a later one has written all of.
    read: Vec<(Range<u64>, usize)>,
    written: Vec<(Range<u64>, usize)>,
}

struct OrderedStep {
    node: Handle,
    /// A bit for each of the steps that it waits for, others in between included.
    before: Vec<u64>,
    is_last: bool,
}

impl OrderedStep {
    fn waits_for(&self, step: usize) -> bool {
        self.before.get(step / 64).is_some_and(|bits| bits >> (step % 64) & 1 != 0)
    }
}

impl RecordingOrder {
    /// The steps that one with such accesses has to wait for, without those that one of them waits for.
    fn before(&self, accesses: &Accesses) -> Vec<usize> {
        let reads = |range: &Range<u64>| accesses.read.iter().any(|own| meet(own, range));
        let writes = |range: &Range<u64>| accesses.written.iter().any(|own| meet(own, range));
        let behind_writes = self.written.iter().filter(|(range, _)| reads(range) || writes(range));
        let behind_reads = self.read.iter().filter(|(range, _)| writes(range));
        let mut all: Vec<usize> = behind_writes.chain(behind_reads).map(|(_, step)| *step).collect();
        all.sort_unstable();
        all.dedup();
        let is_needed = |&&step: &&usize| !all.iter().any(|&other| self.steps[other].waits_for(step));
        all.iter().filter(is_needed).copied().collect()
    }

    /// Adds a step that waits for others.
    fn add(&mut self, node: Handle, before: &[usize], accesses: Accesses) {
        let number = self.steps.len();
        let mut bits = vec![0; number.div_ceil(64)];
        for &step in before {
            self.steps[step].is_last = false;
            bits[step / 64] |= 1 << (step % 64);
            bits.iter_mut().zip(&self.steps[step].before).for_each(|(bits, inherited)| *bits |= inherited);
        }
        self.steps.push(OrderedStep { node, before: bits, is_last: true });
        let Accesses { read, written } = accesses;
        // Whoever meets what is forgotten meets this step, which waits for it.
        let is_left = |(range, _): &(Range<u64>, usize)| {
            !written.iter().any(|own| own.start <= range.start && range.end <= own.end)
        };
        self.read.retain(is_left);
        self.written.retain(is_left);
        self.read.extend(read.into_iter().map(|range| (range, number)));
        self.written.extend(written.into_iter().map(|range| (range, number)));
    }
}

/// What is recorded on the target of a device.
pub(crate) struct OrderedRecording {
    functions: &'static ConditionFunctions,
    order: RecordingOrder,
    /// What all of these steps wait for.
    base: Vec<Handle>,
}

impl OrderedRecording {
    pub fn new(functions: &'static ConditionFunctions) -> Self {
        OrderedRecording { functions, order: RecordingOrder::default(), base: Vec::new() }
    }

    /// Records a launch or a copy.
    ///
    /// # Safety
    /// As for running it. The target must be recording.
    pub unsafe fn step(
        &mut self,
        device: &mut StreamDevice<'_>,
        memory: &PlanMemory,
        step: &PlanStep,
    ) -> Result<(), Error> {
        if matches!(step, PlanStep::Copy { from, .. } if from.size == 0) {
            return Ok(());
        }
        let accesses = Accesses::of(step, memory)?;
        if self.order.steps.is_empty() {
            self.base = self.recorded(device)?.1;
        }
        let before = self.order.before(&accesses);
        let mut nodes: Vec<Handle> = before.iter().map(|&step| self.order.steps[step].node).collect();
        if nodes.is_empty() {
            nodes.clone_from(&self.base);
        }
        self.wait_for(device, &mut nodes)?;
        // SAFETY: the caller's promise.
        unsafe { run_each(slice::from_ref(step), memory, device)? };
        match self.recorded(device)?.1[..] {
            [node] => self.order.add(node, &before, accesses),
            ref nodes => return Err(Error::Plan(format!("a step is {} nodes of a graph", nodes.len()))),
        }
        Ok(())
    }

    /// What is recorded from here on waits for everything before.
    pub fn join(&mut self, device: &StreamDevice<'_>) -> Result<(), Error> {
        let steps = std::mem::take(&mut self.order).steps;
        let mut nodes: Vec<Handle> = steps.iter().filter(|step| step.is_last).map(|step| step.node).collect();
        if nodes.is_empty() { Ok(()) } else { self.wait_for(device, &mut nodes) }
    }

    /// What is recorded next waits for these nodes alone.
    pub fn wait_for(&self, device: &StreamDevice<'_>, nodes: &mut [Handle]) -> Result<(), Error> {
        // SAFETY: the nodes are of the graph that this thread is recording.
        let code = unsafe {
            (self.functions.set_capture_dependencies)(
                device.target,
                nodes.as_mut_ptr(),
                nodes.len(),
                IN_PLACE_OF_OTHERS,
            )
        };
        device.driver().check("cuStreamUpdateCaptureDependencies", code)
    }

    /// The graph that is recorded, and the nodes that the next one waits for.
    pub fn recorded(&self, device: &StreamDevice<'_>) -> Result<(Handle, Vec<Handle>), Error> {
        let (mut status, mut number, mut count) = (0, 0, 0);
        let (mut graph, mut nodes) = (ptr::null_mut(), ptr::null());
        // SAFETY: results are written to live variables.
        let code = unsafe {
            (self.functions.capture_info)(
                device.target,
                &raw mut status,
                &raw mut number,
                &raw mut graph,
                &raw mut nodes,
                &raw mut count,
            )
        };
        device.driver().check("cuStreamGetCaptureInfo", code)?;
        // SAFETY: the driver's nodes, which it keeps until the next call.
        let nodes = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(nodes, count) } };
        Ok((graph, nodes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where arrays begin and end.
    type Places<'a> = &'a [(u64, u64)];

    /// The steps that each of some steps waits for; of each, what it reads and what it writes.
    fn order(steps: &[(Places<'_>, Places<'_>)]) -> Vec<Vec<usize>> {
        let mut order = RecordingOrder::default();
        let mut all = Vec::new();
        for &(read, written) in steps {
            let ranges = |places: Places<'_>| places.iter().map(|&(first, end)| first..end).collect();
            let accesses = Accesses { read: ranges(read), written: ranges(written) };
            let before = order.before(&accesses);
            order.add(ptr::null_mut(), &before, accesses);
            all.push(before);
        }
        all
    }

    #[test]
    fn steps_wait_where_one_of_two_writes() {
        let found = order(&[
            (&[(0, 4)], &[(8, 16)]),
            (&[(0, 4)], &[(16, 24)]),
            (&[(8, 12), (20, 24)], &[(24, 32)]),
            // Where others have read, and where one has written and another has read.
            (&[], &[(0, 4)]),
            (&[], &[(12, 20)]),
        ]);
        assert_eq!(found, [vec![], vec![], vec![0, 1], vec![0, 1], vec![0, 1]]);
    }

    #[test]
    fn no_step_waits_twice() {
        let found = order(&[
            (&[], &[(0, 8)]),
            (&[(0, 8)], &[(8, 16)]),
            (&[(0, 8), (8, 16)], &[(16, 24)]),
            // All of the first step's place is another's now.
            (&[(16, 24)], &[(0, 8)]),
            (&[(0, 4)], &[(24, 32)]),
        ]);
        assert_eq!(found, [vec![], vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn what_a_step_has_read_is_remembered_behind_a_write_of_a_part() {
        let found = order(&[(&[(0, 8)], &[(8, 16)]), (&[], &[(0, 4)]), (&[], &[(4, 8)]), (&[], &[(0, 8)])]);
        assert_eq!(found, [vec![], vec![0], vec![0], vec![1, 2]]);
    }
}
