//! Run-time values: literals whose bounded dynamic dimensions carry their run-time sizes.

use super::EvalFailure;
use super::movement;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::{ArrayShape, Shape};

/// An array; with `sizes`, only the elements below them exist, the rest of the data is padding.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayValue {
    /// Data of the whole array, dynamic dimensions at their bound.
    pub literal: ArrayLiteral,
    /// Run-time size of every dimension; `None` when each is the size in the shape.
    pub sizes: Option<Vec<i64>>,
}

impl ArrayValue {
    /// The elements that exist, as an array of static shape.
    pub fn compacted(&self) -> Result<ArrayLiteral, EvalFailure> {
        match &self.sizes {
            None => Ok(self.literal.clone()),
            Some(sizes) => {
                movement::resize(&self.literal, &ArrayShape::new(self.literal.element_type(), sizes.clone()))
            }
        }
    }

    /// Run-time size of a dimension.
    pub fn size(&self, dimension: usize) -> Option<i64> {
        match &self.sizes {
            None => self.literal.shape().dimensions.get(dimension).copied(),
            Some(sizes) => sizes.get(dimension).copied(),
        }
    }
}

/// A value while a program runs.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalValue {
    /// An array.
    Array(ArrayValue),
    /// A tuple.
    Tuple(Vec<EvalValue>),
    /// A token.
    Token,
}

impl EvalValue {
    /// An array all of whose elements exist.
    pub fn array(literal: ArrayLiteral) -> EvalValue {
        EvalValue::Array(ArrayValue { literal, sizes: None })
    }

    /// The value of a literal; elided constants have none.
    pub fn from_literal(literal: &Literal) -> Result<EvalValue, EvalFailure> {
        Ok(match literal {
            Literal::Array(array) => EvalValue::array(array.clone()),
            Literal::Tuple(elements) => {
                EvalValue::Tuple(elements.iter().map(EvalValue::from_literal).collect::<Result<_, _>>()?)
            }
            Literal::Token => EvalValue::Token,
            Literal::Elided(_) => return Err(EvalFailure::Elided),
        })
    }

    /// The literal; run-time sizes are lost, padding stays.
    pub fn to_literal(&self) -> Literal {
        match self {
            EvalValue::Array(array) => Literal::Array(array.literal.clone()),
            EvalValue::Tuple(elements) => Literal::Tuple(elements.iter().map(EvalValue::to_literal).collect()),
            EvalValue::Token => Literal::Token,
        }
    }

    /// The value with zeros for the elements that do not exist.
    pub fn zeroed(self) -> Result<EvalValue, EvalFailure> {
        Ok(match self {
            EvalValue::Array(array) if array.sizes.is_some() => {
                let literal = movement::resize(&array.compacted()?, array.literal.shape())?;
                EvalValue::Array(ArrayValue { literal, sizes: array.sizes })
            }
            EvalValue::Tuple(elements) => {
                EvalValue::Tuple(elements.into_iter().map(EvalValue::zeroed).collect::<Result<_, _>>()?)
            }
            other => other,
        })
    }

    /// Whether any array in the value has run-time sizes.
    pub fn is_dynamic(&self) -> bool {
        match self {
            EvalValue::Array(array) => array.sizes.is_some(),
            EvalValue::Tuple(elements) => elements.iter().any(EvalValue::is_dynamic),
            EvalValue::Token => false,
        }
    }

    /// Gives the value's arrays the layouts and dynamism of a shape with the same sizes and element types.
    pub(super) fn with_shape(self, shape: &Shape) -> Result<EvalValue, EvalFailure> {
        match (self, shape) {
            (EvalValue::Array(array), Shape::Array(shape)) => {
                if array.literal.element_type() != shape.element_type
                    || array.literal.shape().dimensions != shape.dimensions
                {
                    return Err(EvalFailure::malformed(format!("expected {shape}, got {}", array.literal.shape())));
                }
                let literal = if array.literal.shape() == shape {
                    array.literal
                } else {
                    array.literal.with_shape(shape.clone())?
                };
                Ok(EvalValue::Array(ArrayValue { literal, sizes: array.sizes }))
            }
            (EvalValue::Tuple(elements), Shape::Tuple(shapes)) if elements.len() == shapes.len() => {
                Ok(EvalValue::Tuple(
                    elements
                        .into_iter()
                        .zip(shapes)
                        .map(|(value, shape)| value.with_shape(shape))
                        .collect::<Result<_, _>>()?,
                ))
            }
            (EvalValue::Token, Shape::Token) => Ok(EvalValue::Token),
            (value, shape) => {
                Err(EvalFailure::malformed(format!("expected {shape}, got {}", value.to_literal().shape())))
            }
        }
    }
}
