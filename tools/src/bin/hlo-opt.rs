//! Shows an HLO program at any stage of compilation, after any passes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lowering_llvm::Target;
use tools::emit::{self, Emit, EmitOptions, Platform};
use tools::error::ToolError;
use tools::indexing_report::{self, Direction, ReportOptions};
use tools::module_file::SourceText;
use tools::outer_boundary;

/// Shows an HLO program at any stage of compilation, after any passes.
///
/// Exit status: 0 good, 2 bad input or usage, 3 a bug in halo.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Program: HLO text (.hlo, .hlo.gz) or MLIR (.mlir); - for HLO text on standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Stage to show.
    #[arg(long, value_enum, default_value_t)]
    emit: Emit,
    /// Passes to run first, in order: names separated by commas.
    #[arg(long, value_name = "PASS,…", default_value = "")]
    passes: String,
    /// Lists the passes and exits.
    #[arg(long)]
    list_passes: bool,
    /// Prints the program to standard error after each pass.
    #[arg(long)]
    print_ir_after_all: bool,
    /// What code is made for.
    #[arg(long, value_enum, default_value_t)]
    platform: Platform,
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
    #[arg(long, value_enum, default_value_t)]
    direction: Direction,
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
    /// With --emit=mlir: names and metadata too, as locations; the text then reads back as the same program.
    #[arg(long)]
    locations: bool,
    /// Makes code that rounds wherever the program does, without excess precision.
    #[arg(long)]
    strict: bool,
    /// Splits large loops for several threads, as hlo-run does.
    #[arg(long)]
    parallel: bool,
    /// Writes here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    outer_boundary::run(|| work(&options))
}

fn work(options: &Options) -> Result<u8, ToolError> {
    if options.list_passes {
        for pass in passes::registry::all() {
            outer_boundary::print(format!("{:<30} {}\n", pass.name(), pass.description()))?;
        }
        return Ok(0);
    }
    let target = match (options.platform, &options.target_cpu) {
        (Platform::Cpu, Some(name)) => Target::cpu(Target::host().triple(), name, &options.target_features),
        (Platform::Cpu, None) => Target::host(),
        (Platform::Cuda, name) => gpu_target(name.as_deref(), &options.target_features),
    };
    let emit_options = EmitOptions {
        emit: options.emit,
        passes: options.passes.clone(),
        print_after_all: options.print_ir_after_all,
        platform: options.platform,
        target,
        parallel: options.parallel,
        excess_precision: !options.strict,
        indexing: ReportOptions {
            instruction: options.instruction.clone(),
            direction: options.direction,
            no_simplify: options.no_simplify,
            json: options.json,
        },
        locations: options.locations,
    };
    let bytes = match indexing_map(options)? {
        Some(text) => text.into_bytes(),
        None => emit::emit(&SourceText::read(&options.file)?, &emit_options)?,
    };
    match &options.output {
        Some(path) => std::fs::write(path, bytes).map_err(|source| ToolError::Write { path: path.clone(), source })?,
        None => outer_boundary::print(bytes)?,
    }
    Ok(0)
}

/// The answer to a question about a map of the command line, if one was asked.
fn indexing_map(options: &Options) -> Result<Option<String>, ToolError> {
    match (&options.map, options.emit) {
        (None, _) => Ok(None),
        (Some(map), Emit::IndexingMap) => {
            indexing_report::map(map, options.compose.as_deref(), options.no_simplify).map(Some)
        }
        (Some(_), _) => Err(ToolError::Usage("--map needs --emit=indexing-map".into())),
    }
}

/// A GPU; without features the PTX version is one that its chip and current drivers know.
fn gpu_target(chip: Option<&str>, features: &str) -> Target {
    Target::nvptx(chip.unwrap_or("sm_90"), if features.is_empty() { "+ptx80" } else { features })
}
