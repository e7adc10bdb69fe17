//! Runs compiled programs on data, times them, and checks their results, without a compiler: there is neither MLIR nor LLVM in
//! this program, so it fits on any machine that has a processor or a GPU that the programs were compiled for.

mod cases;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Parser;
use halo::{Client, ClientOptions, Platform};

use run::{Inputs, RunError, Settings};

/// Exit status when a value differs from the expected one, of invalid input, and of a bug in halo.
const DIFFERS: u8 = 1;
const INVALID: u8 = 2;
const BUG: u8 = 3;

/// Runs compiled programs on data, times them, and checks their results.
///
/// Programs are bundles (hlo-opt --emit=bundle) and saved executables; inputs are the entry parameters in order, tuples
/// flattened. Exit status: 0 good, 1 values differ, 2 bad input or usage, 3 a bug in halo.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// A compiled program.
    #[arg(required_unless_present_any = ["cases", "ceilings"])]
    program: Option<PathBuf>,
    /// What runs it: cpu, cuda, cuda-emulator; with cuda the number of the machine's GPU, as in cuda:1.
    #[arg(long, default_value = "cpu")]
    platform: PlatformName,
    /// Threads of compiled code for CPUs (default: all processors).
    #[arg(long, value_name = "N")]
    threads: Option<u16>,
    /// Model description (.json): fills the inputs, checks the outputs.
    #[arg(long, value_name = "FILE.json")]
    spec: Option<PathBuf>,
    /// One input array; give it once for each, in order.
    #[arg(long, value_name = "FILE.npy", conflicts_with_all = ["spec", "random_inputs"])]
    input: Vec<PathBuf>,
    /// Makes inputs up, as hlo-run does: floats in [-1, 1), integers in 0..=9.
    #[arg(long, value_name = "SEED", conflicts_with = "spec")]
    random_inputs: Option<u64>,
    /// Compares the outputs with DIR/out_0.npy … or the arrays of an .npz file.
    #[arg(long, value_name = "DIR|FILE.npz")]
    expected: Option<PathBuf>,
    /// Writes out_0.npy … and meta.json here instead of printing the result.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Relative tolerance: |found - expected| <= A + R * max(|expected|, rms of the output).
    #[arg(long, value_name = "R")]
    rtol: Option<f64>,
    /// Absolute tolerance (default 0).
    #[arg(long, value_name = "A")]
    atol: Option<f64>,
    /// Runs so many times before the runs that are timed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u32,
    /// Runs so many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Prints the time of loading, of a run (median and least), and how long a GPU worked in one. Copies from and to a GPU are no
    /// part of a run.
    #[arg(long)]
    time: bool,
    /// Runs program.halo of each folder in DIR, with spec.json, or in_0.npy … and out_0.npy … beside it, and counts.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "spec", "input", "expected", "output_dir"])]
    cases: Option<PathBuf>,
    /// Prints what the GPU can do at best, in thousand millions a second: bytes that its driver copies, operations of its
    /// multiply-adds of f32, and of products of matrices by cuBLAS where that is installed.
    #[arg(long, conflicts_with_all = ["program", "cases"])]
    ceilings: bool,
    /// Of the cases, leaves out the first N.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "cases")]
    skip: usize,
}

/// A platform, and the number of a GPU.
#[derive(Clone, Debug)]
struct PlatformName {
    text: String,
    platform: Platform,
    gpu_number: u32,
}

impl FromStr for PlatformName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (platform, gpu_number) = match text.split_once(':') {
            None if text == "cpu" => (Platform::Cpu, 0),
            None if text == "cuda" => (Platform::Cuda, 0),
            None if text == "cuda-emulator" => (Platform::CudaEmulator, 0),
            Some(("cuda", number)) => {
                (Platform::Cuda, number.parse().map_err(|_| format!("`{number}` is no number of a GPU"))?)
            }
            _ => return Err("expected cpu, cuda, cuda:NUMBER or cuda-emulator".into()),
        };
        Ok(PlatformName { text: text.to_string(), platform, gpu_number })
    }
}

fn main() -> ExitCode {
    let status = work(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        if error.is_bug() { BUG } else { INVALID }
    });
    ExitCode::from(status)
}

fn work(options: &Options) -> Result<u8, RunError> {
    let PlatformName { text, platform, gpu_number } = &options.platform;
    if options.ceilings {
        let gpu = cuda::Gpu::open(*gpu_number).map_err(halo::Error::from)?;
        let ceilings = cuda::ceilings::measure(gpu).map_err(halo::Error::from)?;
        ceilings.iter().for_each(|ceiling| println!("{ceiling}"));
        return Ok(0);
    }
    let client = Client::with_options(ClientOptions {
        platform: *platform,
        gpu_number: *gpu_number,
        threads: options.threads.map_or(0, usize::from),
        ..ClientOptions::default()
    })?;
    if let Some(folder) = &options.cases {
        return cases::run_all(&client, text, folder, options.skip);
    }
    let Some(program) = &options.program else { return Ok(INVALID) };
    let settings = Settings {
        warm_up: options.warm_up,
        repeat: options.repeat,
        relative: options.rtol,
        absolute: options.atol,
        expected: options.expected.clone(),
        output_dir: options.output_dir.clone(),
    };
    let inputs = match (&options.spec, options.random_inputs) {
        (Some(spec), _) => Inputs::Described(spec.clone()),
        (None, Some(seed)) => Inputs::Random(seed),
        (None, None) => Inputs::Files(options.input.clone()),
    };
    let report = run::run(&client, program, &inputs, &settings)?;
    print!("{}", report.text(options.time));
    Ok(if report.agrees() { 0 } else { DIFFERS })
}
