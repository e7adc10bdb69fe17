//! `rng-bit-generator(state)` -> (new state, random bits).
//!
//! Source: operation semantics, "RngBitGenerator"; the shape of the bits is the declared one.

use super::enumerations::RngAlgorithm;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `rng-bit-generator`.
    pub struct RngBitGeneratorAttributes {
        /// The generator.
        required algorithm ["C1"]: RngAlgorithm,
    }
}

/// Definition of `rng-bit-generator`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::RngBitGenerator,
    Arity::Exactly(1),
    Facets::new(OpClass::Random, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(RngBitGeneratorAttributes::TABLE);

/// - C1: `algorithm` is one of rng_default, rng_three_fry, rng_philox.
/// - C2: the state is u64[2]; also u64[3] but for rng_three_fry.
/// - C3: the result is a tuple of the state and an array of integers or floats.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let RngBitGeneratorAttributes { algorithm } = view.attributes()?;
    let state = view.array(0)?;
    let sizes: &[i64] = match algorithm {
        RngAlgorithm::ThreeFry => &[2],
        RngAlgorithm::Default | RngAlgorithm::Philox => &[2, 3],
    };
    if state.element_type != ElementType::U64 || !matches!(*state.dimensions, [size] if sizes.contains(&size)) {
        let message = format!("must be u64[n] with n in {sizes:?} for {algorithm}, got {state}");
        return Err(view.operand_error(Some("C2"), 0, message));
    }
    let declared = view.declared()?;
    if let Some([_, Shape::Array(bits)]) = declared.as_tuple()
        && (bits.element_type.is_integer() || bits.element_type.is_float())
    {
        return Ok(Shape::Tuple(vec![state.clone().into(), bits.clone().into()]));
    }
    let message = format!("the result must be a tuple of the state and an array of integers or floats, got {declared}");
    Err(view.error(Some("C3"), message))
}
