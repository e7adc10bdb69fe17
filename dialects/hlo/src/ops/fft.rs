//! `fft`: discrete Fourier transforms over the last one to three dimensions.
//!
//! Source: operation semantics, "Fft".

use super::enumerations::FftType;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `fft`.
    pub struct FftAttributes<'a> {
        /// The transform.
        required fft_type ["C1"]: FftType,
        /// Lengths of the transformed dimensions, the last ones.
        required fft_length: &'a [i64],
    }
}

/// Definition of `fft`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Fft,
    Arity::Exactly(1),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(FftAttributes::TABLE);

/// - C1: `fft_type` is one of FFT, IFFT, RFFT, IRFFT.
/// - C2: `fft_length` has one to three entries, none negative.
/// - C3: the operand has that many dimensions at least.
/// - C4: the operand of RFFT is f32 or f64; of the others, complex.
/// - C5: the operand's last dimensions are `fft_length`; the last one of IRFFT's is half of it and one more.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let FftAttributes { fft_type, fft_length: lengths } = view.attributes()?;
    let Some(&last_length) = lengths.last().filter(|_| lengths.len() <= 3 && lengths.iter().all(|&length| length >= 0))
    else {
        let message = format!("must have 1 to 3 entries of at least 0, got {lengths:?}");
        return Err(view.attribute_error(Some("C2"), "fft_length", message));
    };
    let rank = operand.rank();
    let Some(first) = rank.checked_sub(lengths.len()) else {
        let message = format!("must have at least {} dimensions, as many as fft_length, got {operand}", lengths.len());
        return Err(view.operand_error(Some("C3"), 0, message));
    };
    let element_type = result_type(fft_type, operand.element_type).ok_or_else(|| {
        let expected = if fft_type == FftType::Rfft { "f32 or f64" } else { "c64 or c128" };
        let message = format!("must have element type {expected} for {fft_type}, got {}", operand.element_type);
        view.operand_error(Some("C4"), 0, message)
    })?;
    let mut result = operand.with_element_type(element_type);
    for (offset, &length) in lengths.iter().enumerate() {
        let dimension = first + offset;
        let size = operand.dimensions[dimension];
        let halved = fft_type == FftType::Irfft && dimension + 1 == rank;
        let expected = if halved { length / 2 + 1 } else { length };
        // A length of 0 has no frequencies: both 0 and 1 stand for it.
        if size != expected && !(halved && length == 0 && size == 0) {
            let message = format!("must have size {expected} in dimension {dimension}, got {operand}");
            return Err(view.operand_error(Some("C5"), 0, message));
        }
    }
    result.dimensions[rank - 1] = match fft_type {
        FftType::Rfft if last_length > 0 => last_length / 2 + 1,
        FftType::Fft | FftType::Ifft | FftType::Rfft | FftType::Irfft => last_length,
    };
    Ok(result.into())
}

/// Element type of the result; `None` where the operand's does not fit.
fn result_type(fft_type: FftType, operand: ElementType) -> Option<ElementType> {
    match fft_type {
        FftType::Fft | FftType::Ifft => operand.is_complex().then_some(operand),
        FftType::Rfft => operand.complex_of(),
        FftType::Irfft => operand.is_complex().then_some(operand.real_part()),
    }
}
