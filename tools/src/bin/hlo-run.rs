//! Runs an HLO program on data, times it, and checks its results.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tools::engine::{Engine, RunPlatform};
use tools::error::ToolError;
use tools::interrupt;
use tools::outer_boundary::{self, DIFFERS};
use tools::platform_name::PlatformName;
use tools::run::{self, InputFiles, RunCase, Settings};
use tools::run_memory::ArgumentMemory;
use tools::time_limit;

/// Runs an HLO program on data, times it, and checks its results.
///
/// Inputs are the entry parameters in order, tuples flattened. Exit status: 0 good, 1 values differ, 2 bad input or
/// usage, 3 a bug in halo.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Programs, run one after another: HLO text, a protocol buffer, or MLIR of the hlo dialect, gzipped or not; - for standard input.
    #[arg(required_unless_present_any = ["batch", "batch_worker"])]
    module: Vec<PathBuf>,
    /// Model description (.json): fills the inputs, checks the outputs.
    #[arg(long, value_name = "FILE.json")]
    spec: Option<PathBuf>,
    /// One input array: a .npy file, or values such as 3xf32=1,2,3 or 0.5, zeros, ones, iota. With NAME= it is for that
    /// parameter, else for the next one. Of several devices: those of each in turn, or the same for all.
    #[arg(long, value_name = "[NAME=]FILE.npy|VALUES", conflicts_with_all = ["inputs", "random_inputs"], allow_hyphen_values = true)]
    input: Vec<String>,
    /// All input arrays; names that end in _0, _1 … are taken in that order. Several times: those of each device.
    #[arg(long, value_name = "FILE.npz", conflicts_with = "random_inputs")]
    inputs: Vec<String>,
    /// One array that `infeed` reads, in each run; give it once for each, in order.
    #[arg(long, value_name = "FILE.npy")]
    infeed: Vec<PathBuf>,
    /// Makes inputs up: floats in [-1, 1), integers in 0..=9.
    #[arg(long, value_name = "SEED", allow_negative_numbers = true)]
    random_inputs: Option<u64>,
    /// Writes out_0.npy … and meta.json here instead of printing the result; of several devices in device_0 ….
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Compares the outputs with DIR/out_0.npy … or the arrays of an .npz file.
    #[arg(long, value_name = "DIR|FILE.npz")]
    expected: Option<PathBuf>,
    /// Relative tolerance: |found - expected| <= A + R * max(|expected|, rms of the output).
    #[arg(long, value_name = "R", value_parser = tolerance, allow_negative_numbers = true)]
    rtol: Option<f64>,
    /// Absolute tolerance (default 0).
    #[arg(long, value_name = "A", value_parser = tolerance, allow_negative_numbers = true)]
    atol: Option<f64>,
    /// How to run.
    #[arg(long, value_enum, default_value_t)]
    engine: Engine,
    /// What compiled code runs on; a GPU may be named with it, as in cuda:1 or cuda:sm_90a.
    #[arg(long, default_value = "cpu")]
    platform: PlatformName<RunPlatform>,
    /// GPU that kernels are for, by LLVM's name, e.g. sm_90a for its matrix instructions.
    #[arg(long, value_name = "NAME")]
    target_cpu: Option<String>,
    /// Lets a GPU make products of f32 of tf32 where the program leaves their precision open.
    #[arg(long)]
    allow_tf32: bool,
    /// Threads of compiled code (default: all processors).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Devices to run on: threads of this process (default: as many as the program needs).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    devices: Option<u16>,
    /// How long a device waits in a collective for others that still compute (default 60).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    collective_time_limit: Option<Duration>,
    /// Compares the result with that of another engine, and names the first instruction that differs.
    #[arg(long, value_name = "ENGINE", value_parser = ["interpreter"])]
    compare: Option<String>,
    /// Runs so many times before the runs that are timed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u32,
    /// Runs so many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Prints compile time by phase, and run time; of ten runs and more with percentiles. On a GPU, copies of arguments and
    /// results are no part of a run.
    #[arg(long, conflicts_with = "batch")]
    time: bool,
    /// Prints the time, bandwidth and arithmetic of each kernel; with a file, also writes a trace that Perfetto opens.
    #[arg(long, value_name = "TRACE.json", num_args = 0..=1, require_equals = true, conflicts_with = "batch")]
    profile: Option<Option<PathBuf>>,
    /// Prints what a run needs of memory, as it is planned and measured. Given away (donated), arguments become the memory of
    /// results of their shapes, if the program does not say itself which.
    #[arg(long, value_name = "ARGUMENTS", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "kept", conflicts_with = "batch")]
    memory: Option<ArgumentMemory>,
    /// Prints a JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Names the first instruction that makes a NaN or an infinity (evaluates the program).
    #[arg(long)]
    check_nans: bool,
    /// Stops after so many seconds; of a batch, each case.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    time_limit: Option<Duration>,
    /// Makes up the values of constants that the text left out (`{...}`): for times, not for results.
    #[arg(long)]
    fill_elided_constants: bool,
    /// Lets custom calls that are not known give zeros.
    #[arg(long)]
    stub_custom_calls: bool,
    /// Takes subnormal numbers for zero, as XLA does: up to several times as fast where there are many.
    #[arg(long)]
    flush_subnormals: bool,
    /// Of the passes that may be left out, runs only the first N (hlo-opt --bisect-limit lists them).
    #[arg(long, value_name = "N")]
    bisect_limit: Option<usize>,
    /// When outputs differ from what is expected, runs so many times more with every float of the inputs moved by one
    /// unit in the last place: an element may differ by what it moves by itself.
    #[arg(long, value_name = "N", default_value_t = 0)]
    sensitivity: u32,
    /// Runs many cases: one JSON object a line with `module` and any of `spec`, `inputs` (list of .npy or one .npz),
    /// `random_inputs`, `output_dir`, `expected`, `rtol`, `atol`. Prints one JSON object a line.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "module", "spec", "input", "inputs", "infeed", "random_inputs", "output_dir", "expected", "rtol", "atol",
    ])]
    batch: Option<PathBuf>,
    /// The process that runs the cases of a batch.
    #[arg(long, hide = true)]
    batch_worker: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // The worker of a batch ends with the process that started it, which says so.
    if !options.batch_worker {
        interrupt::end_with_a_message();
    }
    outer_boundary::run(|| match options.time_limit.filter(|_| options.batch.is_none()) {
        Some(limit) => time_limit::run(limit, || work(options)),
        None => work(options),
    })
}

fn tolerance(text: &str) -> Result<f64, String> {
    let tolerance: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if tolerance >= 0.0 { Ok(tolerance) } else { Err("a tolerance is 0 or larger".to_string()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Refuses options that would have no effect.
fn check(options: &Options) -> Result<(), ToolError> {
    let on_cpu = options.platform.platform == RunPlatform::Cpu;
    let compiles = options.engine != Engine::Interpreter;
    // The cases of a batch say for themselves what they compare, and answer with times.
    let is_batch = options.batch.is_some() || options.batch_worker;
    let compares = is_batch || options.spec.is_some() || options.expected.is_some() || options.compare.is_some();
    let times = is_batch || options.time || options.json || options.profile.is_some();
    let rules = [
        ("--engine=interpreter", !compiles, on_cpu, "the platform cpu"),
        ("--check-nans", options.check_nans, on_cpu, "the platform cpu"),
        ("--target-cpu", options.target_cpu.is_some(), !on_cpu && compiles, "the platform cuda or cuda-emulator"),
        ("--profile", options.profile.is_some(), on_cpu && compiles, "code compiled for the platform cpu"),
        ("--threads", options.threads.is_some(), on_cpu && compiles, "code compiled for the platform cpu"),
        ("--bisect-limit", options.bisect_limit.is_some(), compiles, "an engine that compiles"),
        ("--collective-time-limit", options.collective_time_limit.is_some(), compiles, "an engine that compiles"),
        ("--rtol", options.rtol.is_some(), compares, "--expected, --spec or --compare"),
        ("--atol", options.atol.is_some(), compares, "--expected, --spec or --compare"),
        ("--sensitivity", options.sensitivity > 0, compares, "--expected, --spec or --compare"),
        ("--warm-up", options.warm_up > 0, times, "--time, --json or --profile"),
    ];
    match rules.into_iter().find(|&(_, is_given, has_effect, _)| is_given && !has_effect) {
        Some((flag, _, _, needs)) => Err(ToolError::Usage(format!("{flag} needs {needs}"))),
        None => Ok(()),
    }
}

fn work(options: Options) -> Result<u8, ToolError> {
    check(&options)?;
    let settings = Settings {
        engine: options.engine,
        platform: options.platform.platform,
        gpu_number: options.platform.gpu_number.unwrap_or(0),
        target_cpu: options.platform.processor(options.target_cpu.as_ref())?,
        threads: options.threads.map(usize::from),
        warm_up: options.warm_up as usize,
        repeat: options.repeat as usize,
        compare: options.compare.is_some(),
        profile: options.profile.is_some(),
        memory: options.memory,
        check_nans: options.check_nans,
        fill_elided: options.fill_elided_constants,
        stub_custom_calls: options.stub_custom_calls,
        flush_subnormals: options.flush_subnormals,
        allow_tf32: options.allow_tf32,
        pass_limit: options.bisect_limit,
        sensitivity_runs: options.sensitivity as usize,
        devices: options.devices.map(usize::from),
        collective_time_limit: options.collective_time_limit,
    };
    if options.batch_worker {
        return run::batch::serve(&settings);
    }
    if let Some(path) = &options.batch {
        let program = std::env::current_exe()
            .map_err(|error| ToolError::Execution(format!("cannot find the program's own file: {error}")))?;
        return run::batch::run_batch(
            path,
            options.time_limit,
            || worker(&program, &options),
            |answer| outer_boundary::print(format!("{answer}\n")),
        );
    }
    let is_one = options.module.len() == 1;
    if !is_one && (options.output_dir.is_some() || options.profile.as_ref().is_some_and(Option::is_some)) {
        return Err(ToolError::Usage("several programs would write the same files".into()));
    }
    let trace = options.profile.flatten();
    let case = RunCase {
        module: PathBuf::new(),
        spec: options.spec,
        inputs: match <[String; 1]>::try_from(options.inputs) {
            Ok([archive]) => Some(InputFiles::Archive(archive.into())),
            Err(archives) => {
                [archives, options.input].into_iter().find(|texts| !texts.is_empty()).map(InputFiles::Arrays)
            }
        },
        infeed: options.infeed,
        random_inputs: options.random_inputs,
        output_dir: options.output_dir,
        expected: options.expected,
        rtol: options.rtol,
        atol: options.atol,
    };
    let mut status = 0;
    for module in options.module {
        let heading = if is_one || options.json { String::new() } else { format!("{}:\n", module.display()) };
        // Of several programs the others run, whatever becomes of one.
        let report = match run::run_case(&RunCase { module, ..case.clone() }, &settings) {
            Ok(report) => report,
            Err(error) if is_one => return Err(error),
            Err(error) => {
                outer_boundary::print(heading)?;
                eprint!("{}", error.render());
                status = status.max(error.exit_status());
                continue;
            }
        };
        let text = if options.json { format!("{:#}\n", report.json()) } else { report.text(options.time) };
        outer_boundary::print(format!("{heading}{text}"))?;
        if let (Some(path), Some(profile)) = (&trace, &report.profile) {
            std::fs::write(path, profile.trace().to_string())
                .map_err(|source| ToolError::Write { path: path.clone(), source })?;
        }
        status = status.max(if report.agrees() { 0 } else { DIFFERS });
    }
    Ok(status)
}

/// A worker process with the same settings.
fn worker(program: &std::path::Path, options: &Options) -> Command {
    let mut command = Command::new(program);
    let engine = options.engine.to_possible_value();
    let engine = engine.as_ref().map_or("jit", |value| value.get_name());
    let numbers = [options.repeat, options.warm_up, options.sensitivity].map(|number| number.to_string());
    command.args(["--batch-worker", "--engine", engine, "--platform", &options.platform.to_string()]);
    for (name, number) in ["--repeat", "--warm-up", "--sensitivity"].iter().zip(&numbers) {
        command.args([name, number.as_str()]);
    }
    if let Some(threads) = options.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if let Some(name) = &options.target_cpu {
        command.args(["--target-cpu", name]);
    }
    if let Some(devices) = options.devices {
        command.args(["--devices", &devices.to_string()]);
    }
    if let Some(limit) = options.collective_time_limit {
        command.args(["--collective-time-limit", &limit.as_secs_f64().to_string()]);
    }
    if let Some(limit) = options.bisect_limit {
        command.args(["--bisect-limit", &limit.to_string()]);
    }
    if let Some(engine) = &options.compare {
        command.args(["--compare", engine]);
    }
    let flags = [
        ("--check-nans", options.check_nans),
        ("--fill-elided-constants", options.fill_elided_constants),
        ("--stub-custom-calls", options.stub_custom_calls),
        ("--flush-subnormals", options.flush_subnormals),
    ];
    command.args(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| flag));
    command
}
