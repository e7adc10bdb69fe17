//! Programs on a GPU: kernels as PTX, which the driver compiles when it loads them.
//!
//! Constants are on the device as long as the program is. A run takes memory for everything else, which is kept for the next
//! one: arguments are copied there, results back. Everything goes through one stream, in order.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exec::runtime::RunContext;
use hlo::buffers::Slice;
use hlo::launch_plan::{Boxes, LaunchPlan};

use crate::box_table::{self, DESCRIPTION_BYTES};
use crate::driver::{DevicePointer, Handle};
use crate::execution::{self, PlanMemory};
use crate::stream::Stream;
use crate::stream_device::{Graphs, StreamDevice};
use crate::{Error, Gpu};

/// Buffers begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

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
}

/// A program on a GPU.
pub struct GpuProgram {
    pub(crate) gpu: Arc<Gpu>,
    module: Handle,
    pub(crate) kernels: HashMap<String, Handle>,
    plan: LaunchPlan,
    sizes: BufferSizes,
    /// Where the constants are, and where all of them begin.
    constants: Vec<DevicePointer>,
    constant_memory: Option<DevicePointer>,
    /// Memory of runs that have ended.
    unused: Mutex<Vec<RunMemory>>,
    device_time: Mutex<Option<Duration>>,
}

/// What a run has on the device: graphs replay steps on the memory that they were recorded with.
struct RunMemory {
    start: DevicePointer,
    places: PlanMemory,
    graphs: Graphs,
    stream: Stream,
}

// SAFETY: the handles are the driver's, which is made for any number of threads.
unsafe impl Send for GpuProgram {}
// SAFETY: as above.
unsafe impl Sync for GpuProgram {}

impl Drop for GpuProgram {
    fn drop(&mut self) {
        if self.gpu.enter().is_err() {
            return;
        }
        let unused = std::mem::take(self.unused.get_mut().unwrap_or_else(PoisonError::into_inner));
        unused.into_iter().for_each(|memory| self.release(memory));
        // SAFETY: no run is left: each waits for its end.
        unsafe {
            if let Some(constants) = self.constant_memory {
                self.gpu.free(constants, ptr::null_mut());
            }
            (self.gpu.driver.unload_module)(self.module);
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
        gpu: Arc<Gpu>,
        ptx: &[u8],
        plan: LaunchPlan,
        sizes: BufferSizes,
        constants: &[&[u8]],
    ) -> Result<Self, Error> {
        if let Some(obstacle) = gpu.obstacle(ptx) {
            return Err(Error::WrongArchitecture(obstacle));
        }
        if !plan.boxes().is_empty() {
            box_table::functions(&gpu)?;
        }
        gpu.enter()?;
        let text = CString::new(ptx).map_err(|_| Error::Plan("the kernels' code has a zero byte".into()))?;
        let module = gpu.load_module(&text)?;
        // From here on dropped with its module, whatever fails.
        let mut program = GpuProgram {
            gpu,
            module,
            kernels: HashMap::new(),
            plan,
            sizes,
            constants: Vec::new(),
            constant_memory: None,
            unused: Mutex::default(),
            device_time: Mutex::default(),
        };
        for launch in program.plan.launches() {
            if program.kernels.contains_key(&launch.kernel) {
                continue;
            }
            let name = CString::new(launch.kernel.as_str()).map_err(|error| Error::Plan(error.to_string()))?;
            let kernel = program.gpu.kernel(program.module, &name)?;
            if launch.shared > 0 {
                let bytes = c_int::try_from(launch.shared);
                let bytes = bytes.map_err(|_| Error::Plan(format!("`{}` shares too much memory", launch.kernel)))?;
                let driver = program.gpu.driver;
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
        let mut stream = Stream::new(&self.gpu, places.end)?;
        let start = self.gpu.allocate(places.end, stream.handle)?;
        self.constant_memory = Some(start);
        for (offset, constant) in offsets.into_iter().zip(constants) {
            let address = start + offset as u64;
            // SAFETY: the memory was made for them, which live until the stream is done, which is waited for.
            unsafe { stream.upload(constant.as_ptr() as u64, address, constant.len())? };
            self.constants.push(address);
        }
        stream.wait()
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// How long the device worked in the last run that ended, copies from and to the host left out.
    pub fn device_time(&self) -> Option<Duration> {
        *self.device_time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unused(&self) -> std::sync::MutexGuard<'_, Vec<RunMemory>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> Result<RunMemory, Error> {
        if let Some(memory) = self.unused().pop() {
            return Ok(memory);
        }
        let mut places = Places::default();
        let mut all = |sizes: &[usize]| sizes.iter().map(|&size| places.place(size) as u64).collect::<Vec<_>>();
        let arena = all(&[self.sizes.arena]);
        let (parameters, outputs) = (all(&self.sizes.parameters), all(&self.sizes.outputs));
        let described = self.plan.boxes();
        let table = places.place(described.len() * DESCRIPTION_BYTES) as u64;
        let transferred = self.sizes.parameters.iter().chain(&self.sizes.outputs).sum();
        let mut stream = Stream::new(&self.gpu, transferred)?;
        let start = self.gpu.allocate(places.end, stream.handle)?;
        let at = |places: Vec<u64>| places.into_iter().map(|place| start + place).collect::<Vec<_>>();
        let mut places = PlanMemory {
            arena: start + arena[0],
            parameters: at(parameters),
            constants: self.constants.clone(),
            outputs: at(outputs),
            boxes: Vec::new(),
        };
        match self.describe(&mut places, (described, start + table), &mut stream) {
            Ok(()) => Ok(RunMemory { start, places, graphs: Graphs::default(), stream }),
            Err(error) => {
                // SAFETY: nothing but the stream has used it.
                unsafe { self.gpu.free(start, stream.handle) };
                Err(error)
            }
        }
    }

    /// Makes the descriptions of boxes of arrays at their places, in a table.
    fn describe(
        &self,
        places: &mut PlanMemory,
        (described, table): (Vec<(Slice, Boxes)>, DevicePointer),
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let mut descriptions = Vec::with_capacity(described.len());
        for (number, (slice, boxes)) in (0..).zip(described) {
            let description = box_table::describe(&self.gpu, places.address(slice)?, boxes)?;
            let address = table + number * DESCRIPTION_BYTES as u64;
            places.boxes.push(((slice, boxes), address));
            descriptions.push((description, address));
        }
        for (description, address) in &descriptions {
            // SAFETY: the table was made for them; they live until the stream is done, which is waited for.
            unsafe { stream.upload(std::ptr::from_ref(description) as u64, *address, DESCRIPTION_BYTES)? };
        }
        if descriptions.is_empty() { Ok(()) } else { stream.wait() }
    }

    fn release(&self, memory: RunMemory) {
        let RunMemory { start, graphs, stream, .. } = memory;
        graphs.destroy(&self.gpu, stream.handle);
        // SAFETY: the run that used it has ended.
        unsafe { self.gpu.free(start, stream.handle) };
    }

    /// Runs the program on memory of the host, to which its results are copied. A parameter whose address is that of a
    /// result is one whose place the result takes.
    ///
    /// # Safety
    /// The memory must be that of the program, live and used by nothing else.
    ///
    /// # Errors
    /// For memory that the device does not have, and for kernels that fail.
    pub unsafe fn run(&self, host: &PlanMemory, context: &RunContext<'_>) -> Result<(), Error> {
        self.gpu.enter()?;
        let mut memory = self.memory()?;
        // SAFETY: the caller's promise.
        let run = unsafe { self.run_in(&mut memory, host, context) };
        match &run {
            Ok(()) => self.unused().push(memory),
            // After a failure nobody knows what graphs are good for.
            Err(_) => self.release(memory),
        }
        run
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_in(&self, memory: &mut RunMemory, host: &PlanMemory, context: &RunContext<'_>) -> Result<(), Error> {
        let RunMemory { places, graphs, stream, .. } = memory;
        let mut device = StreamDevice::new(self, context, graphs, stream);
        // SAFETY: host memory is live and as large as the sizes, by the caller's promise; device memory was made for them.
        unsafe {
            let arguments = host.parameters.iter().zip(&places.parameters).zip(&self.sizes.parameters);
            for ((&from, &to), &size) in arguments {
                device.stream.upload(from, to, size)?;
            }
            device.stream.start_clock()?;
            execution::run(&self.plan, places, &mut device)?;
            device.stream.stop_clock()?;
            for ((&to, &from), &size) in host.outputs.iter().zip(&places.outputs).zip(&self.sizes.outputs) {
                let taken = host.parameters.iter().position(|&parameter| parameter == to && size > 0);
                let from = taken.map_or(from, |number| places.parameters[number]);
                device.stream.download(from, to, size)?;
            }
        }
        device.wait()?;
        *self.device_time.lock().unwrap_or_else(PoisonError::into_inner) = Some(device.stream.clock()?);
        Ok(())
    }
}

/// Places for buffers, one behind the other.
#[derive(Default)]
struct Places {
    end: usize,
}

impl Places {
    fn place(&mut self, size: usize) -> usize {
        let start = self.end;
        self.end = (start + size).next_multiple_of(ALIGNMENT);
        start
    }
}

#[cfg(test)]
mod tests;
