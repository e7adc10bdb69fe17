//! The arithmetic of kernels by what it is done on: machines have instructions of their own for each.

use std::collections::HashMap;

use halo::Cost;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, GraphError, Instruction};
use hlo::op_kind::OpKind;

/// What arithmetic is done on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Lanes of vectors of so many bits, 8 to 64.
    Lanes(u32),
    /// Products of matrices or convolutions of bf16, or of narrower floats.
    BrainProducts,
    /// The same of f16.
    HalfProducts,
    /// The same of integers of 16 bits and fewer.
    IntegerProducts,
}

impl Arithmetic {
    fn on(element_type: ElementType, is_product: bool) -> Self {
        // A complex number counts as one element but is two lanes.
        let parts = if element_type.is_complex() { 2 } else { 1 };
        let bits = element_type.bit_width() / parts;
        match element_type {
            ElementType::F16 if is_product => Arithmetic::HalfProducts,
            _ if !is_product || bits > 16 => Arithmetic::Lanes(bits.max(8)),
            _ if element_type.is_float() => Arithmetic::BrainProducts,
            _ => Arithmetic::IntegerProducts,
        }
    }
}

/// Operations by what they are done on.
pub type Flops = HashMap<Arithmetic, u64>;

/// The operations of an instruction that is a kernel, by what they are done on.
///
/// # Errors
/// For instructions that break a rule of their operation.
pub fn flops_of(computation: &Computation, instruction: &Instruction) -> Result<Flops, GraphError> {
    let mut flops = Flops::new();
    add_flops(computation, instruction, &mut flops)?;
    Ok(flops)
}

fn add_flops(computation: &Computation, instruction: &Instruction, flops: &mut Flops) -> Result<(), GraphError> {
    if instruction.kind == OpKind::Fusion {
        let fused = instruction.computations.iter();
        return fused
            .flat_map(|fused| fused.instructions.iter().map(move |inner| (fused, inner)))
            .try_for_each(|(fused, inner)| add_flops(fused, inner, flops));
    }
    let own = Cost::of_instruction(computation, instruction)?.flops;
    let first = instruction.operands.first().map_or(&instruction.shape, |&id| &computation.get(id).shape);
    let element_type = first.leaves().iter().find_map(|leaf| leaf.as_array()).map(|array| array.element_type);
    if let Some(element_type) = element_type.filter(|_| own > 0) {
        let is_product = matches!(instruction.kind, OpKind::Dot | OpKind::Convolution);
        let total = flops.entry(Arithmetic::on(element_type, is_product)).or_default();
        *total = total.saturating_add(own);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hlo::text::read;

    use super::*;

    #[test]
    fn arithmetic_is_told_apart_by_its_elements() {
        let module = read(
            "HloModule m
body {
  x = s8[4,8] parameter(0)
  y = s8[8,2] parameter(1)
  d = s32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[4,2] convert(d)
  ROOT m = f32[4,2] multiply(f, f)
}
ENTRY e {
  x = s8[4,8] parameter(0)
  y = s8[8,2] parameter(1)
  ROOT r = f32[4,2] fusion(x, y), kind=kLoop, calls=body
}",
        )
        .unwrap();
        let entry = module.entry();
        let mut flops = flops_of(entry, entry.get(entry.root)).unwrap();
        assert_eq!(flops.remove(&Arithmetic::IntegerProducts), Some(2 * 4 * 8 * 2));
        // The multiplication; a conversion costs what one operation does, on what it converts.
        assert_eq!(flops.remove(&Arithmetic::Lanes(32)).unwrap() % (4 * 2), 0);
    }
}
