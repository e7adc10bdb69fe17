//! Compiled programs and what is known about them. How they run is in `execution.rs`.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuda::DeviceMemory;
use exec::Jit;
use exec::runtime::ProgramState;
use hlo::ENTRY_SYMBOL;
use hlo::cost::Cost;
use hlo::launch_plan::LaunchPlan;
use hlo::literal::ArrayLiteral;
use hlo::shape::{ArrayShape, ProgramShape};

use crate::client::{Client, Platform};
use crate::error::Error;
use crate::execution::FrameMemory;
use crate::pending::Queue;
use crate::prepacked::PrepackedArguments;

/// Time that each phase of a compilation took.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileTimings {
    /// Passes on hlo, fusion and buffer assignment.
    pub passes: Duration,
    /// Making the MLIR context.
    pub context: Duration,
    /// Emission of loops.
    pub loops: Duration,
    /// Loops to the llvm dialect.
    pub lower: Duration,
    /// The llvm dialect to LLVM IR.
    pub translate: Duration,
    /// LLVM's optimisation passes.
    pub optimize: Duration,
    /// Machine code.
    pub emit: Duration,
    /// Loading and linking.
    pub load: Duration,
}

impl CompileTimings {
    /// The phases with their names, in order.
    pub fn phases(&self) -> [(&'static str, Duration); 8] {
        [
            ("passes", self.passes),
            ("context", self.context),
            ("loops", self.loops),
            ("lower", self.lower),
            ("translate", self.translate),
            ("optimize", self.optimize),
            ("emit", self.emit),
            ("load", self.load),
        ]
    }

    /// All phases together.
    pub fn total(&self) -> Duration {
        self.phases().iter().map(|(_, time)| *time).sum()
    }
}

/// Bytes that a program needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// All arguments.
    pub arguments: usize,
    /// All results.
    pub results: usize,
    /// Temporary values of one call; a call that runs while another does needs its own.
    pub temporaries: usize,
    /// Constants.
    pub constants: usize,
    /// Those of the results that are written over arguments, and need no memory of their own if these are donated.
    pub aliased: usize,
    /// The object files of the machine code.
    pub code: usize,
}

/// What running a program needs to know besides its code.
pub(crate) type Interface = hlo::interface::Interface<ArrayLiteral>;

/// Bytes of a program's buffers.
fn buffer_sizes(interface: &Interface) -> cuda::BufferSizes {
    let Interface { arena_size, parameters, outputs, aliases, .. } = interface;
    cuda::BufferSizes {
        arena: *arena_size,
        parameters: parameters.iter().map(|shape| shape.as_ref().map_or(0, ArrayShape::byte_size)).collect(),
        outputs: outputs.iter().map(|shape| shape.as_ref().map_or(0, |shape| shape.byte_size())).collect(),
        aliases: aliases.clone(),
    }
}

/// The compiled program: takes the table of buffer addresses.
pub(crate) type EntryFunction = unsafe extern "C" fn(*const *mut c_void);

/// A compiled program. Clones are the same program; calls may come from several threads at once.
#[derive(Clone)]
pub struct Executable {
    pub(crate) inner: Arc<ExecutableInner>,
}

pub(crate) struct ExecutableInner {
    pub(crate) client: Client,
    pub(crate) code: Code,
    pub(crate) interface: Interface,
    pub(crate) objects: Vec<Vec<u8>>,
    pub(crate) cubins: Vec<(String, Vec<u8>)>,
    /// Memory of earlier calls, for later ones.
    pub(crate) frames: Mutex<Vec<FrameMemory>>,
    /// Calls that run while their callers go on.
    pub(crate) queue: Queue,
    pub(crate) machine: Machine,
    pub(crate) prepacked: PrepackedArguments,
    /// By device.
    pub(crate) states: Vec<ProgramState>,
    timings: CompileTimings,
    is_from_cache: bool,
}

/// What runs.
pub(crate) enum Code {
    /// Machine code.
    Host {
        /// Holds the code that `entry` points to.
        _jit: Jit,
        entry: EntryFunction,
    },
    /// Kernels of a GPU.
    Gpu(cuda::GpuProgram),
    /// Kernels of a GPU, which the host plays.
    Emulated(cuda::Emulator),
}

/// The machine that code was made for, in LLVM's words.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub triple: String,
    /// As in `+avx2,-sse4a`.
    pub features: String,
}

/// A compiled program that is not loaded.
pub(crate) struct Program {
    pub interface: Interface,
    /// Machine code; of a program for GPUs its kernels.
    pub objects: Vec<Vec<u8>>,
    /// Kernels as machine code, each with the GPU that it is for: where there is any, it is loaded in place of the PTX.
    pub cubins: Vec<(String, Vec<u8>)>,
    /// The launches of kernels, of a program for GPUs.
    pub plan: Option<LaunchPlan>,
    pub machine: Machine,
}

/// Where an executable came from.
pub(crate) struct Origin {
    /// What making it cost.
    pub timings: CompileTimings,
    /// Whether it was compiled earlier.
    pub is_from_cache: bool,
}

impl Executable {
    /// Loads a compiled program.
    ///
    /// # Safety
    /// Its objects must come from this compiler, for this machine, with this interface and plan.
    ///
    /// # Errors
    /// [`Error::Execution`] and [`Error::Cuda`].
    pub(crate) unsafe fn load(client: Client, program: Program, origin: Origin) -> Result<Self, Error> {
        let Program { interface, objects, cubins, plan, machine } = program;
        let start = std::time::Instant::now();
        let devices = usize::try_from(interface.devices.total()).unwrap_or(usize::MAX);
        if interface.communicates && devices > client.devices() {
            return Err(Error::TooFewDevices { needed: devices, devices: client.devices() });
        }
        let is_for_gpu = plan.is_some();
        if is_for_gpu != (client.platform() != Platform::Cpu) {
            return Err(Error::Saved("it was compiled for another platform".into()));
        }
        // SAFETY: the caller answers for the objects; the symbols are the runtime's own and live as long as the process.
        let code = unsafe {
            match plan {
                None => {
                    let jit = Jit::load(&objects, exec::runtime::symbols())?;
                    let address = jit.lookup(ENTRY_SYMBOL)?;
                    // The symbol is the entry function, which the lowering gives this type.
                    let entry = std::mem::transmute::<*mut c_void, EntryFunction>(address.as_ptr());
                    Code::Host { _jit: jit, entry }
                }
                Some(plan) => match (&client.inner.device, &objects[..]) {
                    (Some(DeviceMemory::Gpu(memory)), [ptx]) => {
                        let memory = Arc::clone(memory);
                        let constants: Vec<&[u8]> = interface.constants.iter().map(ArrayLiteral::bytes).collect();
                        let kernels = cuda::KernelCode { ptx, cubins: &cubins };
                        Code::Gpu(cuda::GpuProgram::load(memory, kernels, plan, buffer_sizes(&interface), &constants)?)
                    }
                    _ => Code::Emulated(cuda::Emulator::load(&objects, plan, buffer_sizes(&interface))?),
                },
            }
        };
        let Origin { mut timings, is_from_cache } = origin;
        timings.load = start.elapsed();
        let frames = Mutex::new(Vec::new());
        let state = |_| ProgramState::with_channels(Arc::clone(&client.inner.channels));
        let states = (0..devices.clamp(1, client.devices())).map(state).collect();
        let prepacked = PrepackedArguments::new(&interface.packed, interface.parameters.len());
        let inner = ExecutableInner {
            client,
            code,
            interface,
            objects,
            cubins,
            frames,
            queue: Queue::default(),
            states,
            machine,
            prepacked,
            timings,
            is_from_cache,
        };
        Ok(Executable { inner: Arc::new(inner) })
    }

    /// The device that the program runs on.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Shapes of the parameters and of the result.
    pub fn program_shape(&self) -> &ProgramShape {
        &self.inner.interface.program_shape
    }

    /// What compiling cost; only loading, if it was compiled earlier.
    pub fn timings(&self) -> &CompileTimings {
        &self.inner.timings
    }

    /// Whether the code came from the compilation cache.
    pub fn is_from_cache(&self) -> bool {
        self.inner.is_from_cache
    }

    /// What the program keeps from one execution to the next: its random numbers, and the queues of `infeed`, `outfeed`,
    /// `send` and `recv`. That of the first device, where there are several.
    pub fn state(&self) -> &ProgramState {
        &self.inner.states[0]
    }

    /// Devices that the program runs on: arguments of [`execute_on`](Self::execute_on) are for as many.
    pub fn devices(&self) -> usize {
        usize::try_from(self.inner.interface.devices.total()).unwrap_or(usize::MAX)
    }

    /// Whether the program's devices exchange values or compute different ones from the same arguments. Where they do not,
    /// it runs on one device, too.
    pub fn communicates(&self) -> bool {
        self.inner.interface.communicates
    }

    /// Bytes of temporary memory that a call uses.
    pub fn temporary_bytes(&self) -> usize {
        self.inner.interface.arena_size
    }

    /// Whether a GPU is to time the runs from now on ([`device_time`](Self::device_time)), which costs each a few microseconds.
    pub fn time_device(&self, is_timed: bool) {
        if let Code::Gpu(program) = &self.inner.code {
            program.time_device(is_timed);
        }
    }

    /// How long the GPU worked in the last run that it timed ([`time_device`](Self::time_device)), by its own clock: copies from
    /// and to the host are left out. `None` before, and where the host runs the program.
    pub fn device_time(&self) -> Option<Duration> {
        match &self.inner.code {
            Code::Gpu(program) => program.device_time(),
            Code::Host { .. } | Code::Emulated(_) => None,
        }
    }

    /// How long the host took in the last run until a GPU had been given all of it; what is left of a run is waiting. `None` before,
    /// and where the host runs the program.
    pub fn launch_time(&self) -> Option<Duration> {
        match &self.inner.code {
            Code::Gpu(program) => program.launch_time(),
            Code::Host { .. } | Code::Emulated(_) => None,
        }
    }

    /// What a run costs, as far as the program shows it.
    pub fn cost(&self) -> Cost {
        self.inner.interface.cost
    }

    /// Bytes that the program needs.
    pub fn memory(&self) -> MemoryUse {
        let interface = &self.inner.interface;
        MemoryUse {
            arguments: interface.parameters.iter().flatten().map(ArrayShape::byte_size).sum(),
            results: interface.outputs.iter().flatten().map(|shape| shape.byte_size()).sum(),
            temporaries: interface.arena_size,
            constants: interface.constants.iter().map(|constant| constant.bytes().len()).sum(),
            aliased: interface
                .aliases
                .iter()
                .flatten()
                .filter_map(|&leaf| interface.parameters.get(leaf)?.as_ref())
                .map(ArrayShape::byte_size)
                .sum(),
            code: self.inner.objects.iter().map(Vec::len).sum(),
        }
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({})", self.program_shape())
    }
}
