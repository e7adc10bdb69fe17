//! What results may differ by: one table, each row with its reason.

use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use hlo::ops::{self, ElementCost};

use super::case::ResultSource;

/// How far a result may be from the expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// The same bits; NaN is NaN whatever its payload.
    Exact,
    /// So many steps (the type's epsilon times the value) of each element; zeros have the same sign.
    Element(f64),
    /// So many steps of the largest expected element of the array.
    Array(f64),
}

/// Operations that a row is about.
enum Operations {
    /// Functions that no processor computes exactly.
    Transcendental,
    /// These.
    Of(&'static [OpKind]),
}

impl Operations {
    fn list(&self) -> Vec<OpKind> {
        match self {
            Operations::Transcendental => OpKind::ALL.iter().copied().filter(is_transcendental).collect(),
            Operations::Of(kinds) => kinds.to_vec(),
        }
    }

    fn contain(&self, op: OpKind) -> bool {
        match self {
            Operations::Transcendental => is_transcendental(&op),
            Operations::Of(kinds) => kinds.contains(&op),
        }
    }
}

fn is_transcendental(op: &OpKind) -> bool {
    // A square root costs as much, but processors round it correctly.
    *op != OpKind::Sqrt && ops::definition(*op).cost == ElementCost::Transcendental
}

/// A row of the table: the first that fits decides.
struct Rule {
    ops: Operations,
    types: &'static [ElementType],
    measure: Measure,
    /// Why results differ at all.
    reason: &'static str,
}

use ElementType::*;
use Measure::{Array, Element};

const ALL_TYPES: &[ElementType] = &[];
const SINGLE: &[ElementType] = &[F32];
const DOUBLE: &[ElementType] = &[F64];
const COMPLEX: &[ElementType] = &[C64, C128];
/// Functions of these are computed in f32 and rounded once.
const SMALL: &[ElementType] =
    &[BF16, F16, F8E3M4, F8E4M3, F8E4M3FN, F8E4M3B11FNUZ, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F4E2M1FN];

/// Complex arithmetic, by itself or in computations of such: a few roundings, in an order that is the implementation's.
const COMPLEX_ARITHMETIC: &[OpKind] = &[
    OpKind::Abs,
    OpKind::Conditional,
    OpKind::Divide,
    OpKind::Fusion,
    OpKind::Map,
    OpKind::Multiply,
    OpKind::Sign,
    OpKind::Sqrt,
];

/// Sums of many terms, in an order that is the implementation's.
const SUMS: &[OpKind] = &[
    OpKind::Convolution,
    OpKind::Dot,
    OpKind::RaggedDot,
    OpKind::Reduce,
    OpKind::ReduceWindow,
    OpKind::SelectAndScatter,
    OpKind::Scatter,
    OpKind::SetDimensionSize,
    OpKind::DynamicReshape,
    OpKind::BatchNormTraining,
    OpKind::BatchNormInference,
    OpKind::BatchNormGrad,
    OpKind::Cholesky,
    OpKind::TriangularSolve,
    OpKind::Fft,
    OpKind::CustomCall,
];

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { ops: Operations::Transcendental, types: SINGLE, measure: Element(8.0), reason: "XLA's own error is up to 6 steps; halo's is at most 2 (math_accuracy)" },
    Rule { ops: Operations::Transcendental, types: DOUBLE, measure: Element(8.0), reason: "XLA's own error" },
    Rule { ops: Operations::Transcendental, types: SMALL, measure: Element(2.0), reason: "a result near the middle of two values rounds either way; XLA computes some in f16" },
    Rule { ops: Operations::Of(&[OpKind::Sqrt]), types: &[F8E3M4], measure: Element(1.0), reason: "XLA rounds twice, to f16 first" },
    Rule { ops: Operations::Transcendental, types: COMPLEX, measure: Array(16.0), reason: "functions of functions: XLA's own error, measured against the modulus" },
    Rule { ops: Operations::Of(COMPLEX_ARITHMETIC), types: COMPLEX, measure: Element(4.0), reason: "three products and sums, rounded in any order" },
    Rule { ops: Operations::Of(SUMS), types: ALL_TYPES, measure: Array(32.0), reason: "sums in another order, of terms as large as the largest result" },
];

/// The measure for the floating-point results of cases of an operation in one element type. What is computed exactly,
/// or by no computation at all, has no row.
pub fn measure(op: OpKind, element_type: ElementType) -> Measure {
    RULES
        .iter()
        .find(|rule| rule.ops.contain(op) && (rule.types.is_empty() || rule.types.contains(&element_type)))
        .map_or(Measure::Exact, |rule| rule.measure)
}

/// The table in words, for the report.
pub fn rows() -> impl Iterator<Item = String> {
    RULES.iter().map(|rule| {
        let ops = rule.ops.list();
        let first: Vec<&str> = ops.iter().take(3).map(|op| op.text_name()).collect();
        let more = if ops.len() > first.len() { ", …" } else { "" };
        let types: Vec<&str> = rule.types.iter().map(|element_type| element_type.name()).collect();
        let types = if types.is_empty() { "every type".to_string() } else { types.join(" ") };
        format!("{}{more} in {types}: {:?}, because {}", first.join(", "), rule.measure, rule.reason)
    })
}

/// Whether a result may be denormal where zero is expected: XLA:CPU flushes denormals to zero, halo keeps them.
pub fn flushes_denormals(source: ResultSource) -> bool {
    source == ResultSource::Xla
}

/// Distance from 1 to the next value of a float or of the parts of a complex number.
pub(super) fn step(element_type: ElementType) -> f64 {
    let mantissa_bits = match element_type.real_part() {
        F64 => 52,
        F32 => 23,
        F16 => 10,
        BF16 => 7,
        F8E3M4 => 4,
        F8E4M3 | F8E4M3FN | F8E4M3B11FNUZ | F8E4M3FNUZ => 3,
        F8E5M2 | F8E5M2FNUZ => 2,
        F4E2M1FN => 1,
        _ => 0,
    };
    (-f64::from(mantissa_bits)).exp2()
}

/// The smallest normal value.
pub(super) fn smallest_normal(element_type: ElementType) -> f64 {
    let exponent = match element_type.real_part() {
        F64 => -1022,
        F16 | F8E5M2 => -14,
        F8E5M2FNUZ => -15,
        F8E4M3 | F8E4M3FN => -6,
        F8E4M3FNUZ => -7,
        F8E4M3B11FNUZ => -10,
        F8E3M4 => -2,
        F4E2M1FN => 0,
        F8E8M0FNU => -127,
        _ => -126,
    };
    f64::from(exponent).exp2()
}
