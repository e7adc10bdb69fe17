//! Operations that hand values on: tuples, asynchronous forms, collectives of one replica, queues.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::shape::Shape;

use super::sizes::{Arithmetic, Sizes, zeroed_value};
use super::{Arguments, DynamicError, Resolver, Value, has_dynamic_dimensions};
use crate::expand::asynchronous::with_contexts;

impl Resolver {
    /// The value of an operation that hands on what it is given; `None` for others.
    pub(super) fn handed_on(
        &mut self,
        instruction: &Instruction,
        operands: &[InstructionId],
        sizes: &[Sizes],
    ) -> Result<Option<Value>, DynamicError> {
        let is_dynamic = sizes.iter().any(Sizes::is_dynamic);
        let first = || sizes.first().cloned().unwrap_or(Sizes::Array(Vec::new()));
        let one_or_all = || if sizes.len() == 1 { first() } else { Sizes::Tuple(sizes.to_vec()) };
        Ok(Some(match instruction.kind {
            OpKind::Tuple => (self.builder.tuple(operands), Sizes::Tuple(sizes.to_vec())),
            OpKind::GetTupleElement => {
                let Ok(GetTupleElementAttributes { index }) = instruction.attributes() else { return Ok(None) };
                let index = index as usize;
                (self.builder.element(operands[0], index), sizes[0].element(index))
            }
            OpKind::OptimizationBarrier | OpKind::Domain | OpKind::AddDependency => {
                (self.unchanged(instruction, operands), first())
            }
            OpKind::Copy if instruction.shape.as_tuple().is_some() => (operands[0], first()),
            OpKind::Select if instruction.shape.as_tuple().is_some() => {
                let value = self.builder.choose(operands[0], operands[1], operands[2]);
                (value, self.chosen_sizes(operands[0], [&sizes[1], &sizes[2]], &instruction.shape))
            }
            OpKind::Fusion | OpKind::AsyncStart
                if is_dynamic || instruction.computations.iter().any(has_dynamic_dimensions) =>
            {
                self.inlined(instruction, operands, sizes)?
            }
            // What is below concerns values of run-time sizes only.
            _ if !is_dynamic => return Ok(None),
            OpKind::AsyncUpdate | OpKind::AllReduceDone => (operands[0], first()),
            OpKind::AsyncDone | OpKind::AllGatherDone | OpKind::CollectivePermuteDone => {
                (self.builder.element(operands[0], 1), sizes[0].element(1))
            }
            OpKind::CopyDone => (self.builder.element(operands[0], 0), sizes[0].element(0)),
            OpKind::CopyStart | OpKind::AllGatherStart | OpKind::CollectivePermuteStart => {
                let sizes = self.with_full_contexts(vec![one_or_all(), one_or_all()], &instruction.shape);
                (self.unchanged(instruction, operands), sizes)
            }
            OpKind::AllGather
            | OpKind::AllReduce
            | OpKind::AllReduceStart
            | OpKind::AllToAll
            | OpKind::CollectiveBroadcast
            | OpKind::CollectivePermute
            | OpKind::ReduceScatter => {
                let sizes = match (&instruction.shape, one_or_all()) {
                    (Shape::Tuple(_), single @ Sizes::Array(_)) => Sizes::Tuple(vec![single]),
                    (_, sizes) => sizes,
                };
                (self.unchanged(instruction, operands), sizes)
            }
            // The host sees zeros in the padding.
            OpKind::Outfeed | OpKind::Send => {
                let data = zeroed_value(&mut self.builder, operands[0], &sizes[0]);
                let id = self.unchanged(instruction, &[data, operands[1]]);
                (id, self.with_full_contexts(vec![first()], &instruction.shape))
            }
            OpKind::SendDone => (self.unchanged(instruction, operands), Sizes::full(&instruction.shape)),
            _ => return Ok(None),
        }))
    }

    /// Sizes of a tuple's first elements; whole ones for those after them.
    fn with_full_contexts(&self, mut elements: Vec<Sizes>, shape: &Shape) -> Sizes {
        let Shape::Tuple(shapes) = shape else { return Sizes::full(shape) };
        elements.extend(shapes.iter().skip(elements.len()).map(Sizes::full));
        Sizes::Tuple(elements)
    }

    /// A fusion or an asynchronous start: its computation on the spot.
    fn inlined(
        &mut self,
        instruction: &Instruction,
        operands: &[InstructionId],
        sizes: &[Sizes],
    ) -> Result<Value, DynamicError> {
        let values: Vec<Value> = operands.iter().copied().zip(sizes.iter().cloned()).collect();
        let no_rule = || DynamicError::NoRule { kind: instruction.kind, instruction: instruction.name.clone() };
        let computation = instruction.computations.first().ok_or_else(no_rule)?;
        let (root, root_sizes) = self.computation(computation, &Arguments::Values(&values))?;
        if instruction.kind == OpKind::Fusion {
            return Ok((root, root_sizes));
        }
        self.builder.stand_for(instruction);
        let operands = self.builder.tuple(operands);
        let start = with_contexts(&mut self.builder, instruction, &[operands, root]).ok_or_else(no_rule)?;
        let sizes = self.with_full_contexts(vec![Sizes::Tuple(sizes.to_vec()), root_sizes], &instruction.shape);
        Ok((start, sizes))
    }

    /// Sizes of one of two values by a scalar predicate.
    fn chosen_sizes(&mut self, predicate: InstructionId, [on_true, on_false]: [&Sizes; 2], shape: &Shape) -> Sizes {
        match shape {
            Shape::Tuple(elements) => Sizes::Tuple(
                elements
                    .iter()
                    .enumerate()
                    .map(|(index, shape)| {
                        self.chosen_sizes(predicate, [&on_true.element(index), &on_false.element(index)], shape)
                    })
                    .collect(),
            ),
            Shape::Array(array) => {
                let pairs = on_true.of_array().iter().zip(on_false.of_array()).zip(&array.dimensions);
                Sizes::Array(
                    pairs
                        .map(|((&on_true, &on_false), &bound)| {
                            on_true.or(on_false)?;
                            let on_true = Arithmetic(&mut self.builder).size(on_true, bound);
                            let on_false = Arithmetic(&mut self.builder).size(on_false, bound);
                            Some(self.builder.select(predicate, on_true, on_false))
                        })
                        .collect(),
                )
            }
            Shape::Token | Shape::Opaque => Sizes::full(shape),
        }
    }
}
