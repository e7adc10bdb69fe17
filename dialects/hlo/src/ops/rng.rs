//! `rng(a, b)`: random numbers of a distribution, of unspecified order.
//!
//! Source: operation semantics, "RngNormal", "RngUniform"; the result shape is the declared one.

use super::element_classes::{FLOAT, LOGICAL};
use super::enumerations::RandomDistribution;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `rng`.
    pub struct RngAttributes {
        /// The distribution.
        required distribution ["C1"]: RandomDistribution,
    }
}

/// The key of the generator behind `rng`, Philox4x32-10, whose counter is what `rng-get-and-update-state` returns. Numbers take
/// 64 bits each, the words of a block of the generator one after another.
pub const GENERATOR_KEY: u64 = 0x7012_395A_7012_395A;

/// Definition of `rng`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Rng,
    Arity::Exactly(2),
    Facets::new(OpClass::Random, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(RngAttributes::TABLE);

/// - C1: `distribution` is one of rng_uniform, rng_normal.
/// - C2: both parameters are scalars of the same element type.
/// - C3: rng_normal is floating-point; rng_uniform is not complex.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let RngAttributes { distribution } = view.attributes()?;
    let element_type = view.same_element_type(Some("C2"), 0, 1)?;
    for index in [0, 1] {
        let shape = view.array(index)?;
        if shape.rank() != 0 {
            return Err(view.operand_error(Some("C2"), index, format!("must be a scalar, got {shape}")));
        }
    }
    let class = element_type.class();
    let accepted = match distribution {
        RandomDistribution::Normal => FLOAT.contains(&class),
        RandomDistribution::Uniform => FLOAT.contains(&class) || LOGICAL.contains(&class),
    };
    if !accepted {
        let message = format!("must have an element type that {distribution} gives, got {element_type}");
        return Err(view.operand_error(Some("C3"), 0, message));
    }
    Ok(view.declared_array()?.with_element_type(element_type).into())
}
