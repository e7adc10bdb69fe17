//! What a builder refuses, with the place of the call in Rust.

use std::fmt;
use std::panic::Location;

use super::broadcasting::BroadcastError;
use crate::element_type::ElementType;
use crate::literal::LiteralError;
use crate::ops::OpError;
use crate::shape::ArrayShape;

/// What is wrong with a call of a builder's method.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A rule of an operation is broken.
    #[error(transparent)]
    Op(#[from] OpError),
    /// Two operands do not broadcast.
    #[error(transparent)]
    Broadcast(#[from] BroadcastError),
    /// A rule of a method that makes several operations is broken.
    #[error("{method} {message}")]
    Rule {
        /// The method.
        method: &'static str,
        /// The rule, what was expected and what was found.
        message: String,
    },
    /// A value of one computation is used in another.
    #[error("{role} is a value of the computation `{computation}`: it must be passed in as an operand")]
    Foreign {
        /// What it was used as.
        role: String,
        /// The computation that it belongs to.
        computation: String,
    },
    /// Parameters are numbered wrongly.
    #[error("{0}")]
    Parameter(String),
    /// A value's size in bytes does not fit 63 bits.
    #[error("the size of {0} in bytes does not fit 63 bits")]
    Size(ArrayShape),
    /// A literal's data do not fit its shape.
    #[error(transparent)]
    Literal(#[from] LiteralError),
    /// A number is not a value of an element type.
    #[error("{number} is not a value of type {element_type}")]
    Number {
        /// The number.
        number: super::Number,
        /// The type.
        element_type: ElementType,
    },
    /// The value asked about was not made, for an error noted before.
    #[error("the value was not made: an earlier operation failed")]
    NoValue,
}

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}:{}: {fault}", location.file(), location.line(), location.column())]
pub struct BuildError {
    /// Where the method was called.
    pub location: &'static Location<'static>,
    /// What is wrong.
    pub fault: Fault,
}

/// All calls that were refused, in order; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    #[track_caller]
    pub(super) fn new(mut errors: Vec<BuildError>) -> Self {
        if errors.is_empty() {
            errors.push(BuildError { location: Location::caller(), fault: Fault::NoValue });
        }
        BuildErrors(errors)
    }

    /// The errors.
    pub fn iter(&self) -> impl Iterator<Item = &BuildError> {
        self.0.iter()
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}
