//! What matrix instructions multiply.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::Computation;
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::ops::enumerations::DotAlgorithm;

use super::{Product, Result};
use crate::operand_maps::operand_shape;

/// Types of elements that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorType {
    Bf16,
    F16,
    /// f8 whose products are summed with about 14 bits.
    E4m3,
    E5m2,
    S8,
    U8,
    /// `f32` of which the upper 19 bits are multiplied.
    Tf32,
    /// The same for a number and for what is left of it.
    TwoTf32,
    F64,
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
            (ElementClass::Float, 64) => Some(TensorType::F64),
            (ElementClass::Signed, ..=8) => Some(TensorType::S8),
            (ElementClass::Unsigned, ..=8) => Some(TensorType::U8),
            _ => None,
        }
    }

    pub fn element_type(self) -> ElementType {
        match self {
            TensorType::Bf16 => ElementType::BF16,
            TensorType::F16 => ElementType::F16,
            TensorType::E4m3 => ElementType::F8E4M3FN,
            TensorType::E5m2 => ElementType::F8E5M2,
            TensorType::S8 => ElementType::S8,
            TensorType::U8 => ElementType::U8,
            TensorType::Tf32 | TensorType::TwoTf32 => ElementType::F32,
            TensorType::F64 => ElementType::F64,
        }
    }

    /// Its name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Bf16 => "bf16",
            TensorType::F16 => "f16",
            TensorType::E4m3 => "e4m3",
            TensorType::E5m2 => "e5m2",
            TensorType::S8 => "s8",
            TensorType::U8 => "u8",
            TensorType::Tf32 | TensorType::TwoTf32 => "tf32",
            TensorType::F64 => "f64",
        }
    }

    /// Type of the sums of its products.
    pub fn sums(self) -> ElementType {
        match self {
            TensorType::S8 | TensorType::U8 => ElementType::S32,
            TensorType::F64 => ElementType::F64,
            _ => ElementType::F32,
        }
    }

    /// The type that its elements are kept as: small ones as bits.
    pub fn bits(self) -> ElementType {
        match self.width() {
            1 => ElementType::U8,
            2 => ElementType::U16,
            _ => self.element_type(),
        }
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
        if let Some(tf32) = tf32_of(product)?
            && types.iter().all(|own| own.is_float() && own.bit_width() <= 32)
            && product.accumulator(computation)? == ElementType::F32
        {
            return Ok(Some(TensorOperands([tf32; 2])));
        }
        let [left, right] = types;
        let (Some(left), Some(right)) = (TensorType::of(left, right), TensorType::of(right, left)) else {
            return Ok(None);
        };
        let accumulator = product.accumulator(computation)?;
        let sums = match left.width() {
            2 => accumulator == ElementType::F32 && left == right,
            8 => accumulator == ElementType::F64 && left == right,
            _ => matches!(accumulator, ElementType::S32 | ElementType::U32) && right.width() == 1,
        };
        Ok(sums.then_some(TensorOperands([left, right])))
    }

    /// Those of a product of f8 that four warps make together, and how its sums may be made.
    pub fn of_small_floats(
        computation: &Computation,
        product: &Product<'_, '_>,
    ) -> Result<Option<(Self, SmallFloatSums)>> {
        let Some(sums) = SmallFloatSums::of(product)? else { return Ok(None) };
        if product.accumulator(computation)? != ElementType::F32 {
            return Ok(None);
        }
        let mut types = [TensorType::E4m3; 2];
        for (number, own) in types.iter_mut().enumerate() {
            *own = match operand_shape(computation, product.instruction, number)?.element_type {
                ElementType::F8E4M3FN => TensorType::E4m3,
                ElementType::F8E5M2 => TensorType::E5m2,
                _ => return Ok(None),
            };
        }
        Ok(Some((TensorOperands(types), sums)))
    }

    /// The instruction's name in LLVM, of a warp; that of `f64` is one of several.
    pub fn intrinsic(self) -> &'static str {
        match self.0 {
            [TensorType::Bf16, _] => "llvm.nvvm.mma.m16n8k16.row.col.bf16",
            // A warp alone multiplies f8 as f16.
            [TensorType::F16 | TensorType::E4m3 | TensorType::E5m2, _] => "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
            [TensorType::S8, TensorType::U8] => "llvm.nvvm.mma.m16n8k32.row.col.s8.u8",
            [TensorType::U8, TensorType::S8] => "llvm.nvvm.mma.m16n8k32.row.col.u8.s8",
            [TensorType::S8, _] => "llvm.nvvm.mma.m16n8k32.row.col.s8",
            [TensorType::U8, _] => "llvm.nvvm.mma.m16n8k32.row.col.u8",
            [TensorType::Tf32 | TensorType::TwoTf32, _] => "llvm.nvvm.mma.m16n8k8.row.col.tf32",
            [TensorType::F64, _] => "llvm.nvvm.mma.m8n8k4.row.col.f64",
        }
    }
}

/// How the products of f8 are summed, of which an instruction of four warps keeps about 14 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SmallFloatSums {
    /// All by the instructions.
    Fast,
    /// Those of a step by the instructions, and these in `f32`.
    Stepwise,
}

impl SmallFloatSums {
    /// What a program allows: precision by default, or algorithms of f8.
    fn of(product: &Product<'_, '_>) -> Result<Option<Self>> {
        let attributes = dot_attributes(product)?;
        Ok(match attributes.and_then(|own| own.algorithm).unwrap_or(DotAlgorithm::Unset) {
            DotAlgorithm::AnyF8AnyF8F32FastAccum | DotAlgorithm::AnyF8AnyF8AnyFastAccum => Some(SmallFloatSums::Fast),
            DotAlgorithm::AnyF8AnyF8F32 | DotAlgorithm::AnyF8AnyF8Any => Some(SmallFloatSums::Stepwise),
            DotAlgorithm::Unset if attributes.is_some_and(|own| own.operand_precision.are_default()) => {
                Some(SmallFloatSums::Stepwise)
            }
            _ => None,
        })
    }
}

/// As what a product allows numbers of 32 bits to be multiplied: a program must ask for that.
fn tf32_of(product: &Product<'_, '_>) -> Result<Option<TensorType>> {
    Ok(match algorithm_of(product)? {
        Some(DotAlgorithm::Tf32Tf32F32) => Some(TensorType::Tf32),
        Some(DotAlgorithm::Tf32Tf32F32X3) => Some(TensorType::TwoTf32),
        _ => None,
    })
}

/// How a program wants a product to be made.
fn algorithm_of(product: &Product<'_, '_>) -> Result<Option<DotAlgorithm>> {
    Ok(dot_attributes(product)?.and_then(|own| own.algorithm))
}

/// The attributes of a product of matrices.
fn dot_attributes<'a>(product: &Product<'a, '_>) -> Result<Option<DotAttributes<'a>>> {
    let is_dot = product.instruction.kind == OpKind::Dot;
    Ok(if is_dot { Some(product.instruction.attributes()?) } else { None })
}
