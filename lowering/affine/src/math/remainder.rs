//! `fmod`: the remainder of the truncated quotient, which is exact.

use std::convert::Infallible;

use melior::ir::Attribute;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

use super::Math;

impl<'c> Math<'_, 'c> {
    /// The remainder. A quotient below 2^52 is known in `f64` up to one, so that one fused multiply-add makes the remainder, which
    /// has no more digits than the divisor; where one is larger, the library is called.
    pub(super) fn remainder(self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let is_double = self.is_double(x);
        let [wide_x, wide_y] = [x, y].map(|own| builder.absf(if is_double { own } else { self.widen(own) }));
        let quotient = builder.divf(wide_x, wide_y);
        let whole = builder.floor(quotient);
        let rest = builder.fma(builder.negf(whole), wide_y, wide_x);
        // The quotient may have been rounded up to a whole number.
        let is_below = self.compare(rest, CmpfPredicate::Olt, 0.0);
        let rest = builder.select(is_below, builder.addf(rest, wide_y), rest);
        // Nothing finite is divided by infinity.
        let is_small = builder.cmpf(CmpfPredicate::Olt, wide_x, wide_y);
        let rest = builder.select(is_small, wide_x, rest);
        let fast = builder.copysign(if is_double { rest } else { self.narrow(rest) }, x);
        let is_long = self.compare(quotient, CmpfPredicate::Oge, 4_503_599_627_370_496.0);
        // A quotient that is infinite may be one of finite numbers, if these are as wide.
        let is_number = if is_double {
            let is_finite = self.compare(wide_x, CmpfPredicate::Olt, f64::INFINITY);
            builder.andi(is_finite, self.compare(wide_y, CmpfPredicate::Ogt, 0.0))
        } else {
            self.compare(quotient, CmpfPredicate::Olt, f64::INFINITY)
        };
        let needs_library = self.any(builder.andi(is_long, is_number));
        let types = [x.r#type()];
        let result = builder.if_else(needs_library, &types, |builder, needs_library| {
            let math = Math { builder, target: self.target };
            Ok::<_, Infallible>(vec![if needs_library { math.exact_remainder(x, y) } else { fast }])
        });
        result.map_or(fast, |results| results[0])
    }

    /// The remainder by the library, one lane at a time, or by code of our own; that of two `f32` is one, too.
    pub(super) fn exact_remainder(self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        if self.target.vector_library_bits == 0 {
            return self.library_in_double("fmod", &[x, y]);
        }
        self.builder.value("arith.remf", &[x, y], x.r#type(), &[])
    }

    /// Whether a condition holds in any lane.
    fn any(self, condition: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        match Attribute::parse(builder.context(), "#vector.kind<or>") {
            Some(kind) if builder.lanes_of(condition.r#type()).is_some() => {
                builder.value("vector.reduction", &[condition], builder.integer_type(1), &[("kind", kind)])
            }
            _ => condition,
        }
    }
}
