//! Operations that move elements without changing them.

use hlo::element_type::ElementType;

use super::accuracy::Accuracy;
use super::generate::{Body, Generator, Value};
use super::operations::{finish, same};

pub(super) fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn broadcast(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn reshape(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn transpose(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn reverse(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let operand = body.pick(generator, |value| value.rank() >= 1)?;
    let dimension = generator.random.usize(0..operand.rank());
    same(body, generator, "reverse", &operand, &format!(", dimensions={{{dimension}}}"))
}

pub(super) fn slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn pad(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn concatenate(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn iota(body: &mut Body, generator: &mut Generator) -> Option<Value> {
    let like = body.pick(generator, |value| value.rank() >= 1 && value.element_type != ElementType::Pred)?;
    let dimension = generator.random.usize(0..like.rank());
    let accuracy = if like.dimensions[dimension] < 100 { Accuracy::whole(100.0) } else { Accuracy::EXACT };
    let attributes = format!(", iota_dimension={dimension}");
    finish(body, generator, "iota", &[], &attributes, (like.element_type, &like.dimensions, accuracy))
}

/// Start indices for each dimension: any whole scalars, also such as must be clamped.
pub(super) fn starts(body: &mut Body, generator: &mut Generator, rank: usize) -> Vec<Value> {
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

pub(super) fn smaller(generator: &mut Generator, dimensions: &[i64]) -> Vec<i64> {
    dimensions.iter().map(|&size| generator.random.i64((size + 1) / 2..=size)).collect()
}

pub(super) fn dynamic_slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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

pub(super) fn dynamic_update_slice(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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
pub(super) fn gather(body: &mut Body, generator: &mut Generator) -> Option<Value> {
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
