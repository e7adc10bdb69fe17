//! Rewriting of computations in MLIR, a block at a time.
//!
//! A [`Body`] is a block read as a computation. [`Body::rewrite`] hands each instruction to a pass, which appends what
//! replaces it to a [`GraphBuilder`]; then the block is changed in place: new operations stand before the one that they
//! replace and have its location, under names of their own; all others stay where and what they are.

use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, BlockRef, OperationRef, Value};
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::GraphBuilder;
use crate::registry::PassError;

/// The blocks of computations that directly hold certain operations, inner blocks first.
pub(crate) fn blocks_with<'c, 'r>(
    rewriter: &'r Rewriter<'c, '_>,
    is_wanted: impl Fn(OperationRef<'c, 'r>, OpKind) -> bool,
) -> Vec<BlockRef<'c, 'r>> {
    let mut blocks = Vec::new();
    // The blocks around the operation that is looked at, and whether a wanted one was found in them.
    let mut open: Vec<(BlockRef, bool)> = Vec::new();
    for operation in rewriter.operations() {
        let Some(block) = operation.block() else { continue };
        let is_wanted = dialect::kind_of(operation).is_some_and(|kind| is_wanted(operation, kind));
        match open.last_mut() {
            Some((last, found)) if *last == block => *found |= is_wanted,
            _ => open.push((block, is_wanted)),
        }
        if operation.next_in_block().is_none()
            && let Some((block, true)) = open.pop()
        {
            blocks.push(block);
        }
    }
    blocks
}

/// A block to be rewritten.
pub(crate) struct Body<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    block: BlockRef<'c, 'r>,
    computation: Computation,
    values: Vec<Value<'c, 'r>>,
    is_read: Vec<bool>,
}

/// What an instruction of the rewritten computation is.
enum Origin {
    /// This one, kept.
    Kept(InstructionId),
    /// A new one that this one is replaced by, or that such a one needs.
    New(InstructionId),
}

impl<'c, 'r> Body<'c, 'r> {
    /// Reads a block: attributes, computations and names only of the operations that `reads` asks for.
    pub(crate) fn read(
        rewriter: &'r Rewriter<'c, 'r>,
        block: BlockRef<'c, 'r>,
        reads: impl Fn(OperationRef<'c, 'r>, OpKind) -> bool,
    ) -> Result<Self, PassError> {
        let dialect::Snapshot { computation, values, is_read } = dialect::snapshot(block, reads)?;
        Ok(Body { rewriter, block, computation, values, is_read })
    }

    /// The block as it is.
    pub(crate) fn computation(&self) -> &Computation {
        &self.computation
    }

    /// Rewrites the block: `replace` gets each instruction that was read, in order, with its number and with operands
    /// that are already rewritten. It gives the value that replaces the instruction, having appended what computes that;
    /// `None` leaves it as it is.
    pub(crate) fn rewrite(
        mut self,
        mut replace: impl FnMut(&mut GraphBuilder, InstructionId, &Instruction) -> Option<InstructionId>,
    ) -> Result<(), PassError> {
        let mut builder = GraphBuilder::new(&self.computation.name);
        let mut origins: Vec<Origin> = Vec::with_capacity(self.computation.instructions.len());
        let mut ids: Vec<InstructionId> = Vec::with_capacity(self.computation.instructions.len());
        let mut replaced = Vec::new();
        for (position, mut instruction) in std::mem::take(&mut self.computation.instructions).into_iter().enumerate() {
            let id = InstructionId(position as u32);
            for operand in &mut instruction.operands {
                *operand = ids[operand.index()];
            }
            if self.is_read[position] {
                builder.stand_for(&instruction);
                let first = builder.len();
                if let Some(replacement) = replace(&mut builder, id, &instruction) {
                    origins.resize_with(builder.len(), || Origin::New(id));
                    replaced.push(id);
                    ids.push(replacement);
                    continue;
                }
                builder.truncate(first);
            }
            origins.push(Origin::Kept(id));
            ids.push(builder.push(instruction));
        }
        if replaced.is_empty() {
            return Ok(());
        }
        self.commit(&builder.into_instructions()?, &origins, ids[self.computation.root.index()], &replaced)
    }

    /// Changes the block into these instructions.
    fn commit(
        &self,
        instructions: &[Instruction],
        origins: &[Origin],
        root: InstructionId,
        replaced: &[InstructionId],
    ) -> Result<(), PassError> {
        let rewriter = self.rewriter;
        let first = self.block.first_operation();
        let mut values: Vec<Value<'c, 'r>> = Vec::with_capacity(instructions.len());
        for (instruction, origin) in instructions.iter().zip(origins) {
            let operands = instruction.operands.iter().map(|operand| values[operand.index()]);
            let value = match origin {
                Origin::Kept(id) => {
                    let value = self.values[id.index()];
                    if let Some(operation) = self.operation(*id) {
                        for (position, operand) in operands.enumerate() {
                            rewriter.redirect_operand(operation, position, operand)?;
                        }
                    }
                    value
                }
                Origin::New(id) => {
                    let anchor = self.operation(*id).or(first).ok_or_else(|| PassError::bug("a block is empty"))?;
                    let operands: Vec<Value> = operands.collect();
                    let location = dialect::renamed(anchor.location(), &instruction.name);
                    let context = rewriter.context();
                    let operation = dialect::instruction_to_operation(context, instruction, &operands, location)?;
                    result_of(rewriter.insert_before(operation, anchor)?)?
                }
            };
            values.push(value);
        }
        if let Some(last) = self.block.terminator() {
            rewriter.redirect_operand(last, 0, values[root.index()])?;
        }
        dialect::update_signature(rewriter, self.block);
        for operation in replaced.iter().rev().filter_map(|&id| self.operation(id)) {
            rewriter.erase(operation)?;
        }
        Ok(())
    }

    /// The operation of an instruction; none of a parameter.
    fn operation(&self, id: InstructionId) -> Option<OperationRef<'c, 'r>> {
        self.rewriter.definition(self.values[id.index()]).map(|(operation, _)| operation)
    }
}

/// The one result of an operation of the dialect.
fn result_of<'c, 'r>(operation: OperationRef<'c, 'r>) -> Result<Value<'c, 'r>, PassError> {
    operation.result(0).map(Value::from).map_err(|error| PassError::bug(error.to_string()))
}
