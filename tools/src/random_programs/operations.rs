//! One random operation on values that exist.
//!
//! Each function looks for operands that fit and gives nothing when there are none.

use hlo::element_type::{ElementClass, ElementType};

use super::accuracy::{Accuracy, whole_limit};
use super::generate::{Body, Generator, MOST_ELEMENTS, Value, shape_text};
use super::structured;

type Operation = fn(&mut Body, &mut Generator) -> Option<Value>;

/// The operations, those of real programs more than once.
const OPERATIONS: [Operation; 40] = [
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
    broadcast,
    broadcast,
    reshape,
    transpose,
    reverse,
    slice,
    slice,
    pad,
    concatenate,
    iota,
    reduce,
    reduce,
    reduce_window,
    dot,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    structured::batched_dot,
    structured::bitcast_convert,
    structured::convolution,
    structured::convolution,
    structured::dilated_reduce_window,
    structured::greatest,
    structured::ragged_dot,
    structured::scatter,
    structured::select_and_scatter,
    structured::sized,
];

/// Adds a random operation.
pub(super) fn random(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operation = *generator.choose(&OPERATIONS);
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
fn same(
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
fn partner(body: &mut Body, generator: &mut Generator, first: &Value) -> Value {
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
        (ElementClass::Float, "multiply") => a.times(b, element_type),
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
    // Overflow of a small type makes an infinity of one rounding and a number of another.
    if !accuracy.is_exact() && accuracy.bound > 3e4 {
        return None;
    }
    finish(body, generator, "convert", &[&operand], "", (target, &operand.dimensions, accuracy))
}

pub(super) fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

fn broadcast(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() < 4)?;
    let mut dimensions = operand.dimensions.clone();
    let mut places: Vec<i64> = (0..operand.rank() as i64).collect();
    for _ in 0..generator.random.usize(1..3) {
        let position = generator.random.usize(0..=dimensions.len());
        dimensions.insert(position, *generator.choose(&[1, 2, 3, 5, 8, 9]));
        places.iter_mut().filter(|place| **place >= position as i64).for_each(|place| *place += 1);
    }
    let attributes = format!(", dimensions={{{}}}", list(&places));
    finish(
        body,
        generator,
        "broadcast",
        &[&operand],
        &attributes,
        (operand.element_type, &dimensions, operand.accuracy),
    )
}

fn reshape(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.elements() > 0)?;
    let mut rest = operand.elements();
    let mut dimensions = Vec::new();
    for factor in [2, 3, 4, 5, 7] {
        if rest % factor == 0 && generator.random.bool() {
            dimensions.push(factor);
            rest /= factor;
        }
    }
    dimensions.push(rest);
    if generator.chance(3) {
        dimensions.push(1);
    }
    generator.random.shuffle(&mut dimensions);
    finish(body, generator, "reshape", &[&operand], "", (operand.element_type, &dimensions, operand.accuracy))
}

fn transpose(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 2)?;
    let mut order: Vec<i64> = (0..operand.rank() as i64).collect();
    generator.random.shuffle(&mut order);
    let dimensions: Vec<i64> = order.iter().map(|&dimension| operand.dimensions[dimension as usize]).collect();
    let attributes = format!(", dimensions={{{}}}", list(&order));
    finish(
        body,
        generator,
        "transpose",
        &[&operand],
        &attributes,
        (operand.element_type, &dimensions, operand.accuracy),
    )
}

fn reverse(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1)?;
    let dimension = generator.random.usize(0..operand.rank());
    same(body, generator, "reverse", &operand, &format!(", dimensions={{{dimension}}}"))
}

fn slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1 && value.elements() > 1)?;
    let mut parts = Vec::new();
    let mut dimensions = Vec::new();
    for &size in &operand.dimensions {
        let start = generator.random.i64(0..=size / 3);
        let limit = size - generator.random.i64(0..=(size - start) / 3);
        let stride = *generator.choose(&[1, 1, 1, 2, 3]);
        parts.push(format!("[{start}:{limit}:{stride}]"));
        dimensions.push((limit - start + stride - 1) / stride);
    }
    let attributes = format!(", slice={{{}}}", parts.join(","));
    finish(body, generator, "slice", &[&operand], &attributes, (operand.element_type, &dimensions, operand.accuracy))
}

fn pad(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1 && value.elements() > 0)?;
    let number = generator.random.i64(-2..=2);
    let filler = body.constant(generator, operand.element_type, number);
    let mut parts = Vec::new();
    let mut dimensions = Vec::new();
    for &size in &operand.dimensions {
        let (low, high) = (generator.random.i64(-1..=3), generator.random.i64(-1..=3));
        let interior = *generator.choose(&[0, 0, 0, 1, 2]);
        parts.push(format!("{low}_{high}_{interior}"));
        dimensions.push(low + high + size + (size - 1) * interior);
    }
    if dimensions.iter().any(|&size| size < 0) {
        return None;
    }
    let attributes = format!(", padding={}", parts.join("x"));
    let accuracy = operand.accuracy.or(filler.accuracy);
    finish(body, generator, "pad", &[&operand, &filler], &attributes, (operand.element_type, &dimensions, accuracy))
}

fn concatenate(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let first = body.pick(generator, |value| value.rank() >= 1)?;
    let dimension = generator.random.usize(0..first.rank());
    let fits = |value: &Value| {
        let rest = |value: &Value| {
            let mut dimensions = value.dimensions.clone();
            dimensions.remove(dimension);
            dimensions
        };
        value.element_type == first.element_type && value.rank() == first.rank() && rest(value) == rest(&first)
    };
    let second = body.pick(generator, fits)?;
    let third = body.pick(generator, fits)?;
    let operands = [&first, &second, &third];
    let mut dimensions = first.dimensions.clone();
    dimensions[dimension] = operands.iter().map(|operand| operand.dimensions[dimension]).sum();
    let accuracy = first.accuracy.or(second.accuracy).or(third.accuracy);
    let attributes = format!(", dimensions={{{dimension}}}");
    finish(body, generator, "concatenate", &operands, &attributes, (first.element_type, &dimensions, accuracy))
}

fn iota(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let like = body.pick(generator, |value| value.rank() >= 1 && value.element_type != ElementType::Pred)?;
    let dimension = generator.random.usize(0..like.rank());
    let accuracy = if like.dimensions[dimension] < 100 { Accuracy::whole(100.0) } else { Accuracy::EXACT };
    let attributes = format!(", iota_dimension={dimension}");
    finish(body, generator, "iota", &[], &attributes, (like.element_type, &like.dimensions, accuracy))
}

/// A computation of two scalars and its neutral element.
pub(super) fn reducer(
    body: &mut Body,
    generator: &mut Generator,
    element_type: ElementType,
) -> (&'static str, String, Value) {
    let (operation, neutral) = match element_type.class() {
        ElementClass::Predicate => *generator.choose(&[("and", 1), ("or", 0)]),
        ElementClass::Signed | ElementClass::Unsigned => {
            *generator.choose(&[("add", 0), ("multiply", 1), ("or", 0), ("xor", 0), ("maximum", 0), ("minimum", 3)])
        }
        ElementClass::Float => *generator.choose(&[("add", 0), ("add", 0), ("maximum", -1), ("minimum", 2)]),
        ElementClass::Complex => ("add", 0),
    };
    let name = generator.name("reducer");
    let scalar = shape_text(element_type, &[]);
    generator.computations.push_str(&format!(
        "{name} {{\n  a = {scalar} parameter(0)\n  b = {scalar} parameter(1)\n  ROOT c = {scalar} {operation}(a, b)\n}}\n\n"
    ));
    let initial = body.constant(generator, element_type, neutral);
    (operation, name, initial)
}

/// The accuracy of a reduction of `count` elements each.
pub(super) fn reduced(operation: &str, operand: &Value, initial: &Value, count: i64) -> Accuracy {
    match operation {
        "add" => operand.accuracy.or(initial.accuracy).sum(operand.element_type, count + 1),
        "maximum" | "minimum" => operand.accuracy.or(initial.accuracy),
        _ => Accuracy::EXACT,
    }
}

fn reduce(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1)?;
    let (operation, computation, initial) = reducer(body, generator, operand.element_type);
    let mut reduced_dimensions: Vec<i64> = (0..operand.rank() as i64).filter(|_| generator.random.bool()).collect();
    if reduced_dimensions.is_empty() {
        reduced_dimensions.push(generator.random.i64(0..operand.rank() as i64));
    }
    let is_reduced = |dimension: usize| reduced_dimensions.contains(&(dimension as i64));
    let dimensions: Vec<i64> = (0..operand.rank())
        .filter(|&dimension| !is_reduced(dimension))
        .map(|dimension| operand.dimensions[dimension])
        .collect();
    let count = (0..operand.rank())
        .filter(|&dimension| is_reduced(dimension))
        .map(|dimension| operand.dimensions[dimension])
        .product();
    let accuracy = reduced(operation, &operand, &initial, count);
    let attributes = format!(", dimensions={{{}}}, to_apply={computation}", list(&reduced_dimensions));
    finish(body, generator, "reduce", &[&operand, &initial], &attributes, (operand.element_type, &dimensions, accuracy))
}

fn reduce_window(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1 && value.elements() > 0)?;
    let (operation, computation, initial) = reducer(body, generator, operand.element_type);
    let (mut sizes, mut strides, mut paddings, mut dimensions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &size in &operand.dimensions {
        let window = generator.random.i64(1..=size.min(3));
        let stride = generator.random.i64(1..=2);
        let (low, high) = (generator.random.i64(0..=1), generator.random.i64(0..=1));
        dimensions.push((size + low + high - window) / stride + 1);
        sizes.push(window.to_string());
        strides.push(stride.to_string());
        paddings.push(format!("{low}_{high}"));
    }
    let count = 3i64.pow(operand.rank() as u32);
    let accuracy = reduced(operation, &operand, &initial, count);
    let attributes = format!(
        ", window={{size={} stride={} pad={}}}, to_apply={computation}",
        sizes.join("x"),
        strides.join("x"),
        paddings.join("x")
    );
    finish(
        body,
        generator,
        "reduce-window",
        &[&operand, &initial],
        &attributes,
        (operand.element_type, &dimensions, accuracy),
    )
}

fn dot(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let left = body.pick(generator, |value| {
        value.rank() >= 1 && value.element_type != ElementType::Pred && value.elements() > 0
    })?;
    let dimension = generator.random.usize(0..left.rank());
    let size = left.dimensions[dimension];
    let right =
        body.pick(generator, |value| value.element_type == left.element_type && value.dimensions.contains(&size))?;
    let other = right.dimensions.iter().position(|&candidate| candidate == size)?;
    let rest = |value: &Value, contracted: usize| {
        let mut dimensions = value.dimensions.clone();
        dimensions.remove(contracted);
        dimensions
    };
    let dimensions = [rest(&left, dimension), rest(&right, other)].concat();
    let product = left.accuracy.times(right.accuracy, left.element_type);
    // Products are not rounded alike by all engines.
    let product = if product.whole { product } else { product.through(left.element_type, product.bound, 1.0) };
    let terms = if left.element_type.is_complex() { 2 * size } else { size };
    let accuracy = if left.element_type.is_integer() { Accuracy::EXACT } else { product.sum(left.element_type, terms) };
    let attributes = format!(", lhs_contracting_dims={{{dimension}}}, rhs_contracting_dims={{{other}}}");
    finish(body, generator, "dot", &[&left, &right], &attributes, (left.element_type, &dimensions, accuracy))
}

/// Start indices for each dimension: any whole scalars, also such as must be clamped.
fn starts(body: &mut Body, generator: &mut Generator, rank: usize) -> Vec<Value> {
    (0..rank)
        .map(|_| {
            let known = body.pick(generator, |value| value.rank() == 0 && value.element_type == ElementType::S32);
            match known {
                Some(start) if generator.random.bool() => start,
                _ => {
                    let number = generator.random.i64(-1..=4);
                    body.constant(generator, ElementType::S32, number)
                }
            }
        })
        .collect()
}

fn smaller(generator: &mut Generator, dimensions: &[i64]) -> Vec<i64> {
    dimensions.iter().map(|&size| generator.random.i64((size + 1) / 2..=size)).collect()
}

fn dynamic_slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1)?;
    let dimensions = smaller(generator, &operand.dimensions);
    let starts = starts(body, generator, operand.rank());
    let operands: Vec<&Value> = [&operand].into_iter().chain(&starts).collect();
    let attributes = format!(", dynamic_slice_sizes={{{}}}", list(&dimensions));
    finish(
        body,
        generator,
        "dynamic-slice",
        &operands,
        &attributes,
        (operand.element_type, &dimensions, operand.accuracy),
    )
}

fn dynamic_update_slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1)?;
    let update = body.pick(generator, |value| {
        let fits = value.dimensions.iter().zip(&operand.dimensions).all(|(update, size)| update <= size);
        value.element_type == operand.element_type && value.rank() == operand.rank() && fits
    })?;
    let starts = starts(body, generator, operand.rank());
    let operands: Vec<&Value> = [&operand, &update].into_iter().chain(&starts).collect();
    let result = (operand.element_type, &operand.dimensions[..], operand.accuracy.or(update.accuracy));
    finish(body, generator, "dynamic-update-slice", &operands, "", result)
}

/// Rows of an array by a list of their numbers.
fn gather(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1 && value.elements() > 0)?;
    let indices = body.pick(generator, |value| {
        value.rank() == 1 && matches!(value.element_type, ElementType::S32 | ElementType::U8 | ElementType::S64)
    })?;
    let rows = &operand.dimensions[1..];
    let dimensions = [&indices.dimensions[..], rows].concat();
    let offsets: Vec<i64> = (1..dimensions.len() as i64).collect();
    let sizes = [&[1], rows].concat();
    let attributes = format!(
        ", offset_dims={{{}}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{{}}}",
        list(&offsets),
        list(&sizes)
    );
    finish(
        body,
        generator,
        "gather",
        &[&operand, &indices],
        &attributes,
        (operand.element_type, &dimensions, operand.accuracy),
    )
}
