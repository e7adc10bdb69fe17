//! `custom-call`: a function of the runtime, by name. The result shape is the declared one.
//!
//! Source: operation semantics, "CustomCall".

use super::ComputationKey::{List, Optional};
use super::enumerations::{CustomCallApiVersion, CustomCallSchedule};
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Precisions, Raw, Word, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::{ConvolutionDimensions, WindowDimension};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `custom-call`.
    pub struct CustomCallAttributes<'a> {
        /// The window of a call that stands for a convolution.
        optional window: &'a [WindowDimension] = &[],
        /// What the dimensions are of a call that stands for a convolution.
        optional dim_labels: Option<&'a ConvolutionDimensions> = None,
        /// Groups of features of a call that stands for a convolution.
        optional feature_group_count: i64 = 1,
        /// Groups of the batch of a call that stands for a convolution.
        optional batch_group_count: i64 = 1,
        /// Precisions of the operands.
        optional operand_precision: Precisions<'a> = Precisions::DEFAULT,
        /// How a window is padded.
        optional padding_type: Option<Word<'a>> = None,
        /// Name of the function.
        required custom_call_target: &'a str,
        /// The operands' shapes with the layouts that the function takes.
        optional operand_layout_constraints: Option<&'a [Shape]> = None,
        /// The function has an effect besides its result.
        optional custom_call_has_side_effect: bool = false,
        /// A value that the function gets.
        optional literal: Option<Raw<'a>> = None,
        /// Outputs that take over the memory of operands.
        optional output_to_operand_aliasing: Option<Raw<'a>> = None,
        /// When the call is made.
        optional schedule ["C2"]: CustomCallSchedule = CustomCallSchedule::None,
        /// The convention that the function is called by.
        optional api_version ["C2"]: Option<CustomCallApiVersion> = None,
    }
}

/// Definition of `custom-call`. Whether it has a side effect is its attribute `custom_call_has_side_effect`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::CustomCall,
    Arity::AtLeast(0),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::Declared, ElementCost::Whole),
    infer_shape,
)
.with_attributes(CustomCallAttributes::TABLE)
.with_computations(&[Optional("to_apply"), List("called_computations")]);

/// - C1: `operand_layout_constraints` has one shape for each operand, the operand's but for the layout.
/// - C2: `api_version` and `schedule` are among XLA's.
/// - C3: an annotation has one operand and its shape; between whole arrays and parts, its element type and rank.
/// - C4: `TopK` gives k elements of each row of its operand, which have an order, and their places as `s32`; k is not more than
///   there are.
/// - C5: the operands of a known routine have its element type and sizes.
/// - C6: so have its results.
/// - C7: `PadToStatic` gives, and `SliceToDynamic` takes, a whole array and a size for each of its dimensions.
/// - C8: the product of a sparse matrix has the rows of that and the columns of the dense one, and the types of their elements.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: CustomCallAttributes = view.attributes()?;
    if let Some(shapes) = attributes.operand_layout_constraints {
        let key = "operand_layout_constraints";
        if shapes.len() != view.operands.len() {
            let message =
                format!("must have length {}, one shape for each operand, got {}", view.operands.len(), shapes.len());
            return Err(view.attribute_error(Some("C1"), key, message));
        }
        for (index, (&operand, shape)) in view.operands.iter().zip(shapes).enumerate() {
            if !super::same_sizes_and_types(operand, shape) {
                let message = format!("must have the shape {operand} of operand {index}, got {shape}");
                return Err(view.attribute_error(Some("C1"), key, message));
            }
        }
    }
    super::custom_call_targets::check(view)?;
    view.declared().cloned()
}
