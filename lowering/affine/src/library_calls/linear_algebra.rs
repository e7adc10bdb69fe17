//! fft, cholesky and triangular-solve.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::ops::cholesky::CholeskyAttributes;
use hlo::ops::enumerations::{FftType, TransposeKind};
use hlo::ops::fft::FftAttributes;
use hlo::ops::triangular_solve::TriangularSolveAttributes;
use hlo::shape::ArrayShape;

use super::{Argument, Call, array_operands, attributes_of};

/// Descriptor: kind, whether f64, batch, dimensions, their three sizes (of the real side).
pub(super) fn fft(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let operand = operand(computation, instruction, 0)?;
    let attributes: FftAttributes = attributes_of(instruction)?;
    let kind = match attributes.fft_type {
        FftType::Fft => 0,
        FftType::Ifft => 1,
        FftType::Rfft => 2,
        FftType::Irfft => 3,
    };
    let lengths = attributes.fft_length;
    let is_double = match operand.element_type.real_part() {
        ElementType::F32 => false,
        ElementType::F64 => true,
        other => return Err(format!("transforms of {other}")),
    };
    let batch: i64 = operand.dimensions[..operand.rank().saturating_sub(lengths.len())].iter().product();
    let mut descriptor = vec![kind, is_double.into(), batch, lengths.len() as i64];
    descriptor.extend(lengths.iter().copied().chain([1; 3]).take(3));
    Ok(Call::new("halo_fft", descriptor, vec![Argument::Operand(0), Argument::Result(0)]))
}

/// Descriptor: element type, batch, size, whether the lower triangle.
pub(super) fn cholesky(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let matrices = operand(computation, instruction, 0)?;
    let [batch, size, _] = matrix_sizes(matrices)?;
    let descriptor =
        vec![matrix_type(matrices)?, batch, size, attributes_of::<CholeskyAttributes>(instruction)?.lower.into()];
    Ok(Call::new("halo_cholesky", descriptor, vec![Argument::Operand(0), Argument::Result(0)]))
}

/// Descriptor: element type, batch, rows, columns, left side, lower, unit diagonal, transposition.
pub(super) fn triangular_solve(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let attributes: TriangularSolveAttributes = attributes_of(instruction)?;
    let b = operand(computation, instruction, 1)?;
    let [batch, rows, columns] = matrix_sizes(b)?;
    let transpose = match attributes.transpose_a {
        TransposeKind::NoTranspose => 0,
        TransposeKind::Transpose => 1,
        TransposeKind::Adjoint => 2,
    };
    let flags = [attributes.left_side, attributes.lower, attributes.unit_diagonal].map(i64::from);
    let descriptor = [&[matrix_type(b)?, batch, rows, columns][..], &flags, &[transpose]].concat();
    let arguments = vec![Argument::Operand(0), Argument::Operand(1), Argument::Result(0)];
    Ok(Call::new("halo_triangular_solve", descriptor, arguments))
}

fn operand<'a>(
    computation: &'a Computation,
    instruction: &Instruction,
    number: usize,
) -> Result<&'a ArrayShape, String> {
    let operands = array_operands(computation, instruction);
    operands.get(number).copied().ok_or_else(|| format!("operand {number} is no array"))
}

/// Number of matrices, rows and columns.
fn matrix_sizes(shape: &ArrayShape) -> Result<[i64; 3], String> {
    match &shape.dimensions[..] {
        [batch @ .., rows, columns] => Ok([batch.iter().product(), *rows, *columns]),
        _ => Err(format!("{shape} is no matrix")),
    }
}

/// The element type as matrices have it; those of fewer bits were expanded.
fn matrix_type(shape: &ArrayShape) -> Result<i64, String> {
    match shape.element_type {
        ElementType::F32 | ElementType::F64 | ElementType::C64 | ElementType::C128 => {
            Ok(shape.element_type.primitive_type())
        }
        other => Err(format!("matrices of {other}")),
    }
}
