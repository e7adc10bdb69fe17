//! `erf` for `f32`: a polynomial near zero, 1 less the fourth power of one further out.

use super::Math;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

impl<'c> Math<'_, 'c> {
    /// Error at most 1.5 units in the last place.
    pub(super) fn erf(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (magnitude, sign) = self.magnitude_and_sign(x);
        // erf is 1 to the last bit from here on.
        let limited = self.at_most(magnitude, 3.95);
        let root = self.horner(
            limited,
            &[
                -1.826_697_624e-4,
                3.278_888_184e-3,
                -2.247_757_591e-2,
                6.697_180_95e-2,
                -5.208_755_516e-2,
                -6.163_554_202e-2,
                -3.098_723_583e-1,
                1.005_776_013,
            ],
        );
        let root = builder.mulf(root, root);
        let large = builder.fma(builder.negf(root), root, self.constant(x, 1.0));
        let square = builder.mulf(x, x);
        let polynomial = self.horner(
            square,
            &[
                6.859_115_682e-5,
                -7.689_922_881e-4,
                5.149_632_064e-3,
                -2.683_226_853e-2,
                1.128_304_375e-1,
                -3.761_257_619e-1,
                1.283_791_584e-1,
            ],
        );
        let small = builder.fma(polynomial, magnitude, magnitude);
        let is_large = self.compare(magnitude, CmpfPredicate::Ogt, 1.15);
        self.with_sign(builder.select(is_large, large, small), sign)
    }
}
