//===- HloElementwiseOps.td - elementwise operations ----------------------===//

#ifndef HLO_ELEMENTWISE_OPS
#define HLO_ELEMENTWISE_OPS

include "HloOpBase.td"

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

def Hlo_AbsOp : Hlo_UnaryOp<"abs"> {
  let summary = "absolute value";
  let description = [{`|x|`. The magnitude of a complex element is real.}];
}
def Hlo_AcosOp : Hlo_UnaryOp<"acos"> {
  let summary = "inverse cosine";
  let description = [{`acos(x)` in radians, in `[0, pi]`.}];
}
def Hlo_AcoshOp : Hlo_UnaryOp<"acosh"> {
  let summary = "inverse hyperbolic cosine";
  let description = [{`acosh(x)`; NaN below 1.}];
}
def Hlo_AsinOp : Hlo_UnaryOp<"asin"> {
  let summary = "inverse sine";
  let description = [{`asin(x)` in radians, in `[-pi/2, pi/2]`.}];
}
def Hlo_AsinhOp : Hlo_UnaryOp<"asinh"> {
  let summary = "inverse hyperbolic sine";
  let description = [{`asinh(x)`.}];
}
def Hlo_AtanhOp : Hlo_UnaryOp<"atanh"> {
  let summary = "inverse hyperbolic tangent";
  let description = [{`atanh(x)`; infinite at -1 and 1, NaN outside.}];
}
def Hlo_CbrtOp : Hlo_UnaryOp<"cbrt"> {
  let summary = "cube root";
  let description = [{The real cube root, negative for negative `x`.}];
}
def Hlo_CeilOp : Hlo_UnaryOp<"ceil"> {
  let summary = "smallest integer not below";
  let description = [{Rounds towards positive infinity.}];
}
def Hlo_CoshOp : Hlo_UnaryOp<"cosh"> {
  let summary = "hyperbolic cosine";
  let description = [{`cosh(x)`.}];
}
def Hlo_CosineOp : Hlo_UnaryOp<"cosine"> {
  let summary = "cosine";
  let description = [{`cos(x)` of an angle in radians.}];
}
def Hlo_CountLeadingZerosOp : Hlo_UnaryOp<"count_leading_zeros"> {
  let summary = "number of leading zero bits";
  let description = [{Zero bits above the highest one bit of an integer; its width for 0.}];
}
def Hlo_ErfOp : Hlo_UnaryOp<"erf"> {
  let summary = "error function";
  let description = [{`2/sqrt(pi)` times the integral of `exp(-t*t)` from 0 to `x`.}];
}
def Hlo_ExponentialOp : Hlo_UnaryOp<"exponential"> {
  let summary = "natural exponential";
  let description = [{`e^x`.}];
}
def Hlo_ExponentialMinusOneOp : Hlo_UnaryOp<"exponential_minus_one"> {
  let summary = "exponential minus one";
  let description = [{`e^x - 1`, accurate near 0.}];
}
def Hlo_FloorOp : Hlo_UnaryOp<"floor"> {
  let summary = "largest integer not above";
  let description = [{Rounds towards negative infinity.}];
}
def Hlo_ImagOp : Hlo_UnaryOp<"imag"> {
  let summary = "imaginary part";
  let description = [{The imaginary part of a complex element; 0 for a real one.}];
}
def Hlo_IsFiniteOp : Hlo_UnaryOp<"is_finite"> {
  let summary = "whether finite";
  let description = [{`pred` that is false for NaN and the infinities.}];
}
def Hlo_LogOp : Hlo_UnaryOp<"log"> {
  let summary = "natural logarithm";
  let description = [{`ln(x)`; for complex elements the principal branch.}];
}
def Hlo_LogPlusOneOp : Hlo_UnaryOp<"log_plus_one"> {
  let summary = "logarithm of one plus";
  let description = [{`ln(1 + x)`, accurate near 0.}];
}
def Hlo_LogisticOp : Hlo_UnaryOp<"logistic"> {
  let summary = "logistic function";
  let description = [{`1 / (1 + e^-x)`.}];
}
def Hlo_NegateOp : Hlo_UnaryOp<"negate"> {
  let summary = "negation";
  let description = [{`-x`; integers wrap around.}];
}
def Hlo_NotOp : Hlo_UnaryOp<"not"> {
  let summary = "bitwise or logical not";
  let description = [{Inverts a `pred`, or each bit of an integer.}];
}
def Hlo_PopulationCountOp : Hlo_UnaryOp<"popcnt"> {
  let summary = "number of one bits";
  let description = [{Counts the one bits of an integer.}];
}
def Hlo_RealOp : Hlo_UnaryOp<"real"> {
  let summary = "real part";
  let description = [{The real part of a complex element; a real element itself.}];
}
def Hlo_RoundNearestAfzOp : Hlo_UnaryOp<"round_nearest_afz"> {
  let summary = "nearest integer, ties away from zero";
  let description = [{Rounds to the nearest integer; a half goes away from zero.}];
}
def Hlo_RoundNearestEvenOp : Hlo_UnaryOp<"round_nearest_even"> {
  let summary = "nearest integer, ties to even";
  let description = [{Rounds to the nearest integer; a half goes to the even neighbour.}];
}
def Hlo_RsqrtOp : Hlo_UnaryOp<"rsqrt"> {
  let summary = "reciprocal square root";
  let description = [{`1 / sqrt(x)`.}];
}
def Hlo_SignOp : Hlo_UnaryOp<"sign"> {
  let summary = "sign";
  let description = [{-1, 0 or 1; a floating-point zero keeps its sign and NaN stays; `x / |x|` for a complex element.}];
}
def Hlo_SineOp : Hlo_UnaryOp<"sine"> {
  let summary = "sine";
  let description = [{`sin(x)` of an angle in radians.}];
}
def Hlo_SinhOp : Hlo_UnaryOp<"sinh"> {
  let summary = "hyperbolic sine";
  let description = [{`sinh(x)`.}];
}
def Hlo_SqrtOp : Hlo_UnaryOp<"sqrt"> {
  let summary = "square root";
  let description = [{The square root; for complex elements the principal one.}];
}
def Hlo_TanOp : Hlo_UnaryOp<"tan"> {
  let summary = "tangent";
  let description = [{`tan(x)` of an angle in radians.}];
}
def Hlo_TanhOp : Hlo_UnaryOp<"tanh"> {
  let summary = "hyperbolic tangent";
  let description = [{`tanh(x)`.}];
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

def Hlo_AddOp : Hlo_CommutativeOp<"add"> {
  let summary = "addition";
  let description = [{`lhs + rhs`; integers wrap around, `pred` elements are or-ed.}];
}
def Hlo_AndOp : Hlo_CommutativeOp<"and"> {
  let summary = "bitwise or logical and";
  let description = [{Both of two `pred` elements, or the common one bits of two integers.}];
}
def Hlo_Atan2Op : Hlo_BinaryOp<"atan2"> {
  let summary = "angle of a point";
  let description = [{The angle of the point (`rhs`, `lhs`) in radians, in `[-pi, pi]`.}];
}
def Hlo_ComplexOp : Hlo_BinaryOp<"complex"> {
  let summary = "complex number of its parts";
  let description = [{`lhs + i rhs` of two real arrays.}];
}
def Hlo_DivideOp : Hlo_BinaryOp<"divide"> {
  let summary = "division";
  let description = [{
    `lhs / rhs`. Integers round towards zero; division by zero gives all ones, and the smallest signed integer
    divided by -1 gives itself.
  }];
}
def Hlo_MaximumOp : Hlo_CommutativeOp<"maximum"> {
  let summary = "larger of two";
  let description = [{The larger element; NaN if either is.}];
}
def Hlo_MinimumOp : Hlo_CommutativeOp<"minimum"> {
  let summary = "smaller of two";
  let description = [{The smaller element; NaN if either is.}];
}
def Hlo_MultiplyOp : Hlo_CommutativeOp<"multiply"> {
  let summary = "multiplication";
  let description = [{`lhs * rhs`; integers wrap around, `pred` elements are and-ed.}];
}
def Hlo_OrOp : Hlo_CommutativeOp<"or"> {
  let summary = "bitwise or logical or";
  let description = [{Either of two `pred` elements, or the one bits of either of two integers.}];
}
def Hlo_PowerOp : Hlo_BinaryOp<"power"> {
  let summary = "power";
  let description = [{`lhs` raised to `rhs`.}];
}
def Hlo_RemainderOp : Hlo_BinaryOp<"remainder"> {
  let summary = "remainder of a division";
  let description = [{
    `lhs - truncate(lhs / rhs) * rhs`: it has the sign of `lhs`. The remainder of an integer by zero is `lhs`.
  }];
}
def Hlo_ShiftLeftOp : Hlo_BinaryOp<"shift_left"> {
  let summary = "shift to the left";
  let description = [{Moves the bits of `lhs` up by `rhs` places and fills with zeros; 0 when `rhs` is out of range.}];
}
def Hlo_ShiftRightArithmeticOp : Hlo_BinaryOp<"shift_right_arithmetic"> {
  let summary = "shift to the right that keeps the sign";
  let description = [{
    Moves the bits of `lhs` down by `rhs` places and fills with the sign bit, which is all that is left when `rhs` is
    out of range.
  }];
}
def Hlo_ShiftRightLogicalOp : Hlo_BinaryOp<"shift_right_logical"> {
  let summary = "shift to the right that fills with zeros";
  let description = [{Moves the bits of `lhs` down by `rhs` places; 0 when `rhs` is out of range.}];
}
def Hlo_SubtractOp : Hlo_BinaryOp<"subtract"> {
  let summary = "subtraction";
  let description = [{`lhs - rhs`; integers wrap around.}];
}
def Hlo_XorOp : Hlo_CommutativeOp<"xor"> {
  let summary = "bitwise or logical exclusive or";
  let description = [{Whether two `pred` elements differ, or the bits in which two integers differ.}];
}
def Hlo_CompareOp : Hlo_PureOp<"compare"> {
  let summary = "comparison";
  let description = [{
    `pred` of `lhs direction rhs` for each pair of elements. `direction` is EQ, NE, GE, GT, LE or LT. `type` says how:
    FLOAT (nothing but NE holds for NaN), TOTALORDER (-NaN < -Inf < -finite < -0 < 0 < finite < Inf < NaN), SIGNED or
    UNSIGNED; without it, the order of the element type.
  }];
  let arguments = (ins Hlo_Value:$lhs, Hlo_Value:$rhs, StrAttr:$direction, OptionalAttr<StrAttr>:$type);
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

def Hlo_ClampOp : Hlo_PureOp<"clamp"> {
  let summary = "limits values to a range";
  let description = [{
    `minimum(maximum(operand, min), max)`. `min` and `max` are scalars or have the operand's shape.
  }];
  let arguments = (ins Hlo_Value:$min, Hlo_Value:$operand, Hlo_Value:$max);
}
def Hlo_SelectOp : Hlo_PureOp<"select"> {
  let summary = "choice between two values";
  let description = [{
    Elements of `on_true` where `pred` holds and of `on_false` elsewhere. `pred` has their shape or is a scalar; with a
    scalar the values may be tuples.
  }];
  let arguments = (ins Hlo_Value:$pred, Hlo_Value:$on_true, Hlo_Value:$on_false);
}
def Hlo_ConvertOp : Hlo_PureOp<"convert"> {
  let summary = "conversion of the element type";
  let description = [{
    Converts each element to the result's element type. Floats become integers by truncation, saturating, NaN gives 0;
    numbers become `pred` by comparison with 0.
  }];
  let arguments = (ins Hlo_Value:$operand);
}
def Hlo_StochasticConvertOp : Hlo_PureOp<"stochastic_convert"> {
  let summary = "conversion that rounds at random";
  let description = [{
    Converts floats, rounding up with the probability of the discarded fraction; `random` holds the random bits as
    unsigned integers of the operand's width.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$random);
}
def Hlo_ReducePrecisionOp : Hlo_PureOp<"reduce_precision"> {
  let summary = "rounding to a smaller floating-point format";
  let description = [{
    Rounds each element as if it were converted to a format with `exponent_bits` and `mantissa_bits` and back.
  }];
  let arguments = (ins Hlo_Value:$operand, I64Attr:$exponent_bits, I64Attr:$mantissa_bits);
}
def Hlo_CopyOp : Hlo_PureOp<"copy"> {
  let summary = "copy";
  let description = [{The operand's value, possibly in another layout.}];
  let arguments = (ins Hlo_Value:$operand);
}
def Hlo_MapOp : Hlo_RegionOp<"map"> {
  let summary = "applies a scalar computation to each element";
  let description = [{
    Calls `to_apply` with the elements of the operands at each index; the result holds what it returns.
    `dimensions` lists all dimensions in order.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<DenseI64ArrayAttr>:$dimensions);
  let regions = (region Hlo_Computation:$to_apply);
}

#endif // HLO_ELEMENTWISE_OPS
