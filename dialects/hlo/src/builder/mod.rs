//! Programs in Rust: [`HloBuilder`] has a method for every operation of the builder documents (XlaBuilder's and, where
//! they differ, the 2017 ComputationBuilder's) and makes the [`graph`](crate::graph).
//!
//! A value is an [`Op`]: a `Copy` handle with operators. Shapes are inferred when a method is called. What breaks a rule
//! is noted with the place of the call in Rust and gives a handle without a value, on which every further operation
//! is silent; [`HloBuilder::build`] returns all that was noted. Computations of operations (the body of a `while`, the
//! function of a `reduce`) are closures that get a builder of their own; a value of the enclosing computation is no
//! operand there and has to be passed in.
//!
//! ```
//! use hlo::builder::HloBuilder;
//! use hlo::element_type::ElementType::F32;
//! use hlo::shape::Shape;
//!
//! let b = HloBuilder::new("mean");
//! let x = b.parameter(0, Shape::array(F32, [4, 8]), "x");
//! let sum = b.reduce(x, b.constant(0f32), |_, total, value| total + value, &[1]);
//! let module = b.build(sum / 8.0)?;
//! assert_eq!(module.entry().root().shape, Shape::array(F32, [4]));
//! # Ok::<(), hlo::builder::BuildErrors>(())
//! ```
//!
//! The files group the methods by class of operation. Broadcasting is in [`broadcasting`], once.

pub mod broadcasting;
mod communication;
mod contraction;
mod control;
mod elementwise;
mod error;
mod indexed;
mod libraries;
mod movement;
mod number;
mod op;
mod operators;
mod random;
mod reduction;
mod values;
mod windows;

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

pub use contraction::Convolution;
pub use control::{Branch, CustomCallOptions};
pub use error::{BuildError, BuildErrors, Fault};
pub use indexed::{GatherDimensions, ScatterDimensions};
pub use libraries::TriangularSolve;
pub use number::{Number, Operand};
pub use op::Op;
pub use windows::Padding;

// What the methods take.
pub use crate::attributes::{ConvolutionDimensions, PaddingDimension, ReplicaGroups, WindowDimension};
pub use crate::ops::dot::DotDimensions;
pub use crate::ops::enumerations::{
    ComparisonDirection, ComparisonType, CustomCallApiVersion, FftType, RandomDistribution, RngAlgorithm, TransposeKind,
};

use crate::attributes::Attributes;
use crate::graph::{Computation, FunctionId, InputOutputAlias, Instruction, InstructionId, Module, SourceTables};
use crate::metadata::METADATA;
use crate::op_kind::OpKind;
use crate::ops::{self, OpView};
use crate::shape::{ArrayShape, ProgramShape, Shape};

/// Builds one computation, and with it the computations nested in it.
#[derive(Debug)]
pub struct HloBuilder {
    name: String,
    module: Rc<ModuleParts>,
    parts: RefCell<ComputationParts>,
}

/// What all computations of a module share.
#[derive(Debug, Default)]
struct ModuleParts {
    functions: RefCell<Vec<Computation>>,
    /// Aliases with the places of their calls.
    aliases: RefCell<Vec<(&'static Location<'static>, InputOutputAlias)>>,
    errors: RefCell<Vec<BuildError>>,
    computations: Cell<usize>,
}

/// A computation under construction.
#[derive(Clone, Debug, Default)]
struct ComputationParts {
    instructions: Vec<Instruction>,
    /// Parameter instructions by number.
    parameters: Vec<Option<InstructionId>>,
    /// The token that the next infeed or outfeed waits for.
    feed_token: Option<InstructionId>,
}

/// A function that `call` can call, several times if need be.
#[derive(Clone, Debug)]
pub struct Function {
    /// `None` if building it failed.
    id: Option<FunctionId>,
    program_shape: ProgramShape,
}

impl Function {
    /// Shapes of the parameters and of the result.
    pub fn program_shape(&self) -> &ProgramShape {
        &self.program_shape
    }
}

/// An instruction before its rules were checked.
pub(crate) struct Draft<'b> {
    kind: OpKind,
    operands: Vec<Op<'b>>,
    attributes: Attributes,
    /// `None` for a computation whose building failed.
    computations: Option<Vec<Computation>>,
    callee: Option<Function>,
    declared: Option<Shape>,
    annotations: Vec<(String, String)>,
}

impl<'b> Draft<'b> {
    pub(crate) fn new(kind: OpKind, operands: &[Op<'b>]) -> Self {
        Draft {
            kind,
            operands: operands.to_vec(),
            attributes: Attributes::new(),
            computations: Some(Vec::new()),
            callee: None,
            declared: None,
            annotations: Vec::new(),
        }
    }

    /// With the attributes of its operation.
    pub(crate) fn with_attributes(self, attributes: impl Into<Attributes>) -> Self {
        Draft { attributes: attributes.into(), ..self }
    }

    pub(crate) fn computation(mut self, computation: Option<Computation>) -> Self {
        match (&mut self.computations, computation) {
            (Some(computations), Some(computation)) => computations.push(computation),
            (computations, _) => *computations = None,
        }
        self
    }

    pub(crate) fn declared(mut self, shape: impl Into<Shape>) -> Self {
        self.declared = Some(shape.into());
        self
    }
}

impl HloBuilder {
    /// A builder of the entry computation of a module of this name.
    pub fn new(name: impl Into<String>) -> Self {
        HloBuilder { name: name.into(), module: Rc::default(), parts: RefCell::default() }
    }

    /// The module whose entry computation is this one, with the given result.
    ///
    /// The builder can go on: the module is what was built so far.
    ///
    /// # Errors
    /// Everything that was wrong, in the order of the calls.
    #[track_caller]
    pub fn build(&self, root: Op<'_>) -> Result<Module, BuildErrors> {
        let entry = self.finish(root);
        if let Some(entry) = &entry {
            self.check_aliases(entry);
        }
        let errors = self.module.errors.borrow();
        let Some(entry) = entry.filter(|_| errors.is_empty()) else {
            return Err(BuildErrors::new(errors.clone()));
        };
        let mut functions = self.module.functions.borrow().clone();
        let position = FunctionId(functions.len() as u32);
        functions.push(entry);
        Ok(Module {
            name: self.name.clone(),
            annotations: Vec::new(),
            entry_layout: None,
            input_output_aliases: self.module.aliases.borrow().iter().map(|(_, alias)| alias.clone()).collect(),
            sources: SourceTables::default(),
            functions,
            entry: position,
        })
    }

    /// What was wrong so far.
    pub fn errors(&self) -> Vec<BuildError> {
        self.module.errors.borrow().clone()
    }

    /// The result at `output_index` may take over the memory of a parameter (of the element of it at
    /// `parameter_index`), as XlaBuilder's `SetUpAlias` says. Both must have the same shape, which is checked when the
    /// module is built.
    #[track_caller]
    pub fn alias(&self, output_index: &[i64], parameter: i64, parameter_index: &[i64]) {
        let alias = InputOutputAlias {
            output_index: output_index.to_vec(),
            parameter,
            parameter_index: parameter_index.to_vec(),
            must_alias: false,
        };
        self.module.aliases.borrow_mut().push((Location::caller(), alias));
    }

    /// Notes the aliases that are none for this entry computation.
    fn check_aliases(&self, entry: &Computation) {
        let ProgramShape { parameters, result } = entry.program_shape();
        for (location, alias) in self.module.aliases.borrow().iter() {
            let parameter = usize::try_from(alias.parameter).ok().and_then(|number| parameters.get(number));
            let parameter = parameter.and_then(|shape| element_at(shape, &alias.parameter_index));
            let output = element_at(&result, &alias.output_index);
            let message = match (output, parameter) {
                (Some(output), Some(parameter)) if output == parameter => continue,
                (Some(output), Some(parameter)) => format!("takes equal shapes, got {output} and {parameter}"),
                (None, _) => format!("takes an element of the result {result}, got {:?}", alias.output_index),
                (_, None) => {
                    format!("takes a parameter or its element, got {} {:?}", alias.parameter, alias.parameter_index)
                }
            };
            let fault = Fault::Rule { method: "alias", message };
            self.module.errors.borrow_mut().push(BuildError { location, fault });
        }
    }

    /// A function for [`call`](Self::call), with parameters of the given shapes.
    #[track_caller]
    pub fn function(
        &self,
        name: &str,
        parameters: &[Shape],
        body: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>]) -> Op<'s>,
    ) -> Function {
        let computation = self.nested(name, parameters, body);
        let mut functions = self.module.functions.borrow_mut();
        let failed = ProgramShape { parameters: parameters.to_vec(), result: Shape::Token };
        let program_shape = computation.as_ref().map_or(failed, Computation::program_shape);
        let id = computation.map(|computation| {
            functions.push(computation);
            FunctionId(functions.len() as u32 - 1)
        });
        Function { id, program_shape }
    }

    /// A computation that an instruction holds; `None` if building it failed, which is noted.
    #[track_caller]
    pub(crate) fn nested(
        &self,
        name: &str,
        parameters: &[Shape],
        body: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>]) -> Op<'s>,
    ) -> Option<Computation> {
        let number = self.module.computations.get();
        self.module.computations.set(number + 1);
        let nested =
            HloBuilder { name: format!("{name}.{number}"), module: Rc::clone(&self.module), parts: RefCell::default() };
        let mut operands = Vec::with_capacity(parameters.len());
        for (number, shape) in parameters.iter().enumerate() {
            operands.push(nested.parameter(number as i64, shape.clone(), &format!("p{number}")));
        }
        let root = body(&nested, &operands);
        nested.finish(root)
    }

    /// This computation with the given root.
    #[track_caller]
    fn finish(&self, root: Op<'_>) -> Option<Computation> {
        let root = self.resolve(root, "the result")?;
        let parts = self.parts.borrow();
        let mut parameters = Vec::with_capacity(parts.parameters.len());
        for (number, parameter) in parts.parameters.iter().enumerate() {
            match parameter {
                Some(id) => parameters.push(*id),
                None => {
                    self.note(Fault::Parameter(format!("parameter {number} is missing, a later one is there")));
                    return None;
                }
            }
        }
        let ComputationParts { instructions, .. } = parts.clone();
        Some(Computation { name: self.name.clone(), instructions, parameters, root, annotations: Vec::new() })
    }

    /// Adds an instruction whose rules hold; otherwise notes what is wrong.
    #[track_caller]
    pub(crate) fn push<'b>(&'b self, mut draft: Draft<'b>) -> Op<'b> {
        let mut operands = Vec::with_capacity(draft.operands.len());
        for (number, &operand) in draft.operands.iter().enumerate() {
            match self.resolve(operand, format_args!("operand {number} of {}", draft.kind)) {
                Some(id) => operands.push(id),
                None => return self.nothing(),
            }
        }
        let Some(computations) = draft.computations.take() else { return self.nothing() };
        if draft.callee.as_ref().is_some_and(|callee| callee.id.is_none()) {
            return self.nothing();
        }
        match self.inferred_shape(&draft, &operands, &computations) {
            Ok(shape) => {
                let callee = draft.callee.and_then(|callee| callee.id);
                let mut parts = self.parts.borrow_mut();
                let id = InstructionId(parts.instructions.len() as u32);
                let mut annotations = draft.annotations;
                annotations.push((METADATA.to_string(), source_metadata(Location::caller())));
                parts.instructions.push(Instruction {
                    name: format!("{}.{}", draft.kind, id.0),
                    kind: draft.kind,
                    shape,
                    operands,
                    attributes: draft.attributes,
                    computations,
                    callee,
                    annotations,
                    position: None,
                });
                Op::new(self, Some(id))
            }
            Err(fault) => self.fail(fault),
        }
    }

    fn inferred_shape(
        &self,
        draft: &Draft<'_>,
        operands: &[InstructionId],
        computations: &[Computation],
    ) -> Result<Shape, Fault> {
        let mut signatures: Vec<ProgramShape> = computations.iter().map(Computation::program_shape).collect();
        signatures.extend(draft.callee.as_ref().map(|callee| callee.program_shape.clone()));
        let parts = self.parts.borrow();
        let shapes: Vec<&Shape> = operands.iter().map(|id| &parts.instructions[id.index()].shape).collect();
        let shape = ops::infer_shape(&OpView {
            kind: draft.kind,
            operands: &shapes,
            attributes: &draft.attributes,
            computations: &signatures,
            result: draft.declared.as_ref(),
        })?;
        match shape.leaves().iter().filter_map(|leaf| leaf.as_array()).find(|leaf| leaf.checked_byte_size().is_none()) {
            Some(leaf) => Err(Fault::Size(leaf.clone())),
            None => Ok(shape),
        }
    }

    /// The instruction of a value of this computation; `None` if it has none, which is noted unless it was before.
    #[track_caller]
    fn resolve(&self, op: Op<'_>, role: impl std::fmt::Display) -> Option<InstructionId> {
        let id = op.id()?;
        if op.is_of(self) {
            return Some(id);
        }
        self.note(Fault::Foreign { role: role.to_string(), computation: op.builder().name.clone() });
        None
    }

    /// Notes an error at the place of the call.
    #[track_caller]
    fn note(&self, fault: Fault) {
        self.module.errors.borrow_mut().push(BuildError { location: Location::caller(), fault });
    }

    /// Notes an error; there is no value.
    #[track_caller]
    pub(crate) fn fail<'b>(&'b self, fault: impl Into<Fault>) -> Op<'b> {
        self.note(fault.into());
        self.nothing()
    }

    /// A handle without a value; why is noted already.
    pub(crate) fn nothing<'b>(&'b self) -> Op<'b> {
        Op::new(self, None)
    }

    /// The shape of a value; `None` if it has none, which is noted unless it was before.
    #[track_caller]
    pub(crate) fn shape_of(&self, op: Op<'_>) -> Option<Shape> {
        let id = self.resolve(op, "an operand")?;
        Some(self.parts.borrow().instructions[id.index()].shape.clone())
    }

    /// The shape of an array operand of the method `method`; `None` if there is none, which is noted.
    #[track_caller]
    pub(crate) fn array_of(&self, method: &'static str, op: Op<'_>) -> Option<ArrayShape> {
        match self.shape_of(op)? {
            Shape::Array(array) => Some(array),
            other => {
                self.note(Fault::Rule { method, message: format!("takes an array, got {other}") });
                None
            }
        }
    }

    /// Notes that a rule of a method that is no single operation is broken.
    #[track_caller]
    pub(crate) fn fail_rule<'b>(&'b self, method: &'static str, message: String) -> Op<'b> {
        self.fail(Fault::Rule { method, message })
    }
}

/// The element of a nested tuple at an index.
fn element_at<'s>(shape: &'s Shape, index: &[i64]) -> Option<&'s Shape> {
    index.iter().try_fold(shape, |shape, &position| shape.as_tuple()?.get(usize::try_from(position).ok()?))
}

/// The place in Rust as HLO's `metadata`, so that later errors and profiles lead back to it.
fn source_metadata(location: &Location<'_>) -> String {
    let file = location.file().replace('\\', "/").replace('"', "'");
    format!("{{source_file=\"{file}\" source_line={}}}", location.line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_type::ElementType::{F32, Pred, S32};

    #[test]
    fn errors_are_collected_with_their_place_and_do_not_repeat() {
        let b = HloBuilder::new("errors");
        let x = b.parameter(0, Shape::array(F32, [2, 3]), "x");
        let y = b.parameter(1, Shape::array(F32, [3]), "y");
        let line = line!() + 1;
        let sum = x + y;
        let product = sum * 2.0;
        let turned = x.transpose(&[0, 0]);
        let errors = b.build(product + turned).expect_err("two rules are broken");
        let found: Vec<&BuildError> = errors.iter().collect();
        assert_eq!(found.len(), 2, "{errors}");
        assert_eq!(found[0].location.line(), line);
        assert_eq!(found[0].location.file(), file!());
        assert!(matches!(found[0].fault, Fault::Broadcast(_)));
        assert_eq!(found[1].location.line(), line + 2);
        assert!(matches!(&found[1].fault, Fault::Op(error) if error.label == Some("C2")), "{errors}");
        assert!(product.shape().is_err());
    }

    #[test]
    fn values_do_not_cross_computations() {
        let b = HloBuilder::new("outer");
        let x = b.parameter(0, Shape::scalar(S32), "x");
        let other = HloBuilder::new("other");
        let foreign = other.parameter(0, Shape::scalar(S32), "y");
        let errors = b.build(x + foreign).expect_err("the operand is foreign");
        assert!(errors.to_string().contains("`other`"), "{errors}");
    }

    #[test]
    fn numbers_must_be_values_of_the_type() {
        let b = HloBuilder::new("numbers");
        let x = b.parameter(0, Shape::scalar(S32), "x");
        let errors = b.build(x + 2.5).expect_err("2.5 is no s32");
        assert!(errors.to_string().contains("2.5 is not a value of type s32"), "{errors}");
        let b = HloBuilder::new("numbers");
        let x = b.parameter(0, Shape::array(crate::element_type::ElementType::U8, []), "x");
        assert!(b.build(x + 256).is_err());
        assert!(b.build(b.constant(1u8) + 255).is_err(), "the builder keeps its errors");
        let b = HloBuilder::new("numbers");
        let x = b.parameter(0, Shape::scalar(Pred), "x");
        assert!(b.build(x & 1).is_err());
    }

    #[test]
    fn parameters_are_numbered_without_gaps() {
        let b = HloBuilder::new("gap");
        let x = b.parameter(1, Shape::scalar(F32), "x");
        assert!(b.build(x).unwrap_err().to_string().contains("parameter 0 is missing"));
        let b = HloBuilder::new("twice");
        b.parameter(0, Shape::scalar(F32), "x");
        let again = b.parameter(0, Shape::scalar(F32), "y");
        assert!(b.build(again).unwrap_err().to_string().contains("parameter 0 is there already"));
    }

    #[test]
    fn aliases_join_equal_shapes() {
        let b = HloBuilder::new("alias");
        let x = b.parameter(0, Shape::array(F32, [2]), "x");
        b.alias(&[0], 0, &[]);
        let module = b.build(b.tuple(&[x * 2.0])).expect("a valid alias");
        assert_eq!(module.input_output_aliases.len(), 1);
        for wrong in [(&[1i64][..], 0), (&[][..], 0), (&[0][..], 1), (&[0][..], -1)] {
            let b = HloBuilder::new("alias");
            let x = b.parameter(0, Shape::array(F32, [2]), "x");
            b.alias(wrong.0, wrong.1, &[]);
            assert!(b.build(b.tuple(&[x])).unwrap_err().to_string().contains("alias takes"));
        }
    }
}
