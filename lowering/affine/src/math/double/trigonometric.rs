//! sin, cos and tan: reduction by multiples of π/2, with as many digits of 2/π as the operand needs.

use std::convert::Infallible;

use melior::ir::Attribute;
use melior::ir::attribute::{DenseI32ArrayAttribute, FlatSymbolRefAttribute, TypeAttribute};
use mlir_ext::arith::CmpiPredicate::Ne;
use mlir_ext::builder::{OpBuilder, Value};

use super::{HALF_PI, Real};

const SIN: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];
const COS: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// Up to here three numbers for π/2 are exact enough.
const LARGEST: f64 = 1_048_576.0;

/// The bits of 2/π, behind 64 zeros.
const TWO_OVER_PI: [u64; 21] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// Name of the table of these bits in a module.
const TABLE: &str = "math_two_over_pi";

/// A multiple of π/2, of which the lowest two bits count, and the rest as the sum of two numbers.
struct Angle<'b, 'c> {
    quadrant: Value<'c>,
    rest: Real<'b, 'c>,
    low: Real<'b, 'c>,
}

impl<'b, 'c> Real<'b, 'c> {
    pub(super) fn sin(self) -> Self {
        self.by_quadrant(0).but_if(self.is(0.0), self)
    }

    pub(super) fn cos(self) -> Self {
        self.by_quadrant(1)
    }

    pub(super) fn tan(self) -> Self {
        let angle = self.reduce_angle();
        let (sine, cosine) = (angle.sine(), angle.cosine());
        let is_odd = self.has_bit(angle.quadrant, 0);
        let numerator = sine.but_if(is_odd, -cosine);
        (numerator / cosine.but_if(is_odd, sine)).but_if(self.is(0.0), self)
    }

    /// sin(x + quadrants·π/2).
    fn by_quadrant(self, quadrants: i64) -> Self {
        let angle = self.reduce_angle();
        let quadrant = self.builder.addi(angle.quadrant, self.builder.integer_like(angle.quadrant, quadrants));
        let value = angle.sine().but_if(self.has_bit(quadrant, 0), angle.cosine());
        value.but_if(self.has_bit(quadrant, 1), -value)
    }

    fn has_bit(self, integer: Value<'c>, bit: u32) -> Value<'c> {
        let mask = self.builder.integer_like(integer, 1 << bit);
        self.integer_is(Ne, self.builder.andi(integer, mask), 0)
    }

    /// NaN of infinity and NaN.
    fn reduce_angle(self) -> Angle<'b, 'c> {
        let builder = self.builder;
        let (n, quadrant) = (self * std::f64::consts::FRAC_2_PI).round();
        let first = (-n).fma(self.constant(HALF_PI[0]), self);
        let product = n * HALF_PI[1];
        let error = n.product_error(self.constant(HALF_PI[1]), product) + n * HALF_PI[2];
        let rest = first - product;
        let virtual_part = first - rest;
        let low = (first - (rest + virtual_part)) + (virtual_part - product) - error;
        let is_large =
            builder.cmpf(mlir_ext::arith::CmpfPredicate::Oge, self.abs().value, self.constant(LARGEST).value);
        let double = self.value.r#type();
        let types = [quadrant.r#type(), double, double];
        let Ok(values) = builder.if_else(is_large, &types, |builder: &OpBuilder<'c>, is_large| {
            let angle = match is_large {
                true => Real { builder, value: self.value }.reduce_large(),
                false => [quadrant, rest.value, low.value],
            };
            Ok::<_, Infallible>(angle.to_vec())
        });
        let [quadrant, rest, low] = values[..] else {
            return Angle { quadrant, rest, low };
        };
        Angle { quadrant, rest: self.with(rest), low: self.with(low) }
    }

    /// As [`Self::reduce_angle`], for operands of at least [`LARGEST`]: their mantissas times a window of the bits of 2/π,
    /// in which all before it are whole turns.
    fn reduce_large(self) -> [Value<'c>; 3] {
        let builder = self.builder;
        let bits = self.bits();
        let word = |value: u64| builder.integer_like(bits, value as i64);
        let field = builder.andi(builder.shrui(bits, word(52)), word(0x7ff));
        let mantissa = builder.ori(builder.andi(bits, word((1 << 52) - 1)), word(1 << 52));
        // The mantissa counts 2^(field - 1075); the window begins with the bit that makes it 2 turns of π/2.
        let first = builder.subi(field, word(1075 - 62));
        let (number, offset) = (builder.shrui(first, word(6)), builder.andi(first, word(63)));
        // Infinity and NaN have no place in the table.
        let number = builder.minsi(number, word(TWO_OVER_PI.len() as u64 - 4));
        let words: Vec<Value<'c>> = (0..4).map(|place| self.table_word(builder.addi(number, word(place)))).collect();
        let rest_of_word = builder.subi(word(63), offset);
        let window: Vec<Value<'c>> = words
            .windows(2)
            .map(|pair| {
                let upper = builder.shli(pair[0], offset);
                let lower = builder.shrui(builder.shrui(pair[1], word(1)), rest_of_word);
                builder.ori(upper, lower)
            })
            .collect();
        // The lowest 192 bits of the product.
        let wide = |value: Value<'c>| builder.extui(value, builder.integer_type(128));
        let product = |value: Value<'c>| builder.muli(wide(mantissa), wide(value));
        let sixty_four = builder.integer_like(wide(mantissa), 64);
        let low_product = product(window[2]);
        let middle = builder.addi(product(window[1]), builder.shrui(low_product, sixty_four));
        let upper = builder.shrui(middle, sixty_four);
        let narrow = |value: Value<'c>| builder.trunci(value, builder.integer_type(64));
        let high = builder.addi(builder.muli(mantissa, window[0]), narrow(upper));
        let parts = [high, narrow(middle), narrow(low_product)];
        // Two bits of whole quarters; what follows is their fraction, as a signed number.
        let quarters = builder.shrui(parts[0], word(62));
        let shifted = |upper: Value<'c>, lower: Value<'c>| {
            builder.ori(builder.shli(upper, word(2)), builder.shrui(lower, word(62)))
        };
        let fraction = [shifted(parts[0], parts[1]), shifted(parts[1], parts[2])];
        let is_upper_half = builder.shrui(fraction[0], word(63));
        let quadrant = builder.addi(quarters, is_upper_half);
        // From the upper to the lower: 32 bits each, the first with a sign.
        let half_word = |value: Value<'c>| builder.andi(value, word(0xffff_ffff));
        let pieces = [
            builder.shrsi(fraction[0], word(32)),
            half_word(fraction[0]),
            builder.shrui(fraction[1], word(32)),
            half_word(fraction[1]),
        ];
        let mut sum = self.of_integer(pieces[0]) * 2f64.powi(-32);
        let mut low = self.constant(0.0);
        for (place, &piece) in pieces.iter().enumerate().skip(1) {
            let term = self.of_integer(piece) * 2f64.powi(-32 * (place as i32 + 1));
            let total = sum + term;
            low = low + (term - (total - sum));
            sum = total;
        }
        let rest = sum * HALF_PI[0];
        let rest_low = sum.product_error(self.constant(HALF_PI[0]), rest) + sum * HALF_PI[1] + low * HALF_PI[0];
        // The sign of the operand.
        let is_negative = self.below(0.0);
        let zero = word(0);
        let quadrant = builder.select(is_negative, builder.subi(zero, quadrant), quadrant);
        // Of an infinity nothing is left but a NaN.
        let rest = rest.but_if(is_negative, -rest) + self * 0.0;
        [quadrant, rest.value, rest_low.but_if(is_negative, -rest_low).value]
    }

    /// A word of the table.
    fn table_word(self, number: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let context = builder.context();
        let (i64_type, pointer) = (builder.integer_type(64), melior::dialect::llvm::r#type::pointer(context, 0));
        let attribute = |text: &str| Attribute::parse(context, text).unwrap_or_else(|| Attribute::unit(context));
        builder.define_once(TABLE, |builder| {
            let words: Vec<String> = TWO_OVER_PI.iter().map(|&word| (word as i64).to_string()).collect();
            let values = format!("dense<[{}]> : tensor<{}xi64>", words.join(", "), words.len());
            let r#type = melior::dialect::llvm::r#type::array(i64_type, words.len() as u32);
            let attributes = [
                ("global_type", TypeAttribute::new(r#type).into()),
                ("sym_name", builder.string_attribute(TABLE)),
                ("linkage", attribute("#llvm.linkage<internal>")),
                ("constant", Attribute::unit(context)),
                ("value", attribute(&values)),
                ("addr_space", builder.integer_attribute(builder.integer_type(32), 0)),
            ];
            builder.operation("llvm.mlir.global", &[], &[], &attributes, vec![builder.empty_region()]);
        });
        let symbol = FlatSymbolRefAttribute::new(context, TABLE).into();
        let table = builder.value("llvm.mlir.addressof", &[], pointer, &[("global_name", symbol)]);
        let dynamic = DenseI32ArrayAttribute::new(context, &[i32::MIN]).into();
        let attributes = [("rawConstantIndices", dynamic), ("elem_type", TypeAttribute::new(i64_type).into())];
        let place = builder.value("llvm.getelementptr", &[table, number], pointer, &attributes);
        builder.value("llvm.load", &[place], i64_type, &[])
    }
}

impl<'b, 'c> Angle<'b, 'c> {
    /// The sine of the rest.
    fn sine(&self) -> Real<'b, 'c> {
        let (x, y) = (self.rest, self.low);
        let square = x * x;
        let cube = square * x;
        let series = square.series(&SIN[1..]);
        x - ((square * (y * 0.5 - cube * series) - y) - cube * SIN[0])
    }

    /// The cosine of the rest.
    fn cosine(&self) -> Real<'b, 'c> {
        let (x, y) = (self.rest, self.low);
        let square = x * x;
        let series = square * square.series(&COS);
        let half = square * 0.5;
        let w = 1.0 - half;
        w + (((1.0 - w) - half) + (square * series - x * y))
    }
}
