//! Inverse trigonometric functions.

use super::{HALF_PI, Real};

const ATAN_HIGH: [f64; 4] =
    [4.636_476_090_008_061e-1, std::f64::consts::FRAC_PI_4, 9.827_937_232_473_29e-1, std::f64::consts::FRAC_PI_2];
const ATAN_LOW: [f64; 4] =
    [2.269_877_745_296_168_7e-17, 3.061_616_997_868_383e-17, 1.390_331_103_123_099_8e-17, 6.123_233_995_736_766e-17];
const ATAN: [f64; 11] = [
    3.333_333_333_333_293e-1,
    -1.999_999_999_987_648_3e-1,
    1.428_571_427_250_346_6e-1,
    -1.111_111_040_546_235_6e-1,
    9.090_887_133_436_507e-2,
    -7.691_876_205_044_83e-2,
    6.661_073_137_387_531e-2,
    -5.833_570_133_790_573_5e-2,
    4.976_877_994_615_932_4e-2,
    -3.653_157_274_421_691_6e-2,
    1.628_582_011_536_578_2e-2,
];
const ASIN_NUMERATOR: [f64; 6] = [
    1.666_666_666_666_666_6e-1,
    -3.255_658_186_224_009e-1,
    2.012_125_321_348_629_3e-1,
    -4.005_553_450_067_941e-2,
    7.915_349_942_898_145e-4,
    3.479_331_075_960_212e-5,
];
const ASIN_DENOMINATOR: [f64; 5] =
    [1.0, -2.403_394_911_734_414, 2.020_945_760_233_505_7, -6.882_839_716_054_533e-1, 7.703_815_055_590_194e-2];

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
