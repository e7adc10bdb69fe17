//! The syntax tree of a module: names resolved, values still text.
//!
//! Everything borrows from the text that was read; [`crate::text::source::SourceLines::span_of`] tells where a slice stands.
//! Invariants: an operand stands before its user in the same computation; called computations exist and form no
//! cycle; parameters are numbered 0..n; each computation has a root, and exactly one is the entry.

use std::rc::Rc;

use crate::shape::Shape;

/// A module.
#[derive(Debug)]
pub struct ModuleNode<'t> {
    /// Name after `HloModule`; empty when the text has no such line.
    pub name: &'t str,
    /// Attributes after the name.
    pub attributes: Vec<Attribute<'t>>,
    /// Source tables, in the order of the text.
    pub tables: Vec<Table<'t>>,
    /// Computations, in the order in which their texts end; a computation written inside an instruction is one too.
    pub computations: Vec<ComputationNode<'t>>,
    /// Position of the entry computation.
    pub entry: usize,
}

/// `key=value`.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'t> {
    /// Name.
    pub key: &'t str,
    /// Text of the value, brackets and quotes included.
    pub value: &'t str,
}

/// Which source table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// `FileNames`.
    FileNames,
    /// `FunctionNames`.
    FunctionNames,
    /// `FileLocations`.
    FileLocations,
    /// `StackFrames`.
    StackFrames,
}

/// A source table: rows of a number and a string or a list of fields.
#[derive(Debug)]
pub struct Table<'t> {
    /// Which one.
    pub kind: TableKind,
    /// Number of each row, and the text of its value.
    pub rows: Vec<(&'t str, &'t str)>,
}

/// A computation.
#[derive(Debug)]
pub struct ComputationNode<'t> {
    /// Name without `%`; empty for one written inside an instruction.
    pub name: &'t str,
    /// Instructions, operands before users.
    pub instructions: Vec<InstructionNode<'t>>,
    /// Positions of the parameters, by number.
    pub parameters: Vec<u32>,
    /// Position of the root.
    pub root: u32,
    /// Attributes after the closing brace.
    pub attributes: Vec<Attribute<'t>>,
}

/// An instruction.
#[derive(Debug)]
pub struct InstructionNode<'t> {
    /// Name without `%`; empty for one written as an operand of another.
    pub name: &'t str,
    /// Shape of the result, if the text has it; one for all instructions that write it the same way.
    pub shape: Option<Rc<Shape>>,
    /// Opcode.
    pub opcode: &'t str,
    /// Operands.
    pub operands: Box<[OperandNode<'t>]>,
    /// Text between the parentheses of a `constant` (its literal) or of a `parameter` (its number).
    pub payload: Option<&'t str>,
    /// Attributes but those that name computations.
    pub attributes: Vec<Attribute<'t>>,
    /// Computations that attributes name or hold, in the order of the text.
    pub called: Vec<Called<'t>>,
    /// Whether a fault of it is known: nothing more is said about it.
    pub faulty: bool,
}

/// An operand.
#[derive(Clone, Copy, Debug)]
pub struct OperandNode<'t> {
    /// Its name, or its opcode when it has none.
    pub text: &'t str,
    /// Position of its instruction in the computation.
    pub instruction: u32,
}

/// A computation that an attribute names or holds.
#[derive(Clone, Copy, Debug)]
pub struct Called<'t> {
    /// Name of the attribute.
    pub key: &'t str,
    /// Name of the computation, or the brace that opens its text.
    pub text: &'t str,
    /// Position in [`ModuleNode::computations`].
    pub computation: u32,
}

impl<'t> InstructionNode<'t> {
    /// An instruction without a name, operands and attributes.
    pub(crate) fn nameless(opcode: &'t str, shape: Option<Rc<Shape>>) -> Self {
        InstructionNode {
            name: "",
            shape,
            opcode,
            operands: Box::default(),
            payload: None,
            attributes: Vec::new(),
            called: Vec::new(),
            faulty: false,
        }
    }

    /// Adds an attribute. There are few of them, so no room is kept for more: the tree is most of the memory of reading.
    pub(crate) fn add_attribute(&mut self, attribute: Attribute<'t>) {
        self.attributes.reserve_exact(1);
        self.attributes.push(attribute);
    }

    /// The text that stands for the instruction in messages: its name or, lacking one, its opcode.
    pub fn anchor(&self) -> &'t str {
        if self.name.is_empty() { self.opcode } else { self.name }
    }
}
