//! `fusion`: a computation applied to the operands that is compiled into one piece.
//!
//! Source: XLA's verifier; indexing analysis, "Indexing map for fusion operations".

use super::enumerations::FusionKind;
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `fusion`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Fusion, Arity::AtLeast(0), OpClass::Control, infer_shape)
        .with_attributes(&[
            AttributeSpec::required("kind", AttributeForm::Word),
            AttributeSpec::optional("output_to_operand_aliasing", AttributeForm::Raw),
        ])
        .with_computations(&["calls"]);

/// - C1: `kind` is one of kLoop, kInput, kOutput, kCustom.
/// - C2: the operands are the computation's arguments.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.word::<FusionKind>(Some("C1"), "kind")?;
    view.arguments(Some("C2"), 0, view.operands)?;
    Ok(view.computation(0)?.result.clone())
}
