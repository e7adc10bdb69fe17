//! Which function evaluates which operation.

use super::compare::{self, Comparison};
use super::scalar_function::ScalarFunction;
use super::value::EvalValue;
use super::{
    EvalFailure, Evaluator, batch_norm, binary, control, convert, convolution, dot, dynamic_shape, fft, indexed,
    linear_algebra, movement, ragged, random, reduce, scatter, sort, unary, window,
};
use hlo::graph::{Computation, Instruction};
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::cholesky::CholeskyAttributes;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_precision::ReducePrecisionAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::rng::RngAttributes;
use hlo::ops::rng_bit_generator::RngBitGeneratorAttributes;
use hlo::ops::rng_get_and_update_state::RngGetAndUpdateStateAttributes;
use hlo::ops::select_and_scatter::SelectAndScatterAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::ops::top_k::TopKAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::typed_attributes::OperationAttributes;
use hlo::ops::{OpClass, definition};
use hlo::shape::{ArrayShape, Shape};

/// Bytes of the widest element type.
const WIDEST: usize = 16;

/// How an operation is evaluated.
pub(super) enum Execution {
    /// On any values, by a function of its own.
    Values(fn(&mut Evaluator<'_, '_, '_>, &Instruction, Vec<EvalValue>) -> Result<EvalValue, EvalFailure>),
    /// With the other members of a group.
    Collective,
    /// On arrays all of whose elements exist; others are compacted before.
    Arrays(ArrayFunction),
}

/// A function of arrays.
#[derive(Clone, Copy)]
pub(super) enum ArrayFunction {
    /// With one result.
    One(fn(&mut Evaluator<'_, '_, '_>, &Call<'_>) -> Result<ArrayLiteral, EvalFailure>),
    /// With one result or, as a tuple, several.
    Several(fn(&mut Evaluator<'_, '_, '_>, &Call<'_>) -> Result<Vec<ArrayLiteral>, EvalFailure>),
    /// With one result, made in the memory of the first operand if nobody else holds that.
    InPlace(fn(ArrayLiteral, &Call<'_>) -> Result<ArrayLiteral, EvalFailure>),
}

/// What a function of arrays is called with.
pub(super) struct Call<'c> {
    instruction: &'c Instruction,
    /// All operands, or those after the first of a function in place.
    operands: &'c [&'c ArrayLiteral],
    /// The shape to produce.
    result: &'c Shape,
}

impl<'c> Call<'c> {
    fn operand(&self, number: usize) -> Result<&'c ArrayLiteral, EvalFailure> {
        self.operands.get(number).copied().ok_or_else(|| EvalFailure::malformed(format!("operand {number} is missing")))
    }

    fn attributes<T: OperationAttributes<'c>>(&self) -> Result<T, EvalFailure> {
        Ok(self.instruction.attributes()?)
    }

    fn shape(&self) -> Result<&'c ArrayShape, EvalFailure> {
        array_shape(self.result)
    }

    fn shapes(&self) -> Result<Vec<&'c ArrayShape>, EvalFailure> {
        array_shapes(self.result)
    }

    fn nested(&self, number: usize) -> Result<&'c Computation, EvalFailure> {
        nested(self.instruction, number)
    }
}

impl Evaluator<'_, '_, '_> {
    /// Executes one instruction on its operands' values.
    pub(super) fn execute(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<EvalValue, EvalFailure> {
        self.check_memory(instruction, &operands)?;
        match (instruction.kind, &operands[..]) {
            (OpKind::Copy, [EvalValue::Tuple(_)]) => return one(operands)?.with_shape(&instruction.shape),
            (OpKind::Select, [_, EvalValue::Tuple(_), ..]) => return control::select_tuple(operands),
            _ => {}
        }
        match execution(instruction.kind) {
            Execution::Values(function) => function(self, instruction, operands),
            Execution::Collective => self.collective(instruction, operands, &instruction.shape),
            Execution::Arrays(function) if operands.iter().any(EvalValue::is_dynamic) => {
                self.execute_dynamic(function, instruction, &operands)
            }
            Execution::Arrays(function) => self.execute_static(function, instruction, operands, &instruction.shape),
        }
    }

    /// Refuses instructions beyond the memory limit before anything is allocated.
    fn check_memory(&self, instruction: &Instruction, operands: &[EvalValue]) -> Result<(), EvalFailure> {
        match definition(instruction.kind).class {
            // These hold operands and results in the widest type.
            OpClass::Contraction | OpClass::Library => {
                operands.iter().try_for_each(|operand| match operand {
                    EvalValue::Array(array) => self.check_array(array.literal.shape(), WIDEST),
                    EvalValue::Tuple(_) | EvalValue::Token => Ok(()),
                })?;
                self.check_size(&instruction.shape, WIDEST)
            }
            _ => self.check_size(&instruction.shape, 1),
        }
    }

    /// Checks a value whose elements take at least `width` bytes while it is made.
    fn check_size(&self, shape: &Shape, width: usize) -> Result<(), EvalFailure> {
        match shape {
            Shape::Array(array) => self.check_array(array, width),
            Shape::Tuple(elements) => elements.iter().try_for_each(|element| self.check_size(element, width)),
            Shape::Token | Shape::Opaque => Ok(()),
        }
    }

    fn check_array(&self, array: &ArrayShape, width: usize) -> Result<(), EvalFailure> {
        let widening = width.div_ceil(array.element_type.byte_width()) as i64;
        match array.checked_byte_size().and_then(|size| size.checked_mul(widening)) {
            Some(size) if size as u64 <= self.environment.memory_limit => Ok(()),
            _ => Err(EvalFailure::TooLarge(Box::new(array.clone()))),
        }
    }

    /// Calls a function of arrays all of whose elements exist; `result` is the shape to produce.
    pub(super) fn execute_static(
        &mut self,
        function: ArrayFunction,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
        result: &Shape,
    ) -> Result<EvalValue, EvalFailure> {
        if is_empty(result) {
            // Also where a dimension beside the empty one is too large to walk.
            return control::zeros(result);
        }
        let mut arrays = arrays(operands)?.into_iter();
        let first = if matches!(function, ArrayFunction::InPlace(_)) { arrays.next() } else { None };
        let rest: Vec<ArrayLiteral> = arrays.collect();
        let operands: Vec<&ArrayLiteral> = rest.iter().collect();
        let call = Call { instruction, operands: &operands, result };
        Ok(match function {
            ArrayFunction::One(function) => EvalValue::array(function(self, &call)?),
            ArrayFunction::Several(function) => pack(function(self, &call)?, result),
            ArrayFunction::InPlace(function) => {
                let first = first.ok_or_else(|| EvalFailure::malformed("operand 0 is missing"))?;
                EvalValue::array(function(first, &call)?)
            }
        })
    }
}

/// The function of each operation.
fn execution(kind: OpKind) -> Execution {
    use ArrayFunction::{InPlace, One, Several};
    use Execution::{Arrays, Collective, Values};
    match kind {
        OpKind::Parameter => Values(|_, instruction, operands| one(operands)?.with_shape(&instruction.shape)),
        OpKind::Constant => Values(|_, instruction, _| {
            let ConstantAttributes { value } = instruction.attributes()?;
            EvalValue::from_literal(value)?.with_shape(&instruction.shape)
        }),
        OpKind::Tuple => Values(|_, instruction, operands| EvalValue::Tuple(operands).with_shape(&instruction.shape)),
        OpKind::GetTupleElement => {
            Values(|_, instruction, operands| control::get_tuple_element(instruction, one(operands)?))
        }
        OpKind::AddDependency | OpKind::Domain => Values(|_, _, operands| first(operands)),
        OpKind::OptimizationBarrier | OpKind::AsyncUpdate | OpKind::AllReduceDone => {
            Values(|_, _, operands| one(operands))
        }
        OpKind::AfterAll | OpKind::SendDone => Values(|_, _, _| Ok(EvalValue::Token)),
        OpKind::Call => Values(|evaluator, instruction, operands| {
            let callee = instruction.callee.and_then(|callee| evaluator.module?.functions.get(callee.index()));
            let callee = callee.ok_or_else(|| EvalFailure::malformed("the called function does not exist"))?;
            Ok(evaluator.run(callee, operands)?)
        }),
        OpKind::Fusion => {
            Values(|evaluator, instruction, operands| Ok(evaluator.run(nested(instruction, 0)?, operands)?))
        }
        OpKind::While => Values(|evaluator, instruction, operands| evaluator.while_loop(instruction, one(operands)?)),
        OpKind::Conditional => Values(|evaluator, instruction, operands| evaluator.conditional(instruction, operands)),
        OpKind::AsyncStart => Values(|evaluator, instruction, operands| evaluator.async_start(instruction, operands)),
        OpKind::AsyncDone | OpKind::AllGatherDone | OpKind::CollectivePermuteDone => {
            Values(|_, _, operands| control::element(one(operands)?, 1))
        }
        OpKind::CopyStart => Values(|_, instruction, operands| control::copy_start(instruction, one(operands)?)),
        OpKind::CopyDone => Values(|_, _, operands| control::element(one(operands)?, 0)),
        OpKind::Infeed => Values(|evaluator, instruction, _| evaluator.infeed(instruction)),
        OpKind::Outfeed => Values(|evaluator, _, operands| evaluator.outfeed(operands)),
        OpKind::Send => Values(|evaluator, instruction, operands| evaluator.send(instruction, operands)),
        OpKind::Recv => Values(|evaluator, instruction, _| evaluator.receive(instruction)),
        OpKind::RecvDone => Values(|evaluator, instruction, _| evaluator.receive_done(instruction)),
        OpKind::CustomCall => Values(|evaluator, instruction, operands| evaluator.custom_call(instruction, &operands)),
        OpKind::GetDimensionSize => {
            Values(|_, instruction, operands| dynamic_shape::get_dimension_size(instruction, &operands))
        }
        OpKind::SetDimensionSize => {
            Values(|_, instruction, operands| dynamic_shape::set_dimension_size(instruction, operands))
        }
        OpKind::DynamicReshape => {
            Values(|_, instruction, operands| dynamic_shape::dynamic_reshape(instruction, &operands))
        }
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
        | OpKind::PartitionId => Collective,
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
        | OpKind::Tanh => {
            Arrays(One(|_, call| unary::evaluate(call.instruction.kind, call.operand(0)?, call.shape()?)))
        }
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
        | OpKind::Xor => Arrays(One(|_, call| {
            binary::evaluate(call.instruction.kind, call.operand(0)?, call.operand(1)?, call.shape()?)
        })),
        OpKind::Compare => Arrays(One(|_, call| {
            Comparison::of(call.attributes()?).evaluate(call.operand(0)?, call.operand(1)?, call.shape()?)
        })),
        OpKind::Select => Arrays(One(|_, call| {
            let predicate = call.operand(0)?;
            if predicate.shape().rank() == 0 {
                let chosen = if predicate.bytes()[0] != 0 { call.operand(1)? } else { call.operand(2)? };
                return Ok(chosen.with_shape(call.shape()?.clone())?);
            }
            compare::select(predicate, call.operand(1)?, call.operand(2)?, call.shape()?)
        })),
        OpKind::Clamp => {
            Arrays(One(|_, call| compare::clamp(call.operand(0)?, call.operand(1)?, call.operand(2)?, call.shape()?)))
        }
        OpKind::Convert => Arrays(One(|_, call| convert::convert(call.operand(0)?, call.shape()?))),
        OpKind::ReducePrecision => Arrays(One(|_, call| {
            let ReducePrecisionAttributes { exponent_bits, mantissa_bits } = call.attributes()?;
            convert::reduce_precision(call.operand(0)?, exponent_bits, mantissa_bits, call.shape()?)
        })),
        OpKind::StochasticConvert => {
            Arrays(One(|_, call| convert::stochastic_convert(call.operand(0)?, call.operand(1)?, call.shape()?)))
        }
        OpKind::BitcastConvert => Arrays(One(|_, call| movement::bitcast_convert(call.operand(0)?, call.shape()?))),
        OpKind::Bitcast => Arrays(One(|_, call| movement::bitcast(call.operand(0)?, call.shape()?))),
        OpKind::Copy | OpKind::Reshape => Arrays(One(|_, call| movement::reshape(call.operand(0)?, call.shape()?))),
        OpKind::Broadcast => Arrays(One(|_, call| {
            let BroadcastAttributes { dimensions } = call.attributes()?;
            movement::broadcast(call.operand(0)?, dimensions, call.shape()?)
        })),
        OpKind::Transpose => Arrays(One(|_, call| {
            let TransposeAttributes { dimensions } = call.attributes()?;
            movement::transpose(call.operand(0)?, dimensions, call.shape()?)
        })),
        OpKind::Reverse => Arrays(One(|_, call| {
            let ReverseAttributes { dimensions } = call.attributes()?;
            movement::reverse(call.operand(0)?, dimensions, call.shape()?)
        })),
        OpKind::Slice => Arrays(One(|_, call| {
            let SliceAttributes { slice } = call.attributes()?;
            movement::slice(call.operand(0)?, slice, call.shape()?)
        })),
        OpKind::Pad => Arrays(One(|_, call| {
            let PadAttributes { padding } = call.attributes()?;
            movement::pad(call.operand(0)?, call.operand(1)?, padding, call.shape()?)
        })),
        OpKind::Concatenate => Arrays(One(|_, call| {
            let ConcatenateAttributes { dimensions } = call.attributes()?;
            movement::concatenate(call.operands, dimensions.0, call.shape()?)
        })),
        OpKind::Iota => Arrays(One(|_, call| {
            let IotaAttributes { iota_dimension } = call.attributes()?;
            movement::iota(iota_dimension, call.shape()?)
        })),
        OpKind::DynamicSlice => Arrays(One(|_, call| {
            indexed::dynamic_slice(call.operand(0)?, call.operands.get(1..).unwrap_or(&[]), call.shape()?)
        })),
        OpKind::DynamicUpdateSlice => Arrays(InPlace(|operand, call| {
            let starts = call.operands.get(1..).unwrap_or(&[]);
            let updated = indexed::dynamic_update_slice(operand, call.operand(0)?, starts)?;
            Ok(updated.with_shape(call.shape()?.clone())?)
        })),
        OpKind::Gather => Arrays(One(|_, call| {
            indexed::gather(call.operand(0)?, call.operand(1)?, &call.attributes()?, call.shape()?)
        })),
        OpKind::Dot => Arrays(One(|_, call| {
            let attributes: DotAttributes = call.attributes()?;
            dot::dot(call.operand(0)?, call.operand(1)?, &attributes.dimensions(), call.shape()?)
        })),
        OpKind::RaggedDot => Arrays(One(|_, call| {
            let operands = [call.operand(0)?, call.operand(1)?, call.operand(2)?];
            ragged::ragged_dot(operands, &call.attributes()?, call.shape()?)
        })),
        OpKind::Convolution => Arrays(One(|_, call| {
            convolution::convolution(call.operand(0)?, call.operand(1)?, &call.attributes()?, call.shape()?)
        })),
        OpKind::Cholesky => Arrays(One(|_, call| {
            let CholeskyAttributes { lower } = call.attributes()?;
            linear_algebra::cholesky(call.operand(0)?, lower, call.shape()?)
        })),
        OpKind::TriangularSolve => Arrays(One(|_, call| {
            linear_algebra::triangular_solve(call.attributes()?, call.operand(0)?, call.operand(1)?, call.shape()?)
        })),
        OpKind::Fft => Arrays(One(|_, call| fft::fft(call.operand(0)?, &call.attributes()?, call.shape()?))),
        OpKind::Map => Arrays(One(|evaluator, call| evaluator.map(call.nested(0)?, call.operands, call.shape()?))),
        OpKind::SelectAndScatter => Arrays(One(|evaluator, call| {
            let SelectAndScatterAttributes { window } = call.attributes()?;
            let mut select = ScalarFunction::new(evaluator.module, call.nested(0)?);
            let mut scatter = ScalarFunction::new(evaluator.module, call.nested(1)?);
            let operands = [call.operand(0)?, call.operand(1)?, call.operand(2)?];
            window::select_and_scatter(evaluator, operands, window, &mut select, &mut scatter, call.shape()?)
        })),
        OpKind::BatchNormInference => {
            Arrays(One(|_, call| batch_norm::inference(call.operands, &call.attributes()?, call.shape()?)))
        }
        OpKind::Rng => Arrays(One(|evaluator, call| {
            let RngAttributes { distribution } = call.attributes()?;
            let random = &mut evaluator.environment.random;
            random::rng(random, distribution, call.operand(0)?, call.operand(1)?, call.shape()?)
        })),
        OpKind::RngGetAndUpdateState => Arrays(One(|evaluator, call| {
            let RngGetAndUpdateStateAttributes { delta } = call.attributes()?;
            random::get_and_update_state(&mut evaluator.environment.random, delta, call.shape()?)
        })),
        OpKind::Reduce => Arrays(Several(|evaluator, call| {
            let ReduceAttributes { dimensions } = call.attributes()?;
            let (values, initial) = call.operands.split_at(call.operands.len() / 2);
            let mut function = ScalarFunction::new(evaluator.module, call.nested(0)?);
            reduce::reduce(evaluator, values, initial, dimensions, &mut function, &call.shapes()?)
        })),
        OpKind::ReduceWindow => Arrays(Several(|evaluator, call| {
            let ReduceWindowAttributes { window } = call.attributes()?;
            let (values, initial) = call.operands.split_at(call.operands.len() / 2);
            let mut function = ScalarFunction::new(evaluator.module, call.nested(0)?);
            window::reduce_window(evaluator, values, initial, window, &mut function, &call.shapes()?)
        })),
        OpKind::Scatter => Arrays(Several(|evaluator, call| {
            let mut function = ScalarFunction::new(evaluator.module, call.nested(0)?);
            scatter::scatter(evaluator, call.operands, &call.attributes()?, &mut function, &call.shapes()?)
        })),
        OpKind::Sort => Arrays(Several(|evaluator, call| {
            let SortAttributes { dimensions, .. } = call.attributes()?;
            let mut comparator = ScalarFunction::new(evaluator.module, call.nested(0)?);
            sort::sort(evaluator, call.operands, dimensions.0, &mut comparator, &call.shapes()?)
        })),
        OpKind::TopK => Arrays(Several(|_, call| {
            let TopKAttributes { largest, .. } = call.attributes()?;
            sort::top_k(call.operand(0)?, largest, &call.shapes()?)
        })),
        OpKind::BatchNormTraining => {
            Arrays(Several(|_, call| batch_norm::training(call.operands, &call.attributes()?, &call.shapes()?)))
        }
        OpKind::BatchNormGrad => {
            Arrays(Several(|_, call| batch_norm::gradient(call.operands, &call.attributes()?, &call.shapes()?)))
        }
        OpKind::RngBitGenerator => Arrays(Several(|_, call| {
            let RngBitGeneratorAttributes { algorithm } = call.attributes()?;
            random::bit_generator(algorithm, call.operand(0)?, &call.shapes()?)
        })),
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
pub(super) fn one(operands: Vec<EvalValue>) -> Result<EvalValue, EvalFailure> {
    let count = operands.len();
    match operands.into_iter().next() {
        Some(operand) if count == 1 => Ok(operand),
        _ => Err(EvalFailure::malformed(format!("expected one operand, got {count}"))),
    }
}

fn first(operands: Vec<EvalValue>) -> Result<EvalValue, EvalFailure> {
    operands.into_iter().next().ok_or_else(|| EvalFailure::malformed("an operand is missing"))
}

/// The arrays of static values.
pub(super) fn arrays(operands: Vec<EvalValue>) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    operands
        .into_iter()
        .map(|operand| match operand {
            EvalValue::Array(array) => Ok(array.literal),
            EvalValue::Tuple(_) | EvalValue::Token => Err(EvalFailure::malformed("an operand is not an array")),
        })
        .collect()
}

/// A nested computation of an instruction.
pub(super) fn nested(instruction: &Instruction, number: usize) -> Result<&Computation, EvalFailure> {
    instruction.computations.get(number).ok_or_else(|| EvalFailure::malformed("a nested computation is missing"))
}

pub(super) fn array_shape(shape: &Shape) -> Result<&ArrayShape, EvalFailure> {
    shape.as_array().ok_or_else(|| EvalFailure::malformed("the result is not an array"))
}

/// Shapes of the results of an operation that has one, or a tuple of several.
pub(super) fn array_shapes(shape: &Shape) -> Result<Vec<&ArrayShape>, EvalFailure> {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(array_shape).collect(),
        single => Ok(vec![array_shape(single)?]),
    }
}

/// One array, or the tuple of several.
fn pack(results: Vec<ArrayLiteral>, shape: &Shape) -> EvalValue {
    let mut values: Vec<EvalValue> = results.into_iter().map(EvalValue::array).collect();
    match shape {
        Shape::Tuple(_) => EvalValue::Tuple(values),
        _ if values.len() == 1 => values.remove(0),
        _ => EvalValue::Tuple(values),
    }
}
