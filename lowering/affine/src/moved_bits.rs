//! Elements that a kernel only moves, as whole numbers of as many bits: those of small floats and predicates, which registers hold otherwise
//! than memory does, would be decoded and encoded again for nothing, and in vectors of fewer lanes; complex numbers would be taken apart.

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::{ArrayShape, Shape};
use passes::assign_buffers::Slice;

use crate::scalar;

/// A computation some types of whose elements it only moves.
pub(crate) struct MovedBits {
    types: HashSet<ElementType>,
    /// The computation, in which elements of these types are whole numbers.
    pub(crate) computation: Computation,
}

impl MovedBits {
    /// `None` for a computation that does something with all that registers hold otherwise than memory.
    pub(crate) fn of(computation: &Computation) -> Option<Self> {
        let mut types = HashSet::new();
        let mut computed = HashSet::new();
        for instruction in &computation.instructions {
            let own = coded_type(instruction);
            types.extend(own);
            let data = moved_operands(instruction);
            computed.extend(own.filter(|_| data.is_none()));
            for (place, &operand) in instruction.operands.iter().enumerate() {
                let read = coded_type(computation.get(operand));
                let is_moved = read == own && data.as_ref().is_some_and(|data| data.contains(&place));
                computed.extend(read.filter(|_| !is_moved));
            }
        }
        types.retain(|own| !computed.contains(own));
        if types.is_empty() {
            return None;
        }
        let mut bits = MovedBits { types, computation: computation.clone() };
        for id in (0..computation.instructions.len() as u32).map(InstructionId) {
            let instruction = computation.get(id);
            if coded_type(instruction).is_some_and(|own| bits.types.contains(&own)) {
                bits.computation.instructions[id.index()] = bits.instruction(instruction)?;
            }
        }
        Some(bits)
    }

    /// The same instruction of whole numbers.
    fn instruction(&self, instruction: &Instruction) -> Option<Instruction> {
        let mut own = instruction.clone();
        own.shape = Shape::from(self.shape(instruction.shape.as_array()?));
        if let Some(literal) = instruction.literal() {
            let array = literal.as_array()?;
            let value = Literal::Array(array.with_shape(self.shape(array.shape())).ok()?);
            own.attributes = ConstantAttributes { value: &value }.into();
        }
        Some(own)
    }

    /// The shape that an array has for the computation.
    fn shape(&self, shape: &ArrayShape) -> ArrayShape {
        match whole_number(shape.element_type).filter(|_| self.types.contains(&shape.element_type)) {
            Some(bits) => shape.with_element_type(bits),
            None => shape.clone(),
        }
    }

    /// The shapes that arrays have for the computation.
    pub(crate) fn shapes(&self, arrays: &[(&ArrayShape, Slice)]) -> Vec<ArrayShape> {
        arrays.iter().map(|(shape, _)| self.shape(shape)).collect()
    }
}

/// The element type of a value that registers hold otherwise than memory does.
fn coded_type(instruction: &Instruction) -> Option<ElementType> {
    let element_type = instruction.shape.as_array()?.element_type;
    whole_number(element_type).map(|_| element_type)
}

/// The unsigned integer of as many bits, for a type whose elements registers hold otherwise than memory does.
fn whole_number(element_type: ElementType) -> Option<ElementType> {
    match element_type {
        ElementType::C64 => Some(ElementType::U64),
        own => scalar::is_coded(own).then(|| scalar::code_type(own)),
    }
}

/// The operands whose elements a result has; `None` for what computes elements.
fn moved_operands(instruction: &Instruction) -> Option<Vec<usize>> {
    match instruction.kind {
        OpKind::Parameter | OpKind::Constant => Some(Vec::new()),
        OpKind::Iota => None,
        OpKind::DynamicSlice | OpKind::Gather => Some(vec![0]),
        OpKind::DynamicUpdateSlice => Some(vec![0, 1]),
        OpKind::Select => Some(vec![1, 2]),
        kind if definition(kind).fusion == FusionRole::View => Some((0..instruction.operands.len()).collect()),
        _ => None,
    }
}
