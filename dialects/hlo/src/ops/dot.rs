//! `dot`: contraction of two arrays over pairs of dimensions, for each index of pairs of batch dimensions.
//!
//! The result has the batch dimensions, the left operand's others, the right operand's others. Its element type
//! is the declared one. Source: operation semantics, "Dot", "DotGeneral".

use super::element_classes::ANY;
use super::enumerations::DotAlgorithm;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Precisions, attributes};
use super::view::Label;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `dot`.
    pub struct DotAttributes<'a> {
        /// Batch dimensions of the left operand.
        optional lhs_batch_dims: &'a [i64] = &[],
        /// Contracting dimensions of the left operand.
        optional lhs_contracting_dims: &'a [i64] = &[],
        /// Batch dimensions of the right operand, paired with the left's.
        optional rhs_batch_dims: &'a [i64] = &[],
        /// Contracting dimensions of the right operand, paired with the left's.
        optional rhs_contracting_dims: &'a [i64] = &[],
        /// Precisions of the operands.
        optional operand_precision ["C6"]: Precisions<'a> = Precisions::DEFAULT,
        /// Types that the products and sums are computed in.
        optional algorithm ["C7"]: Option<DotAlgorithm> = None,
    }
}

/// Definition of `dot`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Dot,
    Arity::Exactly(2),
    Facets::new(OpClass::Contraction, FusionRole::Opaque, Lowering::Kernel, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(DotAttributes::TABLE);

/// - C1: each side's batch and contracting dimensions are dimensions of its operand.
/// - C2: no dimension is named twice on a side.
/// - C3: both sides name as many contracting dimensions, and as many batch dimensions.
/// - C4: paired dimensions have the same size.
/// - C5: an integer or pred result is not narrower than the operands; complex operands have a complex result.
/// - C6: `operand_precision` has words of XLA's: default, high, highest.
/// - C7: `algorithm` is one of XLA's.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (lhs, rhs) = (view.array(0)?, view.array(1)?);
    let attributes: DotAttributes = view.attributes()?;
    let sides = DotDimensions::checked(view, &attributes, Some("C1"), Some("C2"))?;
    sides.check_pairs(view, [Some("C3"), Some("C4")], &[])?;
    let mut result = ArrayShape::new(view.contraction_element_type(Some("C5"))?, []);
    for &dimension in &sides.lhs_batch {
        push_dimension(&mut result, lhs, dimension);
    }
    for dimension in sides.lhs_free(lhs.rank()) {
        push_dimension(&mut result, lhs, dimension);
    }
    for dimension in sides.rhs_free(rhs.rank()) {
        push_dimension(&mut result, rhs, dimension);
    }
    Ok(result.into())
}

/// Adds dimension `dimension` of `source` to the end of `result`.
pub(super) fn push_dimension(result: &mut ArrayShape, source: &ArrayShape, dimension: usize) {
    result.dimensions.push(source.dimensions[dimension]);
    let is_dynamic = source.is_dynamic_dimension(dimension);
    if is_dynamic || !result.dynamic.is_empty() {
        result.set_dynamic_dimension(result.rank() - 1, is_dynamic);
    }
}

impl DotAttributes<'_> {
    /// The dimension numbers of a verified dot.
    pub fn dimensions(&self) -> DotDimensions {
        let indices = |list: &[i64]| list.iter().map(|&dimension| dimension as usize).collect();
        DotDimensions {
            lhs_batch: indices(self.lhs_batch_dims),
            lhs_contracting: indices(self.lhs_contracting_dims),
            rhs_batch: indices(self.rhs_batch_dims),
            rhs_contracting: indices(self.rhs_contracting_dims),
        }
    }
}

/// Dimension numbers of a dot, as indices into its operands' dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDimensions {
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Vec<usize>,
    /// Batch dimensions of the right operand, paired with the left's.
    pub rhs_batch: Vec<usize>,
    /// Contracting dimensions of the right operand, paired with the left's.
    pub rhs_contracting: Vec<usize>,
}

impl DotDimensions {
    /// The dimension numbers of a dot or ragged-dot, with their ranges (first label) and repeats (second) checked.
    pub(super) fn checked(
        view: &OpView<'_>,
        attributes: &DotAttributes<'_>,
        range: Label,
        repeats: Label,
    ) -> Result<Self, OpError> {
        let list = |attribute: &'static str, values: &[i64], operand: usize| {
            view.dimension_indices(range, attribute, values, view.array(operand)?.rank())
        };
        let dimensions = DotDimensions {
            lhs_batch: list("lhs_batch_dims", attributes.lhs_batch_dims, 0)?,
            lhs_contracting: list("lhs_contracting_dims", attributes.lhs_contracting_dims, 0)?,
            rhs_batch: list("rhs_batch_dims", attributes.rhs_batch_dims, 1)?,
            rhs_contracting: list("rhs_contracting_dims", attributes.rhs_contracting_dims, 1)?,
        };
        view.distinct(
            repeats,
            "lhs_contracting_dims",
            &[attributes.lhs_batch_dims, attributes.lhs_contracting_dims].concat(),
            false,
        )?;
        view.distinct(
            repeats,
            "rhs_contracting_dims",
            &[attributes.rhs_batch_dims, attributes.rhs_contracting_dims].concat(),
            false,
        )?;
        Ok(dimensions)
    }

    /// Checks that both sides name as many dimensions (first label) of the same sizes (second). Pairs with a left
    /// dimension in `ragged` may differ in size.
    pub(super) fn check_pairs(&self, view: &OpView<'_>, labels: [Label; 2], ragged: &[usize]) -> Result<(), OpError> {
        let (lhs, rhs) = (view.array(0)?, view.array(1)?);
        let lists = [
            ("rhs_contracting_dims", &self.lhs_contracting, &self.rhs_contracting),
            ("rhs_batch_dims", &self.lhs_batch, &self.rhs_batch),
        ];
        for (attribute, left, right) in lists {
            if left.len() != right.len() {
                let message = format!("must have length {}, as the left side's, got {}", left.len(), right.len());
                return Err(view.attribute_error(labels[0], attribute, message));
            }
            for (&left, &right) in left.iter().zip(right) {
                let (expected, found) = (lhs.dimensions[left], rhs.dimensions[right]);
                if expected != found && !ragged.contains(&left) {
                    let message =
                        format!("pairs dimension {left} of size {expected} with dimension {right} of size {found}");
                    return Err(view.attribute_error(labels[1], attribute, message));
                }
            }
        }
        Ok(())
    }

    /// Dimensions of the left operand, of the given rank, that are neither batch nor contracting.
    pub fn lhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.lhs_batch.contains(d) && !self.lhs_contracting.contains(d)).collect()
    }

    /// Dimensions of the right operand, of the given rank, that are neither batch nor contracting.
    pub fn rhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.rhs_batch.contains(d) && !self.rhs_contracting.contains(d)).collect()
    }
}

impl OpView<'_> {
    /// Element type of a dot or convolution: the declared one, which may be wider than the operands', or the
    /// operands' when none is declared. As in XLA, only a float result may be narrower,
    /// and complex operands have a complex result.
    pub(super) fn contraction_element_type(&self, label: Label) -> Result<ElementType, OpError> {
        self.element_class(None, 0, &ANY)?;
        let (lhs, rhs) = (self.array(0)?.element_type, self.array(1)?.element_type);
        let common = higher_precision(lhs, rhs);
        let Some(declared) = self.result.and_then(Shape::as_array).map(|array| array.element_type) else {
            return Ok(common);
        };
        if common.is_complex() && !declared.is_complex() {
            let message = format!("the result of {common} operands must be complex, got {declared}");
            return Err(self.error(label, message));
        }
        if !common.is_float() && declared != common && declared.bit_width() < common.bit_width() {
            let message = format!("the result must not be narrower than {common}, the operands' type, got {declared}");
            return Err(self.error(label, message));
        }
        Ok(declared)
    }
}

/// The type that a contraction of two types computes in when the result declares none: XLA's order.
fn higher_precision(a: ElementType, b: ElementType) -> ElementType {
    let rank = |t: ElementType| (t.is_complex(), t.is_float(), t.bit_width(), t.is_signed_integer());
    if rank(b) > rank(a) { b } else { a }
}
