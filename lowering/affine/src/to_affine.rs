//! `hlo-to-affine`: the entry function of a module, with its buffers and mappings, becomes the functions of its kernels.

use hlo::devices::{DeviceCount, communicates};
use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::shape::ProgramShape;
use melior::ir::OperationRef;
use mlir_ext::pass::PassStatistics;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, modules, operations};
use passes::assign_buffers::{BufferAssignment, read_assignment};

use crate::error::LoweringError;
use crate::program::{CallOptions, LoopOptions, lower_program};
use crate::{interface, mapping};

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
    let program = EntryProgram::read(module)?;
    let together = program.devices_together();
    let EntryProgram { function, entry, assignment, declared, devices } = program;
    let options = LoopOptions { calls: CallOptions { devices: together, ..options.calls }, ..options };
    let mappings = mapping::read(rewriter.context(), function, &entry)?;
    let (lowered, code) = lower_program(rewriter.context(), &entry, &assignment, mappings, options)?;
    let interface = interface::of(declared, &entry, &assignment, devices, together.total() > 1, code)
        .map_err(|error| LoweringError::bug(error.to_string()))?;

    let name = operations::attribute(&module, NAME);
    let functions = modules::top_level(&lowered).len() as u64;
    modules::with_module(module, |module| modules::replace_contents(module, lowered))
        .ok_or_else(|| LoweringError::bug("the root is no module"))?;
    if let Some(name) = name {
        rewriter.set_attribute(module, NAME, name);
    }
    interface::write(&interface, &rewriter)?;
    statistics.add("functions", functions);
    Ok(())
}

/// What a module says about its program.
pub(crate) struct EntryProgram<'c, 'a> {
    pub function: OperationRef<'c, 'a>,
    pub entry: Computation,
    pub assignment: BufferAssignment,
    /// Shapes as the program declares them.
    pub declared: ProgramShape,
    pub devices: DeviceCount,
}

impl<'c, 'a> EntryProgram<'c, 'a> {
    /// Reads a module whose buffers are assigned.
    pub fn read(module: OperationRef<'c, 'a>) -> Result<Self, LoweringError> {
        let function = dialect::entry_function(module)?;
        let (entry, assignment) = read_assignment(function)?;
        let declared = operations::attribute(&module, dialect::PROGRAM_SHAPE).and_then(attributes::r#type);
        let declared = match declared {
            Some(signature) => dialect::signature_of(signature)?,
            None => entry.program_shape(),
        };
        Ok(EntryProgram { function, entry, assignment, declared, devices: dialect::device_count(module) })
    }

    /// An instruction that gives other devices other values.
    pub fn communicating(&self) -> Option<&Instruction> {
        find_communicating(&self.entry, self.devices)
    }

    fn devices_together(&self) -> DeviceCount {
        devices_together(&self.entry, self.devices)
    }
}

/// The devices that run a program together: those of its header, or one where no instruction depends on another device.
pub(crate) fn devices_together(entry: &Computation, devices: DeviceCount) -> DeviceCount {
    if find_communicating(entry, devices).is_some() { devices } else { DeviceCount::ONE }
}

fn find_communicating(computation: &Computation, count: DeviceCount) -> Option<&Instruction> {
    computation.instructions.iter().find_map(|instruction| {
        if communicates(instruction, count) {
            return Some(instruction);
        }
        instruction.computations.iter().find_map(|nested| find_communicating(nested, count))
    })
}
