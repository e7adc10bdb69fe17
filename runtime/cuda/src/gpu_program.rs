//! Programs on a GPU: kernels as PTX, which the driver compiles when it loads them.
//!
//! Constants are on the device as long as the program is. A run uses arrays that are on the device where they are; for the arena,
//! and for arrays that come from the host or go there, it takes memory (`run_memory`), which is kept for the next one. Everything
//! goes through one stream, in order.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use exec::runtime::RunContext;
use hlo::launch_plan::LaunchPlan;

use crate::box_table;
use crate::cubins::KernelCode;
use crate::device_memory::GpuMemory;
use crate::driver::{DevicePointer, Handle};
use crate::execution::{self, Device};
use crate::run_memory::{Places, RunMemory};
use crate::stream::Stream;
use crate::stream_device::StreamDevice;
use crate::{Error, Gpu};

/// The driver's number for how much shared memory launches of a kernel may give it.
const MOST_SHARED_BYTES: c_int = 8;

/// Bytes of a program's buffers.
#[derive(Clone, Debug, Default)]
pub struct BufferSizes {
    /// Of the arena.
    pub arena: usize,
    /// Of the leaves of the parameters.
    pub parameters: Vec<usize>,
    /// Of the leaves of the result.
    pub outputs: Vec<usize>,
    /// By result, the parameter whose place it takes.
    pub aliases: Vec<Option<usize>>,
}

/// Where an array of a run is: an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayPlace {
    /// Of the host.
    Host(u64),
    /// Of the device.
    Device(u64),
}

/// The arrays of a run. A result in the place of a parameter may be where the argument is, which is then overwritten; elsewhere
/// the argument is copied there first.
#[derive(Clone, Debug, Default)]
pub struct RunArrays {
    /// The leaves of the arguments.
    pub parameters: Vec<ArrayPlace>,
    /// The leaves of the result.
    pub outputs: Vec<ArrayPlace>,
}

/// A program on a GPU.
pub struct GpuProgram {
    pub(crate) memory: Arc<GpuMemory>,
    module: Handle,
    pub(crate) kernels: HashMap<String, Handle>,
    pub(crate) plan: LaunchPlan,
    pub(crate) sizes: BufferSizes,
    /// Where the constants are, and where all of them begin.
    pub(crate) constants: Vec<DevicePointer>,
    constant_memory: Option<DevicePointer>,
    /// Memory of runs that have ended.
    unused: Mutex<Vec<RunMemory>>,
    /// Whether runs are timed by the device.
    is_timed: AtomicBool,
    times: Mutex<RunTimes>,
}

/// Times of the last runs.
#[derive(Clone, Copy, Debug, Default)]
struct RunTimes {
    /// How long it took to give the device all of it.
    launch: Option<Duration>,
    /// How long the device worked, of the last run that it timed.
    device: Option<Duration>,
}

// SAFETY: the handles are the driver's, which is made for any number of threads.
unsafe impl Send for GpuProgram {}
// SAFETY: as above.
unsafe impl Sync for GpuProgram {}

impl Drop for GpuProgram {
    fn drop(&mut self) {
        let gpu = &self.memory.gpu;
        if gpu.enter().is_err() {
            return;
        }
        let unused = std::mem::take(self.unused.get_mut().unwrap_or_else(PoisonError::into_inner));
        unused.into_iter().for_each(|memory| memory.release(gpu));
        // SAFETY: no run is left: each waits for its end.
        unsafe {
            if let Some(constants) = self.constant_memory {
                gpu.free(constants, ptr::null_mut());
            }
            (gpu.driver.unload_module)(self.module);
        }
    }
}

impl GpuProgram {
    /// Loads the kernels of a plan, which the driver compiles for the device, and constants.
    ///
    /// # Errors
    /// For kernels of another architecture, for PTX that the driver refuses, with what it says about it, without a kernel of
    /// the plan, and for constants that the device has no memory for.
    pub fn load(
        memory: Arc<GpuMemory>,
        code: KernelCode<'_>,
        plan: LaunchPlan,
        sizes: BufferSizes,
        constants: &[&[u8]],
    ) -> Result<Self, Error> {
        let gpu = &memory.gpu;
        if let Some(obstacle) = gpu.obstacle(code.ptx) {
            return Err(Error::WrongArchitecture(obstacle));
        }
        if !plan.boxes().is_empty() {
            box_table::functions(gpu)?;
        }
        gpu.enter()?;
        let module = gpu.load_kernels(&code)?;
        // From here on dropped with its module, whatever fails.
        let mut program = GpuProgram {
            memory,
            module,
            kernels: HashMap::new(),
            plan,
            sizes,
            constants: Vec::new(),
            constant_memory: None,
            unused: Mutex::default(),
            is_timed: AtomicBool::default(),
            times: Mutex::default(),
        };
        for launch in program.plan.launches() {
            if program.kernels.contains_key(&launch.kernel) {
                continue;
            }
            let name = CString::new(launch.kernel.as_str()).map_err(|error| Error::Plan(error.to_string()))?;
            let kernel = program.gpu().kernel(program.module, &name)?;
            if launch.shared > 0 {
                let bytes = c_int::try_from(launch.shared);
                let bytes = bytes.map_err(|_| Error::Plan(format!("`{}` shares too much memory", launch.kernel)))?;
                let driver = program.gpu().driver;
                // SAFETY: the kernel is one of the module's.
                let code = unsafe { (driver.set_function_attribute)(kernel, MOST_SHARED_BYTES, bytes) };
                driver.check("cuFuncSetAttribute", code).map_err(|error| Error::SharedMemory {
                    kernel: launch.kernel.clone(),
                    bytes,
                    reason: error.to_string(),
                })?;
            }
            program.kernels.insert(launch.kernel.clone(), kernel);
        }
        program.upload(constants)?;
        Ok(program)
    }

    fn upload(&mut self, constants: &[&[u8]]) -> Result<(), Error> {
        let mut places = Places::default();
        let offsets: Vec<usize> = constants.iter().map(|constant| places.place(constant.len())).collect();
        if places.end == 0 {
            self.constants = vec![0; constants.len()];
            return Ok(());
        }
        let mut stream = Stream::new(&self.memory.gpu, places.end)?;
        let start = self.memory.allocate(places.end, stream.handle)?;
        self.constant_memory = Some(start);
        for (offset, constant) in offsets.into_iter().zip(constants) {
            let address = start + offset as u64;
            // SAFETY: the memory was made for them, which live until the stream is done, which is waited for.
            unsafe { stream.upload(constant.as_ptr() as u64, address, constant.len())? };
            self.constants.push(address);
        }
        stream.wait()
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.memory.gpu
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Whether the device is to time the runs from now on, which costs each a few microseconds.
    pub fn time_device(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Ordering::Relaxed);
    }

    /// How long the device worked in the last run that it timed, copies from and to the host left out.
    pub fn device_time(&self) -> Option<Duration> {
        self.times().device
    }

    /// How long the host took in the last run that ended well until the device had been given all of it: what is left is waiting.
    pub fn launch_time(&self) -> Option<Duration> {
        self.times().launch
    }

    fn times(&self) -> MutexGuard<'_, RunTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unused(&self) -> MutexGuard<'_, Vec<RunMemory>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the program.
    ///
    /// # Safety
    /// The arrays must be those of the program, live and as large as it says; nothing else may use those that are written.
    ///
    /// # Errors
    /// For memory that the device does not have, and for kernels that fail.
    pub unsafe fn run(&self, arrays: &RunArrays, context: &RunContext<'_>) -> Result<(), Error> {
        self.gpu().enter()?;
        let kept = self.unused().pop();
        let mut memory = match kept {
            Some(memory) => memory,
            None => RunMemory::new(self)?,
        };
        // SAFETY: the caller's promise.
        let run = unsafe { self.run_in(&mut memory, arrays, context) };
        match &run {
            Ok(()) => self.unused().push(memory),
            // After a failure nobody knows what graphs are good for.
            Err(_) => memory.release(self.gpu()),
        }
        run
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_in(&self, memory: &mut RunMemory, arrays: &RunArrays, context: &RunContext<'_>) -> Result<(), Error> {
        let is_timed = self.is_timed.load(Ordering::Relaxed);
        let start = Instant::now();
        let (places, graphs, stream) = memory.prepare(self, arrays)?;
        let mut device = StreamDevice::new(self, context, graphs, stream);
        // SAFETY: the arrays are live and as large as the sizes, by the caller's promise; other memory was made for them.
        unsafe {
            let arguments = arrays.parameters.iter().zip(&places.parameters).zip(&self.sizes.parameters);
            for ((&from, &to), &size) in arguments {
                match from {
                    ArrayPlace::Host(from) => device.stream.upload(from, to, size)?,
                    ArrayPlace::Device(from) if from != to && size > 0 => device.copy(from, to, size)?,
                    ArrayPlace::Device(_) => {}
                }
            }
            if is_timed {
                device.stream.start_clock()?;
            }
            execution::run(&self.plan, places, &mut device)?;
            if is_timed {
                device.stream.stop_clock()?;
            }
            for ((&to, &from), &size) in arrays.outputs.iter().zip(&places.outputs).zip(&self.sizes.outputs) {
                if let ArrayPlace::Host(to) = to {
                    device.stream.download(from, to, size)?;
                }
            }
        }
        let launch_time = start.elapsed();
        device.finish()?;
        self.times().launch = Some(launch_time);
        if is_timed {
            self.times().device = Some(memory.stream().clock()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
