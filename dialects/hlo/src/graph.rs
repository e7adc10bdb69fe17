//! A module in plain Rust: what the text reader produces, the dialect bridge builds MLIR from and reads
//! back, and the evaluator, the analyses and the lowering walk.
//!
//! Invariants (kept by whoever builds one; [`Module::check`] tests them): instructions stand after their
//! operands; parameters are numbered 0..n; every instruction has one result, which may be a tuple;
//! functions are called only by `call` and stand before their callers; all other computations are nested.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::repeat_n;

use crate::attributes::Attributes;
use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::ops::constant::ConstantAttributes;
use crate::ops::parameter::ParameterAttributes;
use crate::ops::typed_attributes::{OperationAttributes, typed};
use crate::ops::{self, OpView};
use crate::shape::{ProgramShape, Shape};

/// Position of an instruction in its computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u32);

impl InstructionId {
    /// The position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Position of a function in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// The position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Line and column (from 1) in the text a thing was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextPosition {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Name without `%`; unique in the module's text.
    pub name: String,
    /// Operation.
    pub kind: OpKind,
    /// Shape of the result.
    pub shape: Shape,
    /// Operands, all earlier in the same computation.
    pub operands: Vec<InstructionId>,
    /// Interpreted attributes; a parameter has `parameter_number`, a constant `value`.
    pub attributes: Attributes,
    /// Nested computations in the order of the definition's `computations` list (`while`: condition, body).
    pub computations: Vec<Computation>,
    /// Callee of a `call`.
    pub callee: Option<FunctionId>,
    /// Uninterpreted attributes as (key, raw text): metadata, sharding, backend_config ….
    pub annotations: Vec<(String, String)>,
    /// Where the instruction stands in its text, if it was read from one.
    pub position: Option<TextPosition>,
}

impl PartialEq for Instruction {
    /// Equality of meaning and annotations; positions in the text do not count.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.kind == other.kind
            && self.shape == other.shape
            && self.operands == other.operands
            && self.attributes == other.attributes
            && self.computations == other.computations
            && self.callee == other.callee
            && self.annotations == other.annotations
    }
}

impl Instruction {
    /// An instruction without attributes, computations, callee, annotations and position.
    pub fn new(
        name: impl Into<String>,
        kind: OpKind,
        shape: impl Into<Shape>,
        operands: impl Into<Vec<InstructionId>>,
    ) -> Self {
        Instruction {
            name: name.into(),
            kind,
            shape: shape.into(),
            operands: operands.into(),
            attributes: Attributes::new(),
            computations: Vec::new(),
            callee: None,
            annotations: Vec::new(),
            position: None,
        }
    }

    /// Parameter `number` of a computation.
    pub fn parameter(name: impl Into<String>, shape: impl Into<Shape>, number: usize) -> Self {
        Instruction::new(name, OpKind::Parameter, shape, [])
            .with_attributes(ParameterAttributes { parameter_number: number as i64 })
    }

    /// With these attributes of its operation: `.with_attributes(IotaAttributes { iota_dimension: 0 })`.
    pub fn with_attributes(self, attributes: impl Into<Attributes>) -> Self {
        Instruction { attributes: attributes.into(), ..self }
    }

    /// With these nested computations.
    pub fn with_computations(self, computations: Vec<Computation>) -> Self {
        Instruction { computations, ..self }
    }

    /// The attributes, as those of the operation: `let attributes: DotAttributes = dot.attributes()?`.
    ///
    /// # Errors
    /// For attributes that [`Module::check`] refuses, and where `T` has those of another operation.
    pub fn attributes<'a, T: OperationAttributes<'a>>(&'a self) -> Result<T, ops::OpError> {
        typed(self.kind, &self.attributes)
    }

    /// Raw text of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(name, _)| name == key).map(|(_, text)| text.as_str())
    }

    /// Number of a parameter instruction.
    pub fn parameter_number(&self) -> Option<usize> {
        if self.kind != OpKind::Parameter {
            return None;
        }
        let ParameterAttributes { parameter_number } = self.attributes().ok()?;
        usize::try_from(parameter_number).ok()
    }

    /// Value of a constant instruction.
    pub fn literal(&self) -> Option<&Literal> {
        if self.kind != OpKind::Constant {
            return None;
        }
        let ConstantAttributes { value } = self.attributes().ok()?;
        Some(value)
    }
}

/// A function of its parameters: instructions in an order where operands come first.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Name without `%`.
    pub name: String,
    /// Instructions, operands before users.
    pub instructions: Vec<Instruction>,
    /// Parameter instructions by number.
    pub parameters: Vec<InstructionId>,
    /// The instruction whose value is the result.
    pub root: InstructionId,
    /// Raw trailing attributes of the computation, e.g. `execution_thread="main"`.
    pub annotations: Vec<(String, String)>,
}

impl Computation {
    /// The instruction at a position.
    pub fn get(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id.index()]
    }

    /// The root instruction.
    pub fn root(&self) -> &Instruction {
        self.get(self.root)
    }

    /// Instructions with their positions, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (InstructionId, &Instruction)> {
        self.instructions
            .iter()
            .enumerate()
            .map(|(position, instruction)| (InstructionId(position as u32), instruction))
    }

    /// Shapes of the operands of an instruction.
    pub fn operand_shapes(&self, instruction: &Instruction) -> Vec<&Shape> {
        instruction.operands.iter().map(|&operand| &self.get(operand).shape).collect()
    }

    /// Parameter and result shapes.
    pub fn program_shape(&self) -> ProgramShape {
        ProgramShape {
            parameters: self.parameters.iter().map(|&parameter| self.get(parameter).shape.clone()).collect(),
            result: self.root().shape.clone(),
        }
    }

    /// The instructions whose values the computation gives: the elements of its root, if that is a `tuple`.
    pub fn roots(&self) -> Vec<InstructionId> {
        match self.root().kind {
            OpKind::Tuple => self.root().operands.clone(),
            _ => vec![self.root],
        }
    }

    /// Of each array of the roots, in order, the root: one of several results has several arrays.
    pub fn output_roots(&self) -> Vec<InstructionId> {
        let arrays = |root: InstructionId| repeat_n(root, self.get(root).shape.leaves().len());
        self.roots().into_iter().flat_map(arrays).collect()
    }

    /// A text that is equal for computations that compute the same: names and annotations left out.
    pub fn structure(&self) -> String {
        let mut text = String::new();
        for instruction in &self.instructions {
            let operands: Vec<u32> = instruction.operands.iter().map(|operand| operand.0).collect();
            // As text, long constants are shortened.
            if let Some(Literal::Array(literal)) = instruction.literal() {
                let mut hasher = DefaultHasher::new();
                literal.bytes().hash(&mut hasher);
                let _ = write!(text, "{:x} ", hasher.finish());
            }
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{} {} {operands:?} {:?}",
                instruction.kind,
                instruction.shape.without_layout(),
                instruction.attributes
            );
            for nested in &instruction.computations {
                let _ = write!(text, " {{{}}}", nested.structure());
            }
            text.push('\n');
        }
        let _ = write!(text, "root {}", self.root.0);
        text
    }

    /// How often each instruction is used as an operand, by position (the root's implicit use not counted).
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.instructions.len()];
        for operand in self.instructions.iter().flat_map(|instruction| &instruction.operands) {
            counts[operand.index()] += 1;
        }
        counts
    }
}

/// A parameter buffer that an output may or must take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputOutputAlias {
    /// Index into the result tuple.
    pub output_index: Vec<i64>,
    /// Parameter number.
    pub parameter: i64,
    /// Index into the parameter's tuple.
    pub parameter_index: Vec<i64>,
    /// `must-alias` rather than `may-alias`.
    pub must_alias: bool,
}

/// A row of the FileLocations table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileLocation {
    /// Row of FileNames, from 1; 0 for none.
    pub file_name: u32,
    /// Row of FunctionNames, from 1; 0 for none.
    pub function_name: u32,
    /// First line.
    pub line: u32,
    /// Last line.
    pub end_line: u32,
    /// First column.
    pub column: u32,
    /// Last column.
    pub end_column: u32,
}

/// A row of the StackFrames table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StackFrame {
    /// Row of FileLocations, from 1.
    pub file_location: u32,
    /// Row of StackFrames, from 1; 0 or its own row for none.
    pub parent: u32,
}

/// The four source tables of a dump, rows from 1 (element 0 is row 1).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SourceTables {
    /// FileNames.
    pub file_names: Vec<String>,
    /// FunctionNames.
    pub function_names: Vec<String>,
    /// FileLocations.
    pub file_locations: Vec<FileLocation>,
    /// StackFrames.
    pub stack_frames: Vec<StackFrame>,
    /// Whether the text had the tables, even empty ones.
    pub present: bool,
}

/// A whole program.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Name after `HloModule`.
    pub name: String,
    /// Header attributes that halo carries but does not interpret, as (key, raw text).
    pub annotations: Vec<(String, String)>,
    /// Parameter and result shapes with layouts (`entry_computation_layout`).
    pub entry_layout: Option<ProgramShape>,
    /// `input_output_alias`.
    pub input_output_aliases: Vec<InputOutputAlias>,
    /// Source tables.
    pub sources: SourceTables,
    /// Functions: callees before callers.
    pub functions: Vec<Computation>,
    /// The entry function.
    pub entry: FunctionId,
}

impl Module {
    /// The entry computation.
    pub fn entry(&self) -> &Computation {
        &self.functions[self.entry.index()]
    }

    /// A function.
    pub fn function(&self, id: FunctionId) -> &Computation {
        &self.functions[id.index()]
    }

    /// Verifies every instruction and the invariants of this file; returns the first error.
    pub fn check(&self) -> Result<(), GraphError> {
        if self.entry.index() >= self.functions.len() {
            return Err(GraphError::Structure("the entry function does not exist".into()));
        }
        for (position, function) in self.functions.iter().enumerate() {
            self.check_computation(function, position)?;
        }
        Ok(())
    }

    fn check_computation(&self, computation: &Computation, function: usize) -> Result<(), GraphError> {
        let count = computation.instructions.len();
        let structure = |text: String| Err(GraphError::Structure(text));
        if computation.root.index() >= count {
            return structure(format!("computation `{}` has no root", computation.name));
        }
        for (number, parameter) in computation.parameters.iter().enumerate() {
            let found = computation.instructions.get(parameter.index()).and_then(Instruction::parameter_number);
            if found != Some(number) {
                return structure(format!("computation `{}` has no parameter {number}", computation.name));
            }
        }
        for (id, instruction) in computation.iter() {
            if let Some(operand) = instruction.operands.iter().find(|operand| **operand >= id) {
                return structure(format!("operand {} of `{}` stands after it", operand.0, instruction.name));
            }
            let callee = match instruction.callee {
                Some(callee) if callee.index() >= function => {
                    return structure(format!("`{}` calls a function that does not stand before it", instruction.name));
                }
                Some(callee) => Some(self.function(callee).program_shape()),
                None => None,
            };
            for nested in &instruction.computations {
                self.check_computation(nested, function)?;
            }
            verify_instruction(computation, instruction, callee).map_err(|error| GraphError::Op {
                instruction: instruction.name.clone(),
                position: instruction.position,
                error,
            })?;
        }
        Ok(())
    }
}

/// Verifies one instruction against its definition; `callee` is the program shape of a call's function.
pub fn verify_instruction(
    computation: &Computation,
    instruction: &Instruction,
    callee: Option<ProgramShape>,
) -> Result<(), ops::OpError> {
    let operands = computation.operand_shapes(instruction);
    let mut computations: Vec<ProgramShape> = instruction.computations.iter().map(Computation::program_shape).collect();
    computations.extend(callee);
    ops::verify(&OpView {
        kind: instruction.kind,
        operands: &operands,
        attributes: &instruction.attributes,
        computations: &computations,
        result: Some(&instruction.shape),
    })
}

/// A module that breaks a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// A broken invariant of the graph.
    #[error("{0}")]
    Structure(String),
    /// An instruction that breaks a rule of its operation.
    #[error("`{instruction}`: {error}")]
    Op {
        /// Name of the instruction.
        instruction: String,
        /// Where it stands.
        position: Option<TextPosition>,
        /// The rule.
        error: ops::OpError,
    },
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
