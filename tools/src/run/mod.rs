//! Running a program on data: what `hlo-run` does for one case, and for many.

mod arrays;
pub mod batch;
mod case;
mod input_text;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use data::arrays::write_outputs;
use data::movement::Movement;
use hlo::element_type::ElementType;
use hlo::graph::Module;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::ArrayShape;

pub use case::{InputFiles, RunCase};
pub use report::{EngineComparison, RunReport, median};

use crate::check_nans;
use crate::compare::{ArrayComparison, Tolerance, compare_arrays};
use crate::engine::{Engine, LoadOptions, LoadedProgram, RunPlatform};
use crate::error::ToolError;
use crate::first_difference::{self, Engines, Tolerances, first_difference};
use crate::model_spec::{self, ModelSpec};
use crate::profile::Profile;
use crate::progress;
use crate::run_memory::{self, ArgumentMemory};
use crate::sensitivity;
use crate::value_text;

/// The entry parameters' values as a model description has them.
pub fn spec_inputs(spec: &Path, module: &Module) -> Result<Vec<Literal>, ToolError> {
    arrays::inputs(&RunCase::default(), Some(&ModelSpec::read(spec)?), module, Place::ALONE)
}

/// One of so many devices.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: usize,
    devices: usize,
}

impl Place {
    /// The only one.
    const ALONE: Place = Place { device: 0, devices: 1 };
}

/// How cases are run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Compiled or evaluated.
    pub engine: Engine,
    /// What compiled code runs on.
    pub platform: RunPlatform,
    /// Which of the machine's GPUs.
    pub gpu_number: u32,
    /// The GPU that kernels are for, where it is not what the platform's needs.
    pub target_cpu: Option<String>,
    /// Threads of compiled code; all processors when absent.
    pub threads: Option<usize>,
    /// Executions before those that are timed.
    pub warm_up: usize,
    /// Executions; the last one's result counts.
    pub repeat: usize,
    /// Whether the result is compared with the evaluator's.
    pub compare: bool,
    /// Whether the time of each kernel is taken.
    pub profile: bool,
    /// Whether the memory of a run is measured, and what becomes of the arguments then.
    pub memory: Option<ArgumentMemory>,
    /// Whether to look for the first NaN or infinity.
    pub check_nans: bool,
    /// Whether constants whose values the text left out get made-up ones.
    pub fill_elided: bool,
    /// Whether custom calls that nobody knows give zeros.
    pub stub_custom_calls: bool,
    /// Whether subnormal numbers are taken for zero.
    pub flush_subnormals: bool,
    /// Whether a GPU may make products of f32 of tf32.
    pub allow_tf32: bool,
    /// Run only so many of the passes that may be left out.
    pub pass_limit: Option<usize>,
    /// Executions with moved inputs, when outputs differ from what is expected.
    pub sensitivity_runs: usize,
    /// Devices to run on; as many as the program needs when absent.
    pub devices: Option<usize>,
    /// How long devices wait for others that still compute.
    pub collective_time_limit: Option<Duration>,
}

/// Runs one case.
pub fn run_case(case: &RunCase, settings: &Settings) -> Result<RunReport, ToolError> {
    if [case.rtol, case.atol].into_iter().flatten().any(|tolerance| tolerance.is_nan() || tolerance < 0.0) {
        return Err(ToolError::Usage("a tolerance is 0 or larger".into()));
    }
    let spec = case.spec.as_deref().map(ModelSpec::read).transpose()?;
    let spinner = progress::spinner(format!("compiling {}", case.module.display()));
    let options = LoadOptions {
        platform: settings.platform,
        gpu_number: settings.gpu_number,
        target_cpu: settings.target_cpu.clone(),
        threads: settings.threads,
        fill_elided: settings.fill_elided,
        stub_custom_calls: settings.stub_custom_calls,
        flush_subnormals: settings.flush_subnormals,
        profile: settings.profile,
        allow_tf32: settings.allow_tf32,
        pass_limit: settings.pass_limit,
        donates: settings.memory == Some(ArgumentMemory::Donated),
        devices: settings.devices,
        collective_time_limit: settings.collective_time_limit,
        ..LoadOptions::default()
    };
    let mut program = LoadedProgram::read(&case.module, settings.engine, options)?;
    spinner.finish_and_clear();
    let devices = program.devices;
    if program.source_text.text.is_empty() && (settings.compare || settings.check_nans) {
        return Err(ToolError::Usage(
            "--compare and --check-nans need the program, not what it was compiled to".into(),
        ));
    }
    let places = || (0..devices).map(|device| Place { device, devices });
    let arguments: Vec<Vec<Literal>> =
        places().map(|place| arrays::inputs(case, spec.as_ref(), &program.module, place)).collect::<Result<_, _>>()?;
    program.infeed = arrays::infeed(&case.infeed, &program.module)?;

    let mut report = RunReport {
        module: case.module.display().to_string(),
        phases: program.phases.clone(),
        arena_bytes: program.arena_bytes,
        devices,
        stubs: program.stubs.calls.clone(),
        ..RunReport::default()
    };
    let of_one_device = [
        ("--check-nans", settings.check_nans),
        ("--sensitivity", settings.sensitivity_runs > 0),
        ("--compare", settings.compare),
        ("--profile", settings.profile),
        ("--memory", settings.memory.is_some()),
    ];
    if let (Some((flag, _)), true) = (of_one_device.iter().find(|(_, is_given)| *is_given), devices > 1) {
        return Err(ToolError::Usage(format!("{flag} is for one device, the program is for {devices}")));
    }
    if let ([arguments], Some(kept)) = (&arguments[..], settings.memory) {
        let (executable, _) = program
            .executable()
            .filter(|_| settings.platform == RunPlatform::Cpu && program.infeed.is_empty())
            .ok_or_else(|| {
                ToolError::Usage("--memory needs a program that is compiled for the host, without infeed".into())
            })?;
        report.memory = Some(run_memory::measure(&program.module, executable, arguments, kept)?);
    }
    if let ([arguments], true) = (&arguments[..], settings.check_nans) {
        report.checked_nans = true;
        report.special_inputs = check_nans::special_arguments(&program.module, arguments);
        report.culprit = check_nans::check_nans(&program.source_text, &program.module, arguments)?;
    }
    let bar = progress::bar((settings.warm_up + settings.repeat) as u64, "running");
    // Arguments are in place before the first run, and results stay where they are until the last one.
    let resident = match &arguments[..] {
        [arguments] => program.resident(arguments)?,
        _ => None,
    };
    for _ in 0..settings.warm_up {
        match &resident {
            Some(resident) => drop(resident.execute()?),
            None => drop(program.execute_on(&arguments)?),
        }
        bar.inc(1);
    }
    if let Some((executable, _)) = program.executable() {
        executable.take_profile();
    }
    let mut steps = Vec::new();
    let mut results = None;
    let mut on_device = Vec::new();
    for number in (0..settings.repeat.max(1)).rev() {
        on_device.clear();
        // The device's clock costs the host time: it is for the last run.
        if let Some((executable, _)) = program.executable().filter(|_| number == 0) {
            executable.time_device(true);
        }
        let start = Instant::now();
        match &resident {
            Some(resident) => on_device = resident.execute()?,
            None => results = Some(program.execute_on(&arguments)?),
        }
        let time = start.elapsed();
        report.runs.push(time);
        if let Some((executable, _)) = program.executable() {
            steps.push((time, executable.take_profile()));
        }
        bar.inc(1);
    }
    report.device_time = program.executable().and_then(|(executable, _)| executable.device_time());
    bar.finish_and_clear();
    if let Some(resident) = &resident {
        results = Some(vec![resident.result(&on_device)?]);
    }
    let Some(results) = results else { return Err(ToolError::Bug("no execution".into())) };
    if settings.profile {
        let (executable, options) = program
            .executable()
            .ok_or_else(|| ToolError::Usage("--profile needs a program that is compiled".into()))?;
        report.profile = Some(Profile::new(&program.module, executable, options, &steps)?);
    }
    for (place, result) in places().zip(&results) {
        write_result(case, result, place)?;
        compare_result(case, spec.as_ref(), &program.module, result, &[], &mut report, place)?;
    }
    if let ([arguments], [result], true) = (&arguments[..], &results[..], settings.compare) {
        report.engines = Some(compare_engines(case, &program, arguments, result)?);
    }
    if let ([arguments], [result]) = (&arguments[..], &results[..])
        && settings.sensitivity_runs > 0
        && !report.comparisons.iter().all(ArrayComparison::agrees)
    {
        let bar = progress::bar(settings.sensitivity_runs as u64, "running with moved inputs");
        let movements = sensitivity::movements(arguments, result, settings.sensitivity_runs, |arguments| {
            bar.inc(1);
            program.execute(arguments)
        })?;
        bar.finish_and_clear();
        report.shapes.clear();
        report.comparisons.clear();
        compare_result(case, spec.as_ref(), &program.module, result, &movements, &mut report, Place::ALONE)?;
    }
    if case.output_dir.is_none() && report.comparisons.is_empty() && report.engines.is_none() {
        report.values = results.iter().flat_map(Literal::leaves).map(value_text::shortened).collect();
    }
    Ok(report)
}

/// Compares a result with the evaluator's, and looks for the first instruction that differs.
fn compare_engines(
    case: &RunCase,
    program: &LoadedProgram,
    arguments: &[Literal],
    result: &Literal,
) -> Result<EngineComparison, ToolError> {
    let Some((executable, options)) = program.executable() else {
        return Err(ToolError::Usage("--compare=interpreter needs another engine".into()));
    };
    let spinner = progress::spinner("evaluating".to_string());
    let expected = program.evaluate(arguments)?;
    spinner.finish_and_clear();
    let tolerances = Tolerances { relative: case.rtol, absolute: case.atol };
    let comparison = first_difference::compare(result, &expected, tolerances);
    // A part of a program that reads queues would not read the same.
    if comparison.agrees() || !program.infeed.is_empty() {
        return Ok(EngineComparison { comparison, first: None });
    }
    let spinner = progress::spinner("looking for the first instruction that differs".to_string());
    let client = executable.client().clone();
    let suspect = |module: &Module, arguments: &[Literal]| -> Result<Literal, ToolError> {
        let executable = client.compile(module, options)?;
        Ok(executable.execute(arguments)?)
    };
    let judge = |module: &Module, arguments: &[Literal]| program.evaluate_part(module, arguments);
    let engines = Engines { suspect: &suspect, judge: &judge };
    let first = first_difference(&program.module, arguments, tolerances, engines)?;
    spinner.finish_and_clear();
    Ok(EngineComparison { comparison, first })
}

/// The shape as the program means it, without the layout that it happens to have.
fn shape_text(shape: &ArrayShape) -> String {
    ArrayShape { layout: None, ..shape.clone() }.to_string()
}

fn write_result(case: &RunCase, result: &Literal, place: Place) -> Result<(), ToolError> {
    match &case.output_dir {
        Some(folder) if place.devices == 1 => Ok(write_outputs(folder, &output_arrays(result))?),
        Some(folder) => Ok(write_outputs(&folder.join(device_folder(place)), &output_arrays(result))?),
        None => Ok(()),
    }
}

/// Name of the folder of a device's arrays.
fn device_folder(place: Place) -> String {
    format!("device_{}", place.device)
}

fn output_arrays(result: &Literal) -> Vec<&ArrayLiteral> {
    result.leaves().into_iter().filter_map(|leaf| leaf.as_array()).collect()
}

/// Compares the outputs of a device with what is expected of them, where something is. `movements` are those of the
/// outputs, where they were measured.
fn compare_result(
    case: &RunCase,
    spec: Option<&ModelSpec>,
    module: &Module,
    result: &Literal,
    movements: &[Movement],
    report: &mut RunReport,
    place: Place,
) -> Result<(), ToolError> {
    let outputs = output_arrays(result);
    report.shapes.extend(outputs.iter().map(|array| shape_text(array.shape())));
    let tolerance = |element_type: ElementType| Tolerance::default_for(element_type).with(case.rtol, case.atol);
    if let Some(path) = &case.expected {
        let own = path.join(device_folder(place));
        let expected = data::arrays::expected(if own.is_dir() { &own } else { path }, &outputs)?;
        let pairs = outputs.iter().zip(&expected).enumerate();
        let compare = |(number, (&found, expected)): (usize, (&&ArrayLiteral, &ArrayLiteral))| {
            compare_arrays(found, expected, tolerance(found.element_type()), movements.get(number))
        };
        report.comparisons.extend(pairs.map(compare));
    } else if let Some(spec) = spec.filter(|spec| !spec.outputs.is_empty()) {
        let in_floats = model_spec::computes_in_floats(module);
        report.comparisons.extend(spec.check(in_floats, &outputs, tolerance, movements)?);
    }
    Ok(())
}
