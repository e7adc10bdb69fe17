//! Passes as `hlo-opt` runs them: with MLIR's instrumentation, statistics, and dumps between them.

use std::path::{Path, PathBuf};

use hlo::dialect::{self, PrintOptions};
use lowering_llvm::Target;
use melior::ir::Module;
use mlir_ext::pass::{PassReport, PassStatistics};
use mlir_ext::pass_pipeline::Instrumentation;
use mlir_ext::pipeline_text::PipelineText;

use crate::error::ToolError;
use crate::input;

/// What is shown while passes run.
#[derive(Clone, Debug)]
pub struct PassTrace {
    /// What MLIR itself shows.
    pub instrumentation: Instrumentation,
    /// Folder for a tree of files with the IR after each pass.
    pub tree: Option<PathBuf>,
    /// Folder for numbered files with the program before the first and after each pass, that compilation goes on from.
    pub dump: Option<PathBuf>,
    /// Whether what the passes counted is printed to standard error.
    pub statistics: bool,
    /// Whether the program is verified after each pass.
    pub verify_each: bool,
}

impl Default for PassTrace {
    fn default() -> Self {
        PassTrace {
            instrumentation: Instrumentation::default(),
            tree: None,
            dump: None,
            statistics: false,
            verify_each: true,
        }
    }
}

impl PassTrace {
    /// Whether IR is printed or written while passes run.
    pub fn prints(&self) -> bool {
        let Instrumentation { print_before, print_after, .. } = &self.instrumentation;
        !print_before.is_empty() || !print_after.is_empty() || self.tree.is_some() || self.dump.is_some()
    }

    /// A flag that asked for something that only passes give; a dump also has the program before them.
    fn flag(&self) -> Option<&'static str> {
        let Instrumentation { print_before, print_after, timing, reproducer, .. } = &self.instrumentation;
        let flags = [
            ("--mlir-print-ir-before", !print_before.is_empty()),
            ("--mlir-print-ir-after", !print_after.is_empty()),
            ("--print-ir-tree-dir", self.tree.is_some()),
            ("--mlir-timing", *timing),
            ("--mlir-pass-pipeline-crash-reproducer", reproducer.is_some()),
            ("--mlir-pass-statistics", self.statistics),
            ("--verify-each", !self.verify_each),
        ];
        flags.into_iter().find(|&(_, is_given)| is_given).map(|(flag, _)| flag)
    }
}

/// Runs passes.
pub struct PassRunner<'a> {
    /// What is shown meanwhile.
    pub trace: &'a PassTrace,
    /// The processor, for dumps.
    pub target: &'a Target,
    /// Passes of compilation after those that run, for dumps.
    pub rest: &'a PipelineText,
}

impl PassRunner<'_> {
    /// Runs a pipeline on a module.
    pub fn run(&self, module: &mut Module<'_>, pipeline: &PipelineText) -> Result<(), ToolError> {
        self.check_names(pipeline)?;
        let reports = match &self.trace.dump {
            Some(folder) => self.run_with_dumps(module, pipeline, folder)?,
            None => self.run_at_once(module, pipeline)?,
        };
        if self.trace.statistics {
            eprint!("{}", statistics_text(&reports));
        }
        Ok(())
    }

    fn run_at_once(&self, module: &Module<'_>, pipeline: &PipelineText) -> Result<Vec<PassReport>, ToolError> {
        if pipeline.steps.is_empty() {
            return Ok(Vec::new());
        }
        let passes = halo::pipeline::parse(module, pipeline).map_err(halo::Error::from)?;
        passes.enable_verifier(self.trace.verify_each);
        passes.instrument(&self.trace.instrumentation);
        if let Some(folder) = &self.trace.tree {
            std::fs::create_dir_all(folder).map_err(|source| ToolError::Write { path: folder.clone(), source })?;
            passes.print_tree(folder, self.trace.instrumentation.print);
        }
        Ok(passes.run(module.as_operation()).map_err(halo::Error::from)?.reports)
    }

    /// Runs the passes one by one, each on the whole module.
    fn run_with_dumps(
        &self,
        module: &mut Module<'_>,
        pipeline: &PipelineText,
        folder: &Path,
    ) -> Result<Vec<PassReport>, ToolError> {
        std::fs::create_dir_all(folder).map_err(|source| ToolError::Write { path: folder.to_path_buf(), source })?;
        // Printed by MLIR, so that every option of every pass is there.
        let pipeline = if pipeline.steps.is_empty() {
            pipeline.clone()
        } else {
            PipelineText::parse(&halo::pipeline::parse(module, pipeline).map_err(halo::Error::from)?.text())
        };
        let mut reports = Vec::new();
        self.dump(module, &pipeline, 0, folder)?;
        for (place, step) in pipeline.steps.iter().enumerate() {
            reports.extend(self.run_at_once(module, &PipelineText { steps: vec![step.clone()] })?);
            self.dump(module, &pipeline, place + 1, folder)?;
        }
        Ok(reports)
    }

    fn dump(
        &self,
        module: &mut Module<'_>,
        pipeline: &PipelineText,
        done: usize,
        folder: &Path,
    ) -> Result<(), ToolError> {
        let mut rest = pipeline.split_at(done).1;
        rest.steps.extend(self.rest.steps.iter().cloned());
        input::set_state(module, &rest, self.target);
        let print = PrintOptions { locations: true, ..self.trace.instrumentation.print };
        let text = dialect::print(module, print);
        input::take_state(module).map_err(ToolError::Bug)?;
        let name = done.checked_sub(1).and_then(|last| pipeline.steps.get(last)).map_or("input", |step| step.name());
        let path = folder.join(format!("{done:02}-{name}.mlir"));
        std::fs::write(&path, text).map_err(|source| ToolError::Write { path, source })
    }

    /// What is asked about passes that do not run would be ignored.
    fn check_names(&self, pipeline: &PipelineText) -> Result<(), ToolError> {
        let Instrumentation { print_before, print_after, .. } = &self.trace.instrumentation;
        for name in [print_before, print_after].into_iter().flat_map(|names| names.split(',')) {
            if !matches!(name, "" | "*") && !pipeline.steps.iter().any(|step| step.name() == name) {
                return Err(ToolError::Usage(format!("IR is to be printed at the pass `{name}`, which does not run")));
            }
        }
        match self.trace.flag() {
            Some(flag) if pipeline.steps.is_empty() => {
                Err(ToolError::Usage(format!("{flag} has no effect: no pass runs")))
            }
            _ => Ok(()),
        }
    }
}

/// What each pass counted, in the order in which they ran first.
fn statistics_text(reports: &[PassReport]) -> String {
    let mut merged: Vec<(&str, PassStatistics)> = Vec::new();
    for report in reports {
        match merged.iter_mut().find(|(pass, _)| *pass == report.pass) {
            Some((_, statistics)) => statistics.merge(&report.statistics),
            None => merged.push((report.pass, report.statistics.clone())),
        }
    }
    let mut text = String::from("pass statistics:\n");
    for (pass, statistics) in merged {
        let counted = if statistics.hits.is_empty() { "nothing".to_string() } else { statistics.to_string() };
        text.push_str(&format!("  {pass}: {counted}\n"));
    }
    text
}
