//! Run-time sizes of values: for each dynamic dimension the scalar that holds its size.

use hlo::element_type::ElementType;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::shape::{ArrayShape, Shape};

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Sizes of an array: an `s32` scalar for each dimension whose size is less than its bound at run time.
pub(super) type ArraySizes = Vec<Option<InstructionId>>;

/// Sizes of a value of any shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    /// Of an array (nothing for a token).
    Array(ArraySizes),
    /// Of the elements of a tuple.
    Tuple(Vec<Sizes>),
}

impl Sizes {
    /// Marks the dimensions of `shape` as dynamic that have a size at run time.
    pub(super) fn mark(&self, shape: &mut Shape) {
        match (self, shape) {
            (Sizes::Array(sizes), Shape::Array(array)) => {
                mark_dynamic(array, |dimension| sizes.get(dimension).is_some_and(Option::is_some));
            }
            (Sizes::Tuple(elements), Shape::Tuple(shapes)) => {
                elements.iter().zip(shapes).for_each(|(element, shape)| element.mark(shape));
            }
            _ => {}
        }
    }

    /// Every dimension at its bound.
    pub(super) fn full(shape: &Shape) -> Sizes {
        match shape {
            Shape::Array(array) => Sizes::Array(vec![None; array.rank()]),
            Shape::Tuple(elements) => Sizes::Tuple(elements.iter().map(Sizes::full).collect()),
            Shape::Token | Shape::Opaque => Sizes::Array(Vec::new()),
        }
    }

    /// Sizes of an array; none for a tuple.
    pub(super) fn of_array(&self) -> &[Option<InstructionId>] {
        match self {
            Sizes::Array(sizes) => sizes,
            Sizes::Tuple(_) => &[],
        }
    }

    /// Sizes of an element of a tuple.
    pub(super) fn element(&self, index: usize) -> Sizes {
        match self {
            Sizes::Tuple(elements) => elements.get(index).cloned().unwrap_or(Sizes::Array(Vec::new())),
            Sizes::Array(_) => Sizes::Array(Vec::new()),
        }
    }

    /// Whether any dimension has a run-time size.
    pub(super) fn is_dynamic(&self) -> bool {
        match self {
            Sizes::Array(sizes) => sizes.iter().any(Option::is_some),
            Sizes::Tuple(elements) => elements.iter().any(Sizes::is_dynamic),
        }
    }

    /// Calls `visit` with the size of each dimension that the shape declares dynamic, in order; a size at its bound
    /// is a constant.
    pub(super) fn declared(&self, builder: &mut GraphBuilder, shape: &Shape, declared: &mut Vec<InstructionId>) {
        match (self, shape) {
            (Sizes::Array(sizes), Shape::Array(array)) => {
                for (dimension, size) in sizes.iter().enumerate() {
                    if array.is_dynamic_dimension(dimension) {
                        let bound = array.dimensions[dimension];
                        declared.push(
                            size.unwrap_or_else(|| builder.scalar(ElementType::S32, ConstantNumber::Integer(bound))),
                        );
                    }
                }
            }
            (Sizes::Tuple(elements), Shape::Tuple(shapes)) => {
                for (element, shape) in elements.iter().zip(shapes) {
                    element.declared(builder, shape, declared);
                }
            }
            _ => {}
        }
    }

    /// The inverse of [`Self::declared`].
    pub(super) fn from_declared(shape: &Shape, declared: &mut impl Iterator<Item = InstructionId>) -> Sizes {
        match shape {
            Shape::Array(array) => Sizes::Array(
                (0..array.rank())
                    .map(|dimension| array.is_dynamic_dimension(dimension).then(|| declared.next()).flatten())
                    .collect(),
            ),
            Shape::Tuple(elements) => {
                Sizes::Tuple(elements.iter().map(|element| Sizes::from_declared(element, declared)).collect())
            }
            Shape::Token | Shape::Opaque => Sizes::Array(Vec::new()),
        }
    }
}

/// Marks the dimensions of `shape` as dynamic that `other` declares so.
pub(super) fn mark_declared(shape: &mut Shape, other: &Shape) {
    match (shape, other) {
        (Shape::Array(array), Shape::Array(other)) => {
            mark_dynamic(array, |dimension| other.is_dynamic_dimension(dimension));
        }
        (Shape::Tuple(shapes), Shape::Tuple(others)) => {
            shapes.iter_mut().zip(others).for_each(|(shape, other)| mark_declared(shape, other));
        }
        _ => {}
    }
}

fn mark_dynamic(array: &mut ArrayShape, is_dynamic: impl Fn(usize) -> bool) {
    let dynamic: Vec<bool> =
        (0..array.rank()).map(|dimension| array.is_dynamic_dimension(dimension) || is_dynamic(dimension)).collect();
    array.dynamic = if dynamic.contains(&true) { dynamic } else { Vec::new() };
}

/// Number of dimensions that a shape declares dynamic.
pub(super) fn dynamic_count(shape: &Shape) -> usize {
    shape
        .leaves()
        .iter()
        .filter_map(|leaf| leaf.as_array())
        .map(|array| (0..array.rank()).filter(|&dimension| array.is_dynamic_dimension(dimension)).count())
        .sum()
}

/// The shape with every dimension at its bound.
pub(super) fn bounded(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(array) => Shape::Array(ArrayShape { dynamic: Vec::new(), ..array.clone() }),
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(bounded).collect()),
        Shape::Token | Shape::Opaque => shape.clone(),
    }
}

/// Arithmetic on sizes.
pub(super) struct Arithmetic<'b>(pub(super) &'b mut GraphBuilder);

impl Arithmetic<'_> {
    pub(super) fn constant(&mut self, value: i64) -> InstructionId {
        self.0.scalar(ElementType::S32, ConstantNumber::Integer(value))
    }

    /// The size, or the bound where there is none.
    pub(super) fn size(&mut self, size: Option<InstructionId>, bound: i64) -> InstructionId {
        size.unwrap_or_else(|| self.constant(bound))
    }

    fn with_constant(&mut self, kind: OpKind, value: InstructionId, constant: i64) -> InstructionId {
        let constant = self.constant(constant);
        self.0.binary(kind, value, constant)
    }

    pub(super) fn plus(&mut self, value: InstructionId, constant: i64) -> InstructionId {
        if constant == 0 { value } else { self.with_constant(OpKind::Add, value, constant) }
    }

    pub(super) fn times(&mut self, value: InstructionId, constant: i64) -> InstructionId {
        if constant == 1 { value } else { self.with_constant(OpKind::Multiply, value, constant) }
    }

    /// Quotient of numbers that are not negative.
    pub(super) fn divided(&mut self, value: InstructionId, constant: i64) -> InstructionId {
        if constant == 1 { value } else { self.with_constant(OpKind::Divide, value, constant) }
    }

    pub(super) fn at_least(&mut self, value: InstructionId, constant: i64) -> InstructionId {
        self.with_constant(OpKind::Maximum, value, constant)
    }

    pub(super) fn at_most(&mut self, value: InstructionId, constant: i64) -> InstructionId {
        self.with_constant(OpKind::Minimum, value, constant)
    }

    pub(super) fn sum(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.0.binary(OpKind::Add, a, b)
    }

    pub(super) fn difference(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.0.binary(OpKind::Subtract, a, b)
    }

    /// Makes the program fail with a reason, unless two numbers compare so when it gets there.
    pub(super) fn require(&mut self, a: InstructionId, direction: ComparisonDirection, b: InstructionId, reason: &str) {
        let holds = self.0.compare(direction, a, b);
        self.0.require(holds, reason);
    }

    /// As [`Self::require`], that a number is a multiple of a constant.
    pub(super) fn require_multiple(&mut self, value: InstructionId, constant: i64, reason: &str) {
        let rest = self.with_constant(OpKind::Remainder, value, constant);
        let zero = self.constant(0);
        self.require(rest, ComparisonDirection::Eq, zero, reason);
    }

    pub(super) fn product(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.0.binary(OpKind::Multiply, a, b)
    }
}

/// `pred` of an array's dimensions: whether an element exists; `None` if all do.
pub(super) fn existing(
    builder: &mut GraphBuilder,
    dimensions: &[i64],
    sizes: &[Option<InstructionId>],
) -> Option<InstructionId> {
    let mut exists: Option<InstructionId> = None;
    for (dimension, size) in sizes.iter().enumerate() {
        let Some(size) = *size else { continue };
        let position = builder.iota(ElementType::S32, dimensions, dimension);
        let size = builder.broadcast(size, dimensions, &[]);
        let here = builder.compare(ComparisonDirection::Lt, position, size);
        exists = Some(match exists {
            Some(exists) => builder.binary(OpKind::And, exists, here),
            None => here,
        });
    }
    exists
}

/// The operand with a scalar in place of what does not exist.
pub(super) fn masked(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    sizes: &[Option<InstructionId>],
    value: InstructionId,
) -> InstructionId {
    let dimensions = builder.dimensions(operand);
    let Some(exists) = existing(builder, &dimensions, sizes) else { return operand };
    let value = builder.broadcast(value, &dimensions, &[]);
    builder.select(exists, operand, value)
}

/// As [`masked`], with zeros, which of a type without zero are those bits.
pub(super) fn zeroed(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    sizes: &[Option<InstructionId>],
) -> InstructionId {
    if sizes.iter().all(Option::is_none) {
        return operand;
    }
    let element_type = builder.element_type(operand);
    let zero = if element_type.has_zero() {
        builder.scalar(element_type, ConstantNumber::Integer(0))
    } else {
        let bits = builder.scalar(ElementType::U8, ConstantNumber::Integer(0));
        builder.bitcast(bits, element_type)
    };
    masked(builder, operand, sizes, zero)
}

/// The value with zeros beyond its sizes.
pub(super) fn zeroed_value(builder: &mut GraphBuilder, value: InstructionId, sizes: &Sizes) -> InstructionId {
    match sizes {
        _ if !sizes.is_dynamic() => value,
        Sizes::Array(sizes) => zeroed(builder, value, sizes),
        Sizes::Tuple(elements) => {
            let elements: Vec<InstructionId> = elements
                .iter()
                .enumerate()
                .map(|(index, sizes)| {
                    let element = builder.element(value, index);
                    zeroed_value(builder, element, sizes)
                })
                .collect();
            builder.tuple(&elements)
        }
    }
}

/// Dimension numbers of a verified operation as indices.
pub(super) fn indices(dimensions: &[i64]) -> Vec<usize> {
    dimensions.iter().map(|&dimension| dimension as usize).collect()
}
