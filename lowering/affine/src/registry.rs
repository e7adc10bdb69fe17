//! The passes of this crate in MLIR's registry: their names and options.

use std::sync::Once;

use hlo::devices::DeviceCount;
use mlir_ext::builder::Machine;
use mlir_ext::pass::{
    self, Anchor, FailureKind, OptionDefinition, OptionKind, PassDefinition, PassFailure, PassOptions,
};

use crate::error::LoweringError;
use crate::fuse_epilogues::ProductKernels;
use crate::map_to_cpu::{self, CpuTarget};
use crate::program::{CallOptions, CustomCallNames, LoopOptions};
use crate::{fuse_epilogues, map_to_gpu, to_affine, to_gpu};

const EXCESS_PRECISION: OptionDefinition = OptionDefinition {
    name: "excess-precision",
    description: "whether a product that is added to something need not be rounded before",
    kind: OptionKind::Boolean,
    default: "true",
};

const TO_AFFINE_OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "bf16-dot-products",
        description: "whether there are instructions for dot products of two bf16 in each lane of a vector",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "bf16-matrices",
        description: "whether there are registers for tiles of matrices, and products of tiles of bf16",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "byte-dot-products",
        description: "whether there are instructions for dot products of four bytes in each lane of a vector",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "byte-matrices",
        description: "whether there are registers for tiles of matrices, and products of tiles of bytes",
        kind: OptionKind::Boolean,
        default: "false",
    },
    EXCESS_PRECISION,
    OptionDefinition {
        name: "half-arithmetic",
        description: "whether there are instructions for arithmetic of f16",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "profile",
        description: "whether the steps of the program note when they begin and end",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "runtime-tile-bits",
        description: "bits of the widest vector of the runtime's tiles of products and transpositions; 0 without such tiles",
        kind: OptionKind::Integer,
        default: "0",
    },
    OptionDefinition {
        name: "scale-vectors",
        description: "whether scaling vectors of floats by powers of two is one instruction",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "vector-library-bits",
        description: "bits of the widest vector of the vector math library; 0 without such a library",
        kind: OptionKind::Integer,
        default: "0",
    },
    OptionDefinition {
        name: "word-dot-products",
        description: "whether there are instructions for dot products of two integers of 16 bits in each lane of a vector",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

const VECTOR_BITS: OptionDefinition = OptionDefinition {
    name: "vector-bits",
    description: "bits of the target's vector registers",
    kind: OptionKind::Integer,
    default: "128",
};

const MAP_TO_CPU_OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "few-write-streams",
        description: "whether the processor follows few rows that are written side by side, pages apart",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "parallel",
        description: "whether large kernels are handed to the runtime's threads",
        kind: OptionKind::Boolean,
        default: "false",
    },
    VECTOR_BITS,
];

const FUSE_EPILOGUES_OPTIONS: &[OptionDefinition] = &[
    VECTOR_BITS,
    OptionDefinition {
        name: "gpu",
        description: "whether the kernels are those of a GPU",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

const TO_GPU_OPTIONS: &[OptionDefinition] = &[
    EXCESS_PRECISION,
    OptionDefinition {
        name: "warp-group-matrices",
        description: "whether four warps may multiply matrices together (sm_90a)",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

/// The options of `hlo-to-gpu` as its text.
pub fn to_gpu_options(Machine { allow_fma, warp_group_matrices, .. }: Machine) -> String {
    let matrices = if warp_group_matrices { " warp-group-matrices=true" } else { "" };
    format!("excess-precision={allow_fma}{matrices}")
}

/// The options of `hlo-fuse-epilogues` as its text.
pub fn fuse_epilogues_options(CpuTarget { vector_bits, .. }: CpuTarget) -> String {
    format!("vector-bits={vector_bits}")
}

/// The options of `hlo-map-to-cpu` as its text.
pub fn map_to_cpu_options(CpuTarget { vector_bits, parallel, few_write_streams }: CpuTarget) -> String {
    format!("few-write-streams={few_write_streams} parallel={parallel} vector-bits={vector_bits}")
}

/// The options of `hlo-to-affine` as its text.
pub fn to_affine_options(profile: bool, machine: Machine) -> String {
    let Machine {
        scales_vectors,
        vector_library_bits,
        byte_dot_products,
        word_dot_products,
        bf16_dot_products,
        byte_matrices,
        bf16_matrices,
        half_arithmetic,
        runtime_tile_bits,
        allow_fma,
        warp_group_matrices: _,
        is_gpu: _,
    } = machine;
    format!(
        "bf16-dot-products={bf16_dot_products} bf16-matrices={bf16_matrices} byte-dot-products={byte_dot_products} \
         byte-matrices={byte_matrices} excess-precision={allow_fma} half-arithmetic={half_arithmetic} profile={profile} \
         runtime-tile-bits={runtime_tile_bits} scale-vectors={scales_vectors} vector-library-bits={vector_library_bits} \
         word-dot-products={word_dot_products}"
    )
}

/// Registers the passes with MLIR, once. `custom_calls` says whether the runtime knows a function by the name that a
/// custom call gives.
pub fn register(custom_calls: CustomCallNames) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        pass::register([
            PassDefinition {
                argument: "hlo-fuse-epilogues",
                description: "moves products into the fusions that compute from their elements",
                anchor: Anchor::Module,
                options: FUSE_EPILOGUES_OPTIONS,
                dialects: &["hlo"],
                body: Box::new(move |root, options, statistics| {
                    let kernels = match options.boolean("gpu")? {
                        true => ProductKernels::Gpu,
                        false => ProductKernels::Cpu { vector_bits: bits(options, "vector-bits")? },
                    };
                    statistics.add("products", fuse_epilogues::run(root, kernels)?);
                    Ok(())
                }),
            },
            PassDefinition {
                argument: "hlo-map-to-cpu",
                description: "divides the work of kernels into loops, vectors and threads, and notes how",
                anchor: Anchor::Module,
                options: MAP_TO_CPU_OPTIONS,
                dialects: &["hlo"],
                body: Box::new(move |root, options, statistics| {
                    let target = CpuTarget {
                        vector_bits: bits(options, "vector-bits")?,
                        parallel: options.boolean("parallel")?,
                        few_write_streams: options.boolean("few-write-streams")?,
                    };
                    statistics.add("kernels", map_to_cpu::run(root, target, custom_calls)?);
                    Ok(())
                }),
            },
            PassDefinition {
                argument: "hlo-map-to-gpu",
                description: "divides the work of kernels into blocks and threads, and notes how",
                anchor: Anchor::Module,
                options: &[],
                dialects: &["hlo"],
                body: Box::new(move |root, _, statistics| {
                    statistics.add("kernels", map_to_gpu::run(root, custom_calls)?);
                    Ok(())
                }),
            },
            PassDefinition {
                argument: "hlo-to-affine",
                description: "makes loops of fusions, and control flow of the operations with computations",
                anchor: Anchor::Module,
                options: TO_AFFINE_OPTIONS,
                dialects: crate::DIALECTS,
                body: Box::new(move |root, options, statistics| {
                    let options = loop_options(options, custom_calls)?;
                    Ok(to_affine::run(root, options, statistics)?)
                }),
            },
            PassDefinition {
                argument: "hlo-to-gpu",
                description: "makes GPU kernels of fusions, and the plan of their launches",
                anchor: Anchor::Module,
                options: TO_GPU_OPTIONS,
                dialects: crate::DIALECTS,
                body: Box::new(move |root, options, statistics| {
                    let machine = Machine {
                        allow_fma: options.boolean("excess-precision")?,
                        warp_group_matrices: options.boolean("warp-group-matrices")?,
                        is_gpu: true,
                        ..Machine::default()
                    };
                    Ok(to_gpu::run(root, machine, custom_calls, statistics)?)
                }),
            },
        ]);
    });
}

fn loop_options(options: &PassOptions<'_>, custom_calls: CustomCallNames) -> Result<LoopOptions, PassFailure> {
    let machine = Machine {
        scales_vectors: options.boolean("scale-vectors")?,
        vector_library_bits: bits(options, "vector-library-bits")?,
        byte_dot_products: options.boolean("byte-dot-products")?,
        word_dot_products: options.boolean("word-dot-products")?,
        bf16_dot_products: options.boolean("bf16-dot-products")?,
        byte_matrices: options.boolean("byte-matrices")?,
        bf16_matrices: options.boolean("bf16-matrices")?,
        half_arithmetic: options.boolean("half-arithmetic")?,
        runtime_tile_bits: bits(options, "runtime-tile-bits")?,
        warp_group_matrices: false,
        is_gpu: false,
        allow_fma: options.boolean("excess-precision")?,
    };
    Ok(LoopOptions {
        profile: options.boolean("profile")?,
        machine,
        calls: CallOptions { custom_calls, devices: DeviceCount::ONE },
    })
}

fn bits(options: &PassOptions<'_>, name: &str) -> Result<u32, PassFailure> {
    u32::try_from(options.integer(name)?)
        .map_err(|_| PassFailure::new(FailureKind::Invalid, format!("option `{name}` is too large")))
}

impl From<LoweringError> for PassFailure {
    fn from(error: LoweringError) -> Self {
        let (kind, instruction) = match &error {
            LoweringError::Unsupported { instruction, .. } => (FailureKind::Unsupported, Some(instruction.clone())),
            LoweringError::Elided(instruction) => (FailureKind::Invalid, Some(instruction.clone())),
            LoweringError::Dialect(_) => (FailureKind::Invalid, None),
            LoweringError::Rewrite(_) | LoweringError::Attributes(_) | LoweringError::Bug(_) => {
                (FailureKind::Bug, None)
            }
        };
        PassFailure::new(kind, error.to_string()).at(instruction)
    }
}
