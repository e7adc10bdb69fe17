//! Attribute values of instructions, keyed by their name in HLO text: the form in which the text reader and writer and
//! the MLIR bridge handle them. All else reads and makes them by the operation's struct
//! ([`crate::ops::typed_attributes`]), from which the [`AttributeTable`] that these work from is derived.
//! Attributes that halo carries but does not interpret (metadata, sharding, backend_config …) are raw text on the
//! instruction, not here.

use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::ops::OpError;
use crate::shape::Shape;

/// One dimension of a window (reduce-window, convolution, select-and-scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDimension {
    /// Number of positions in the window.
    pub size: i64,
    /// Step between windows.
    pub stride: i64,
    /// Padding before the first element; negative removes elements.
    pub padding_low: i64,
    /// Padding after the last element; negative removes elements.
    pub padding_high: i64,
    /// Step between positions inside the window (`rhs_dilate`).
    pub window_dilation: i64,
    /// Step between elements of the base (`lhs_dilate`).
    pub base_dilation: i64,
    /// Whether the window is read backwards (`rhs_reversal`).
    pub reversal: bool,
}

impl WindowDimension {
    /// A window of the given size with stride 1 and nothing else.
    pub fn new(size: i64) -> Self {
        WindowDimension {
            size,
            stride: 1,
            padding_low: 0,
            padding_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            reversal: false,
        }
    }
}

/// One dimension of a slice: `[start:limit:stride]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDimension {
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub limit: i64,
    /// Step.
    pub stride: i64,
}

/// One dimension of a pad: `low_high` or `low_high_interior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaddingDimension {
    /// Elements added before (removed when negative).
    pub low: i64,
    /// Elements added after (removed when negative).
    pub high: i64,
    /// Elements added between neighbours.
    pub interior: i64,
}

/// Dimension numbers of a convolution: `b01f_01io->b01f`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionDimensions {
    /// Batch dimension of the input.
    pub input_batch: i64,
    /// Feature dimension of the input.
    pub input_feature: i64,
    /// Spatial dimensions of the input.
    pub input_spatial: Vec<i64>,
    /// Input-feature dimension of the kernel.
    pub kernel_input_feature: i64,
    /// Output-feature dimension of the kernel.
    pub kernel_output_feature: i64,
    /// Spatial dimensions of the kernel.
    pub kernel_spatial: Vec<i64>,
    /// Batch dimension of the output.
    pub output_batch: i64,
    /// Feature dimension of the output.
    pub output_feature: i64,
    /// Spatial dimensions of the output.
    pub output_spatial: Vec<i64>,
}

/// Groups of replicas of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaGroups {
    /// `{{0,1},{2,3}}`.
    Explicit(Vec<Vec<i64>>),
    /// `[2,4]<=[8]` or `[4,2]<=[2,4]T(1,0)`: rows of a reshaped and transposed iota.
    Iota {
        /// Number of groups, then size of a group (more dimensions when the text has them).
        dimensions: Vec<i64>,
        /// Dimensions that the iota is reshaped to.
        reshape: Vec<i64>,
        /// Permutation; empty when there is none.
        transpose: Vec<i64>,
    },
    /// `mesh['x'=4,'y'=2] {'x'}`: devices in a mesh, row-major; those that differ in the named axes only are a group.
    Mesh {
        /// Names and sizes of the mesh's axes.
        axes: Vec<(String, i64)>,
        /// Names of the axes along which devices are grouped, the slowest first.
        grouped: Vec<String>,
    },
}

impl ReplicaGroups {
    /// Members of the largest group.
    pub fn largest(&self) -> i64 {
        match self {
            ReplicaGroups::Explicit(groups) => groups.iter().map(|group| group.len() as i64).fold(0, i64::max),
            ReplicaGroups::Iota { dimensions, .. } => dimensions.iter().skip(1).product(),
            ReplicaGroups::Mesh { .. } => self.mesh_as_iota().map_or(0, |iota| iota.largest()),
        }
    }

    /// Members of all groups together.
    pub fn members(&self) -> i64 {
        match self {
            ReplicaGroups::Explicit(groups) => groups.iter().map(|group| group.len() as i64).sum(),
            ReplicaGroups::Iota { reshape, .. } => reshape.iter().fold(1, |count, &size| count.saturating_mul(size)),
            ReplicaGroups::Mesh { axes, .. } => axes.iter().fold(1, |count, (_, size)| count.saturating_mul(*size)),
        }
    }

    /// The groups of a mesh as rows of an iota; nothing if these are no mesh, or an axis is not one of it or named twice.
    pub fn mesh_as_iota(&self) -> Option<ReplicaGroups> {
        let ReplicaGroups::Mesh { axes, grouped } = self else { return None };
        let place = |name: &String| axes.iter().position(|(axis, _)| axis == name);
        let inner: Vec<usize> = grouped.iter().map(place).collect::<Option<_>>()?;
        let outer: Vec<usize> = (0..axes.len()).filter(|axis| !inner.contains(axis)).collect();
        let is_once = (0..axes.len()).all(|axis| inner.iter().filter(|&&other| other == axis).count() <= 1);
        let size = |axes_of: &[usize]| {
            axes_of
                .iter()
                .try_fold(1i64, |product, &axis| product.checked_mul(axes[axis].1).filter(|_| axes[axis].1 > 0))
        };
        let dimensions = vec![size(&outer)?, size(&inner)?];
        dimensions[0].checked_mul(dimensions[1])?;
        let transpose = outer.iter().chain(&inner).map(|&axis| axis as i64).collect();
        let reshape = axes.iter().map(|&(_, size)| size).collect();
        is_once.then_some(ReplicaGroups::Iota { dimensions, reshape, transpose })
    }

    /// The groups written out.
    pub fn groups(&self) -> Vec<Vec<i64>> {
        match self {
            ReplicaGroups::Explicit(groups) => groups.clone(),
            ReplicaGroups::Iota { dimensions, reshape, transpose } => {
                let count = reshape.iter().product::<i64>().max(0);
                let mut order: Vec<usize> = transpose.iter().map(|&dimension| dimension as usize).collect();
                if order.is_empty() {
                    order = (0..reshape.len()).collect();
                }
                let strides: Vec<i64> = (0..reshape.len()).map(|d| reshape[d + 1..].iter().product::<i64>()).collect();
                let flat: Vec<i64> = (0..count)
                    .map(|position| {
                        let mut rest = position;
                        let mut value = 0;
                        for &dimension in order.iter().rev() {
                            value += rest % reshape[dimension] * strides[dimension];
                            rest /= reshape[dimension];
                        }
                        value
                    })
                    .collect();
                let width = dimensions.iter().skip(1).product::<i64>().max(1) as usize;
                flat.chunks(width).map(<[i64]>::to_vec).collect()
            }
            ReplicaGroups::Mesh { .. } => self.mesh_as_iota().map_or_else(Vec::new, |iota| iota.groups()),
        }
    }
}

/// Value of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// `index=3`.
    Int(i64),
    /// `dimensions={0,1}`.
    Ints(Vec<i64>),
    /// `is_stable=true`.
    Bool(bool),
    /// `epsilon=0.001`.
    Float(f64),
    /// A bare word: `direction=LT`, `kind=kLoop`.
    Word(String),
    /// Bare words in braces: `operand_precision={highest,default}`.
    Words(Vec<String>),
    /// A quoted string, unescaped.
    String(String),
    /// `window={size=3x3 pad=1_1x1_1}`.
    Window(Vec<WindowDimension>),
    /// `slice={[0:1],[0:512:2]}`.
    Slice(Vec<SliceDimension>),
    /// `padding=1_1x0_0_2`.
    Padding(Vec<PaddingDimension>),
    /// `dim_labels=b01f_01io->b01f`.
    ConvolutionDimensions(ConvolutionDimensions),
    /// `replica_groups={{0,1},{2,3}}`.
    ReplicaGroups(ReplicaGroups),
    /// `source_target_pairs={{0,1},{1,2}}`, `replica_groups`-like lists of lists.
    IntLists(Vec<Vec<i64>>),
    /// A shape.
    Shape(Shape),
    /// `operand_layout_constraints={f32[2]{0}, f32[]}`.
    Shapes(Vec<Shape>),
    /// Value of a constant.
    Literal(Literal),
    /// Anything else, as the text has it.
    Raw(String),
}

impl AttributeValue {
    /// The form of the value.
    pub fn form(&self) -> AttributeForm {
        match self {
            AttributeValue::Int(_) => AttributeForm::Int,
            AttributeValue::Ints(_) => AttributeForm::Ints,
            AttributeValue::Bool(_) => AttributeForm::Bool,
            AttributeValue::Float(_) => AttributeForm::Float,
            AttributeValue::Word(_) => AttributeForm::Word,
            AttributeValue::Words(_) => AttributeForm::Words,
            AttributeValue::String(_) => AttributeForm::String,
            AttributeValue::Window(_) => AttributeForm::Window,
            AttributeValue::Slice(_) => AttributeForm::Slice,
            AttributeValue::Padding(_) => AttributeForm::Padding,
            AttributeValue::ConvolutionDimensions(_) => AttributeForm::ConvolutionDimensions,
            AttributeValue::ReplicaGroups(_) => AttributeForm::ReplicaGroups,
            AttributeValue::IntLists(_) => AttributeForm::IntLists,
            AttributeValue::Shape(_) => AttributeForm::Shape,
            AttributeValue::Shapes(_) => AttributeForm::Shapes,
            AttributeValue::Literal(_) => AttributeForm::Literal,
            AttributeValue::Raw(_) => AttributeForm::Raw,
        }
    }
}

/// Form of an attribute, which tells the reader how to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AttributeForm {
    Int,
    Ints,
    Bool,
    Float,
    Word,
    Words,
    String,
    Window,
    Slice,
    Padding,
    ConvolutionDimensions,
    ReplicaGroups,
    IntLists,
    Shape,
    Shapes,
    Literal,
    Raw,
}

/// Declaration of one attribute of an operation.
#[derive(Clone, Copy, Debug)]
pub struct AttributeSpec {
    /// Name in HLO text and in MLIR.
    pub name: &'static str,
    /// Form of the value.
    pub form: AttributeForm,
    /// Whether the operation is invalid without it.
    pub required: bool,
}

/// Declarations of the attributes of an operation, derived from its struct of attributes.
#[derive(Debug)]
pub struct AttributeTable {
    /// Name of the struct.
    pub owner: &'static str,
    /// The attributes, in the order of XLA's text.
    pub specs: &'static [AttributeSpec],
    /// Whether the values are those that the struct can have.
    pub check: fn(OpKind, &Attributes) -> Result<(), OpError>,
}

impl AttributeTable {
    /// Declaration of an attribute.
    pub fn get(&self, name: &str) -> Option<&'static AttributeSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }
}

/// Attributes of any operation that halo carries and does not interpret: those of XLA's reader.
pub const CARRIED: [&str; 9] = [
    "metadata",
    "backend_config",
    "sharding",
    "frontend_attributes",
    "control-predecessors",
    "origin",
    "statistics",
    "parameter_replication",
    "outer_dimension_partitions",
];

/// Attributes of one instruction, in the order of the operation's declaration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<(&'static str, AttributeValue)>,
}

impl Attributes {
    /// No attributes.
    pub const fn new() -> Self {
        Attributes { entries: Vec::new() }
    }

    /// Adds or replaces an attribute.
    pub fn set(&mut self, name: &'static str, value: AttributeValue) {
        match self.entries.iter_mut().find(|entry| entry.0 == name) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((name, value)),
        }
    }

    /// Adds an attribute that is not there yet, if it has a value.
    pub(crate) fn extend(&mut self, name: &'static str, value: Option<AttributeValue>) {
        self.entries.extend(value.map(|value| (name, value)));
    }

    /// Adds or replaces an attribute, by value.
    pub fn with(mut self, name: &'static str, value: AttributeValue) -> Self {
        self.set(name, value);
        self
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) {
        self.entries.retain(|entry| entry.0 != name);
    }

    /// Value of an attribute.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.entries.iter().find(|entry| entry.0 == name).map(|entry| &entry.1)
    }

    /// The attributes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &AttributeValue)> {
        self.entries.iter().map(|(name, value)| (*name, value))
    }

    /// Integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(AttributeValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// Integer list attribute; empty when absent.
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Some(AttributeValue::Ints(values)) => values,
            _ => &[],
        }
    }

    /// Flag; false when absent.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(AttributeValue::Bool(true)))
    }

    /// Float attribute.
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(AttributeValue::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// Bare word or string attribute.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(AttributeValue::Word(value) | AttributeValue::String(value) | AttributeValue::Raw(value)) => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Window attribute; empty when absent.
    pub fn window(&self) -> &[WindowDimension] {
        match self.get("window") {
            Some(AttributeValue::Window(dimensions)) => dimensions,
            _ => &[],
        }
    }

    /// Slice attribute; empty when absent.
    pub fn slice(&self) -> &[SliceDimension] {
        match self.get("slice") {
            Some(AttributeValue::Slice(dimensions)) => dimensions,
            _ => &[],
        }
    }

    /// Padding attribute; empty when absent.
    pub fn padding(&self) -> &[PaddingDimension] {
        match self.get("padding") {
            Some(AttributeValue::Padding(dimensions)) => dimensions,
            _ => &[],
        }
    }

    /// Convolution dimension numbers.
    pub fn convolution_dimensions(&self) -> Option<&ConvolutionDimensions> {
        match self.get("dim_labels") {
            Some(AttributeValue::ConvolutionDimensions(dimensions)) => Some(dimensions),
            _ => None,
        }
    }

    /// Replica groups.
    pub fn replica_groups(&self) -> Option<&ReplicaGroups> {
        match self.get("replica_groups") {
            Some(AttributeValue::ReplicaGroups(groups)) => Some(groups),
            _ => None,
        }
    }

    /// Value of a constant.
    pub fn literal(&self) -> Option<&Literal> {
        match self.get("value") {
            Some(AttributeValue::Literal(literal)) => Some(literal),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReplicaGroups;

    #[test]
    fn groups_along_axes_of_a_mesh_have_the_order_of_the_axes() {
        let mesh = |grouped: &[&str]| ReplicaGroups::Mesh {
            axes: vec![("x".into(), 2), ("y".into(), 3)],
            grouped: grouped.iter().map(|name| name.to_string()).collect(),
        };
        assert_eq!(mesh(&["x"]).groups(), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(mesh(&["y"]).groups(), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(mesh(&["y", "x"]).groups(), [[0, 3, 1, 4, 2, 5]]);
        assert_eq!(mesh(&[]).groups().len(), 6);
        assert_eq!(mesh(&["x"]).largest(), 2);
        assert_eq!(mesh(&["z"]).mesh_as_iota(), None);
        assert_eq!(mesh(&["x", "x"]).mesh_as_iota(), None);
    }
}
