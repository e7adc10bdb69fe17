//! Pipelines: passes in order, by comma-separated names.

use std::time::{Duration, Instant};

use hlo::dialect;
use hlo::graph;
use melior::Context;
use melior::ir::Module;

use crate::registry::{self, Pass, PassBody, PassError, PassStatistics};

/// The passes that compilation runs before buffers are assigned.
pub const DEFAULT: &str = "inline-calls,pad-dynamic-dimensions,expand,keep-precision,loop-over-elements,canonicalize,cse,dce,canonicalize-convolutions,canonicalize-dots,fuse-loops";

/// The pass of [`DEFAULT`] that is left out where every rounding of the program must be kept.
pub const EXCESS_PRECISION: &str = "keep-precision";

/// A program in either form.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one program exists at a time")]
pub enum Program<'c> {
    /// As a graph.
    Graph(graph::Module),
    /// As an MLIR module.
    Mlir(Module<'c>),
}

impl<'c> Program<'c> {
    /// The program as a graph.
    ///
    /// # Errors
    /// Those of [`dialect::mlir_to_graph`].
    pub fn into_graph(self) -> Result<graph::Module, PassError> {
        Ok(match self {
            Program::Graph(graph) => graph,
            Program::Mlir(module) => dialect::mlir_to_graph(&module)?,
        })
    }

    /// The program as an MLIR module of a context.
    ///
    /// # Errors
    /// Those of [`dialect::graph_to_mlir`].
    pub fn into_mlir(self, context: &'c Context) -> Result<Module<'c>, PassError> {
        Ok(match self {
            Program::Graph(graph) => dialect::graph_to_mlir(context, &graph)?,
            Program::Mlir(module) => module,
        })
    }

    fn verify(&self) -> Result<(), PassError> {
        match self {
            Program::Graph(graph) => graph.check().map_err(|error| {
                PassError::Dialect(dialect::DialectError::Invalid { location: None, message: error.to_string() })
            }),
            Program::Mlir(module) => Ok(dialect::verify(module)?),
        }
    }
}

/// What one pass did.
#[derive(Debug)]
pub struct PassReport<'p, 'c> {
    /// The pass.
    pub pass: &'static Pass,
    /// Its hits.
    pub statistics: &'p PassStatistics,
    /// Time of the pass, without conversion and verification.
    pub elapsed: Duration,
    /// The program after it.
    pub program: &'p Program<'c>,
}

/// Passes in order.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    passes: Vec<&'static Pass>,
}

impl Pipeline {
    /// These passes in order.
    pub fn of(passes: Vec<&'static Pass>) -> Self {
        Pipeline { passes }
    }

    /// The passes of compilation; with `excess_precision`, those that leave roundings out too.
    ///
    /// # Errors
    /// None, unless [`DEFAULT`] is wrong.
    pub fn of_compilation(excess_precision: bool) -> Result<Self, PassError> {
        let mut pipeline = Self::parse(DEFAULT)?;
        pipeline.passes.retain(|pass| excess_precision || pass.name() != EXCESS_PRECISION);
        Ok(pipeline)
    }

    /// Reads comma-separated names; empty text is the empty pipeline.
    ///
    /// # Errors
    /// [`PassError::UnknownPass`].
    pub fn parse(text: &str) -> Result<Self, PassError> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let passes = names
            .map(|name| registry::find(name).ok_or_else(|| PassError::UnknownPass { name: name.to_string() }))
            .collect::<Result<_, _>>()?;
        Ok(Pipeline { passes })
    }

    /// The passes.
    pub fn passes(&self) -> &[&'static Pass] {
        &self.passes
    }

    /// Runs the passes. With `verify`, the program is verified after each.
    ///
    /// # Errors
    /// Those of the passes and of verification.
    pub fn run<'c>(
        &self,
        context: &'c Context,
        program: Program<'c>,
        verify: bool,
        mut observe: impl FnMut(PassReport<'_, 'c>),
    ) -> Result<Program<'c>, PassError> {
        let mut program = program;
        for pass in &self.passes {
            let mut statistics = PassStatistics::default();
            let start;
            program = match pass.body() {
                PassBody::Graph(run) => {
                    let mut graph = program.into_graph()?;
                    start = Instant::now();
                    run(&mut graph, &mut statistics)?;
                    Program::Graph(graph)
                }
                PassBody::Mlir(run) => {
                    let module = program.into_mlir(context)?;
                    start = Instant::now();
                    run(module.as_operation(), &mut statistics)?;
                    Program::Mlir(module)
                }
            };
            let elapsed = start.elapsed();
            if verify {
                program.verify()?;
            }
            observe(PassReport { pass, statistics: &statistics, elapsed, program: &program });
        }
        Ok(program)
    }
}
