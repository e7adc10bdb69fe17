//! A buffer assignment as attributes of the operations, and back.
//!
//! Every operation says where the leaves of its result live, in `hlo.slices`; block arguments have no attributes, so a
//! block's terminator says it for them. The function says how large the arena is. Constants are numbered by the
//! slices of the operations that make them.

use std::collections::{BTreeMap, BTreeSet};

use hlo::buffers::{Buffer, Slice};
use hlo::dialect::{self, DialectError};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::attribute::{ArrayAttribute, Attribute, DenseI64ArrayAttribute, IntegerAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{BlockLike, BlockRef, OperationRef};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

use super::planner::result_places;
use super::{BufferAssignment, ComputationBuffers};

/// Attribute of an operation: `#hlo.slices` of the leaves of its result.
pub const SLICES: &str = "hlo.slices";

/// Attribute of a block's terminator: `#hlo.slices` for each argument of the block.
pub const PARAMETER_SLICES: &str = "hlo.parameter_slices";

/// Attribute of a `while` whose body permutes its state, and of the entry function's terminator where results permute
/// arguments, `#hlo.slices`: where each leaf of the result is kept that another leaf's copy would overwrite too early, and
/// `none` for the others.
pub const EXCHANGE: &str = "hlo.exchange_slices";

/// Attribute of a `while`: numbers of the leaves of its state that two places hold in turns, that of the `while` and that of
/// the body's result.
pub const ALTERNATING: &str = "hlo.alternating_leaves";

/// Attribute of the entry function's terminator, `#hlo.slices`: where the leaves of the result are to be, if some take the
/// place of arguments.
pub const RESULT_SLICES: &str = "hlo.result_slices";

/// Attribute of a function: the bytes of its arena.
pub const ARENA_SIZE: &str = "hlo.arena_size";

/// Writes the assignment of the computation in a function onto its operations.
pub(super) fn write_assignment<'c>(
    rewriter: &Rewriter<'c, '_>,
    function: OperationRef<'c, '_>,
    computation: &Computation,
    assignment: &BufferAssignment,
) -> Result<(), DialectError> {
    let arena_size = IntegerType::new(rewriter.context(), 64);
    let arena_size = IntegerAttribute::new(arena_size.into(), assignment.arena_size as i64);
    rewriter.set_attribute(function, ARENA_SIZE, arena_size.into());
    let block = dialect::single_block(function, 0)?;
    write_computation(rewriter, block, computation, &assignment.entry)?;
    let Some(terminator) = block.terminator() else { return Ok(()) };
    if assignment.places.iter().any(|place| matches!(place.buffer, Buffer::Parameter(_))) {
        let places: Vec<Option<Slice>> = assignment.places.iter().copied().map(Some).collect();
        rewriter.set_attribute(terminator, RESULT_SLICES, dialect::slices_attribute(rewriter.context(), &places));
    }
    write_exchange(rewriter, terminator, assignment.places.len(), &assignment.exchange);
    Ok(())
}

fn write_exchange<'c>(
    rewriter: &Rewriter<'c, '_>,
    operation: OperationRef<'c, '_>,
    leaves: usize,
    exchange: &BTreeMap<usize, Slice>,
) {
    if !exchange.is_empty() {
        let places: Vec<Option<Slice>> = (0..leaves).map(|leaf| exchange.get(&leaf).copied()).collect();
        rewriter.set_attribute(operation, EXCHANGE, dialect::slices_attribute(rewriter.context(), &places));
    }
}

fn write_computation<'c>(
    rewriter: &Rewriter<'c, '_>,
    block: BlockRef<'c, '_>,
    computation: &Computation,
    buffers: &ComputationBuffers,
) -> Result<(), DialectError> {
    let operations = operations_of(block)?;
    let slices = |id: InstructionId| -> Attribute<'c> {
        let slices: Vec<Option<Slice>> = buffers.values[id.index()].iter().copied().map(Some).collect();
        dialect::slices_attribute(rewriter.context(), &slices)
    };
    let parameters: Vec<Attribute> = computation.parameters.iter().map(|&id| slices(id)).collect();
    let parameters = ArrayAttribute::new(rewriter.context(), &parameters);
    rewriter.set_attribute(operations.terminator, PARAMETER_SLICES, parameters.into());
    for (id, instruction) in computation.iter() {
        let Some(operation) = operations.of_instructions[id.index()] else { continue };
        rewriter.set_attribute(operation, SLICES, slices(id));
        if let Some(exchange) = buffers.exchange.get(&id) {
            write_exchange(rewriter, operation, buffers.values[id.index()].len(), exchange);
        }
        if let Some(alternating) = buffers.alternating.get(&id).filter(|alternating| !alternating.is_empty()) {
            let numbers: Vec<i64> = alternating.iter().map(|&leaf| leaf as i64).collect();
            let numbers = DenseI64ArrayAttribute::new(rewriter.context(), &numbers);
            rewriter.set_attribute(operation, ALTERNATING, numbers.into());
        }
        let nested = instruction.computations.iter().zip(buffers.nested.get(&id).into_iter().flatten());
        for (region, (computation, buffers)) in nested.enumerate() {
            write_computation(rewriter, dialect::single_block(operation, region)?, computation, buffers)?;
        }
    }
    Ok(())
}

/// The operations of a block that is a computation.
struct Operations<'c, 'a> {
    /// In the order of the instructions; parameters have none.
    of_instructions: Vec<Option<OperationRef<'c, 'a>>>,
    terminator: OperationRef<'c, 'a>,
}

fn operations_of<'c, 'a>(block: BlockRef<'c, 'a>) -> Result<Operations<'c, 'a>, DialectError> {
    // Only the order of the instructions is asked for.
    let values = dialect::snapshot(block, |_, _| false)?.values;
    let terminator = block
        .terminator()
        .ok_or_else(|| DialectError::Invalid { location: None, message: "a block has no terminator".to_string() })?;
    Ok(Operations { of_instructions: values.into_iter().map(operations::definition).collect(), terminator })
}

/// Reads a function and the assignment that `hlo-assign-buffers` wrote onto it.
///
/// # Errors
/// [`DialectError::Invalid`] for a function that is no HLO program, or with an assignment that does not fit it.
pub fn read_assignment(function: OperationRef<'_, '_>) -> Result<(Computation, BufferAssignment), DialectError> {
    let block = dialect::single_block(function, 0)?;
    let entry = dialect::snapshot(block, |_, _| true)?.computation;
    let arena_size = operations::attribute(&function, ARENA_SIZE).and_then(attributes::integer);
    let arena_size = arena_size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| {
        invalid(function, format!("the function has no `{ARENA_SIZE}`: its buffers are not assigned"))
    })?;
    let leaf_shapes = |shape: &Shape| -> Vec<Option<ArrayShape>> {
        shape.leaves().into_iter().map(|leaf| leaf.as_array().cloned()).collect()
    };
    let parameters: Vec<Option<ArrayShape>> =
        entry.parameters.iter().flat_map(|&parameter| leaf_shapes(&entry.get(parameter).shape)).collect();
    let outputs = leaf_shapes(&entry.root().shape);
    let sizes = |shapes: &[Option<ArrayShape>]| -> Vec<usize> {
        shapes.iter().map(|shape| shape.as_ref().map_or(0, ArrayShape::byte_size)).collect()
    };
    let mut reader = Reader {
        arena_size,
        parameters: sizes(&parameters),
        outputs: sizes(&outputs),
        constants: BTreeMap::new(),
        constant_ends: BTreeMap::new(),
    };
    let entry_buffers = reader.computation(&entry, block)?;
    let terminator = operations_of(block)?.terminator;
    let places = reader.places(terminator, &entry, &outputs)?;
    let exchange = reader.exchange(terminator, &entry.root().shape)?;
    let constants: Vec<Literal> = reader.constants.values().cloned().collect();
    if reader.constants.keys().copied().ne(0..constants.len() as u32) {
        return Err(invalid(function, "the constants are not numbered one after another".into()));
    }
    for (&number, &end) in &reader.constant_ends {
        let size = reader.constants.get(&number).map(Literal::shape);
        if size.and_then(|shape| Some(shape.as_array()?.byte_size())).is_none_or(|size| end > size) {
            return Err(invalid(function, format!("constant {number} has no byte {end}")));
        }
    }
    let assignment =
        BufferAssignment { arena_size, parameters, outputs, constants, entry: entry_buffers, places, exchange };
    Ok((entry, assignment))
}

/// The leaves of a `while` that two places hold in turns.
fn alternating_leaves(operation: OperationRef<'_, '_>, leaves: usize) -> Result<BTreeSet<usize>, DialectError> {
    let Some(attribute) = operations::attribute(&operation, ALTERNATING) else { return Ok(BTreeSet::new()) };
    let numbers = attributes::integers(attribute).unwrap_or_default();
    let leaf_of = |number: i64| usize::try_from(number).ok().filter(|&leaf| leaf < leaves);
    let wrong = || invalid(operation, format!("`{ALTERNATING}` are not numbers below {leaves}"));
    numbers.into_iter().map(|number| leaf_of(number).ok_or_else(wrong)).collect()
}

/// Checks every slice as it reads it: code would write wherever a wrong one says.
struct Reader {
    arena_size: usize,
    /// Bytes of each leaf of the parameters.
    parameters: Vec<usize>,
    /// Bytes of each leaf of the result.
    outputs: Vec<usize>,
    constants: BTreeMap<u32, Literal>,
    /// One past the last byte of each constant that a value with bytes takes.
    constant_ends: BTreeMap<u32, usize>,
}

impl Reader {
    fn computation(
        &mut self,
        computation: &Computation,
        block: BlockRef<'_, '_>,
    ) -> Result<ComputationBuffers, DialectError> {
        let Operations { of_instructions, terminator } = operations_of(block)?;
        let parameters = operations::attribute(&terminator, PARAMETER_SLICES).and_then(attributes::elements);
        let parameters = parameters.filter(|parameters| parameters.len() == computation.parameters.len());
        let parameters = parameters.ok_or_else(|| missing(terminator, PARAMETER_SLICES))?;
        let mut buffers = ComputationBuffers::default();
        for (id, instruction) in computation.iter() {
            let (operation, attribute) = match (of_instructions[id.index()], instruction.parameter_number()) {
                (Some(operation), _) => (operation, operations::attribute(&operation, SLICES)),
                (None, number) => (terminator, number.and_then(|number| parameters.get(number).copied())),
            };
            let attribute = attribute.ok_or_else(|| missing(operation, SLICES))?;
            let slices = self.slices(operation, attribute, &instruction.shape)?;
            let places = slices.iter().copied().collect::<Option<Vec<Slice>>>();
            let places = places.ok_or_else(|| invalid(operation, "a leaf of the value has no place".into()))?;
            if instruction.kind == OpKind::Constant {
                self.constant(operation, instruction, &places)?;
            }
            buffers.values.push(places);
            if !matches!(instruction.kind, OpKind::While | OpKind::Conditional) {
                continue;
            }
            let mut nested = Vec::with_capacity(instruction.computations.len());
            for (region, computation) in instruction.computations.iter().enumerate() {
                nested.push(self.computation(computation, dialect::single_block(operation, region)?)?);
            }
            buffers.nested.insert(id, nested);
            if instruction.kind == OpKind::While {
                let exchange = self.exchange(operation, &instruction.shape)?;
                buffers.exchange.insert(id, exchange);
                let leaves = buffers.values[id.index()].len();
                buffers.alternating.insert(id, alternating_leaves(operation, leaves)?);
            }
        }
        Ok(buffers)
    }

    /// The places that keep leaves of a value while others are copied.
    fn exchange(
        &mut self,
        operation: OperationRef<'_, '_>,
        shape: &Shape,
    ) -> Result<BTreeMap<usize, Slice>, DialectError> {
        let exchange = match operations::attribute(&operation, EXCHANGE) {
            Some(attribute) => self.slices(operation, attribute, shape)?,
            None => Vec::new(),
        };
        Ok(exchange.into_iter().enumerate().filter_map(|(leaf, place)| Some((leaf, place?))).collect())
    }

    /// Where the leaves of the program's result are to be.
    fn places(
        &mut self,
        terminator: OperationRef<'_, '_>,
        entry: &Computation,
        outputs: &[Option<ArrayShape>],
    ) -> Result<Vec<Slice>, DialectError> {
        let Some(attribute) = operations::attribute(&terminator, RESULT_SLICES) else {
            return Ok(result_places(outputs, &[]));
        };
        let places = self.slices(terminator, attribute, &entry.root().shape)?.into_iter();
        let is_place = |(number, place): (usize, Option<Slice>)| {
            place.filter(|place| match place.buffer {
                Buffer::Output(output) => output as usize == number && place.offset == 0,
                Buffer::Parameter(_) => place.offset == 0,
                Buffer::Arena | Buffer::Constant(_) => false,
            })
        };
        let places: Option<Vec<Slice>> = places.enumerate().map(is_place).collect();
        places.ok_or_else(|| invalid(terminator, "a result can be in its own place or in an argument's".into()))
    }

    /// The places of the leaves of a value of some shape.
    fn slices(
        &mut self,
        operation: OperationRef<'_, '_>,
        attribute: Attribute<'_>,
        shape: &Shape,
    ) -> Result<Vec<Option<Slice>>, DialectError> {
        let slices = dialect::slices_of(attribute)?;
        let leaves = shape.leaves();
        if slices.len() != leaves.len() {
            return Err(invalid(operation, format!("there are {} places for {} leaves", slices.len(), leaves.len())));
        }
        for (slice, leaf) in slices.iter().zip(leaves) {
            let Some(slice) = slice else { continue };
            let size = leaf.as_array().map_or(0, ArrayShape::byte_size);
            let room = match slice.buffer {
                Buffer::Arena => Some(self.arena_size),
                Buffer::Parameter(number) => self.parameters.get(number as usize).copied(),
                Buffer::Output(number) => self.outputs.get(number as usize).copied(),
                // Constants are as large as what makes them.
                Buffer::Constant(_) => slice.offset.checked_add(size),
            };
            let end = slice.offset.checked_add(slice.size);
            if slice.size != size || end.is_none_or(|end| room.is_none_or(|room| end > room)) {
                return Err(invalid(operation, format!("{slice} is no place for {leaf}")));
            }
            if let (Buffer::Constant(number), Some(end), 1..) = (slice.buffer, end, size) {
                let last = self.constant_ends.entry(number).or_default();
                *last = (*last).max(end);
            }
        }
        Ok(slices)
    }

    fn constant(
        &mut self,
        operation: OperationRef<'_, '_>,
        instruction: &Instruction,
        places: &[Slice],
    ) -> Result<(), DialectError> {
        let literals = instruction.literal().map(Literal::leaves).unwrap_or_default();
        for (slice, literal) in places.iter().zip(literals) {
            let Buffer::Constant(number) = slice.buffer else {
                return Err(invalid(operation, format!("{slice} is no place for a constant")));
            };
            if self.constants.insert(number, literal.clone()).is_some() {
                return Err(invalid(operation, format!("there are two constants {number}")));
            }
        }
        Ok(())
    }
}

fn missing(operation: OperationRef<'_, '_>, name: &str) -> DialectError {
    invalid(operation, format!("the operation has no `{name}`: buffers are not assigned"))
}

fn invalid(operation: OperationRef<'_, '_>, message: String) -> DialectError {
    DialectError::Invalid { location: Some(operation.location().to_string()), message }
}
