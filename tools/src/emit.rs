//! A program as text (or object code) at any stage of compilation.
//!
//! ```text
//!  hlo ─ passes ─┬─> mlir          the hlo dialect
//!                ├─> indexing      maps from each result to its operands
//!                └─> fusions ─> loops ─> llvm-dialect ─> llvm ─> asm, obj        and for cuda: ─> ptx
//! ```
//! Input is HLO text or MLIR text of the hlo dialect; MLIR text of later stages enters where it belongs.

use clap::ValueEnum;
use halo::CompileOptions;
use halo::pipeline::Planned;
use hlo::dialect::{self, PrintOptions};
use hlo::graph::{FunctionId, Module};
use lowering_affine::gpu::{self, Launch};
use lowering_llvm::{KERNEL_PASSES, LlvmContext, LlvmModule, LoweringOptions, Target, cpu, nvptx};
use melior::Context;
use mlir_ext::pipeline_text::PipelineText;
use passes::pipeline;

use crate::error::ToolError;
use crate::indexing_report::{self, ReportOptions};
use crate::module_file::SourceText;

/// A stage to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Emit {
    /// HLO text.
    #[default]
    Hlo,
    /// The hlo dialect.
    Mlir,
    /// Indexing maps between each result and its operands.
    Indexing,
    /// The map of --map, simplified.
    IndexingMap,
    /// HLO text of the fused program, as it is lowered.
    Fusions,
    /// scf, vector, memref and arith.
    Loops,
    /// The llvm dialect.
    LlvmDialect,
    /// LLVM IR.
    Llvm,
    /// Assembly.
    Asm,
    /// An object file.
    Obj,
    /// PTX of an NVIDIA GPU; needs the platform `cuda`.
    Ptx,
}

/// What code is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    /// The host's processor, or another that is named.
    #[default]
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
}

/// How to get to a stage.
#[derive(Clone, Debug)]
pub struct EmitOptions {
    /// The stage.
    pub emit: Emit,
    /// Passes to run first, separated by commas; none when empty.
    pub passes: String,
    /// Whether to print the program after each pass to standard error.
    pub print_after_all: bool,
    /// What code is made for.
    pub platform: Platform,
    /// The processor.
    pub target: Target,
    /// Whether large loops are split for several threads.
    pub parallel: bool,
    /// Whether code may be more precise than the program, see [`halo::CompileOptions`].
    pub excess_precision: bool,
    /// Whether the hlo dialect is printed with names and metadata.
    pub locations: bool,
    /// Which indexing maps to show.
    pub indexing: ReportOptions,
}

impl EmitOptions {
    /// A stage of a whole program, as it is without further wishes.
    pub fn new(emit: Emit, platform: Platform, target: Target) -> Self {
        EmitOptions {
            emit,
            passes: String::new(),
            print_after_all: false,
            platform,
            target,
            parallel: false,
            excess_precision: true,
            locations: false,
            indexing: ReportOptions::default(),
        }
    }
}

/// What a file holds.
enum Input<'c> {
    Graph(Box<Module>),
    /// MLIR of a stage after hlo.
    Mlir(melior::ir::Module<'c>),
}

/// The program at the stage asked for: text, but for object files.
pub fn emit(source_text: &SourceText, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    let context = dialect::context();
    context.load_all_available_dialects();
    match read(source_text, &context)? {
        Input::Graph(module) => emit_graph(&context, *module, options),
        Input::Mlir(module) if options.emit == Emit::Mlir => Ok(module.as_operation().to_string().into_bytes()),
        Input::Mlir(mut module) => {
            indexing::dialect::lower(&context, &mut module).map_err(|error| ToolError::Execution(error.to_string()))?;
            emit_loops(module, options)
        }
    }
}

/// Checks that MLIR text reads back and prints as it stands.
pub fn check_mlir_text(text: &str) -> Result<(), ToolError> {
    let context = dialect::context();
    context.load_all_available_dialects();
    let module = dialect::parse(&context, text).map_err(|error| ToolError::Execution(error.to_string()))?;
    let again = module.as_operation().to_string();
    if again.trim_end() == text.trim_end() {
        return Ok(());
    }
    Err(ToolError::Execution(format!("the text prints differently once it is read:\n{again}")))
}

fn read<'c>(source_text: &SourceText, context: &'c Context) -> Result<Input<'c>, ToolError> {
    if !source_text.is_mlir() {
        return Ok(Input::Graph(Box::new(source_text.module()?)));
    }
    let module = dialect::parse(context, &source_text.text).map_err(|error| source_text.mlir_error(error))?;
    match dialect::mlir_to_graph(&module) {
        Ok(graph) => Ok(Input::Graph(Box::new(graph))),
        Err(_) => Ok(Input::Mlir(module)),
    }
}

fn emit_graph(context: &Context, module: Module, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    let module = run_passes(context, module, options)?;
    match options.emit {
        Emit::Hlo => return Ok(hlo_text::print(&module).into_bytes()),
        Emit::Mlir => return Ok(mlir_text(context, &module, options.locations)?.into_bytes()),
        Emit::Indexing => return Ok(indexing_report::report(&module, &options.indexing)?.into_bytes()),
        Emit::IndexingMap => return Err(ToolError::Usage("--emit=indexing-map needs --map".into())),
        Emit::Fusions | Emit::Loops | Emit::LlvmDialect | Emit::Llvm | Emit::Asm | Emit::Obj | Emit::Ptx => {}
    }
    let compile_options =
        CompileOptions { excess_precision: options.excess_precision, verify: true, ..CompileOptions::default() };
    let planned = halo::pipeline::plan_in(context, &module, &compile_options)?;
    if options.emit == Emit::Fusions {
        return Ok(fusions(module, planned).into_bytes());
    }
    if options.platform == Platform::Cuda {
        let (kernels, launches) =
            gpu::lower_kernels(context, &planned.entry, options.excess_precision).map_err(halo::Error::from)?;
        return emit_kernels(kernels, &launches, options);
    }
    let loops = halo::pipeline::emit_loops(context, &planned, &options.target, options.parallel, &compile_options)?;
    emit_loops(loops, options)
}

/// The program after the passes asked for.
fn run_passes(context: &Context, module: Module, options: &EmitOptions) -> Result<Module, ToolError> {
    if options.passes.is_empty() {
        return Ok(module);
    }
    let program = dialect::graph_to_mlir(context, &module).map_err(halo::Error::from)?;
    for step in pipeline::parse(&options.passes).steps {
        let name = step.name().to_string();
        pipeline::run(&program, &PipelineText { steps: vec![step] }, true).map_err(halo::Error::from)?;
        if options.print_after_all {
            let graph = dialect::mlir_to_graph(&program).map_err(halo::Error::from)?;
            eprintln!("// ----- after {name} -----\n{}", hlo_text::print(&graph));
        }
    }
    Ok(dialect::mlir_to_graph(&program).map_err(halo::Error::from)?)
}

fn mlir_text(context: &Context, module: &Module, locations: bool) -> Result<String, ToolError> {
    let module = dialect::graph_to_mlir(context, module).map_err(|error| ToolError::Execution(error.to_string()))?;
    Ok(dialect::print(&module, PrintOptions { locations, names: locations, ..PrintOptions::default() }))
}

/// The fused program as a module of one computation.
fn fusions(module: Module, planned: Planned) -> String {
    let arena = planned.buffers.arena_size;
    let fused = Module { functions: vec![planned.entry], entry: FunctionId(0), ..module };
    format!("// {arena} bytes of temporary memory\n{}", hlo_text::print(&fused))
}

/// From the loops of a program on.
fn emit_loops(module: melior::ir::Module<'_>, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    let kind = match options.emit {
        Emit::Loops | Emit::LlvmDialect | Emit::Llvm => lowering_llvm::Emit::Llvm,
        Emit::Asm => lowering_llvm::Emit::Assembly,
        Emit::Obj => lowering_llvm::Emit::Object,
        Emit::Ptx => return Err(ToolError::Usage("--emit=ptx needs --platform=cuda".into())),
        Emit::Hlo | Emit::Mlir | Emit::Indexing | Emit::IndexingMap | Emit::Fusions => return Err(past_stage()),
    };
    if options.emit == Emit::Loops {
        return Ok(module.as_operation().to_string().into_bytes());
    }
    let compiled = halo::Error::from;
    cpu::lower_to_llvm_dialect(&module, LoweringOptions { verify: true }).map_err(compiled)?;
    if options.emit == Emit::LlvmDialect {
        return Ok(module.as_operation().to_string().into_bytes());
    }
    let context = LlvmContext::new();
    let llvm = LlvmModule::translate(module.as_operation(), &context, &options.target).map_err(compiled)?;
    llvm.verify().map_err(compiled)?;
    llvm.optimize(KERNEL_PASSES).map_err(compiled)?;
    Ok(llvm.emit(kind).map_err(compiled)?)
}

/// From GPU kernels on; PTX gets a comment for each launch.
fn emit_kernels(
    module: melior::ir::Module<'_>,
    launches: &[Launch],
    options: &EmitOptions,
) -> Result<Vec<u8>, ToolError> {
    let compiled = halo::Error::from;
    let lowering = LoweringOptions { verify: true };
    match options.emit {
        Emit::Loops => Ok(module.as_operation().to_string().into_bytes()),
        Emit::LlvmDialect => {
            nvptx::lower_to_nvvm_dialect(&module, lowering).map_err(compiled)?;
            Ok(module.as_operation().to_string().into_bytes())
        }
        Emit::Ptx => {
            let ptx = nvptx::compile_to_ptx(&module, &options.target, lowering).map_err(compiled)?;
            let launches: String = launches.iter().map(|launch| format!("// launch {launch}\n")).collect();
            Ok(format!("{launches}{}", ptx.text).into_bytes())
        }
        Emit::Llvm | Emit::Asm | Emit::Obj => {
            Err(ToolError::Usage("the platform cuda has the stages loops, llvm-dialect and ptx".into()))
        }
        Emit::Hlo | Emit::Mlir | Emit::Indexing | Emit::IndexingMap | Emit::Fusions => Err(past_stage()),
    }
}

fn past_stage() -> ToolError {
    ToolError::Usage("the program is past the stage asked for".into())
}
