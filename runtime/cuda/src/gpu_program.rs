//! Programs on a GPU: kernels as PTX, which the driver compiles when it loads them.
//!
//! Constants are on the device as long as the program is. A run takes memory for everything else, which is kept for the next
//! one: arguments are copied there, results back. Everything goes through one stream, in order.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exec::runtime::RunContext;
use hlo::launch_plan::LaunchPlan;

use crate::driver::{DevicePointer, Handle};
use crate::execution::{self, PlanMemory};
use crate::stream::{Graphs, StreamDevice};
use crate::{Error, Gpu};

/// The driver's numbers of options for loading code: a buffer for errors, and its size.
const ERROR_LOG: [i32; 2] = [5, 6];
const ERROR_LOG_BYTES: usize = 8192;

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
                self.gpu.free(constants);
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
            let mut kernel = ptr::null_mut();
            // SAFETY: the name is a live text, the handle is written to a live variable.
            let code = unsafe { (driver.function)(&raw mut kernel, program.module, name.as_ptr()) };
            driver.check("cuModuleGetFunction", code)?;
            if launch.shared > 0 {
                let bytes = c_int::try_from(launch.shared);
                let bytes = bytes.map_err(|_| Error::Plan(format!("`{}` shares too much memory", launch.kernel)))?;
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
        let start = self.gpu.allocate(places.end)?;
        self.constant_memory = Some(start);
        for (offset, constant) in offsets.into_iter().zip(constants) {
            let address = start + offset as u64;
            // SAFETY: the memory was made for them.
            unsafe { self.gpu.upload(constant, address)? };
            self.constants.push(address);
        }
        Ok(())
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
        let start = self.gpu.allocate(places.end)?;
        let at = |places: Vec<u64>| places.into_iter().map(|place| start + place).collect::<Vec<_>>();
        let places = PlanMemory {
            arena: start + arena[0],
            parameters: at(parameters),
            constants: self.constants.clone(),
            outputs: at(outputs),
        };
        Ok(RunMemory { start, places, graphs: Graphs::default() })
    }

    fn release(&self, memory: RunMemory) {
        memory.graphs.destroy(self.gpu.driver);
        // SAFETY: the run that used it has ended.
        unsafe { self.gpu.free(memory.start) };
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
        let RunMemory { places, graphs, .. } = memory;
        let mut device = StreamDevice::new(self, context, graphs)?;
        // SAFETY: host memory is live and as large as the sizes, by the caller's promise; device memory was made for them.
        unsafe {
            let arguments = host.parameters.iter().zip(&places.parameters).zip(&self.sizes.parameters);
            for ((&from, &to), &size) in arguments {
                device.copy_to_device(from, to, size)?;
            }
            device.start_clock()?;
            execution::run(&self.plan, places, &mut device)?;
            device.stop_clock()?;
            for ((&to, &from), &size) in host.outputs.iter().zip(&places.outputs).zip(&self.sizes.outputs) {
                let taken = host.parameters.iter().position(|&parameter| parameter == to && size > 0);
                let from = taken.map_or(from, |number| places.parameters[number]);
                device.copy_to_host(from, to, size)?;
            }
        }
        device.wait()?;
        *self.device_time.lock().unwrap_or_else(PoisonError::into_inner) = Some(device.clock()?);
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
mod tests {
    use exec::runtime::ProgramState;

    use super::*;
    use crate::fake_driver::{self, COMPLAINT, DEVICE_BYTES, MOST_SHARED};

    const PTX: &[u8] = b".version 7.0\n.target sm_80\n";

    /// 2x + 1.
    const PLAN: &str = "launch double <<<1, 1>>> ([parameter 0, 0 : 4], [arena, 0 : 4])\n\
                        launch increment <<<1, 1>>> ([arena, 0 : 4], [arena, 4 : 4])\n\
                        copy [arena, 4 : 4] -> [output 0, 0 : 4]\n";

    fn load(gpu: &Arc<Gpu>, plan: &str) -> Result<GpuProgram, Error> {
        let sizes = BufferSizes { arena: 64, parameters: vec![4], outputs: vec![4] };
        GpuProgram::load(Arc::clone(gpu), PTX, plan.parse().unwrap(), sizes, &[&[1, 0, 0, 0]])
    }

    fn run(program: &GpuProgram, x: i32) -> Result<i32, Error> {
        let mut result = 0i32;
        let memory = PlanMemory {
            arena: 0,
            parameters: vec![(&raw const x) as u64],
            constants: vec![0],
            outputs: vec![(&raw mut result) as u64],
        };
        let state = ProgramState::default();
        // SAFETY: the memory is that of the plan, and lives.
        unsafe { program.run(&memory, &RunContext::with_state(None, &state))? };
        Ok(result)
    }

    #[test]
    fn what_runs_again_is_replayed_in_the_same_memory() {
        let (driver, _user) = fake_driver::fresh();
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let program = load(&gpu, PLAN).unwrap();
        assert_eq!(program.device_time(), None);
        for x in 0..5 {
            assert_eq!(run(&program, x), Ok(2 * x + 1));
        }
        let (counts, _) = fake_driver::counts();
        assert_eq!(counts.launches, 4, "one by one, then once for the graph");
        assert_eq!(counts.graph_launches, 4);
        assert_eq!(counts.allocations, 2, "for constants, and for runs");
        assert_eq!(counts.uploaded, 4 + 5 * 4, "constants once");
        assert_eq!(program.device_time(), Some(Duration::from_micros(2500)));
        drop(program);
        assert_eq!(fake_driver::counts().1, 0, "nothing is left");
    }

    #[test]
    fn shared_memory_is_allowed_and_given() {
        let (driver, _user) = fake_driver::fresh();
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let plan =
            |bytes: c_int| format!("launch double <<<1, 1, {bytes}>>> ([parameter 0, 0 : 4], [output 0, 0 : 4])\n");
        let program = load(&gpu, &plan(57344)).unwrap();
        assert_eq!(fake_driver::allowed_bytes(), [("double", 57344)]);
        assert_eq!(run(&program, 4), Ok(8));
        assert_eq!(fake_driver::given_bytes(), [57344]);
        let error = load(&gpu, &plan(MOST_SHARED + 1)).err().unwrap();
        assert!(!error.is_bug());
        assert_eq!(
            error.to_string(),
            "the GPU does not let a block of kernel `double` share 101377 bytes: cuFuncSetAttribute failed: invalid argument"
        );
    }

    #[test]
    fn loops_read_their_condition_from_the_device() {
        let (driver, _user) = fake_driver::fresh();
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        // Once: the condition is the constant at first, then what the body put there: zero.
        let plan = "copy [constant 0, 0 : 4] -> [arena, 8 : 4]\n\
                    copy [parameter 0, 0 : 4] -> [output 0, 0 : 4]\n\
                    while {\n  condition {\n  }\n  body if [arena, 8 : 1] {\n    \
                    launch double <<<1, 1>>> ([output 0, 0 : 4], [output 0, 0 : 4])\n    \
                    copy [arena, 16 : 4] -> [arena, 8 : 4]\n  }\n}\n";
        let program = load(&gpu, plan).unwrap();
        assert_eq!(run(&program, 21), Ok(42));
        assert_eq!(run(&program, 4), Ok(8));
    }

    #[test]
    fn a_kernel_that_faults_is_named() {
        let (driver, _user) = fake_driver::fresh();
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let faulty = "launch faulty <<<1, 1>>> ([parameter 0, 0 : 4], [output 0, 0 : 4])\n";
        let error = run(&load(&gpu, faulty).unwrap(), 1).unwrap_err();
        assert!(error.is_bug());
        assert_eq!(
            error.to_string(),
            "kernel `faulty`: cuStreamSynchronize failed: an illegal memory access was encountered"
        );
        let error = run(&load(&gpu, &format!("{PLAN}{faulty}")).unwrap(), 1).unwrap_err().to_string();
        assert!(error.contains("one of 3 kernels, of which the last is `faulty`"), "{error}");
        assert!(error.contains("CUDA_LAUNCH_BLOCKING=1"), "{error}");
        assert_eq!(fake_driver::counts().1, 0, "nothing is left");
    }

    #[test]
    fn what_the_device_lacks_is_said() {
        let (driver, _user) = fake_driver::fresh();
        assert!(matches!(Gpu::of(driver, 1), Err(Error::NoDevice { number: 1, count: 1 })));
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let sizes = BufferSizes { arena: DEVICE_BYTES + 1, parameters: vec![4], outputs: vec![4] };
        let program = GpuProgram::load(Arc::clone(&gpu), PTX, PLAN.parse().unwrap(), sizes, &[&[]]).unwrap();
        let error = run(&program, 1).unwrap_err();
        assert!(!error.is_bug());
        assert_eq!(error.to_string(), "the GPU has too little memory: 1049344 bytes were asked for");
        let refused = |ptx: &[u8]| {
            let loaded = GpuProgram::load(Arc::clone(&gpu), ptx, LaunchPlan::default(), BufferSizes::default(), &[]);
            loaded.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let newer = refused(b".version 8.0\n.target sm_90\n");
        assert_eq!(
            newer,
            "the program does not run on this GPU: its kernels are for sm_90 GPUs and newer ones, this one is sm_86"
        );
        assert!(refused(b".target sm_80\nnonsense").ends_with(COMPLAINT));
        assert!(
            load(&gpu, "launch unknown <<<1, 1>>> ()\n").is_err_and(|error| error.to_string().contains("not found"))
        );
    }
}
