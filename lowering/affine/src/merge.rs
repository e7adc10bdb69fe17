//! One kernel of two: a fusion, or an operation by itself, moves into another one that alone reads what it computes.

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use melior::Context;
use melior::ir::operation::OperationLike;
use melior::ir::{Block, BlockLike, BlockRef, Location, OperationRef, Region, RegionLike, Type, Value, ValueLike};
use mlir_ext::rewrite::Rewriter;

use crate::error::LoweringError;

type Result<T> = std::result::Result<T, LoweringError>;

/// The body of a kernel in which what another one computes stands for one of the parameters. The parameters of the other
/// one are the last ones.
pub(crate) fn merged_bodies(consumer: &Computation, position: usize, producer: &Computation) -> Computation {
    let others = consumer.parameters.len() - 1;
    let mut instructions = producer.instructions.clone();
    for instruction in &mut instructions {
        if let Some(number) = instruction.parameter_number() {
            *instruction = Instruction::parameter(&instruction.name, instruction.shape.clone(), others + number);
        }
    }
    // What the instructions of the consumer become.
    let mut moved: Vec<InstructionId> = Vec::with_capacity(consumer.instructions.len());
    for instruction in &consumer.instructions {
        let mut instruction = instruction.clone();
        match instruction.parameter_number() {
            Some(number) if number == position => {
                moved.push(producer.root);
                continue;
            }
            Some(number) => {
                let number = number - usize::from(number > position);
                instruction = Instruction::parameter(&instruction.name, instruction.shape, number);
            }
            None => instruction.operands.iter_mut().for_each(|operand| *operand = moved[operand.index()]),
        }
        moved.push(InstructionId(instructions.len() as u32));
        instructions.push(instruction);
    }
    let own = consumer.parameters.iter().enumerate().filter(|(number, _)| *number != position);
    let parameters = own.map(|(_, id)| moved[id.index()]).chain(producer.parameters.iter().copied()).collect();
    let root = moved[consumer.root.index()];
    Computation { name: consumer.name.clone(), instructions, parameters, root, annotations: Vec::new() }
}

/// Moves what computes the operand of a consumer at a position into it, and both as one fusion before an operation. One of the
/// two is a fusion. Returns the fusion.
pub(crate) fn merge<'c, 'r>(
    rewriter: &'r Rewriter<'c, '_>,
    [consumer, producer]: [OperationRef<'c, 'r>; 2],
    position: usize,
    next: OperationRef<'c, 'r>,
    attributes: &Attributes,
) -> Result<OperationRef<'c, 'r>> {
    let context = rewriter.context();
    let mut operands: Vec<Value> = Vec::new();
    let mut arguments: Vec<(Type, Location)> = Vec::new();
    for (operation, replaced) in [(consumer, Some(position)), (producer, None)] {
        for (number, operand) in operation.operands().enumerate().filter(|(number, _)| Some(*number) != replaced) {
            operands.push(operand);
            arguments.push((operand.r#type(), location_inside(context, operation, number)?));
        }
    }
    let block = Block::new(&arguments);
    let argument = |number: usize| block.argument(number).map(Value::from).map_err(bug);
    let others = consumer.operand_count() - 1;
    let inputs = (others..arguments.len()).map(argument).collect::<Result<Vec<_>>>()?;
    let made = move_inside(rewriter, producer, &inputs, &block)?;
    let input = |number: usize| match number {
        _ if number == position => Ok(made),
        _ => argument(number - usize::from(number > position)),
    };
    let inputs = (0..=others).map(input).collect::<Result<Vec<_>>>()?;
    let result = move_inside(rewriter, consumer, &inputs, &block)?;
    let last = body_of(consumer)?.or(body_of(producer)?).and_then(|body| body.terminator());
    let last = last.ok_or_else(|| LoweringError::bug("a fusion without an end"))?;
    // What it says of the parameters is of the old ones.
    for name in ["hlo.parameter_positions", "hlo.parameter_annotations"] {
        rewriter.remove_attribute(last, name);
    }
    rewriter.redirect_operand(last, 0, result)?;
    rewriter.move_to_end(last, &block)?;
    let fused_type = consumer.result(0).map_err(bug)?.r#type();
    let fusion = if body_of(consumer)?.is_some() { consumer } else { producer };
    let name = dialect::name_of(fusion.location()).unwrap_or_default().to_string();
    let location = dialect::renamed(consumer.location(), &name);
    let region = Region::new();
    region.append_block(block);
    let new = dialect::new_operation_with(
        context,
        OpKind::Fusion,
        &operands,
        attributes,
        fused_type,
        location,
        vec![region],
    )?;
    let new = rewriter.insert_before(new, next)?;
    rewriter.replace(consumer, new.result(0).map_err(bug)?.into())?;
    rewriter.erase(producer)?;
    Ok(new)
}

/// The body of a fusion; none of another operation.
fn body_of<'c, 'a>(operation: OperationRef<'c, 'a>) -> Result<Option<BlockRef<'c, 'a>>> {
    let is_fusion = dialect::kind_of(operation) == Some(OpKind::Fusion);
    Ok(if is_fusion { Some(dialect::single_block(operation, 0)?) } else { None })
}

/// The location of what stands for an operand inside of a fusion.
fn location_inside<'c>(context: &'c Context, operation: OperationRef<'c, '_>, number: usize) -> Result<Location<'c>> {
    if let Some(body) = body_of(operation)? {
        return Ok(body.argument(number).map_err(bug)?.location());
    }
    let name = dialect::name_of(operation.location()).unwrap_or_default();
    Ok(dialect::renamed(Location::unknown(context), &format!("{name}.operand.{number}")))
}

/// Moves what an operation computes, for some operands, to the end of a block; of a fusion all but its end. Returns the
/// value.
fn move_inside<'c, 'r>(
    rewriter: &'r Rewriter<'c, '_>,
    operation: OperationRef<'c, 'r>,
    operands: &[Value<'c, '_>],
    block: &Block<'c>,
) -> Result<Value<'c, 'r>> {
    let Some(body) = body_of(operation)? else {
        let copy = rewriter.insert_before((*operation).clone(), operation)?;
        for (number, &operand) in operands.iter().enumerate() {
            rewriter.redirect_operand(copy, number, operand)?;
        }
        rewriter.move_to_end(copy, block)?;
        return copy.result(0).map(Value::from).map_err(bug);
    };
    for (number, &operand) in operands.iter().enumerate() {
        rewriter.redirect_uses(body.argument(number).map_err(bug)?.into(), operand)?;
    }
    let last = body.terminator().ok_or_else(|| LoweringError::bug("a fusion without an end"))?;
    while let Some(first) = body.first_operation().filter(|&first| first != last) {
        rewriter.move_to_end(first, block)?;
    }
    last.operand(0).map_err(bug)
}

fn bug(error: melior::Error) -> LoweringError {
    LoweringError::bug(error.to_string())
}
