//! Operations that call the runtime: sorting, transforms, factorisations, random bits, queues, functions of the user.
//!
//! Runtime functions take addresses only: the run context, a constant descriptor (64-bit integers), and what the
//! operation's `Call` lists. Descriptors name element types by XLA's numbers; each is documented
//! beside the runtime function that reads it. Arrays are row-major in memory, whatever layout the text gives them.
//!
//! ```text
//!  call_of ─┬─ sort: sort, topk, comparators as functions      linear_algebra: fft, cholesky, triangular-solve
//!           └─ custom_call: functions by name                  random, feeds, collectives: generators, queues, devices
//! ```

mod collectives;
mod custom_call;
mod feeds;
mod linear_algebra;
mod random;
mod sort;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::launch_plan::{HostArgument, HostCall};
use hlo::op_kind::OpKind;
use hlo::ops::top_k::TopKAttributes;
use hlo::ops::typed_attributes::OperationAttributes;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::Attribute;
use melior::ir::attribute::{FlatSymbolRefAttribute, TypeAttribute};
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::ComputationBuffers;

use crate::error::LoweringError;
use crate::memory::{FunctionMemory, MAX_ARGUMENTS, address_of, pointer_offset, pointer_to, pointer_type};
use crate::program::{CallOptions, Program, kernel_slices};

pub(crate) use sort::{KeyOrder, Order, key_order};

type Result<T> = std::result::Result<T, LoweringError>;

/// A call of a runtime function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Name of the function.
    symbol: &'static str,
    /// The constant that describes the call.
    descriptor: Vec<i64>,
    /// Those of further calls of the function, each of which takes the results of the one before as its operands.
    further: Vec<Vec<i64>>,
    /// What is passed after the run context and the descriptor.
    arguments: Vec<Argument>,
}

impl Call {
    /// One call.
    fn new(symbol: &'static str, descriptor: Vec<i64>, arguments: Vec<Argument>) -> Self {
        Call { symbol, descriptor, further: Vec::new(), arguments }
    }
}

/// One address that a runtime function gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Argument {
    /// An array of the operands, tuples flattened.
    Operand(usize),
    /// An array of the result, tuples flattened.
    Result(usize),
    /// A table of all arrays of the operands.
    Operands,
    /// A table of all arrays of the result.
    Results,
    /// The instruction's computation on scalars, as a function of a table of its arguments' addresses.
    Comparator,
    /// Null.
    Nothing,
    /// The bytes of a text.
    Text(String),
}

/// The attributes of an instruction, which its verifier has seen.
fn attributes_of<'a, T: OperationAttributes<'a>>(instruction: &'a Instruction) -> std::result::Result<T, String> {
    instruction.attributes().map_err(|error| error.to_string())
}

/// What an instruction calls; `None` if its operation calls nothing, an explanation if this use of it cannot be called.
fn call_of(
    computation: &Computation,
    instruction: &Instruction,
    options: CallOptions,
) -> std::result::Result<Option<Call>, String> {
    let devices = options.devices;
    let call = match instruction.kind {
        OpKind::Sort => sort::sort(computation, instruction)?,
        OpKind::TopK => sort::top_k(computation, instruction, attributes_of::<TopKAttributes>(instruction)?.largest)?,
        OpKind::Fft => linear_algebra::fft(computation, instruction)?,
        OpKind::Cholesky => linear_algebra::cholesky(computation, instruction)?,
        OpKind::TriangularSolve => linear_algebra::triangular_solve(computation, instruction)?,
        OpKind::CustomCall => custom_call::custom_call(computation, instruction, options.custom_calls)?,
        OpKind::Rng => random::rng(instruction)?,
        OpKind::RngBitGenerator => random::bit_generator(computation, instruction)?,
        OpKind::RngGetAndUpdateState => random::get_and_update_state(instruction)?,
        OpKind::Infeed => feeds::infeed(instruction),
        OpKind::Outfeed => feeds::outfeed(computation, instruction),
        OpKind::Send if devices.total() > 1 => collectives::send(computation, instruction, devices)?,
        OpKind::Send => feeds::send(computation, instruction)?,
        OpKind::RecvDone if devices.total() > 1 => collectives::receive(instruction, devices)?,
        OpKind::RecvDone => feeds::receive(instruction)?,
        OpKind::AllGather | OpKind::AllToAll | OpKind::CollectiveBroadcast | OpKind::CollectivePermute => {
            collectives::exchange(computation, instruction, devices)?
        }
        OpKind::RaggedAllToAll => collectives::ragged_all_to_all(computation, instruction, devices)?,
        OpKind::ReplicaId | OpKind::PartitionId => collectives::number(instruction),
        _ => return Ok(None),
    };
    let addresses = array_operands(computation, instruction).len() + arrays(&instruction.shape).len();
    if addresses > MAX_ARGUMENTS {
        return Err(format!("{addresses} arrays, more than {MAX_ARGUMENTS}"));
    }
    Ok(Some(call))
}

/// Rejects calls that the runtime does not have; other operations pass.
///
/// # Errors
/// What is missing, such as the name of an unknown custom call.
pub(crate) fn check(
    computation: &Computation,
    instruction: &Instruction,
    options: CallOptions,
) -> std::result::Result<(), String> {
    call_of(computation, instruction, options).map(|_| ())
}

/// The arrays of a shape, tuples flattened; tokens are left out.
fn arrays(shape: &Shape) -> Vec<&ArrayShape> {
    shape.leaves().into_iter().filter_map(Shape::as_array).collect()
}

/// The arrays of the operands, tuples flattened.
fn array_operands<'a>(computation: &'a Computation, instruction: &Instruction) -> Vec<&'a ArrayShape> {
    instruction.operands.iter().flat_map(|&operand| arrays(&computation.get(operand).shape)).collect()
}

/// Element type, rank and dimensions of an array.
fn shape_words(shape: &ArrayShape) -> impl Iterator<Item = i64> + '_ {
    [shape.element_type.primitive_type(), shape.rank() as i64].into_iter().chain(shape.dimensions.iter().copied())
}

/// The call of an instruction as a step of a launch plan.
///
/// # Errors
/// [`LoweringError::Bug`] for instructions that call nothing, or a function with a comparator.
pub(crate) fn host_call(
    computation: &Computation,
    buffers: &ComputationBuffers,
    id: InstructionId,
    options: CallOptions,
) -> Result<HostCall> {
    let instruction = computation.get(id);
    let call = call_of(computation, instruction, options).map_err(LoweringError::Bug)?;
    let call = call.ok_or_else(|| LoweringError::bug(format!("`{}` calls nothing", instruction.name)))?;
    if !call.further.is_empty() {
        return Err(LoweringError::bug(format!("`{}` is several calls on the host", instruction.name)));
    }
    let argument = |argument: &Argument| {
        Ok(match argument {
            Argument::Operand(number) => HostArgument::Operand(*number),
            Argument::Result(number) => HostArgument::Result(*number),
            Argument::Operands => HostArgument::Operands,
            Argument::Results => HostArgument::Results,
            Argument::Nothing => HostArgument::Nothing,
            Argument::Text(text) => HostArgument::Text(text.clone()),
            Argument::Comparator => {
                return Err(LoweringError::bug(format!("`{}` needs its comparator on the host", instruction.name)));
            }
        })
    };
    let arguments = call.arguments.iter().map(argument).collect::<Result<_>>()?;
    let [operands, results] =
        kernel_slices(computation, buffers, id).map(|arrays| arrays.into_iter().map(|(_, slice)| slice).collect());
    Ok(HostCall { symbol: call.symbol.to_string(), descriptor: call.descriptor, arguments, operands, results })
}

impl<'c> Program<'_, 'c> {
    /// Emits the call of an instruction whose operation is lowered to one.
    pub(crate) fn library_call(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let instruction = computation.get(id);
        let call = call_of(computation, instruction, self.options.calls).map_err(LoweringError::Bug)?;
        let call = call.ok_or_else(|| LoweringError::bug(format!("`{}` calls nothing", instruction.name)))?;
        let builder = self.builder;
        let [inputs, outputs] = kernel_slices(computation, buffers, id);
        let addresses: Vec<Value<'c>> = inputs
            .iter()
            .chain(&outputs)
            .map(|(shape, slice)| memory.address(builder, &self.table, *slice, shape))
            .collect();
        let has_table =
            call.arguments.iter().any(|argument| matches!(argument, Argument::Operands | Argument::Results));
        let table =
            has_table.then(|| pointer_to(builder, address_of(builder, memory.address_table(builder, &addresses))));
        let pointer = pointer_type(builder);
        let mut values = vec![memory.context(builder), self.constant_words(&call.descriptor)?];
        for argument in &call.arguments {
            let address = |position: usize| addresses.get(position).map(|&address| pointer_to(builder, address));
            values.push(
                match argument {
                    Argument::Operand(number) => address(*number),
                    Argument::Result(number) => address(inputs.len() + number),
                    Argument::Operands => table,
                    Argument::Results => table.map(|table| pointer_offset(builder, table, inputs.len() as i64)),
                    Argument::Comparator => Some(self.comparator(&instruction.computations[0])?),
                    Argument::Nothing => Some(builder.value("llvm.mlir.zero", &[], pointer, &[])),
                    Argument::Text(text) => Some(self.constant_text(text)?),
                }
                .ok_or_else(|| LoweringError::bug(format!("`{}` lacks an argument", instruction.name)))?,
            );
        }
        let parameters = vec![pointer; values.len()];
        builder.define_once(call.symbol, |builder| builder.declare_function(call.symbol, &parameters, &[]));
        builder.call(call.symbol, &values, &[]);
        for descriptor in &call.further {
            values[1] = self.constant_words(descriptor)?;
            for (argument, value) in call.arguments.iter().zip(&mut values[2..]) {
                if let (Argument::Operands, Some(table)) = (argument, table) {
                    *value = pointer_offset(builder, table, inputs.len() as i64);
                }
            }
            builder.call(call.symbol, &values, &[]);
        }
        Ok(())
    }

    /// The address of constant 64-bit integers.
    fn constant_words(&self, words: &[i64]) -> Result<Value<'c>> {
        let list: Vec<String> = words.iter().map(i64::to_string).collect();
        let value = format!("dense<[{}]> : tensor<{}xi64>", list.join(", "), words.len());
        self.constant_global(&value, words.len(), 64)
    }

    /// The address of a text's bytes.
    fn constant_text(&self, text: &str) -> Result<Value<'c>> {
        // An empty array has no address of its own; nothing is read there.
        let mut bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
        bytes.push("0".to_string());
        let value = format!("dense<[{}]> : tensor<{}xi8>", bytes.join(", "), bytes.len());
        self.constant_global(&value, bytes.len(), 8)
    }

    /// The address of a constant array of integers, made once for equal ones.
    fn constant_global(&self, value: &str, count: usize, width: u32) -> Result<Value<'c>> {
        let builder = self.builder;
        let name =
            self.named_once(value, "constant", |name| define_constant_integers(builder, name, value, count, width))?;
        Ok(address_of_global(builder, &name))
    }
}

/// Defines a constant array of integers of some width.
pub(crate) fn define_constant_integers(
    builder: &OpBuilder<'_>,
    name: &str,
    value: &str,
    count: usize,
    width: u32,
) -> Result<()> {
    let context = builder.context();
    let parsed = |text: &str| {
        Attribute::parse(context, text).ok_or_else(|| LoweringError::bug(format!("the attribute `{text}`")))
    };
    let r#type = melior::dialect::llvm::r#type::array(builder.integer_type(width), count as u32);
    let attributes = [
        ("global_type", TypeAttribute::new(r#type).into()),
        ("sym_name", builder.string_attribute(name)),
        ("linkage", parsed("#llvm.linkage<internal>")?),
        ("constant", Attribute::unit(context)),
        ("value", parsed(value)?),
        ("addr_space", builder.integer_attribute(builder.integer_type(32), 0)),
    ];
    builder.operation("llvm.mlir.global", &[], &[], &attributes, vec![builder.empty_region()]);
    Ok(())
}

/// Calls a function of the runtime that returns nothing.
pub(crate) fn call_runtime<'c>(builder: &OpBuilder<'c>, symbol: &str, arguments: &[Value<'c>]) {
    let types: Vec<_> = arguments.iter().map(|argument| argument.r#type()).collect();
    builder.define_once(symbol, |builder| builder.declare_function(symbol, &types, &[]));
    builder.call(symbol, arguments, &[]);
}

/// The address of what [`define_constant_integers`] defined.
pub(crate) fn address_of_global<'c>(builder: &OpBuilder<'c>, name: &str) -> Value<'c> {
    let symbol = FlatSymbolRefAttribute::new(builder.context(), name).into();
    builder.value("llvm.mlir.addressof", &[], pointer_type(builder), &[("global_name", symbol)])
}
