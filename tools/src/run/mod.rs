//! Running a program on data: what `hlo-run` does for one case, and for many.

mod arrays;
pub mod batch;
mod case;
mod report;

use std::path::Path;
use std::time::Instant;

use hlo::element_type::ElementType;
use hlo::graph::Module;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::ArrayShape;

pub use case::{InputFiles, RunCase};
pub use report::{RunReport, median};

use crate::check_nans;
use crate::compare::{ArrayComparison, Tolerance, compare_arrays};
use crate::engine::{Engine, LoadOptions, LoadedProgram};
use crate::error::ToolError;
use crate::model_spec::ModelSpec;
use crate::module_file::SourceText;
use crate::progress;
use crate::sensitivity::{self, Movement};
use crate::value_text;

/// The entry parameters' values as a model description has them.
pub fn spec_inputs(spec: &Path, module: &Module) -> Result<Vec<Literal>, ToolError> {
    arrays::inputs(&RunCase::default(), Some(&ModelSpec::read(spec)?), module)
}

/// How cases are run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Compiled or evaluated.
    pub engine: Engine,
    /// Threads of compiled code; all processors when absent.
    pub threads: Option<usize>,
    /// Executions; the last one's result counts.
    pub repeat: usize,
    /// Whether to look for the first NaN or infinity.
    pub check_nans: bool,
    /// Whether constants whose values the text left out get made-up ones.
    pub fill_elided: bool,
    /// Executions with moved inputs, when outputs differ from what is expected.
    pub sensitivity_runs: usize,
}

/// Runs one case.
pub fn run_case(case: &RunCase, settings: &Settings) -> Result<RunReport, ToolError> {
    let spec = case.spec.as_deref().map(ModelSpec::read).transpose()?;
    let spinner = progress::spinner(format!("compiling {}", case.module.display()));
    let options = LoadOptions { threads: settings.threads, fill_elided: settings.fill_elided };
    let program = LoadedProgram::load(SourceText::read(&case.module)?, settings.engine, options)?;
    spinner.finish_and_clear();
    let arguments = arrays::inputs(case, spec.as_ref(), &program.module)?;

    let mut report = RunReport {
        module: case.module.display().to_string(),
        phases: program.phases.clone(),
        arena_bytes: program.arena_bytes,
        ..RunReport::default()
    };
    if settings.check_nans {
        report.checked_nans = true;
        report.special_inputs = check_nans::special_arguments(&program.module, &arguments);
        report.culprit = check_nans::check_nans(&program.source_text, &program.module, &arguments)?;
    }
    let bar = progress::bar(settings.repeat as u64, "running");
    let mut result = None;
    for _ in 0..settings.repeat.max(1) {
        let start = Instant::now();
        result = Some(program.execute(&arguments)?);
        report.runs.push(start.elapsed());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let Some(result) = result else { return Err(ToolError::Bug("no execution".into())) };
    write_result(case, &result)?;
    compare_result(case, spec.as_ref(), &program.module, &result, &[], &mut report)?;
    if settings.sensitivity_runs > 0 && !report.comparisons.iter().all(ArrayComparison::agrees) {
        let bar = progress::bar(settings.sensitivity_runs as u64, "running with moved inputs");
        let movements = sensitivity::movements(&arguments, &result, settings.sensitivity_runs, |arguments| {
            bar.inc(1);
            program.execute(arguments)
        })?;
        bar.finish_and_clear();
        compare_result(case, spec.as_ref(), &program.module, &result, &movements, &mut report)?;
    }
    if case.output_dir.is_none() && report.comparisons.is_empty() {
        report.values = result.leaves().into_iter().map(value_text::shortened).collect();
    }
    Ok(report)
}

/// The shape as the program means it, without the layout that it happens to have.
fn shape_text(shape: &ArrayShape) -> String {
    ArrayShape { layout: None, ..shape.clone() }.to_string()
}

fn write_result(case: &RunCase, result: &Literal) -> Result<(), ToolError> {
    match &case.output_dir {
        Some(folder) => arrays::write_outputs(folder, &output_arrays(result)),
        None => Ok(()),
    }
}

fn output_arrays(result: &Literal) -> Vec<&ArrayLiteral> {
    result.leaves().into_iter().filter_map(|leaf| leaf.as_array()).collect()
}

/// Compares the outputs with what is expected of them, where something is. `movements` are those of the outputs, where
/// they were measured.
fn compare_result(
    case: &RunCase,
    spec: Option<&ModelSpec>,
    module: &Module,
    result: &Literal,
    movements: &[Movement],
    report: &mut RunReport,
) -> Result<(), ToolError> {
    let outputs = output_arrays(result);
    report.shapes = outputs.iter().map(|array| shape_text(array.shape())).collect();
    let tolerance = |element_type: ElementType| Tolerance::default_for(element_type).with(case.rtol, case.atol);
    if let Some(path) = &case.expected {
        let expected = arrays::expected(path, &outputs)?;
        let pairs = outputs.iter().zip(&expected).enumerate();
        let compare = |(number, (&found, expected)): (usize, (&&ArrayLiteral, &ArrayLiteral))| {
            compare_arrays(found, expected, tolerance(found.element_type()), movements.get(number))
        };
        report.comparisons = pairs.map(compare).collect();
    } else if let Some(spec) = spec.filter(|spec| !spec.outputs.is_empty()) {
        report.comparisons = spec.check(module, &outputs, tolerance, movements)?;
    }
    Ok(())
}
