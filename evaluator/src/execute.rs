//! Which function evaluates which operation.

use super::compare::{self, Comparison};
use super::scalar_function::ScalarFunction;
use super::value::Value;
use super::{
    Evaluator, Failure, batch_norm, binary, control, convert, convolution, dot, dynamic_shape, fft, indexed,
    linear_algebra, movement, ragged, random, reduce, scatter, sort, unary, window,
};
use hlo::graph::{Computation, Instruction};
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use hlo::shape::{ArrayShape, Shape};

/// Bytes of the widest element type.
const WIDEST: usize = 16;

impl Evaluator<'_, '_, '_> {
    /// Executes one instruction on its operands' values.
    pub(super) fn execute(&mut self, instruction: &Instruction, operands: Vec<Value>) -> Result<Value, Failure> {
        self.check_memory(instruction, &operands)?;
        match instruction.kind {
            OpKind::Parameter => one(operands)?.with_shape(&instruction.shape),
            OpKind::Constant => match instruction.literal() {
                Some(literal) => Value::from_literal(literal)?.with_shape(&instruction.shape),
                None => Err(Failure::malformed("the constant has no value")),
            },
            OpKind::Tuple => Ok(Value::Tuple(operands)),
            OpKind::GetTupleElement => control::get_tuple_element(instruction, one(operands)?),
            OpKind::AddDependency | OpKind::Domain => first(operands),
            OpKind::OptimizationBarrier => one(operands),
            OpKind::Copy if matches!(operands[..], [Value::Tuple(_)]) => one(operands)?.with_shape(&instruction.shape),
            OpKind::AfterAll => Ok(Value::Token),
            OpKind::Call => {
                let callee = instruction.callee.and_then(|callee| self.module?.functions.get(callee.index()));
                let callee = callee.ok_or_else(|| Failure::malformed("the called function does not exist"))?;
                Ok(self.run(callee, operands)?)
            }
            OpKind::Fusion => Ok(self.run(nested(instruction, 0)?, operands)?),
            OpKind::While => self.while_loop(instruction, one(operands)?),
            OpKind::Conditional => self.conditional(instruction, operands),
            OpKind::AsyncStart => self.async_start(instruction, operands),
            OpKind::AsyncUpdate => one(operands),
            OpKind::AsyncDone | OpKind::AllGatherDone | OpKind::CollectivePermuteDone => {
                control::element(one(operands)?, 1)
            }
            OpKind::CopyStart => control::copy_start(instruction, one(operands)?),
            OpKind::CopyDone => control::element(one(operands)?, 0),
            OpKind::AllReduceDone => one(operands),
            OpKind::Infeed => self.infeed(instruction),
            OpKind::Outfeed => self.outfeed(operands),
            OpKind::Send => self.send(instruction, operands),
            OpKind::SendDone => Ok(Value::Token),
            OpKind::Recv => control::receive(instruction),
            OpKind::RecvDone => self.receive_done(instruction),
            OpKind::CustomCall => self.custom_call(instruction, &operands),
            OpKind::GetDimensionSize => dynamic_shape::get_dimension_size(instruction, &operands),
            OpKind::SetDimensionSize => dynamic_shape::set_dimension_size(instruction, operands),
            OpKind::DynamicReshape => dynamic_shape::dynamic_reshape(instruction, &operands),
            OpKind::Select if matches!(operands.get(1), Some(Value::Tuple(_))) => control::select_tuple(operands),
            _ if operands.iter().any(Value::is_dynamic) => self.execute_dynamic(instruction, &operands),
            _ => self.execute_static(instruction, operands, &instruction.shape),
        }
    }

    /// Refuses instructions beyond the memory limit before anything is allocated.
    fn check_memory(&self, instruction: &Instruction, operands: &[Value]) -> Result<(), Failure> {
        match definition(instruction.kind).class {
            // These hold operands and results in the widest type.
            OpClass::Contraction | OpClass::Library => {
                operands.iter().try_for_each(|operand| match operand {
                    Value::Array(array) => self.check_array(array.literal.shape(), WIDEST),
                    Value::Tuple(_) | Value::Token => Ok(()),
                })?;
                self.check_size(&instruction.shape, WIDEST)
            }
            _ => self.check_size(&instruction.shape, 1),
        }
    }

    /// Checks a value whose elements take at least `width` bytes while it is made.
    fn check_size(&self, shape: &Shape, width: usize) -> Result<(), Failure> {
        match shape {
            Shape::Array(array) => self.check_array(array, width),
            Shape::Tuple(elements) => elements.iter().try_for_each(|element| self.check_size(element, width)),
            Shape::Token | Shape::Opaque => Ok(()),
        }
    }

    fn check_array(&self, array: &ArrayShape, width: usize) -> Result<(), Failure> {
        let widening = width.div_ceil(array.element_type.byte_width()) as i64;
        match array.checked_byte_size().and_then(|size| size.checked_mul(widening)) {
            Some(size) if size as u64 <= self.environment.memory_limit => Ok(()),
            _ => Err(Failure::TooLarge(Box::new(array.clone()))),
        }
    }

    /// Operations on arrays all of whose elements exist; `result` is the shape to produce.
    pub(super) fn execute_static(
        &mut self,
        instruction: &Instruction,
        operands: Vec<Value>,
        result: &Shape,
    ) -> Result<Value, Failure> {
        let kind = instruction.kind;
        let attributes = &instruction.attributes;
        match kind {
            OpKind::AllGather
            | OpKind::AllGatherStart
            | OpKind::AllReduce
            | OpKind::AllReduceStart
            | OpKind::AllToAll
            | OpKind::CollectiveBroadcast
            | OpKind::CollectivePermute
            | OpKind::CollectivePermuteStart
            | OpKind::ReduceScatter
            | OpKind::RaggedAllToAll
            | OpKind::ReplicaId
            | OpKind::PartitionId => return self.collective(instruction, operands, result),
            _ => {}
        }
        if is_empty(result) {
            // Also where a dimension beside the empty one is too large to walk.
            return control::zeros(result);
        }
        let mut arrays = arrays(operands)?;
        if kind == OpKind::DynamicUpdateSlice {
            // The operand is moved out, so that data nobody else holds is updated in place.
            if arrays.len() < 2 {
                return Err(Failure::malformed("a dynamic-update-slice needs an operand and an update"));
            }
            let operand = arrays.remove(0);
            let rest: Vec<&ArrayLiteral> = arrays.iter().collect();
            let updated = indexed::dynamic_update_slice(operand, rest[0], &rest[1..])?;
            return Ok(Value::array(updated.with_shape(array_shape(result)?.clone())?));
        }
        let operands: Vec<&ArrayLiteral> = arrays.iter().collect();
        let operand = |number: usize| -> Result<&ArrayLiteral, Failure> {
            operands.get(number).copied().ok_or_else(|| Failure::malformed(format!("operand {number} is missing")))
        };
        let array = match kind {
            OpKind::Abs
            | OpKind::Acos
            | OpKind::Acosh
            | OpKind::Asin
            | OpKind::Asinh
            | OpKind::Atanh
            | OpKind::Cbrt
            | OpKind::Ceil
            | OpKind::Cosh
            | OpKind::Cosine
            | OpKind::CountLeadingZeros
            | OpKind::Erf
            | OpKind::Exponential
            | OpKind::ExponentialMinusOne
            | OpKind::Floor
            | OpKind::Imag
            | OpKind::IsFinite
            | OpKind::Log
            | OpKind::LogPlusOne
            | OpKind::Logistic
            | OpKind::Negate
            | OpKind::Not
            | OpKind::PopulationCount
            | OpKind::Real
            | OpKind::RoundNearestAfz
            | OpKind::RoundNearestEven
            | OpKind::Rsqrt
            | OpKind::Sign
            | OpKind::Sine
            | OpKind::Sinh
            | OpKind::Sqrt
            | OpKind::Tan
            | OpKind::Tanh => unary::evaluate(kind, operand(0)?, array_shape(result)?)?,
            OpKind::Add
            | OpKind::And
            | OpKind::Atan2
            | OpKind::Complex
            | OpKind::Divide
            | OpKind::Maximum
            | OpKind::Minimum
            | OpKind::Multiply
            | OpKind::Or
            | OpKind::Power
            | OpKind::Remainder
            | OpKind::ShiftLeft
            | OpKind::ShiftRightArithmetic
            | OpKind::ShiftRightLogical
            | OpKind::Subtract
            | OpKind::Xor => binary::evaluate(kind, operand(0)?, operand(1)?, array_shape(result)?)?,
            OpKind::Compare => Comparison::of(attributes)?.evaluate(operand(0)?, operand(1)?, array_shape(result)?)?,
            OpKind::Select => {
                let predicate = operand(0)?;
                if predicate.shape().rank() == 0 {
                    let chosen = if predicate.bytes()[0] != 0 { operand(1)? } else { operand(2)? };
                    chosen.with_shape(array_shape(result)?.clone())?
                } else {
                    compare::select(predicate, operand(1)?, operand(2)?, array_shape(result)?)?
                }
            }
            OpKind::Clamp => compare::clamp(operand(0)?, operand(1)?, operand(2)?, array_shape(result)?)?,
            OpKind::Convert => convert::convert(operand(0)?, array_shape(result)?)?,
            OpKind::ReducePrecision => convert::reduce_precision(
                operand(0)?,
                required(instruction, "exponent_bits")?,
                required(instruction, "mantissa_bits")?,
                array_shape(result)?,
            )?,
            OpKind::StochasticConvert => convert::stochastic_convert(operand(0)?, operand(1)?, array_shape(result)?)?,
            OpKind::BitcastConvert => movement::bitcast_convert(operand(0)?, array_shape(result)?)?,
            OpKind::Bitcast => movement::bitcast(operand(0)?, array_shape(result)?)?,
            OpKind::Copy | OpKind::Reshape => movement::reshape(operand(0)?, array_shape(result)?)?,
            OpKind::Broadcast => movement::broadcast(operand(0)?, attributes.ints("dimensions"), array_shape(result)?)?,
            OpKind::Transpose => movement::transpose(operand(0)?, attributes.ints("dimensions"), array_shape(result)?)?,
            OpKind::Reverse => movement::reverse(operand(0)?, attributes.ints("dimensions"), array_shape(result)?)?,
            OpKind::Slice => movement::slice(operand(0)?, attributes.slice(), array_shape(result)?)?,
            OpKind::Pad => movement::pad(operand(0)?, operand(1)?, attributes.padding(), array_shape(result)?)?,
            OpKind::Concatenate => {
                let along = attributes.ints("dimensions").first().copied().unwrap_or(0);
                movement::concatenate(&operands, along, array_shape(result)?)?
            }
            OpKind::Iota => movement::iota(required(instruction, "iota_dimension")?, array_shape(result)?)?,
            OpKind::DynamicSlice => {
                let starts = operands.get(1..).unwrap_or(&[]);
                indexed::dynamic_slice(operand(0)?, starts, array_shape(result)?)?
            }
            OpKind::Gather => indexed::gather(operand(0)?, operand(1)?, attributes, array_shape(result)?)?,
            OpKind::Dot => dot::dot(operand(0)?, operand(1)?, attributes, array_shape(result)?)?,
            OpKind::RaggedDot => {
                ragged::ragged_dot(operand(0)?, operand(1)?, operand(2)?, attributes, array_shape(result)?)?
            }
            OpKind::Convolution => {
                convolution::convolution(operand(0)?, operand(1)?, attributes, array_shape(result)?)?
            }
            OpKind::Cholesky => linear_algebra::cholesky(operand(0)?, attributes.flag("lower"), array_shape(result)?)?,
            OpKind::TriangularSolve => {
                linear_algebra::triangular_solve(operand(0)?, operand(1)?, attributes, array_shape(result)?)?
            }
            OpKind::Fft => fft::fft(operand(0)?, attributes, array_shape(result)?)?,
            OpKind::Map => self.map(nested(instruction, 0)?, &operands, array_shape(result)?)?,
            OpKind::SelectAndScatter => {
                let mut select = ScalarFunction::new(self.module, nested(instruction, 0)?);
                let mut scatter = ScalarFunction::new(self.module, nested(instruction, 1)?);
                window::select_and_scatter(
                    self,
                    [operand(0)?, operand(1)?, operand(2)?],
                    attributes.window(),
                    &mut select,
                    &mut scatter,
                    array_shape(result)?,
                )?
            }
            OpKind::BatchNormInference => batch_norm::inference(&operands, attributes, array_shape(result)?)?,
            OpKind::Rng => {
                let distribution = attributes.word("distribution").unwrap_or_default();
                random::rng(&mut self.environment.random, distribution, operand(0)?, operand(1)?, array_shape(result)?)?
            }
            OpKind::RngGetAndUpdateState => {
                let delta = attributes.int("delta").unwrap_or(0);
                random::get_and_update_state(&mut self.environment.random, delta, array_shape(result)?)?
            }
            OpKind::Reduce => {
                let (values, initial) = operands.split_at(operands.len() / 2);
                let mut function = ScalarFunction::new(self.module, nested(instruction, 0)?);
                let shapes = array_shapes(result)?;
                let dimensions = attributes.ints("dimensions");
                let results = reduce::reduce(self, values, initial, dimensions, &mut function, &shapes)?;
                return Ok(pack(results, result));
            }
            OpKind::ReduceWindow => {
                let (values, initial) = operands.split_at(operands.len() / 2);
                let mut function = ScalarFunction::new(self.module, nested(instruction, 0)?);
                let shapes = array_shapes(result)?;
                let results =
                    window::reduce_window(self, values, initial, attributes.window(), &mut function, &shapes)?;
                return Ok(pack(results, result));
            }
            OpKind::Scatter => {
                let mut function = ScalarFunction::new(self.module, nested(instruction, 0)?);
                let shapes = array_shapes(result)?;
                return Ok(pack(scatter::scatter(self, &operands, attributes, &mut function, &shapes)?, result));
            }
            OpKind::Sort => {
                let mut comparator = ScalarFunction::new(self.module, nested(instruction, 0)?);
                let along = attributes.ints("dimensions").first().copied();
                let shapes = array_shapes(result)?;
                return Ok(pack(sort::sort(self, &operands, along, &mut comparator, &shapes)?, result));
            }
            OpKind::TopK => {
                let largest = attributes.get("largest").is_none() || attributes.flag("largest");
                return Ok(pack(sort::top_k(operand(0)?, largest, &array_shapes(result)?)?, result));
            }
            OpKind::BatchNormTraining => {
                return Ok(pack(batch_norm::training(&operands, attributes, &array_shapes(result)?)?, result));
            }
            OpKind::BatchNormGrad => {
                return Ok(pack(batch_norm::gradient(&operands, attributes, &array_shapes(result)?)?, result));
            }
            OpKind::RngBitGenerator => {
                let algorithm = attributes.word("algorithm").unwrap_or("rng_default");
                return Ok(pack(random::bit_generator(algorithm, operand(0)?, &array_shapes(result)?)?, result));
            }
            // Executed in `execute`, or above.
            OpKind::AddDependency
            | OpKind::AfterAll
            | OpKind::AllGather
            | OpKind::AllGatherDone
            | OpKind::AllGatherStart
            | OpKind::AllReduce
            | OpKind::AllReduceDone
            | OpKind::AllReduceStart
            | OpKind::AllToAll
            | OpKind::AsyncDone
            | OpKind::AsyncStart
            | OpKind::AsyncUpdate
            | OpKind::Call
            | OpKind::CollectiveBroadcast
            | OpKind::CollectivePermute
            | OpKind::CollectivePermuteDone
            | OpKind::CollectivePermuteStart
            | OpKind::Conditional
            | OpKind::Constant
            | OpKind::CopyDone
            | OpKind::CopyStart
            | OpKind::CustomCall
            | OpKind::Domain
            | OpKind::DynamicReshape
            | OpKind::DynamicUpdateSlice
            | OpKind::Fusion
            | OpKind::GetDimensionSize
            | OpKind::GetTupleElement
            | OpKind::Infeed
            | OpKind::OptimizationBarrier
            | OpKind::Outfeed
            | OpKind::Parameter
            | OpKind::PartitionId
            | OpKind::RaggedAllToAll
            | OpKind::Recv
            | OpKind::RecvDone
            | OpKind::ReduceScatter
            | OpKind::ReplicaId
            | OpKind::Send
            | OpKind::SendDone
            | OpKind::SetDimensionSize
            | OpKind::Tuple
            | OpKind::While => return Err(Failure::malformed("the operands do not fit the operation")),
        };
        Ok(Value::array(array))
    }
}

/// Whether a result has no elements at all.
fn is_empty(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.element_count() == 0,
        Shape::Tuple(elements) => !elements.is_empty() && elements.iter().all(is_empty),
        Shape::Token | Shape::Opaque => false,
    }
}

/// The single operand.
pub(super) fn one(operands: Vec<Value>) -> Result<Value, Failure> {
    let count = operands.len();
    match operands.into_iter().next() {
        Some(operand) if count == 1 => Ok(operand),
        _ => Err(Failure::malformed(format!("expected one operand, got {count}"))),
    }
}

fn first(operands: Vec<Value>) -> Result<Value, Failure> {
    operands.into_iter().next().ok_or_else(|| Failure::malformed("an operand is missing"))
}

/// The arrays of static values.
pub(super) fn arrays(operands: Vec<Value>) -> Result<Vec<ArrayLiteral>, Failure> {
    operands
        .into_iter()
        .map(|operand| match operand {
            Value::Array(array) => Ok(array.literal),
            Value::Tuple(_) | Value::Token => Err(Failure::malformed("an operand is not an array")),
        })
        .collect()
}

/// A nested computation of an instruction.
pub(super) fn nested(instruction: &Instruction, number: usize) -> Result<&Computation, Failure> {
    instruction.computations.get(number).ok_or_else(|| Failure::malformed("a nested computation is missing"))
}

pub(super) fn array_shape(shape: &Shape) -> Result<&ArrayShape, Failure> {
    shape.as_array().ok_or_else(|| Failure::malformed("the result is not an array"))
}

/// Shapes of the results of an operation that has one, or a tuple of several.
pub(super) fn array_shapes(shape: &Shape) -> Result<Vec<&ArrayShape>, Failure> {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(array_shape).collect(),
        single => Ok(vec![array_shape(single)?]),
    }
}

/// One array, or the tuple of several.
fn pack(results: Vec<ArrayLiteral>, shape: &Shape) -> Value {
    let mut values: Vec<Value> = results.into_iter().map(Value::array).collect();
    match shape {
        Shape::Tuple(_) => Value::Tuple(values),
        _ if values.len() == 1 => values.remove(0),
        _ => Value::Tuple(values),
    }
}

fn required(instruction: &Instruction, name: &str) -> Result<i64, Failure> {
    instruction.attributes.int(name).ok_or_else(|| Failure::malformed(format!("`{name}` is missing")))
}
