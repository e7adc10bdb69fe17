//! Times halo on programs as it is asked to: one JSON request a line, one JSON answer a line.
//!
//! `benchmarks/xla.py` speaks the same protocol and documents it; `benchmarks/compare.py` talks to both.

use std::io::BufRead;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use halo::{Client, ClientOptions};
use hlo::literal::Literal;
use serde::Deserialize;
use serde_json::{Value, json};
use tools::engine::{Engine, LoadOptions, LoadedProgram, ResidentProgram, RunPlatform};
use tools::error::ToolError;
use tools::interrupt;
use tools::least_time::Work;
use tools::machine_limits::MachineLimits;
use tools::module_file::SourceText;
use tools::outer_boundary;
use tools::platform_name::PlatformName;
use tools::{run, run_memory};

/// Times halo on programs named on standard input.
///
/// Requests: {"command": "ready"}, {"command": "load", "module": PATH, "spec": PATH}, {"command": "run", "seconds": S} and
/// {"command": "limit"}.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Threads of compiled code (default: all processors).
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// What compiled code runs on; a GPU may be named with it, as in cuda:1 or cuda:sm_90a.
    #[arg(long, default_value = "cpu")]
    platform: PlatformName<RunPlatform>,
    /// Lets a GPU make products of f32 of tf32 where the program leaves their precision open.
    #[arg(long)]
    allow_tf32: bool,
}

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Ready,
    Load { module: PathBuf, spec: PathBuf },
    Run { seconds: f64 },
    Limit,
}

/// A loaded program with its inputs.
struct Loaded {
    path: PathBuf,
    program: LoadedProgram,
    arguments: Vec<Literal>,
    /// The same where a GPU has them.
    resident: Option<ResidentProgram>,
    /// What its kernels move and compute in a run, found when it is asked for.
    work: Option<Work>,
    limits: MachineLimits,
}

fn main() -> ExitCode {
    let options = Options::parse();
    interrupt::end_with_a_message();
    outer_boundary::run(|| serve(options))
}

fn serve(options: Options) -> Result<u8, ToolError> {
    let client = Client::with_options(ClientOptions {
        platform: options.platform.platform.into(),
        gpu_number: options.platform.gpu_number.unwrap_or(0),
        gpu_processor: options.platform.processor,
        threads: options.threads.unwrap_or(0),
        ..ClientOptions::default()
    })?;
    let threads = options.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    // The arguments are used again, so nothing may be written over them; nor does `benchmarks/xla.py`.
    let allow_tf32 = options.allow_tf32;
    let options = LoadOptions { client: Some(client), without_aliases: true, allow_tf32, ..LoadOptions::default() };
    // The first program sets up LLVM and what runs programs; it must not count for the one that happens to be first.
    let warm_up = "HloModule warm_up\nENTRY e { ROOT c = f32[] constant(1) }";
    let warm_up = SourceText { path: "warm-up".into(), text: warm_up.into() };
    LoadedProgram::load(warm_up, Engine::Jit, options.clone())?.execute_on_device(&[])?;
    let mut loaded = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|source| ToolError::Read { path: Path::new("-").to_path_buf(), source })?;
        let answer = outer_boundary::catch(|| answer(&line, &options, threads, &mut loaded));
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        outer_boundary::print(format!("{answer}\n"))?;
    }
    Ok(0)
}

fn answer(line: &str, options: &LoadOptions, threads: usize, loaded: &mut Option<Loaded>) -> Result<Value, ToolError> {
    let request = serde_json::from_str(line).map_err(|error| ToolError::Usage(format!("not a request: {error}")))?;
    match request {
        Request::Ready => Ok(json!({})),
        Request::Load { module, spec } => {
            let program = LoadedProgram::load(SourceText::read(&module)?, Engine::Jit, options.clone())?;
            let arguments = run::spec_inputs(&spec, &program.module)?;
            let resident = program.resident(&arguments)?;
            let growth = run_memory::growth_in(|| run_once(&program, resident.as_ref(), &arguments))?;
            // Reading the text is not counted, as it is not for XLA.
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            let phases = &program.phases[1..];
            let compile = milliseconds(phases.iter().map(|phase| phase.1).sum());
            let phases: serde_json::Map<String, Value> =
                phases.iter().map(|(name, time)| (name.clone(), milliseconds(*time).into())).collect();
            let temporary_bytes = program.arena_bytes;
            let limits = MachineLimits::new(threads);
            *loaded = Some(Loaded { path: module, program, arguments, resident, work: None, limits });
            Ok(json!({
                "compile_ms": compile,
                "phases_ms": phases,
                "temporary_bytes": temporary_bytes,
                "growth_bytes": growth,
            }))
        }
        Request::Run { seconds } => {
            let Loaded { program, arguments, resident, .. } = loaded.as_ref().ok_or_else(none_loaded)?;
            let end = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
            let mut times = Vec::new();
            while times.is_empty() || Instant::now() < end {
                let start = Instant::now();
                run_once(program, resident.as_ref(), arguments)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(json!({ "runs_ms": times }))
        }
        Request::Limit => {
            let Loaded { path, arguments, work, limits, .. } = loaded.as_mut().ok_or_else(none_loaded)?;
            let work = match work {
                Some(work) => work,
                None => work.insert(work_of(path, options, arguments)?),
            };
            limits.begin_spell();
            let least = work.least_time(limits);
            Ok(json!({ "limit_ms": least.as_secs_f64() * 1e3, "bytes": work.bytes(), "flops": work.flops() }))
        }
    }
}

/// Runs a program, with arguments and results where its device has them.
fn run_once(
    program: &LoadedProgram,
    resident: Option<&ResidentProgram>,
    arguments: &[Literal],
) -> Result<(), ToolError> {
    match resident {
        Some(resident) => resident.execute().map(drop),
        None => program.execute_on_device(arguments),
    }
}

/// What the kernels of a program do in a run.
fn work_of(path: &Path, options: &LoadOptions, arguments: &[Literal]) -> Result<Work, ToolError> {
    let options = LoadOptions { profile: true, ..options.clone() };
    let program = LoadedProgram::load(SourceText::read(path)?, Engine::Jit, options)?;
    program.execute_on_device(arguments)?;
    let (executable, options) = program.executable().ok_or_else(none_loaded)?;
    Work::of_run(&program.module, options, executable, &executable.take_profile())
}

fn none_loaded() -> ToolError {
    ToolError::Usage("no program is loaded".into())
}
