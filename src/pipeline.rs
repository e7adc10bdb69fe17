//! From a program to the llvm dialect: the pipelines of compilation, phase by phase, and the options that they take.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use exec::runtime::{tiles, vector_math};
use hlo::devices;
use hlo::dialect;
use hlo::graph;
use lowering_affine::map_to_cpu;
use lowering_affine::registry::{fuse_epilogues_options, map_to_cpu_options, to_affine_options, to_gpu_options};
use lowering_llvm::{Target, cpu, debug_info, nvptx};
use melior::Context;
use melior::ir::Module;
use mlir_ext::builder::Machine;
use mlir_ext::pass::PassRun;
use mlir_ext::pass_pipeline::{PassPipeline, PipelineError};
use mlir_ext::pipeline_text::{PipelineText, Step};
use passes::fuse::FuseOptions;

use crate::error::Error;

/// How to compile.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Whether code may be more precise than the program says, as XLA's is: a product that is added to something is
    /// not rounded first (one fused multiply-add), and neither is a bf16 result that is converted to f32; or round otherwise, but no worse, as
    /// large convolutions of 3 × 3 elements do, if the program asks for no more than the usual precision. Without it every
    /// operation is rounded by itself, so that results are those of the evaluator. On by default.
    pub excess_precision: bool,
    /// Whether GPUs may multiply numbers of f32 as tf32, with ten bits behind the point, in products whose precision the program
    /// leaves open, as XLA's do there. Off by default; processors have no such instructions.
    pub allow_tf32: bool,
    /// Verify the IR between phases: for finding bugs of the compiler.
    pub verify: bool,
    /// Threads that generate machine code; 0 for the number of hardware threads. The phases before that, and small
    /// programs as a whole, are compiled on the calling thread. The code is the same for any number.
    pub compile_threads: usize,
    /// Whether the program notes when each of its steps begins and ends, for
    /// [`Executable::take_profile`](crate::Executable::take_profile). Off by default; it costs nothing then.
    pub profile: bool,
    /// Puts debug information into the code: which line of the HLO text each instruction came from, in a file that has this
    /// name. For debuggers and disassemblers; such code is not kept in a cache. None by default.
    pub debug_info: Option<PathBuf>,
    /// Of the passes that may be left out ([`OPTIONAL`]), run only so many, for finding the one that breaks a program; all
    /// by default.
    pub pass_limit: Option<usize>,
    /// Whether programs for GPUs have their kernels' machine code, too, for the GPU that they are for, by NVIDIA's assembler:
    /// `$HALO_PTXAS`, or `ptxas` on the path; where there is none, they have not. It takes longer to make and no time to load.
    pub assemble: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            excess_precision: true,
            allow_tf32: false,
            verify: false,
            compile_threads: 0,
            profile: false,
            debug_info: None,
            pass_limit: None,
            assemble: false,
        }
    }
}

/// What a program has become, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The program as it was read, in the hlo dialect.
    Input,
    /// Simpler operations, in one function.
    Hlo,
    /// Operations grouped into fusions.
    Fused,
    /// Every array in its place in memory.
    Buffers,
    /// The work of every kernel divided: loops, vectors, threads.
    Mapped,
    /// Loops: affine, scf, vector, memref, arith, math.
    Affine,
    /// The same without affine.
    Scf,
    /// The llvm dialect.
    Llvm,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 8] =
        [Phase::Input, Phase::Hlo, Phase::Fused, Phase::Buffers, Phase::Mapped, Phase::Affine, Phase::Scf, Phase::Llvm];

    /// Name in command lines.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Input => "input",
            Phase::Hlo => "hlo",
            Phase::Fused => "fused",
            Phase::Buffers => "buffers",
            Phase::Mapped => "mapped",
            Phase::Affine => "affine",
            Phase::Scf => "scf",
            Phase::Llvm => "llvm",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Phase::ALL.map(Phase::name).join(", ");
        Phase::ALL.into_iter().find(|phase| phase.name() == text).ok_or_else(|| format!("the phases are {}", names()))
    }
}

/// The pipeline of CPUs: each phase with the passes that lead to it.
pub const CPU: &[(Phase, &str)] = &[
    (Phase::Hlo, passes::pipeline::HLO),
    (Phase::Hlo, passes::pipeline::FOR_CPU),
    (Phase::Fused, passes::pipeline::FUSE),
    (Phase::Fused, FUSE_EPILOGUES),
    (Phase::Buffers, "hlo-assign-buffers"),
    (Phase::Mapped, MAP_TO_CPU),
    (Phase::Affine, TO_AFFINE),
    (Phase::Scf, cpu::AFFINE_TO_SCF),
    (Phase::Llvm, cpu::SCF_TO_LLVM),
    (Phase::Llvm, debug_info::CPU),
];

/// The passes that only make programs faster: compilation does without them.
pub const OPTIONAL: &[&str] = &[
    "cse",
    "hlo-arrange-operands",
    "hlo-canonicalize",
    "hlo-canonicalize-convolutions",
    "hlo-canonicalize-dots",
    "hlo-dce",
    "hlo-fuse-epilogues",
    "hlo-keep-precision",
    "hlo-split-reductions",
    "hlo-transpose-operands",
    "hlo-unsigned-divisions",
];

/// Splits a pipeline: what is left with the first `limit` of its optional passes, and the names of those in order.
pub fn limited(pipeline: &PipelineText, limit: usize) -> (PipelineText, Vec<String>) {
    let mut optional = Vec::new();
    let mut kept = PipelineText::default();
    for step in &pipeline.steps {
        let is_optional = OPTIONAL.contains(&step.name());
        if is_optional {
            optional.push(step.name().to_string());
        }
        if !is_optional || optional.len() <= limit {
            kept.steps.push(step.clone());
        }
    }
    (kept, optional)
}

/// What is left of a pipeline without one of its passes.
///
/// # Errors
/// Says which passes may be left out.
pub fn without(pipeline: &PipelineText, pass: &str) -> Result<PipelineText, String> {
    if !OPTIONAL.contains(&pass) {
        return Err(format!("the pass `{pass}` cannot be left out; these can: {}", OPTIONAL.join(", ")));
    }
    let steps = pipeline.steps.iter().filter(|step| step.name() != pass).cloned().collect();
    Ok(PipelineText { steps })
}

/// The pipeline of NVIDIA GPUs.
pub const CUDA: &[(Phase, &str)] = &[
    (Phase::Hlo, passes::pipeline::HLO),
    (Phase::Hlo, passes::pipeline::FOR_GPU),
    (Phase::Fused, passes::pipeline::FUSE),
    (Phase::Fused, "hlo-fuse-epilogues{gpu=true}"),
    (Phase::Buffers, "hlo-assign-buffers{by-row=false}"),
    (Phase::Mapped, MAP_TO_GPU),
    (Phase::Affine, TO_GPU),
    (Phase::Llvm, nvptx::PIPELINE),
    (Phase::Llvm, debug_info::CUDA),
];

/// The pass that divides reductions and products.
const SPLIT_REDUCTIONS: &str = "hlo-split-reductions";

/// The pass that has operands of products lie along what is contracted.
const TRANSPOSE_OPERANDS: &str = "hlo-transpose-operands";

/// The pass that brings convolutions into the forms that have fast code.
const CANONICALIZE_CONVOLUTIONS: &str = "hlo-canonicalize-convolutions";

/// The pass that brings products into the forms that have fast code.
const CANONICALIZE_DOTS: &str = "hlo-canonicalize-dots";

/// The pass that makes fusions.
const FUSE: &str = "hlo-fuse";

/// The pass that moves products into fusions, for a processor.
const FUSE_EPILOGUES: &str = "hlo-fuse-epilogues";

/// The pass that divides the work of kernels for a processor.
const MAP_TO_CPU: &str = "hlo-map-to-cpu";

/// The pass that makes loops for a processor.
const TO_AFFINE: &str = "hlo-to-affine";

/// The pass that divides the work of kernels for a GPU.
const MAP_TO_GPU: &str = "hlo-map-to-gpu";

/// The pass that makes kernels of a GPU.
const TO_GPU: &str = "hlo-to-gpu";

/// Whether a processor takes twice as long for the dot products of a vector of `bf16` as for the multiply-adds of two vectors of `f32`:
/// Intel's of the generation of Sapphire Rapids, whose matrix unit does what is meant to be fast. A virtual machine may hide that unit.
fn has_slow_bf16_dot_products(target: &Target) -> bool {
    target.cpu_name().contains("rapids")
}

/// A pipeline of compilation with the options of its passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilePipeline {
    steps: Vec<(Phase, Step)>,
}

impl CompilePipeline {
    /// The pipeline of a CPU; large loops are made for several threads if `parallel`. Of the options,
    /// [`CompileOptions::excess_precision`] matters.
    pub fn cpu(target: &Target, parallel: bool, options: &CompileOptions) -> Self {
        let machine = Machine {
            scales_vectors: target.has_feature("avx512f") && target.has_feature("avx512vl"),
            byte_dot_products: target.has_feature("avx512vnni") && target.has_feature("avx512vl"),
            word_dot_products: target.has_feature("avx2")
                && (target.has_feature("avx512bw") || !target.has_feature("avx512f")),
            bf16_dot_products: options.excess_precision
                && target.has_feature("avx512bf16")
                && target.has_feature("avx512vl")
                && !has_slow_bf16_dot_products(target),
            byte_matrices: target.has_feature("amx-int8"),
            bf16_matrices: options.excess_precision && target.has_feature("amx-bf16"),
            half_arithmetic: target.has_feature("avx512fp16") && target.has_feature("avx512vl"),
            vector_library_bits: vector_math::widest_vector_bits().min(target.vector_bits()),
            runtime_tile_bits: tiles::widest_vector_bits(|feature| target.has_feature(feature)),
            allow_fma: options.excess_precision,
            warp_group_matrices: false,
            is_gpu: false,
        };
        let work = map_to_cpu::CpuTarget {
            vector_bits: target.vector_bits(),
            parallel,
            few_write_streams: target.cpu_name().starts_with("znver"),
        };
        let pass_options = [
            (CANONICALIZE_CONVOLUTIONS, format!("features-last=true winograd={}", options.excess_precision)),
            (CANONICALIZE_DOTS, "small-matrices=true".to_string()),
            (FUSE, FuseOptions::for_cpu(options.excess_precision).to_string()),
            (FUSE_EPILOGUES, fuse_epilogues_options(work)),
            (MAP_TO_CPU, map_to_cpu_options(work)),
            (TO_AFFINE, to_affine_options(options.profile, machine)),
        ];
        Self::of(CPU, options, &pass_options)
    }

    /// The pipeline of an NVIDIA GPU, such as `sm_90a`.
    pub fn cuda(gpu: &str, options: &CompileOptions) -> Self {
        let machine = Machine {
            allow_fma: options.excess_precision,
            warp_group_matrices: gpu == nvptx::WARP_GROUP_GPU,
            ..Machine::default()
        };
        let fuse = FuseOptions::for_gpu(options.excess_precision);
        let split = format!("attention-rows={}", if fuse.attention { fuse.attention_rows } else { 0 });
        let transpose = format!("{split} warp-groups={}", machine.warp_group_matrices);
        let pass_options = [
            (CANONICALIZE_DOTS, "small-convolutions=true".to_string()),
            (SPLIT_REDUCTIONS, split),
            (TRANSPOSE_OPERANDS, transpose),
            (FUSE, fuse.to_string()),
            (TO_GPU, to_gpu_options(machine)),
        ];
        Self::of(CUDA, options, &pass_options)
    }

    fn of(phases: &[(Phase, &str)], options: &CompileOptions, pass_options: &[(&str, String)]) -> Self {
        let mut steps: Vec<(Phase, Step)> = phases
            .iter()
            .flat_map(|(phase, text)| PipelineText::parse(text).steps.into_iter().map(|step| (*phase, step)))
            .filter(|(_, step)| options.excess_precision || step.name() != passes::pipeline::EXCESS_PRECISION)
            .filter(|(_, step)| options.allow_tf32 || step.name() != passes::pipeline::ALLOW_TF32)
            .filter(|(_, step)| options.debug_info.is_some() || !debug_info::PASSES.contains(&step.name()))
            .collect();
        let file = options.debug_info.as_deref().map(debug_info::source_lines_options);
        let file = file.map(|file| (debug_info::SOURCE_LINES, file));
        for (_, step) in &mut steps {
            if let Some((pass, options)) = pass_options.iter().chain(&file).find(|(pass, _)| *pass == step.name()) {
                step.pass = format!("{pass}{{{options}}}");
            }
        }
        CompilePipeline { steps }
    }

    /// The passes, each with the phase that it leads to.
    pub fn steps(&self) -> &[(Phase, Step)] {
        &self.steps
    }

    /// The passes that divide the work of kernels and make their loops.
    pub(crate) fn loop_passes(&self) -> [&'static str; 2] {
        let is_for_gpu = self.steps.iter().any(|(_, step)| step.name() == TO_GPU);
        if is_for_gpu { [MAP_TO_GPU, TO_GPU] } else { [MAP_TO_CPU, TO_AFFINE] }
    }

    /// The passes that lead from one phase to another.
    pub fn between(&self, from: Phase, to: Phase) -> PipelineText {
        let steps = self.steps.iter().filter(|(phase, _)| *phase > from && *phase <= to);
        PipelineText { steps: steps.map(|(_, step)| step.clone()).collect() }
    }

    /// All passes.
    pub fn text(&self) -> PipelineText {
        self.between(Phase::Input, Phase::Llvm)
    }
}

/// Registers every pass of halo with MLIR, once.
pub fn register_passes() {
    passes::registry::register();
    lowering_affine::registry::register(exec::runtime::custom_call::is_registered);
    lowering_llvm::passes::register();
}

/// Parses a pipeline for the context of a module.
///
/// # Errors
/// [`PipelineError::Malformed`].
pub fn parse<'c>(module: &Module<'c>, pipeline: &PipelineText) -> Result<PassPipeline<'c>, PipelineError> {
    register_passes();
    PassPipeline::parse(module.context(), &pipeline.to_string())
}

/// Runs a pipeline on a module. With `verify`, the module is verified after each pass.
///
/// # Errors
/// Those of the passes.
pub fn run(module: &Module<'_>, pipeline: &PipelineText, verify: bool) -> Result<PassRun, PipelineError> {
    let pipeline = parse(module, pipeline)?;
    pipeline.enable_verifier(verify);
    pipeline.run(module.as_operation())
}

/// The program in the hlo dialect, in which every pass works.
///
/// # Errors
/// For programs that their devices cannot run, and for those that the dialect cannot hold.
pub fn import<'c>(context: &'c Context, module: &graph::Module) -> Result<Module<'c>, Error> {
    devices::check(module)?;
    Ok(dialect::graph_to_mlir(context, module)?)
}
