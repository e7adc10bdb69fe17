//! Shapes: arrays with optional layout and bounded dynamic dimensions, tuples, tokens.
//!
//! Invariant: the product of an array's dimensions times its element width fits in `i64` once
//! [`ArrayShape::checked_byte_size`] has succeeded; readers call it on every shape they take in.

use std::fmt;

use crate::element_type::ElementType;
use crate::literal::NativeElement;

/// Physical order of an array's dimensions, with XLA's extras.
///
/// halo computes on row-major data; a layout is kept for text, for the entry interface and for `bitcast`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Dimensions from the fastest varying (minor) to the slowest (major).
    pub minor_to_major: Vec<i64>,
    /// Text after the colon inside the braces, e.g. `T(8,128)S(1)`; empty for none.
    pub extras: String,
}

impl Layout {
    /// Row-major layout of the given rank.
    pub fn row_major(rank: usize) -> Self {
        Layout { minor_to_major: (0..rank as i64).rev().collect(), extras: String::new() }
    }

    /// Whether the order is row-major (extras do not count).
    pub fn is_row_major(&self) -> bool {
        self.minor_to_major.iter().rev().copied().eq(0..self.minor_to_major.len() as i64)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        write_list(f, &self.minor_to_major)?;
        if !self.extras.is_empty() {
            write!(f, ":{}", self.extras)?;
        }
        f.write_str("}")
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, values: &[i64]) -> fmt::Result {
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            f.write_str(",")?;
        }
        write!(f, "{value}")?;
    }
    Ok(())
}

/// Bound of a dimension declared `?` without one.
pub const UNBOUNDED: i64 = i64::MIN;

/// Shape of an array.
///
/// `dimensions[i]` is the static size or, where `dynamic[i]`, the upper bound ([`UNBOUNDED`] for `?`).
/// Equality compares layouts too; use [`ArrayShape::same_dimensions`] or [`Shape::compatible`] to ignore them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Type of each element.
    pub element_type: ElementType,
    /// Sizes, or bounds of dynamic dimensions.
    pub dimensions: Vec<i64>,
    /// Which dimensions are dynamic (`<=N`); empty when none is.
    pub dynamic: Vec<bool>,
    /// Layout, when the text carries one.
    pub layout: Option<Layout>,
}

impl ArrayShape {
    /// Static shape without layout.
    pub fn new(element_type: ElementType, dimensions: impl Into<Vec<i64>>) -> Self {
        ArrayShape { element_type, dimensions: dimensions.into(), dynamic: Vec::new(), layout: None }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dimensions.len()
    }

    /// Number of elements, dynamic dimensions counted at their bound. Saturates; see [`Self::checked_byte_size`].
    pub fn element_count(&self) -> i64 {
        self.dimensions.iter().fold(1i64, |product, &size| product.saturating_mul(size.max(0)))
    }

    /// Bytes of the array in buffers and literals; `None` when it does not fit `i64` or a size is negative.
    pub fn checked_byte_size(&self) -> Option<i64> {
        // Sizes are multiplied before a zero is noticed: XLA rejects f32[0,2^62,8] for the same reason.
        let mut bytes = self.element_type.byte_width() as i64;
        for &size in &self.dimensions {
            if size < 0 && size != UNBOUNDED {
                return None;
            }
            bytes = bytes.checked_mul(size.max(1))?;
        }
        if self.element_count() == 0 { Some(0) } else { Some(bytes) }
    }

    /// Bytes of the array; 0 for shapes that overflow (readers have rejected those).
    pub fn byte_size(&self) -> usize {
        self.checked_byte_size().map_or(0, |size| size as usize)
    }

    /// Whether any dimension is dynamic.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic.iter().any(|&dynamic| dynamic)
    }

    /// Whether dimension `dimension` is dynamic.
    pub fn is_dynamic_dimension(&self, dimension: usize) -> bool {
        self.dynamic.get(dimension).copied().unwrap_or(false)
    }

    /// Marks dimension `dimension` as dynamic or static.
    pub fn set_dynamic_dimension(&mut self, dimension: usize, is_dynamic: bool) {
        self.dynamic.resize(self.dimensions.len(), false);
        self.dynamic[dimension] = is_dynamic;
        if !self.is_dynamic() {
            self.dynamic.clear();
        }
    }

    /// Same dimensions and dynamic flags with another element type; the layout is kept.
    pub fn with_element_type(&self, element_type: ElementType) -> Self {
        ArrayShape { element_type, ..self.clone() }
    }

    /// Whether the dimensions (not their dynamism, type or layout) agree.
    pub fn same_dimensions(&self, other: &ArrayShape) -> bool {
        self.dimensions == other.dimensions
    }

    /// Row-major strides, in elements.
    pub fn strides(&self) -> Vec<i64> {
        let mut strides = vec![1i64; self.rank()];
        for dimension in (0..self.rank().saturating_sub(1)).rev() {
            strides[dimension] = strides[dimension + 1].saturating_mul(self.dimensions[dimension + 1].max(0));
        }
        strides
    }

    /// The layout, row-major when none was given.
    pub fn layout_or_default(&self) -> Layout {
        self.layout.clone().unwrap_or_else(|| Layout::row_major(self.rank()))
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element_type)?;
        for (dimension, &size) in self.dimensions.iter().enumerate() {
            if dimension > 0 {
                f.write_str(",")?;
            }
            match (self.is_dynamic_dimension(dimension), size) {
                (true, UNBOUNDED) => f.write_str("?")?,
                (true, bound) => write!(f, "<={bound}")?,
                (false, size) => write!(f, "{size}")?,
            }
        }
        f.write_str("]")?;
        match &self.layout {
            Some(layout) if self.rank() > 0 || !layout.extras.is_empty() => write!(f, "{layout}"),
            _ => Ok(()),
        }
    }
}

/// Shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An array.
    Array(ArrayShape),
    /// A tuple of values.
    Tuple(Vec<Shape>),
    /// An ordering token.
    Token,
    /// XLA's `opaque[]`: a value that only custom calls understand.
    Opaque,
}

impl Shape {
    /// Static array shape without layout.
    pub fn array(element_type: ElementType, dimensions: impl Into<Vec<i64>>) -> Self {
        Shape::Array(ArrayShape::new(element_type, dimensions))
    }

    /// Static array shape of a native type, without layout.
    pub fn of<T: NativeElement>(dimensions: impl Into<Vec<i64>>) -> Self {
        Shape::array(T::ELEMENT_TYPE, dimensions)
    }

    /// Scalar of the given type.
    pub fn scalar(element_type: ElementType) -> Self {
        Shape::array(element_type, [])
    }

    /// The array's shape, if it is one of an array.
    pub fn into_array(self) -> Option<ArrayShape> {
        match self {
            Shape::Array(array) => Some(array),
            Shape::Tuple(_) | Shape::Token | Shape::Opaque => None,
        }
    }

    /// The array shape, if this is one.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(array) => Some(array),
            Shape::Tuple(_) | Shape::Token | Shape::Opaque => None,
        }
    }

    /// Bytes of all arrays.
    pub fn byte_size(&self) -> usize {
        self.leaves().into_iter().filter_map(Shape::as_array).map(ArrayShape::byte_size).sum()
    }

    /// The elements, if this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Shape]> {
        match self {
            Shape::Tuple(elements) => Some(elements),
            Shape::Array(_) | Shape::Token | Shape::Opaque => None,
        }
    }

    /// Whether the shapes agree in structure, element types, sizes and dynamism, whatever their layouts.
    pub fn compatible(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => {
                a.element_type == b.element_type
                    && a.dimensions == b.dimensions
                    && a.is_dynamic() == b.is_dynamic()
                    && (0..a.rank()).all(|d| a.is_dynamic_dimension(d) == b.is_dynamic_dimension(d))
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b)),
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        }
    }

    /// Same shape with every layout removed.
    pub fn without_layout(&self) -> Shape {
        match self {
            Shape::Array(array) => Shape::Array(ArrayShape { layout: None, ..array.clone() }),
            Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(Shape::without_layout).collect()),
            Shape::Token => Shape::Token,
            Shape::Opaque => Shape::Opaque,
        }
    }

    /// Calls `visit` with each non-tuple leaf, in order.
    pub fn for_each_leaf<'a>(&'a self, visit: &mut impl FnMut(&'a Shape)) {
        match self {
            Shape::Tuple(elements) => elements.iter().for_each(|element| element.for_each_leaf(visit)),
            leaf => visit(leaf),
        }
    }

    /// The non-tuple leaves, in order.
    pub fn leaves(&self) -> Vec<&Shape> {
        let mut leaves = Vec::new();
        self.for_each_leaf(&mut |leaf| leaves.push(leaf));
        leaves
    }
}

impl From<ArrayShape> for Shape {
    fn from(array: ArrayShape) -> Self {
        Shape::Array(array)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Array(array) => array.fmt(f),
            Shape::Tuple(elements) => {
                f.write_str("(")?;
                for (position, element) in elements.iter().enumerate() {
                    match position {
                        0 => {}
                        p if p % 5 == 0 => write!(f, ", /*index={p}*/")?,
                        _ => f.write_str(", ")?,
                    }
                    element.fmt(f)?;
                }
                f.write_str(")")
            }
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
        }
    }
}

/// Parameter and result shapes of a computation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramShape {
    /// Shapes of the parameters, in order.
    pub parameters: Vec<Shape>,
    /// Shape of the root.
    pub result: Shape,
}

impl fmt::Display for ProgramShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (position, parameter) in self.parameters.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            parameter.fmt(f)?;
        }
        write!(f, ") -> {}", self.result)
    }
}
