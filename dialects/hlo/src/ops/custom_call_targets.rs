//! Custom calls whose functions come with halo: what each takes and gives. The rules are `custom_call`'s C3 to C8.
//!
//! A signature's arrays are matrices, vectors and numbers, each with the same batch dimensions in front. Sizes are letters:
//! a size means the same wherever it stands in a signature.

use super::custom_call::CustomCallAttributes;
use super::sparse_product::SPARSE_PRODUCT;
use super::view::counted;
use super::{OpError, OpView, same_sizes_and_types};
use crate::element_type::ElementType;
use crate::shape::{ArrayShape, Shape};

/// Targets that only say something about their operand: the result is the operand.
const ANNOTATIONS: [&str; 8] = [
    "Sharding",
    "LayoutConstraint",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "PinToDevice",
    "xla.sdy.FuncResultSharding",
    SHARDING_GROUP,
];

const SHARDING_GROUP: &str = "xla.sdy.ShardingGroup";

/// Annotations between the shape of a whole array and that of a device's part of it.
const PARTITIONINGS: [&str; 2] = ["SPMDFullToShardShape", "SPMDShardToFullShape"];

/// A whole array of one with run-time sizes, and these: what XLA makes of dynamic dimensions.
pub const PAD_TO_STATIC: &str = "PadToStatic";

/// An array of run-time sizes of a whole one and these.
pub const SLICE_TO_DYNAMIC: &str = "SliceToDynamic";

/// The program fails, with the call's `backend_config` as reason, unless the operand, a `pred`, is true: what passes make of
/// rules that only run-time sizes decide.
pub const REQUIRE: &str = "halo.require";

/// Whether a function of this name only says something about its operand.
pub fn is_annotation(target: &str) -> bool {
    ANNOTATIONS.contains(&target) || is_partitioning(target)
}

/// Whether a function of this name relates a whole array to a device's part of it: shapes differ if there are several devices.
pub fn is_partitioning(target: &str) -> bool {
    PARTITIONINGS.contains(&target)
}

/// Element types of a routine's arrays.
#[derive(Clone, Copy)]
enum Element {
    /// That of the routine.
    Own,
    /// The real numbers of the routine's type.
    Real,
    /// The complex numbers of the routine's type.
    Complex,
    /// `s32`.
    Integer,
}

/// Size of a dimension.
#[derive(Clone, Copy)]
enum Size {
    /// A letter of the signature.
    Letter(Letter),
    /// The smaller one of M and N.
    Smaller,
    /// N without one, but not below 0.
    Between,
}

/// Sizes that a signature's first arrays determine.
#[derive(Clone, Copy)]
enum Letter {
    M,
    N,
    K,
    P,
    Q,
}

/// An array but for its batch dimensions.
struct Array(Element, &'static [Size]);

/// What a routine takes and gives.
struct Signature {
    operands: &'static [Array],
    results: &'static [Array],
}

use Element::{Complex, Integer, Own, Real};
use Size::{Between, Smaller};

const M: Size = Size::Letter(Letter::M);
const N: Size = Size::Letter(Letter::N);
const K: Size = Size::Letter(Letter::K);
const P: Size = Size::Letter(Letter::P);
const Q: Size = Size::Letter(Letter::Q);

const MATRIX: Array = Array(Own, &[M, N]);
const SQUARE: Array = Array(Own, &[N, N]);
const BAND: Array = Array(Own, &[M]);
const INFO: Array = Array(Integer, &[]);

/// The LAPACK routines that JAX calls on CPUs, without the letter of the element type.
fn lapack_signature(routine: &str, is_complex: bool) -> Option<Signature> {
    let signature = |operands, results| Some(Signature { operands, results });
    match (routine, is_complex) {
        ("potrf", _) => signature(&[SQUARE], &[SQUARE, INFO]),
        ("trsm", _) => signature(&[Array(Own, &[K, K]), MATRIX], &[MATRIX]),
        ("getrf", _) => signature(&[MATRIX], &[MATRIX, Array(Integer, &[Smaller]), INFO]),
        ("geqrf", _) => signature(&[MATRIX], &[MATRIX, Array(Own, &[Smaller])]),
        ("geqp3", _) => {
            signature(&[MATRIX, Array(Integer, &[N])], &[MATRIX, Array(Integer, &[N]), Array(Own, &[Smaller])])
        }
        ("orgqr", false) | ("ungqr", true) => signature(&[MATRIX, Array(Own, &[K])], &[MATRIX]),
        ("ormqr", false) | ("unmqr", true) => signature(&[Array(Own, &[P, Q]), Array(Own, &[K]), MATRIX], &[MATRIX]),
        ("syevd", false) | ("heevd", true) => signature(&[SQUARE], &[SQUARE, Array(Real, &[N]), INFO]),
        ("gesdd" | "gesvd", _) => {
            signature(&[MATRIX], &[MATRIX, Array(Real, &[Smaller]), Array(Own, &[M, K]), Array(Own, &[P, N]), INFO])
        }
        ("geev", false) => signature(
            &[SQUARE],
            &[Array(Own, &[N]), Array(Own, &[N]), Array(Complex, &[N, N]), Array(Complex, &[N, N]), INFO],
        ),
        ("geev", true) => signature(&[SQUARE], &[Array(Own, &[N]), SQUARE, SQUARE, INFO]),
        ("gees", false) => signature(&[SQUARE], &[SQUARE, SQUARE, Array(Own, &[N]), Array(Own, &[N]), INFO, INFO]),
        ("gees", true) => signature(&[SQUARE], &[SQUARE, SQUARE, Array(Own, &[N]), INFO, INFO]),
        ("gehrd", _) => signature(&[SQUARE], &[SQUARE, Array(Own, &[Between]), INFO]),
        ("sytrd", false) | ("hetrd", true) => {
            signature(&[SQUARE], &[SQUARE, Array(Real, &[N]), Array(Real, &[Between]), Array(Own, &[Between]), INFO])
        }
        ("gtsv", _) => signature(&[BAND, BAND, BAND, MATRIX], &[BAND, BAND, BAND, MATRIX, INFO]),
        _ => None,
    }
}

/// The signature of a function for matrices of any element type: those that XLA's own factorisations are, by its names, and
/// one of JAX's.
fn signature_of_any_type(target: &str) -> Option<Signature> {
    match target {
        "Qr" => lapack_signature("geqrf", false),
        "ProductOfElementaryHouseholderReflectors" => lapack_signature("orgqr", false),
        "Eigh" => Some(Signature { operands: &[SQUARE], results: &[SQUARE, Array(Real, &[N])] }),
        "tridiagonal_solve_perturbed_ffi" => {
            Some(Signature { operands: &[BAND, BAND, BAND, MATRIX], results: &[MATRIX] })
        }
        _ => None,
    }
}

/// The signature of a target and the element type it is for.
fn signature(target: &str, view: &OpView<'_>) -> Option<(Signature, ElementType)> {
    if let Some(signature) = signature_of_any_type(target) {
        let own = view.operands.first()?.as_array().map_or(ElementType::F32, |operand| operand.element_type);
        let known = [ElementType::F32, ElementType::F64, ElementType::C64, ElementType::C128];
        return Some((signature, if known.contains(&own) { own } else { ElementType::F32 }));
    }
    let (letter, routine) = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?.split_at_checked(1)?;
    let own = match letter {
        "s" => ElementType::F32,
        "d" => ElementType::F64,
        "c" => ElementType::C64,
        "z" => ElementType::C128,
        _ => return None,
    };
    Some((lapack_signature(routine, own.is_complex())?, own))
}

/// What is known of the sizes so far.
struct Sizes {
    own: ElementType,
    batch: Vec<i64>,
    letters: [Option<i64>; 5],
}

impl Size {
    /// Its value, as far as it is known.
    fn value(self, known: &Sizes) -> Option<i64> {
        match self {
            Size::Letter(letter) => known.letters[letter as usize],
            Smaller => Some(M.value(known)?.min(N.value(known)?)),
            Between => Some((N.value(known)? - 1).max(0)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Size::Letter(letter) => ["m", "n", "k", "p", "q"][letter as usize],
            Smaller => "min(m,n)",
            Between => "n-1",
        }
    }
}

impl Array {
    fn element_type(&self, own: ElementType) -> ElementType {
        match self.0 {
            Own => own,
            Real => own.real_part(),
            Complex => own.complex_of().unwrap_or(own),
            Integer => ElementType::S32,
        }
    }

    /// The batch dimensions of an array that may be this one.
    fn batch<'s>(&self, shape: &'s ArrayShape) -> Option<&'s [i64]> {
        shape.dimensions.get(..shape.rank().checked_sub(self.1.len())?)
    }

    /// Checks a shape; sizes met for the first time are known from then on. An error is the shape that is expected.
    fn check(&self, shape: &Shape, known: &mut Sizes) -> Result<(), String> {
        let before = known.letters;
        let fits = shape.as_array().is_some_and(|array| {
            let sizes = array.dimensions.get(known.batch.len()..).unwrap_or_default();
            array.element_type == self.element_type(known.own)
                && self.batch(array) == Some(&known.batch)
                && self.1.iter().zip(sizes).all(|(size, &found)| match size {
                    Size::Letter(letter) => *known.letters[*letter as usize].get_or_insert(found) == found,
                    Smaller | Between => size.value(known) == Some(found),
                })
        });
        if fits {
            return Ok(());
        }
        known.letters = before;
        let name = |size: &Size| size.value(known).map_or(size.name().to_string(), |value| value.to_string());
        let sizes: Vec<String> = known.batch.iter().map(i64::to_string).chain(self.1.iter().map(name)).collect();
        Err(format!("{}[{}]", self.element_type(known.own), sizes.join(",")))
    }
}

/// Checks the operands (C5) and the declared result (C6) of a routine.
fn check_routine(view: &OpView<'_>, signature: &Signature, own: ElementType) -> Result<(), OpError> {
    if view.operands.len() != signature.operands.len() {
        let expected = counted(signature.operands.len(), "operand");
        return Err(view.error(Some("C5"), format!("the function takes {expected}, got {}", view.operands.len())));
    }
    let batch = signature.operands.first().and_then(|array| array.batch(view.operands.first()?.as_array()?));
    let mut known = Sizes { own, batch: batch.unwrap_or_default().to_vec(), letters: [None; 5] };
    for (number, (array, &operand)) in signature.operands.iter().zip(view.operands).enumerate() {
        array.check(operand, &mut known).map_err(|expected| {
            view.operand_error(Some("C5"), number, format!("of the function must be {expected}, got {operand}"))
        })?;
    }
    let declared = view.declared()?;
    let results = match (declared, signature.results) {
        (Shape::Tuple(elements), [_, _, ..]) => &elements[..],
        (single, _) => std::slice::from_ref(single),
    };
    if results.len() != signature.results.len() {
        let expected = counted(signature.results.len(), "array");
        return Err(view.error(Some("C6"), format!("the function gives {expected}, {declared} is declared")));
    }
    for (number, (array, result)) in signature.results.iter().zip(results).enumerate() {
        array.check(result, &mut known).map_err(|expected| {
            view.error(Some("C6"), format!("result {number} of the function must be {expected}, {result} is declared"))
        })?;
    }
    Ok(())
}

/// The result of an annotation is its operand's value (C3).
fn check_annotation(view: &OpView<'_>, target: &str) -> Result<(), OpError> {
    let (&[operand], declared) = (view.operands, view.declared()?) else {
        return Err(view.error(Some("C3"), format!("`{target}` takes 1 operand, got {}", view.operands.len())));
    };
    let fits = match (operand, declared) {
        (Shape::Array(whole), Shape::Array(part)) if is_partitioning(target) => {
            whole.element_type == part.element_type && whole.rank() == part.rank()
        }
        // XLA's form of a group has a name and no value.
        (_, Shape::Tuple(elements)) if target == SHARDING_GROUP && elements.is_empty() => true,
        _ => same_sizes_and_types(operand, declared),
    };
    if fits {
        return Ok(());
    }
    Err(view
        .error(Some("C3"), format!("the result of `{target}` must be its operand, {operand}, {declared} is declared")))
}

/// The k largest elements of the last dimension and their places (C4).
fn check_top_k(view: &OpView<'_>) -> Result<(), OpError> {
    let label = Some("C4");
    let &[Shape::Array(operand)] = view.operands else {
        return Err(view.error(label, format!("`TopK` takes 1 array, got {}", super::view::list(view.operands))));
    };
    let declared = view.declared()?;
    let fits = match (operand.dimensions.split_last(), declared.as_tuple()) {
        (Some((length, rows)), Some([Shape::Array(values), Shape::Array(places)])) => {
            let k = values.dimensions.last().copied();
            !operand.element_type.is_complex()
                && values.element_type == operand.element_type
                && places.element_type == ElementType::S32
                && values.dimensions == places.dimensions
                && values.dimensions.split_last().is_some_and(|(_, values)| values == rows)
                && k.is_some_and(|k| (0..=*length).contains(&k))
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let message = format!(
        "`TopK` of {operand} gives a tuple of k elements of each row and their s32 places, k at most the row's length, \
         {declared} is declared"
    );
    Err(view.error(label, message))
}

/// C7: beside an array and the same with run-time sizes there is a scalar `s32` for each of its dimensions.
fn check_sizes(view: &OpView<'_>, target: &str) -> Result<(), OpError> {
    let operands: Vec<Shape> = view.operands.iter().map(|&operand| operand.clone()).collect();
    let declared = view.declared()?;
    let (whole, sizes, other) = match (target, declared, operands.split_first()) {
        (PAD_TO_STATIC, Shape::Tuple(results), Some((operand, []))) if !results.is_empty() => {
            (&results[0], &results[1..], operand)
        }
        (SLICE_TO_DYNAMIC, result, Some((operand, sizes))) => (operand, sizes, result),
        _ => return Err(view.error(Some("C7"), format!("`{target}` takes or gives an array and its sizes"))),
    };
    let rank = whole.as_array().map_or(0, ArrayShape::rank);
    let scalar = Shape::scalar(ElementType::S32);
    if whole.as_array().is_none_or(ArrayShape::is_dynamic) || !same_sizes_and_types(whole, other) {
        let message = format!("`{target}` relates a whole array to one of its bounds, got {whole} and {other}");
        return Err(view.error(Some("C7"), message));
    }
    if sizes.len() != rank || sizes.iter().any(|size| !same_sizes_and_types(size, &scalar)) {
        let message = format!("`{target}` has {}, one for each dimension", counted(rank, "size of s32[]"));
        return Err(view.error(Some("C7"), message));
    }
    Ok(())
}

/// Checks the call of a function that comes with halo; others are what they declare.
pub(super) fn check(view: &OpView<'_>) -> Result<(), OpError> {
    let CustomCallAttributes { custom_call_target: target, .. } = view.attributes()?;
    if is_annotation(target) {
        return check_annotation(view, target);
    }
    if target == "TopK" {
        return check_top_k(view);
    }
    if matches!(target, PAD_TO_STATIC | SLICE_TO_DYNAMIC) {
        return check_sizes(view, target);
    }
    if target == SPARSE_PRODUCT {
        return super::sparse_product::check(view);
    }
    match signature(target, view) {
        Some((signature, own)) => check_routine(view, &signature, own),
        None => Ok(()),
    }
}
