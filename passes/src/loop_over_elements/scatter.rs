//! `scatter` as a loop over the elements of the updates, in order.

use hlo::graph::{Instruction, InstructionId};

use super::{as_declared, call, counted_loop, element_at, elements_at, flat, with_element};
use crate::graph_builder::GraphBuilder;
use crate::scatter_places::ScatterPlaces;

pub(super) fn scatter(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let count = instruction.operands.len() / 2;
    let (inputs, rest) = instruction.operands.split_at(count);
    let (&indices, updates) = rest.split_first()?;
    let operands = [*inputs.first()?, indices, *updates.first()?];
    let ScatterPlaces { place, fits } =
        ScatterPlaces::new(builder, &instruction.attributes().ok()?, operands, &[], &[])?;
    let inputs: Vec<InstructionId> = inputs.iter().map(|&input| flat(builder, input)).collect();
    let mut constants = vec![flat(builder, place), flat(builder, fits)];
    constants.extend(updates.iter().map(|&update| flat(builder, update)));
    let steps = builder.array(*updates.first()?).element_count();
    let is_empty = builder.array(*inputs.first()?).element_count() == 0;
    let function = instruction.computations.first()?;
    let scattered = counted_loop(builder, if is_empty { 0 } else { steps }, &constants, &inputs, |builder, at| {
        let place = element_at(builder, at.constants[0], at.index);
        let fits = element_at(builder, at.constants[1], at.index);
        let before = elements_at(builder, at.variables, place);
        let mut arguments = before.clone();
        arguments.extend(elements_at(builder, &at.constants[2..], at.index));
        let results = call(builder, function, &arguments);
        let mut next = Vec::with_capacity(count);
        for ((&array, &result), &before) in at.variables.iter().zip(&results).zip(&before) {
            let result = builder.select(fits, result, before);
            next.push(with_element(builder, array, place, result));
        }
        next
    });
    as_declared(builder, instruction, &scattered)
}
