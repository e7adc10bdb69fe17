//! Factorisations, Fourier transforms, batch normalisation.

use super::{Draft, HloBuilder, Op};
use crate::op_kind::OpKind;
use crate::ops::batch_norm::BatchNormAttributes;
use crate::ops::cholesky::CholeskyAttributes;
use crate::ops::enumerations::{FftType, TransposeKind};
use crate::ops::fft::FftAttributes;
use crate::ops::triangular_solve::TriangularSolveAttributes;

/// How [`HloBuilder::triangular_solve`] reads its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriangularSolve {
    /// Solves op(a) x = b rather than x op(a) = b.
    pub left_side: bool,
    /// The lower triangle holds the matrix, rather than the upper.
    pub lower: bool,
    /// The diagonal counts as ones and is not read.
    pub unit_diagonal: bool,
    /// What op is.
    pub transpose_a: TransposeKind,
}

impl HloBuilder {
    /// The Cholesky factors of symmetric (Hermitian) positive definite matrices, of which only the triangle `lower` (or
    /// the upper) is read and written.
    #[track_caller]
    pub fn cholesky<'b>(&'b self, operand: Op<'b>, lower: bool) -> Op<'b> {
        self.push(Draft::new(OpKind::Cholesky, &[operand]).with_attributes(CholeskyAttributes { lower }))
    }

    /// The solutions of systems with triangular matrices.
    #[track_caller]
    pub fn triangular_solve<'b>(&'b self, a: Op<'b>, b: Op<'b>, options: TriangularSolve) -> Op<'b> {
        let TriangularSolve { left_side, lower, unit_diagonal, transpose_a } = options;
        let attributes = TriangularSolveAttributes { left_side, lower, unit_diagonal, transpose_a };
        self.push(Draft::new(OpKind::TriangularSolve, &[a, b]).with_attributes(attributes))
    }

    /// The Fourier transform over the last one to three dimensions, of sizes `fft_length`.
    #[track_caller]
    pub fn fft<'b>(&'b self, operand: Op<'b>, fft_type: FftType, fft_length: &[i64]) -> Op<'b> {
        self.push(Draft::new(OpKind::Fft, &[operand]).with_attributes(FftAttributes { fft_type, fft_length }))
    }

    /// The operand normalised over all dimensions but `feature_index`: a tuple of result, mean and variance.
    #[track_caller]
    pub fn batch_norm_training<'b>(
        &'b self,
        operand: Op<'b>,
        scale: Op<'b>,
        offset: Op<'b>,
        epsilon: f64,
        feature_index: i64,
    ) -> Op<'b> {
        self.batch_norm(OpKind::BatchNormTraining, &[operand, scale, offset], epsilon, feature_index)
    }

    /// The operand normalised with a mean and variance that are known.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the document's list of arguments")]
    pub fn batch_norm_inference<'b>(
        &'b self,
        operand: Op<'b>,
        scale: Op<'b>,
        offset: Op<'b>,
        mean: Op<'b>,
        variance: Op<'b>,
        epsilon: f64,
        feature_index: i64,
    ) -> Op<'b> {
        let operands = [operand, scale, offset, mean, variance];
        self.batch_norm(OpKind::BatchNormInference, &operands, epsilon, feature_index)
    }

    /// The gradients of batch normalisation: a tuple of those of operand, scale and offset.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the document's list of arguments")]
    pub fn batch_norm_grad<'b>(
        &'b self,
        operand: Op<'b>,
        scale: Op<'b>,
        mean: Op<'b>,
        variance: Op<'b>,
        grad_output: Op<'b>,
        epsilon: f64,
        feature_index: i64,
    ) -> Op<'b> {
        let operands = [operand, scale, mean, variance, grad_output];
        self.batch_norm(OpKind::BatchNormGrad, &operands, epsilon, feature_index)
    }

    #[track_caller]
    fn batch_norm<'b>(&'b self, kind: OpKind, operands: &[Op<'b>], epsilon: f64, feature_index: i64) -> Op<'b> {
        self.push(Draft::new(kind, operands).with_attributes(BatchNormAttributes { epsilon, feature_index }))
    }
}
