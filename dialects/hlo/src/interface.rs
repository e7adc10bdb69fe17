//! What running a compiled program needs to know besides its code.

use std::sync::Arc;

use crate::cost::Cost;
use crate::devices::DeviceCount;
use crate::packed_parameter::PackedParameter;
use crate::profile::ProfiledStep;
use crate::shape::{ArrayShape, ProgramShape};

/// The interface of a compiled program, with constants of a kind: literals that may have no value while the program is
/// compiled, arrays when it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface<C> {
    /// Shapes as the program declares them.
    pub program_shape: ProgramShape,
    /// Shapes of the parameters' leaves; only arrays have one.
    pub parameters: Vec<Option<ArrayShape>>,
    /// Shapes of the results' leaves, without layouts; only arrays have one.
    pub outputs: Vec<Option<Arc<ArrayShape>>>,
    /// For each leaf of the result, the parameters' leaf whose memory it takes over.
    pub aliases: Vec<Option<usize>>,
    /// Bytes of temporary memory.
    pub arena_size: usize,
    /// Values that the code reads.
    pub constants: Vec<C>,
    /// What a run costs.
    pub cost: Cost,
    /// Devices that the program is for.
    pub devices: DeviceCount,
    /// Whether these depend on one another, or compute different values from the same arguments.
    pub communicates: bool,
    /// The steps of the profile, if there is one.
    pub steps: Vec<ProfiledStep>,
    /// Parameters that products take in panels, where an earlier run has packed them; each once.
    pub packed: Vec<PackedParameter>,
}

impl<C> Interface<C> {
    /// The same interface with other forms of the constants.
    ///
    /// # Errors
    /// The first of the conversion.
    pub fn try_map_constants<D, E>(self, convert: impl Fn(C) -> Result<D, E>) -> Result<Interface<D>, E> {
        let Interface {
            program_shape,
            parameters,
            outputs,
            aliases,
            arena_size,
            constants,
            cost,
            devices,
            communicates,
            steps,
            packed,
        } = self;
        let constants = constants.into_iter().map(convert).collect::<Result<_, E>>()?;
        Ok(Interface {
            program_shape,
            parameters,
            outputs,
            aliases,
            arena_size,
            constants,
            cost,
            devices,
            communicates,
            steps,
            packed,
        })
    }
}
