//! The passes by name: what `hlo-opt --passes=…` can run.
//!
//! A pass works on the graph or on the MLIR module, whichever suits it; [`crate::pipeline`] converts in between. To
//! add one: a file with its function, and a row in `PASSES`.

use std::fmt;

use hlo::dialect::{self, DialectError};
use hlo::graph;
use melior::ir::OperationRef;
use mlir_ext::pass_pipeline::PipelineError;
use mlir_ext::rewrite::RewriteError;

use crate::dynamic_dimensions::DynamicError;
use crate::inline_calls::InlineError;
use crate::pipeline::{PassReport, Pipeline, Program};
use crate::{
    buffer_assignment, canonicalize, canonicalize_convolutions, canonicalize_dots, cse, dce, dynamic_dimensions,
    expand, fuse_loops, inline_calls, keep_precision, loop_over_elements,
};

/// A transformation of HLO programs.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    name: &'static str,
    description: &'static str,
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

    /// Its function.
    pub fn body(&self) -> PassBody {
        self.body
    }

    /// Runs it on a graph. Several passes are better run as a [`Pipeline`].
    ///
    /// # Errors
    /// Those of the pass.
    pub fn run(&'static self, module: &mut graph::Module) -> Result<PassStatistics, PassError> {
        let mut statistics = PassStatistics::default();
        if let PassBody::Graph(run) = self.body {
            run(module, &mut statistics)?;
            return Ok(statistics);
        }
        let context = dialect::context();
        let program = Program::Graph(module.clone());
        let observe = |report: PassReport| statistics = report.statistics.clone();
        *module = Pipeline::of(vec![self]).run(&context, program, false, observe)?.into_graph()?;
        Ok(statistics)
    }
}

/// The function of a pass.
#[derive(Clone, Copy, Debug)]
pub enum PassBody {
    /// On the graph.
    Graph(fn(&mut graph::Module, &mut PassStatistics) -> Result<(), PassError>),
    /// On an MLIR operation: a module or a function.
    Mlir(fn(OperationRef<'_, '_>, &mut PassStatistics) -> Result<(), PassError>),
}

static PASSES: &[Pass] = &[
    Pass {
        name: "assign-buffers",
        description: "places every array of the program in memory, and notes where",
        body: PassBody::Graph(|module, statistics| {
            statistics.add("arena bytes", buffer_assignment::annotate_module(module) as u64);
            Ok(())
        }),
    },
    Pass {
        name: "canonicalize",
        description: "rewrites operations to simpler equal ones and evaluates small constant ones",
        body: PassBody::Mlir(canonicalize::run),
    },
    Pass {
        name: "canonicalize-convolutions",
        description: "turns the padding of convolutions into pads, and those with a window of one element into dots",
        body: PassBody::Graph(|module, statistics| {
            canonicalize_convolutions::canonicalize_convolutions(module, statistics);
            Ok(())
        }),
    },
    Pass {
        name: "canonicalize-dots",
        description: "folds transposes into contractions, and turns those with free dimensions on one side into reductions",
        body: PassBody::Graph(|module, statistics| {
            let rewrites = canonicalize_dots::canonicalize_dots(module);
            statistics.add("product", rewrites.products as u64);
            statistics.add("fold-transpose", rewrites.folded_transposes as u64);
            statistics.add("widen", rewrites.widened as u64);
            statistics.add("vector-dot-to-reduce", rewrites.reductions as u64);
            Ok(())
        }),
    },
    Pass { name: "cse", description: "merges operations that compute the same", body: PassBody::Mlir(cse::run) },
    Pass {
        name: "dce",
        description: "removes operations without effect whose results are not used, and functions that are not called",
        body: PassBody::Mlir(dce::run),
    },
    Pass {
        name: "expand",
        description: "replaces operations by simpler ones: batch normalisation, collectives of one replica, asynchronous forms …",
        body: PassBody::Graph(|module, statistics| {
            expand::expand(module, statistics);
            Ok(())
        }),
    },
    Pass {
        name: "fuse-loops",
        description: "groups operations into fusions that each become one loop nest",
        body: PassBody::Graph(|module, statistics| {
            statistics.add("fusions", fuse_loops::fuse_module(module) as u64);
            Ok(())
        }),
    },
    Pass {
        name: "inline-calls",
        description: "replaces calls by the bodies of their functions",
        body: PassBody::Graph(|module, statistics| {
            statistics.add("calls", inline_calls::inline_calls(module)? as u64);
            Ok(())
        }),
    },
    Pass {
        name: "keep-precision",
        description: "leaves out the rounding to bf16 of results that are converted to f32",
        body: PassBody::Graph(|module, statistics| {
            statistics.add("roundings", keep_precision::keep_precision(module) as u64);
            Ok(())
        }),
    },
    Pass {
        name: "loop-over-elements",
        description: "makes loops of operations whose computations are more than arithmetic on scalars",
        body: PassBody::Graph(|module, statistics| {
            loop_over_elements::loop_over_elements(module, statistics);
            Ok(())
        }),
    },
    Pass {
        name: "pad-dynamic-dimensions",
        description: "makes bounded dynamic dimensions static; sizes become values, those of the program's result further results",
        body: PassBody::Graph(|module, statistics| Ok(dynamic_dimensions::pad_dynamic_dimensions(module, statistics)?)),
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

/// How often each rule of a pass was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassStatistics {
    /// (rule, hits), in the order of first hits.
    pub hits: Vec<(&'static str, u64)>,
    /// Why the pass ended before it was done, if it did.
    pub stopped: Option<&'static str>,
}

impl PassStatistics {
    /// Counts hits of a rule.
    pub fn add(&mut self, rule: &'static str, hits: u64) {
        if hits == 0 {
            return;
        }
        match self.hits.iter_mut().find(|(name, _)| *name == rule) {
            Some((_, count)) => *count += hits,
            None => self.hits.push((rule, hits)),
        }
    }

    /// Hits of a rule.
    pub fn of(&self, rule: &str) -> u64 {
        self.hits.iter().find(|(name, _)| *name == rule).map_or(0, |(_, hits)| *hits)
    }

    /// Hits of all rules.
    pub fn total(&self) -> u64 {
        self.hits.iter().map(|(_, hits)| hits).sum()
    }
}

impl fmt::Display for PassStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (rule, hits)) in self.hits.iter().enumerate() {
            let separator = if position > 0 { ", " } else { "" };
            write!(f, "{separator}{rule}: {hits}")?;
        }
        if let Some(reason) = self.stopped {
            write!(f, " (stopped: {reason})")?;
        }
        Ok(())
    }
}

/// Why a pass or pipeline was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// There is no pass of that name.
    #[error("unknown pass `{name}`; there are {}", names())]
    UnknownPass {
        /// The name.
        name: String,
    },
    /// The program cannot change between graph and MLIR, or is not valid.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// A pass of MLIR failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// A program too large once inlined.
    #[error(transparent)]
    Inline(#[from] InlineError),
    /// An operation on dynamic dimensions that has no rule.
    #[error(transparent)]
    Dynamic(#[from] DynamicError),
    /// A rewrite would have broken the program: a bug of the pass.
    #[error("internal error: {0}")]
    Rewrite(#[from] RewriteError),
}

fn names() -> String {
    PASSES.iter().map(|pass| pass.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(PASSES.is_sorted_by(|a, b| a.name < b.name));
    }
}
