//! `hlo-to-gpu`: the entry function of a module, with its buffers and mappings, becomes GPU kernels and a plan of their launches.

use hlo::devices::DeviceCount;
use hlo::launch_plan::LaunchPlan;
use melior::ir::OperationRef;
use melior::ir::attribute::StringAttribute;
use mlir_ext::builder::Machine;
use mlir_ext::pass::PassStatistics;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, modules, operations};

use crate::error::LoweringError;
use crate::gpu::{self, PLATFORM};
use crate::interface;
use crate::mapping::{self, invalid};
use crate::program::{CallOptions, CustomCallNames};
use crate::to_affine::EntryProgram;

/// Module attribute with the text of the launch plan.
const LAUNCH_PLAN: &str = "hlo.launch_plan";

/// Puts the kernels in the place of a module's contents, and notes interface and launch plan on the module.
///
/// # Errors
/// As for [`crate::to_affine::run`], and for programs whose devices exchange values.
pub fn run(
    module: OperationRef<'_, '_>,
    machine: Machine,
    custom_calls: CustomCallNames,
    statistics: &mut PassStatistics,
) -> Result<(), LoweringError> {
    let rewriter = Rewriter::new(module);
    let program = EntryProgram::read(module)?;
    if let Some(instruction) = program.communicating() {
        return Err(LoweringError::Unsupported {
            op: instruction.kind,
            platform: PLATFORM,
            what: "exchange between devices".into(),
            instruction: instruction.name.clone(),
        });
    }
    let EntryProgram { function, entry, assignment, declared, devices } = program;
    let mappings = mapping::read(rewriter.context(), function, &entry)?;
    let calls = CallOptions { custom_calls, devices: DeviceCount::ONE };
    let lowered = gpu::lower_program(rewriter.context(), &entry, &assignment, mappings, (machine, calls))?;
    let mut interface =
        interface::of(declared, &entry, &assignment, devices, false, interface::CodeInterface::default())
            .map_err(|error| LoweringError::bug(error.to_string()))?;
    interface.arena_size = lowered.arena_size;
    statistics.add("launches", lowered.plan.launches().len() as u64);
    modules::with_module(module, |module| modules::replace_contents(module, lowered.kernels))
        .ok_or_else(|| LoweringError::bug("the root is no module"))?;
    let text = StringAttribute::new(rewriter.context(), &lowered.plan.to_string());
    rewriter.set_attribute(module, LAUNCH_PLAN, text.into());
    interface::write(&interface, &rewriter)?;
    Ok(())
}

/// The plan that the pass noted on a module.
///
/// # Errors
/// [`LoweringError::Dialect`] for a module without a plan, or with a malformed one.
pub fn launch_plan(module: OperationRef<'_, '_>) -> Result<LaunchPlan, LoweringError> {
    let text = operations::attribute(&module, LAUNCH_PLAN).and_then(attributes::string);
    let text = text.ok_or_else(|| invalid(format!("the module has no `{LAUNCH_PLAN}`")))?;
    text.parse().map_err(|error| invalid(format!("`{LAUNCH_PLAN}`: {error}")))
}
