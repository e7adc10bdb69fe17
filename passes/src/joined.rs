//! Parts of what is made, element by element, of arrays that are joined.

use std::collections::HashMap;

use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::{FusionRole, definition};

use crate::graph_builder::GraphBuilder;

/// Parts between ends of joined arrays, at most, and values that are made of them.
const MOST_ARRAYS: usize = 4;
const MOST_VALUES: usize = 32;

/// Where arrays meet of which a value is made along a dimension, from 0 to its size; `None` where none are joined, or many.
pub(crate) fn ends(builder: &GraphBuilder, value: InstructionId, dimension: usize) -> Option<Vec<i64>> {
    let (mut seen, mut all) = (vec![value], Vec::new());
    let mut next = 0;
    while let Some(&value) = seen.get(next).filter(|_| seen.len() <= MOST_VALUES) {
        next += 1;
        if let Some(ends) = ends_of_joined(builder, value, dimension) {
            all.extend(ends);
            continue;
        }
        let own = builder.get(value);
        if is_rebuilt(builder, value) {
            let new: Vec<InstructionId> = own.operands.iter().copied().filter(|own| !seen.contains(own)).collect();
            seen.extend(new);
        }
    }
    all.sort_unstable();
    all.dedup();
    (seen.len() <= MOST_VALUES && (3..=MOST_ARRAYS + 1).contains(&all.len())).then_some(all)
}

/// The same of a value that is a concatenation.
fn ends_of_joined(builder: &GraphBuilder, value: InstructionId, dimension: usize) -> Option<Vec<i64>> {
    let own = builder.get(value);
    if own.kind != OpKind::Concatenate || own.operands.len() > MOST_ARRAYS {
        return None;
    }
    let ConcatenateAttributes { dimensions } = own.attributes().ok()?;
    let mut ends = vec![0];
    for &operand in &own.operands {
        ends.push(ends.last()? + builder.dimensions(operand)[dimension]);
    }
    (dimensions.0 == dimension as i64).then_some(ends)
}

/// Whether a value is made anew of parts of its operation's operands.
fn is_rebuilt(builder: &GraphBuilder, value: InstructionId) -> bool {
    let own = builder.get(value);
    let has_attributes = matches!(own.kind, OpKind::Compare | OpKind::ReducePrecision | OpKind::Map);
    definition(own.kind).fusion == FusionRole::Elementwise
        && (1..=2).contains(&own.operands.len())
        && !has_attributes
        // Bits may become several elements.
        && (own.kind != OpKind::BitcastConvert || builder.dimensions(own.operands[0]) == builder.dimensions(value))
}

/// Makes parts along a dimension, between two positions.
pub(crate) struct Part {
    pub dimension: usize,
    pub start: i64,
    pub end: i64,
    /// Those of values that are made already.
    pub made: HashMap<InstructionId, InstructionId>,
}

impl Part {
    pub(crate) fn of(&mut self, builder: &mut GraphBuilder, value: InstructionId) -> InstructionId {
        if let Some(&made) = self.made.get(&value) {
            return made;
        }
        let part = self.make(builder, value);
        self.made.insert(value, part);
        part
    }

    fn make(&mut self, builder: &mut GraphBuilder, value: InstructionId) -> InstructionId {
        let &mut Part { dimension, start, end, .. } = self;
        if let Some(ends) = ends_of_joined(builder, value, dimension)
            && let Some(number) = ends.windows(2).position(|pair| pair[0] <= start && end <= pair[1])
        {
            let array = builder.get(value).operands[number];
            return builder.slice(array, dimension, start - ends[number], end - ends[number]);
        }
        let own = builder.get(value).clone();
        if is_rebuilt(builder, value) && builder.array(value).rank() > dimension {
            let parts: Vec<InstructionId> = own.operands.iter().map(|&operand| self.of(builder, operand)).collect();
            return match parts[..] {
                [part] if own.kind == OpKind::Convert => builder.convert(part, builder.element_type(value)),
                [part] if own.kind == OpKind::BitcastConvert => builder.bitcast(part, builder.element_type(value)),
                [part] => builder.unary(own.kind, part),
                [lhs, rhs] => builder.binary(own.kind, lhs, rhs),
                _ => builder.slice(value, dimension, start, end),
            };
        }
        let is_number = own.kind == OpKind::Broadcast && builder.array(own.operands[0]).rank() == 0;
        if is_number {
            let mut sizes = builder.dimensions(value);
            sizes[dimension] = end - start;
            return builder.broadcast(own.operands[0], &sizes, &[]);
        }
        builder.slice(value, dimension, start, end)
    }
}
