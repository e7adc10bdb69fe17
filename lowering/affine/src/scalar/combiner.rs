//! Reduction computations that are one associative operation, which may therefore be done a vector at a time.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::Computation;
use hlo::op_kind::OpKind;
use melior::ir::{Attribute, Type};
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::convert::convert;
use super::small_float::Format;
use super::{RegisterValue, float, register_type, registers, table};

/// An associative and commutative operation on elements of one type.
///
/// Sums and products of floats below 32 bits are accumulated in `f32` and rounded once, by [`Combiner::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combiner {
    kind: OpKind,
    /// Type of the elements.
    element_type: ElementType,
    /// Type of accumulators.
    accumulator: ElementType,
    /// Name of the operation among `vector.reduction`'s kinds.
    reduction: &'static str,
}

/// The combiner that a computation of two scalars is; `None` for any other computation.
pub fn recognise(computation: &Computation) -> Option<Combiner> {
    let root = computation.root();
    let [first, second] = computation.parameters[..] else { return None };
    let [left, right] = root.operands[..] else { return None };
    if (left, right) != (first, second) && (left, right) != (second, first) {
        return None;
    }
    let element_type = root.shape.as_array()?.element_type;
    let is_scalar = |id| {
        let shape = computation.get(id).shape.as_array();
        shape.is_some_and(|shape| shape.rank() == 0 && shape.element_type == element_type)
    };
    let rounds = matches!(root.kind, OpKind::Add | OpKind::Multiply) && Format::of(element_type).is_some();
    let accumulator = if rounds { ElementType::F32 } else { element_type };
    let reduction = reduction(root.kind, accumulator)?;
    let combiner = Combiner { kind: root.kind, element_type, accumulator, reduction };
    (is_scalar(first) && is_scalar(second)).then_some(combiner)
}

/// Whether an operation on elements of a type is associative, as far as rounding lets it.
pub(crate) fn is_associative(kind: OpKind, element_type: ElementType) -> bool {
    reduction(kind, element_type).is_some()
}

/// Name of an operation on elements of a type among `vector.reduction`'s kinds.
fn reduction(kind: OpKind, element_type: ElementType) -> Option<&'static str> {
    let (_, names) = REDUCTIONS.iter().find(|(own, _)| *own == kind)?;
    let name = names[element_type.class() as usize];
    (!name.is_empty()).then_some(name)
}

impl Combiner {
    /// The sum of elements of a type, in that type.
    pub fn sum(element_type: ElementType) -> Self {
        let reduction = if element_type == ElementType::Pred { "or" } else { "add" };
        Combiner { kind: OpKind::Add, element_type, accumulator: element_type, reduction }
    }

    /// The largest of floats of a type.
    pub fn largest(element_type: ElementType) -> Self {
        Combiner { kind: OpKind::Maximum, element_type, accumulator: element_type, reduction: "maximumf" }
    }

    /// Type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Whether combining with the same once more changes nothing.
    pub fn is_idempotent(&self) -> bool {
        matches!(self.kind, OpKind::Maximum | OpKind::Minimum | OpKind::And | OpKind::Or)
    }

    /// Whether this is a sum that is rounded, so that its order matters to the last digits.
    pub fn sums_floats(&self) -> bool {
        self.kind == OpKind::Add && matches!(self.accumulator.class(), ElementClass::Float | ElementClass::Complex)
    }

    /// The same operation with real floats summed, or multiplied, in `f64`.
    pub fn in_double(self) -> Self {
        let rounds = matches!(self.kind, OpKind::Add | OpKind::Multiply);
        match rounds && self.accumulator.class() == ElementClass::Float {
            true => Combiner { accumulator: ElementType::F64, ..self },
            false => self,
        }
    }

    /// The same operation on predicates of which each is all bits, or none, of whole numbers of 32 or 64 bits.
    pub fn of_masks(self, bits: u32) -> Self {
        let accumulator = match bits {
            32 => ElementType::S32,
            64 => ElementType::S64,
            _ => return self,
        };
        let kind = match self.reduction {
            "or" => OpKind::Or,
            "and" => OpKind::And,
            "xor" => OpKind::Xor,
            _ => return self,
        };
        if self.element_type == ElementType::Pred { Combiner { kind, accumulator, ..self } } else { self }
    }

    /// Whether what some elements in the middle give can be told from what all of them give by no more than rounding: not where
    /// a product of a few may be too large, or too small, for its type, though that of all is neither.
    pub fn takes_parts(&self) -> bool {
        let is_float = matches!(self.accumulator.class(), ElementClass::Float | ElementClass::Complex);
        !(is_float && self.kind == OpKind::Multiply && self.accumulator == self.element_type)
    }

    /// How many registers of elements hold as many accumulators.
    pub fn registers_of_accumulators(&self) -> u32 {
        register_width(self.accumulator) / register_width(self.element_type)
    }

    /// Of whole numbers, the largest or smallest of which is that of the floats in whose order they are ([`Self::ordered`]).
    pub fn of_ordered(&self) -> Option<Self> {
        let (name, element_type) = (self.extremum()?, self.ordered_type()?);
        Some(Combiner { kind: self.kind, element_type, accumulator: element_type, reduction: name })
    }

    /// Floats as whole numbers in their order, of which NaN is the largest, or the smallest, as this one keeps it.
    pub fn ordered<'c>(&self, builder: &OpBuilder<'c>, floats: &RegisterValue<'c>) -> RegisterValue<'c> {
        let Some(ordered) = self.of_ordered() else { return *floats };
        let width = ordered.element_type.bit_width();
        let numbers = float::turned(builder, builder.bitcast(floats.value, builder.integer_type(width)));
        let [smallest, largest] = [i64::MIN, i64::MAX].map(|limit| limit >> (64 - width));
        let nan = builder.integer_like(numbers, if self.kind == OpKind::Maximum { largest } else { smallest });
        let is_nan = builder.cmpf(CmpfPredicate::Uno, floats.value, floats.value);
        RegisterValue { element_type: ordered.element_type, value: builder.select(is_nan, nan, numbers), ..*floats }
    }

    /// The inverse of [`Self::ordered`].
    pub fn floats_of<'c>(&self, builder: &OpBuilder<'c>, numbers: &RegisterValue<'c>) -> RegisterValue<'c> {
        if self.of_ordered().is_none() {
            return *numbers;
        }
        let float = builder.element_type_of(register_type(builder, self.accumulator, None));
        let value = builder.bitcast(float::turned(builder, numbers.value), float);
        RegisterValue { element_type: self.accumulator, value, ..*numbers }
    }

    /// The operation on whole numbers that finds the largest or the smallest.
    fn extremum(&self) -> Option<&'static str> {
        match self.kind {
            OpKind::Maximum => Some("maxsi"),
            OpKind::Minimum => Some("minsi"),
            _ => None,
        }
    }

    /// The whole numbers that are as wide as the registers of real floats.
    fn ordered_type(&self) -> Option<ElementType> {
        let is_double = self.accumulator == ElementType::F64;
        (self.accumulator.class() == ElementClass::Float).then_some(if is_double {
            ElementType::S64
        } else {
            ElementType::S32
        })
    }

    /// The accumulator that changes nothing, in every lane.
    pub fn identity<'c>(&self, builder: &OpBuilder<'c>, lanes: Option<u32>) -> RegisterValue<'c> {
        let r#type = register_type(builder, self.accumulator, lanes);
        let name = self.reduction;
        let width = self.accumulator.bit_width();
        let value = match self.accumulator.class() {
            ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => {
                let value = match name {
                    "mul" => 1,
                    "and" | "minui" => integer_limit(self.accumulator),
                    "maxsi" => i64::MIN >> (64 - width),
                    "minsi" => i64::MAX >> (64 - width),
                    _ => 0,
                };
                builder.constant_integer(r#type, value)
            }
            ElementClass::Float | ElementClass::Complex => {
                let bound = Format::of(self.accumulator).map_or(f64::INFINITY, Format::bound);
                let value = match name {
                    "mul" => 1.0,
                    "maximumf" if self.accumulator == ElementType::F8E8M0FNU => 2f64.powi(-127),
                    "maximumf" => -bound,
                    "minimumf" => bound,
                    _ => -0.0,
                };
                builder.constant_float(r#type, value)
            }
        };
        let imaginary = if name == "mul" { 0.0 } else { -0.0 };
        let imaginary = self.accumulator.is_complex().then(|| builder.constant_float(r#type, imaginary));
        RegisterValue { element_type: self.accumulator, lanes, value, imaginary }
    }

    /// An element, or an accumulator, as an accumulator.
    pub fn widen<'c>(&self, builder: &OpBuilder<'c>, value: &RegisterValue<'c>) -> RegisterValue<'c> {
        if value.element_type == ElementType::Pred && self.accumulator.class() == ElementClass::Signed {
            let mask = builder.extsi(value.value, builder.integer_type(self.accumulator.bit_width()));
            return RegisterValue { element_type: self.accumulator, value: mask, ..*value };
        }
        convert(builder, value, self.accumulator).unwrap_or(*value)
    }

    /// An accumulator as an element.
    pub fn finish<'c>(&self, builder: &OpBuilder<'c>, accumulator: &RegisterValue<'c>) -> RegisterValue<'c> {
        convert(builder, accumulator, self.element_type).unwrap_or(*accumulator)
    }

    /// Combines lane by lane, to an accumulator.
    pub fn combine<'c>(
        &self,
        builder: &OpBuilder<'c>,
        a: &RegisterValue<'c>,
        b: &RegisterValue<'c>,
    ) -> RegisterValue<'c> {
        let (a, b) = (self.widen(builder, a), self.widen(builder, b));
        // Recognised combiners are rows of the table.
        table::emit(builder, self.kind, &[a, b]).unwrap_or(a)
    }

    /// Combines the lanes of a vector of accumulators to a single one, in any order.
    pub fn horizontal<'c>(&self, builder: &OpBuilder<'c>, vector: &RegisterValue<'c>) -> RegisterValue<'c> {
        let Some(lanes) = vector.lanes else { return *vector };
        let name = self.reduction;
        let reduce = |value: Value<'c>| {
            let is_rounded = matches!(self.accumulator.class(), ElementClass::Float | ElementClass::Complex);
            self.extremum_of_lanes(builder, value)
                .unwrap_or_else(|| reduce_lanes(builder, name, value, is_rounded && matches!(name, "add" | "mul")))
        };
        match vector.imaginary {
            None => {
                let value = table::bring_into_type(builder, self.accumulator, reduce(vector.value));
                RegisterValue::real(builder, self.accumulator, value)
            }
            Some(imaginary) if name == "add" => {
                RegisterValue::complex(builder, self.accumulator, reduce(vector.value), reduce(imaginary))
            }
            Some(_) => (1..lanes).fold(registers::extract(builder, vector, 0), |product, lane| {
                self.combine(builder, &product, &registers::extract(builder, vector, lane))
            }),
        }
    }

    /// The largest or the smallest lane of a vector of floats, which takes a comparison that keeps NaN and orders zeros for each
    /// halving: whole numbers are in the order of the floats whose bits they are, once those of negative ones are turned.
    fn extremum_of_lanes<'c>(&self, builder: &OpBuilder<'c>, vector: Value<'c>) -> Option<Value<'c>> {
        let name = self.extremum()?;
        let element = builder.element_type_of(vector.r#type());
        let (width, infinity): (u32, i64) = if element == Type::float32(builder.context()) {
            (32, 0x7f80_0000)
        } else if element == Type::float64(builder.context()) {
            (64, 0x7ff0_0000_0000_0000)
        } else {
            return None;
        };
        let magnitude = i64::MAX >> (64 - width);
        let nan = infinity | ((1 << infinity.trailing_zeros()) >> 1);
        let bits = builder.bitcast(vector, builder.integer_type(width));
        let without_sign = builder.andi(bits, builder.integer_like(bits, magnitude));
        let is_nan = builder.cmpi(CmpiPredicate::Ugt, without_sign, builder.integer_like(bits, infinity));
        let has_nan = reduce_lanes(builder, "or", is_nan, false);
        let extremum = float::turned(builder, reduce_lanes(builder, name, float::turned(builder, bits), false));
        let result = builder.select(has_nan, builder.integer_like(extremum, nan), extremum);
        Some(builder.bitcast(result, element))
    }
}

/// Reduces the lanes of a vector by an operation of this name, in any order if that matters to the last digits.
fn reduce_lanes<'c>(builder: &OpBuilder<'c>, name: &str, vector: Value<'c>, reassociates: bool) -> Value<'c> {
    let kind = Attribute::parse(builder.context(), &format!("#vector.kind<{name}>"))
        .unwrap_or_else(|| Attribute::unit(builder.context()));
    let mut attributes = vec![("kind", kind)];
    if reassociates {
        attributes.push(("fastmath", builder.reassociate()));
    }
    builder.value("vector.reduction", &[vector], builder.element_type_of(vector.r#type()), &attributes)
}

/// (operation, names in `vector.reduction` for `pred`, signed, unsigned, float and complex elements)
const REDUCTIONS: [(OpKind, [&str; 5]); 7] = [
    (OpKind::Add, ["or", "add", "add", "add", "add"]),
    (OpKind::Multiply, ["and", "mul", "mul", "mul", "mul"]),
    (OpKind::Maximum, ["or", "maxsi", "maxui", "maximumf", ""]),
    (OpKind::Minimum, ["and", "minsi", "minui", "minimumf", ""]),
    (OpKind::And, ["and", "and", "and", "", ""]),
    (OpKind::Or, ["or", "or", "or", "", ""]),
    (OpKind::Xor, ["xor", "xor", "xor", "", ""]),
];

/// The bits of a lane in which elements of a type are computed, of complex ones those of each part: small floats are computed as `f32`.
pub(crate) fn register_width(element_type: ElementType) -> u32 {
    match element_type.class() {
        ElementClass::Float | ElementClass::Complex => element_type.real_part().bit_width().max(32),
        ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => element_type.bit_width(),
    }
}

/// The integer of all ones, in range of its register.
fn integer_limit(element_type: ElementType) -> i64 {
    match element_type.class() {
        ElementClass::Unsigned if element_type.bit_width() < 64 => (1i64 << element_type.bit_width()) - 1,
        _ => -1,
    }
}
