//! `reduce-window(inputs…, initial values…)`: combines the elements in each window over the inputs.
//!
//! Source: operation semantics, "ReduceWindow". `window` gives one entry for each dimension.

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::reduce::reduced_inputs;
use super::signatures::bare_or_tuple;
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::WindowDimension;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `reduce-window`.
    pub struct ReduceWindowAttributes<'a> {
        /// The window, by dimension.
        optional window: &'a [WindowDimension] = &[],
    }
}

impl ReduceWindowAttributes<'_> {
    /// A window as long as the array along one dimension, padded on one side.
    pub fn cumulative(along: usize, sizes: &[i64], is_reversed: bool) -> Vec<WindowDimension> {
        let mut window = vec![WindowDimension::new(1); sizes.len()];
        if let (Some(own), Some(&size)) = (window.get_mut(along), sizes.get(along)) {
            let (low, high) = if is_reversed { (0, size - 1) } else { (size - 1, 0) };
            *own = WindowDimension { padding_low: low, padding_high: high, ..WindowDimension::new(size) };
        }
        window
    }

    /// The dimension along which results over an array of some sizes accumulate, and whether they do so from the end.
    pub fn accumulates(&self, sizes: &[i64]) -> Option<(usize, bool)> {
        let along = self.window.iter().position(|own| *own != WindowDimension::new(1))?;
        let is_alike = |is_reversed: &bool| self.window == Self::cumulative(along, sizes, *is_reversed);
        [false, true].into_iter().find(is_alike).map(|is_reversed| (along, is_reversed))
    }
}

/// Definition of `reduce-window`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::ReduceWindow,
    Arity::AtLeast(2),
    Facets::new(OpClass::Reduction, FusionRole::Reduction, Lowering::Loops, Effects::None, ElementCost::Applied),
    infer_shape,
)
.with_attributes(ReduceWindowAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: there are as many initial values as inputs.
/// - C2: the inputs have the same dimensions.
/// - C3: each initial value is a scalar of its input's element type.
/// - C4: the computation is a reducer of the inputs' element types.
/// - C5: `window` has one entry for each dimension of the inputs.
/// - C6: sizes, strides and dilations are positive, and no size overflows.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (merged, element_types) = reduced_inputs(view, [Some("C1"), Some("C2"), Some("C3"), Some("C4")])?;
    let ReduceWindowAttributes { window } = view.attributes()?;
    let result = view.windowed(Some("C5"), Some("C6"), window, &merged)?;
    Ok(bare_or_tuple(element_types.iter().map(|&t| result.with_element_type(t).into()).collect()))
}
