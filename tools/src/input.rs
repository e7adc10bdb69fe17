//! Programs as `hlo-opt` takes them: HLO text or MLIR of any phase, and what a dump says of itself.

use halo::pipeline::{self, Phase};
use hlo::dialect;
use hlo::graph;
use lowering_llvm::Target;
use melior::Context;
use melior::ir::Module;
use melior::ir::attribute::{ArrayAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationMutLike};
use mlir_ext::pipeline_text::PipelineText;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

use crate::error::ToolError;
use crate::module_file::SourceText;

/// Module attribute of dumps: the pipeline that remains.
const PIPELINE: &str = "halo.pipeline";

/// Module attribute of dumps: triple, processor and features.
const TARGET: &str = "halo.target";

/// A program that was read.
pub struct Input<'c> {
    /// It in MLIR.
    pub module: Module<'c>,
    /// It as a graph, if it was HLO text.
    pub graph: Option<Box<graph::Module>>,
    /// What it is by its operations.
    pub phase: Phase,
    /// The passes that remain, if it is a dump.
    pub rest: Option<PipelineText>,
    /// The processor, if it is a dump.
    pub target: Option<Target>,
}

/// Reads a program.
pub fn read<'c>(source_text: &SourceText, context: &'c Context) -> Result<Input<'c>, ToolError> {
    pipeline::register_passes();
    if !source_text.is_mlir() {
        let graph = source_text.module()?;
        let module = dialect::graph_to_mlir(context, &graph).map_err(halo::Error::from)?;
        return Ok(Input { module, graph: Some(Box::new(graph)), phase: Phase::Input, rest: None, target: None });
    }
    let mut module = dialect::parse(context, &source_text.text).map_err(|error| source_text.mlir_error(error))?;
    let (rest, target) = take_state(&mut module).map_err(|message| ToolError::data(&source_text.path, message))?;
    let phase = phase_of(&module);
    Ok(Input { module, graph: None, phase, rest, target })
}

/// What a module is, by the dialects of its operations.
fn phase_of(module: &Module<'_>) -> Phase {
    let rewriter = Rewriter::new(module.as_operation());
    let operations = rewriter.operations();
    let mut names = operations.iter().map(|operation| attributes::identifier_text(operation.name()));
    // A program may do nothing with its arrays; those of later phases have buffers instead.
    let takes_arrays = || {
        let entry = dialect::entry_function(module.as_operation()).ok()?;
        let signature = attributes::r#type(operations::attribute(&entry, "function_type")?)?;
        dialect::signature_of(signature).ok()
    };
    if names.clone().any(|name| name.starts_with("hlo."))
        || names.clone().all(|name| name.starts_with("func.") || name.starts_with("builtin."))
            && takes_arrays().is_some()
    {
        Phase::Input
    } else if names.all(|name| name.starts_with("llvm.") || name.starts_with("builtin.")) {
        Phase::Llvm
    } else {
        Phase::Affine
    }
}

/// Notes on a module what a dump needs to be compiled further.
pub fn set_state(module: &mut Module<'_>, rest: &PipelineText, target: &Target) {
    let context = operations::context(module.context());
    let text = |text: &str| StringAttribute::new(context, text).into();
    let parts = [target.triple(), target.cpu_name(), target.features()].map(text);
    let mut operation = module.as_operation_mut();
    operation.set_attribute(PIPELINE, text(&rest.to_string()));
    operation.set_attribute(TARGET, ArrayAttribute::new(context, &parts).into());
}

/// Takes away what [`set_state`] noted.
pub fn take_state(module: &mut Module<'_>) -> Result<(Option<PipelineText>, Option<Target>), String> {
    let find = |module: &Module<'_>, name: &str| operations::attribute(&module.as_operation(), name).is_some();
    let (has_rest, has_target) = (find(module, PIPELINE), find(module, TARGET));
    let rest =
        operations::attribute(&module.as_operation(), PIPELINE).and_then(attributes::string).map(PipelineText::parse);
    let parts =
        operations::attribute(&module.as_operation(), TARGET).and_then(attributes::elements).unwrap_or_default();
    let parts: Vec<&str> = parts.into_iter().filter_map(attributes::string).collect();
    let target = match parts.as_slice() {
        [triple, cpu, features] if triple.starts_with("nvptx") => Some(Target::nvptx(cpu, features)),
        [triple, cpu, features] => Some(Target::cpu(triple, cpu, features)),
        _ => None,
    };
    if has_rest != rest.is_some() || has_target != target.is_some() {
        return Err(format!(
            "`{PIPELINE}` must be a pipeline and `{TARGET}` three strings: triple, processor, features"
        ));
    }
    for (name, _) in [(PIPELINE, has_rest), (TARGET, has_target)].into_iter().filter(|(_, is_there)| *is_there) {
        module.as_operation_mut().remove_attribute(name).map_err(|error| error.to_string())?;
    }
    Ok((rest, target))
}
