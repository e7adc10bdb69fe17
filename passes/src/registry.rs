//! The passes on HLO programs, by name; [`register`] puts them into MLIR's registry.
//!
//! To add one: a file with its function, and a row in `PASSES`.

use std::sync::Once;

use hlo::dialect::DialectError;
use melior::ir::OperationRef;
use mlir_ext::pass::{self, PassDefinition};
use mlir_ext::rewrite::RewriteError;

pub use mlir_ext::pass::{Anchor, FailureKind, OptionDefinition, OptionKind, PassFailure, PassOptions, PassStatistics};

use crate::canonicalize_convolutions::ConvolutionOptions;
use crate::canonicalize_dots::DotOptions;
use crate::fuse::FuseOptions;
use crate::inline_calls::InlineError;
use crate::pad_dynamic_dimensions::DynamicError;
use crate::{
    allow_tf32, arrange_operands, assign_buffers, canonicalize, canonicalize_convolutions, canonicalize_dots, dce,
    erase_layouts, expand, expand_host_calls, fuse, inline_calls, keep_precision, loop_over_elements,
    pad_dynamic_dimensions, simplify_loops, split_reductions, transpose_operands,
};

/// A transformation of HLO programs.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    name: &'static str,
    description: &'static str,
    anchor: Anchor,
    options: &'static [OptionDefinition],
    body: PassBody,
}

impl Pass {
    /// Name in pipelines, in kebab-case.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, in one line.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// The operations that it runs on.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Its options.
    pub fn options(&self) -> &'static [OptionDefinition] {
        self.options
    }

    /// Runs it on an operation of its anchor.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn run(
        &self,
        root: OperationRef<'_, '_>,
        options: &PassOptions<'_>,
        statistics: &mut PassStatistics,
    ) -> Result<(), PassError> {
        (self.body)(root, options, statistics)
    }
}

/// The function of a pass, on an operation of its anchor.
type PassBody = fn(OperationRef<'_, '_>, &PassOptions<'_>, &mut PassStatistics) -> Result<(), PassError>;

static PASSES: &[Pass] = &[
    Pass {
        name: "hlo-allow-tf32",
        description: "has products of f32 made of tf32 where the program leaves their precision open, for GPUs",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| allow_tf32::run(root, statistics),
    },
    Pass {
        name: "hlo-arrange-operands",
        description: "has operands of products lie as the loops of a processor go through them",
        anchor: Anchor::Function,
        options: arrange_operands::OPTIONS,
        body: |root, options, statistics| arrange_operands::run(root, options.integer("attention-rows")?, statistics),
    },
    Pass {
        name: "hlo-assign-buffers",
        description: "places every array of the program in memory, and notes where",
        anchor: Anchor::Module,
        options: assign_buffers::OPTIONS,
        body: |root, options, statistics| assign_buffers::run(root, options.boolean("by-row")?, statistics),
    },
    Pass {
        name: "hlo-canonicalize",
        description: "rewrites operations to simpler equal ones and evaluates small constant ones",
        anchor: Anchor::Function,
        options: canonicalize::OPTIONS,
        body: |root, options, statistics| canonicalize::run(root, options.integer("max-iterations")?, statistics),
    },
    Pass {
        name: "hlo-canonicalize-convolutions",
        description: "turns the padding of convolutions into pads, and those with a window of one element into dots",
        anchor: Anchor::Function,
        options: canonicalize_convolutions::OPTIONS,
        body: |root, options, statistics| {
            let options = ConvolutionOptions {
                features_last: options.boolean("features-last")?,
                winograd: options.boolean("winograd")?,
            };
            canonicalize_convolutions::run(root, options, statistics)
        },
    },
    Pass {
        name: "hlo-canonicalize-dots",
        description: "folds transposes into contractions, and turns those with free dimensions on one side into reductions",
        anchor: Anchor::Function,
        options: canonicalize_dots::OPTIONS,
        body: |root, options, statistics| {
            let options = DotOptions {
                small_convolutions: options.boolean("small-convolutions")?,
                small_matrices: options.boolean("small-matrices")?,
            };
            canonicalize_dots::run(root, options, statistics)
        },
    },
    Pass {
        name: "hlo-dce",
        description: "removes operations without effect whose results are not used, and functions that are not called",
        anchor: Anchor::Module,
        options: &[],
        body: |root, _, statistics| dce::run(root, statistics),
    },
    Pass {
        name: "hlo-erase-layouts",
        description: "takes the layouts from the types of values, on which nothing depends once bitcasts are expanded",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| erase_layouts::run(root, statistics),
    },
    Pass {
        name: "hlo-expand",
        description: "replaces operations by simpler ones: batch normalisation, collectives, asynchronous forms …",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| expand::run(root, statistics),
    },
    Pass {
        name: "hlo-expand-host-calls",
        description: "replaces what a GPU would call the host for by what are kernels: random bits, transforms, the largest of each row",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| expand_host_calls::run(root, statistics),
    },
    Pass {
        name: "hlo-fuse",
        description: "groups operations into fusions that each become one loop nest",
        anchor: Anchor::Function,
        options: fuse::OPTIONS,
        body: |root, options, statistics| {
            let options = FuseOptions {
                by_row: options.boolean("by-row")?,
                attention: options.boolean("attention")?,
                attention_gradients: options.integer("attention-gradients")?,
                attention_rows: options.integer("attention-rows")?,
                short_reductions: options.integer("short-reductions")?,
            };
            fuse::run(root, options, statistics)
        },
    },
    Pass {
        name: "hlo-inline-calls",
        description: "replaces calls by the bodies of their functions",
        anchor: Anchor::Module,
        options: &[],
        body: |root, _, statistics| inline_calls::run(root, statistics),
    },
    Pass {
        name: "hlo-keep-precision",
        description: "rounds neither to bf16 before f32 nor, but for steps that follow, products before sums; adds no zeros around updates",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| keep_precision::run(root, statistics),
    },
    Pass {
        name: "hlo-loop-over-elements",
        description: "makes loops of operations whose computations are more than arithmetic on scalars",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| loop_over_elements::run(root, statistics),
    },
    Pass {
        name: "hlo-pad-dynamic-dimensions",
        description: "makes bounded dynamic dimensions static; sizes become values, those of the program's result further results",
        anchor: Anchor::Module,
        options: &[],
        body: |root, _, statistics| pad_dynamic_dimensions::run(root, statistics),
    },
    Pass {
        name: "hlo-simplify-loops",
        description: "computes before a loop what every iteration would compute again",
        anchor: Anchor::Function,
        options: &[],
        body: |root, _, statistics| simplify_loops::run(root, statistics),
    },
    Pass {
        name: "hlo-split-reductions",
        description: "makes two reductions of one from many elements to few, and a batch of a product of few: more to do side by side",
        anchor: Anchor::Function,
        options: split_reductions::OPTIONS,
        body: |root, options, statistics| {
            let own = split_reductions::Options {
                attention_rows: options.integer("attention-rows")?,
                gpu: options.boolean("gpu")?,
            };
            split_reductions::run(root, own, statistics)
        },
    },
    Pass {
        name: "hlo-transpose-operands",
        description: "has operands of large products lie along what is contracted, for instructions that multiply only such ones",
        anchor: Anchor::Function,
        options: transpose_operands::OPTIONS,
        body: |root, options, statistics| {
            let own = transpose_operands::OperandOptions {
                attention_rows: options.integer("attention-rows")?,
                warp_groups: options.boolean("warp-groups")?,
            };
            transpose_operands::run(root, own, statistics)
        },
    },
];

/// Every pass, by name.
pub fn all() -> &'static [Pass] {
    PASSES
}

/// The pass of a name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// Registers the passes with MLIR, once.
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        pass::register(PASSES.iter().map(|pass| PassDefinition {
            argument: pass.name,
            description: pass.description,
            anchor: pass.anchor,
            options: pass.options,
            dialects: &["hlo", "func"],
            body: Box::new(move |root, options, statistics| Ok(pass.run(root, options, statistics)?)),
        }));
    });
}

/// Why a pass was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// The module is no HLO program.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// A program too large once inlined.
    #[error(transparent)]
    Inline(#[from] InlineError),
    /// An operation on dynamic dimensions that has no rule.
    #[error(transparent)]
    Dynamic(#[from] DynamicError),
    /// A rewrite would have broken the program: a bug of the pass.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// An option that the pass does not declare.
    #[error(transparent)]
    Option(#[from] PassFailure),
    /// A broken promise of a pass.
    #[error("{0}")]
    Bug(String),
}

impl PassError {
    /// A broken promise of a pass.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        PassError::Bug(what.into())
    }
}

impl From<PassError> for PassFailure {
    fn from(error: PassError) -> Self {
        let kind = match &error {
            PassError::Option(failure) => return failure.clone(),
            PassError::Dialect(_) => FailureKind::Invalid,
            PassError::Inline(_) | PassError::Dynamic(_) => FailureKind::Unsupported,
            PassError::Rewrite(_) | PassError::Bug(_) => FailureKind::Bug,
        };
        let instruction = match &error {
            PassError::Dynamic(
                DynamicError::NoRule { instruction, .. } | DynamicError::Unbounded { instruction, .. },
            ) => Some(instruction.clone()),
            _ => None,
        };
        PassFailure::new(kind, error.to_string()).at(instruction)
    }
}
