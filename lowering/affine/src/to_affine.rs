//! `hlo-to-affine`: the entry function of a module, with its buffers and mappings, becomes the functions of its kernels.

use hlo::devices::{DeviceCount, communicates};
use hlo::dialect;
use hlo::graph::Computation;
use melior::ir::OperationRef;
use mlir_ext::pass::PassStatistics;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, modules, operations};
use passes::assign_buffers::read_assignment;

use crate::error::LoweringError;
use crate::interface::Interface;
use crate::mapping;
use crate::program::{LoopOptions, lower_program};

/// The one attribute of the HLO program's module that the lowered one keeps.
const NAME: &str = "sym_name";

/// Puts the lowered program in the place of a module's contents, and notes its interface on the module.
///
/// # Errors
/// [`LoweringError::Unsupported`] for operations without a lowering, [`LoweringError::Dialect`] for a module that is no
/// HLO program, whose buffers are not assigned or whose work is not mapped. The module is then as it was.
pub fn run(
    module: OperationRef<'_, '_>,
    options: LoopOptions,
    statistics: &mut PassStatistics,
) -> Result<(), LoweringError> {
    let rewriter = Rewriter::new(module);
    let function = dialect::entry_function(module)?;
    let (entry, assignment) = read_assignment(function)?;
    let declared = operations::attribute(&module, dialect::PROGRAM_SHAPE).and_then(attributes::r#type);
    let declared = match declared {
        Some(signature) => dialect::signature_of(signature)?,
        None => entry.program_shape(),
    };
    let devices = dialect::device_count(module);
    let communicates = communicate(&entry, devices);
    let mut options = options;
    if communicates {
        options.calls.devices = devices;
    }
    let mappings = mapping::read(rewriter.context(), function, &entry)?;
    let (lowered, steps) = lower_program(rewriter.context(), &entry, &assignment, mappings, options)?;
    let interface = Interface::new(declared, &entry, &assignment, devices, communicates, steps)
        .map_err(|error| LoweringError::bug(error.to_string()))?;

    let name = operations::attribute(&module, NAME);
    let functions = modules::top_level(&lowered).len() as u64;
    modules::with_module(module, |module| modules::replace_contents(module, lowered))
        .ok_or_else(|| LoweringError::bug("the root is no module"))?;
    if let Some(name) = name {
        rewriter.set_attribute(module, NAME, name);
    }
    interface.write(&rewriter)?;
    statistics.add("functions", functions);
    Ok(())
}

/// Whether an instruction of a computation, or of one nested in it, gives other devices other values.
fn communicate(computation: &Computation, count: DeviceCount) -> bool {
    computation.instructions.iter().any(|instruction| {
        communicates(instruction, count) || instruction.computations.iter().any(|nested| communicate(nested, count))
    })
}
