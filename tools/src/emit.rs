//! A program at any stage of compilation, by the passes that lead there.
//!
//! ```text
//!  HLO text ─import─> mlir ─> fusions ─> buffers ─> affine ─> scf ─> llvm-dialect ─> llvm ─> asm, obj     for cuda: ─> plan, ptx
//!                      └──> indexing: maps from each result to its operands
//! ```
//! Input is HLO text or MLIR of any phase, told apart by what it says. A dump carries the pipeline that remains, so that
//! compilation goes on from it.

use clap::ValueEnum;
use halo::CompileOptions;
use halo::pipeline::{self, CompilePipeline, Phase};
use hlo::dialect::{self, PrintOptions};
use hlo::graph::{self, SourceTables};
use lowering_affine::to_gpu;
use lowering_llvm::{CodeGenerationOptions, Target, code, nvptx};
use melior::ir::Module;
use mlir_ext::pass_pipeline::PipelineError;
use mlir_ext::pipeline_text::PipelineText;
use passes::fuse::{Decision, FuseOptions, Rows};

use crate::buffers::MemoryMap;
use crate::dot;
use crate::engine::RunPlatform;
use crate::error::ToolError;
use crate::explain_fusion::Explanation;
use crate::indexing_report::{self, ReportOptions};
use crate::input::{self, Input};
use crate::kernels;
use crate::module_file::SourceText;
use crate::page;
use crate::pass_run::{PassRunner, PassTrace};
use crate::platform_name::PlatformName;

/// A stage to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Stage {
    /// HLO text.
    Hlo,
    /// The hlo dialect.
    Mlir,
    /// Indexing maps between each result and its operands.
    Indexing,
    /// The map of --map, simplified.
    IndexingMap,
    /// HLO text of the fused program.
    Fusions,
    /// A table of the kernels: bytes, arithmetic, where they come from.
    Cost,
    /// The graph of kernels for Graphviz.
    Dot,
    /// A table of what memory holds, and who holds its peak.
    Buffers,
    /// A page for a browser: graph, fusions and why edges are not fused, costs, memory over time.
    Html,
    /// Loops: affine, scf, vector, memref, arith and math.
    #[value(alias = "loops")]
    Affine,
    /// Loops without affine.
    Scf,
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
    /// The launches, copies and calls of a program on an NVIDIA GPU; needs the platform `cuda`.
    Plan,
    /// A file for hlo-run and Client::deserialize: the compiled program for each platform of --bundle-for.
    Bundle,
}

impl Stage {
    /// The phase of the program that the stage shows, or is made from.
    pub fn phase(self) -> Phase {
        match self {
            Stage::Hlo | Stage::Mlir | Stage::Indexing | Stage::IndexingMap => Phase::Input,
            Stage::Fusions | Stage::Cost | Stage::Dot => Phase::Fused,
            Stage::Buffers | Stage::Html => Phase::Buffers,
            Stage::Affine | Stage::Plan => Phase::Affine,
            Stage::Scf => Phase::Scf,
            Stage::LlvmDialect | Stage::Llvm | Stage::Asm | Stage::Obj | Stage::Ptx | Stage::Bundle => Phase::Llvm,
        }
    }

    /// Whether the stage is shown as MLIR.
    pub fn is_mlir(self) -> bool {
        matches!(self, Stage::Mlir | Stage::Affine | Stage::Scf | Stage::LlvmDialect)
    }

    /// Name in command lines.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// What code is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CodePlatform {
    /// The host's processor, or another that is named.
    #[default]
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
}

/// What is shown in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The program as it is after the passes asked for: HLO text if it is an HLO program, else MLIR.
    Program,
    /// A stage.
    Stage(Stage),
    /// MLIR of a phase.
    Phase(Phase),
}

impl From<Stage> for Output {
    fn from(emit: Stage) -> Self {
        Output::Stage(emit)
    }
}

impl Output {
    fn phase(self) -> Phase {
        match self {
            Output::Program => Phase::Input,
            Output::Stage(emit) => emit.phase(),
            Output::Phase(phase) => phase,
        }
    }
}

/// How to get to a stage.
#[derive(Clone, Debug)]
pub struct EmitOptions {
    /// What to show.
    pub output: Output,
    /// Pipeline to run first; none when empty.
    pub passes: String,
    /// The phase of the input, where it is not told by its operations.
    pub from: Option<Phase>,
    /// What code is made for.
    pub platform: CodePlatform,
    /// The processor, where the user names one.
    pub target: Option<Target>,
    /// Run only so many of the passes that may be left out.
    pub bisect_limit: Option<usize>,
    /// Passes that are left out.
    pub disabled_passes: Vec<String>,
    /// Whether large loops are split for several threads.
    pub parallel: bool,
    /// Whether code may be more precise than the program, see [`halo::CompileOptions`].
    pub excess_precision: bool,
    /// Whether products of f32 may be made of tf32, see [`halo::CompileOptions`].
    pub allow_tf32: bool,
    /// How MLIR is printed.
    pub print: PrintOptions,
    /// What is shown while passes run.
    pub trace: PassTrace,
    /// Whether code gets debug information.
    pub debug_info: bool,
    /// Which indexing maps to show.
    pub indexing: ReportOptions,
    /// What a bundle runs on.
    pub bundle_for: Vec<PlatformName<RunPlatform>>,
}

impl EmitOptions {
    /// A stage of a whole program, as it is without further wishes.
    pub fn new(output: impl Into<Output>, platform: CodePlatform, target: Target) -> Self {
        EmitOptions {
            output: output.into(),
            passes: String::new(),
            from: None,
            platform,
            target: Some(target),
            bisect_limit: None,
            disabled_passes: Vec::new(),
            parallel: false,
            excess_precision: true,
            allow_tf32: false,
            print: PrintOptions::default(),
            trace: PassTrace::default(),
            debug_info: false,
            indexing: ReportOptions::default(),
            bundle_for: Vec::new(),
        }
    }

    fn pipeline(&self, source_text: &SourceText, target: &Target) -> CompilePipeline {
        let debug_info = self.debug_info.then(|| source_text.full_path());
        let &EmitOptions { excess_precision, allow_tf32, .. } = self;
        let options = CompileOptions { excess_precision, allow_tf32, debug_info, ..CompileOptions::default() };
        match self.platform {
            CodePlatform::Cpu => CompilePipeline::cpu(target, self.parallel, &options),
            CodePlatform::Cuda => CompilePipeline::cuda(target.cpu_name(), &options),
        }
    }
}

/// What runs on an input.
struct Plan {
    target: Target,
    /// The passes up to what is shown.
    passes: PipelineText,
    /// Those that compilation would run after them.
    rest: PipelineText,
}

impl Plan {
    /// Leaves out the passes of these names.
    fn disable(&mut self, names: &[String]) -> Result<(), ToolError> {
        for name in names {
            if !self.passes.steps.iter().chain(&self.rest.steps).any(|step| step.name() == name) {
                return Err(ToolError::Usage(format!("the pass `{name}` is to be left out, but does not run anyway")));
            }
            self.passes = pipeline::without(&self.passes, name).map_err(ToolError::Usage)?;
            self.rest = pipeline::without(&self.rest, name).map_err(ToolError::Usage)?;
        }
        Ok(())
    }

    /// Leaves out all but the first so many optional passes, and says so.
    fn limit(&mut self, limit: usize) {
        let (passes, optional) = pipeline::limited(&self.passes, limit);
        for (place, name) in optional.iter().enumerate() {
            let outcome = if place < limit { "runs" } else { "is left out" };
            eprintln!("bisect: pass {} {name} {outcome}", place + 1);
        }
        self.passes = passes;
        self.rest = pipeline::limited(&self.rest, limit.saturating_sub(optional.len())).0;
    }
}

/// A processor that LLVM knows.
///
/// # Errors
/// That it does not.
pub fn checked(target: Target) -> Result<Target, ToolError> {
    target.check().map_err(halo::Error::from)?;
    Ok(target)
}

/// The program compiled for each platform asked for.
fn bundle(source_text: &SourceText, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    if !options.passes.is_empty() || options.from.is_some() || !options.disabled_passes.is_empty() {
        return Err(ToolError::Usage("a bundle is made of a whole program, by the whole pipeline".into()));
    }
    let module = source_text.module()?;
    let named = |platform: CodePlatform| options.target.clone().filter(|_| options.platform == platform);
    let platforms: Vec<(halo::Platform, Target)> = options
        .bundle_for
        .iter()
        .map(|PlatformName { platform, processor, .. }| {
            let target = match (platform, processor) {
                (RunPlatform::Cpu, _) => named(CodePlatform::Cpu).unwrap_or_else(Target::host),
                (RunPlatform::Cuda, Some(name)) => checked(Target::nvptx(name, ""))?,
                // What the oldest one runs, all of them run.
                (RunPlatform::Cuda, None) => {
                    named(CodePlatform::Cuda).unwrap_or_else(|| nvptx::target_for((8, 0), (0, 0)))
                }
                (RunPlatform::CudaEmulator, None) => Target::host(),
                (RunPlatform::CudaEmulator, Some(name)) => {
                    let message = format!("what is emulated is compiled for the host, not for {name}");
                    return Err(ToolError::Usage(message));
                }
            };
            Ok(((*platform).into(), target))
        })
        .collect::<Result<_, _>>()?;
    let debug_info = options.debug_info.then(|| source_text.full_path());
    let compile = CompileOptions {
        excess_precision: options.excess_precision,
        allow_tf32: options.allow_tf32,
        pass_limit: options.bisect_limit,
        debug_info,
        assemble: std::env::var_os("HALO_PTXAS").is_some(),
        ..CompileOptions::default()
    };
    let bundled = halo::bundle(&module, &compile, &platforms);
    bundled.map_err(|error| ToolError::compiled(source_text, &module, error))
}

/// The pipeline that would run, with every option of every pass.
pub fn show_pipeline(source_text: &SourceText, options: &EmitOptions) -> Result<String, ToolError> {
    let context = dialect::context();
    let input = input::read(source_text, &context)?;
    let plan = plan(source_text, &input, options)?;
    let pipeline = pipeline::parse(&input.module, &plan.passes).map_err(halo::Error::from)?;
    Ok(format!("{}\n", pipeline.text()))
}

/// The program at the stage asked for: text, but for object files.
pub fn emit(source_text: &SourceText, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    if options.output == Output::Stage(Stage::Bundle) {
        return bundle(source_text, options);
    }
    let context = dialect::context();
    let mut input = input::read(source_text, &context)?;
    let graph = input.graph.take();
    let mut plan = plan(source_text, &input, options)?;
    if let Some(limit) = options.bisect_limit {
        if plan.passes.steps.is_empty() {
            return Err(ToolError::Usage("--bisect-limit has no effect: no pass runs".into()));
        }
        plan.limit(limit);
    }
    let is_users = input.phase > Phase::Input || options.from.is_some() || chooses_passes_of_mlir(options);
    // On IR or with a pipeline that the user wrote, what MLIR and LLVM refuse is no mistake of halo's.
    let of_user = |error: halo::Error| match error {
        halo::Error::Pass(error @ PipelineError::Failed { .. }) if is_users => ToolError::UserPipeline(error),
        halo::Error::CodeGeneration(error) if is_users => ToolError::Execution(error.to_string()),
        error => error.into(),
    };
    let failed = |error: halo::Error| match &graph {
        Some(graph) => of_user(error).map_compiled(|error| ToolError::compiled(source_text, graph, error)),
        None => of_user(error),
    };
    if options.output.phase() > Phase::Input
        && let Some(graph) = &graph
    {
        hlo::devices::check(graph).map_err(|error| failed(error.into()))?;
    }
    let runner = PassRunner { trace: &options.trace, target: &plan.target, rest: &plan.rest };
    runner.run(&mut input.module, &plan.passes).map_err(|error| error.map_compiled(failed))?;
    let decisions = match options.output {
        Output::Stage(Stage::Html) => fusion_decisions(source_text, options)?,
        _ => Vec::new(),
    };
    let sources = graph.as_ref().map(|graph| graph.sources.clone()).unwrap_or_default();
    // What no pass changed is shown as it was read.
    input.graph = graph.filter(|_| plan.passes.steps.is_empty());
    show(input, &plan.target, options, &decisions, &sources).map_err(|error| error.map_compiled(of_user))
}

/// Why two instructions are, or are not, computed in one fusion.
///
/// # Errors
/// Those of the passes, and for names that no instruction has.
pub fn explain_fusion(source_text: &SourceText, options: &EmitOptions, names: [&str; 2]) -> Result<String, ToolError> {
    let decisions = fusion_decisions(source_text, options)?;
    let options = EmitOptions { output: Output::Phase(Phase::Fused), trace: PassTrace::default(), ..options.clone() };
    let context = dialect::context();
    let mut input = input::read(source_text, &context)?;
    let plan = plan(source_text, &input, &options)?;
    let runner = PassRunner { trace: &options.trace, target: &plan.target, rest: &plan.rest };
    runner.run(&mut input.module, &plan.passes)?;
    let fused = dialect::mlir_to_graph(&input.module).map_err(halo::Error::from)?;
    let [first, second] = names;
    Explanation::new(&decisions, &fused).explain(first, second)
}

/// What fusion decides about a program; nothing if it is fused already.
fn fusion_decisions(source_text: &SourceText, options: &EmitOptions) -> Result<Vec<Decision>, ToolError> {
    let options = EmitOptions { output: Output::Phase(Phase::Hlo), trace: PassTrace::default(), ..options.clone() };
    let context = dialect::context();
    let mut input = input::read(source_text, &context)?;
    if options.from.is_some_and(|from| from > Phase::Hlo) || input.rest.is_some() {
        return Ok(Vec::new());
    }
    let plan = plan(source_text, &input, &options)?;
    let runner = PassRunner { trace: &options.trace, target: &plan.target, rest: &plan.rest };
    runner.run(&mut input.module, &plan.passes)?;
    let fused = match options.platform {
        CodePlatform::Cpu => FuseOptions::for_cpu(options.excess_precision),
        CodePlatform::Cuda => FuseOptions::for_gpu(options.excess_precision),
    };
    passes::fuse::explain(input.module.as_operation(), fused).map_err(|error| ToolError::Execution(error.to_string()))
}

/// Whether the user's own pipeline has passes that are not halo's, which may refuse a program for reasons of theirs.
fn chooses_passes_of_mlir(options: &EmitOptions) -> bool {
    let own = mlir_ext::pass::registered();
    let is_own = |name: &str| own.iter().any(|pass| pass.argument == name);
    passes::pipeline::parse(&options.passes).steps.iter().any(|step| !is_own(step.name()))
}

fn plan(source_text: &SourceText, input: &Input<'_>, options: &EmitOptions) -> Result<Plan, ToolError> {
    let target = match (&options.target, &input.target, options.platform) {
        (Some(_), Some(_), _) => {
            return Err(ToolError::Usage(
                "the file says which processor it is compiled for; --target-cpu cannot change it".into(),
            ));
        }
        (Some(target), None, _) | (None, Some(target), _) => target.clone(),
        (None, None, CodePlatform::Cpu) => Target::host(),
        (None, None, CodePlatform::Cuda) => Target::nvptx(DEFAULT_GPU, DEFAULT_PTX),
    };
    let passes = passes::pipeline::parse(&options.passes);
    let (stage, rest) = stages(source_text, input, options, &target, &passes)?;
    let flags = [
        ("--strict", !options.excess_precision, EmitOptions { excess_precision: true, ..options.clone() }),
        ("--allow-tf32", options.allow_tf32, EmitOptions { allow_tf32: false, ..options.clone() }),
        ("--parallel", options.parallel, EmitOptions { parallel: false, ..options.clone() }),
        ("--debug-info", options.debug_info, EmitOptions { debug_info: false, ..options.clone() }),
    ];
    for (flag, _, without) in flags.iter().filter(|(_, is_given, _)| *is_given) {
        if stages(source_text, input, without, &target, &passes)? == (stage.clone(), rest.clone()) {
            return Err(ToolError::Usage(format!(
                "{flag} has no effect: the program is past the passes that it changes"
            )));
        }
    }
    let passes = PipelineText { steps: [passes.steps, stage.steps].concat() };
    let wanted_rest =
        if matches!(options.output, Output::Program) && input.rest.is_none() { PipelineText::default() } else { rest };
    let mut plan = Plan { target, passes, rest: wanted_rest };
    plan.disable(&options.disabled_passes)?;
    Ok(plan)
}

/// The passes of compilation up to the stage asked for, behind those that the user asked for, and the rest.
fn stages(
    source_text: &SourceText,
    input: &Input<'_>,
    options: &EmitOptions,
    target: &Target,
    passes: &PipelineText,
) -> Result<(PipelineText, PipelineText), ToolError> {
    let compile = options.pipeline(source_text, target);
    let wanted = options.output.phase();
    if wanted > Phase::Input && !compile.steps().iter().any(|(phase, _)| *phase == wanted) {
        return Err(ToolError::Usage(format!("the platform cuda has no phase `{wanted}`")));
    }
    Ok(match (&input.rest, options.from) {
        (Some(_), Some(_)) => {
            return Err(ToolError::Usage("the file says which passes remain; --compile-from cannot change it".into()));
        }
        (Some(remaining), None) => cut(remaining, &compile, wanted),
        (None, Some(from)) if from >= Phase::Affine && input.phase == Phase::Input => {
            return Err(ToolError::Usage(format!(
                "the program has operations of the hlo dialect: it is in no phase from `{}` on, so not in `{from}`",
                Phase::Affine
            )));
        }
        (None, from) => {
            let mut from = from.unwrap_or(input.phase);
            // What the passes asked for lower is not lowered again.
            for step in &passes.steps {
                let reached =
                    compile.steps().iter().find(|(phase, other)| *phase > Phase::Fused && other.name() == step.name());
                from = from.max(reached.map_or(from, |(phase, _)| *phase));
            }
            if from > wanted && wanted > Phase::Input {
                return Err(ToolError::Usage(format!(
                    "the program is past the stage asked for: it is in phase `{from}`"
                )));
            }
            let end = wanted.max(from);
            (compile.between(from, wanted), compile.between(end, Phase::Llvm))
        }
    })
}

/// The passes of a remaining pipeline up to a phase, and those after it.
fn cut(remaining: &PipelineText, compile: &CompilePipeline, wanted: Phase) -> (PipelineText, PipelineText) {
    // The end of it is the end of the whole pipeline, pass by pass.
    let tail = remaining.steps.iter().rev().zip(compile.steps().iter().rev());
    let after = tail.take_while(|(step, (phase, other))| step.name() == other.name() && *phase > wanted).count();
    remaining.split_at(remaining.steps.len() - after)
}

/// GPU that code is made for where none is named.
pub const DEFAULT_GPU: &str = "sm_90";

/// PTX version that the chip and current drivers know.
pub const DEFAULT_PTX: &str = "+ptx80";

fn show(
    input: Input<'_>,
    target: &Target,
    options: &EmitOptions,
    decisions: &[Decision],
    sources: &SourceTables,
) -> Result<Vec<u8>, ToolError> {
    let mlir = |module: &Module| dialect::print(module, options.print).into_bytes();
    let graph_of = |input: Input<'_>| match input.graph {
        Some(graph) => Ok(*graph),
        None => dialect::mlir_to_graph(&input.module).map_err(|error| ToolError::from(halo::Error::from(error))),
    };
    let emit = match options.output {
        Output::Phase(_) => return Ok(mlir(&input.module)),
        Output::Program => {
            let text = mlir(&input.module);
            let Ok(graph) = graph_of(input) else { return Ok(text) };
            if options.print != PrintOptions::default() && !options.trace.prints() {
                let message = "--locations and --mlir-print-op-generic need a program that is printed as MLIR";
                return Err(ToolError::Usage(format!("{message}: --emit=mlir, for one")));
            }
            return Ok(hlo::text::print(&graph).into_bytes());
        }
        Output::Stage(emit) => emit,
    };
    let kind = match emit {
        Stage::Hlo => return Ok(hlo::text::print(&graph_of(input)?).into_bytes()),
        Stage::Mlir | Stage::Affine | Stage::Scf | Stage::LlvmDialect => return Ok(mlir(&input.module)),
        Stage::Indexing => return Ok(indexing_report::report(&graph_of(input)?, &options.indexing)?.into_bytes()),
        Stage::IndexingMap => return Err(ToolError::Usage("--emit=indexing-map needs --map".into())),
        Stage::Fusions => return Ok(fusions(&graph_of(input)?, options.platform).into_bytes()),
        Stage::Cost => return Ok(kernels::cost_table(&graph_of(input)?)?.into_bytes()),
        Stage::Dot => return Ok(dot::dot(&graph_of(input)?)?.into_bytes()),
        Stage::Buffers => return Ok(MemoryMap::of(&input.module, sources)?.table().into_bytes()),
        Stage::Html => {
            let memory = &MemoryMap::of(&input.module, sources)?;
            let module = &graph_of(input)?;
            return Ok(page::page(&page::PageProgram { module, decisions, memory })?.into_bytes());
        }
        Stage::Bundle => return Err(ToolError::Bug("a bundle is no stage of one compilation".into())),
        Stage::Ptx => return ptx(&input.module, target, options),
        Stage::Plan => return plan_text(&input.module, options).map(String::into_bytes),
        Stage::Llvm => lowering_llvm::Emit::Llvm,
        Stage::Asm => lowering_llvm::Emit::Assembly,
        Stage::Obj => lowering_llvm::Emit::Object,
    };
    if options.platform == CodePlatform::Cuda {
        return Err(ToolError::Usage("the platform cuda has the stages affine, plan, llvm-dialect and ptx".into()));
    }
    let code = code::generate(input.module.as_operation(), target, kind, true).map_err(halo::Error::from)?;
    Ok(code.bytes)
}

/// The fused program, with the size of its temporary memory.
fn fusions(module: &graph::Module, platform: CodePlatform) -> String {
    let context = dialect::context();
    let by_row = platform != CodePlatform::Cuda;
    let rows = |body: &graph::Computation| if by_row { Rows::of(&context, body) } else { None };
    let arena = passes::assign_buffers::smallest_arena(module.entry().clone(), &[], &rows, !by_row);
    format!("// {arena} bytes of temporary memory\n{}", hlo::text::print(module))
}

/// The launch plan.
fn plan_text(module: &Module<'_>, options: &EmitOptions) -> Result<String, ToolError> {
    if options.platform != CodePlatform::Cuda {
        return Err(ToolError::Usage("--emit=ptx and --emit=plan need --platform=cuda".into()));
    }
    Ok(to_gpu::launch_plan(module.as_operation()).map_err(halo::Error::from)?.to_string())
}

/// PTX behind the launch plan, in comments.
fn ptx(module: &Module<'_>, target: &Target, options: &EmitOptions) -> Result<Vec<u8>, ToolError> {
    let plan = plan_text(module, options)?;
    let launches: String = plan.lines().map(|line| format!("// {line}\n")).collect();
    let options = CodeGenerationOptions { verify: true, ..CodeGenerationOptions::default() };
    let ptx = nvptx::generate(module, target, options).map_err(halo::Error::from)?;
    Ok(format!("{launches}{}", ptx.text).into_bytes())
}

/// Checks that MLIR text reads back and prints as it stands.
pub fn check_mlir_text(text: &str) -> Result<(), ToolError> {
    let context = dialect::context();
    let module = dialect::parse(&context, text).map_err(|error| ToolError::Execution(error.to_string()))?;
    let again = module.as_operation().to_string();
    if again.trim_end() == text.trim_end() {
        return Ok(());
    }
    Err(ToolError::Execution(format!("the text prints differently once it is read:\n{again}")))
}
