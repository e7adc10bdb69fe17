//! Kernels as functions: one for all equal kernels, called here or by the runtime's threads.

use std::cell::OnceCell;

use hlo::graph::{Computation, Instruction};
use hlo::mapping::WorkMapping;
use hlo::shape::ArrayShape;
use melior::ir::attribute::DenseI32ArrayAttribute;
use melior::ir::{Attribute, Type};
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::Slice;

use crate::error::LoweringError;
use crate::kernel::{Range, emit_fusion};
use crate::matmul::{AttentionKernel, MatMul, emit_matmul};
use crate::memory::{
    ArrayRef, ArraysOnDemand, FunctionMemory, Inputs, MAX_ARGUMENTS, address_of, address_table_type, array_type,
    number_at, pointer_at, pointer_to, pointer_type,
};
use crate::program::Program;
use crate::scatter::emit_scatter;

type Result<T> = std::result::Result<T, LoweringError>;

/// Element operations up to which a kernel is written where it runs; larger ones are functions, shared by equal
/// kernels.
const INLINE_COST: i64 = 256;

/// The runtime's parallel loop.
const PARALLEL_FOR: &str = "halo_parallel_for";

/// What a kernel's code is, chosen in all parts.
pub(crate) enum Code<'k> {
    Loops(&'k Computation),
    Product(&'k MatMul, &'k Computation),
    Attention(&'k AttentionKernel, &'k Computation),
    Scatter(&'k Computation),
}

impl Code<'_> {
    /// Emits the code for its inputs and outputs, all of it or some iterations. `packed` is the address of an input's panels, 0 where
    /// there are none.
    fn emit<'c>(
        &self,
        builder: &OpBuilder<'c>,
        mapping: &WorkMapping<'c>,
        inputs: Inputs<'_, 'c>,
        outputs: &[ArrayRef<'c>],
        range: Range<'c>,
        packed: Option<Value<'c>>,
    ) -> Result<()> {
        match self {
            Code::Loops(body) => emit_fusion(builder, body, mapping, inputs, outputs, range, None),
            Code::Scatter(body) => emit_scatter(builder, body, mapping, inputs, outputs),
            Code::Attention(attention, body) => attention.emit(builder, body, inputs, outputs, range),
            Code::Product(product, body) => emit_matmul(builder, product, body, inputs, outputs, (range, packed)),
        }
    }
}

/// A kernel and what it works on.
pub(crate) struct Kernel<'k, 'c> {
    /// Equal for kernels of the same code.
    pub(crate) key: &'k dyn Fn() -> String,
    pub(crate) code: Code<'k>,
    pub(crate) arrays: &'k KernelArrays<'k, 'c>,
    pub(crate) mapping: &'k WorkMapping<'c>,
    pub(crate) cost: i64,
    /// Whether each input and output shares bytes with another array, of which at least one is written.
    pub(crate) shared: &'k [bool],
    /// The parameter whose panels it takes, where there are any.
    pub(crate) packed: Option<usize>,
}

/// Shape and place of an array.
pub(crate) type PlacedArray<'k> = (&'k ArrayShape, Slice);

/// The arrays of an instruction's kernels in the function that runs them, made for the first of them.
pub(crate) struct KernelArrays<'k, 'c> {
    inputs: &'k [PlacedArray<'k>],
    outputs: &'k [PlacedArray<'k>],
    make: Box<dyn Fn(&PlacedArray<'_>) -> ArrayRef<'c> + 'k>,
    made_inputs: OnceCell<Vec<ArrayRef<'c>>>,
    made_outputs: OnceCell<Vec<ArrayRef<'c>>>,
    on_demand: ArraysOnDemand<'k, 'c>,
}

impl<'k, 'c> KernelArrays<'k, 'c> {
    /// None of them made yet.
    pub(crate) fn new(
        program: &'k Program<'_, 'c>,
        memory: &'k FunctionMemory<'_, 'c>,
        inputs: &'k [PlacedArray<'k>],
        outputs: &'k [PlacedArray<'k>],
    ) -> Self {
        let make = move |(shape, slice): &PlacedArray<'_>| memory.array(program.builder, &program.table, *slice, shape);
        KernelArrays {
            inputs,
            outputs,
            make: Box::new(make),
            made_inputs: OnceCell::new(),
            made_outputs: OnceCell::new(),
            on_demand: ArraysOnDemand::new(inputs.len(), move |number| make(&inputs[number])),
        }
    }

    /// Shapes and places of inputs and outputs.
    fn placed(&self) -> impl Iterator<Item = &PlacedArray<'k>> {
        self.inputs.iter().chain(self.outputs)
    }

    /// Whether they are too many for a function of the kernel's own.
    fn are_many(&self) -> bool {
        // One more is for an input's panels.
        self.inputs.len() + self.outputs.len() >= MAX_ARGUMENTS
    }

    fn made_inputs(&self) -> &[ArrayRef<'c>] {
        self.made_inputs.get_or_init(|| self.inputs.iter().map(&self.make).collect())
    }

    fn inputs(&self) -> Inputs<'_, 'c> {
        if self.are_many() { Inputs::OnDemand(&self.on_demand) } else { self.made_inputs().into() }
    }

    fn outputs(&self) -> &[ArrayRef<'c>] {
        self.made_outputs.get_or_init(|| self.outputs.iter().map(&self.make).collect())
    }
}

/// The attribute that says which arguments of a function are the only way to their memory.
pub(crate) fn argument_attributes<'c>(
    builder: &OpBuilder<'c>,
    are_alone: &[bool],
) -> Result<(&'static str, Attribute<'c>)> {
    let each: Vec<&str> = are_alone.iter().map(|&is_alone| if is_alone { "{llvm.noalias}" } else { "{}" }).collect();
    let all = Attribute::parse(builder.context(), &format!("[{}]", each.join(", ")));
    Ok(("arg_attrs", all.ok_or_else(|| LoweringError::bug("attributes of arguments"))?))
}

impl<'c> Program<'_, 'c> {
    /// Runs a kernel: its code here if it is small, else a call of its function.
    pub(crate) fn call_kernel(
        &self,
        instruction: &Instruction,
        kernel: &Kernel<'_, 'c>,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let builder = self.builder;
        let &Kernel { arrays, mapping, .. } = kernel;
        if kernel.cost <= INLINE_COST || arrays.are_many() {
            return kernel.code.emit(builder, mapping, arrays.inputs(), arrays.outputs(), None, None);
        }
        let name = self.defined_once(
            &format!("{} {}", (kernel.key)(), kernel.packed.is_some()),
            || self.kernel_symbol(instruction),
            |name| self.kernel_function(name, kernel),
        )?;
        let packed = kernel.packed.map(|parameter| memory.packed(builder, &self.table, parameter));
        if let Some(dimension) = mapping.parallel_dimension() {
            let mut addresses: Vec<Value<'c>> =
                arrays.placed().map(|(shape, slice)| memory.address(builder, &self.table, *slice, shape)).collect();
            addresses.extend(packed);
            self.call_in_parallel(memory, &name, &addresses, (mapping, dimension));
        } else {
            let made = arrays.made_inputs().iter().chain(arrays.outputs());
            let arguments: Vec<Value<'c>> = made.map(|array| array.memref).chain(packed).collect();
            builder.call(&name, &arguments, &[]);
        }
        Ok(())
    }

    /// A function of arrays and, if it is parallel, of the iterations to run.
    fn kernel_function(&self, name: &str, kernel: &Kernel<'_, 'c>) -> Result<()> {
        let builder = self.builder;
        let is_parallel = kernel.mapping.parallel_dimension().is_some();
        let shapes: Vec<&ArrayShape> = kernel.arrays.placed().map(|(shape, _)| *shape).collect();
        let mut types: Vec<Type<'c>> = shapes.iter().map(|shape| array_type(builder, shape)).collect();
        let mut are_alone: Vec<bool> = kernel.shared.iter().map(|is_shared| !is_shared).collect();
        let indices = usize::from(kernel.packed.is_some()) + if is_parallel { 2 } else { 0 };
        types.resize(types.len() + indices, builder.index_type);
        are_alone.resize(types.len(), false);
        let attributes = [builder.private(), argument_attributes(builder, &are_alone)?];
        builder.function(name, &types, &[], &attributes, |builder, function| {
            let parameters = function.parameters();
            let arrays: Vec<ArrayRef<'c>> =
                parameters.iter().zip(&shapes).map(|(&memref, shape)| ArrayRef::new(memref, shape)).collect();
            let (range, packed) = match parameters[shapes.len()..] {
                [packed, begin, end] => (Some((begin, end)), Some(packed)),
                [begin, end] => (Some((begin, end)), None),
                [packed] => (None, Some(packed)),
                _ => (None, None),
            };
            let (inputs, outputs) = arrays.split_at(kernel.arrays.inputs.len());
            kernel.code.emit(builder, kernel.mapping, inputs.into(), outputs, range, packed)?;
            builder.effect("func.return", &[], &[]);
            Ok::<_, LoweringError>(())
        })?;
        if !is_parallel {
            return Ok(());
        }
        // What the runtime's parallel loop calls: a table of the arrays' addresses, the first iteration, the one behind
        // the last.
        let parameters = self.task_parameters();
        builder.function(&task_symbol(name), &parameters, &[], &[builder.private()], |builder, function| {
            let [table, begin, end] = function.parameters()[..] else {
                return Err(LoweringError::bug("a task without its parameters"));
            };
            let mut values: Vec<Value<'c>> =
                (0..shapes.len()).map(|position| pointer_at(builder, table, position as i64)).collect();
            values.extend(kernel.packed.map(|_| number_at(builder, table, shapes.len() as i64)));
            values.extend([begin, end]);
            call_with_pointers(builder, name, &types, &values);
            builder.effect("func.return", &[], &[]);
            Ok(())
        })
    }

    fn task_parameters(&self) -> [Type<'c>; 3] {
        let i64_type = self.builder.integer_type(64);
        [address_table_type(self.builder), i64_type, i64_type]
    }

    fn call_in_parallel(
        &self,
        memory: &FunctionMemory<'_, 'c>,
        name: &str,
        addresses: &[Value<'c>],
        (mapping, dimension): (&WorkMapping<'c>, usize),
    ) {
        let builder = self.builder;
        let (pointer, i64_type) = (pointer_type(builder), builder.integer_type(64));
        builder.define_once(PARALLEL_FOR, |builder| {
            builder.declare_function(PARALLEL_FOR, &[pointer, pointer, pointer, i64_type, i64_type], &[]);
        });
        let table = memory.address_table(builder, addresses);
        let table = pointer_to(builder, address_of(builder, table));
        let task = builder.function_pointer(&task_symbol(name), &self.task_parameters(), &[], pointer);
        let count = builder.constant_integer(i64_type, mapping.iterations(dimension));
        let grain = builder.constant_integer(i64_type, mapping.dimensions[dimension].tile);
        builder.call(PARALLEL_FOR, &[memory.context(builder), task, table, count, grain], &[]);
    }
}

/// The function that the runtime's threads call for a kernel.
pub(crate) fn task_symbol(kernel: &str) -> String {
    format!("{kernel}.task")
}

/// Calls a function of memrefs with their addresses: functions are called so once memrefs are bare pointers.
pub(crate) fn call_with_pointers<'c>(
    builder: &OpBuilder<'c>,
    function: &str,
    parameters: &[Type<'c>],
    values: &[Value<'c>],
) {
    let callee = builder.function_pointer(function, parameters, &[], pointer_type(builder));
    let groups = |sizes: &[i32]| DenseI32ArrayAttribute::new(builder.context(), sizes).into();
    let attributes = [("operandSegmentSizes", groups(&[values.len() as i32 + 1, 0])), ("op_bundle_sizes", groups(&[]))];
    builder.effect("llvm.call", &[&[callee], values].concat(), &attributes);
}
