//! `erf` for `f32`: a polynomial near zero, 1 - exp(polynomial) further out.

use super::Math;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

impl<'c> Math<'_, 'c> {
    /// Error at most 1 unit in the last place.
    pub(super) fn erf(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let magnitude = builder.absf(x);
        // erf is 1 to the last bit long before 10.
        let too_large = self.compare(magnitude, CmpfPredicate::Ogt, 10.0);
        let t = builder.select(too_large, self.constant(x, 10.0), magnitude);
        let high = self.horner(t, &[-1.728_534_70e-5, 3.831_971_26e-4]);
        let low = self.horner(t, &[-3.883_964_38e-3, 2.425_462_19e-2]);
        let sum = builder.fma(high, builder.mulf(t, t), low);
        let sum = [-0.106_777_877, -0.634_846_687, -0.128_717_512]
            .iter()
            .fold(sum, |sum, &coefficient| self.fma_constant(sum, t, coefficient));
        let exponent = builder.fma(sum, t, builder.negf(t));
        let large = builder.subf(self.constant(x, 1.0), self.exp(exponent));
        let large = builder.copysign(large, x);
        let square = builder.mulf(x, x);
        let polynomial = self.horner(
            square,
            &[-5.967_617_03e-4, 4.991_194_23e-3, -2.676_813_49e-2, 0.112_819_925, -0.376_125_336, 0.128_379_166],
        );
        let small = builder.fma(polynomial, x, x);
        let is_small = self.compare(magnitude, CmpfPredicate::Ole, 0.927_734_375);
        // The fused multiply-add makes +0 of -0.
        let result = builder.select(is_small, small, large);
        builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }
}
