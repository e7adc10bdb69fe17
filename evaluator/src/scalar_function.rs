//! The computations of reduce, map, sort, scatter …: functions of scalars, called once per element.
//!
//! A computation made of scalar elementwise operations is compiled once to a flat list of steps; any other one
//! is interpreted, instruction by instruction, for each call.

use super::compare::{Comparison, clamp_scalar};
use super::convert::{convert_scalar, reduce_precision_scalar};
use super::data::build;
use super::element_loops::{BinaryFunction, UnaryFunction};
use super::value::EvalValue;
use super::{EvalFailure, Evaluator, binary, unary};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId, Module};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::reduce_precision::ReducePrecisionAttributes;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::{ArrayShape, Shape};

/// Calls are inlined into a program up to this many steps.
const STEP_LIMIT: usize = 4096;

/// A computation of scalars.
pub(super) struct ScalarFunction<'a> {
    computation: &'a Computation,
    program: Option<Program>,
}

impl<'a> ScalarFunction<'a> {
    pub(super) fn new(module: Option<&Module>, computation: &'a Computation) -> Self {
        ScalarFunction { computation, program: Program::compile(module, computation) }
    }

    /// The operation, if the computation is one commutative operation on its two parameters.
    pub(super) fn single_operation(&self) -> Option<OpKind> {
        let root = self.computation.root();
        let is_commutative = matches!(
            root.kind,
            OpKind::Add | OpKind::Multiply | OpKind::Maximum | OpKind::Minimum | OpKind::And | OpKind::Or | OpKind::Xor
        );
        let operands: Vec<Option<usize>> =
            root.operands.iter().map(|&id| self.computation.get(id).parameter_number()).collect();
        let of_both = operands == [Some(0), Some(1)] || operands == [Some(1), Some(0)];
        (is_commutative && of_both && self.computation.parameters.len() == 2).then_some(root.kind)
    }

    /// Calls the function; `results` is overwritten with the root's value, or the values of a root tuple.
    pub(super) fn call(
        &mut self,
        evaluator: &mut Evaluator<'_, '_, '_>,
        arguments: &[Scalar],
        results: &mut Vec<Scalar>,
    ) -> Result<(), EvalFailure> {
        if let Some(program) = &mut self.program {
            program.run(arguments, results);
            return Ok(());
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (&parameter, &argument) in self.computation.parameters.iter().zip(arguments) {
            let Shape::Array(shape) = &self.computation.get(parameter).shape else {
                return Err(EvalFailure::malformed("a parameter is not a scalar"));
            };
            values.push(to_value(argument, shape.element_type)?);
        }
        let result = evaluator.run(self.computation, values)?;
        results.clear();
        match &result {
            EvalValue::Tuple(elements) => {
                for element in elements {
                    results.push(from_value(element)?);
                }
            }
            single => results.push(from_value(single)?),
        }
        Ok(())
    }

    /// Calls a function whose result is one `pred`.
    pub(super) fn holds(
        &mut self,
        evaluator: &mut Evaluator<'_, '_, '_>,
        arguments: &[Scalar],
        results: &mut Vec<Scalar>,
    ) -> Result<bool, EvalFailure> {
        self.call(evaluator, arguments, results)?;
        Ok(results.first().is_some_and(|result| result.is_true()))
    }
}

fn to_value(scalar: Scalar, element_type: ElementType) -> Result<EvalValue, EvalFailure> {
    let array = build::<u8>(&ArrayShape::new(element_type, []), |bytes| {
        store(element_type, bytes, 0, scalar);
        Ok(())
    })?;
    Ok(EvalValue::array(array))
}

fn from_value(value: &EvalValue) -> Result<Scalar, EvalFailure> {
    match value {
        EvalValue::Array(array) if array.literal.shape().element_count() == 1 => {
            Ok(load(array.literal.element_type(), array.literal.bytes(), 0))
        }
        _ => Err(EvalFailure::malformed("the computation's result is not a scalar")),
    }
}

/// One step; operands are numbers of earlier steps.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Argument(usize),
    Constant(Scalar),
    Same(usize),
    Unary(UnaryFunction, u32, usize),
    Binary(BinaryFunction, u32, usize, usize),
    Compare(Comparison, usize, usize),
    Select(usize, usize, usize),
    Clamp(usize, usize, usize),
    Convert(usize),
    ReducePrecision(usize, i64, i64),
    /// Reinterprets the bits of an element of a type of the same width.
    Bits(ElementType, usize),
}

/// A flat list of scalar steps.
#[derive(Clone, Debug)]
struct Program {
    steps: Vec<(Operation, ElementType)>,
    registers: Vec<Scalar>,
    results: Vec<usize>,
}

impl Program {
    fn compile(module: Option<&Module>, computation: &Computation) -> Option<Program> {
        let mut program = Program { steps: Vec::new(), registers: Vec::new(), results: Vec::new() };
        let mut arguments = Vec::new();
        for (number, &parameter) in computation.parameters.iter().enumerate() {
            let element_type = scalar_type(&computation.get(parameter).shape)?;
            arguments.push(program.push(Operation::Argument(number), element_type));
        }
        program.results = program.inline(module, computation, &arguments, 0)?;
        program.registers = vec![Scalar::Predicate(false); program.steps.len()];
        Some(program)
    }

    fn push(&mut self, operation: Operation, element_type: ElementType) -> usize {
        self.steps.push((operation, element_type));
        self.steps.len() - 1
    }

    /// Appends the steps of a computation applied to earlier steps; returns the steps of its results.
    fn inline(
        &mut self,
        module: Option<&Module>,
        computation: &Computation,
        arguments: &[usize],
        depth: usize,
    ) -> Option<Vec<usize>> {
        if depth > 16 {
            return None;
        }
        let mut step_of: Vec<usize> = Vec::with_capacity(computation.instructions.len());
        for (id, instruction) in computation.iter() {
            if self.steps.len() > STEP_LIMIT {
                return None;
            }
            if instruction.kind == OpKind::Tuple && id == computation.root {
                return instruction.operands.iter().map(|operand| step_of.get(operand.index()).copied()).collect();
            }
            let step = match instruction.kind {
                OpKind::Parameter => *arguments.get(instruction.parameter_number()?)?,
                OpKind::Call => {
                    let callee = module?.functions.get(instruction.callee?.index())?;
                    let operands = instruction.operands.iter().map(|operand| step_of.get(operand.index()).copied());
                    let operands = operands.collect::<Option<Vec<usize>>>()?;
                    match self.inline(module, callee, &operands, depth + 1)?[..] {
                        [single] => single,
                        _ => return None,
                    }
                }
                _ => {
                    let element_type = scalar_type(&instruction.shape)?;
                    let operation = operation(computation, instruction, &step_of)?;
                    self.push(operation, element_type)
                }
            };
            step_of.push(step);
        }
        Some(vec![*step_of.get(computation.root.index())?])
    }

    fn run(&mut self, arguments: &[Scalar], results: &mut Vec<Scalar>) {
        let registers = &mut self.registers;
        for (position, &(operation, element_type)) in self.steps.iter().enumerate() {
            registers[position] = match operation {
                Operation::Argument(number) => arguments[number],
                Operation::Constant(value) => value,
                Operation::Same(a) => registers[a],
                Operation::Unary(f, width, a) => f.apply(registers[a], width).rounded(element_type),
                Operation::Binary(f, width, a, b) => f.apply(registers[a], registers[b], width).rounded(element_type),
                Operation::Compare(comparison, a, b) => {
                    Scalar::Predicate(comparison.compare(registers[a], registers[b]))
                }
                Operation::Select(p, a, b) => registers[if registers[p].is_true() { a } else { b }],
                Operation::Clamp(low, a, high) => clamp_scalar(registers[low], registers[a], registers[high]),
                Operation::Convert(a) => convert_scalar(registers[a], element_type),
                Operation::ReducePrecision(a, exponent, mantissa) => {
                    let value = registers[a].to_float();
                    Scalar::Float(reduce_precision_scalar(element_type, value, exponent, mantissa))
                        .rounded(element_type)
                }
                Operation::Bits(from, a) => {
                    let mut bytes = [0u8; 16];
                    store(from, &mut bytes, 0, registers[a]);
                    load(element_type, &bytes, 0)
                }
            };
        }
        results.clear();
        results.extend(self.results.iter().map(|&step| registers[step]));
    }
}

fn scalar_type(shape: &Shape) -> Option<ElementType> {
    match shape {
        Shape::Array(array) if array.rank() == 0 => Some(array.element_type),
        _ => None,
    }
}

/// The step of an instruction; `None` if it is not an elementwise operation on scalars.
fn operation(computation: &Computation, instruction: &Instruction, step_of: &[usize]) -> Option<Operation> {
    let step = |position: usize| -> Option<usize> { step_of.get(instruction.operands.get(position)?.index()).copied() };
    let operand_type = |position: usize| -> Option<ElementType> {
        let id: InstructionId = *instruction.operands.get(position)?;
        scalar_type(&computation.get(id).shape)
    };
    Some(match instruction.kind {
        OpKind::Constant => match instruction.literal()? {
            Literal::Array(array) => Operation::Constant(load(array.element_type(), array.bytes(), 0)),
            Literal::Tuple(_) | Literal::Token | Literal::Elided(_) => return None,
        },
        OpKind::Copy | OpKind::Reshape | OpKind::Broadcast | OpKind::Bitcast
            if operand_type(0)? == scalar_type(&instruction.shape)? =>
        {
            Operation::Same(step(0)?)
        }
        OpKind::Compare => Operation::Compare(Comparison::of(instruction.attributes().ok()?), step(0)?, step(1)?),
        OpKind::Select => Operation::Select(step(0)?, step(1)?, step(2)?),
        OpKind::Clamp => Operation::Clamp(step(0)?, step(1)?, step(2)?),
        OpKind::Convert => Operation::Convert(step(0)?),
        OpKind::BitcastConvert => {
            let (from, to) = (operand_type(0)?, scalar_type(&instruction.shape)?);
            if from.bit_width() != to.bit_width() {
                return None;
            }
            Operation::Bits(from, step(0)?)
        }
        OpKind::ReducePrecision => {
            let ReducePrecisionAttributes { exponent_bits, mantissa_bits } = instruction.attributes().ok()?;
            Operation::ReducePrecision(step(0)?, exponent_bits, mantissa_bits)
        }
        kind => {
            let element_type = operand_type(0)?;
            let width = element_type.bit_width();
            match instruction.operands.len() {
                1 => Operation::Unary(unary::function(kind, element_type)?, width, step(0)?),
                2 => Operation::Binary(binary::function(kind, element_type)?, width, step(0)?, step(1)?),
                _ => return None,
            }
        }
    })
}
