//! Writing attribute values, in XLA's form.

use std::fmt::{Display, Write};

use crate::attributes::{
    AttributeValue, ConvolutionDimensions, PaddingDimension, ReplicaGroups, SliceDimension, WindowDimension,
};
use crate::literal::Literal;

use crate::text::literal;
use crate::text::strings;

/// Writes a value. `ranks` are those of a convolution's input, kernel and output, where they are known: dimensions
/// that `dim_labels` does not name are written `?`.
pub(crate) fn write(out: &mut String, value: &AttributeValue, ranks: [usize; 3]) {
    match value {
        AttributeValue::Int(value) => put(out, value),
        AttributeValue::Ints(values) => braces(out, values),
        AttributeValue::Bool(value) => put(out, value),
        AttributeValue::Float(value) => literal::write_float(out, *value),
        AttributeValue::Word(word) => out.push_str(word),
        AttributeValue::Words(words) => braces(out, words),
        AttributeValue::String(text) => strings::quote(out, text),
        AttributeValue::Window(dimensions) => window(out, dimensions),
        AttributeValue::Slice(dimensions) => slice(out, dimensions),
        AttributeValue::Padding(dimensions) => padding(out, dimensions),
        AttributeValue::ConvolutionDimensions(dimensions) => convolution_dimensions(out, dimensions, ranks),
        AttributeValue::ReplicaGroups(groups) => replica_groups(out, groups),
        AttributeValue::IntLists(lists) => integer_lists(out, lists),
        AttributeValue::Shape(shape) => put(out, shape),
        AttributeValue::Shapes(shapes) => {
            out.push('{');
            join(out, shapes, ", ");
            out.push('}');
        }
        AttributeValue::Literal(value) => literal_with_shape(out, value),
        AttributeValue::Raw(text) => out.push_str(text),
    }
}

fn put(out: &mut String, value: impl Display) {
    let _ = write!(out, "{value}");
}

fn join(out: &mut String, values: impl IntoIterator<Item = impl Display>, separator: &str) {
    for (position, value) in values.into_iter().enumerate() {
        if position > 0 {
            out.push_str(separator);
        }
        put(out, value);
    }
}

fn braces(out: &mut String, values: impl IntoIterator<Item = impl Display>) {
    out.push('{');
    join(out, values, ",");
    out.push('}');
}

fn integer_lists(out: &mut String, lists: &[Vec<i64>]) {
    out.push('{');
    for (position, list) in lists.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        braces(out, list);
    }
    out.push('}');
}

fn window(out: &mut String, dimensions: &[WindowDimension]) {
    out.push('{');
    if dimensions.is_empty() {
        out.push('}');
        return;
    }
    out.push_str("size=");
    join(out, dimensions.iter().map(|dimension| dimension.size), "x");
    if dimensions.iter().any(|dimension| dimension.stride != 1) {
        out.push_str(" stride=");
        join(out, dimensions.iter().map(|dimension| dimension.stride), "x");
    }
    if dimensions.iter().any(|dimension| dimension.padding_low != 0 || dimension.padding_high != 0) {
        out.push_str(" pad=");
        join(out, dimensions.iter().map(|d| format!("{}_{}", d.padding_low, d.padding_high)), "x");
    }
    if dimensions.iter().any(|dimension| dimension.base_dilation != 1) {
        out.push_str(" lhs_dilate=");
        join(out, dimensions.iter().map(|dimension| dimension.base_dilation), "x");
    }
    if dimensions.iter().any(|dimension| dimension.window_dilation != 1) {
        out.push_str(" rhs_dilate=");
        join(out, dimensions.iter().map(|dimension| dimension.window_dilation), "x");
    }
    if dimensions.iter().any(|dimension| dimension.reversal) {
        out.push_str(" rhs_reversal=");
        join(out, dimensions.iter().map(|dimension| u8::from(dimension.reversal)), "x");
    }
    out.push('}');
}

fn slice(out: &mut String, dimensions: &[SliceDimension]) {
    let strided = dimensions.iter().any(|dimension| dimension.stride != 1);
    out.push('{');
    for (position, SliceDimension { start, limit, stride }) in dimensions.iter().enumerate() {
        out.push_str(if position > 0 { ", [" } else { "[" });
        let _ = write!(out, "{start}:{limit}");
        if strided {
            let _ = write!(out, ":{stride}");
        }
        out.push(']');
    }
    out.push('}');
}

fn padding(out: &mut String, dimensions: &[PaddingDimension]) {
    let has_interior = dimensions.iter().any(|dimension| dimension.interior != 0);
    for (position, PaddingDimension { low, high, interior }) in dimensions.iter().enumerate() {
        if position > 0 {
            out.push('x');
        }
        let _ = write!(out, "{low}_{high}");
        if has_interior {
            let _ = write!(out, "_{interior}");
        }
    }
}

fn convolution_dimensions(out: &mut String, dimensions: &ConvolutionDimensions, ranks: [usize; 3]) {
    let d = dimensions;
    labels(out, [('b', d.input_batch), ('f', d.input_feature)], &d.input_spatial, ranks[0]);
    out.push('_');
    labels(out, [('i', d.kernel_input_feature), ('o', d.kernel_output_feature)], &d.kernel_spatial, ranks[1]);
    out.push_str("->");
    labels(out, [('b', d.output_batch), ('f', d.output_feature)], &d.output_spatial, ranks[2]);
}

/// More labels than this are written only where a rank says so.
const LABELS_WITHOUT_RANK: usize = 64;

fn labels(out: &mut String, letters: [(char, i64); 2], spatial: &[i64], rank: usize) {
    // Where the rank is not known, the last dimension that is named ends the list; one that is not verified must not
    // make it long.
    let named = spatial.len() + letters.len();
    let positions = letters.iter().map(|&(_, position)| position).chain(spatial.iter().copied());
    let end = positions.filter_map(|position| usize::try_from(position).ok()).fold(0, |end, last| end.max(last + 1));
    let mut labels = vec!["?".to_string(); rank.max(named).max(end.min(LABELS_WITHOUT_RANK))];
    let letters = letters.into_iter().map(|(letter, position)| (letter.to_string(), position));
    let digits = spatial.iter().enumerate().map(|(dimension, &position)| (dimension.to_string(), position));
    for (label, position) in letters.chain(digits) {
        if let Some(slot) = usize::try_from(position).ok().and_then(|position| labels.get_mut(position)) {
            *slot = label;
        }
    }
    out.push_str(&labels.concat());
}

fn replica_groups(out: &mut String, groups: &ReplicaGroups) {
    match groups {
        ReplicaGroups::Explicit(groups) => integer_lists(out, groups),
        ReplicaGroups::Iota { dimensions, reshape, transpose } => {
            out.push('[');
            join(out, dimensions, ",");
            out.push_str("]<=[");
            join(out, reshape, ",");
            out.push(']');
            if !transpose.is_empty() {
                out.push_str("T(");
                join(out, transpose, ",");
                out.push(')');
            }
        }
        ReplicaGroups::Mesh { axes, grouped } => {
            let axes: Vec<String> = axes.iter().map(|(name, size)| format!("'{name}'={size}")).collect();
            let grouped: Vec<String> = grouped.iter().map(|name| format!("'{name}'")).collect();
            out.push_str(&format!("mesh[{}] {{{}}}", axes.join(","), grouped.join(",")));
        }
    }
}

/// `f32[2]{0} {1, 2}`; in a tuple, each element with its shape.
fn literal_with_shape(out: &mut String, value: &Literal) {
    match value {
        Literal::Tuple(elements) => {
            out.push_str("( ");
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                literal_with_shape(out, element);
            }
            out.push_str(" )");
        }
        Literal::Array(_) | Literal::Elided(_) => {
            put(out, value.shape());
            out.push(' ');
            literal::write_literal(out, value);
        }
        Literal::Token => literal::write_literal(out, value),
    }
}
