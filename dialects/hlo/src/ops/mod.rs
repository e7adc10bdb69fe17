//! The operations: one definition each, with its attributes, nested computations, shape rule and class.
//!
//! [`definition`] is the only place that maps an [`OpKind`] to its definition. A definition's `infer_shape`
//! checks the operation's constraints (labelled C1, C2 …) and returns the result shape; [`verify`] compares
//! that with the declared shape. Reader, MLIR verifier and builder all come through here.

use crate::attributes::{AttributeSpec, Attributes};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, ProgramShape, Shape};

/// What a definition's rules look at: an operation that may not exist yet.
#[derive(Clone, Copy, Debug)]
pub struct OpView<'a> {
    /// Operation.
    pub kind: OpKind,
    /// Shapes of the operands.
    pub operands: &'a [&'a Shape],
    /// Attributes.
    pub attributes: &'a Attributes,
    /// Signatures of the nested computations (a call: of its callee), in the definition's order.
    pub computations: &'a [ProgramShape],
    /// Declared result shape. Operations whose shape is part of their definition (`iota`, `reshape`, `convert` …) need it.
    pub result: Option<&'a Shape>,
}

/// A broken rule of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{kind}{}]", label.map(|label| format!(" ({label})")).unwrap_or_default())]
pub struct OpError {
    /// The operation.
    pub kind: OpKind,
    /// Label of the constraint, e.g. `C1`.
    pub label: Option<&'static str>,
    /// The rule, the value expected and the value found.
    pub message: String,
    /// Attribute at fault, if one is: readers point at it.
    pub attribute: Option<&'static str>,
    /// Operand at fault, if one is.
    pub operand: Option<usize>,
}

/// How many operands an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly so many.
    Exactly(usize),
    /// At least so many.
    AtLeast(usize),
    /// Between the two, inclusive.
    Between(usize, usize),
}

/// How an operation is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// Each output element depends on the operands' elements at the same index.
    Elementwise,
    /// Each output element is one operand element (or a padding value) at a computed index.
    Indexed,
    /// Reductions and windows.
    Reduction,
    /// Dot and convolution.
    Contraction,
    /// Control flow and calls.
    Control,
    /// Tuples, parameters, constants, tokens, barriers: no code of their own.
    Structural,
    /// Sorting, factorisations, FFT, custom calls: a runtime call.
    Library,
    /// Random numbers.
    Random,
    /// Collectives and channels.
    Collective,
}

/// Everything about one operation that does not depend on MLIR.
#[derive(Debug)]
pub struct OpDefinition {
    /// Operation.
    pub kind: OpKind,
    /// Operand count.
    pub arity: Arity,
    /// Attributes in the order of XLA's text.
    pub attributes: &'static [AttributeSpec],
    /// Text keys of the nested computations in order (`condition`, `body`); a trailing `*` on the last marks a
    /// list (`branch_computations*`), a trailing `?` an optional one.
    pub computations: &'static [&'static str],
    /// Checks the constraints and returns the result shape.
    pub infer_shape: fn(&OpView<'_>) -> Result<Shape, OpError>,
    /// How it is lowered.
    pub class: OpClass,
    /// Whether it has an effect besides its result, so that it must not be removed or merged.
    pub has_side_effect: bool,
}
