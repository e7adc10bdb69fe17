//! `sin` and `cos` for `f32`: reduction by multiples of π/2 in three floats, one of two polynomials by quadrant.

use super::Math;
use melior::ir::attribute::Attribute;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::{OpBuilder, Value},
};

/// π/2 in three floats.
const HALF_PI: [f64; 3] = [1.570_796_01, 3.139_164_73e-7, 5.390_302_53e-15];
/// Up to here the reduction is exact enough.
const LARGEST: f64 = 105_615.0;

impl<'c> Math<'_, 'c> {
    /// Error at most 1.6 units in the last place.
    pub(super) fn sin(self, x: Value<'c>) -> Value<'c> {
        let result = self.by_quadrant("sin", x, 0);
        // The fused multiply-adds make +0 of -0.
        self.builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }

    /// Error at most 1.6 units in the last place.
    pub(super) fn cos(self, x: Value<'c>) -> Value<'c> {
        self.by_quadrant("cos", x, 1)
    }

    /// sin(x + quadrants·π/2); `name` is the same function in C.
    fn by_quadrant(self, name: &str, x: Value<'c>, quadrants: i64) -> Value<'c> {
        let builder = self.builder;
        let n = self.round_product(x, std::f64::consts::FRAC_2_PI);
        let rest = HALF_PI.iter().fold(x, |rest, &part| builder.fma(n.float, self.constant(x, -part), rest));
        let quadrant = builder.addi(n.integer, builder.integer_like(n.integer, quadrants));
        let square = builder.mulf(rest, rest);
        let sine = self.horner(square, &[-1.951_529_59e-4, 8.332_160_87e-3, -1.666_665_46e-1]);
        let sine = builder.fma(sine, builder.mulf(square, rest), rest);
        let cosine = self.horner(square, &[2.443_315_71e-5, -1.388_731_62e-3, 4.166_664_56e-2, -0.5, 1.0]);
        let one = builder.integer_like(quadrant, 1);
        let is_odd = builder.cmpi(CmpiPredicate::Eq, builder.andi(quadrant, one), one);
        let value = builder.select(is_odd, cosine, sine);
        // Bit 1 of the quadrant is the sign.
        let sign = builder.andi(quadrant, builder.integer_like(quadrant, 2));
        let sign = builder.shli(sign, builder.integer_like(quadrant, 30));
        let value = self.from_bits(builder.xori(self.bits(value), sign));
        self.replace_where_large(name, x, value)
    }

    /// Calls the library for operands whose quadrant is not known exactly; costs nothing while there are none.
    fn replace_where_large(self, name: &str, x: Value<'c>, value: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let is_large = self.compare(builder.absf(x), CmpfPredicate::Ogt, LARGEST);
        let any = match builder.lanes_of(x.r#type()) {
            Some(_) => {
                let kind = Attribute::parse(builder.context(), "#vector.kind<or>")
                    .unwrap_or_else(|| Attribute::unit(builder.context()));
                builder.value("vector.reduction", &[is_large], builder.integer_type(1), &[("kind", kind)])
            }
            None => is_large,
        };
        let replaced = |builder: &OpBuilder<'c>| {
            let exact = Math { builder, target: self.target }.library_in_double(name, &[x]);
            vec![builder.select(is_large, exact, value)]
        };
        let results = builder.if_else(any, &[x.r#type()], replaced, |_| vec![value]);
        results.first().copied().unwrap_or(value)
    }
}
