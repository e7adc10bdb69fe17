//! Powers and roots, and the error function.

use mlir_ext::builder::Value;

use super::Real;
use crate::math::{Math, MathTarget};

/// Of log₂: the series behind 2·s·(1 + s²/3), times 3.
const LOG2: [f64; 6] = [
    5.999_999_999_999_946e-1,
    4.285_714_285_785_502e-1,
    3.333_333_298_183_774_3e-1,
    2.727_281_238_085_34e-1,
    2.306_607_457_755_617_5e-1,
    2.069_750_178_003_384_2e-1,
];
const EXP2: [f64; 5] = [
    1.666_666_666_666_660_2e-1,
    -2.777_777_777_701_559_3e-3,
    6.613_756_321_437_934e-5,
    -1.653_390_220_546_525_2e-6,
    4.138_136_797_057_238_5e-8,
];
/// 2 / (3 ln 2) and log₂ 1.5, each in two numbers.
const TWO_THIRDS_LOG2_E: [f64; 2] = [0.961_796_693_925_975_6, 5.057_761_664_812_590_7e-17];
const LOG2_OF_1_5: [f64; 2] = [5.849_624_872_207_642e-1, 1.350_039_202_129_749e-8];
const LN_2: [f64; 2] = [std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17];

const CBRT: [f64; 5] = [
    1.875_951_824_271_77,
    -1.884_979_795_433_771_7,
    1.621_429_720_105_354_5,
    -0.758_397_934_778_766,
    0.145_996_192_886_612_45,
];

const ERF_NEAR_1: f64 = 8.450_629_115_104_675e-1;
const PP: [f64; 5] = [
    1.283_791_670_955_125_6e-1,
    -3.250_421_072_470_015e-1,
    -2.848_174_957_559_851e-2,
    -5.770_270_296_489_442e-3,
    -2.376_301_665_665_016_3e-5,
];
const QQ: [f64; 6] = [
    1.0,
    3.979_172_239_591_553_5e-1,
    6.502_224_998_876_73e-2,
    5.081_306_281_875_766e-3,
    1.324_947_380_043_216_4e-4,
    -3.960_228_278_775_368e-6,
];
const PA: [f64; 7] = [
    -2.362_118_560_752_659_4e-3,
    4.148_561_186_837_483_3e-1,
    -3.722_078_760_357_013e-1,
    3.183_466_199_011_617_5e-1,
    -1.108_946_942_823_966_8e-1,
    3.547_830_432_561_823_6e-2,
    -2.166_375_594_868_791e-3,
];
const QA: [f64; 7] = [
    1.0,
    1.064_208_804_008_442_3e-1,
    5.403_979_177_021_71e-1,
    7.182_865_441_419_627e-2,
    1.261_712_198_087_616_4e-1,
    1.363_708_391_202_905e-2,
    1.198_449_984_679_910_7e-2,
];
const RA: [f64; 8] = [
    -9.864_944_034_847_148e-3,
    -6.938_585_727_071_818e-1,
    -1.055_862_622_532_329_1e1,
    -6.237_533_245_032_600_6e1,
    -1.623_966_694_625_734_7e2,
    -1.846_050_929_067_110_4e2,
    -8.128_743_550_630_66e1,
    -9.814_329_344_169_145,
];
const SA: [f64; 9] = [
    1.0,
    1.965_127_166_743_925_7e1,
    1.376_577_541_435_190_4e2,
    4.345_658_774_752_292_3e2,
    6.453_872_717_332_679e2,
    4.290_081_400_275_678_3e2,
    1.086_350_055_417_794_4e2,
    6.570_249_770_319_282,
    -6.042_441_521_485_81e-2,
];
const RB: [f64; 7] = [
    -9.864_942_924_700_1e-3,
    -7.992_832_376_805_23e-1,
    -1.775_795_491_775_475_2e1,
    -1.606_363_848_558_219_2e2,
    -6.375_664_433_683_896e2,
    -1.025_095_131_611_077_2e3,
    -4.835_191_916_086_514e2,
];
const SB: [f64; 8] = [
    1.0,
    3.033_806_074_348_246e1,
    3.257_925_129_965_739e2,
    1.536_729_586_084_437e3,
    3.199_858_219_508_595_5e3,
    2.553_050_406_433_164_4e3,
    4.745_285_412_069_553_7e2,
    -2.244_095_244_658_582e1,
];

impl<'c> Real<'_, 'c> {
    /// log₂ of a positive finite number as the sum of two numbers.
    fn log2(self) -> [Self; 2] {
        let (exponent, mantissa) = self.exponent_and_mantissa(0.866_025_403_784_438_6);
        // The quotient is small near 1 and near 1.5.
        let is_upper = mantissa.above(1.224_744_871_391_589);
        let base = self.constant(1.0).but_if(is_upper, self.constant(1.5));
        let of_base = LOG2_OF_1_5.map(|part| self.constant(0.0).but_if(is_upper, self.constant(part)));
        let difference = mantissa - base;
        let sum = mantissa + base;
        let sum_low = mantissa - (sum - base);
        let s = difference / sum;
        let s_low = ((-s).fma(sum, difference) - s * sum_low) / sum;
        let square = s * s;
        let square_low = s.product_error(s, square);
        let r = square * square * square.series(&LOG2) + s_low * s * 2.0 + square_low;
        let three = square + 3.0;
        let factor = three + r;
        let factor_low = r - (factor - three) + (square - (three - 3.0));
        let high = s * factor;
        let low = s.product_error(factor, high) + s_low * factor + factor_low * s;
        let product = high + low;
        let product_low = low - (product - high);
        let scale = self.constant(TWO_THIRDS_LOG2_E[0]);
        let z = scale * product;
        let z_low = scale.product_error(product, z) + product * TWO_THIRDS_LOG2_E[1] + scale * product_low + of_base[1];
        let whole = self.of_integer(exponent) + of_base[0];
        let rest = z + z_low;
        let result = whole + rest;
        [result, rest - (result - whole) + (z_low - (rest - z))]
    }

    pub(super) fn pow(self, y: Self) -> Self {
        let x = self.abs();
        let [log, log_low] = x.log2();
        let is_special = self.builder.ori(x.is(0.0), x.is(f64::INFINITY));
        let of_special = self.constant(f64::INFINITY).but_if(x.is(0.0), self.constant(f64::NEG_INFINITY));
        let (log, log_low) = (log.but_if(is_special, of_special), log_low.but_if(is_special, self.constant(0.0)));
        let product = y * log;
        let is_large = product.abs().above(1200.0);
        let low = (y.product_error(log, product) + y * log_low).but_if(is_large, self.constant(0.0));
        let limited = product.clamp(-1200.0, 1200.0);
        let (n, integer) = limited.round();
        let rest = limited - n;
        let t = rest + low;
        let t_low = low - (t - rest);
        let u = t * LN_2[0];
        let v = t.product_error(self.constant(LN_2[0]), u) + t_low * LN_2[0] + t * LN_2[1];
        let z = u + v;
        let w = v - (z - u);
        let square = z * z;
        let c = z - square * square.series(&EXP2);
        let r = (z * c) / (c - 2.0) - (w + z * w);
        let magnitude = (1.0 - (r - z)).scale(integer).but_if(x.is(1.0), self.constant(1.0));
        let math = Math::new(self.builder, MathTarget::default());
        self.with(math.pow_specials(self.value, y.value, magnitude.value))
    }

    pub(super) fn cbrt(self) -> Self {
        let builder = self.builder;
        let x = self.abs();
        let is_subnormal = x.below(f64::MIN_POSITIVE);
        let x = x.but_if(is_subnormal, x * 2f64.powi(54));
        let bits = x.bits();
        let third = builder.divui(bits, builder.integer_like(bits, 3));
        let t = self.of_bits(builder.addi(third, builder.integer_like(bits, 715_094_163 << 32)));
        let r = t * t * (t / x);
        let t = t * r.series(&CBRT);
        // To few enough digits that the square is exact, and no smaller than the root.
        let bits = t.bits();
        let up = builder.addi(bits, builder.integer_like(bits, 0x8000_0000));
        let t = self.of_bits(builder.andi(up, builder.integer_like(bits, !0x3fff_ffff)));
        let r = x / (t * t);
        let t = t + t * ((r - t) / (t + t + r));
        let result = t.but_if(is_subnormal, t * 2f64.powi(-18)).copysign(self);
        let is_itself = builder.ori(self.is(0.0), builder.ori(self.abs().is(f64::INFINITY), self.is_nan()));
        result.but_if(is_itself, self)
    }

    pub(super) fn hypot(self, other: Self) -> Self {
        let builder = self.builder;
        let (a, b) = (self.abs(), other.abs());
        let is_larger = a.compare(mlir_ext::arith::CmpfPredicate::Ogt, b);
        let (large, small) = (a.or_unless(is_larger, b), b.or_unless(is_larger, a));
        // Squares neither overflow nor vanish.
        let factor = self.constant(1.0).but_if(large.above(2f64.powi(510)), self.constant(2f64.powi(-700)));
        let factor = factor.but_if(large.below(2f64.powi(-450)), self.constant(2f64.powi(700)));
        let inverse = self.constant(1.0).but_if(large.above(2f64.powi(510)), self.constant(2f64.powi(700)));
        let inverse = inverse.but_if(large.below(2f64.powi(-450)), self.constant(2f64.powi(-700)));
        let (large, small) = (large * factor, small * factor);
        let squares = [large * large, small * small];
        let lost = large.product_error(large, squares[0]) + small.product_error(small, squares[1]);
        let result = (lost + squares[1] + squares[0]).sqrt() * inverse;
        let result = result.but_if(self.is_either_nan(other), self.constant(f64::NAN));
        let is_infinite = builder.ori(a.is(f64::INFINITY), b.is(f64::INFINITY));
        result.but_if(is_infinite, self.constant(f64::INFINITY))
    }

    fn is_either_nan(self, other: Self) -> Value<'c> {
        self.compare(mlir_ext::arith::CmpfPredicate::Uno, other)
    }

    pub(super) fn erf(self) -> Self {
        let x = self.abs();
        let square = x * x;
        let small = x + x * (square.series(&PP) / square.series(&QQ));
        let s = x - 1.0;
        let medium = s.series(&PA) / s.series(&QA) + ERF_NEAR_1;
        let limited = x.clamp(0.5, 6.0);
        let s = 1.0 / (limited * limited);
        let is_far = limited.above(1.0 / 0.35);
        let quotient = (s.series(&RA) / s.series(&SA)).but_if(is_far, s.series(&RB) / s.series(&SB));
        let z = limited.upper_half();
        let power = (-z * z - 0.5625).exp() * ((z - limited) * (z + limited) + quotient).exp();
        let large = 1.0 - power / limited;
        let result = large.but_if(x.below(1.25), medium).but_if(x.below(0.84375), small);
        result.but_if(self.is_nan(), self).copysign(self)
    }
}
