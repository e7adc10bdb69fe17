//! Memory seen by compiled code: slices of the program's buffers as flat memrefs.
//!
//! A function gets one pointer, to a table of addresses (run context, arena, parameters, constants, outputs, in
//! that order). Its prologue turns each table entry it needs into a flat memref, once; slices of the arena are views.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use hlo::element_type::ElementType;
use hlo::shape::ArrayShape;
use melior::ir::Type;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute, TypeAttribute};
use mlir_ext::builder::{OpBuilder, Prologue, Value};
use passes::assign_buffers::{Buffer, BufferAssignment, Slice};

use crate::scalar;

/// An array in memory: a flat, row-major memref of the element type's memory type.
///
/// Complex arrays are memrefs of their real type with twice as many elements, real and imaginary parts alternating.
#[derive(Clone, Debug)]
pub struct ArrayRef<'c> {
    /// The memref.
    pub memref: Value<'c>,
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes of the dimensions.
    pub dimensions: Vec<i64>,
}

/// Places of the buffers in the table that compiled code gets.
#[derive(Clone, Debug)]
pub struct BufferTable {
    parameters: usize,
    constants: usize,
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
            arena_size: assignment.arena_size,
            sizes,
        }
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

/// One function of compiled code under construction.
pub struct FunctionMemory<'c> {
    prologue: Prologue<'c>,
    buffers: Value<'c>,
    views: RefCell<HashMap<(Slice, ElementType), Value<'c>>>,
    bases: RefCell<HashMap<(Buffer, ElementType), Value<'c>>>,
    addresses: RefCell<HashMap<Slice, Value<'c>>>,
    argument_room: Cell<Option<Value<'c>>>,
}

impl<'c> FunctionMemory<'c> {
    /// Memory of the function whose entry block is at the insertion point; `buffers` is its table argument.
    pub fn new(builder: &OpBuilder<'c>, buffers: Value<'c>) -> Self {
        FunctionMemory {
            prologue: builder.prologue(),
            buffers,
            views: RefCell::new(HashMap::new()),
            bases: RefCell::new(HashMap::new()),
            addresses: RefCell::new(HashMap::new()),
            argument_room: Cell::new(None),
        }
    }

    /// The table of buffer addresses.
    pub fn table(&self) -> Value<'c> {
        self.buffers
    }

    /// The array of the given shape stored in a slice.
    pub fn array(
        &self,
        builder: &OpBuilder<'c>,
        table: &BufferTable,
        slice: Slice,
        shape: &ArrayShape,
    ) -> ArrayRef<'c> {
        let memref = self.views.borrow().get(&(slice, shape.element_type)).copied();
        let memref = memref.unwrap_or_else(|| {
            let memref = builder.in_prologue(&self.prologue, |builder| self.view(builder, table, slice, shape));
            self.views.borrow_mut().insert((slice, shape.element_type), memref);
            memref
        });
        ArrayRef { memref, element_type: shape.element_type, dimensions: shape.dimensions.clone() }
    }

    /// The address of a slice.
    pub fn address(&self, builder: &OpBuilder<'c>, table: &BufferTable, slice: Slice) -> Value<'c> {
        if let Some(&address) = self.addresses.borrow().get(&slice) {
            return address;
        }
        let address = builder.in_prologue(&self.prologue, |builder| {
            let base = pointer_at(builder, self.buffers, table.position(slice.buffer) as i64);
            pointer_offset(builder, base, builder.integer_type(8), slice.offset as i64)
        });
        self.addresses.borrow_mut().insert(slice, address);
        address
    }

    /// A table of addresses on the stack, for a call of a kernel; it is filled where the builder stands and may
    /// be filled anew by the next call.
    pub fn arguments(&self, builder: &OpBuilder<'c>, addresses: &[Value<'c>]) -> Value<'c> {
        let room = self.argument_room.get().unwrap_or_else(|| {
            let room = builder.in_prologue(&self.prologue, |builder| {
                builder.stack_pointers(MAX_ARGUMENTS as i64, pointer_type(builder))
            });
            self.argument_room.set(Some(room));
            room
        });
        for (position, &address) in addresses.iter().enumerate() {
            let place = pointer_offset(builder, room, pointer_type(builder), position as i64);
            builder.effect("llvm.store", &[address, place], &[]);
        }
        room
    }

    fn view(&self, builder: &OpBuilder<'c>, table: &BufferTable, slice: Slice, shape: &ArrayShape) -> Value<'c> {
        let r#type = flat_memref_type(builder, shape.element_type, shape.element_count());
        if slice.buffer != Buffer::Arena {
            let size = table.sizes.get(&slice.buffer).copied().unwrap_or(slice.size);
            if slice.offset == 0 && size == slice.size {
                return self.base(builder, table, slice.buffer, shape.element_type, r#type);
            }
        }
        let bytes = match slice.buffer {
            Buffer::Arena => table.arena_size,
            other => table.sizes.get(&other).copied().unwrap_or(slice.offset + slice.size),
        };
        let byte_type = builder.memref_type(&[bytes as i64], builder.integer_type(8));
        let base = self.base(builder, table, slice.buffer, ElementType::U8, byte_type);
        let offset = builder.constant_index(slice.offset as i64);
        builder.value("memref.view", &[base, offset], r#type, &[])
    }

    /// The whole buffer as a memref of `type`, made from its address in the table.
    fn base(
        &self,
        builder: &OpBuilder<'c>,
        table: &BufferTable,
        buffer: Buffer,
        element_type: ElementType,
        r#type: Type<'c>,
    ) -> Value<'c> {
        if let Some(&base) = self.bases.borrow().get(&(buffer, element_type)) {
            return base;
        }
        let pointer = pointer_at(builder, self.buffers, table.position(buffer) as i64);
        let base = memref_of_pointer(builder, pointer, r#type);
        self.bases.borrow_mut().insert((buffer, element_type), base);
        base
    }
}

/// Type of a flat memref with `count` elements.
pub fn flat_memref_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType, count: i64) -> Type<'c> {
    let parts = if element_type.is_complex() { 2 } else { 1 };
    builder.memref_type(&[count * parts], scalar::memory_type(builder, element_type))
}

/// `!llvm.ptr`.
pub fn pointer_type<'c>(builder: &OpBuilder<'c>) -> Type<'c> {
    melior::dialect::llvm::r#type::pointer(builder.context(), 0)
}

/// The address `count` elements of a type after a pointer.
pub fn pointer_offset<'c>(builder: &OpBuilder<'c>, base: Value<'c>, element: Type<'c>, count: i64) -> Value<'c> {
    if count == 0 {
        return base;
    }
    let count = builder.constant_integer(builder.integer_type(64), count);
    let dynamic = DenseI32ArrayAttribute::new(builder.context(), &[i32::MIN]).into();
    let attributes = [("rawConstantIndices", dynamic), ("elem_type", TypeAttribute::new(element).into())];
    builder.value("llvm.getelementptr", &[base, count], pointer_type(builder), &attributes)
}

/// Loads pointer number `position` from a table of pointers.
pub fn pointer_at<'c>(builder: &OpBuilder<'c>, table: Value<'c>, position: i64) -> Value<'c> {
    let pointer = pointer_type(builder);
    let element = pointer_offset(builder, table, pointer, position);
    builder.value("llvm.load", &[element], pointer, &[])
}

/// The array of the given shape whose address is number `position` of a kernel's argument table.
pub fn argument_array<'c>(
    builder: &OpBuilder<'c>,
    arguments: Value<'c>,
    position: usize,
    shape: &ArrayShape,
) -> ArrayRef<'c> {
    let r#type = flat_memref_type(builder, shape.element_type, shape.element_count());
    let pointer = pointer_at(builder, arguments, position as i64);
    ArrayRef {
        memref: memref_of_pointer(builder, pointer, r#type),
        element_type: shape.element_type,
        dimensions: shape.dimensions.clone(),
    }
}

/// A flat static memref over memory at a pointer.
pub fn memref_of_pointer<'c>(builder: &OpBuilder<'c>, pointer: Value<'c>, r#type: Type<'c>) -> Value<'c> {
    let context = builder.context();
    let i64_type = builder.integer_type(64);
    let array = melior::dialect::llvm::r#type::array(i64_type, 1);
    let pointer_type = pointer_type(builder);
    let descriptor =
        melior::dialect::llvm::r#type::r#struct(context, &[pointer_type, pointer_type, i64_type, array, array], false);
    let mut value = builder.value("llvm.mlir.poison", &[], descriptor, &[]);
    let size = builder.constant_integer(i64_type, builder.memref_size(r#type));
    let zero = builder.constant_integer(i64_type, 0);
    let one = builder.constant_integer(i64_type, 1);
    let fields: [(Value<'c>, &[i64]); 5] =
        [(pointer, &[0]), (pointer, &[1]), (zero, &[2]), (size, &[3, 0]), (one, &[4, 0])];
    for (field, position) in fields {
        let position = DenseI64ArrayAttribute::new(context, position).into();
        value = builder.value("llvm.insertvalue", &[value, field], descriptor, &[("position", position)]);
    }
    builder.value("builtin.unrealized_conversion_cast", &[value], r#type, &[])
}
