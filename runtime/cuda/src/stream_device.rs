//! A GPU's stream as the one who goes through the steps of a plan.
//!
//! Steps that the host does not look at between are recorded as a graph when a run comes to them for the second time with the
//! same memory, and replayed from then on: one call of the driver for all of them. Loops and switches are among them where the
//! driver's graphs have conditions (`conditions`): those are recorded at once.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::ptr;

use exec::runtime::RunContext;
use hlo::launch_plan::{HostCall, Launch, PlanStep, launches};

use crate::conditions::{Conditions, Recordable, Recorder};
use crate::driver::{DevicePointer, Driver, Handle};
use crate::execution::{Device, PlanMemory, is_of_device, run_each, run_steps};
use crate::gpu_program::GpuProgram;
use crate::recording_order::OrderedRecording;
use crate::stream::Stream;
use crate::{Error, Gpu, host_call};

/// The driver's number for a recording that concerns the calling thread only.
pub(crate) const OF_THIS_THREAD: c_int = 1;

/// Steps that are fewer cost no less as a graph.
const FEWEST_STEPS: usize = 2;

/// Graphs of steps in some memory.
#[derive(Default)]
pub(crate) struct Graphs {
    /// By the address of the first step, and how many there are.
    recordings: HashMap<(*const PlanStep, usize), Recording>,
    /// Whether the driver has refused conditions: the host reads them.
    are_unconditional: bool,
    /// Whether it has refused steps side by side.
    are_in_order: bool,
}

/// How far the recording of steps is.
enum Recording {
    /// They ran once.
    Seen,
    Graph(Graph),
}

/// A graph that can be launched.
struct Graph {
    executable: Handle,
    /// Memory for what its loops remember.
    flags: Option<DevicePointer>,
    /// Its kernels, for messages.
    launched: Launched,
}

impl Graphs {
    pub fn destroy(self, gpu: &Gpu, stream: Handle) {
        for recording in self.recordings.into_values() {
            if let Recording::Graph(Graph { executable, flags, .. }) = recording {
                // SAFETY: both were made by `StreamDevice::record`; runs that replayed the graph have ended.
                unsafe {
                    (gpu.driver.destroy_graph_exec)(executable);
                    flags.into_iter().for_each(|flags| gpu.free(flags, stream));
                }
            }
        }
    }
}

/// A device that does what it is asked in the order of a stream.
pub(crate) struct StreamDevice<'p> {
    program: &'p GpuProgram,
    context: &'p RunContext<'p>,
    graphs: &'p mut Graphs,
    pub stream: &'p mut Stream,
    /// Where launches and copies go: the stream, or one on which a part of a graph is recorded.
    pub target: Handle,
    /// The kernels since the host last waited, for messages.
    launched: Launched,
    /// Whether the run ended as it should, and was waited for.
    is_done: bool,
}

impl Drop for StreamDevice<'_> {
    fn drop(&mut self) {
        // What the stream uses must not be freed before it is done, also after a failure.
        if !self.is_done {
            self.stream.abandon();
        }
    }
}

/// Kernels that may still run, of which there are many in a loop.
#[derive(Default)]
struct Launched {
    count: usize,
    last: String,
}

impl Launched {
    fn add(&mut self, count: usize, last: &str) {
        self.count += count;
        self.last.clear();
        self.last.push_str(last);
    }

    /// Those of steps, in each of their branches.
    fn of(steps: &[PlanStep]) -> Self {
        let launches = launches(steps);
        let last = launches.last().map_or_else(String::new, |launch| launch.label());
        Launched { count: launches.len(), last }
    }
}

impl<'p> StreamDevice<'p> {
    pub fn new(
        program: &'p GpuProgram,
        context: &'p RunContext<'p>,
        graphs: &'p mut Graphs,
        stream: &'p mut Stream,
    ) -> Self {
        let target = stream.handle;
        StreamDevice { program, context, graphs, stream, target, launched: Launched::default(), is_done: false }
    }

    pub fn driver(&self) -> &'static Driver {
        self.program.gpu().driver
    }

    pub fn gpu(&self) -> &'p Gpu {
        self.program.gpu()
    }

    /// Waits for the end of the run.
    pub fn finish(mut self) -> Result<(), Error> {
        self.wait()?;
        self.is_done = true;
        Ok(())
    }

    /// Waits until everything is done. What fails is one of the kernels since the last time.
    pub fn wait(&mut self) -> Result<(), Error> {
        let launched = std::mem::take(&mut self.launched);
        self.stream.wait().map_err(|error| match launched {
            Launched { count: 0, .. } => error,
            Launched { count: 1, last } => Error::Kernel { kernel: last, fault: error.to_string() },
            Launched { count, last } => Error::OneOfKernels { count, last, fault: error.to_string() },
        })
    }

    /// What sets conditions of graphs, unless the driver has none.
    fn conditions(&self) -> Option<&'p Conditions> {
        let gpu = self.gpu();
        let conditions = || gpu.conditions.get_or_init(|| Conditions::load(gpu)).as_ref();
        if self.graphs.are_unconditional { None } else { conditions() }
    }

    /// A graph of steps.
    ///
    /// # Safety
    /// As for running them.
    unsafe fn record(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<Graph, Error> {
        let recordable = Recordable::of(steps);
        self.stream.prepare_recorders(recordable.depth)?;
        let flags = match recordable.flags {
            0 => None,
            count => Some(self.gpu().allocate(count, self.stream.handle)?),
        };
        let launched = std::mem::take(&mut self.launched);
        // SAFETY: the caller's promise.
        let executable = unsafe { self.record_executable(steps, memory, flags) };
        self.launched = launched;
        let launched = Launched::of(steps);
        let graph = |executable| Graph { executable, flags, launched };
        // SAFETY: what was recorded before the failure never runs.
        executable.map(graph).inspect_err(|_| unsafe {
            flags.into_iter().for_each(|flags| self.gpu().free(flags, self.stream.handle));
        })
    }

    /// # Safety
    /// As for running the steps.
    unsafe fn record_executable(
        &mut self,
        steps: &[PlanStep],
        memory: &PlanMemory,
        flags: Option<DevicePointer>,
    ) -> Result<Handle, Error> {
        let driver = self.driver();
        let conditions = if steps.iter().all(is_of_device) { None } else { self.conditions() };
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is this value's own; what is called meanwhile only adds to the graph.
        unsafe {
            driver.check("cuStreamBeginCapture", (driver.begin_capture)(self.target, OF_THIS_THREAD))?;
            let recorded = match conditions {
                Some(conditions) => Recorder::new(self, memory, conditions, flags).graph(steps),
                None => self.record_device_steps(steps, memory),
            };
            // Ended whatever came between.
            let ended = driver.check("cuStreamEndCapture", (driver.end_capture)(self.target, &raw mut graph));
            let made = recorded.and(ended).and_then(|()| {
                let made = (driver.instantiate_graph)(&raw mut executable, graph, 0);
                driver.check("cuGraphInstantiate", made)
            });
            if !graph.is_null() {
                (driver.destroy_graph)(graph);
            }
            made?;
        }
        Ok(executable)
    }

    /// Records launches and copies, each behind those that it has to wait for, or else in order.
    ///
    /// # Safety
    /// As for running them. The target must be recording.
    unsafe fn record_device_steps(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.driver().conditions {
                Some(functions) if !self.graphs.are_in_order => {
                    let mut recording = OrderedRecording::new(functions);
                    steps.iter().try_for_each(|step| recording.step(self, memory, step))?;
                    recording.join(self)
                }
                _ => run_each(steps, memory, self),
            }
        }
    }

    /// Launches a function of the driver's.
    ///
    /// # Safety
    /// It must take eight bytes for each argument, and arrays among these be live as long as it may run.
    pub unsafe fn launch_function(
        &mut self,
        function: Handle,
        [blocks, threads, shared]: [c_uint; 3],
        arguments: &[u64],
    ) -> Result<(), Error> {
        let addresses: Vec<*const u64> = arguments.iter().map(ptr::from_ref).collect();
        // SAFETY: the caller's promise; the driver copies the arguments before the call returns.
        let code = unsafe {
            let (one, none) = (1, ptr::null());
            let (blocks, threads) = ([blocks, one, one], [threads, one, one]);
            (self.driver().launch)(
                function,
                blocks[0],
                blocks[1],
                blocks[2],
                threads[0],
                threads[1],
                threads[2],
                shared,
                self.target,
                addresses.as_ptr(),
                none,
            )
        };
        self.driver().check("cuLaunchKernel", code)
    }
}

// SAFETY: addresses are those of the device, and used for what the trait says.
unsafe impl Device for StreamDevice<'_> {
    fn takes(&self, step: &PlanStep) -> bool {
        is_of_device(step) || (self.conditions().is_some() && Recordable::is_recordable(step))
    }

    unsafe fn stretch(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<(), Error> {
        let key = (steps.as_ptr(), steps.len());
        if !matches!(self.graphs.recordings.get(&key), Some(Recording::Graph(_))) {
            let is_first = self.graphs.recordings.insert(key, Recording::Seen).is_none();
            let is_plain = steps.iter().all(is_of_device);
            if is_plain && (is_first || steps.len() < FEWEST_STEPS) {
                // SAFETY: the caller's promise.
                return unsafe { run_each(steps, memory, self) };
            }
            // SAFETY: the caller's promise.
            let mut recorded = unsafe { self.record(steps, memory) };
            if recorded.is_err() && is_plain && !self.graphs.are_in_order {
                self.graphs.are_in_order = true;
                // SAFETY: the caller's promise.
                recorded = unsafe { self.record(steps, memory) };
            }
            match recorded {
                Ok(graph) => self.graphs.recordings.insert(key, Recording::Graph(graph)),
                Err(error) if is_plain => return Err(error),
                Err(_) => {
                    self.graphs.are_unconditional = true;
                    // SAFETY: the caller's promise.
                    return unsafe { run_steps(steps, memory, self) };
                }
            };
        }
        let Some(Recording::Graph(graph)) = self.graphs.recordings.get(&key) else { return Ok(()) };
        self.launched.add(graph.launched.count, &graph.launched.last);
        // SAFETY: the graph was recorded with this memory.
        self.driver()
            .check("cuGraphLaunch", unsafe { (self.driver().launch_graph)(graph.executable, self.stream.handle) })
    }

    unsafe fn launch(&mut self, launch: &Launch, arguments: &[u64]) -> Result<(), Error> {
        let kernel = self.program.kernels.get(&launch.kernel);
        let kernel = *kernel.ok_or_else(|| Error::Plan(format!("there is no kernel `{}`", launch.kernel)))?;
        let blocks = c_uint::try_from(launch.blocks);
        let blocks = blocks.map_err(|_| Error::Plan(format!("`{}` has {} blocks", launch.kernel, launch.blocks)))?;
        // SAFETY: kernels of a plan take eight bytes for each argument; the rest is the caller's promise.
        let launched = unsafe { self.launch_function(kernel, [blocks, launch.threads, launch.shared], arguments) };
        launched.map_err(|error| Error::Kernel { kernel: launch.label(), fault: error.to_string() })?;
        self.launched.count += 1;
        self.launched.last.clear();
        launch.add_label(&mut self.launched.last);
        Ok(())
    }

    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy)(to, from, bytes, self.target) };
        self.driver().check("cuMemcpyDtoDAsync", code)
    }

    unsafe fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller's promise; the bytes live until the stream is done, which is waited for.
        unsafe { self.stream.download(from, bytes.as_mut_ptr() as u64, bytes.len())? };
        self.wait()
    }

    unsafe fn host_call(&mut self, call: &HostCall, operands: &[u64], results: &[u64]) -> Result<(), Error> {
        // Words, so that every type is aligned.
        let memory = |bytes: usize| vec![0u128; bytes.div_ceil(16).max(1)];
        let mut inputs: Vec<Vec<u128>> = call.operands.iter().map(|slice| memory(slice.size)).collect();
        let mut outputs: Vec<Vec<u128>> = call.results.iter().map(|slice| memory(slice.size)).collect();
        // SAFETY: device memory by the caller's promise; the host's was made for it, and the stream is waited for, unless what is
        // uploaded is not needed any more.
        unsafe {
            for ((&from, to), slice) in operands.iter().zip(&mut inputs).zip(&call.operands) {
                self.stream.download(from, to.as_mut_ptr() as u64, slice.size)?;
            }
            if !inputs.is_empty() {
                self.wait()?;
            }
            let addresses =
                |arrays: &mut [Vec<u128>]| arrays.iter_mut().map(|array| array.as_mut_ptr() as u64).collect::<Vec<_>>();
            host_call::call(call, self.context, &addresses(&mut inputs), &addresses(&mut outputs))?;
            for ((&to, from), slice) in results.iter().zip(&outputs).zip(&call.results) {
                self.stream.upload(from.as_ptr() as u64, to, slice.size)?;
            }
        }
        if self.stream.is_staged() { Ok(()) } else { self.wait() }
    }
}
