//! Runs passes on a program and shows it at any stage of compilation.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use halo::pipeline::Phase;
use hlo::dialect::PrintOptions;
use lowering_llvm::Target;
use mlir_ext::pass_pipeline::Instrumentation;
use tools::emit::{self, CodePlatform, EmitOptions, Output, Stage};
use tools::engine::RunPlatform;
use tools::error::ToolError;
use tools::indexing_report::{self, Direction, ReportOptions};
use tools::module_file::SourceText;
use tools::pass_run::PassTrace;
use tools::platform_name::PlatformName;
use tools::{interrupt, outer_boundary, reduce, verify_diagnostics};

/// Runs passes on a program and shows it at any stage of compilation.
///
/// Exit status: 0 good, 1 other diagnostics than expected, 2 bad input or usage, 3 a bug in halo.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Program: HLO text, a protocol buffer, or MLIR of any phase, told apart by what it says; - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Stage to show; without it the program as it is after the passes.
    #[arg(long, value_enum)]
    emit: Option<Stage>,
    /// Passes to run first: a pipeline in which passes on functions need no func.func(…) around them.
    #[arg(long, value_name = "PASS,…", default_value = "", conflicts_with = "pass_pipeline")]
    passes: String,
    /// Pipeline to run first, as MLIR reads it: builtin.module(…).
    #[arg(long, value_name = "PIPELINE")]
    pass_pipeline: Option<String>,
    /// Phase in which the program is: input, hlo, fused, buffers, affine, scf or llvm.
    #[arg(long, value_name = "PHASE")]
    compile_from: Option<Phase>,
    /// Compiles up to a phase and prints MLIR.
    #[arg(long, value_name = "PHASE", conflicts_with = "emit")]
    compile_to: Option<Phase>,
    /// Lists halo's passes and exits.
    #[arg(long, exclusive = true)]
    list_passes: bool,
    /// Prints the pipeline that would run, with every option of every pass.
    #[arg(long, conflicts_with_all = ["output", "split_input_file", "verify_diagnostics"])]
    show_pipeline: bool,
    /// Prints the IR to standard error before these passes.
    #[arg(long, value_name = "PASS,…", default_value = "", conflicts_with = "mlir_print_ir_before_all")]
    mlir_print_ir_before: String,
    /// Prints the IR to standard error before each pass.
    #[arg(long)]
    mlir_print_ir_before_all: bool,
    /// Prints the IR to standard error after these passes.
    #[arg(long, value_name = "PASS,…", default_value = "", conflicts_with = "mlir_print_ir_after_all")]
    mlir_print_ir_after: String,
    /// Prints the IR to standard error after each pass.
    #[arg(long, alias = "print-ir-after-all")]
    mlir_print_ir_after_all: bool,
    /// Prints the IR to standard error after each pass that changed it.
    #[arg(long, conflicts_with_all = ["mlir_print_ir_after", "mlir_print_ir_after_all"])]
    mlir_print_ir_after_change: bool,
    /// Writes the IR after each pass into a tree of folders, as MLIR names them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dump_to", "mlir_print_ir_before", "mlir_print_ir_before_all",
        "mlir_print_ir_after", "mlir_print_ir_after_all", "mlir_print_ir_after_change"])]
    print_ir_tree_dir: Option<PathBuf>,
    /// Writes the program after each pass into numbered files, from which compilation goes on.
    #[arg(long, value_name = "DIR", conflicts_with = "mlir_timing")]
    dump_to: Option<PathBuf>,
    /// Prints the time of each pass to standard error.
    #[arg(long)]
    mlir_timing: bool,
    /// Prints what halo's passes counted to standard error.
    #[arg(long)]
    mlir_pass_statistics: bool,
    /// Verifies the program after each pass.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    verify_each: bool,
    /// Writes the IR and the pipeline to a file when a pass fails.
    #[arg(long, value_name = "FILE")]
    mlir_pass_pipeline_crash_reproducer: Option<PathBuf>,
    /// Runs on each part of the file between lines `// -----`.
    #[arg(long)]
    split_input_file: bool,
    /// Compares errors with the comments `// expected-error {{text}}` and prints nothing else.
    #[arg(long, conflicts_with = "output")]
    verify_diagnostics: bool,
    /// What code is made for; a GPU may be named with it, as in cuda:sm_90a.
    #[arg(long, default_value = "cpu")]
    platform: PlatformName<CodePlatform>,
    /// With --emit=bundle: what the program is compiled for, the first that a machine runs of several for GPUs (default: cpu,cuda).
    #[arg(long, value_name = "PLATFORM,…", value_delimiter = ',')]
    bundle_for: Vec<PlatformName<RunPlatform>>,
    /// Processor by LLVM's name instead of the host's or sm_90, e.g. x86-64-v3.
    #[arg(long, value_name = "NAME")]
    target_cpu: Option<String>,
    /// Its features, e.g. +avx2,+fma.
    #[arg(long, value_name = "LIST", default_value = "", requires = "target_cpu", allow_hyphen_values = true)]
    target_features: String,
    /// With --emit=indexing: only this instruction, in any computation.
    #[arg(long, value_name = "NAME")]
    instruction: Option<String>,
    /// With --emit=indexing: which way the maps go.
    #[arg(long, value_enum)]
    direction: Option<Direction>,
    /// With --emit=indexing: composed maps are shown as they are composed.
    #[arg(long)]
    no_simplify: bool,
    /// With --emit=indexing: one JSON object a line.
    #[arg(long)]
    json: bool,
    /// With --emit=indexing-map: the map to simplify, instead of a program.
    #[arg(long, value_name = "MAP", allow_hyphen_values = true)]
    map: Option<String>,
    /// With --map: a map to follow it.
    #[arg(long, value_name = "MAP", requires = "map", allow_hyphen_values = true)]
    compose: Option<String>,
    /// MLIR with names and metadata too, as locations; the text of the hlo dialect then reads back as the same program.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    locations: bool,
    /// MLIR in the form that all dialects share.
    #[arg(long)]
    mlir_print_op_generic: bool,
    /// Says why two instructions are, or are not, computed in one fusion.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["emit", "compile_to"])]
    explain_fusion: Option<Vec<String>>,
    /// Prints a smaller program on which COMMAND fails with the same exit status. It gets the path of a file of HLO text
    /// behind it, or in the place of {}.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["emit", "compile_to", "passes", "pass_pipeline"])]
    reduce: Option<String>,
    /// Of the passes that may be left out, runs only the first N, and lists them on standard error.
    #[arg(long, value_name = "N")]
    bisect_limit: Option<usize>,
    /// Leaves out these passes, of those that may be left out.
    #[arg(long, value_name = "PASS,…", value_delimiter = ',')]
    disable_passes: Vec<String>,
    /// Makes code that rounds wherever the program does, without excess precision.
    #[arg(long)]
    strict: bool,
    /// Lets a GPU make products of f32 of tf32 where the program leaves their precision open.
    #[arg(long)]
    allow_tf32: bool,
    /// Splits large loops for several threads, as hlo-run does.
    #[arg(long)]
    parallel: bool,
    /// Puts the lines of the HLO text into LLVM IR and machine code.
    #[arg(long)]
    debug_info: bool,
    /// Writes here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    interrupt::end_with_a_message();
    outer_boundary::run(|| work(&options))
}

fn work(options: &Options) -> Result<u8, ToolError> {
    if options.list_passes {
        return list_passes();
    }
    options.check()?;
    if let Some(map) = &options.map {
        let text = indexing_report::map(map, options.compose.as_deref(), options.no_simplify)?;
        return options.write(text.into_bytes());
    }
    let target = options.target()?;
    let emit_options = options.emit_options(target);
    let source_text = SourceText::read(&options.file)?;
    if let Some(command) = &options.reduce {
        let reduced = reduce::reduce(&source_text.module()?, command)?;
        eprintln!("the command ends with status {} on this too ({} runs)", reduced.status, reduced.runs);
        return options.write(hlo::text::print(&reduced.module).into_bytes());
    }
    if let Some([first, second]) = options.explain_fusion.as_deref() {
        let text = emit::explain_fusion(&source_text, &emit_options, [first, second])?;
        return options.write(text.into_bytes());
    }
    let parts = if options.split_input_file { source_text.split() } else { vec![source_text] };
    if options.verify_diagnostics {
        let faults: Vec<String> =
            parts.iter().flat_map(|part| verify_diagnostics::faults(part, emit::emit(part, &emit_options))).collect();
        faults.iter().for_each(|fault| eprintln!("{fault}"));
        return Ok(if faults.is_empty() { 0 } else { outer_boundary::DIFFERS });
    }
    if options.show_pipeline {
        let texts: Vec<String> =
            parts.iter().map(|part| emit::show_pipeline(part, &emit_options)).collect::<Result<_, _>>()?;
        return options.write(texts.concat().into_bytes());
    }
    let outputs: Vec<Vec<u8>> = parts.iter().map(|part| emit::emit(part, &emit_options)).collect::<Result<_, _>>()?;
    options.write(outputs.join(b"// -----\n".as_slice()))
}

fn list_passes() -> Result<u8, ToolError> {
    halo::pipeline::register_passes();
    for pass in mlir_ext::pass::registered() {
        outer_boundary::print(format!("{:<30} {}\n", pass.argument, pass.description))?;
        for option in pass.options {
            let (name, default) = (option.name, option.default);
            outer_boundary::print(format!("  {:<28} {} ({default})\n", format!("{name}="), option.description))?;
        }
    }
    Ok(0)
}

impl Options {
    fn write(&self, bytes: Vec<u8>) -> Result<u8, ToolError> {
        match &self.output {
            Some(path) => {
                std::fs::write(path, bytes).map_err(|source| ToolError::Write { path: path.clone(), source })?;
            }
            None => outer_boundary::print(bytes)?,
        }
        Ok(0)
    }

    /// Refuses flags that would have no effect.
    fn check(&self) -> Result<(), ToolError> {
        let refuse = |flag: &str, needs: &str| Err(ToolError::Usage(format!("{flag} needs {needs}")));
        let emits = |stages: &[Stage]| self.emit.is_some_and(|emit| stages.contains(&emit));
        if self.map.is_some() && !emits(&[Stage::IndexingMap]) {
            return refuse("--map", "--emit=indexing-map");
        }
        if emits(&[Stage::IndexingMap]) && self.map.is_none() {
            return refuse("--emit=indexing-map", "--map");
        }
        let of_indexing = [
            ("--instruction", self.instruction.is_some()),
            ("--direction", self.direction.is_some()),
            ("--json", self.json),
        ];
        if let Some((flag, _)) = of_indexing.into_iter().find(|(_, given)| *given && !emits(&[Stage::Indexing])) {
            return refuse(flag, "--emit=indexing");
        }
        if self.no_simplify && !emits(&[Stage::Indexing, Stage::IndexingMap]) {
            return refuse("--no-simplify", "--emit=indexing or --emit=indexing-map");
        }
        if !self.bundle_for.is_empty() && !emits(&[Stage::Bundle]) {
            return refuse("--bundle-for", "--emit=bundle");
        }
        let explained = self.explain_fusion.as_ref().map(|_| Phase::Fused);
        let phase = self.compile_to.or(self.emit.map(Stage::phase)).or(explained).unwrap_or(Phase::Input);
        let compiles = phase > Phase::Input;
        let of_compilation = [
            ("--strict", self.strict),
            ("--allow-tf32", self.allow_tf32),
            ("--platform=cuda", self.platform.platform == CodePlatform::Cuda),
            ("--compile-from", self.compile_from.is_some()),
        ];
        if let Some((flag, _)) = of_compilation.into_iter().find(|(_, given)| *given && !compiles) {
            return refuse(flag, "a stage of compilation");
        }
        let runs_passes = compiles || !self.passes.is_empty() || self.pass_pipeline.is_some();
        if self.show_pipeline && !runs_passes {
            return refuse("--show-pipeline", "a stage of compilation or passes");
        }
        if self.parallel && (phase < Phase::Mapped || self.platform.platform == CodePlatform::Cuda) {
            return refuse("--parallel", "a stage of compilation for the platform cpu from mapped on");
        }
        if self.debug_info && phase < Phase::Llvm {
            return refuse("--debug-info", "a stage of compilation from the llvm dialect on");
        }
        let numbered =
            [&self.platform.gpu_number].into_iter().chain(self.bundle_for.iter().map(|name| &name.gpu_number));
        if numbered.into_iter().any(Option::is_some) {
            let message = "code is for a kind of GPU, as in cuda:sm_90a, not for the machine's GPU of a number";
            return Err(ToolError::Usage(message.into()));
        }
        let processors = [("--target-cpu", &self.target_cpu), ("a GPU in --platform", &self.platform.processor)];
        if let Some((flag, _)) = processors.iter().find(|(_, name)| name.is_some() && phase < Phase::Mapped) {
            return refuse(flag, "a stage of compilation from mapped on");
        }
        let prints_mlir = self.compile_to.is_some() || self.emit.is_none_or(Stage::is_mlir) || self.trace().prints();
        if let Some((flag, _)) =
            [("--locations", self.locations), ("--mlir-print-op-generic", self.mlir_print_op_generic)]
                .into_iter()
                .find(|(_, given)| *given && !prints_mlir)
        {
            return refuse(flag, "a stage that is printed as MLIR");
        }
        if self.split_input_file && emits(&[Stage::Obj, Stage::Bundle]) && !self.verify_diagnostics {
            return Err(ToolError::Usage("--split-input-file makes several files, which have no place".into()));
        }
        if self.split_input_file && (self.dump_to.is_some() || self.print_ir_tree_dir.is_some()) {
            return Err(ToolError::Usage("the parts of --split-input-file would write the same files".into()));
        }
        Ok(())
    }

    /// The processor that is named; LLVM must know it.
    fn target(&self) -> Result<Option<Target>, ToolError> {
        let Some(name) = &self.platform.processor(self.target_cpu.as_ref())? else { return Ok(None) };
        // Without a version of PTX, it is the first that knows the GPU.
        let features = self.target_features.as_str();
        let target = match self.platform.platform {
            CodePlatform::Cpu => Target::cpu(Target::host().triple(), name, features),
            CodePlatform::Cuda => Target::nvptx(name, features),
        };
        emit::checked(target).map(Some)
    }

    fn print_options(&self) -> PrintOptions {
        PrintOptions {
            locations: self.locations,
            names: self.locations && !self.mlir_print_op_generic,
            generic: self.mlir_print_op_generic,
            ..PrintOptions::default()
        }
    }

    fn instrumentation(&self) -> Instrumentation {
        let names = |all: bool, names: &str| if all { "*".to_string() } else { names.to_string() };
        let after_all = self.mlir_print_ir_after_all || self.mlir_print_ir_after_change;
        Instrumentation {
            print_before: names(self.mlir_print_ir_before_all, &self.mlir_print_ir_before),
            print_after: names(after_all, &self.mlir_print_ir_after),
            only_on_change: self.mlir_print_ir_after_change,
            print: self.print_options(),
            timing: self.mlir_timing,
            reproducer: self.mlir_pass_pipeline_crash_reproducer.as_ref().map(|path| path.display().to_string()),
        }
    }

    fn trace(&self) -> PassTrace {
        PassTrace {
            instrumentation: self.instrumentation(),
            tree: self.print_ir_tree_dir.clone(),
            dump: self.dump_to.clone(),
            statistics: self.mlir_pass_statistics,
            verify_each: self.verify_each,
        }
    }

    fn emit_options(&self, target: Option<Target>) -> EmitOptions {
        EmitOptions {
            output: match (self.emit, self.compile_to) {
                (_, Some(phase)) => Output::Phase(phase),
                (Some(emit), None) => Output::Stage(emit),
                (None, None) => Output::Program,
            },
            passes: self.pass_pipeline.clone().unwrap_or_else(|| self.passes.clone()),
            from: self.compile_from,
            bisect_limit: self.bisect_limit,
            disabled_passes: self.disable_passes.clone(),
            platform: self.platform.platform,
            target,
            parallel: self.parallel,
            excess_precision: !self.strict,
            allow_tf32: self.allow_tf32,
            print: self.print_options(),
            trace: self.trace(),
            debug_info: self.debug_info,
            indexing: ReportOptions {
                instruction: self.instruction.clone(),
                direction: self.direction.unwrap_or_default(),
                no_simplify: self.no_simplify,
                json: self.json,
            },
            bundle_for: match self.bundle_for[..] {
                [] => [RunPlatform::Cpu, RunPlatform::Cuda].map(PlatformName::from).to_vec(),
                _ => self.bundle_for.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
