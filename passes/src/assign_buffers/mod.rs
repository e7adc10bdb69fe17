//! `assign-buffers`: where every array of a program lives while it runs.
//!
//! Each array (leaf of a possibly tuple-shaped value) is a slice of the arena, of an entry parameter, of a
//! constant or of a program output. Leaves that must or may share storage are united first: tuples and reshapes
//! with their operands, the state of a `while` with its initial value and the body's result, an in-place update
//! with its base, an elementwise result with an operand that is not read again, the branches of a `conditional` with its
//! result. What could not be united shows as unequal slices, and the lowering copies; state of a loop that would be copied
//! in every iteration is rather held by two places in turns. Then the leaves that are neither parameters, constants nor
//! results are placed where memory is free while they live: in results that are not written yet, and in the arena.
//!
//! The instructions of the entry computation are put in another order first where the arena gets smaller by that.
//!
//! Positions number the instructions in execution order, bodies inside their `while`. A value from outside a
//! loop that is read in it stays live to the loop's end.

mod arena;
mod attributes;
mod control;
mod in_place;
mod planner;
mod reads;
mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hlo::aliases::aliased_parameters;
use hlo::dialect::{self, DialectError, Snapshot};
use hlo::graph::{Computation, InstructionId};
use hlo::literal::Literal;
use hlo::shape::ArrayShape;
use melior::ir::{BlockLike, OperationRef};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes as builtin, operations};
use rustc_hash::FxHashMap;

pub use hlo::buffers::{Buffer, Slice};

pub use self::attributes::{
    ALTERNATING, ARENA_SIZE, EXCHANGE, PARAMETER_SLICES, RESULT_SLICES, SLICES, read_assignment,
};
use self::in_place::Overwrites;
use self::planner::Planner;
use crate::fuse::Rows;
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};

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
    /// Leaves of a `while`'s state that are in the slices of the `while` and of the body's result in turns, by number.
    pub alternating: HashMap<InstructionId, BTreeSet<usize>>,
}

impl ComputationBuffers {
    /// The buffers with what is in either slice of some pairs in the other one.
    #[must_use]
    pub fn exchanged(&self, pairs: &[(Slice, Slice)]) -> Self {
        let moved = |slice: &Slice| exchanged_slice(*slice, pairs);
        ComputationBuffers {
            values: self.values.iter().map(|slices| slices.iter().map(moved).collect()).collect(),
            nested: self
                .nested
                .iter()
                .map(|(&id, nested)| (id, nested.iter().map(|buffers| buffers.exchanged(pairs)).collect()))
                .collect(),
            exchange: self
                .exchange
                .iter()
                .map(|(&id, slices)| (id, slices.iter().map(|(&leaf, slice)| (leaf, moved(slice))).collect()))
                .collect(),
            alternating: self.alternating.clone(),
        }
    }
}

/// A slice, or the same part of the other slice of its pair.
pub fn exchanged_slice(slice: Slice, pairs: &[(Slice, Slice)]) -> Slice {
    let is_in = |outer: &Slice| {
        slice.buffer == outer.buffer
            && slice.size > 0
            && slice.offset >= outer.offset
            && slice.offset + slice.size <= outer.offset + outer.size
    };
    let pairs = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
    let found = pairs.into_iter().find(|(from, _)| is_in(from));
    found.map_or(slice, |(from, to)| Slice {
        buffer: to.buffer,
        offset: to.offset + slice.offset - from.offset,
        ..slice
    })
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
    /// Where the leaves of the result are to be in the end: an argument's place where one is to be overwritten.
    pub places: Vec<Slice>,
    /// Places to keep leaves of the result that another leaf's copy to its place would overwrite, by leaf number.
    pub exchange: BTreeMap<usize, Slice>,
}

/// What a fused computation computes once for each row.
pub type RowsOf<'a> = dyn Fn(&Computation) -> Option<Rows> + 'a;

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[OptionDefinition {
    name: "by-row",
    description: "whether fusions compute values once for each row, before they write the row; else several threads may compute an element",
    kind: OptionKind::Boolean,
    default: "true",
}];

/// Assigns buffers to an entry computation in which no `call` is left. `aliases` are the parameter leaves whose place the
/// leaves of the result take, `rows` says of fusions what they compute once for each row, and `by_team` whether several threads
/// may compute an element.
pub fn assign_buffers(
    entry: &Computation,
    aliases: &[Option<usize>],
    rows: &RowsOf<'_>,
    by_team: bool,
) -> BufferAssignment {
    assign(entry, aliases, &Overwrites::new(rows, by_team))
}

fn assign(entry: &Computation, aliases: &[Option<usize>], overwrites: &Overwrites<'_>) -> BufferAssignment {
    let mut planner = Planner::new(overwrites);
    let (tree, exchange) = planner.entry(entry, aliases);
    planner.finish(&tree, entry, aliases, &exchange)
}

/// The bytes of the arena of an entry computation whose instructions may be put in another order, with what else
/// [`assign_buffers`] is given.
pub fn smallest_arena(mut entry: Computation, aliases: &[Option<usize>], rows: &RowsOf<'_>, by_team: bool) -> usize {
    let overwrites = Overwrites::new(rows, by_team);
    schedule::with_less_memory(&mut entry, aliases, |entry| assign(entry, aliases, &overwrites)).0.arena_size
}

/// `hlo-assign-buffers`: notes on every operation of a module's entry function where its leaves live. With `by_row`, fusions
/// go from row to row where they have rows.
///
/// # Errors
/// [`PassError::Dialect`] for what is not an HLO program.
pub fn run(module: OperationRef<'_, '_>, by_row: bool, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let function = dialect::entry_function(module)?;
    let block = dialect::single_block(function, 0)?;
    let Snapshot { mut computation, values, .. } = dialect::snapshot(block, |_, _| true)?;
    let declared = match operations::attribute(&module, dialect::PROGRAM_SHAPE).and_then(builtin::r#type) {
        Some(signature) => dialect::signature_of(signature)?,
        None => computation.program_shape(),
    };
    let aliases = aliased_parameters(&dialect::input_output_aliases(module)?, &declared)
        .map_err(|error| DialectError::Invalid { location: None, message: error.to_string() })?;
    let context = operations::context_of(&module);
    let rows = |body: &Computation| if by_row { Rows::of(context, body) } else { None };
    let overwrites = Overwrites::new(&rows, !by_row);
    let assign = |computation: &Computation| assign(computation, &aliases, &overwrites);
    let rewriter = Rewriter::new(function);
    let (mut assignment, order) = schedule::with_less_memory(&mut computation, &aliases, assign);
    if let Some(order) = order {
        let last = block.terminator().ok_or_else(|| PassError::bug("a block has no terminator"))?;
        for &id in &order {
            if let Some(operation) = operations::definition(values[id.index()]) {
                rewriter.move_before(operation, last)?;
            }
        }
        // Parameters have places of their own when the function is read again.
        let numbers: FxHashMap<usize, InstructionId> =
            values.iter().zip(0..).map(|(value, number)| (builtin::value_key(value), InstructionId(number))).collect();
        let moved = dialect::snapshot(block, |_, _| false)?.values;
        let order: Vec<InstructionId> =
            moved.iter().filter_map(|value| numbers.get(&builtin::value_key(value)).copied()).collect();
        schedule::rearrange(&mut computation, &order);
        assignment = assign(&computation);
    }
    statistics.add("arena bytes", assignment.arena_size as u64);
    attributes::write_assignment(&rewriter, function, &computation, &assignment)?;
    Ok(())
}
