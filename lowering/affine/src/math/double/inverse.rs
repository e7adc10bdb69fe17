//! Inverse trigonometric functions.

use super::{HALF_PI, Real};

const ATAN_HIGH: [f64; 4] = [
    4.636_476_090_008_060_935_15e-1,
    7.853_981_633_974_482_789_99e-1,
    9.827_937_232_473_290_540_82e-1,
    1.570_796_326_794_896_558_00,
];
const ATAN_LOW: [f64; 4] = [
    2.269_877_745_296_168_709_24e-17,
    3.061_616_997_868_383_017_93e-17,
    1.390_331_103_123_099_845_16e-17,
    6.123_233_995_736_766_035_87e-17,
];
const ATAN: [f64; 11] = [
    3.333_333_333_333_293_180_27e-1,
    -1.999_999_999_987_648_324_76e-1,
    1.428_571_427_250_346_637_11e-1,
    -1.111_111_040_546_235_578_80e-1,
    9.090_887_133_436_506_561_96e-2,
    -7.691_876_205_044_829_994_95e-2,
    6.661_073_137_387_531_206_69e-2,
    -5.833_570_133_790_573_486_45e-2,
    4.976_877_994_615_932_360_17e-2,
    -3.653_157_274_421_691_552_70e-2,
    1.628_582_011_536_578_236_23e-2,
];
const ASIN_NUMERATOR: [f64; 6] = [
    1.666_666_666_666_666_574_15e-1,
    -3.255_658_186_224_009_154_05e-1,
    2.012_125_321_348_629_258_81e-1,
    -4.005_553_450_067_941_140_27e-2,
    7.915_349_942_898_145_321_76e-4,
    3.479_331_075_960_211_675_70e-5,
];
const ASIN_DENOMINATOR: [f64; 5] = [
    1.0,
    -2.403_394_911_734_414_218_78,
    2.020_945_760_233_505_694_71,
    -6.882_839_716_054_532_930_30e-1,
    7.703_815_055_590_193_527_91e-2,
];

impl Real<'_, '_> {
    pub(super) fn atan(self) -> Self {
        let x = self.abs();
        // One of five ways to an argument below 7/16, each as numerator and denominator.
        let bounds = [0.4375, 0.6875, 1.1875, 2.4375];
        let zero = self.constant(0.0);
        let mut argument = [self.constant(-1.0), x];
        let mut base = [self.constant(ATAN_HIGH[3]), self.constant(ATAN_LOW[3])];
        let nearer = [
            ([x - 1.5, x * 1.5 + 1.0], Some(2)),
            ([x - 1.0, x + 1.0], Some(1)),
            ([x * 2.0 - 1.0, x + 2.0], Some(0)),
            ([x, self.constant(1.0)], None),
        ];
        for ((way, number), bound) in nearer.into_iter().zip(bounds.into_iter().rev()) {
            let is_below = x.below(bound);
            let of_base = |values: [f64; 4]| number.map_or(zero, |number: usize| self.constant(values[number]));
            argument = [argument[0].but_if(is_below, way[0]), argument[1].but_if(is_below, way[1])];
            base = [base[0].but_if(is_below, of_base(ATAN_HIGH)), base[1].but_if(is_below, of_base(ATAN_LOW))];
        }
        let t = argument[0] / argument[1];
        let square = t * t;
        let result = base[0] - (t * (square * square.series(&ATAN)) - base[1] - t);
        result.but_if(self.is_nan(), self).copysign(self)
    }

    /// The angle of the point (x, self).
    pub(super) fn atan2(self, x: Self) -> Self {
        let builder = self.builder;
        let (height, width) = (self.abs(), x.abs());
        let both = |value| builder.andi(height.is(value), width.is(value));
        let ratio = (height / width).but_if(both(0.0), self.constant(0.0));
        let ratio = ratio.but_if(both(f64::INFINITY), self.constant(1.0));
        let angle = ratio.atan();
        let other = 2.0 * HALF_PI[0] - (angle - 2.0 * HALF_PI[1]);
        let is_left = self.constant(1.0).copysign(x).below(0.0);
        let is_nan = self.compare(mlir_ext::arith::CmpfPredicate::Uno, x);
        angle.but_if(is_left, other).copysign(self).but_if(is_nan, self.constant(f64::NAN))
    }

    /// (asin(√x) - √x) / √x³ · x.
    fn asin_rest(self) -> Self {
        self * (self.series(&ASIN_NUMERATOR) / self.series(&ASIN_DENOMINATOR))
    }

    /// A root's upper half, and what it lacks.
    fn root_parts(self, root: Self) -> [Self; 2] {
        let high = root.upper_half();
        let sum = root + high;
        let low = (self - high * high) / sum.but_if(sum.is(0.0), self.constant(1.0));
        [high, low]
    }

    pub(super) fn asin(self) -> Self {
        let x = self.abs();
        let small = x + x * (x * x).asin_rest();
        let z = (1.0 - x) * 0.5;
        let root = z.sqrt();
        let [high, low] = z.root_parts(root);
        let rest = root * 2.0 * z.asin_rest() - (HALF_PI[1] - low * 2.0);
        let large = 0.5 * HALF_PI[0] - (rest - (0.5 * HALF_PI[0] - high * 2.0));
        large.but_if(x.below(0.5), small).copysign(self)
    }

    pub(super) fn acos(self) -> Self {
        let x = self.abs();
        let small = HALF_PI[0] - (self - (HALF_PI[1] - self * (self * self).asin_rest()));
        let z = (1.0 - x) * 0.5;
        let root = z.sqrt();
        let rest = z.asin_rest() * root;
        let negative = (HALF_PI[0] - (root + (rest - HALF_PI[1]))) * 2.0;
        let [high, low] = z.root_parts(root);
        let positive = (high + (rest + low)) * 2.0;
        positive.but_if(self.below(0.0), negative).but_if(x.below(0.5), small)
    }
}
