//! Runs the cases of a file: one function for each command.

use std::path::Path;

use clap::ValueEnum;
use evaluator::Environment;
use halo::pipeline::Phase;
use hlo::graph::Module;
use lowering_llvm::{Target, ptxas};

use super::case::{Case, ExpectedError, TestLine, read_cases};
use super::expectation;
use super::patterns::check_output;
use super::run_line::ExpectedRun;
use crate::emit::{self, CodePlatform, EmitOptions, Output, Stage};
use crate::engine::{Engine, LoadOptions, LoadedProgram};
use crate::error::ToolError;
use crate::indexing_report::{self, Direction, ReportOptions};
use crate::module_file::SourceText;

/// The GPU that code is made and assembled for.
const GPU: &str = "sm_90";

/// How a file came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// Every case passed.
    Passed,
    /// A part of it cannot run on this machine.
    Skipped(String),
    /// What failed, with the case's line.
    Failed(String),
}

/// Runs a file. With `bless`, `expect` blocks are rewritten and the comparison with them passes.
pub fn run_file(path: &Path, bless: bool) -> FileOutcome {
    match run_cases(path, bless) {
        Ok(None) => FileOutcome::Passed,
        Ok(Some(reason)) => FileOutcome::Skipped(reason),
        Err(message) => FileOutcome::Failed(message),
    }
}

fn run_cases(path: &Path, bless: bool) -> Result<Option<String>, String> {
    let mut file = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut skipped = None;
    let mut failures = Vec::new();
    for (number, case) in read_cases(&file)?.iter().enumerate() {
        match run_case(path, case) {
            Ok(done) => {
                skipped = skipped.or(done.skipped);
                if let Some((output, diff)) = done.unexpected {
                    if bless {
                        file = expectation::bless(&file, number, &output);
                    } else {
                        failures.push(diff);
                    }
                }
            }
            Err(message) => failures.push(message),
        }
    }
    if bless {
        std::fs::write(path, file).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    if failures.is_empty() { Ok(skipped) } else { Err(failures.join("\n")) }
}

/// What the commands of a case did.
#[derive(Default)]
struct CaseResult {
    skipped: Option<String>,
    /// An output that is not the `expect` block, and the difference.
    unexpected: Option<(String, String)>,
}

fn run_case(path: &Path, case: &Case) -> Result<CaseResult, String> {
    let source_text = SourceText { path: path.to_path_buf(), text: case.program.as_str().into() };
    let mut done = CaseResult::default();
    let mut checked = false;
    for test in &case.tests {
        let located = |message: String| format!("line {}: {}: {message}", test.line, test.command);
        let result = run_command(test, case, &source_text).map_err(located)?;
        checked |= result.checked;
        done.skipped = done.skipped.or(result.skipped);
        let Some(output) = result.output else { continue };
        if test.precise {
            checked = true;
            if let Err(diff) = expectation::compare(case.expected.as_deref(), &output) {
                done.unexpected = Some((output, located(diff)));
            }
        } else if !case.checks.is_empty() {
            checked = true;
            check_output(&output, &case.checks).map_err(|message| located(format!("{message}\n{output}")))?;
        }
    }
    let precise = case.tests.iter().filter(|test| test.precise).count();
    if precise > 1 || precise == 0 && case.expected.is_some() {
        return Err(format!("line {}: an `expect:` block needs exactly one `precise` command", case.first_line));
    }
    if !checked && done.skipped.is_none() {
        return Err(format!("line {}: the case checks nothing", case.first_line));
    }
    Ok(done)
}

/// What a command did.
#[derive(Default)]
struct CommandResult {
    /// Text for `check` lines and `expect` blocks.
    output: Option<String>,
    /// Whether the command itself checked something.
    checked: bool,
    /// Why it could not run here.
    skipped: Option<String>,
}

impl CommandResult {
    fn text(output: String) -> Self {
        CommandResult { output: Some(output), ..CommandResult::default() }
    }

    fn checked() -> Self {
        CommandResult { checked: true, ..CommandResult::default() }
    }
}

fn run_command(test: &TestLine, case: &Case, source_text: &SourceText) -> Result<CommandResult, String> {
    let arguments: Vec<&str> = test.arguments.iter().map(String::as_str).collect();
    let emitted = |passes: &str, stage: Output| {
        let target = Target::cpu("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma");
        emit_text(source_text, passes, stage, target, CodePlatform::Cpu)
            .map(CommandResult::text)
            .map_err(|error| error.render())
    };
    // MLIR must read back; that alone checks something.
    let emitted_mlir = |stage: Output| {
        let result = emitted("", stage)?;
        let text = result.output.as_deref().unwrap_or_default();
        emit::check_mlir_text(text).map_err(|error| error.render())?;
        Ok(CommandResult { checked: true, ..result })
    };
    match (test.command.as_str(), arguments.as_slice()) {
        ("parse", []) => parse(source_text),
        ("verify", []) => verify(case, source_text),
        ("interpret", []) => interpret(case, source_text),
        ("run", ["cpu"]) => run(case, source_text),
        ("pass", [passes]) => emitted(passes, Stage::Hlo.into()),
        ("buffers", []) => emitted_mlir(Output::Phase(Phase::Buffers)),
        ("dialect", []) => emitted_mlir(Stage::Mlir.into()),
        ("indexing", directions) => indexing(source_text, directions).map(CommandResult::text),
        ("fusions", []) => emitted("", Stage::Fusions.into()),
        ("lower", []) => emitted_mlir(Stage::Affine.into()),
        ("llvm-dialect", []) => emitted_mlir(Stage::LlvmDialect.into()),
        ("llvm", []) => emitted("", Stage::Llvm.into()),
        ("nvptx", []) => nvptx(case, source_text, GPU),
        ("nvptx", [gpu]) => nvptx(case, source_text, gpu),
        (command, _) => Err(format!("no such command: `{command} {}`", arguments.join(" "))),
    }
}

/// The indexing maps of the entry computation, from results to operands if no direction is named.
fn indexing(source_text: &SourceText, directions: &[&str]) -> Result<String, String> {
    let direction = match directions {
        [] => Direction::default(),
        [name] => Direction::from_str(name, false)?,
        _ => return Err("`indexing` takes one direction".to_string()),
    };
    let options = ReportOptions { direction, ..ReportOptions::default() };
    let report = source_text.module().and_then(|module| indexing_report::report(&module, &options));
    report.map_err(|error| error.render())
}

/// Reads, prints, reads again: both modules must be equal. The output is the printed text.
fn parse(source_text: &SourceText) -> Result<CommandResult, String> {
    let module = source_text.module().map_err(|error| error.render())?;
    let printed = hlo::text::print(&module);
    let again = SourceText { path: "printed text".into(), text: printed.as_str().into() };
    let reread = again.module().map_err(|error| error.render())?;
    if reread != module {
        return Err(format!("the printed text reads as another module:\n{printed}"));
    }
    Ok(CommandResult { output: Some(printed), checked: true, skipped: None })
}

/// The program must give the errors that its lines expect, and no others.
fn verify(case: &Case, source_text: &SourceText) -> Result<CommandResult, String> {
    let errors = match source_text.module() {
        Ok(_) => Vec::new(),
        Err(ToolError::Program { errors, .. }) => {
            errors.0.iter().map(|error| (case.first_line + error.location().line - 1, error.with_hint())).collect()
        }
        Err(error) => return Err(error.render()),
    };
    let fits = |expected: &ExpectedError, (line, message): &(usize, String)| {
        *line == expected.line && message.contains(&expected.text)
    };
    for expected in &case.errors {
        if !errors.iter().any(|error| fits(expected, error)) {
            return Err(format!("no error in line {}: {}\ngot {}", expected.line, expected.text, error_lines(&errors)));
        }
    }
    if errors.iter().any(|error| !case.errors.iter().any(|expected| fits(expected, error))) {
        return Err(format!("not every error is expected: {}", error_lines(&errors)));
    }
    Ok(CommandResult::checked())
}

fn error_lines(errors: &[(usize, String)]) -> String {
    match errors {
        [] => "no error".into(),
        _ => errors.iter().map(|(line, message)| format!("\n  line {line}: {message}")).collect(),
    }
}

fn expected_runs(case: &Case, module: &Module) -> Result<Vec<ExpectedRun>, String> {
    if case.runs.is_empty() {
        return Err("the case has no `// run:` line".into());
    }
    case.runs
        .iter()
        .map(|line| ExpectedRun::read(line, module).map_err(|message| format!("line {}: {message}", line.line)))
        .collect()
}

/// Evaluates every `run` line.
fn interpret(case: &Case, source_text: &SourceText) -> Result<CommandResult, String> {
    let module = source_text.module().map_err(|error| error.render())?;
    for (run, line) in expected_runs(case, &module)?.iter().zip(&case.runs) {
        let found = match &run.arguments[..] {
            [arguments] => {
                evaluator::evaluate(&module, arguments, &mut Environment::default()).map(|value| vec![value])
            }
            several => evaluator::evaluate_on_devices(&module, several),
        };
        let found = found.map_err(|error| ToolError::evaluation(source_text, error));
        run.check(found).map_err(|message| format!("line {}: {message}", line.line))?;
    }
    Ok(CommandResult::checked())
}

/// Compiles and runs every `run` line.
fn run(case: &Case, source_text: &SourceText) -> Result<CommandResult, String> {
    let module = source_text.module().map_err(|error| error.render())?;
    let runs = expected_runs(case, &module)?;
    let located = |line: usize, message: String| format!("line {line}: {message}");
    match LoadedProgram::load(source_text.clone(), Engine::Jit, LoadOptions::with_threads(Some(1))) {
        Ok(program) => {
            for (run, line) in runs.iter().zip(&case.runs) {
                run.check(program.execute_on(&run.arguments)).map_err(|message| located(line.line, message))?;
            }
        }
        // Programs that must fail may do so before they run.
        Err(error) if runs.iter().all(ExpectedRun::is_failure) => {
            if let (Some(run), Some(line)) = (runs.first(), case.runs.first()) {
                run.check(Err(error)).map_err(|message| located(line.line, message))?;
            }
        }
        // The interpreter still checks the case; the output says what compiled code lacks.
        Err(ToolError::Compiled { error, .. }) if error.is_unsupported() => {
            return Ok(CommandResult { output: None, checked: false, skipped: Some(error.to_string()) });
        }
        Err(error) => return Err(error.render()),
    }
    Ok(CommandResult::checked())
}

/// The PTX for a GPU; assembled too where `ptxas` is installed.
fn nvptx(case: &Case, source_text: &SourceText, gpu: &str) -> Result<CommandResult, String> {
    match emit_text(source_text, "", Stage::Ptx, Target::nvptx(gpu, "+ptx80"), CodePlatform::Cuda) {
        Ok(text) => {
            let assembled = ptxas::assemble(&text, gpu).map_err(|error| error.to_string())?;
            let skipped = assembled.is_none().then(|| "ptxas is not installed".to_string());
            Ok(CommandResult { output: Some(text), checked: false, skipped })
        }
        Err(error) => match case.errors.as_slice() {
            [expected] if error.to_string().contains(&expected.text) => Ok(CommandResult::checked()),
            _ => Err(error.render()),
        },
    }
}

/// A stage for a processor that does not depend on the host.
fn emit_text(
    source_text: &SourceText,
    passes: &str,
    stage: impl Into<Output>,
    target: Target,
    platform: CodePlatform,
) -> Result<String, ToolError> {
    let options = EmitOptions { passes: passes.to_string(), ..EmitOptions::new(stage, platform, target) };
    let bytes = emit::emit(source_text, &options)?;
    String::from_utf8(bytes).map_err(|error| ToolError::Bug(error.to_string()))
}
