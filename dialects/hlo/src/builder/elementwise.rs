//! Elementwise operations: one, two or three operands, comparisons, conversions.

use super::{Draft, HloBuilder, Op};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::ops::compare::CompareAttributes;
use crate::ops::enumerations::{ComparisonDirection, ComparisonType};
use crate::ops::reduce_precision::ReducePrecisionAttributes;
use crate::shape::ArrayShape;

macro_rules! unary {
    ($($(#[$documentation:meta])* $method:ident = $kind:ident;)*) => {
        impl HloBuilder {
            $(
                $(#[$documentation])*
                #[track_caller]
                pub fn $method<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
                    self.push(Draft::new(OpKind::$kind, &[operand]))
                }
            )*
        }
    };
}

unary! {
    /// Absolute value.
    abs = Abs;
    /// Arc cosine.
    acos = Acos;
    /// Inverse hyperbolic cosine.
    acosh = Acosh;
    /// Arc sine.
    asin = Asin;
    /// Inverse hyperbolic sine.
    asinh = Asinh;
    /// Inverse hyperbolic tangent.
    atanh = Atanh;
    /// Cube root.
    cbrt = Cbrt;
    /// Least integer that is not less.
    ceil = Ceil;
    /// Number of leading zero bits.
    clz = CountLeadingZeros;
    /// Cosine.
    cos = Cosine;
    /// Hyperbolic cosine.
    cosh = Cosh;
    /// Error function.
    erf = Erf;
    /// Exponential.
    exp = Exponential;
    /// exp(x) - 1.
    expm1 = ExponentialMinusOne;
    /// Greatest integer that is not greater.
    floor = Floor;
    /// Imaginary part.
    imag = Imag;
    /// Whether neither infinite nor NaN, as `pred`.
    is_finite = IsFinite;
    /// Natural logarithm.
    log = Log;
    /// log(1 + x).
    log1p = LogPlusOne;
    /// 1 / (1 + exp(-x)).
    logistic = Logistic;
    /// Negation.
    neg = Negate;
    /// Logical negation of `pred`, bitwise negation of integers.
    not = Not;
    /// Number of bits that are one.
    population_count = PopulationCount;
    /// Real part.
    real = Real;
    /// Nearest integer, ties away from zero.
    round = RoundNearestAfz;
    /// Nearest integer, ties to even.
    round_nearest_even = RoundNearestEven;
    /// 1 / sqrt(x).
    rsqrt = Rsqrt;
    /// Sign: -1, 0 or 1; NaN and zeros are themselves.
    sign = Sign;
    /// Sine.
    sin = Sine;
    /// Hyperbolic sine.
    sinh = Sinh;
    /// Square root.
    sqrt = Sqrt;
    /// Tangent.
    tan = Tan;
    /// Hyperbolic tangent.
    tanh = Tanh;
}

macro_rules! binary {
    ($($(#[$documentation:meta])* $method:ident = $kind:ident;)*) => {
        impl HloBuilder {
            $(
                $(#[$documentation])*
                ///
                /// The operands [broadcast](super::broadcasting).
                #[track_caller]
                pub fn $method<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, broadcast_dimensions: &[i64]) -> Op<'b> {
                    match self.broadcast_operands(stringify!($method), lhs, rhs, broadcast_dimensions) {
                        Some(operands) => self.push(Draft::new(OpKind::$kind, &operands)),
                        None => self.nothing(),
                    }
                }
            )*
        }
    };
}

binary! {
    /// Sum.
    add = Add;
    /// Logical or bitwise and.
    and = And;
    /// Angle of the point (rhs, lhs).
    atan2 = Atan2;
    /// Complex number of a real and an imaginary part.
    complex = Complex;
    /// Quotient; of integers, rounded towards zero.
    div = Divide;
    /// Maximum; NaN if either is NaN.
    max = Maximum;
    /// Minimum; NaN if either is NaN.
    min = Minimum;
    /// Product.
    mul = Multiply;
    /// Logical or bitwise or.
    or = Or;
    /// Power.
    pow = Power;
    /// Remainder, with the dividend's sign.
    rem = Remainder;
    /// Bits shifted left.
    shift_left = ShiftLeft;
    /// Bits shifted right; the sign bit comes in.
    shift_right_arithmetic = ShiftRightArithmetic;
    /// Bits shifted right; zeros come in.
    shift_right_logical = ShiftRightLogical;
    /// Difference.
    sub = Subtract;
    /// Logical or bitwise exclusive or.
    xor = Xor;
}

macro_rules! comparisons {
    ($($(#[$documentation:meta])* $method:ident, $total:ident = $direction:ident;)*) => {
        impl HloBuilder {
            $(
                $(#[$documentation])*
                ///
                /// The operands [broadcast](super::broadcasting).
                #[track_caller]
                pub fn $method<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, broadcast_dimensions: &[i64]) -> Op<'b> {
                    self.compare(lhs, rhs, ComparisonDirection::$direction, None, broadcast_dimensions)
                }

                $(#[$documentation])*
                /// In the total order, where -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN.
                #[track_caller]
                pub fn $total<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, broadcast_dimensions: &[i64]) -> Op<'b> {
                    let order = Some(ComparisonType::TotalOrder);
                    self.compare(lhs, rhs, ComparisonDirection::$direction, order, broadcast_dimensions)
                }
            )*
        }
    };
}

comparisons! {
    /// Whether equal, as `pred`.
    eq, eq_total_order = Eq;
    /// Whether not equal, as `pred`.
    ne, ne_total_order = Ne;
    /// Whether greater or equal, as `pred`.
    ge, ge_total_order = Ge;
    /// Whether greater, as `pred`.
    gt, gt_total_order = Gt;
    /// Whether less or equal, as `pred`.
    le, le_total_order = Le;
    /// Whether less, as `pred`.
    lt, lt_total_order = Lt;
}

impl HloBuilder {
    /// Comparison in a direction, in the element type's own order unless another is given.
    #[track_caller]
    pub fn compare<'b>(
        &'b self,
        lhs: Op<'b>,
        rhs: Op<'b>,
        direction: ComparisonDirection,
        order: Option<ComparisonType>,
        broadcast_dimensions: &[i64],
    ) -> Op<'b> {
        let Some(operands) = self.broadcast_operands("compare", lhs, rhs, broadcast_dimensions) else {
            return self.nothing();
        };
        let attributes = CompareAttributes { direction, r#type: order };
        self.push(Draft::new(OpKind::Compare, &operands).with_attributes(attributes))
    }

    /// `and` of two `pred` arrays (2017's LogicalAnd).
    #[track_caller]
    pub fn logical_and<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, broadcast_dimensions: &[i64]) -> Op<'b> {
        match self.all_predicates("logical_and", &[lhs, rhs]) {
            true => self.and(lhs, rhs, broadcast_dimensions),
            false => self.nothing(),
        }
    }

    /// `or` of two `pred` arrays (2017's LogicalOr).
    #[track_caller]
    pub fn logical_or<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, broadcast_dimensions: &[i64]) -> Op<'b> {
        match self.all_predicates("logical_or", &[lhs, rhs]) {
            true => self.or(lhs, rhs, broadcast_dimensions),
            false => self.nothing(),
        }
    }

    /// `not` of a `pred` array (2017's LogicalNot).
    #[track_caller]
    pub fn logical_not<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
        match self.all_predicates("logical_not", &[operand]) {
            true => self.not(operand),
            false => self.nothing(),
        }
    }

    #[track_caller]
    fn all_predicates(&self, method: &'static str, operands: &[Op<'_>]) -> bool {
        for &operand in operands {
            let Some(array) = self.array_of(method, operand) else { return false };
            if array.element_type != ElementType::Pred {
                self.fail_rule(method, format!("takes pred arrays, got {array}"));
                return false;
            }
        }
        true
    }

    /// The elements of `operand`, at least `low` and at most `high`: scalars, or arrays of the operand's shape.
    #[track_caller]
    pub fn clamp<'b>(&'b self, low: Op<'b>, operand: Op<'b>, high: Op<'b>) -> Op<'b> {
        self.push(Draft::new(OpKind::Clamp, &[low, operand, high]))
    }

    /// Elements of `on_true` where `predicate` is true, else of `on_false`. A scalar predicate chooses whole values, tuples
    /// too; scalars are broadcast.
    #[track_caller]
    pub fn select<'b>(&'b self, predicate: Op<'b>, on_true: Op<'b>, on_false: Op<'b>) -> Op<'b> {
        let mut operands = [predicate, on_true, on_false];
        let mut arrays: Vec<Option<ArrayShape>> = Vec::with_capacity(operands.len());
        for operand in operands {
            let Some(shape) = self.shape_of(operand) else { return self.nothing() };
            arrays.push(shape.as_array().cloned());
        }
        if let Some(whole) = arrays.iter().flatten().find(|array| array.rank() > 0).cloned() {
            for (operand, array) in operands.iter_mut().zip(&arrays).skip(1) {
                if array.as_ref().is_some_and(|array| array.rank() == 0) {
                    *operand = self.splat(*operand, &whole);
                }
            }
        }
        self.push(Draft::new(OpKind::Select, &operands))
    }

    /// The elements converted to another type by value, as by Rust's `as`.
    #[track_caller]
    pub fn convert_element_type<'b>(&'b self, operand: Op<'b>, element_type: ElementType) -> Op<'b> {
        match self.array_of("convert_element_type", operand) {
            Some(array) => {
                self.push(Draft::new(OpKind::Convert, &[operand]).declared(array.with_element_type(element_type)))
            }
            None => self.nothing(),
        }
    }

    /// The same bits as elements of another type. To narrower elements, a last dimension appears; to wider ones, it
    /// disappears.
    #[track_caller]
    pub fn bitcast_convert_type<'b>(&'b self, operand: Op<'b>, element_type: ElementType) -> Op<'b> {
        match self.array_of("bitcast_convert_type", operand) {
            Some(array) => self
                .push(Draft::new(OpKind::BitcastConvert, &[operand]).declared(array.with_element_type(element_type))),
            None => self.nothing(),
        }
    }

    /// The elements converted, rounded up with the probability of what is cut off; `random` has as many bits.
    #[track_caller]
    pub fn stochastic_convert_type<'b>(&'b self, operand: Op<'b>, random: Op<'b>, element_type: ElementType) -> Op<'b> {
        match self.array_of("stochastic_convert_type", operand) {
            Some(array) => self.push(
                Draft::new(OpKind::StochasticConvert, &[operand, random])
                    .declared(array.with_element_type(element_type)),
            ),
            None => self.nothing(),
        }
    }

    /// The elements rounded to a format of this many exponent and mantissa bits, in their own type.
    #[track_caller]
    pub fn reduce_precision<'b>(&'b self, operand: Op<'b>, exponent_bits: i64, mantissa_bits: i64) -> Op<'b> {
        let attributes = ReducePrecisionAttributes { exponent_bits, mantissa_bits };
        self.push(Draft::new(OpKind::ReducePrecision, &[operand]).with_attributes(attributes))
    }
}
