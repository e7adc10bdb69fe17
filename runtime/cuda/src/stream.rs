//! A GPU's stream, through which everything of a run goes in order.
//!
//! Steps that the host does not look at between are recorded as a graph when a run comes to them for the second time with the
//! same memory, and replayed from then on: one call of the driver for all of them.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::time::Duration;

use exec::runtime::RunContext;
use hlo::launch_plan::{HostCall, Launch, PlanStep};

use crate::driver::{DevicePointer, Driver, Handle};
use crate::execution::{Device, PlanMemory, run_each};
use crate::gpu_program::GpuProgram;
use crate::{Error, host_call};

/// The driver's number for a recording that concerns the calling thread only.
const OF_THIS_THREAD: c_int = 1;

/// Steps that are fewer cost no less as a graph.
const FEWEST_STEPS: usize = 2;

/// Graphs of steps, by the address of the first.
#[derive(Default)]
pub(crate) struct Graphs(HashMap<*const PlanStep, Recording>);

/// How far the recording of steps is.
enum Recording {
    /// They ran once.
    Seen,
    Graph(Handle),
}

impl Graphs {
    pub fn destroy(self, driver: &Driver) {
        for recording in self.0.into_values() {
            if let Recording::Graph(graph) = recording {
                // SAFETY: the graph was made by `StreamDevice::record`; runs that replayed it have ended.
                unsafe { (driver.destroy_graph_exec)(graph) };
            }
        }
    }
}

/// A device that does what it is asked in the order of a stream.
pub(crate) struct StreamDevice<'p> {
    program: &'p GpuProgram,
    context: &'p RunContext<'p>,
    graphs: &'p mut Graphs,
    stream: Handle,
    /// At the beginning and at the end of the work.
    events: [Handle; 2],
    /// The kernels since the host last waited, for messages.
    launched: Launched,
}

impl Drop for StreamDevice<'_> {
    fn drop(&mut self) {
        // What the stream uses must not be freed before it is done, also after a failure.
        // SAFETY: stream and events are this value's own.
        unsafe {
            let driver = self.driver();
            (driver.synchronize)(self.stream);
            self.events.iter().filter(|event| !event.is_null()).for_each(|&event| {
                (driver.destroy_event)(event);
            });
            (driver.destroy_stream)(self.stream);
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
    fn add(&mut self, kernel: &str) {
        self.count += 1;
        self.last.clear();
        self.last.push_str(kernel);
    }
}

impl<'p> StreamDevice<'p> {
    pub fn new(program: &'p GpuProgram, context: &'p RunContext<'p>, graphs: &'p mut Graphs) -> Result<Self, Error> {
        let driver = program.gpu.driver;
        let mut stream = ptr::null_mut();
        // SAFETY: the handle is written to a live variable.
        driver.check("cuStreamCreate", unsafe { (driver.create_stream)(&raw mut stream, 0) })?;
        let mut device = StreamDevice {
            program,
            context,
            graphs,
            stream,
            events: [ptr::null_mut(); 2],
            launched: Launched::default(),
        };
        for event in &mut device.events {
            // SAFETY: as above.
            driver.check("cuEventCreate", unsafe { (driver.create_event)(event, 0) })?;
        }
        Ok(device)
    }

    fn driver(&self) -> &'static Driver {
        self.program.gpu.driver
    }

    /// Waits until everything is done. What fails is one of the kernels since the last time.
    pub fn wait(&mut self) -> Result<(), Error> {
        let launched = std::mem::take(&mut self.launched);
        // SAFETY: the stream is this value's own.
        let waited = self.driver().check("cuStreamSynchronize", unsafe { (self.driver().synchronize)(self.stream) });
        waited.map_err(|error| match launched {
            Launched { count: 0, .. } => error,
            Launched { count: 1, last } => Error::Kernel { kernel: last, fault: error.to_string() },
            Launched { count, last } => Error::OneOfKernels { count, last, fault: error.to_string() },
        })
    }

    /// The work that is timed begins.
    pub fn start_clock(&mut self) -> Result<(), Error> {
        self.record_event(0)
    }

    /// The work that is timed ends.
    pub fn stop_clock(&mut self) -> Result<(), Error> {
        self.record_event(1)
    }

    fn record_event(&mut self, number: usize) -> Result<(), Error> {
        // SAFETY: stream and event are this value's own.
        let code = unsafe { (self.driver().record_event)(self.events[number], self.stream) };
        self.driver().check("cuEventRecord", code)
    }

    /// The time between start and stop, once the stream was waited for.
    pub fn clock(&self) -> Result<Duration, Error> {
        let mut milliseconds = 0f32;
        let [start, end] = self.events;
        // SAFETY: both events were recorded, and the time is written to a live variable.
        let code = unsafe { (self.driver().elapsed)(&raw mut milliseconds, start, end) };
        self.driver().check("cuEventElapsedTime", code)?;
        Ok(Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default())
    }

    /// # Safety
    /// Both must be live memory of as many bytes, until the stream is done.
    pub unsafe fn copy_to_device(&self, from: u64, to: DevicePointer, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy_to_device)(to, from as *const c_void, bytes, self.stream) };
        self.driver().check("cuMemcpyHtoDAsync", code)
    }

    /// # Safety
    /// As for [`Self::copy_to_device`].
    pub unsafe fn copy_to_host(&self, from: DevicePointer, to: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy_to_host)(to as *mut c_void, from, bytes, self.stream) };
        self.driver().check("cuMemcpyDtoHAsync", code)
    }

    /// A graph of steps.
    ///
    /// # Safety
    /// As for running them.
    unsafe fn record(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<Handle, Error> {
        let driver = self.driver();
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is this value's own; what is called meanwhile only adds to the graph.
        unsafe {
            driver.check("cuStreamBeginCapture", (driver.begin_capture)(self.stream, OF_THIS_THREAD))?;
            let recorded = run_each(steps, memory, self);
            // Ended whatever came between.
            let ended = driver.check("cuStreamEndCapture", (driver.end_capture)(self.stream, &raw mut graph));
            recorded.and(ended)?;
            let made = (driver.instantiate_graph)(&raw mut executable, graph, 0);
            (driver.destroy_graph)(graph);
            driver.check("cuGraphInstantiate", made)?;
        }
        Ok(executable)
    }
}

// SAFETY: addresses are those of the device, and used for what the trait says.
unsafe impl Device for StreamDevice<'_> {
    unsafe fn stretch(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<(), Error> {
        let key = steps.as_ptr();
        let graph = match self.graphs.0.get(&key) {
            Some(Recording::Graph(graph)) => *graph,
            recording => {
                let is_first = recording.is_none();
                if is_first || steps.len() < FEWEST_STEPS {
                    self.graphs.0.insert(key, Recording::Seen);
                    // SAFETY: the caller's promise.
                    return unsafe { run_each(steps, memory, self) };
                }
                // SAFETY: the caller's promise.
                let graph = unsafe { self.record(steps, memory)? };
                self.graphs.0.insert(key, Recording::Graph(graph));
                graph
            }
        };
        for step in steps {
            if let PlanStep::Launch(launch) = step {
                self.launched.add(&launch.kernel);
            }
        }
        // SAFETY: the graph was recorded with this memory.
        self.driver().check("cuGraphLaunch", unsafe { (self.driver().launch_graph)(graph, self.stream) })
    }

    unsafe fn launch(&mut self, launch: &Launch, arguments: &[u64]) -> Result<(), Error> {
        let kernel = self.program.kernels.get(&launch.kernel);
        let kernel = *kernel.ok_or_else(|| Error::Plan(format!("there is no kernel `{}`", launch.kernel)))?;
        let blocks = c_uint::try_from(launch.blocks);
        let blocks = blocks.map_err(|_| Error::Plan(format!("`{}` has {} blocks", launch.kernel, launch.blocks)))?;
        let addresses: Vec<*const u64> = arguments.iter().map(ptr::from_ref).collect();
        // SAFETY: the kernel takes eight bytes for each argument, which the driver copies before the call returns.
        let code = unsafe {
            let (x, one, none) = (launch.threads, 1, ptr::null());
            (self.driver().launch)(
                kernel,
                blocks,
                one,
                one,
                x,
                one,
                one,
                launch.shared,
                self.stream,
                addresses.as_ptr(),
                none,
            )
        };
        let launched = self.driver().check("cuLaunchKernel", code);
        launched.map_err(|error| Error::Kernel { kernel: launch.kernel.clone(), fault: error.to_string() })?;
        self.launched.add(&launch.kernel);
        Ok(())
    }

    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy)(to, from, bytes, self.stream) };
        self.driver().check("cuMemcpyDtoDAsync", code)
    }

    unsafe fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller's promise; the bytes live until the stream is done, which is waited for.
        unsafe { self.copy_to_host(from, bytes.as_mut_ptr() as u64, bytes.len())? };
        self.wait()
    }

    unsafe fn host_call(&mut self, call: &HostCall, operands: &[u64], results: &[u64]) -> Result<(), Error> {
        // Words, so that every type is aligned.
        let memory = |bytes: usize| vec![0u128; bytes.div_ceil(16).max(1)];
        let mut inputs: Vec<Vec<u128>> = call.operands.iter().map(|slice| memory(slice.size)).collect();
        let mut outputs: Vec<Vec<u128>> = call.results.iter().map(|slice| memory(slice.size)).collect();
        // SAFETY: device memory by the caller's promise; the host's was made for it, and the stream is waited for.
        unsafe {
            for ((&from, to), slice) in operands.iter().zip(&mut inputs).zip(&call.operands) {
                self.copy_to_host(from, to.as_mut_ptr() as u64, slice.size)?;
            }
            self.wait()?;
            let addresses =
                |arrays: &mut [Vec<u128>]| arrays.iter_mut().map(|array| array.as_mut_ptr() as u64).collect::<Vec<_>>();
            host_call::call(call, self.context, &addresses(&mut inputs), &addresses(&mut outputs))?;
            for ((&to, from), slice) in results.iter().zip(&outputs).zip(&call.results) {
                self.copy_to_device(from.as_ptr() as u64, to, slice.size)?;
            }
        }
        self.wait()
    }
}
