//! The two ways to run a program: compiled, and evaluated.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use evaluator::Environment;
use halo::{Buffer, Client, ClientOptions, CompileOptions, Platform};
use hlo::aliases;
use hlo::devices::{self, DeviceCount};
use hlo::graph::Module;
use hlo::literal::Literal;
use hlo::shape::{ProgramShape, Shape};

use crate::custom_call_stubs::Stubs;
use crate::error::ToolError;
use crate::fill;
use crate::module_file::{ProgramFile, SourceText};

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Compiled to machine code.
    #[default]
    Jit,
    /// Compiled to machine code that rounds wherever the program does, without excess precision.
    StrictJit,
    /// Evaluated instruction by instruction.
    Interpreter,
}

/// What compiled code runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunPlatform {
    /// The host's processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU of the machine.
    Cuda,
    /// An NVIDIA GPU played by the host's processor, with each access of each thread checked.
    CudaEmulator,
}

impl From<RunPlatform> for halo::Platform {
    fn from(platform: RunPlatform) -> Self {
        match platform {
            RunPlatform::Cpu => halo::Platform::Cpu,
            RunPlatform::Cuda => halo::Platform::Cuda,
            RunPlatform::CudaEmulator => halo::Platform::CudaEmulator,
        }
    }
}

impl Engine {
    /// How the engine compiles.
    fn compile_options(self, options: &LoadOptions) -> CompileOptions {
        let LoadOptions { allow_tf32, profile, pass_limit, .. } = *options;
        let excess_precision = self == Engine::Jit;
        CompileOptions { excess_precision, allow_tf32, profile, pass_limit, ..CompileOptions::default() }
    }
}

/// How a program is read and compiled.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// The device that it is compiled for; when absent, one of its own.
    pub client: Option<Client>,
    /// What a device of its own is.
    pub platform: RunPlatform,
    /// Which of the machine's GPUs.
    pub gpu_number: u32,
    /// The GPU that kernels are for, where it is not what the platform's needs.
    pub target_cpu: Option<String>,
    /// Threads of a device of its own; all processors when absent.
    pub threads: Option<usize>,
    /// Whether constants whose values the text left out get made-up ones.
    pub fill_elided: bool,
    /// Whether a device of its own takes subnormal numbers for zero.
    pub flush_subnormals: bool,
    /// Devices to run on; as many as the program needs when absent.
    pub devices: Option<usize>,
    /// How long devices wait for others that still compute.
    pub collective_time_limit: Option<Duration>,
    /// Whether results get memory of their own although the program wants them in the place of arguments.
    pub without_aliases: bool,
    /// Whether results take the place of arguments even where the program does not say so.
    pub donates: bool,
    /// Whether custom calls that nobody knows give zeros.
    pub stub_custom_calls: bool,
    /// Whether a GPU may make products of f32 of tf32, see [`CompileOptions::allow_tf32`].
    pub allow_tf32: bool,
    /// Whether steps note when they begin and end.
    pub profile: bool,
    /// Run only so many of the passes that may be left out.
    pub pass_limit: Option<usize>,
}

impl LoadOptions {
    /// With so many threads.
    pub fn with_threads(threads: Option<usize>) -> Self {
        LoadOptions { threads, ..LoadOptions::default() }
    }

    fn new_client(&self, devices: usize) -> Result<Client, ToolError> {
        Ok(Client::with_options(ClientOptions {
            platform: self.platform.into(),
            gpu_number: self.gpu_number,
            gpu_processor: self.target_cpu.clone(),
            threads: self.threads.unwrap_or(0),
            flush_subnormals: self.flush_subnormals,
            devices,
            collective_time_limit: self.collective_time_limit,
            ..ClientOptions::default()
        })?)
    }
}

/// A program ready to run, with what getting there cost.
pub struct LoadedProgram {
    /// The program's text.
    pub source_text: SourceText,
    /// The program.
    pub module: Module,
    /// Phases of compilation and their times, in order; the first is reading the text.
    pub phases: Vec<(String, Duration)>,
    /// Bytes of memory that one execution needs besides its arguments and results, when the engine plans them ahead.
    pub arena_bytes: Option<usize>,
    /// Devices that the program runs on.
    pub devices: usize,
    /// The custom calls that give zeros.
    pub stubs: Stubs,
    /// What `infeed` reads in each run.
    pub infeed: Vec<Literal>,
    executable: Option<(halo::Executable, CompileOptions)>,
}

impl LoadedProgram {
    /// Reads a file: a program, or one that was compiled before.
    pub fn read(path: &Path, engine: Engine, options: LoadOptions) -> Result<Self, ToolError> {
        match ProgramFile::read(path)? {
            ProgramFile::Compiled(bytes) => Self::load_compiled(path, &bytes, engine, options),
            ProgramFile::Source(source_text) => Self::load(source_text, engine, options),
        }
    }

    /// A bundle or a saved executable, as a program of one call that nobody sees into.
    fn load_compiled(path: &Path, bytes: &[u8], engine: Engine, options: LoadOptions) -> Result<Self, ToolError> {
        let is_own = options.target_cpu.is_none() && options.pass_limit.is_none();
        if engine != Engine::Jit || options.profile || !is_own {
            let message = "a compiled program runs as it was compiled: options of compilation have no effect";
            return Err(ToolError::Usage(message.into()));
        }
        let client = match options.client {
            Some(client) => client,
            None => options.new_client(options.devices.unwrap_or(1))?,
        };
        let start = Instant::now();
        // SAFETY: who runs a compiled program trusts who made it, as with any program.
        let executable = unsafe { client.deserialize(bytes)? };
        let module = opaque(executable.program_shape())?;
        Ok(LoadedProgram {
            source_text: SourceText { path: path.to_path_buf(), text: "".into() },
            module,
            phases: vec![("load".to_string(), start.elapsed())],
            arena_bytes: Some(executable.temporary_bytes()),
            devices: executable.devices(),
            stubs: Stubs::default(),
            infeed: Vec::new(),
            executable: Some((executable, CompileOptions::default())),
        })
    }

    /// Reads a program and, for the JIT, compiles it.
    pub fn load(source_text: SourceText, engine: Engine, options: LoadOptions) -> Result<Self, ToolError> {
        let start = Instant::now();
        let mut module = source_text.module()?;
        if options.fill_elided {
            fill::fill_elided(&mut module)?;
        }
        let devices = devices_for(&mut module, options.devices)?;
        if options.without_aliases {
            module.input_output_aliases.clear();
        }
        if options.donates && module.input_output_aliases.is_empty() {
            module.input_output_aliases = aliases::by_shape(&module.entry().program_shape());
        }
        let stubs = if options.stub_custom_calls { Stubs::register(&module) } else { Stubs::default() };
        let mut phases = vec![("read".to_string(), start.elapsed())];
        let mut arena_bytes = None;
        let executable = match engine {
            Engine::Interpreter => None,
            Engine::Jit | Engine::StrictJit => {
                let compile_options = engine.compile_options(&options);
                let client = match options.client {
                    Some(client) => client,
                    None => options.new_client(devices)?,
                };
                let compiled = client.compile(&module, &compile_options);
                let executable = compiled.map_err(|error| ToolError::compiled(&source_text, &module, error))?;
                let timings = executable.timings().phases();
                phases.extend(timings.into_iter().map(|(name, time)| (name.to_string(), time)));
                arena_bytes = Some(executable.temporary_bytes());
                Some((executable, compile_options))
            }
        };
        let infeed = Vec::new();
        Ok(LoadedProgram { source_text, module, phases, arena_bytes, devices, stubs, infeed, executable })
    }

    /// Runs the program on all of its devices, with arguments for each.
    pub fn execute_on(&self, arguments: &[Vec<Literal>]) -> Result<Vec<Literal>, ToolError> {
        match (arguments, &self.executable) {
            ([arguments], _) if self.devices == 1 => Ok(vec![self.execute(arguments)?]),
            (_, Some((executable, _))) => Ok(executable.execute_on(arguments)?),
            (_, None) => evaluator::evaluate_on_devices(&self.module, arguments)
                .map_err(|error| ToolError::evaluation(&self.source_text, error)),
        }
    }

    /// Runs the program, which is for one device.
    pub fn execute(&self, arguments: &[Literal]) -> Result<Literal, ToolError> {
        match &self.executable {
            Some((executable, _)) => {
                let infeed = executable.infeed();
                self.infeed.iter().try_for_each(|value| infeed.push(value))?;
                // A program that reads more fails: nobody will push it.
                drop(infeed);
                Ok(executable.execute(arguments)?)
            }
            None => self.evaluate(arguments),
        }
    }

    /// Runs the program instruction by instruction, whatever its engine is.
    pub fn evaluate(&self, arguments: &[Literal]) -> Result<Literal, ToolError> {
        let mut environment = self.environment();
        environment.infeed.extend(self.infeed.iter().cloned());
        evaluator::evaluate(&self.module, arguments, &mut environment)
            .map_err(|error| ToolError::evaluation(&self.source_text, error))
    }

    fn environment(&self) -> Environment<'_> {
        let mut environment = Environment::new();
        environment.custom_calls = Some(&self.stubs);
        environment
    }

    /// Evaluates a part of the program.
    pub fn evaluate_part(&self, part: &Module, arguments: &[Literal]) -> Result<Literal, ToolError> {
        evaluator::evaluate(part, arguments, &mut self.environment())
            .map_err(|error| ToolError::evaluation(&self.source_text, error))
    }

    /// The compiled program, with the options that it was compiled with.
    pub fn executable(&self) -> Option<(&halo::Executable, &CompileOptions)> {
        self.executable.as_ref().map(|(executable, options)| (executable, options))
    }

    /// The program with its arguments as buffers of what it runs on: a GPU copies none for a run, and on the host what products
    /// read is packed once. None where it runs for several devices or reads what the host puts into a queue, and for results of
    /// dynamic sizes.
    pub fn resident(&self, arguments: &[Literal]) -> Result<Option<ResidentProgram>, ToolError> {
        let Some((executable, _)) = &self.executable else { return Ok(None) };
        let leaves = || arguments.iter().flat_map(Literal::leaves);
        let results = executable.program_shape().result.leaves();
        let is_dynamic = results.iter().any(|leaf| leaf.as_array().is_some_and(|array| array.is_dynamic()));
        let is_of_arrays = leaves().all(|leaf| leaf.as_array().is_some());
        if executable.communicates() || !self.infeed.is_empty() || is_dynamic || !is_of_arrays {
            return Ok(None);
        }
        let arguments = match executable.client().platform() {
            Platform::Cpu => leaves().cloned().map(Buffer::try_from).collect::<Result<_, _>>()?,
            Platform::Cuda | Platform::CudaEmulator => executable.client().to_device(arguments)?,
        };
        Ok(Some(ResidentProgram { executable: executable.clone(), arguments }))
    }

    /// Runs the program, which is for one device, for its time, with the results left in the device's memory, as XLA leaves them.
    pub fn execute_on_device(&self, arguments: &[Literal]) -> Result<(), ToolError> {
        match &self.executable {
            Some((executable, _)) => Ok(executable.execute_buffers(arguments).map(drop)?),
            None => self.execute(arguments).map(drop),
        }
    }
}

/// A program with its arguments.
pub struct ResidentProgram {
    executable: halo::Executable,
    arguments: Vec<Buffer>,
}

impl ResidentProgram {
    /// Runs the program; the results stay where it ran.
    pub fn execute(&self) -> Result<Vec<Buffer>, ToolError> {
        Ok(self.executable.execute_buffers(&self.arguments)?)
    }

    /// Results on the host.
    pub fn result(&self, buffers: &[Buffer]) -> Result<Literal, ToolError> {
        literal_of(&self.executable.program_shape().result, &mut buffers.iter())
    }
}

fn literal_of<'b>(shape: &Shape, buffers: &mut impl Iterator<Item = &'b Buffer>) -> Result<Literal, ToolError> {
    match shape {
        Shape::Tuple(elements) => {
            let elements = elements.iter().map(|element| literal_of(element, buffers));
            Ok(Literal::Tuple(elements.collect::<Result<_, _>>()?))
        }
        Shape::Array(_) => {
            let buffer = buffers.next().ok_or_else(|| ToolError::Bug("too few results".into()))?;
            Ok(buffer.to_literal()?)
        }
        Shape::Token | Shape::Opaque => Ok(Literal::Token),
    }
}

/// Devices to run a program on, of which `asked` are wanted. A program whose header names none is for that many replicas.
fn devices_for(module: &mut Module, asked: Option<usize>) -> Result<usize, ToolError> {
    let needed = DeviceCount::of(module).total();
    match asked {
        None => Ok(devices::devices_of(module)),
        Some(asked) if needed == 1 => {
            module.annotations.retain(|(name, _)| name != devices::REPLICA_COUNT);
            module.annotations.push((devices::REPLICA_COUNT.to_string(), asked.to_string()));
            Ok(asked)
        }
        Some(asked) if needed == asked as i64 || asked == 1 && devices::devices_of(module) == 1 => Ok(asked),
        Some(asked) => {
            let message =
                format!("the program is for {needed} devices (replica_count, num_partitions), not for {asked}");
            Err(ToolError::Usage(message))
        }
    }
}

/// A program of these shapes whose inside is not known.
fn opaque(shape: &ProgramShape) -> Result<Module, ToolError> {
    let parameters = || shape.parameters.iter().enumerate();
    let lines: String =
        parameters().map(|(number, shape)| format!("  p{number} = {shape} parameter({number})\n")).collect();
    let operands: Vec<String> = parameters().map(|(number, _)| format!("p{number}")).collect();
    let call = format!("{} custom-call({}), custom_call_target=\"compiled\"", shape.result, operands.join(", "));
    let text = format!("HloModule compiled\n\nENTRY main {{\n{lines}  ROOT result = {call}\n}}\n");
    hlo::text::read(&text).map_err(|errors| ToolError::Bug(format!("the shapes of a compiled program: {errors}")))
}
