//! What matrix instructions multiply.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::Computation;

use super::{Product, Result};
use crate::operand_maps::operand_shape;

/// Types of elements that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorType {
    Bf16,
    F16,
    S8,
    U8,
}

impl TensorType {
    /// The type that has all values of an element type, one of the other operand's.
    fn of(element_type: ElementType, other: ElementType) -> Option<Self> {
        match (element_type.class(), element_type.bit_width()) {
            (ElementClass::Float, 16) if element_type == ElementType::BF16 => Some(TensorType::Bf16),
            (ElementClass::Float, 16) => Some(TensorType::F16),
            // Numbers from 2^-127 to 2^127.
            (ElementClass::Float, ..16) if element_type == ElementType::F8E8M0FNU => Some(TensorType::Bf16),
            (ElementClass::Float, ..16) if matches!(other, ElementType::BF16 | ElementType::F8E8M0FNU) => {
                Some(TensorType::Bf16)
            }
            (ElementClass::Float, ..16) => Some(TensorType::F16),
            (ElementClass::Signed, ..=8) => Some(TensorType::S8),
            (ElementClass::Unsigned, ..=8) => Some(TensorType::U8),
            _ => None,
        }
    }

    pub fn element_type(self) -> ElementType {
        match self {
            TensorType::Bf16 => ElementType::BF16,
            TensorType::F16 => ElementType::F16,
            TensorType::S8 => ElementType::S8,
            TensorType::U8 => ElementType::U8,
        }
    }

    /// Its name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Bf16 => "bf16",
            TensorType::F16 => "f16",
            TensorType::S8 => "s8",
            TensorType::U8 => "u8",
        }
    }

    /// The type of its elements as bits.
    pub fn bits(self) -> ElementType {
        if self.width() == 2 { ElementType::U16 } else { ElementType::U8 }
    }

    /// Bytes of an element.
    pub fn width(self) -> i64 {
        self.element_type().byte_width() as i64
    }
}

/// The types of a product that tensor cores make.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorOperands(pub [TensorType; 2]);

impl TensorOperands {
    /// Those of a product, if there is an instruction that makes its sums.
    pub fn of(computation: &Computation, product: &Product<'_, '_>) -> Result<Option<Self>> {
        let mut types = [ElementType::Pred; 2];
        for (number, own) in types.iter_mut().enumerate() {
            *own = operand_shape(computation, product.instruction, number)?.element_type;
        }
        let [left, right] = types;
        let (Some(left), Some(right)) = (TensorType::of(left, right), TensorType::of(right, left)) else {
            return Ok(None);
        };
        let accumulator = product.accumulator(computation)?;
        let sums = match left.width() {
            2 => accumulator == ElementType::F32 && left == right,
            _ => matches!(accumulator, ElementType::S32 | ElementType::U32) && right.width() == 1,
        };
        Ok(sums.then_some(TensorOperands([left, right])))
    }

    /// The instruction's name in LLVM, of a warp.
    pub fn intrinsic(self) -> &'static str {
        match self.0 {
            [TensorType::Bf16, _] => "llvm.nvvm.mma.m16n8k16.row.col.bf16",
            [TensorType::F16, _] => "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
            [TensorType::S8, TensorType::U8] => "llvm.nvvm.mma.m16n8k32.row.col.s8.u8",
            [TensorType::U8, TensorType::S8] => "llvm.nvvm.mma.m16n8k32.row.col.u8.s8",
            [TensorType::S8, _] => "llvm.nvvm.mma.m16n8k32.row.col.s8",
            [TensorType::U8, _] => "llvm.nvvm.mma.m16n8k32.row.col.u8",
        }
    }
}
