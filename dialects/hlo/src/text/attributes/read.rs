//! Reading attribute values.

use crate::attributes::{
    AttributeForm, AttributeValue, ConvolutionDimensions, PaddingDimension, ReplicaGroups, SliceDimension,
    WindowDimension,
};
use crate::shape::Shape;
use pest::iterators::Pair;

use crate::text::ast::Attribute;
use crate::text::error::Error;
use crate::text::grammar::{self, Rule};
use crate::text::shapes;
use crate::text::source::SourceLines;
use crate::text::strings;

/// Reads the value of an attribute of the given form.
pub(crate) fn read(
    source: SourceLines<'_>,
    attribute: Attribute<'_>,
    form: AttributeForm,
) -> Result<AttributeValue, Error> {
    let text = attribute.value;
    let reader = Reader { source, attribute };
    Ok(match form {
        AttributeForm::Int => AttributeValue::Int(shapes::integer(source, text)?),
        AttributeForm::Ints => AttributeValue::Ints(reader.integers(reader.all(Rule::integers)?)?),
        AttributeForm::Bool => AttributeValue::Bool(match text {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(reader.wrong("`true` or `false`")),
        }),
        AttributeForm::Float => {
            AttributeValue::Float(crate::text::literal::float(text).ok_or_else(|| reader.wrong("a number"))?)
        }
        AttributeForm::Word => {
            let word = reader.all(Rule::word).map_err(|_| reader.wrong("a word"))?;
            AttributeValue::Word(word.as_str().to_string())
        }
        AttributeForm::Words => {
            let words = reader.all(Rule::words)?.into_inner().filter(|pair| pair.as_rule() == Rule::word);
            AttributeValue::Words(words.map(|pair| pair.as_str().to_string()).collect())
        }
        AttributeForm::String => AttributeValue::String(strings::unquote(source, text)?),
        AttributeForm::Window => AttributeValue::Window(reader.window()?),
        AttributeForm::Slice => AttributeValue::Slice(reader.slice()?),
        AttributeForm::Padding => AttributeValue::Padding(reader.padding(reader.all(Rule::padding)?)?),
        AttributeForm::ConvolutionDimensions => AttributeValue::ConvolutionDimensions(reader.convolution_dimensions()?),
        AttributeForm::ReplicaGroups => AttributeValue::ReplicaGroups(reader.replica_groups()?),
        AttributeForm::IntLists => AttributeValue::IntLists(reader.integer_lists(reader.all(Rule::integer_lists)?)?),
        AttributeForm::Shape => {
            let pair = reader.all(Rule::value_shape)?;
            AttributeValue::Shape(first_shape(source, pair)?)
        }
        AttributeForm::Shapes => AttributeValue::Shapes(all_shapes(source, reader.all(Rule::shapes)?)?),
        AttributeForm::Literal => return Err(reader.wrong("no text: it stands between the parentheses")),
        AttributeForm::Raw => {
            if attribute.key == "result_accuracy" {
                reader.all(Rule::result_accuracy)?;
            }
            AttributeValue::Raw(text.to_string())
        }
    })
}

struct Reader<'t> {
    source: SourceLines<'t>,
    attribute: Attribute<'t>,
}

impl<'t> Reader<'t> {
    fn all(&self, rule: Rule) -> Result<Pair<'t, Rule>, Error> {
        grammar::read_all(rule, self.source, self.attribute.value)
    }

    fn wrong(&self, expected: &str) -> Error {
        self.fault(self.attribute.value, expected)
    }

    fn fault(&self, slice: &str, expected: &str) -> Error {
        Error::Attribute {
            at: self.source.location_of(slice),
            key: self.attribute.key.to_string(),
            expected: expected.to_string(),
            found: format!("`{}`", slice.chars().take(60).collect::<String>()),
        }
    }

    fn integers(&self, pair: Pair<'t, Rule>) -> Result<Vec<i64>, Error> {
        integers(self.source, pair)
    }

    fn integer_lists(&self, pair: Pair<'t, Rule>) -> Result<Vec<Vec<i64>>, Error> {
        pair.into_inner().filter(|inner| inner.as_rule() == Rule::integers).map(|list| self.integers(list)).collect()
    }

    fn window(&self) -> Result<Vec<WindowDimension>, Error> {
        let mut dimensions: Option<Vec<WindowDimension>> = None;
        for field in self.all(Rule::window)?.into_inner().filter(|pair| pair.as_rule() == Rule::window_field) {
            let text = field.as_str();
            let Some(field) = field.into_inner().next() else { continue };
            let mut key = "pad";
            let mut values = Vec::new();
            let mut pads: Vec<Vec<i64>> = Vec::new();
            for part in field.into_inner() {
                match part.as_rule() {
                    Rule::window_key => key = part.as_str(),
                    Rule::integer => values.push(shapes::integer(self.source, part.as_str())?),
                    Rule::window_padding => pads = self.integers(part)?.chunks(2).map(<[i64]>::to_vec).collect(),
                    _ => {}
                }
            }
            let count = values.len().max(pads.len());
            let dimensions = dimensions.get_or_insert_with(|| vec![WindowDimension::new(1); count]);
            if dimensions.len() != count {
                return Err(self.fault(text, &format!("{} values in every field", dimensions.len())));
            }
            for (position, dimension) in dimensions.iter_mut().enumerate() {
                match key {
                    "size" => dimension.size = values[position],
                    "stride" => dimension.stride = values[position],
                    "lhs_dilate" => dimension.base_dilation = values[position],
                    "rhs_dilate" => dimension.window_dilation = values[position],
                    "rhs_reversal" => dimension.reversal = values[position] != 0,
                    _ => {
                        [dimension.padding_low, dimension.padding_high] = [pads[position][0], pads[position][1]];
                    }
                }
            }
        }
        Ok(dimensions.unwrap_or_default())
    }

    fn padding(&self, pair: Pair<'t, Rule>) -> Result<Vec<PaddingDimension>, Error> {
        let dimensions = pair.into_inner().filter(|inner| inner.as_rule() == Rule::padding_dimension);
        dimensions
            .map(|dimension| {
                let text = dimension.as_str();
                match self.integers(dimension)?[..] {
                    [low, high] => Ok(PaddingDimension { low, high, interior: 0 }),
                    [low, high, interior] => Ok(PaddingDimension { low, high, interior }),
                    _ => Err(self.fault(text, "`low_high` or `low_high_interior`")),
                }
            })
            .collect()
    }

    fn slice(&self) -> Result<Vec<SliceDimension>, Error> {
        let pair = self.all(Rule::slice)?;
        let dimensions = pair.into_inner().filter(|inner| inner.as_rule() == Rule::slice_dimension);
        dimensions
            .map(|dimension| {
                let text = dimension.as_str();
                match self.integers(dimension)?[..] {
                    [start, limit] => Ok(SliceDimension { start, limit, stride: 1 }),
                    [start, limit, stride] => Ok(SliceDimension { start, limit, stride }),
                    _ => Err(self.fault(text, "`[start:limit]` or `[start:limit:stride]`")),
                }
            })
            .collect()
    }

    fn mesh_groups(&self, pair: Pair<'t, Rule>) -> Result<ReplicaGroups, Error> {
        let text = pair.as_str();
        let name =
            |pair: Pair<'_, Rule>| pair.into_inner().next().map_or(String::new(), |name| name.as_str().to_string());
        let (mut axes, mut grouped) = (Vec::new(), Vec::new());
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::mesh_axis => {
                    let mut axis = String::new();
                    let mut size = 0;
                    for inner in part.into_inner() {
                        match inner.as_rule() {
                            Rule::mesh_name => axis = name(inner),
                            Rule::integer => size = shapes::integer(self.source, inner.as_str())?,
                            _ => {}
                        }
                    }
                    axes.push((axis, size));
                }
                Rule::mesh_grouped => {
                    grouped = part.into_inner().filter(|inner| inner.as_rule() == Rule::mesh_name).map(name).collect();
                }
                _ => {}
            }
        }
        let groups = ReplicaGroups::Mesh { axes, grouped };
        let devices = groups.mesh_as_iota().and_then(|iota| match iota {
            ReplicaGroups::Iota { dimensions, .. } => dimensions.iter().copied().reduce(i64::saturating_mul),
            ReplicaGroups::Explicit(_) | ReplicaGroups::Mesh { .. } => None,
        });
        match devices {
            Some(devices) if devices <= MOST_DEVICES => Ok(groups),
            _ => Err(self.fault(text, "axes of the mesh, each once")),
        }
    }

    fn replica_groups(&self) -> Result<ReplicaGroups, Error> {
        let Some(pair) = self.all(Rule::replica_groups)?.into_inner().next() else {
            return Err(self.wrong("groups"));
        };
        if pair.as_rule() == Rule::integer_lists {
            return Ok(ReplicaGroups::Explicit(self.integer_lists(pair)?));
        }
        if pair.as_rule() == Rule::mesh_groups {
            return self.mesh_groups(pair);
        }
        let text = pair.as_str();
        let mut dimensions = Vec::new();
        let mut reshape = Vec::new();
        let mut transpose = Vec::new();
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::extents if dimensions.is_empty() => dimensions = self.integers(part)?,
                Rule::extents => reshape = self.integers(part)?,
                _ => transpose = self.integers(part)?,
            }
        }
        let count = |extents: &[i64]| {
            extents.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent).filter(|_| extent > 0))
        };
        if count(&dimensions).is_none_or(|devices| devices > MOST_DEVICES) || count(&dimensions) != count(&reshape) {
            return Err(self.fault(text, "as many devices on both sides of `<=`"));
        }
        let mut order = transpose.clone();
        order.sort_unstable();
        if !order.is_empty() && !order.into_iter().eq(0..reshape.len() as i64) {
            return Err(self.fault(text, &format!("a permutation of 0..{} in `T(...)`", reshape.len())));
        }
        Ok(ReplicaGroups::Iota { dimensions, reshape, transpose })
    }

    fn convolution_dimensions(&self) -> Result<ConvolutionDimensions, Error> {
        let pair = self.all(Rule::dimension_labels)?;
        let labels: Vec<&str> =
            pair.into_inner().filter(|inner| inner.as_rule() == Rule::labels).map(|pair| pair.as_str()).collect();
        let [input, kernel, output] = labels[..] else { return Err(self.wrong("`b01f_01io->b01f`")) };
        let (input_batch, input_feature, input_spatial) = self.labels(input, 'b', 'f')?;
        let (kernel_input_feature, kernel_output_feature, kernel_spatial) = self.labels(kernel, 'i', 'o')?;
        let (output_batch, output_feature, output_spatial) = self.labels(output, 'b', 'f')?;
        Ok(ConvolutionDimensions {
            input_batch,
            input_feature,
            input_spatial,
            kernel_input_feature,
            kernel_output_feature,
            kernel_spatial,
            output_batch,
            output_feature,
            output_spatial,
        })
    }

    /// Positions of the two letters, then of the spatial dimensions 0, 1, …. A `?` is a dimension that is none of them.
    fn labels(&self, text: &'t str, first: char, second: char) -> Result<(i64, i64, Vec<i64>), Error> {
        let mut letters = [None, None];
        // (spatial dimension, position)
        let mut spatial: Vec<(i64, i64)> = Vec::new();
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        let mut rest = text;
        let mut position = 0;
        while let Some(label) = rest.chars().next() {
            let mut length = 1;
            match label {
                '?' => {}
                '0'..='9' => {
                    // Dimensions from 10 on have two digits; only an increasing order says where a label ends.
                    let next = spatial.len().to_string();
                    if digits > 10 && rest.starts_with(&next) {
                        length = next.len();
                    }
                    spatial.push((shapes::integer(self.source, &rest[..length])?, position));
                }
                letter if letter == first && letters[0].is_none() => letters[0] = Some(position),
                letter if letter == second && letters[1].is_none() => letters[1] = Some(position),
                _ => return Err(self.fault(text, &format!("`{first}`, `{second}` once each, digits and `?`"))),
            }
            rest = &rest[length..];
            position += 1;
        }
        spatial.sort_unstable();
        let in_order = spatial.iter().enumerate().all(|(expected, &(dimension, _))| dimension == expected as i64);
        match letters {
            [Some(first), Some(second)] if in_order => {
                Ok((first, second, spatial.into_iter().map(|(_, position)| position).collect()))
            }
            _ => Err(self.fault(text, &format!("`{first}`, `{second}` and the digits from 0, once each"))),
        }
    }
}

/// More devices than this in an iota are refused: the groups are written out when they are used.
const MOST_DEVICES: i64 = 1 << 24;

/// The integers right inside a pair.
pub(crate) fn integers(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Vec<i64>, Error> {
    let integers = pair.into_inner().filter(|inner| inner.as_rule() == Rule::integer);
    integers.map(|integer| shapes::integer(source, integer.as_str())).collect()
}

fn is_shape(pair: &Pair<'_, Rule>) -> bool {
    matches!(pair.as_rule(), Rule::array | Rule::tuple)
}

/// The shapes right inside a pair.
pub(crate) fn all_shapes(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Vec<Shape>, Error> {
    pair.into_inner().filter(is_shape).map(|inner| shapes::shape(source, inner)).collect()
}

/// The first shape right inside a pair.
pub(crate) fn first_shape(source: SourceLines<'_>, pair: Pair<'_, Rule>) -> Result<Shape, Error> {
    let text = pair.as_str();
    match pair.into_inner().find(is_shape) {
        Some(inner) => shapes::shape(source, inner),
        None => Err(crate::text::scan::Cursor::at(source, text).expected("a shape")),
    }
}
