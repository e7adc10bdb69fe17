//! Operations that combine or order elements: reductions, windows, contractions, sorting.

use hlo::element_type::{ElementClass, ElementType};

use super::accuracy::Accuracy;
use super::generate::{Body, Generator, MOST_ELEMENTS, Value, shape_text};
use super::movement::list;
use super::operations::{finish, partner, same};

/// A computation of two scalars that is one operation: its name.
pub(super) fn combiner(generator: &mut Generator, prefix: &str, element_type: ElementType, operation: &str) -> String {
    let name = generator.name(prefix);
    let scalar = shape_text(element_type, &[]);
    generator.computations.push_str(&format!(
        "{name} {{\n  a = {scalar} parameter(0)\n  b = {scalar} parameter(1)\n  ROOT c = {scalar} {operation}(a, b)\n}}\n\n"
    ));
    name
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
    let name = combiner(generator, "reducer", element_type, operation);
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

pub(super) fn reduce(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

/// Reductions of rows that are read all along the row, one after another, as in softmax and norms.
pub(super) fn along_rows(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let length = *generator.choose(&[32, 33, 40, 64, 100]);
    let start = body.pick(generator, |value| {
        let is_number = value.element_type != ElementType::Pred && !value.element_type.is_complex();
        is_number && value.rank() < 4 && value.elements() * length <= MOST_ELEMENTS
    })?;
    let element_type = start.element_type;
    let rows: Vec<i64> = (0..start.rank() as i64).collect();
    let dimensions = [&start.dimensions[..], &[length]].concat();
    let spread = format!(", dimensions={{{}}}", list(&rows));
    let sum =
        |a: Accuracy, b: Accuracy| if element_type.is_integer() { Accuracy::EXACT } else { a.plus(b, element_type) };
    let all = |accuracy| (element_type, &dimensions[..], accuracy);
    let same_along = finish(body, generator, "broadcast", &[&start], &spread, all(start.accuracy))?;
    let count = Accuracy::whole(length as f64);
    let number = format!("iota(), iota_dimension={}", start.rank());
    let number = body.add(generator, element_type, &dimensions, count, &number);
    let accuracy = sum(start.accuracy, count);
    let mut value = finish(body, generator, "add", &[&same_along, &number], "", all(accuracy))?;
    for _ in 0..generator.random.usize(1..4) {
        if element_type.is_float() && generator.chance(2) {
            let accuracy = value.accuracy.through(element_type, 1.0, 1.0);
            value = finish(body, generator, "tanh", &[&value], "", all(accuracy))?;
        }
        let (operation, computation, initial) = reducer(body, generator, element_type);
        let accuracy = reduced(operation, &value, &initial, length);
        let attributes = format!(", dimensions={{{}}}, to_apply={computation}", start.rank());
        let result = (element_type, &start.dimensions[..], accuracy);
        let mut row = finish(body, generator, "reduce", &[&value, &initial], &attributes, result)?;
        if generator.chance(2) {
            row = same(body, generator, "negate", &row, "")?;
        }
        let row = finish(body, generator, "broadcast", &[&row], &spread, all(row.accuracy))?;
        let (operation, accuracy) = match generator.chance(3) {
            true => ("maximum", value.accuracy.or(row.accuracy)),
            false => (*generator.choose(&["add", "subtract"]), sum(value.accuracy, row.accuracy)),
        };
        value = finish(body, generator, operation, &[&value, &row], "", all(accuracy))?;
    }
    Some(value)
}

pub(super) fn reduce_window(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn dot(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

/// Sorted along a dimension, with the values of another array in the same order.
pub(super) fn sort(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let keys = body.pick(generator, |value| {
        value.rank() >= 1 && value.is_exact() && !value.element_type.is_complex() && !value.element_type.is_float()
    })?;
    let values = partner(body, generator, &keys);
    let name = generator.name("before");
    let scalar = shape_text(keys.element_type, &[]);
    let direction = *generator.choose(&["LT", "GT"]);
    generator.computations.push_str(&format!(
        "{name} {{\n  a = {scalar} parameter(0)\n  b = {scalar} parameter(1)\n  c = {scalar} parameter(2)\n  \
         d = {scalar} parameter(3)\n  ROOT e = pred[] compare(a, b), direction={direction}\n}}\n\n"
    ));
    let dimension = generator.random.usize(0..keys.rank());
    let attributes = format!(", dimensions={{{dimension}}}, is_stable=true, to_apply={name}");
    pair(body, generator, "sort", &[&keys, &values], &attributes, (&keys, &values, &keys.dimensions))
}

/// An operation with two results, of the types of two of its operands; gives the second.
fn pair(
    body: &mut Body,
    generator: &mut Generator,
    operation: &str,
    operands: &[&Value],
    attributes: &str,
    (first, second, dimensions): (&Value, &Value, &[i64]),
) -> Option<Value> {
    if body.exact_only && !(first.is_exact() && second.is_exact()) {
        return None;
    }
    let name = generator.name("both");
    let names = body.operands(operands);
    let shapes = [first, second].map(|value| shape_text(value.element_type, dimensions));
    body.text.push_str(&format!("  {name} = ({}) {operation}({names}){attributes}\n", shapes.join(", ")));
    let mut element = |number: usize, value: &Value| {
        let call = format!("get-tuple-element({name}), index={number}");
        body.add(generator, value.element_type, dimensions, value.accuracy, &call)
    };
    element(0, first);
    Some(element(1, second))
}
