//! `assign-buffers`: where every array of a program lives while it runs.
//!
//! Each array (leaf of a possibly tuple-shaped value) is a slice of the arena, of an entry parameter, of a
//! constant or of a program output. Leaves that must or may share storage are united first: tuples and reshapes
//! with their operands, the state of a `while` with its initial value and the body's result, an in-place update
//! with its base, the branches of a `conditional` with its result. What could not be united shows as unequal
//! slices, and the lowering copies. Then one sweep over the program's positions places the arena's leaves,
//! best fit, reusing what is dead.
//!
//! Positions number the instructions in execution order, bodies inside their `while`. A value from outside a
//! loop that is read in it stays live to the loop's end.

mod arena;
mod attributes;
mod planner;
mod reads;

use std::collections::{BTreeMap, HashMap};

use hlo::dialect;
use hlo::graph::{Computation, InstructionId};
use hlo::literal::Literal;
use hlo::shape::ArrayShape;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

pub use hlo::buffers::{Buffer, Slice};

pub use self::attributes::{ARENA_SIZE, EXCHANGE, PARAMETER_SLICES, SLICES, read_assignment};
use self::planner::Planner;
use crate::registry::{PassError, PassStatistics};

/// Storage of the values of one computation; a tree parallel to the nesting of control flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComputationBuffers {
    /// Slices of the leaves of each instruction.
    pub values: Vec<Vec<Slice>>,
    /// Buffers of the computations nested in `while` and `conditional` instructions.
    pub nested: HashMap<InstructionId, Vec<ComputationBuffers>>,
    /// For a `while` whose body permutes its state: a place to keep each leaf that another leaf's copy would
    /// overwrite too early, by leaf number.
    pub exchange: HashMap<InstructionId, BTreeMap<usize, Slice>>,
}

/// Storage of a whole program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BufferAssignment {
    /// Bytes of the arena.
    pub arena_size: usize,
    /// Shapes of the parameter leaves, in order; tokens have no shape.
    pub parameters: Vec<Option<ArrayShape>>,
    /// Shapes of the output leaves, in order.
    pub outputs: Vec<Option<ArrayShape>>,
    /// Values of the constant buffers.
    pub constants: Vec<Literal>,
    /// Storage of the entry computation.
    pub entry: ComputationBuffers,
}

/// Assigns buffers to an entry computation in which no `call` is left.
pub fn assign_buffers(entry: &Computation) -> BufferAssignment {
    let mut planner = Planner::default();
    let tree = planner.entry(entry);
    planner.finish(&tree, entry)
}
/// `hlo-assign-buffers`: notes on every operation of a module's entry function where its leaves live.
///
/// # Errors
/// [`PassError::Dialect`] for what is not an HLO program.
pub fn run(module: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let function = dialect::entry_function(module)?;
    let computation = dialect::snapshot(dialect::single_block(function, 0)?, |_, _| true)?.computation;
    let assignment = assign_buffers(&computation);
    statistics.add("arena bytes", assignment.arena_size as u64);
    attributes::write_assignment(&Rewriter::new(function), function, &computation, &assignment)?;
    Ok(())
}
