//! GPUs, and programs on them: kernels as PTX, which the driver compiles when it loads them.
//!
//! A run has memory of its own on the device: arguments and constants are copied there, results back. Everything goes
//! through one stream, in order.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use exec::runtime::RunContext;
use hlo::launch_plan::{HostCall, Launch, LaunchPlan};

use crate::driver::{DevicePointer, Driver, Handle};
use crate::execution::{self, Device, PlanMemory};
use crate::{Error, host_call};

/// The driver's numbers of what a device can be asked for: the parts of its compute capability.
const COMPUTE_CAPABILITY: [c_int; 2] = [75, 76];

/// The driver's numbers of options for loading code: a buffer for errors, and its size.
const ERROR_LOG: [c_int; 2] = [5, 6];
const ERROR_LOG_BYTES: usize = 8192;

/// Buffers begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

/// A GPU of this machine.
pub struct Gpu {
    driver: &'static Driver,
    device: c_int,
    context: Handle,
    capability: (u32, u32),
}

// SAFETY: the context is the driver's, which is made for any number of threads.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the context was retained once.
        unsafe { (self.driver.release_context)(self.device) };
    }
}

impl Gpu {
    /// The GPU of this number.
    ///
    /// # Errors
    /// [`Error::NoDriver`] and [`Error::NoDevice`], and what the driver says.
    pub fn open(number: u32) -> Result<Self, Error> {
        let driver = Driver::get()?;
        let (mut count, mut device, mut context) = (0, 0, ptr::null_mut());
        let mut capability = [0; 2];
        // SAFETY: as the driver's header says: results are written to live variables.
        unsafe {
            driver.check("cuDeviceGetCount", (driver.device_count)(&raw mut count))?;
            let wanted = c_int::try_from(number).ok().filter(|&wanted| wanted < count);
            let wanted = wanted.ok_or(Error::NoDevice { number, count: count as u32 })?;
            driver.check("cuDeviceGet", (driver.device)(&raw mut device, wanted))?;
            for (value, attribute) in capability.iter_mut().zip(COMPUTE_CAPABILITY) {
                driver.check("cuDeviceGetAttribute", (driver.device_attribute)(value, attribute, device))?;
            }
            driver.check("cuDevicePrimaryCtxRetain", (driver.retain_context)(&raw mut context, device))?;
        }
        Ok(Gpu { driver, device, context, capability: (capability[0] as u32, capability[1] as u32) })
    }

    /// Its compute capability, as in 9.0.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Makes the device the calling thread's.
    fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context is retained as long as the value lives.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.set_context)(self.context) })
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceMemory<'_>, Error> {
        let mut address = 0;
        // SAFETY: the address is written to a live variable.
        let code = unsafe { (self.driver.allocate)(&raw mut address, bytes.max(1)) };
        self.driver.check("cuMemAlloc", code)?;
        Ok(DeviceMemory { gpu: self, address })
    }
}

/// Memory of a device.
struct DeviceMemory<'g> {
    gpu: &'g Gpu,
    address: DevicePointer,
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: it was allocated, and nothing uses it any more: whoever had it waited for the stream.
        unsafe { (self.gpu.driver.free)(self.address) };
    }
}

/// Bytes of a program's buffers.
#[derive(Clone, Debug, Default)]
pub struct BufferSizes {
    /// Of the arena.
    pub arena: usize,
    /// Of the leaves of the parameters.
    pub parameters: Vec<usize>,
    /// Of the constants.
    pub constants: Vec<usize>,
    /// Of the leaves of the result.
    pub outputs: Vec<usize>,
}

/// A program on a GPU.
pub struct GpuProgram {
    gpu: Arc<Gpu>,
    module: Handle,
    kernels: HashMap<String, Handle>,
    plan: LaunchPlan,
    sizes: BufferSizes,
}

// SAFETY: the handles are the driver's, which is made for any number of threads.
unsafe impl Send for GpuProgram {}
// SAFETY: as above.
unsafe impl Sync for GpuProgram {}

impl Drop for GpuProgram {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: no run is left: each waits for its end.
            unsafe { (self.gpu.driver.unload_module)(self.module) };
        }
    }
}

impl GpuProgram {
    /// Loads the kernels of a plan, which the driver compiles for the device.
    ///
    /// # Errors
    /// For PTX that the driver refuses, with what it says about it, and without a kernel of the plan.
    pub fn load(gpu: Arc<Gpu>, ptx: &[u8], plan: LaunchPlan, sizes: BufferSizes) -> Result<Self, Error> {
        gpu.enter()?;
        let driver = gpu.driver;
        let text = CString::new(ptx).map_err(|_| Error::Plan("the kernels' code has a zero byte".into()))?;
        let mut log = vec![0u8; ERROR_LOG_BYTES];
        let mut module = ptr::null_mut();
        let values = [log.as_mut_ptr().cast::<c_void>(), ERROR_LOG_BYTES as *mut c_void];
        // SAFETY: text and buffers live through the call; the options have as many values, of the kinds that they take.
        let code = unsafe {
            (driver.load_module)(&raw mut module, text.as_ptr().cast(), 2, ERROR_LOG.as_ptr(), values.as_ptr())
        };
        driver.check("cuModuleLoadDataEx", code).map_err(|error| {
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches('\0').trim();
            if log.is_empty() { error } else { Error::Refused { reason: error.to_string(), log: log.to_string() } }
        })?;
        // From here on dropped with its module, whatever fails.
        let mut program = GpuProgram { gpu, module, kernels: HashMap::new(), plan, sizes };
        for launch in program.plan.launches() {
            if program.kernels.contains_key(&launch.kernel) {
                continue;
            }
            let name = CString::new(launch.kernel.as_str()).map_err(|error| Error::Plan(error.to_string()))?;
            let mut kernel = ptr::null_mut();
            // SAFETY: the name is a live text, the handle is written to a live variable.
            let code = unsafe { (driver.function)(&raw mut kernel, program.module, name.as_ptr()) };
            driver.check("cuModuleGetFunction", code)?;
            program.kernels.insert(launch.kernel.clone(), kernel);
        }
        Ok(program)
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
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
        let mut end = 0usize;
        let mut places = |sizes: &[usize]| -> Vec<usize> {
            let place = |&size: &usize| {
                let start = end;
                end = (end + size).next_multiple_of(ALIGNMENT);
                start
            };
            sizes.iter().map(place).collect()
        };
        let arena = places(&[self.sizes.arena]);
        let parameters = places(&self.sizes.parameters);
        let constants = places(&self.sizes.constants);
        let outputs = places(&self.sizes.outputs);
        // Before the stream, so that it is freed after the stream's end.
        let memory = self.gpu.allocate(end)?;
        let at = |places: Vec<usize>| places.into_iter().map(|place| memory.address + place as u64).collect::<Vec<_>>();
        let device_memory = PlanMemory {
            arena: memory.address + arena[0] as u64,
            parameters: at(parameters),
            constants: at(constants),
            outputs: at(outputs),
        };
        let mut device = StreamDevice::new(self, context)?;
        // SAFETY: host memory is live and as large as the sizes, by the caller's promise; device memory was made for them.
        unsafe {
            let sources = [
                (&host.parameters, &device_memory.parameters, &self.sizes.parameters),
                (&host.constants, &device_memory.constants, &self.sizes.constants),
            ];
            for (from, to, sizes) in sources {
                for ((&from, &to), &size) in from.iter().zip(to).zip(sizes) {
                    device.copy_to_device(from, to, size)?;
                }
            }
            execution::run(&self.plan, &device_memory, &mut device)?;
            for ((&to, &from), &size) in host.outputs.iter().zip(&device_memory.outputs).zip(&self.sizes.outputs) {
                let taken = host.parameters.iter().position(|&parameter| parameter == to && size > 0);
                let from = taken.map_or(from, |number| device_memory.parameters[number]);
                device.copy_to_host(from, to, size)?;
            }
        }
        device.wait()
    }
}

/// A device that does what it is asked in the order of a stream.
struct StreamDevice<'p> {
    program: &'p GpuProgram,
    context: &'p RunContext<'p>,
    stream: Handle,
}

impl Drop for StreamDevice<'_> {
    fn drop(&mut self) {
        // What the stream uses must not be freed before it is done, also after a failure.
        let _ = self.wait();
        // SAFETY: the stream is this value's own.
        unsafe { (self.driver().destroy_stream)(self.stream) };
    }
}

impl<'p> StreamDevice<'p> {
    fn new(program: &'p GpuProgram, context: &'p RunContext<'p>) -> Result<Self, Error> {
        let driver = program.gpu.driver;
        let mut stream = ptr::null_mut();
        // SAFETY: the handle is written to a live variable.
        driver.check("cuStreamCreate", unsafe { (driver.create_stream)(&raw mut stream, 0) })?;
        Ok(StreamDevice { program, context, stream })
    }

    fn driver(&self) -> &'static Driver {
        self.program.gpu.driver
    }

    fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream is this value's own.
        self.driver().check("cuStreamSynchronize", unsafe { (self.driver().synchronize)(self.stream) })
    }

    /// # Safety
    /// Both must be live memory of as many bytes, until the stream is done.
    unsafe fn copy_to_device(&self, from: u64, to: DevicePointer, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy_to_device)(to, from as *const c_void, bytes, self.stream) };
        self.driver().check("cuMemcpyHtoDAsync", code)
    }

    /// # Safety
    /// As for [`Self::copy_to_device`].
    unsafe fn copy_to_host(&self, from: DevicePointer, to: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().copy_to_host)(to as *mut c_void, from, bytes, self.stream) };
        self.driver().check("cuMemcpyDtoHAsync", code)
    }
}

// SAFETY: addresses are those of the device, and used for what the trait says.
unsafe impl Device for StreamDevice<'_> {
    unsafe fn launch(&mut self, launch: &Launch, arguments: &[u64]) -> Result<(), Error> {
        let kernel = self.program.kernels.get(&launch.kernel);
        let kernel = *kernel.ok_or_else(|| Error::Plan(format!("there is no kernel `{}`", launch.kernel)))?;
        let blocks = c_uint::try_from(launch.blocks);
        let blocks = blocks.map_err(|_| Error::Plan(format!("`{}` has {} blocks", launch.kernel, launch.blocks)))?;
        let addresses: Vec<*const u64> = arguments.iter().map(ptr::from_ref).collect();
        // SAFETY: the kernel takes eight bytes for each argument, which the driver copies before the call returns.
        let code = unsafe {
            let (x, one, none) = (launch.threads, 1, ptr::null());
            (self.driver().launch)(kernel, blocks, one, one, x, one, one, 0, self.stream, addresses.as_ptr(), none)
        };
        let launched = self.driver().check("cuLaunchKernel", code);
        launched.map_err(|error| Error::Kernel { kernel: launch.kernel.clone(), fault: error.to_string() })
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
