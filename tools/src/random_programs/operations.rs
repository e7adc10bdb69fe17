//! One random operation on values that exist.
//!
//! Each function looks for operands that fit and gives nothing when there are none.

use hlo::element_type::{ElementClass, ElementType};

use super::accuracy::{Accuracy, whole_limit};
use super::generate::{Body, Generator, MOST_ELEMENTS, Value};
use super::{movement, reductions, sized, structured};

type Operation = fn(&mut Body, &mut Generator) -> Option<Value>;

/// The operations, those of real programs more than once.
const OPERATIONS: &[Operation] = &[
    unary,
    unary,
    smooth,
    smooth,
    binary,
    binary,
    binary,
    compare,
    select,
    select,
    clamp,
    convert,
    convert,
    movement::broadcast,
    movement::broadcast,
    movement::reshape,
    movement::transpose,
    movement::reverse,
    movement::slice,
    movement::slice,
    movement::pad,
    movement::concatenate,
    movement::iota,
    reductions::reduce,
    reductions::reduce,
    reductions::along_rows,
    reductions::along_rows,
    reductions::reduce_window,
    reductions::dot,
    movement::dynamic_slice,
    movement::dynamic_update_slice,
    movement::gather,
    reductions::sort,
    structured::batched_dot,
    structured::bitcast_convert,
    structured::convolution,
    structured::convolution,
    structured::dilated_reduce_window,
    structured::greatest,
    structured::ragged_dot,
    structured::scatter,
    structured::select_and_scatter,
    sized::sized,
    sized::sized,
];

/// Adds a random operation.
pub(super) fn random(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operation = *generator.choose(OPERATIONS);
    operation(body, generator)
}

fn is_float(value: &Value) -> bool {
    value.element_type.is_float()
}

/// Adds an operation if its accuracy is good enough to compare anything.
pub(super) fn finish(
    body: &mut Body,
    generator: &mut Generator,
    operation: &str,
    operands: &[&Value],
    attributes: &str,
    (element_type, dimensions, accuracy): (ElementType, &[i64], Accuracy),
) -> Option<Value> {
    let is_useful = accuracy.is_exact() || (!body.exact_only && accuracy.error < 0.1 * accuracy.bound.min(1e6));
    if !is_useful || dimensions.iter().product::<i64>() > MOST_ELEMENTS {
        return None;
    }
    Some(body.apply(generator, operation, operands, attributes, (element_type, dimensions, accuracy)))
}

/// An operation whose result has its operand's shape, and its numbers only moved or turned.
pub(super) fn same(
    body: &mut Body,
    generator: &mut Generator,
    operation: &str,
    operand: &Value,
    attributes: &str,
) -> Option<Value> {
    let result = (operand.element_type, &operand.dimensions[..], operand.accuracy);
    finish(body, generator, operation, &[operand], attributes, result)
}

fn unary(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |_| true)?;
    let anywhere = Accuracy::EXACT;
    let (operation, accuracy) = match operand.element_type.class() {
        ElementClass::Predicate => ("not", operand.accuracy),
        ElementClass::Signed => {
            (*generator.choose(&["negate", "abs", "not", "sign", "popcnt", "count-leading-zeros"]), anywhere)
        }
        ElementClass::Unsigned => (*generator.choose(&["negate", "not", "popcnt", "count-leading-zeros"]), anywhere),
        ElementClass::Float if operand.is_exact() => {
            let operations =
                ["negate", "abs", "sign", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "sqrt"];
            let operation = *generator.choose(&operations);
            let whole = operation != "sqrt" && (operand.accuracy.whole || !matches!(operation, "negate" | "abs"));
            (
                operation,
                Accuracy {
                    whole: whole && operand.accuracy.bound.is_finite(),
                    bound: operand.accuracy.bound + 1.0,
                    error: 0.0,
                },
            )
        }
        ElementClass::Float => (*generator.choose(&["negate", "abs"]), operand.accuracy),
        ElementClass::Complex => ("negate", operand.accuracy),
    };
    finish(body, generator, operation, &[&operand], "", (operand.element_type, &operand.dimensions, accuracy))
}

/// Functions that are rounded differently by different correct engines.
fn smooth(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| is_float(value) && value.accuracy.bound <= 64.0)?;
    let largest = operand.accuracy.bound;
    // Name, bound of the result, slope.
    let functions = [
        ("tanh", 1.0, 1.0),
        ("logistic", 1.0, 0.25),
        ("sine", 1.0, 1.0),
        ("cosine", 1.0, 1.0),
        ("erf", 1.0, 1.2),
        ("exponential", largest.exp(), largest.exp()),
        ("exponential-minus-one", largest.exp(), largest.exp()),
    ];
    let (operation, bound, slope) = *generator.choose(&functions);
    let accuracy = operand.accuracy.through(operand.element_type, bound, slope);
    finish(body, generator, operation, &[&operand], "", (operand.element_type, &operand.dimensions, accuracy))
}

/// A value of the same shape as `first`: another one, a constant for all elements, or `first` itself.
pub(super) fn partner(body: &mut Body, generator: &mut Generator, first: &Value) -> Value {
    let other = body.pick(generator, |value| {
        value.element_type == first.element_type && value.dimensions == first.dimensions && value.name != first.name
    });
    match other {
        Some(other) => other,
        None if generator.chance(4) => first.clone(),
        None => {
            let number = generator.random.i64(-3..=3);
            let constant = body.constant(generator, first.element_type, number);
            fill(body, generator, &constant, &first.dimensions)
        }
    }
}

/// A scalar in all elements of an array.
fn fill(body: &mut Body, generator: &mut Generator, scalar: &Value, dimensions: &[i64]) -> Value {
    let result = (scalar.element_type, dimensions, scalar.accuracy);
    body.apply(generator, "broadcast", &[scalar], ", dimensions={}", result)
}

fn binary(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let first = body.pick(generator, |_| true)?;
    let second = partner(body, generator, &first);
    let element_type = first.element_type;
    let (a, b) = (first.accuracy, second.accuracy);
    let anywhere = Accuracy::EXACT;
    let operation = match element_type.class() {
        ElementClass::Predicate => *generator.choose(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"]),
        ElementClass::Signed | ElementClass::Unsigned => *generator.choose(&[
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "and",
            "or",
            "xor",
            "divide",
            "remainder",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
        ]),
        ElementClass::Float if a.is_exact() && b.is_exact() => {
            *generator.choose(&["add", "subtract", "multiply", "maximum", "minimum", "divide"])
        }
        ElementClass::Float => *generator.choose(&["add", "subtract", "multiply", "maximum", "minimum"]),
        ElementClass::Complex => *generator.choose(&["add", "subtract", "multiply"]),
    };
    let accuracy = match (element_type.class(), operation) {
        (ElementClass::Float | ElementClass::Complex, "add" | "subtract") => a.plus(b, element_type),
        (ElementClass::Float, "multiply") => {
            let product = a.times(b, element_type);
            // It may become a part of a fused multiply-add.
            let may_be_fused = generator.excess_precision && element_type.bit_width() >= 32;
            if may_be_fused { product.maybe_rounded(element_type) } else { product }
        }
        // A sum of products.
        (ElementClass::Complex, "multiply") => a.times(b, element_type).sum(element_type, 2),
        (_, "maximum" | "minimum") => a.or(b),
        _ => anywhere,
    };
    finish(body, generator, operation, &[&first, &second], "", (element_type, &first.dimensions, accuracy))
}

fn compare(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let first = body.pick(generator, |value| value.is_exact() && !value.element_type.is_complex())?;
    let second = partner(body, generator, &first);
    if !second.is_exact() {
        return None;
    }
    let direction = *generator.choose(&["EQ", "NE", "LT", "LE", "GT", "GE"]);
    let attributes = format!(", direction={direction}");
    let result = (ElementType::Pred, &first.dimensions[..], Accuracy::whole(1.0));
    finish(body, generator, "compare", &[&first, &second], &attributes, result)
}

fn select(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let on_true = body.pick(generator, |_| true)?;
    let chooser = body.pick(generator, |value| {
        value.element_type == ElementType::Pred && (value.dimensions == on_true.dimensions || value.rank() == 0)
    })?;
    let on_false = partner(body, generator, &on_true);
    let accuracy = on_true.accuracy.or(on_false.accuracy);
    let result = (on_true.element_type, &on_true.dimensions[..], accuracy);
    finish(body, generator, "select", &[&chooser, &on_true, &on_false], "", result)
}

fn clamp(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand =
        body.pick(generator, |value| !value.element_type.is_complex() && value.element_type != ElementType::Pred)?;
    let low = body.constant(generator, operand.element_type, 0);
    let high = body.constant(generator, operand.element_type, 3);
    let accuracy = Accuracy { bound: operand.accuracy.bound.min(3.0), ..operand.accuracy };
    let result = (operand.element_type, &operand.dimensions[..], accuracy);
    finish(body, generator, "clamp", &[&low, &operand, &high], "", result)
}

fn convert(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |_| true)?;
    let target = generator.element_type();
    let before = operand.accuracy;
    let is_number = |element_type: ElementType| element_type.is_float() || element_type.is_complex();
    if operand.element_type.is_complex() && !target.is_complex() {
        return None;
    }
    let accuracy = match (is_number(target), before.is_exact()) {
        // Rounding of what is not exact may fall either way.
        (true, false) => before.through(target, before.bound, 1.0),
        (true, true) => {
            let bound = if is_number(operand.element_type) { before.bound } else { f64::INFINITY };
            let is_kept = before.whole && before.bound <= whole_limit(target).min(whole_limit(operand.element_type));
            Accuracy {
                error: 0.0,
                bound: if is_kept { before.bound } else { bound * 1.01 },
                whole: is_kept && before.bound.is_finite(),
            }
        }
        (false, true) => Accuracy::EXACT,
        (false, false) => return None,
    };
    let is_kept = generator.excess_precision && operand.element_type == ElementType::BF16 && target == ElementType::F32;
    let accuracy = if is_kept { accuracy.maybe_rounded(ElementType::BF16) } else { accuracy };
    // Overflow of a small type makes an infinity of one rounding and a number of another.
    if !accuracy.is_exact() && accuracy.bound > 3e4 {
        return None;
    }
    finish(body, generator, "convert", &[&operand], "", (target, &operand.dimensions, accuracy))
}
