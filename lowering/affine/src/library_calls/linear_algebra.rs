//! fft, cholesky and triangular-solve.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::ops::enumerations::{FftType, TransposeKind};
use hlo::shape::ArrayShape;

use super::{Argument, Call, array_operands, primitive_type};

/// Descriptor: kind, whether f64, batch, dimensions, their three sizes (of the real side).
pub(super) fn fft(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let operand = operand(computation, instruction, 0)?;
    let attributes = &instruction.attributes;
    let kind = attributes.word("fft_type").and_then(|word| word.parse().ok()).ok_or("fft without a type")?;
    let kind = match kind {
        FftType::Fft => 0,
        FftType::Ifft => 1,
        FftType::Rfft => 2,
        FftType::Irfft => 3,
    };
    let lengths = attributes.ints("fft_length");
    let is_double = match operand.element_type.real_part() {
        ElementType::F32 => false,
        ElementType::F64 => true,
        other => return Err(format!("transforms of {other}")),
    };
    let batch: i64 = operand.dimensions[..operand.rank().saturating_sub(lengths.len())].iter().product();
    let mut descriptor = vec![kind, is_double.into(), batch, lengths.len() as i64];
    descriptor.extend((0..3).map(|number| lengths.get(number).copied().unwrap_or(1)));
    Ok(Call { symbol: "halo_fft", descriptor, arguments: vec![Argument::Operand(0), Argument::Result(0)] })
}

/// Descriptor: element type, batch, size, whether the lower triangle.
pub(super) fn cholesky(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let matrices = operand(computation, instruction, 0)?;
    let [batch, size, _] = matrix_sizes(matrices)?;
    let descriptor = vec![matrix_type(matrices)?, batch, size, instruction.attributes.flag("lower").into()];
    Ok(Call { symbol: "halo_cholesky", descriptor, arguments: vec![Argument::Operand(0), Argument::Result(0)] })
}

/// Descriptor: element type, batch, rows, columns, left side, lower, unit diagonal, transposition.
pub(super) fn triangular_solve(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let attributes = &instruction.attributes;
    let b = operand(computation, instruction, 1)?;
    let [batch, rows, columns] = matrix_sizes(b)?;
    let transpose = attributes.word("transpose_a").and_then(|word| word.parse().ok());
    let transpose = match transpose.ok_or("triangular-solve without transpose_a")? {
        TransposeKind::NoTranspose => 0,
        TransposeKind::Transpose => 1,
        TransposeKind::Adjoint => 2,
    };
    let flag = |name: &str| i64::from(attributes.flag(name));
    let descriptor =
        vec![matrix_type(b)?, batch, rows, columns, flag("left_side"), flag("lower"), flag("unit_diagonal"), transpose];
    let arguments = vec![Argument::Operand(0), Argument::Operand(1), Argument::Result(0)];
    Ok(Call { symbol: "halo_triangular_solve", descriptor, arguments })
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
            Ok(primitive_type(shape.element_type))
        }
        other => Err(format!("matrices of {other}")),
    }
}
