//! What every shape rule asks of an [`OpView`]: its operands by kind, its declared result, and errors.

use super::{OpError, OpView};
use crate::element_type::ElementType;
use crate::shape::{ArrayShape, ProgramShape, Shape};

/// Label of a constraint, e.g. `Some("C1")`; `None` for rules that every operation shares.
pub type Label = Option<&'static str>;

impl<'a> OpView<'a> {
    /// The operation breaks a rule.
    pub fn error(&self, label: Label, message: String) -> OpError {
        OpError { kind: self.kind, label, message, attribute: None, operand: None }
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

/// The operand shapes joined by commas.
pub fn list(shapes: &[&Shape]) -> String {
    shapes.iter().map(|shape| shape.to_string()).collect::<Vec<_>>().join(", ")
}
