//! Closed integer intervals with exact arithmetic that saturates at the ends of `i64`.
//!
//! A bound at the end of `i64` means "unbounded on that side" and stays there under arithmetic. An interval
//! whose lower bound exceeds the upper one is empty; arithmetic on empty intervals is unspecified but total.

use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};

/// The integers from `lower` to `upper`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    /// The least value.
    pub lower: i64,
    /// The greatest value.
    pub upper: i64,
}

impl Interval {
    /// Every `i64`.
    pub const FULL: Interval = Interval { lower: i64::MIN, upper: i64::MAX };

    /// The interval `[lower, upper]`.
    pub const fn new(lower: i64, upper: i64) -> Self {
        Interval { lower, upper }
    }

    /// The interval that holds only `value`.
    pub const fn point(value: i64) -> Self {
        Interval { lower: value, upper: value }
    }

    /// The indices of a dimension of `size` elements: `[0, size - 1]`.
    pub const fn of_size(size: i64) -> Self {
        Interval { lower: 0, upper: size.saturating_sub(1) }
    }

    /// The single value, if there is exactly one.
    pub fn as_point(self) -> Option<i64> {
        (self.lower == self.upper).then_some(self.lower)
    }

    /// Whether there is no value.
    pub fn is_empty(self) -> bool {
        self.lower > self.upper
    }

    /// The number of values; `None` when it exceeds `u64`.
    pub fn len(self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        u64::try_from(i128::from(self.upper) - i128::from(self.lower) + 1).ok()
    }

    /// Whether `value` lies inside.
    pub fn contains(self, value: i64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// Whether every value of `other` lies inside.
    pub fn contains_interval(self, other: Interval) -> bool {
        other.is_empty() || (self.lower <= other.lower && other.upper <= self.upper)
    }

    /// The values in both.
    pub fn intersect(self, other: Interval) -> Interval {
        Interval { lower: self.lower.max(other.lower), upper: self.upper.min(other.upper) }
    }

    /// The least interval around both.
    pub fn union(self, other: Interval) -> Interval {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Interval { lower: self.lower.min(other.lower), upper: self.upper.max(other.upper) }
    }

    /// The smaller of a value of each.
    pub fn min(self, other: Interval) -> Interval {
        Interval { lower: self.lower.min(other.lower), upper: self.upper.min(other.upper) }
    }

    /// The larger of a value of each.
    pub fn max(self, other: Interval) -> Interval {
        Interval { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }

    /// `floor(a / b)` for the values `b != 0` of `divisor`; [`Interval::FULL`] if `divisor` holds only zero.
    pub fn floordiv(self, divisor: Interval) -> Interval {
        self.divide(divisor, floor_div)
    }

    /// `ceil(a / b)` for the values `b != 0` of `divisor`; [`Interval::FULL`] if `divisor` holds only zero.
    pub fn ceildiv(self, divisor: Interval) -> Interval {
        self.divide(divisor, ceil_div)
    }

    // Rounded division is monotone in each operand while the divisor keeps its sign, so corners suffice.
    fn divide(self, divisor: Interval, divide: fn(i64, i64) -> i64) -> Interval {
        let negative = divisor.intersect(Interval::new(i64::MIN, -1));
        let positive = divisor.intersect(Interval::new(1, i64::MAX));
        let mut result: Option<Interval> = None;
        for part in [negative, positive] {
            if part.is_empty() {
                continue;
            }
            for a in [self.lower, self.upper] {
                for b in [part.lower, part.upper] {
                    let value = Interval::point(divide(a, b));
                    result = Some(result.map_or(value, |r| r.union(value)));
                }
            }
        }
        result.unwrap_or(Interval::FULL)
    }

    /// `a mod b` (the remainder in `[0, b)`) for the values `b > 0` of `divisor`; [`Interval::FULL`] if there
    /// is none.
    pub fn modulo(self, divisor: Interval) -> Interval {
        let positive = divisor.intersect(Interval::new(1, i64::MAX));
        if positive.is_empty() {
            return Interval::FULL;
        }
        if let Some(m) = positive.as_point() {
            // Inside one period the remainder is a shift.
            if floor_div(self.lower, m) == floor_div(self.upper, m) {
                return Interval::new(self.lower.rem_euclid(m), self.upper.rem_euclid(m));
            }
        } else if self.lower >= 0 && self.upper < positive.lower {
            return self;
        }
        let top = positive.upper - 1;
        if self.lower >= 0 { Interval::new(0, top.min(self.upper)) } else { Interval::new(0, top) }
    }

    /// `self > other` for all values (`Some(true)`), for none (`Some(false)`), else `None`. So below.
    pub fn gt(self, other: Interval) -> Option<bool> {
        if self.lower > other.upper {
            return Some(true);
        }
        if self.upper <= other.lower { Some(false) } else { None }
    }

    /// `self < other`, see [`Interval::gt`].
    pub fn lt(self, other: Interval) -> Option<bool> {
        other.gt(self)
    }

    /// `self >= other`, see [`Interval::gt`].
    pub fn ge(self, other: Interval) -> Option<bool> {
        self.lt(other).map(|b| !b)
    }

    /// `self <= other`, see [`Interval::gt`].
    pub fn le(self, other: Interval) -> Option<bool> {
        self.gt(other).map(|b| !b)
    }

    /// `self == other`, see [`Interval::gt`].
    pub fn equals(self, other: Interval) -> Option<bool> {
        if self.intersect(other).is_empty() {
            return Some(false);
        }
        (self.as_point().is_some() && self == other).then_some(true)
    }

    /// `self != other`, see [`Interval::gt`].
    pub fn differs(self, other: Interval) -> Option<bool> {
        self.equals(other).map(|b| !b)
    }
}

/// `floor(a / b)`, saturating; `b` is not zero.
pub(crate) fn floor_div(a: i64, b: i64) -> i64 {
    match a.checked_div(b) {
        None => i64::MAX,
        Some(q) if a % b != 0 && ((a < 0) != (b < 0)) => q - 1,
        Some(q) => q,
    }
}

/// `ceil(a / b)`, saturating; `b` is not zero.
pub fn ceil_div(a: i64, b: i64) -> i64 {
    match a.checked_div(b) {
        None => i64::MAX,
        Some(q) if a % b != 0 && ((a < 0) == (b < 0)) => q + 1,
        Some(q) => q,
    }
}

fn saturate(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl Add for Interval {
    type Output = Interval;
    fn add(self, other: Interval) -> Interval {
        let lower = if self.lower == i64::MIN || other.lower == i64::MIN {
            i64::MIN
        } else {
            self.lower.saturating_add(other.lower)
        };
        let upper = if self.upper == i64::MAX || other.upper == i64::MAX {
            i64::MAX
        } else {
            self.upper.saturating_add(other.upper)
        };
        Interval { lower, upper }
    }
}

impl Neg for Interval {
    type Output = Interval;
    fn neg(self) -> Interval {
        // The ends of i64 stand for "unbounded" and swap.
        let flip = |v: i64| match v {
            i64::MIN => i64::MAX,
            i64::MAX => i64::MIN,
            v => -v,
        };
        Interval { lower: flip(self.upper), upper: flip(self.lower) }
    }
}

impl Sub for Interval {
    type Output = Interval;
    fn sub(self, other: Interval) -> Interval {
        self + -other
    }
}

impl Mul for Interval {
    type Output = Interval;
    fn mul(self, other: Interval) -> Interval {
        // -1 times the least i64 has to give the greatest, hence the special value.
        let product = |a: i64, b: i64| match (a, b) {
            (i64::MAX, -1) | (-1, i64::MAX) => i64::MIN,
            (i64::MIN, -1) | (-1, i64::MIN) => i64::MAX,
            (a, b) => saturate(i128::from(a) * i128::from(b)),
        };
        let mut result = Interval::point(product(self.lower, other.lower));
        for value in
            [product(self.lower, other.upper), product(self.upper, other.lower), product(self.upper, other.upper)]
        {
            result = result.union(Interval::point(value));
        }
        result
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.lower, self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operation: fn(Interval, Interval) -> Interval, value: fn(i64, i64) -> Option<i64>) {
        let bounds = [-7, -3, -1, 0, 1, 2, 5, 6];
        for &a in &bounds {
            for &b in bounds.iter().filter(|&&b| b >= a) {
                for &c in &bounds {
                    for &d in bounds.iter().filter(|&&d| d >= c) {
                        let result = operation(Interval::new(a, b), Interval::new(c, d));
                        for x in a..=b {
                            for y in c..=d {
                                if let Some(v) = value(x, y) {
                                    assert!(result.contains(v), "{x} {y} in [{a},{b}] [{c},{d}] {result}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn operations_contain_every_value() {
        check(|a, b| a + b, |x, y| Some(x + y));
        check(|a, b| a - b, |x, y| Some(x - y));
        check(|a, b| a * b, |x, y| Some(x * y));
        check(Interval::min, |x, y| Some(x.min(y)));
        check(Interval::max, |x, y| Some(x.max(y)));
        check(Interval::floordiv, |x, y| (y != 0).then(|| floor_div(x, y)));
        check(Interval::ceildiv, |x, y| (y != 0).then(|| ceil_div(x, y)));
        check(Interval::modulo, |x, y| (y > 0).then(|| x.rem_euclid(y)));
    }

    #[test]
    fn division_is_exact_for_a_constant_divisor() {
        assert_eq!(Interval::new(-5, 9).floordiv(Interval::point(4)), Interval::new(-2, 2));
        assert_eq!(Interval::new(-5, 9).floordiv(Interval::point(-4)), Interval::new(-3, 1));
        assert_eq!(Interval::new(-5, 9).ceildiv(Interval::point(4)), Interval::new(-1, 3));
        assert_eq!(Interval::new(13, 14).modulo(Interval::point(4)), Interval::new(1, 2));
        assert_eq!(Interval::new(3, 4).modulo(Interval::point(4)), Interval::new(0, 3));
    }

    #[test]
    fn comparisons_are_three_valued() {
        let a = Interval::new(12, 64);
        assert_eq!(a.gt(Interval::point(11)), Some(true));
        assert_eq!(a.gt(Interval::point(12)), None);
        assert_eq!(a.gt(Interval::point(64)), Some(false));
        assert_eq!(a.le(Interval::point(64)), Some(true));
        assert_eq!(a.equals(a), None);
        assert_eq!(Interval::point(15).equals(Interval::point(15)), Some(true));
        assert_eq!(Interval::point(15).differs(Interval::point(16)), Some(true));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Interval::new(100, i64::MAX - 80) + Interval::new(0, i64::MAX), Interval::new(100, i64::MAX));
        assert_eq!(Interval::new(42, i64::MAX) * Interval::point(-1), Interval::new(i64::MIN, -42));
        assert_eq!(Interval::FULL * Interval::point(-1), Interval::FULL);
        assert_eq!(-Interval::FULL, Interval::FULL);
        assert_eq!(Interval::FULL.len(), None);
    }
}
