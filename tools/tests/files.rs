//! Every file of `test-files/` as a test of its name; `HALO_BLESS=1` rewrites expectations. Then the cases of
//! `conformance/data`, see [`conformance`].

mod conformance;
mod dumps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use halo::{ClientOptions, Platform};
use libtest_mimic::{Arguments, Failed, Trial};
use tools::conformance::report::ConformanceReport;
use tools::conformance::{gpu, hopper};
use tools::engine::{Engine, RunPlatform};
use tools::file_test::{self, FileOutcome};
use tools::mutations::saved::SavedMutants;
use tools::mutations::{self, MutantFailure, MutantStage};
use tools::operation_pairs;
use tools::platform_name::PlatformName;
use tools::random_programs;
use tools::run::{self, RunCase, Settings};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-files");
    let bless = std::env::var_os("HALO_BLESS").is_some();
    let mut files = Vec::new();
    find_files(&root, &mut files);
    files.sort();
    let sources = programs(&files);
    let mut trials: Vec<Trial> = files.into_iter().flat_map(|path| trials_of(&root, path, bless)).collect();
    trials.extend(random_programs(Platform::Cpu.into()));
    trials.extend(random_programs(gpu()));
    trials.extend(hopper().into_iter().flat_map(random_programs));
    trials.extend(operation_pairs());
    trials.extend(dumps::trials(&root));
    trials.extend(mutations(sources));
    let report = Arc::new(Mutex::new(ConformanceReport::default()));
    trials.extend(conformance::trials(&report, bless));
    let conclusion = libtest_mimic::run(&arguments, trials);
    let report = report.lock().unwrap_or_else(PoisonError::into_inner);
    if !report.is_empty() {
        println!("{report}");
    }
    conclusion.exit_code()
}

/// Compiled programs agree with the evaluator on random programs: `HALO_RANDOM_PROGRAMS` of them (400), the seeds
/// counted from `HALO_RANDOM_SEED` (0). With `HALO_RANDOM_PRINT` each program is printed before it runs: for those
/// that end the process. On a GPU, see [`gpu`], there are
/// `HALO_RANDOM_GPU_PROGRAMS` (50), and half as many where its processor is named.
fn random_programs(name: PlatformName<Platform>) -> impl Iterator<Item = Trial> {
    const PROGRAMS_PER_TRIAL: u64 = 50;
    let PlatformName { platform, processor, .. } = name;
    let (kind, count, default) = match (platform, &processor) {
        (Platform::Cpu, _) => ("random programs".to_string(), "HALO_RANDOM_PROGRAMS", 400),
        (_, None) => ("random programs emulated".to_string(), "HALO_RANDOM_GPU_PROGRAMS", 50),
        (_, Some(gpu)) => (format!("random programs emulated {gpu}"), "HALO_RANDOM_GPU_PROGRAMS", 25),
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("HALO_RANDOM_SEED").unwrap_or(0);
    let end = first + number(count).unwrap_or(default);
    (first..end).step_by(PROGRAMS_PER_TRIAL as usize).map(move |start| {
        let last = end.min(start + PROGRAMS_PER_TRIAL) - 1;
        let gpu_processor = processor.clone();
        Trial::test(format!("{kind} {start}..={last}"), move || {
            let options = ClientOptions { platform, gpu_processor, threads: 1, ..ClientOptions::default() };
            let client = halo::Client::with_options(options).map_err(|error| error.to_string())?;
            let failures: Vec<String> = (start..=last)
                .inspect(|&seed| {
                    if std::env::var_os("HALO_RANDOM_PRINT").is_some() {
                        match random_programs::generate(seed) {
                            Ok(program) => println!("{}", hlo::text::print(&program.module)),
                            Err(message) => println!("{message}"),
                        }
                    }
                })
                .filter_map(|seed| random_programs::check(seed, &client).err())
                .map(|failure| failure.to_string())
                .collect();
            if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
        })
    })
}

/// Every operation after every other, on both engines: a sample of the pairs, or all with `HALO_ALL_PAIRS=1`.
fn operation_pairs() -> impl Iterator<Item = Trial> {
    // Prime to the number of steps, so that each is sampled in either place.
    const SAMPLE: usize = 11;
    let every = if std::env::var_os("HALO_ALL_PAIRS").is_some() { 1 } else { SAMPLE };
    operation_pairs::STEPS.iter().enumerate().map(move |(number, first)| {
        Trial::test(format!("pairs {}", first.name), move || {
            let client = halo::Client::with_threads(1).map_err(|error| error.to_string())?;
            let seconds = operation_pairs::STEPS.iter().skip(number % every).step_by(every);
            let failures: Vec<String> =
                seconds.filter_map(|second| operation_pairs::check(first, second, &client).err()).collect();
            if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
        })
    })
}

/// The programs of the file tests, but the models, which are large.
fn programs(files: &[PathBuf]) -> Vec<String> {
    let is_small = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| extension == "hlo") && !path.with_extension("json").exists()
    };
    let texts = files.iter().filter(is_small).filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| mutations::programs_of(&text).collect::<Vec<_>>()).collect()
}

/// Mutated inputs crash nothing, and the engines agree on them: `HALO_MUTATIONS` seeds (400), counted from
/// `HALO_MUTATION_SEED` (0); of each a program as HLO text and as MLIR, an array, a description and a saved executable. With
/// `HALO_MUTATION_PRINT` each text is printed before it is read: for those that end the process.
fn mutations(sources: Vec<String>) -> impl Iterator<Item = Trial> {
    const MUTANTS_PER_TRIAL: u64 = 100;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("HALO_MUTATION_SEED").unwrap_or(0);
    let end = first + number("HALO_MUTATIONS").unwrap_or(400);
    type Check = fn(u64, &[String], &halo::Client) -> Result<MutantStage, MutantFailure>;
    // Most runs of the tests want other tests.
    let sources = Arc::new(LazyLock::new(move || {
        let mlir: Vec<String> = sources.iter().filter_map(|program| mutations::mlir_of(program)).collect();
        (sources, mlir)
    }));
    (first..end).step_by(MUTANTS_PER_TRIAL as usize).map(move |start| {
        let last = end.min(start + MUTANTS_PER_TRIAL) - 1;
        let sources = Arc::clone(&sources);
        Trial::test(format!("mutations {start}..={last}"), move || {
            let client = halo::Client::with_threads(1).map_err(|error| error.to_string())?;
            let saved = SavedMutants::new()?;
            let mut failures: Vec<String> = saved.check_cache(start).err().into_iter().collect();
            let mut ran = 0;
            for seed in start..=last {
                failures.extend(mutations::files::check(seed).err());
                failures.extend(saved.check(seed).err());
                for (sources, check) in [(&sources.0, mutations::check as Check), (&sources.1, mutations::check_mlir)] {
                    if std::env::var_os("HALO_MUTATION_PRINT").is_some() {
                        println!("// mutant {seed}\n{}", mutations::mutant(seed, sources));
                    }
                    match check(seed, sources, &client) {
                        Ok(stage) => ran += u64::from(stage == MutantStage::Ran),
                        Err(failure) => failures.push(failure.to_string()),
                    }
                }
            }
            println!("mutations {start}..={last}: {ran} ran on both engines");
            if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
        })
    })
}

fn find_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            find_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "hlo" || extension == "mlir") {
            files.push(path);
        }
    }
}

/// Models that take the emulator of a GPU seconds.
const EMULATED_MODELS: [&str; 3] = ["black_scholes", "cg_f64", "mnist_mlp_sgd"];

/// A model with a description runs on each engine; every other file says in itself what is done with it. Files of
/// `command-line/` belong to the tests of the tools.
fn trials_of(root: &Path, path: PathBuf, bless: bool) -> Vec<Trial> {
    let name = path.strip_prefix(root).unwrap_or(&path).with_extension("").display().to_string();
    if name.starts_with("command-line/") {
        return Vec::new();
    }
    let spec = path.with_extension("json");
    if spec.exists() {
        let engines = [
            ("jit", Engine::Jit, RunPlatform::Cpu),
            ("interpreter", Engine::Interpreter, RunPlatform::Cpu),
            ("emulated", Engine::Jit, RunPlatform::CudaEmulator),
        ];
        let is_emulated = EMULATED_MODELS.iter().any(|model| path.file_stem().is_some_and(|stem| stem == *model));
        return engines
            .into_iter()
            .filter(|(.., platform)| *platform == RunPlatform::Cpu || is_emulated)
            .map(|(engine_name, engine, platform)| {
                let (path, spec) = (path.clone(), spec.clone());
                Trial::test(format!("{name} {engine_name}"), move || run_model(path, spec, engine, platform))
            })
            .collect();
    }
    let trial = Trial::test(name, move || match file_test::run_file(&path, bless) {
        FileOutcome::Passed => Ok(()),
        FileOutcome::Skipped(reason) => {
            println!("skipped in part: {reason}");
            Ok(())
        }
        FileOutcome::Failed(message) => Err(Failed::from(message)),
    });
    vec![trial]
}

fn run_model(module: PathBuf, spec: PathBuf, engine: Engine, platform: RunPlatform) -> Result<(), Failed> {
    let case = RunCase { module, spec: Some(spec), ..RunCase::default() };
    let settings = Settings { engine, platform, ..Settings::default() };
    let report = run::run_case(&case, &settings).map_err(|error| error.render())?;
    if report.agrees() { Ok(()) } else { Err(report.text(false).into()) }
}
