//! Times halo on programs as it is asked to: one JSON request a line, one JSON answer a line.
//!
//! `benchmarks/xla.py` speaks the same protocol and documents it; `benchmarks/compare.py` talks to both.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use halo::{Client, ClientOptions};
use hlo::literal::Literal;
use serde::Deserialize;
use serde_json::{Value, json};
use tools::engine::{Engine, LoadOptions, LoadedProgram, RunPlatform};
use tools::error::ToolError;
use tools::interrupt;
use tools::module_file::SourceText;
use tools::outer_boundary;
use tools::platform_name::PlatformName;
use tools::run;

/// Times halo on programs named on standard input.
///
/// Requests: {"command": "load", "module": PATH, "spec": PATH} and {"command": "run", "seconds": S}.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Threads of compiled code (default: all processors).
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// What compiled code runs on; a GPU may be named with it, as in cuda:sm_90a.
    #[arg(long, default_value = "cpu")]
    platform: PlatformName<RunPlatform>,
}

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Load { module: PathBuf, spec: PathBuf },
    Run { seconds: f64 },
}

/// A loaded program with its inputs.
type Loaded = (LoadedProgram, Vec<Literal>);

fn main() -> ExitCode {
    let options = Options::parse();
    interrupt::end_with_a_message();
    outer_boundary::run(|| serve(options))
}

fn serve(options: Options) -> Result<u8, ToolError> {
    let client = Client::with_options(ClientOptions {
        platform: options.platform.platform.into(),
        gpu_processor: options.platform.processor,
        threads: options.threads.unwrap_or(0),
        ..ClientOptions::default()
    })?;
    let options = LoadOptions { client: Some(client), ..LoadOptions::default() };
    // The first compilation sets up LLVM; it must not count for the program that happens to be first.
    let warm_up = "HloModule warm_up\nENTRY e { ROOT c = f32[] constant(1) }";
    LoadedProgram::load(SourceText { path: "warm-up".into(), text: warm_up.into() }, Engine::Jit, options.clone())?;
    let mut loaded = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|source| ToolError::Read { path: Path::new("-").to_path_buf(), source })?;
        let answer = outer_boundary::catch(|| answer(&line, &options, &mut loaded));
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        outer_boundary::print(format!("{answer}\n"))?;
    }
    Ok(0)
}

fn answer(line: &str, options: &LoadOptions, loaded: &mut Option<Loaded>) -> Result<Value, ToolError> {
    let request = serde_json::from_str(line).map_err(|error| ToolError::Usage(format!("not a request: {error}")))?;
    match request {
        Request::Load { module, spec } => {
            // The arguments are used again, so nothing may be written over them; nor does `benchmarks/xla.py`.
            let options = LoadOptions { without_aliases: true, ..options.clone() };
            let program = LoadedProgram::load(SourceText::read(&module)?, Engine::Jit, options)?;
            let arguments = run::spec_inputs(&spec, &program.module)?;
            program.execute_on_device(&arguments)?;
            // Reading the text is not counted, as it is not for XLA.
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            let phases = &program.phases[1..];
            let compile = milliseconds(phases.iter().map(|phase| phase.1).sum());
            let phases: serde_json::Map<String, Value> =
                phases.iter().map(|(name, time)| (name.clone(), milliseconds(*time).into())).collect();
            *loaded = Some((program, arguments));
            Ok(json!({ "compile_ms": compile, "phases_ms": phases }))
        }
        Request::Run { seconds } => {
            let Some((program, arguments)) = loaded else {
                return Err(ToolError::Usage("no program is loaded".into()));
            };
            let end = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
            let mut times = Vec::new();
            while times.is_empty() || Instant::now() < end {
                let start = Instant::now();
                program.execute_on_device(arguments)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(json!({ "runs_ms": times }))
        }
    }
}
