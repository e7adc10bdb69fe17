//! The passes of this crate in MLIR's registry: their names and options.

use std::sync::Once;

use hlo::dialect;
use hlo::graph::Computation;
use melior::ir::attribute::{ArrayAttribute, StringAttribute};
use melior::ir::operation::OperationMutLike;
use melior::ir::{Attribute, Module};
use mlir_ext::builder::Machine;
use mlir_ext::pass::{
    self, Anchor, FailureKind, OptionDefinition, OptionKind, PassDefinition, PassFailure, PassOptions, PassStatistics,
};
use mlir_ext::{modules, operations};

use crate::error::LoweringError;
use crate::gpu;
use crate::program::LoopOptions;

/// Module attribute with a line for each launch of a kernel, in order.
pub const LAUNCHES: &str = "hlo.launches";

const EXCESS_PRECISION: OptionDefinition = OptionDefinition {
    name: "excess-precision",
    description: "whether a product that is added to something need not be rounded before",
    kind: OptionKind::Boolean,
    default: "true",
};

const TO_AFFINE_OPTIONS: &[OptionDefinition] = &[
    EXCESS_PRECISION,
    OptionDefinition {
        name: "parallel",
        description: "whether large kernels are handed to the runtime's threads",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "scale-vectors",
        description: "whether scaling vectors of floats by powers of two is one instruction",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "vector-bits",
        description: "bits of the target's vector registers",
        kind: OptionKind::Integer,
        default: "128",
    },
    OptionDefinition {
        name: "vector-library-bits",
        description: "bits of the widest vector of the vector math library; 0 without such a library",
        kind: OptionKind::Integer,
        default: "0",
    },
];

/// The options of `hlo-to-affine` as its text.
pub fn to_affine_options(vector_bits: u32, parallel: bool, machine: Machine) -> String {
    let Machine { scales_vectors, vector_library_bits, allow_fma } = machine;
    format!(
        "excess-precision={allow_fma} parallel={parallel} scale-vectors={scales_vectors} \
         vector-bits={vector_bits} vector-library-bits={vector_library_bits}"
    )
}

/// Registers the passes with MLIR, once. `custom_calls` says whether the runtime knows a function by the name that a
/// custom call gives.
pub fn register(custom_calls: fn(&str) -> bool) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        pass::register([
            PassDefinition {
                argument: "hlo-to-affine",
                description: "makes loops of fusions, and control flow of the operations with computations",
                anchor: Anchor::Module,
                options: TO_AFFINE_OPTIONS,
                dialects: crate::DIALECTS,
                body: Box::new(move |root, options, statistics| {
                    let options = loop_options(options, custom_calls)?;
                    Ok(crate::pass::run(root, options, statistics)?)
                }),
            },
            PassDefinition {
                argument: "hlo-to-gpu",
                description: "makes GPU kernels of fusions",
                anchor: Anchor::Module,
                options: &[EXCESS_PRECISION],
                dialects: crate::DIALECTS,
                body: Box::new(|root, options, statistics| {
                    let excess_precision = options.boolean("excess-precision")?;
                    modules::with_module(root, |module| to_gpu(module, excess_precision, statistics))
                        .unwrap_or_else(|| Err(PassFailure::bug("the root is no module")))
                }),
            },
        ]);
    });
}

fn loop_options(options: &PassOptions<'_>, custom_calls: fn(&str) -> bool) -> Result<LoopOptions, PassFailure> {
    let bits = |name: &str| {
        u32::try_from(options.integer(name)?)
            .map_err(|_| PassFailure::new(FailureKind::Invalid, format!("option `{name}` is too large")))
    };
    let machine = Machine {
        scales_vectors: options.boolean("scale-vectors")?,
        vector_library_bits: bits("vector-library-bits")?,
        allow_fma: options.boolean("excess-precision")?,
    };
    Ok(LoopOptions { vector_bits: bits("vector-bits")?, parallel: options.boolean("parallel")?, machine, custom_calls })
}

fn entry_of(module: &Module<'_>) -> Result<Computation, PassFailure> {
    let mut graph =
        dialect::mlir_to_graph(module).map_err(|error| PassFailure::new(FailureKind::Invalid, error.to_string()))?;
    Ok(graph.functions.swap_remove(graph.entry.index()))
}

fn to_gpu(module: &Module<'_>, excess_precision: bool, statistics: &mut PassStatistics) -> Result<(), PassFailure> {
    let entry = entry_of(module)?;
    let context = operations::context(module.context());
    let (mut lowered, launches) = gpu::lower_kernels(context, &entry, excess_precision)?;
    statistics.add("kernels", launches.len() as u64);
    let lines: Vec<Attribute> =
        launches.iter().map(|launch| StringAttribute::new(context, &launch.to_string()).into()).collect();
    lowered.as_operation_mut().set_attribute(LAUNCHES, ArrayAttribute::new(context, &lines).into());
    modules::replace_contents(module, lowered);
    Ok(())
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
