//! `pad-dynamic-dimensions`: bounded dynamic dimensions become static ones of the bound's size.
//!
//! Every value keeps, beside its data at the bounds, a scalar for the size of each dimension that is smaller at run
//! time (`sizes`). Operations compute on the whole; where an element that does not exist would matter, it is
//! replaced by one that does not, or the elements that exist are moved to the front (`movement`, `combining`,
//! `contractions`, `library`). Tuples and the like hand values on with their sizes (`structure`). States of `while` and results of `conditional` carry their sizes as further elements (`control`). What lies
//! beyond the sizes of the program's result is zero; the sizes follow it as further results.
//!
//! Source: "SetDimensionSize", "GetDimensionSize" in the operation semantics.

mod combining;
mod contractions;
mod control;
mod library;
mod movement;
mod sizes;
mod structure;

use std::collections::HashSet;

use hlo::dialect;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::{PAD_TO_STATIC, SLICE_TO_DYNAMIC};
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::get_dimension_size::GetDimensionSizeAttributes;
use hlo::ops::set_dimension_size::SetDimensionSizeAttributes;
use hlo::ops::typed_attributes::OperationAttributes;
use hlo::ops::{self, OpClass};
use hlo::shape::{Shape, UNBOUNDED};
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, OperationRef, Type, TypeLike, ValueLike};
use mlir_ext::rewrite::Rewriter;

use self::sizes::{Arithmetic, ArraySizes, Sizes, bounded, dynamic_count, zeroed_value};
use crate::graph_builder::GraphBuilder;
use crate::registry::{PassError, PassStatistics};

/// Dynamic dimensions that cannot become static.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DynamicError {
    /// An operation that has no rule for operands with run-time sizes.
    #[error("`{kind}` of operands with run-time sizes is not supported (instruction `{instruction}`)")]
    NoRule {
        /// The operation.
        kind: OpKind,
        /// Name of the instruction.
        instruction: String,
    },
    /// A dimension `?`.
    #[error("a dynamic dimension without a bound is not supported (instruction `{instruction}` of {shape})")]
    Unbounded {
        /// Name of the instruction.
        instruction: String,
        /// Its shape.
        shape: Shape,
    },
}

/// Runs the pass on a module. Calls must have been inlined.
///
/// # Errors
/// [`PassError::Dynamic`] for operations without a rule.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    for function in rewriter.operations_directly_in(root) {
        let [block] = rewriter.blocks(function)[..] else { continue };
        if !is_affected(&rewriter, function) {
            continue;
        }
        let body = dialect::snapshot(block, |_, _| true)?.computation;
        let parameters: Vec<Sizes> =
            body.parameters.iter().map(|&parameter| Sizes::full(&body.get(parameter).shape)).collect();
        let mut resolver = Resolver::new(&body.name);
        let (value, sizes) = resolver.computation(&body, &Arguments::Parameters(&parameters))?;
        let mut value = zeroed_value(&mut resolver.builder, value, &sizes);
        if dialect::symbol_of(function) == Some(dialect::ENTRY_SYMBOL) && dynamic_count(&body.root().shape) > 0 {
            value = with_sizes(&mut resolver.builder, value, &sizes, &body.root().shape);
            rewriter.remove_attribute(root, "hlo.entry_layout");
        }
        statistics.add("operations", resolver.count);
        let body = resolver.builder.into_computation(body.name, value, body.annotations)?;
        rewriter.insert_before(dialect::function_like(rewriter.context(), function, &body)?, function)?;
        rewriter.erase(function)?;
    }
    Ok(())
}

/// Whether anything in a function has a dynamic dimension, or asks for its size.
fn is_affected<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, function: OperationRef<'c, 'r>) -> bool {
    let mut seen: HashSet<usize> = HashSet::new();
    let mut is_dynamic = |r#type: Type| {
        seen.insert(r#type.to_raw().ptr as usize)
            && dialect::shape_of(r#type).is_ok_and(|shape| dynamic_count(&shape) > 0)
    };
    rewriter.operations_in(function).into_iter().any(|operation| {
        let arguments = rewriter.blocks(operation).into_iter().flat_map(|block| {
            (0..block.argument_count()).filter_map(move |number| Some(block.argument(number).ok()?.r#type()))
        });
        let mut types = operation.results().map(|result| result.r#type()).chain(arguments);
        dialect::kind_of(operation).is_some_and(asks_for_sizes) || types.any(&mut is_dynamic)
    })
}

/// Whether an operation is about sizes at run time, whatever its operands are.
fn asks_for_sizes(kind: OpKind) -> bool {
    matches!(kind, OpKind::GetDimensionSize | OpKind::SetDimensionSize | OpKind::DynamicReshape)
}

/// Whether an instruction is about sizes at run time, as an operation or as a call.
fn is_about_sizes(instruction: &Instruction) -> bool {
    let target = || instruction.attributes::<CustomCallAttributes<'_>>().map(|call| call.custom_call_target);
    asks_for_sizes(instruction.kind)
        || instruction.kind == OpKind::CustomCall && matches!(target(), Ok(PAD_TO_STATIC | SLICE_TO_DYNAMIC))
}

/// A tuple of the result, or of its elements, and the sizes of the dimensions that it declares dynamic.
fn with_sizes(builder: &mut GraphBuilder, result: InstructionId, sizes: &Sizes, declared: &Shape) -> InstructionId {
    let mut elements: Vec<InstructionId> = match declared {
        Shape::Tuple(elements) => (0..elements.len()).map(|index| builder.element(result, index)).collect(),
        Shape::Array(_) | Shape::Token | Shape::Opaque => vec![result],
    };
    sizes.declared(builder, declared, &mut elements);
    builder.tuple(&elements)
}

/// Whether anything in a computation has a dynamic dimension, or asks for its size.
fn has_dynamic_dimensions(computation: &Computation) -> bool {
    computation.instructions.iter().any(|instruction| {
        is_about_sizes(instruction)
            || dynamic_count(&instruction.shape) > 0
            || instruction.computations.iter().any(has_dynamic_dimensions)
    })
}

/// Every dimension must have a bound.
fn check_bounds(instruction: &Instruction) -> Result<(), DynamicError> {
    let is_unbounded = |leaf: &&Shape| leaf.as_array().is_some_and(|array| array.dimensions.contains(&UNBOUNDED));
    match instruction.shape.leaves().iter().any(is_unbounded) {
        false => Ok(()),
        true => Err(DynamicError::Unbounded {
            instruction: instruction.name.clone(),
            shape: instruction.shape.without_layout(),
        }),
    }
}

/// A value of the computation that is being written.
type Value = (InstructionId, Sizes);

/// What a computation's parameters become.
enum Arguments<'a> {
    /// Parameters with these sizes.
    Parameters(&'a [Sizes]),
    /// These values.
    Values(&'a [Value]),
}

/// One computation being rewritten.
struct Resolver {
    builder: GraphBuilder,
    /// Operations with operands of run-time sizes.
    count: u64,
}

/// An operation whose operands have run-time sizes.
struct Site<'s> {
    builder: &'s mut GraphBuilder,
    instruction: &'s Instruction,
    operands: Vec<InstructionId>,
    sizes: Vec<Sizes>,
}

impl Resolver {
    fn new(name: &str) -> Self {
        Resolver { builder: GraphBuilder::new(name), count: 0 }
    }

    /// Appends a computation's instructions; returns its root.
    fn computation(&mut self, computation: &Computation, arguments: &Arguments<'_>) -> Result<Value, DynamicError> {
        let mut values: Vec<Value> = Vec::with_capacity(computation.instructions.len());
        for instruction in &computation.instructions {
            check_bounds(instruction)?;
            self.builder.stand_for(instruction);
            let operands: Vec<InstructionId> =
                instruction.operands.iter().map(|operand| values[operand.index()].0).collect();
            let sizes: Vec<Sizes> =
                instruction.operands.iter().map(|operand| values[operand.index()].1.clone()).collect();
            let value = match (instruction.parameter_number(), arguments) {
                (Some(number), Arguments::Values(given)) if number < given.len() => given[number].clone(),
                (Some(number), Arguments::Parameters(sizes)) if number < sizes.len() => {
                    (self.unchanged(instruction, &operands), sizes[number].clone())
                }
                _ => self.instruction(instruction, operands, sizes)?,
            };
            values.push(value);
        }
        Ok(values.swap_remove(computation.root.index()))
    }

    /// The instruction on its new operands, its result at the bounds.
    fn unchanged(&mut self, instruction: &Instruction, operands: &[InstructionId]) -> InstructionId {
        push_unchanged(&mut self.builder, instruction, operands)
    }

    fn instruction(
        &mut self,
        instruction: &Instruction,
        operands: Vec<InstructionId>,
        sizes: Vec<Sizes>,
    ) -> Result<Value, DynamicError> {
        match instruction.kind {
            OpKind::While | OpKind::Conditional => {
                if instruction.kind == OpKind::While {
                    let state = control::state(instruction, &sizes[0]);
                    if dynamic_count(&state) > 0 {
                        return control::while_loop(self, instruction, operands[0], &sizes[0], &state);
                    }
                } else {
                    let result = control::result(instruction);
                    if dynamic_count(&result) > 0 || sizes.iter().skip(1).any(Sizes::is_dynamic) {
                        return control::conditional(self, instruction, &operands, &sizes, &result);
                    }
                }
                let mut instruction = instruction.clone();
                self.make_computations_static(&mut instruction)?;
                let id = self.unchanged(&instruction, &operands);
                return Ok((id, Sizes::full(&instruction.shape)));
            }
            _ => {}
        }
        if let Some(value) = self.handed_on(instruction, &operands, &sizes)? {
            return Ok(value);
        }
        let mut with_static_computations;
        let mut instruction = instruction;
        if instruction.computations.iter().any(has_dynamic_dimensions) {
            with_static_computations = instruction.clone();
            self.make_computations_static(&mut with_static_computations)?;
            instruction = &with_static_computations;
        }
        if !is_about_sizes(instruction) && !sizes.iter().any(Sizes::is_dynamic) {
            return Ok((self.unchanged(instruction, &operands), Sizes::full(&instruction.shape)));
        }
        self.count += 1;
        let mut site = Site { builder: &mut self.builder, instruction, operands, sizes };
        site.resolve()
            .ok_or_else(|| DynamicError::NoRule { kind: instruction.kind, instruction: instruction.name.clone() })
    }

    /// Makes what is inside of an operation's computations static; their parameters and results are.
    fn make_computations_static(&mut self, instruction: &mut Instruction) -> Result<(), DynamicError> {
        for nested in instruction.computations.iter_mut().filter(|nested| has_dynamic_dimensions(nested)) {
            let parameters: Vec<Sizes> =
                nested.parameters.iter().map(|&parameter| Sizes::full(&nested.get(parameter).shape)).collect();
            let mut resolver = Resolver::new(&nested.name);
            let (root, _) = resolver.computation(nested, &Arguments::Parameters(&parameters))?;
            self.count += resolver.count;
            *nested = resolver.builder.finish(nested.name.clone(), root, nested.annotations.clone());
        }
        Ok(())
    }
}

fn push_unchanged(builder: &mut GraphBuilder, instruction: &Instruction, operands: &[InstructionId]) -> InstructionId {
    builder.push(Instruction { operands: operands.to_vec(), shape: bounded(&instruction.shape), ..instruction.clone() })
}

impl<'s> Site<'s> {
    /// The operation's value; `None` where it has no rule.
    fn resolve(&mut self) -> Option<Value> {
        let kind = self.instruction.kind;
        let array = |value: Option<(InstructionId, ArraySizes)>| value.map(|(id, sizes)| (id, Sizes::Array(sizes)));
        match kind {
            OpKind::GetDimensionSize => array(self.get_dimension_size()),
            OpKind::SetDimensionSize => array(self.set_dimension_size()),
            OpKind::DynamicReshape => array(self.dynamic_reshape()),
            OpKind::Reshape => array(self.reshape()),
            OpKind::Broadcast => array(self.broadcast()),
            OpKind::Transpose => array(self.transpose()),
            OpKind::Reverse => array(self.reverse()),
            OpKind::Slice => array(self.slice()),
            OpKind::DynamicSlice => array(self.dynamic_slice()),
            OpKind::DynamicUpdateSlice => array(self.dynamic_update_slice()),
            OpKind::Pad => array(self.pad()),
            OpKind::Concatenate => array(self.concatenate()),
            OpKind::Gather => array(self.gather()),
            OpKind::Scatter => self.scatter(),
            OpKind::Dot => array(self.dot()),
            OpKind::Convolution => array(self.convolution()),
            OpKind::RaggedDot => array(self.ragged_dot()),
            OpKind::SelectAndScatter => array(self.select_and_scatter()),
            OpKind::Cholesky => array(self.cholesky()),
            OpKind::TriangularSolve => array(self.triangular_solve()),
            OpKind::Fft => array(self.fft()),
            OpKind::BatchNormTraining | OpKind::BatchNormInference | OpKind::BatchNormGrad => self.batch_norm(),
            OpKind::TopK => self.top_k(),
            OpKind::CustomCall => self.custom_call(),
            OpKind::BitcastConvert => array(self.bitcast_convert()),
            OpKind::Reduce => self.reduce(),
            OpKind::ReduceWindow => self.reduce_window(),
            OpKind::Sort => self.sort(),
            _ if ops::definition(kind).class == OpClass::Elementwise => array(self.elementwise()),
            _ => None,
        }
    }

    fn unchanged(&mut self) -> InstructionId {
        push_unchanged(self.builder, self.instruction, &self.operands)
    }

    /// Sizes of an array operand.
    fn sizes_of(&self, operand: usize) -> ArraySizes {
        self.sizes.get(operand).map(|sizes| sizes.of_array().to_vec()).unwrap_or_default()
    }

    fn dimensions_of(&self, operand: usize) -> Vec<i64> {
        self.operands.get(operand).map(|&operand| self.builder.dimensions(operand)).unwrap_or_default()
    }

    /// The attributes, as those of the operation.
    fn attributes<T: OperationAttributes<'s>>(&self) -> Option<T> {
        self.instruction.attributes().ok()
    }

    /// The array result at its bounds.
    fn result_dimensions(&self) -> Vec<i64> {
        match &self.instruction.shape {
            Shape::Array(array) => array.dimensions.clone(),
            Shape::Tuple(elements) => {
                elements.first().and_then(Shape::as_array).map(|array| array.dimensions.clone()).unwrap_or_default()
            }
            Shape::Token | Shape::Opaque => Vec::new(),
        }
    }

    /// Elements at the same index: the sizes that any operand has. Operands with run-time sizes must agree.
    fn elementwise(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let dimensions = self.instruction.shape.as_array()?.dimensions.clone();
        let mut sizes: ArraySizes = vec![None; dimensions.len()];
        for operand in 0..self.operands.len() {
            let own = self.sizes_of(operand);
            if own.iter().all(Option::is_none) {
                continue;
            }
            let is_first = sizes.iter().all(Option::is_none);
            for ((size, own), &bound) in sizes.iter_mut().zip(own).zip(&dimensions) {
                if !is_first && *size != own {
                    let mut arithmetic = Arithmetic(self.builder);
                    let (a, b) = (arithmetic.size(*size, bound), arithmetic.size(own, bound));
                    arithmetic.require(a, ComparisonDirection::Eq, b, "the operands' run-time sizes differ");
                }
                *size = size.or(own);
            }
        }
        Some((self.unchanged(), sizes))
    }

    fn bitcast_convert(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let mut sizes = self.sizes_of(0);
        sizes.resize(self.instruction.shape.as_array()?.rank(), None);
        Some((self.unchanged(), sizes))
    }

    fn get_dimension_size(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let dimension = self.attributes::<GetDimensionSizeAttributes>()?.dimensions.index();
        let bound = *self.dimensions_of(0).get(dimension)?;
        let size = *self.sizes_of(0).get(dimension)?;
        Some((Arithmetic(self.builder).size(size, bound), Vec::new()))
    }

    /// The data stays; a size beyond the bound is the bound.
    fn set_dimension_size(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let dimension = self.attributes::<SetDimensionSizeAttributes>()?.dimensions.index();
        let bound = *self.dimensions_of(0).get(dimension)?;
        let mut sizes = self.sizes_of(0);
        let is_dynamic = self.instruction.shape.as_array()?.is_dynamic_dimension(dimension);
        let mut arithmetic = Arithmetic(self.builder);
        let size = arithmetic.at_least(self.operands[1], 0);
        let size = arithmetic.at_most(size, bound);
        if !is_dynamic {
            let bound = arithmetic.constant(bound);
            arithmetic.require(size, ComparisonDirection::Eq, bound, "a run-time size does not fit the declared one");
        }
        *sizes.get_mut(dimension)? = is_dynamic.then_some(size);
        Some((self.operands[0], sizes))
    }
}
