//! Attribute values as MLIR attributes: one function each way, driven by the form an operation's definition declares.

use melior::Context;
use melior::ir::attribute::{
    ArrayAttribute, Attribute, BoolAttribute, DenseI64ArrayAttribute, DictionaryAttribute, FloatAttribute,
    IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::r#type::IntegerType;
use melior::ir::{Identifier, Type};
use mlir_ext::attributes;

use super::error::DialectError;
use super::literals;
use super::types::{self, DefaultLayout};
use crate::attributes::{
    AttributeForm, AttributeValue, ConvolutionDimensions, PaddingDimension, ReplicaGroups, SliceDimension,
    WindowDimension,
};
use crate::shape::Shape;

/// Attribute of a value.
pub(super) fn attribute_of<'c>(
    context: &'c Context,
    default: DefaultLayout,
    value: &AttributeValue,
) -> Result<Attribute<'c>, DialectError> {
    let text = |text: &str| Attribute::from(StringAttribute::new(context, text));
    Ok(match value {
        AttributeValue::Int(value) => integer(context, *value),
        AttributeValue::Ints(values) => integers(context, values),
        AttributeValue::Bool(value) => BoolAttribute::new(context, *value).into(),
        AttributeValue::Float(value) => FloatAttribute::new(context, Type::float64(context), *value).into(),
        AttributeValue::Word(value) | AttributeValue::String(value) | AttributeValue::Raw(value) => text(value),
        AttributeValue::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| text(word)).collect();
            ArrayAttribute::new(context, &words).into()
        }
        AttributeValue::Window(dimensions) => window_attribute(context, dimensions),
        AttributeValue::Slice(dimensions) => {
            let column = |field: fn(&SliceDimension) -> i64| column(context, dimensions, field);
            dictionary(
                context,
                &[
                    ("start", column(|dimension| dimension.start)),
                    ("limit", column(|dimension| dimension.limit)),
                    ("stride", column(|dimension| dimension.stride)),
                ],
            )
        }
        AttributeValue::Padding(dimensions) => {
            let column = |field: fn(&PaddingDimension) -> i64| column(context, dimensions, field);
            dictionary(
                context,
                &[
                    ("low", column(|dimension| dimension.low)),
                    ("high", column(|dimension| dimension.high)),
                    ("interior", column(|dimension| dimension.interior)),
                ],
            )
        }
        AttributeValue::ConvolutionDimensions(dimensions) => convolution_attribute(context, dimensions),
        AttributeValue::ReplicaGroups(ReplicaGroups::Explicit(groups)) => integer_lists(context, groups),
        AttributeValue::ReplicaGroups(ReplicaGroups::Iota { dimensions, reshape, transpose }) => dictionary(
            context,
            &[
                ("dimensions", integers(context, dimensions)),
                ("reshape", integers(context, reshape)),
                ("transpose", integers(context, transpose)),
            ],
        ),
        AttributeValue::ReplicaGroups(ReplicaGroups::Mesh { axes, grouped }) => {
            let texts = |names: Vec<&String>| {
                let names: Vec<_> = names.into_iter().map(|name| text(name)).collect();
                Attribute::from(ArrayAttribute::new(context, &names))
            };
            let sizes: Vec<i64> = axes.iter().map(|&(_, size)| size).collect();
            dictionary(
                context,
                &[
                    ("axes", texts(axes.iter().map(|(name, _)| name).collect())),
                    ("sizes", integers(context, &sizes)),
                    ("grouped", texts(grouped.iter().collect())),
                ],
            )
        }
        AttributeValue::IntLists(lists) => integer_lists(context, lists),
        AttributeValue::Shape(shape) => TypeAttribute::new(types::type_of(context, default, shape)?).into(),
        AttributeValue::Shapes(shapes) => {
            let shapes: Vec<Attribute> = shapes
                .iter()
                .map(|shape| Ok(TypeAttribute::new(types::type_of(context, default, shape)?).into()))
                .collect::<Result<_, DialectError>>()?;
            ArrayAttribute::new(context, &shapes).into()
        }
        AttributeValue::Literal(literal) => literals::attribute_of(context, default, literal)?,
    })
}

/// Integer attribute of 64 bits.
pub(super) fn integer(context: &Context, value: i64) -> Attribute<'_> {
    IntegerAttribute::new(IntegerType::new(context, 64).into(), value).into()
}

/// Dense array of integers.
pub(super) fn integers<'c>(context: &'c Context, values: &[i64]) -> Attribute<'c> {
    DenseI64ArrayAttribute::new(context, values).into()
}

/// Array of dense arrays of integers.
fn integer_lists<'c>(context: &'c Context, lists: &[Vec<i64>]) -> Attribute<'c> {
    let lists: Vec<_> = lists.iter().map(|list| integers(context, list)).collect();
    ArrayAttribute::new(context, &lists).into()
}

/// Dictionary with these entries.
pub(super) fn dictionary<'c>(context: &'c Context, entries: &[(&str, Attribute<'c>)]) -> Attribute<'c> {
    let entries: Vec<_> = entries.iter().map(|(name, value)| (Identifier::new(context, name), *value)).collect();
    DictionaryAttribute::new(context, &entries).into()
}

fn column<'c, T>(context: &'c Context, rows: &[T], field: impl Fn(&T) -> i64) -> Attribute<'c> {
    integers(context, &rows.iter().map(field).collect::<Vec<_>>())
}

/// (name, value where it is left out, accessor) of each field of a window dimension but its size.
type WindowField = (&'static str, i64, fn(&mut WindowDimension) -> &mut i64);

const WINDOW_FIELDS: [WindowField; 5] = [
    ("stride", 1, |dimension| &mut dimension.stride),
    ("padding_low", 0, |dimension| &mut dimension.padding_low),
    ("padding_high", 0, |dimension| &mut dimension.padding_high),
    ("window_dilation", 1, |dimension| &mut dimension.window_dilation),
    ("base_dilation", 1, |dimension| &mut dimension.base_dilation),
];

fn window_attribute<'c>(context: &'c Context, dimensions: &[WindowDimension]) -> Attribute<'c> {
    let mut entries = vec![("size", column(context, dimensions, |dimension| dimension.size))];
    for (name, default, field) in WINDOW_FIELDS {
        let values: Vec<i64> = dimensions.iter().map(|dimension| *field(&mut dimension.clone())).collect();
        if values.iter().any(|&value| value != default) {
            entries.push((name, integers(context, &values)));
        }
    }
    if dimensions.iter().any(|dimension| dimension.reversal) {
        entries.push(("reversal", column(context, dimensions, |dimension| i64::from(dimension.reversal))));
    }
    dictionary(context, &entries)
}

fn convolution_attribute<'c>(context: &'c Context, dimensions: &ConvolutionDimensions) -> Attribute<'c> {
    let side = |first: (&str, i64), second: (&str, i64), spatial: &[i64]| {
        let entries = [
            (first.0, integer(context, first.1)),
            (second.0, integer(context, second.1)),
            ("spatial", integers(context, spatial)),
        ];
        dictionary(context, &entries)
    };
    let d = dimensions;
    dictionary(
        context,
        &[
            ("input", side(("batch", d.input_batch), ("feature", d.input_feature), &d.input_spatial)),
            (
                "kernel",
                side(
                    ("input_feature", d.kernel_input_feature),
                    ("output_feature", d.kernel_output_feature),
                    &d.kernel_spatial,
                ),
            ),
            ("output", side(("batch", d.output_batch), ("feature", d.output_feature), &d.output_spatial)),
        ],
    )
}

/// Value of an attribute that is declared with this form; `result` is the shape of the operation's result.
pub(super) fn value_of(
    default: DefaultLayout,
    form: AttributeForm,
    attribute: Attribute<'_>,
    result: &Shape,
) -> Result<AttributeValue, DialectError> {
    if form == AttributeForm::Literal {
        return literals::literal_of(default, attribute, result).map(AttributeValue::Literal);
    }
    read(default, form, attribute)?
        .ok_or_else(|| DialectError::invalid(format!("`{attribute}` is not an attribute of form {form:?}")))
}

fn read(
    default: DefaultLayout,
    form: AttributeForm,
    attribute: Attribute<'_>,
) -> Result<Option<AttributeValue>, DialectError> {
    let text = || attributes::string(attribute).map(str::to_string);
    Ok(match form {
        AttributeForm::Int => attributes::integer(attribute).map(AttributeValue::Int),
        AttributeForm::Ints => attributes::integers(attribute).map(AttributeValue::Ints),
        AttributeForm::Bool => attributes::boolean(attribute).map(AttributeValue::Bool),
        AttributeForm::Float => attributes::float(attribute).map(AttributeValue::Float),
        AttributeForm::Word => text().map(AttributeValue::Word),
        AttributeForm::String => text().map(AttributeValue::String),
        AttributeForm::Raw => text().map(AttributeValue::Raw),
        AttributeForm::Words => attributes::elements(attribute).and_then(|words| {
            let words: Option<Vec<String>> =
                words.into_iter().map(|word| attributes::string(word).map(str::to_string)).collect();
            words.map(AttributeValue::Words)
        }),
        AttributeForm::Window => window_of(attribute).map(AttributeValue::Window),
        AttributeForm::Slice => columns(attribute, ["start", "limit", "stride"]).map(|rows| {
            let dimension = |[start, limit, stride]: [i64; 3]| SliceDimension { start, limit, stride };
            AttributeValue::Slice(rows.into_iter().map(dimension).collect())
        }),
        AttributeForm::Padding => columns(attribute, ["low", "high", "interior"]).map(|rows| {
            let dimension = |[low, high, interior]: [i64; 3]| PaddingDimension { low, high, interior };
            AttributeValue::Padding(rows.into_iter().map(dimension).collect())
        }),
        AttributeForm::ConvolutionDimensions => convolution_of(attribute).map(AttributeValue::ConvolutionDimensions),
        AttributeForm::ReplicaGroups => replica_groups_of(attribute).map(AttributeValue::ReplicaGroups),
        AttributeForm::IntLists => integer_lists_of(attribute).map(AttributeValue::IntLists),
        AttributeForm::Shape => match attributes::r#type(attribute) {
            Some(value) => Some(AttributeValue::Shape(types::shape_of(default, value)?)),
            None => None,
        },
        AttributeForm::Shapes => {
            let values: Option<Vec<Type>> =
                attributes::elements(attribute).and_then(|values| values.into_iter().map(attributes::r#type).collect());
            match values {
                Some(values) => {
                    let shapes: Result<_, _> =
                        values.into_iter().map(|value| types::shape_of(default, value)).collect();
                    Some(AttributeValue::Shapes(shapes?))
                }
                None => None,
            }
        }
        AttributeForm::Literal => None,
    })
}

fn integer_lists_of(attribute: Attribute<'_>) -> Option<Vec<Vec<i64>>> {
    attributes::elements(attribute)?.into_iter().map(attributes::integers).collect()
}

/// Entry of a dictionary attribute.
pub(super) fn entry<'c>(attribute: Attribute<'c>, name: &str) -> Option<Attribute<'c>> {
    attributes::entries(attribute)?.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Rows of a dictionary whose entries are columns of equal length.
fn columns<const N: usize>(attribute: Attribute<'_>, names: [&str; N]) -> Option<Vec<[i64; N]>> {
    let mut columns = Vec::with_capacity(N);
    for name in names {
        columns.push(attributes::integers(entry(attribute, name)?)?);
    }
    let length = columns.first()?.len();
    if columns.iter().any(|column| column.len() != length) {
        return None;
    }
    Some((0..length).map(|row| std::array::from_fn(|column| columns[column][row])).collect())
}

fn window_of(attribute: Attribute<'_>) -> Option<Vec<WindowDimension>> {
    let sizes = attributes::integers(entry(attribute, "size")?)?;
    let mut dimensions: Vec<WindowDimension> = sizes.into_iter().map(WindowDimension::new).collect();
    let column = |name: &str| match entry(attribute, name) {
        None => Some(None),
        Some(values) => attributes::integers(values).filter(|values| values.len() == dimensions.len()).map(Some),
    };
    let columns: Vec<_> = WINDOW_FIELDS.iter().map(|(name, ..)| column(name)).collect::<Option<_>>()?;
    let reversal = column("reversal")?;
    for ((_, _, field), values) in WINDOW_FIELDS.iter().zip(columns) {
        for (dimension, value) in dimensions.iter_mut().zip(values.unwrap_or_default()) {
            *field(dimension) = value;
        }
    }
    for (dimension, value) in dimensions.iter_mut().zip(reversal.unwrap_or_default()) {
        dimension.reversal = value != 0;
    }
    Some(dimensions)
}

fn convolution_of(attribute: Attribute<'_>) -> Option<ConvolutionDimensions> {
    let (input, kernel, output) =
        (entry(attribute, "input")?, entry(attribute, "kernel")?, entry(attribute, "output")?);
    let number = |side, name| attributes::integer(entry(side, name)?);
    let spatial = |side| attributes::integers(entry(side, "spatial")?);
    Some(ConvolutionDimensions {
        input_batch: number(input, "batch")?,
        input_feature: number(input, "feature")?,
        input_spatial: spatial(input)?,
        kernel_input_feature: number(kernel, "input_feature")?,
        kernel_output_feature: number(kernel, "output_feature")?,
        kernel_spatial: spatial(kernel)?,
        output_batch: number(output, "batch")?,
        output_feature: number(output, "feature")?,
        output_spatial: spatial(output)?,
    })
}

fn replica_groups_of(attribute: Attribute<'_>) -> Option<ReplicaGroups> {
    if let Some(groups) = integer_lists_of(attribute) {
        return Some(ReplicaGroups::Explicit(groups));
    }
    let list = |name| attributes::integers(entry(attribute, name)?);
    if let Some(sizes) = list("sizes") {
        let texts = |name| -> Option<Vec<String>> {
            attributes::elements(entry(attribute, name)?)?
                .into_iter()
                .map(|text| attributes::string(text).map(str::to_string))
                .collect()
        };
        let names = texts("axes").filter(|names| names.len() == sizes.len())?;
        return Some(ReplicaGroups::Mesh { axes: names.into_iter().zip(sizes).collect(), grouped: texts("grouped")? });
    }
    Some(ReplicaGroups::Iota {
        dimensions: list("dimensions")?,
        reshape: list("reshape")?,
        transpose: list("transpose")?,
    })
}
