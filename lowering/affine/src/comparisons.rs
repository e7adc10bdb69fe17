//! Reductions of predicates that come of comparisons: their accumulators are as wide as what is compared, as the results of vector
//! comparisons are, which would have to be packed to be narrower.

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};

use crate::scalar::combiner::{self, Combiner, register_width};

/// The one operation that an instruction of a computation combines the elements of its first operand by, if it is one.
pub(crate) fn combiner_of(computation: &Computation, instruction: &Instruction) -> Option<Combiner> {
    let combiner = combiner::recognise(instruction.computations.first()?)?;
    let width = instruction.operands.first().and_then(|&operand| width_of_comparisons(computation, operand));
    Some(width.map_or(combiner, |width| combiner.of_masks(width)))
}

/// The bits of registers of the elements that are compared for a predicate, all comparisons alike.
fn width_of_comparisons(computation: &Computation, predicate: InstructionId) -> Option<u32> {
    let (mut open, mut seen) = (vec![predicate], HashSet::from([predicate]));
    let mut found = None;
    while let Some(id) = open.pop() {
        let own = computation.get(id);
        match own.kind {
            OpKind::Compare => {
                let compared = computation.get(*own.operands.first()?).shape.as_array()?.element_type;
                let width = register_width(compared);
                if *found.get_or_insert(width) != width {
                    return None;
                }
            }
            OpKind::Constant => {}
            _ if own.shape.as_array()?.element_type != ElementType::Pred => return None,
            kind if moves(kind) || definition(kind).fusion == FusionRole::Elementwise => {
                open.extend(own.operands.iter().copied().filter(|&operand| seen.insert(operand)));
            }
            _ => return None,
        }
    }
    found
}

fn moves(kind: OpKind) -> bool {
    matches!(kind, OpKind::Broadcast | OpKind::Reshape | OpKind::Slice | OpKind::Transpose)
}
