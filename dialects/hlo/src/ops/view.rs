//! What every shape rule asks of an [`OpView`]: its operands by kind, its declared result, and errors.

use super::typed_attributes::{OperationAttributes, typed};
use super::{OpError, OpView};
use crate::element_type::ElementType;
use crate::shape::{ArrayShape, ProgramShape, Shape, UNBOUNDED};

/// Label of a constraint, e.g. `Some("C1")`; `None` for rules that every operation shares.
pub type Label = Option<&'static str>;

impl<'a> OpView<'a> {
    /// The attributes, as those of the operation.
    pub fn attributes<T: OperationAttributes<'a>>(&self) -> Result<T, OpError> {
        typed(self.kind, self.attributes)
    }

    /// The operation breaks a rule.
    pub fn error(&self, label: Label, message: String) -> OpError {
        OpError { kind: self.kind, label, message, attribute: None, operand: None, computation: None }
    }

    /// An attribute breaks a rule; the message goes on after the attribute's name.
    pub fn attribute_error(&self, label: Label, attribute: &'static str, message: String) -> OpError {
        OpError { attribute: Some(attribute), ..self.error(label, format!("{attribute} {message}")) }
    }

    /// An operand breaks a rule; the message goes on after "operand N".
    pub fn operand_error(&self, label: Label, operand: usize, message: String) -> OpError {
        OpError { operand: Some(operand), ..self.error(label, format!("operand {operand} {message}")) }
    }

    /// Operand of any kind.
    pub fn operand(&self, index: usize) -> Result<&'a Shape, OpError> {
        self.operands.get(index).copied().ok_or_else(|| self.error(None, format!("operand {index} is missing")))
    }

    /// Operand that must be an array.
    pub fn array(&self, index: usize) -> Result<&'a ArrayShape, OpError> {
        let shape = self.operand(index)?;
        shape.as_array().ok_or_else(|| self.operand_error(None, index, format!("must be an array, got {shape}")))
    }

    /// Operand that must be a token.
    pub fn token(&self, index: usize, label: Label) -> Result<(), OpError> {
        match self.operand(index)? {
            Shape::Token => Ok(()),
            shape => Err(self.operand_error(label, index, format!("must be a token, got {shape}"))),
        }
    }

    /// Operand that must be a scalar integer.
    pub fn integer_scalar(&self, index: usize, label: Label) -> Result<ElementType, OpError> {
        let shape = self.array(index)?;
        if shape.rank() != 0 || !shape.element_type.is_integer() {
            return Err(self.operand_error(label, index, format!("must be an integer scalar, got {shape}")));
        }
        Ok(shape.element_type)
    }

    /// The declared result shape.
    pub fn declared(&self) -> Result<&'a Shape, OpError> {
        self.result.ok_or_else(|| self.error(None, "the result shape must be declared".to_string()))
    }

    /// The declared result shape, which must be an array.
    pub fn declared_array(&self) -> Result<&'a ArrayShape, OpError> {
        let shape = self.declared()?;
        shape.as_array().ok_or_else(|| self.error(None, format!("the result must be an array, got {shape}")))
    }

    /// Signature of a nested computation.
    pub fn computation(&self, index: usize) -> Result<&'a ProgramShape, OpError> {
        self.computations.get(index).ok_or_else(|| self.error(None, format!("computation {index} is missing")))
    }
}

/// A number of things: `1 operand`, `2 operands`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The operand shapes joined by commas.
pub fn list(shapes: &[&Shape]) -> String {
    shapes.iter().map(|shape| shape.to_string()).collect::<Vec<_>>().join(", ")
}

impl OpView<'_> {
    /// Two array operands must have the same element type; returns it.
    pub fn same_element_type(&self, label: Label, first: usize, second: usize) -> Result<ElementType, OpError> {
        let (expected, found) = (self.array(first)?.element_type, self.array(second)?.element_type);
        if expected == found {
            return Ok(expected);
        }
        let message = format!("must have the element type {expected} of operand {first}, got {found}");
        Err(self.operand_error(label, second, message))
    }

    /// Array operands must have the same dimensions. Returns the first one's shape, with a dimension dynamic
    /// where any operand's is, and a size for an unbounded dimension where any operand has one.
    pub fn merged_dimensions(&self, label: Label, operands: &[usize]) -> Result<ArrayShape, OpError> {
        let Some((&first, others)) = operands.split_first() else {
            return Err(self.error(label, "takes at least one array".to_string()));
        };
        let mut merged = self.array(first)?.clone();
        for &other in others {
            let shape = self.array(other)?;
            if !merge_dimensions(&mut merged, shape) {
                let message = format!("must have the dimensions of operand {first}, {merged}, got {shape}");
                return Err(self.operand_error(label, other, message));
            }
        }
        Ok(merged)
    }
}

/// Merges the dimensions of `shape` into `merged`; false when they differ.
pub fn merge_dimensions(merged: &mut ArrayShape, shape: &ArrayShape) -> bool {
    if merged.rank() != shape.rank() {
        return false;
    }
    for dimension in 0..shape.rank() {
        let (size, other) = (merged.dimensions[dimension], shape.dimensions[dimension]);
        if size == UNBOUNDED && other != UNBOUNDED {
            merged.dimensions[dimension] = other;
            merged.set_dynamic_dimension(dimension, shape.is_dynamic_dimension(dimension));
        } else if size != other && other != UNBOUNDED {
            return false;
        } else if size == other && shape.is_dynamic_dimension(dimension) {
            merged.set_dynamic_dimension(dimension, true);
        }
    }
    true
}

impl<'a> OpView<'a> {
    /// Operand that must be a tuple of at least this many elements.
    pub fn tuple(&self, label: Label, index: usize, least: usize) -> Result<&'a [Shape], OpError> {
        let shape = self.operand(index)?;
        shape.as_tuple().filter(|elements| elements.len() >= least).ok_or_else(|| {
            let expected =
                if least == 0 { "a tuple".to_string() } else { format!("a tuple of at least {least} elements") };
            self.operand_error(label, index, format!("must be {expected}, got {shape}"))
        })
    }

    /// Elements of the declared result, which must be a tuple of at least this many.
    pub fn declared_tuple(&self, label: Label, least: usize) -> Result<&'a [Shape], OpError> {
        let shape = self.declared()?;
        shape.as_tuple().filter(|elements| elements.len() >= least).ok_or_else(|| {
            self.error(label, format!("the result must be a tuple of at least {least} elements, got {shape}"))
        })
    }
}
