//! Shapes from their syntax.

use crate::element_type::ElementType;
use crate::shape::{ArrayShape, Layout, Shape, UNBOUNDED};
use pest::iterators::Pair;

use crate::text::error::Error;
use crate::text::grammar::Rule;
use crate::text::source::SourceLines;
use crate::text::suggestion;

/// The shape of an `array`, `array_of_literal` or `tuple` pair. Recursion is bounded by [`crate::text::scan::NESTING_LIMIT`].
pub(crate) fn shape(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Shape, Error> {
    if pair.as_rule() != Rule::tuple {
        return array(source, pair);
    }
    let mut elements = Vec::new();
    for inner in pair.into_inner() {
        if matches!(inner.as_rule(), Rule::array | Rule::tuple) {
            elements.push(shape(source, inner)?);
        }
    }
    Ok(Shape::Tuple(elements))
}

fn array(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Shape, Error> {
    let text = pair.as_str();
    let error = |slice: &str, reason: String| Error::Shape { at: source.location_of(slice), reason };
    let mut name = "";
    let mut dimensions = Vec::new();
    let mut dynamic = Vec::new();
    let mut layout = None;
    for inner in pair.into_inner() {
        match inner.as_rule() {
            Rule::element_type => name = inner.as_str(),
            Rule::dimension => {
                let size = inner.as_str();
                let bound = size.strip_prefix("<=").map(str::trim);
                dimensions.push(match size {
                    "?" => UNBOUNDED,
                    _ => integer(source, bound.unwrap_or(size))?,
                });
                dynamic.push(size == "?" || bound.is_some());
            }
            // `f32[]{}` is how a scalar's layout is written when it is.
            Rule::layout => layout = Some(read_layout(source, inner)?).filter(|layout| *layout != Layout::default()),
            _ => {}
        }
    }
    match name {
        "token" | "opaque" if !dimensions.is_empty() => {
            return Err(error(text, format!("`{name}` takes no dimensions, got {}", dimensions.len())));
        }
        "token" => return Ok(Shape::Token),
        "opaque" => return Ok(Shape::Opaque),
        _ => {}
    }
    let element_type: ElementType = name.parse().map_err(|_| error(name, unknown_element_type(name)))?;
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    let array = ArrayShape { element_type, dimensions, dynamic, layout };
    if array.checked_byte_size().is_none() {
        return Err(error(text, "the size of this shape in bytes does not fit 63 bits".into()));
    }
    if let Some(layout) = &array.layout {
        let mut order = layout.minor_to_major.clone();
        order.sort_unstable();
        if !order.iter().copied().eq(0..array.rank() as i64) {
            let found = &layout.minor_to_major;
            return Err(error(text, format!("a layout must be a permutation of 0..{}, got {found:?}", array.rank())));
        }
    }
    Ok(Shape::Array(array))
}

/// What other languages call element types.
const FOREIGN_NAMES: [(&str, &str); 22] = [
    ("bfloat16", "bf16"),
    ("bool", "pred"),
    ("complex128", "c128"),
    ("complex64", "c64"),
    ("double", "f64"),
    ("float", "f32"),
    ("float16", "f16"),
    ("float32", "f32"),
    ("float64", "f64"),
    ("half", "f16"),
    ("i1", "pred"),
    ("i16", "s16"),
    ("i32", "s32"),
    ("i64", "s64"),
    ("i8", "s8"),
    ("int", "s32"),
    ("int16", "s16"),
    ("int32", "s32"),
    ("int64", "s64"),
    ("int8", "s8"),
    ("uint32", "u32"),
    ("uint8", "u8"),
];

fn unknown_element_type(name: &str) -> String {
    let foreign = FOREIGN_NAMES.iter().find(|(foreign, _)| *foreign == name).map(|&(_, own)| own);
    let meant = foreign.or_else(|| suggestion::nearest(name, ElementType::all().map(ElementType::name)));
    let suggestion = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
    format!("unknown element type `{name}`{suggestion}")
}

fn read_layout(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Layout, Error> {
    let mut layout = Layout::default();
    let mut is_sparse = false;
    for inner in pair.into_inner() {
        match inner.as_rule() {
            Rule::integer => layout.minor_to_major.push(integer(source, inner.as_str())?),
            Rule::tiles | Rule::memory_space | Rule::element_size | Rule::level_types | Rule::layout_extension => {
                is_sparse |= inner.as_rule() == Rule::level_types;
                if inner.as_str().starts_with("P(") && !is_sparse {
                    return Err(Error::Shape {
                        at: source.location_of(inner.as_str()),
                        reason: "a layout has a physical shape `P` only with level types `D` before it".into(),
                    });
                }
                layout.extras.push_str(inner.as_str());
            }
            _ => {}
        }
    }
    Ok(layout)
}

/// The value of an integer.
pub(crate) fn integer(source: SourceLines<'_>, text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| Error::Syntax {
        at: source.location_of(text),
        expected: "a 64-bit integer".into(),
        found: format!("`{text}`"),
    })
}
