//! Memory seen by compiled code: the program's buffers as static memrefs.
//!
//! Functions get the buffers that they use as parameters: arrays as memrefs of their own sizes, the arena as bytes, of
//! which each array is a `memref.view` at a constant offset. Only what the runtime calls, and what calls the runtime,
//! knows addresses; and functions of programs of many buffers, which get the table of all addresses: so many parameters
//! would be stored and loaded again at every call.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use hlo::element_type::ElementType;
use hlo::shape::ArrayShape;
use melior::ir::Type;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute, TypeAttribute};
use mlir_ext::builder::{Body, OpBuilder, Value};
use passes::assign_buffers::{Buffer, BufferAssignment, Slice};

use crate::scalar;
use crate::team::SHARED_SPACE;

/// An array in memory: a row-major memref with the array's dimensions and the element type's memory type.
///
/// Complex arrays are memrefs of their real type whose last dimension is twice as long, real and imaginary parts
/// alternating.
#[derive(Clone, Debug)]
pub struct ArrayRef<'c> {
    /// The memref.
    pub memref: Value<'c>,
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes of the dimensions.
    pub dimensions: Vec<i64>,
    /// Bytes that the address is a multiple of, where vectors need to say so.
    pub alignment: Option<i64>,
    flat: Rc<OnceCell<Value<'c>>>,
}

impl<'c> ArrayRef<'c> {
    /// The array of a shape in a memref of [`array_type`].
    pub fn new(memref: Value<'c>, shape: &ArrayShape) -> Self {
        ArrayRef {
            memref,
            element_type: shape.element_type,
            dimensions: shape.dimensions.clone(),
            alignment: None,
            flat: Rc::new(OnceCell::new()),
        }
    }

    /// The same array, whose address is known to be a multiple of so many bytes.
    pub fn aligned(self, alignment: i64) -> Self {
        ArrayRef { alignment: Some(alignment), ..self }
    }

    /// The same array of small elements as unsigned integers of their width.
    pub fn as_bits(&self) -> Self {
        ArrayRef { element_type: scalar::code_type(self.element_type), ..self.clone() }
    }

    /// All elements as a memref of one dimension, made in the function's prologue at its first use.
    pub fn flat(&self, builder: &OpBuilder<'c>) -> Value<'c> {
        if self.dimensions.len() == 1 {
            return self.memref;
        }
        *self.flat.get_or_init(|| {
            let size = array_sizes(self.element_type, &self.dimensions).iter().product();
            let r#type = builder.memref_type(&[size], scalar::memory_type(builder, self.element_type));
            let integers = |values: &[i64]| DenseI64ArrayAttribute::new(builder.context(), values).into();
            let groups = DenseI32ArrayAttribute::new(builder.context(), &[1, 0, 0, 0]).into();
            let attributes = [
                ("static_offsets", integers(&[0])),
                ("static_sizes", integers(&[size])),
                ("static_strides", integers(&[1])),
                ("operandSegmentSizes", groups),
            ];
            builder.in_prologue(|builder| builder.value("memref.reinterpret_cast", &[self.memref], r#type, &attributes))
        })
    }

    /// The same array, as one of one dimension.
    pub fn flattened(&self, builder: &OpBuilder<'c>) -> Self {
        let dimensions = vec![self.dimensions.iter().product()];
        ArrayRef { memref: self.flat(builder), dimensions, flat: Rc::default(), ..self.clone() }
    }

    /// Elements of the memref for one element of the array.
    pub fn parts(&self) -> i64 {
        if self.element_type.is_complex() { 2 } else { 1 }
    }
}

/// The arrays of a kernel's parameters.
#[derive(Clone, Copy)]
pub enum Inputs<'a, 'c> {
    /// All of them.
    Made(&'a [ArrayRef<'c>]),
    /// Each made when it is first used: of very many, each loop of a kernel uses few.
    OnDemand(&'a ArraysOnDemand<'a, 'c>),
}

impl<'a, 'c> Inputs<'a, 'c> {
    /// The array of a parameter.
    pub fn get(self, parameter: usize) -> Option<&'a ArrayRef<'c>> {
        match self {
            Inputs::Made(arrays) => arrays.get(parameter),
            Inputs::OnDemand(arrays) => {
                let array = arrays.made.get(parameter)?;
                Some(array.get_or_init(|| (arrays.make)(parameter)))
            }
        }
    }
}

impl<'a, 'c> From<&'a [ArrayRef<'c>]> for Inputs<'a, 'c> {
    fn from(arrays: &'a [ArrayRef<'c>]) -> Self {
        Inputs::Made(arrays)
    }
}

/// Arrays that are made when they are first used.
pub struct ArraysOnDemand<'a, 'c> {
    made: Vec<OnceCell<ArrayRef<'c>>>,
    make: Box<dyn Fn(usize) -> ArrayRef<'c> + 'a>,
}

impl<'a, 'c> ArraysOnDemand<'a, 'c> {
    /// So many arrays, each made by its number.
    pub fn new(count: usize, make: impl Fn(usize) -> ArrayRef<'c> + 'a) -> Self {
        ArraysOnDemand { made: vec![OnceCell::new(); count], make: Box::new(make) }
    }
}

/// Places of the buffers in the table that compiled code gets.
#[derive(Clone, Debug)]
pub struct BufferTable {
    parameters: usize,
    constants: usize,
    outputs: usize,
    arena_size: usize,
    sizes: HashMap<Buffer, usize>,
}

/// Position of the run context's address in the table.
pub const RUN_CONTEXT: i64 = 0;

impl BufferTable {
    /// The table of an assignment.
    pub fn new(assignment: &BufferAssignment) -> Self {
        let mut sizes = HashMap::new();
        let size_of = |shape: &Option<ArrayShape>| shape.as_ref().map_or(0, ArrayShape::byte_size);
        for (number, shape) in assignment.parameters.iter().enumerate() {
            sizes.insert(Buffer::Parameter(number as u32), size_of(shape));
        }
        for (number, shape) in assignment.outputs.iter().enumerate() {
            sizes.insert(Buffer::Output(number as u32), size_of(shape));
        }
        for (number, literal) in assignment.constants.iter().enumerate() {
            sizes.insert(Buffer::Constant(number as u32), literal.shape().as_array().map_or(0, ArrayShape::byte_size));
        }
        BufferTable {
            parameters: assignment.parameters.len(),
            constants: assignment.constants.len(),
            outputs: assignment.outputs.len(),
            arena_size: assignment.arena_size,
            sizes,
        }
    }

    /// Bytes of the buffer that a slice is a part of.
    fn size(&self, slice: Slice) -> usize {
        match slice.buffer {
            Buffer::Arena => self.arena_size,
            other => self.sizes.get(&other).copied().unwrap_or(slice.offset + slice.size),
        }
    }

    /// Number of addresses of buffers in the table.
    pub fn len(&self) -> usize {
        2 + self.parameters + self.constants + self.outputs
    }

    /// Position of the address of a parameter's panels, which is 0 where no run has packed it; these are behind all buffers.
    pub fn packed_position(&self, parameter: usize) -> usize {
        self.len() + parameter
    }

    /// Whether functions get the table instead of the buffers that they use.
    fn is_parameter(&self) -> bool {
        self.len() > MAX_PARAMETERS
    }

    /// Its type.
    pub fn r#type<'c>(&self, builder: &OpBuilder<'c>) -> Type<'c> {
        builder.memref_type(&[self.packed_position(self.parameters) as i64], builder.index_type)
    }

    /// Whether there are no addresses: there always are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position of a buffer's address in the table.
    pub fn position(&self, buffer: Buffer) -> usize {
        match buffer {
            Buffer::Arena => 1,
            Buffer::Parameter(number) => 2 + number as usize,
            Buffer::Constant(number) => 2 + self.parameters + number as usize,
            Buffer::Output(number) => 2 + self.parameters + self.constants + number as usize,
        }
    }
}

/// Arrays that one kernel may take.
pub const MAX_ARGUMENTS: usize = 512;

/// Buffers up to which functions get those that they use as parameters.
const MAX_PARAMETERS: usize = 128;

/// The buffers that a function under construction uses.
pub struct FunctionMemory<'b, 'c> {
    body: &'b Body<'c>,
    /// The table of all addresses, where the function gets that instead of buffers.
    all: Option<Value<'c>>,
    /// Parameters in order.
    parameters: RefCell<Vec<(Parameter<'c>, Value<'c>)>>,
    bases: RefCell<HashMap<Buffer, Vec<(Type<'c>, Value<'c>)>>>,
    arrays: RefCell<HashMap<(Slice, ElementType), Vec<ArrayRef<'c>>>>,
    addresses: RefCell<HashMap<(Slice, ElementType), Value<'c>>>,
    packed: RefCell<HashMap<usize, Value<'c>>>,
    table: OnceCell<Value<'c>>,
    context: OnceCell<Value<'c>>,
}

/// What a function gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter<'c> {
    /// The table of all addresses.
    Table(Type<'c>),
    /// The address of the run context.
    Context,
    /// A whole buffer as a memref of a type.
    Buffer(Buffer, Type<'c>),
    /// The address of a parameter's panels.
    Packed(usize),
}

impl<'b, 'c> FunctionMemory<'b, 'c> {
    /// Memory of a function without parameters yet.
    pub fn new(builder: &OpBuilder<'c>, body: &'b Body<'c>, table: &BufferTable) -> Self {
        if table.is_parameter() { Self::with_table(builder, body, table) } else { Self::without_parameters(body) }
    }

    /// Memory of a function that gets the table of all addresses.
    pub fn with_table(builder: &OpBuilder<'c>, body: &'b Body<'c>, table: &BufferTable) -> Self {
        let mut memory = Self::without_parameters(body);
        let r#type = table.r#type(builder);
        memory.all = Some(memory.add_parameter(Parameter::Table(r#type), r#type));
        memory
    }

    fn without_parameters(body: &'b Body<'c>) -> Self {
        FunctionMemory {
            body,
            all: None,
            parameters: RefCell::default(),
            bases: RefCell::default(),
            arrays: RefCell::default(),
            addresses: RefCell::default(),
            packed: RefCell::default(),
            table: OnceCell::new(),
            context: OnceCell::new(),
        }
    }

    /// The parameters that the function came to need, in order.
    pub fn parameters(&self) -> Vec<Parameter<'c>> {
        self.parameters.borrow().iter().map(|&(parameter, _)| parameter).collect()
    }

    /// What this function passes for the parameters of another.
    pub fn arguments(
        &self,
        builder: &OpBuilder<'c>,
        table: &BufferTable,
        parameters: &[Parameter<'c>],
    ) -> Vec<Value<'c>> {
        parameters
            .iter()
            .filter_map(|parameter| match *parameter {
                Parameter::Table(_) => self.all,
                Parameter::Context => Some(self.context(builder)),
                Parameter::Buffer(buffer, r#type) => Some(self.base(builder, table, buffer, r#type)),
                Parameter::Packed(number) => Some(self.packed(builder, table, number)),
            })
            .collect()
    }

    fn add_parameter(&self, parameter: Parameter<'c>, r#type: Type<'c>) -> Value<'c> {
        let value = self.body.add_parameter(r#type);
        self.parameters.borrow_mut().push((parameter, value));
        value
    }

    /// The address of the run context.
    pub fn context(&self, builder: &OpBuilder<'c>) -> Value<'c> {
        *self.context.get_or_init(|| match self.all {
            Some(table) => builder.in_prologue(|builder| pointer_at(builder, table, RUN_CONTEXT)),
            None => self.add_parameter(Parameter::Context, pointer_type(builder)),
        })
    }

    /// The address of a parameter's panels as an `index`: 0 where no run has packed it.
    pub fn packed(&self, builder: &OpBuilder<'c>, table: &BufferTable, parameter: usize) -> Value<'c> {
        if let Some(&known) = self.packed.borrow().get(&parameter) {
            return known;
        }
        let address = match self.all {
            Some(all) => {
                builder.in_prologue(|builder| address_at(builder, all, table.packed_position(parameter) as i64))
            }
            None => self.add_parameter(Parameter::Packed(parameter), builder.index_type),
        };
        self.packed.borrow_mut().insert(parameter, address);
        address
    }

    /// A whole buffer; code for it is made in the function's prologue.
    fn base(&self, builder: &OpBuilder<'c>, table: &BufferTable, buffer: Buffer, r#type: Type<'c>) -> Value<'c> {
        let mut bases = self.bases.borrow_mut();
        let known = bases.entry(buffer).or_default();
        if let Some((_, base)) = known.iter().find(|(own, _)| *own == r#type) {
            return *base;
        }
        let base = match self.all {
            Some(all) => {
                let pointer = pointer_at(builder, all, table.position(buffer) as i64);
                builder.value("builtin.unrealized_conversion_cast", &[pointer], r#type, &[])
            }
            None => self.add_parameter(Parameter::Buffer(buffer, r#type), r#type),
        };
        known.push((r#type, base));
        base
    }

    /// The array of the given shape stored in a slice.
    pub fn array(
        &self,
        builder: &OpBuilder<'c>,
        table: &BufferTable,
        slice: Slice,
        shape: &ArrayShape,
    ) -> ArrayRef<'c> {
        let key = (slice, shape.element_type);
        let same = |array: &&ArrayRef<'c>| array.dimensions == shape.dimensions;
        if let Some(known) = self.arrays.borrow().get(&key).and_then(|arrays| arrays.iter().find(same)) {
            return known.clone();
        }
        let memref = builder.in_prologue(|builder| self.view(builder, table, slice, shape));
        let array = ArrayRef::new(memref, shape);
        self.arrays.borrow_mut().entry(key).or_default().push(array.clone());
        array
    }

    fn view(&self, builder: &OpBuilder<'c>, table: &BufferTable, slice: Slice, shape: &ArrayShape) -> Value<'c> {
        let r#type = array_type(builder, shape);
        let size = table.size(slice);
        if slice.buffer != Buffer::Arena && slice.offset == 0 && size == slice.size {
            return self.base(builder, table, slice.buffer, r#type);
        }
        let bytes = builder.memref_type(&[size.max(1) as i64], builder.integer_type(8));
        let base = self.base(builder, table, slice.buffer, bytes);
        let offset = builder.constant_index(slice.offset as i64);
        builder.value("memref.view", &[base, offset], r#type, &[])
    }

    /// The address of the array of the given shape stored in a slice.
    pub fn address(&self, builder: &OpBuilder<'c>, table: &BufferTable, slice: Slice, shape: &ArrayShape) -> Value<'c> {
        let key = (slice, shape.element_type);
        if let Some(&address) = self.addresses.borrow().get(&key) {
            return address;
        }
        let array = self.array(builder, table, slice, shape);
        let address = builder.in_prologue(|builder| address_of(builder, array.memref));
        self.addresses.borrow_mut().insert(key, address);
        address
    }

    /// A table of addresses on the stack, for a call; it is filled where the builder stands and may be filled anew by
    /// the next call.
    pub fn address_table(&self, builder: &OpBuilder<'c>, addresses: &[Value<'c>]) -> Value<'c> {
        let table = *self
            .table
            .get_or_init(|| builder.in_prologue(|builder| builder.stack_buffer(address_table_type(builder), 8)));
        for (position, &address) in addresses.iter().enumerate() {
            let position = builder.constant_index(position as i64);
            builder.effect("memref.store", &[address, table, position], &[]);
        }
        table
    }
}

/// Type of a table of addresses.
pub fn address_table_type<'c>(builder: &OpBuilder<'c>) -> Type<'c> {
    builder.memref_type(&[MAX_ARGUMENTS as i64], builder.index_type)
}

/// The address of a memref's first element, as an `index`.
pub fn address_of<'c>(builder: &OpBuilder<'c>, memref: Value<'c>) -> Value<'c> {
    builder.value("memref.extract_aligned_pointer_as_index", &[memref], builder.index_type, &[])
}

/// The pointer of an address that is an `index`.
pub fn pointer_to<'c>(builder: &OpBuilder<'c>, address: Value<'c>) -> Value<'c> {
    let address = builder.value("arith.index_cast", &[address], builder.integer_type(64), &[]);
    builder.value("llvm.inttoptr", &[address], pointer_type(builder), &[])
}

/// The same, into the memory of a GPU that all of its threads have.
pub(crate) fn global_pointer<'c>(builder: &OpBuilder<'c>, address: Value<'c>) -> Value<'c> {
    let address = builder.value("arith.index_cast", &[address], builder.integer_type(64), &[]);
    let pointer = melior::dialect::llvm::r#type::pointer(builder.context(), GLOBAL_SPACE);
    builder.value("llvm.inttoptr", &[address], pointer, &[])
}

/// The pointer to so many bytes behind another one.
pub(crate) fn byte_behind<'c>(builder: &OpBuilder<'c>, pointer: Value<'c>, bytes: Value<'c>) -> Value<'c> {
    let bytes = builder.value("arith.index_cast", &[bytes], builder.integer_type(64), &[]);
    let dynamic = DenseI32ArrayAttribute::new(builder.context(), &[i32::MIN]).into();
    let byte = TypeAttribute::new(builder.integer_type(8)).into();
    let attributes = [("rawConstantIndices", dynamic), ("elem_type", byte)];
    builder.value("llvm.getelementptr", &[pointer, bytes], pointer.r#type(), &attributes)
}

/// The place of a byte in the memory that the threads of a block share.
pub(crate) fn shared_pointer<'c>(builder: &OpBuilder<'c>, address: Value<'c>, byte: Value<'c>) -> Value<'c> {
    let shared = melior::dialect::llvm::r#type::pointer(builder.context(), SHARED_SPACE as u32);
    let address = builder.value("arith.index_cast", &[builder.addi(address, byte)], builder.integer_type(64), &[]);
    builder.value("llvm.inttoptr", &[address], shared, &[])
}

/// Number of the address space of the memory that all threads have.
pub(crate) const GLOBAL_SPACE: u32 = 1;

/// Address number `position` of a table, as a pointer.
pub fn pointer_at<'c>(builder: &OpBuilder<'c>, table: Value<'c>, position: i64) -> Value<'c> {
    pointer_to(builder, address_at(builder, table, position))
}

/// The same as an integer, which functions that get bare pointers take for an `index`.
pub(crate) fn number_at<'c>(builder: &OpBuilder<'c>, table: Value<'c>, position: i64) -> Value<'c> {
    let address = address_at(builder, table, position);
    builder.value("arith.index_cast", &[address], builder.integer_type(64), &[])
}

/// The same as an `index`.
fn address_at<'c>(builder: &OpBuilder<'c>, table: Value<'c>, position: i64) -> Value<'c> {
    let position = builder.constant_index(position);
    builder.value("memref.load", &[table, position], builder.index_type, &[])
}

/// Type of the memref of an array.
pub fn array_type<'c>(builder: &OpBuilder<'c>, shape: &ArrayShape) -> Type<'c> {
    let sizes = array_sizes(shape.element_type, &shape.dimensions);
    builder.memref_type(&sizes, scalar::memory_type(builder, shape.element_type))
}

/// Sizes of the memref of an array.
fn array_sizes(element_type: ElementType, dimensions: &[i64]) -> Vec<i64> {
    let mut sizes = dimensions.to_vec();
    if element_type.is_complex() {
        match sizes.last_mut() {
            Some(last) => *last *= 2,
            None => sizes.push(2),
        }
    }
    // MLIR passes a memref without elements as a descriptor, others as a pointer; its memory is not accessed in either case.
    sizes.iter_mut().for_each(|size| *size = (*size).max(1));
    sizes
}

/// `!llvm.ptr`.
pub fn pointer_type<'c>(builder: &OpBuilder<'c>) -> Type<'c> {
    melior::dialect::llvm::r#type::pointer(builder.context(), 0)
}

/// The address behind `count` pointers.
pub fn pointer_offset<'c>(builder: &OpBuilder<'c>, base: Value<'c>, count: i64) -> Value<'c> {
    if count == 0 {
        return base;
    }
    let count = builder.constant_integer(builder.integer_type(64), count);
    let dynamic = DenseI32ArrayAttribute::new(builder.context(), &[i32::MIN]).into();
    let attributes = [("rawConstantIndices", dynamic), ("elem_type", TypeAttribute::new(pointer_type(builder)).into())];
    builder.value("llvm.getelementptr", &[base, count], pointer_type(builder), &attributes)
}

/// Loads the scalar whose address is number `position` of a table of pointers that the runtime passes.
pub fn load_scalar_at<'c>(
    builder: &OpBuilder<'c>,
    table: Value<'c>,
    position: i64,
    element_type: ElementType,
) -> scalar::RegisterValue<'c> {
    let place = pointer_offset(builder, table, position);
    let address = builder.value("llvm.load", &[place], pointer_type(builder), &[]);
    let width = builder.integer_attribute(builder.integer_type(64), element_type.real_part().byte_width() as i64);
    let r#type = scalar::load_type(builder, element_type, None);
    let loaded = builder.value("llvm.load", &[address], r#type, &[("alignment", width)]);
    scalar::from_memory(builder, element_type, None, loaded)
}
