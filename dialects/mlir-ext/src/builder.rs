//! A builder that appends operations at an insertion point: what the loop emitters write IR with.
//!
//! melior ties a value's lifetime to a borrow of its block, which nested loops built by closures cannot
//! satisfy. Here values and blocks are plain handles with the context's lifetime. That is sound as long as
//! no operation is erased while handles to its results are in use; the builder only ever appends.
//!
//! Deliberately absent: verification (the caller verifies the finished module) and type inference.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use melior::Context;
use melior::ir::attribute::{
    DenseElementsAttribute, DenseI32ArrayAttribute, FlatSymbolRefAttribute, FloatAttribute, IntegerAttribute,
    StringAttribute, TypeAttribute,
};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::{FunctionType, IntegerType, MemRefType};
use melior::ir::{self, Attribute, AttributeLike, BlockLike, Location, Module, Type, TypeLike, ValueLike};

use crate::{attributes, operations, types};
use mlir_sys::{
    MlirBlock, MlirNamedAttribute, MlirOperation, MlirRegion, MlirStringRef, MlirValue, mlirBlockAddArgument,
    mlirBlockAppendOwnedOperation, mlirBlockCreate, mlirBlockGetArgument, mlirBlockGetNumArguments,
    mlirBlockInsertOwnedOperation, mlirBlockInsertOwnedOperationAfter, mlirBlockInsertOwnedOperationBefore,
    mlirDenseElementsAttrGet, mlirDenseElementsAttrSplatGet, mlirIdentifierGet, mlirIdentifierStr,
    mlirOpResultGetOwner, mlirOperationCreate, mlirOperationGetAttributeByName, mlirOperationGetName,
    mlirOperationGetNumResults, mlirOperationGetResult, mlirOperationStateAddAttributes, mlirOperationStateAddOperands,
    mlirOperationStateAddOwnedRegions, mlirOperationStateAddResults, mlirOperationStateGet, mlirRegionAppendOwnedBlock,
    mlirRegionCreate, mlirRegionDestroy, mlirValueGetType, mlirValueIsAOpResult, mlirVectorTypeGet,
};

/// Handle of an SSA value.
#[derive(Clone, Copy)]
pub struct Value<'c> {
    raw: MlirValue,
    context: PhantomData<&'c Context>,
}

impl<'c> Value<'c> {
    /// Type of the value.
    pub fn r#type(self) -> Type<'c> {
        // SAFETY: the handle refers to a live value; its type belongs to the context.
        unsafe { Type::from_raw(mlirValueGetType(self.raw)) }
    }
}

impl<'c> From<ir::Value<'c, '_>> for Value<'c> {
    fn from(value: ir::Value<'c, '_>) -> Self {
        Value { raw: value.to_raw(), context: PhantomData }
    }
}

impl<'c> From<Value<'c>> for ir::Value<'c, 'c> {
    fn from(value: Value<'c>) -> Self {
        // SAFETY: the handle refers to a live value.
        unsafe { ir::Value::from_raw(value.raw) }
    }
}

impl Value<'_> {
    /// Whether the value is the result of an `arith.constant`.
    pub fn is_constant(self) -> bool {
        // SAFETY: the handle refers to a live value; its owner is asked for only when that is an operation, and the
        // name lives as long as the context.
        unsafe {
            if !mlirValueIsAOpResult(self.raw) {
                return false;
            }
            let name = mlirIdentifierStr(mlirOperationGetName(mlirOpResultGetOwner(self.raw)));
            std::slice::from_raw_parts(name.data.cast::<u8>(), name.length) == b"arith.constant"
        }
    }
}

impl Value<'_> {
    /// The value of an integer or index `arith.constant`.
    pub fn constant(self) -> Option<i64> {
        if !self.is_constant() {
            return None;
        }
        // SAFETY: the value is the result of a live operation, and the attribute is null where there is none.
        let attribute = unsafe {
            let owner = mlirOpResultGetOwner(self.raw);
            Attribute::from_option_raw(mlirOperationGetAttributeByName(owner, string_ref("value")))
        };
        attribute.and_then(attributes::integer)
    }
}

impl<'c> Value<'c> {
    /// The first operand of the operation that the value is the result of, if that has this name.
    pub fn made_by(self, operation: &str) -> Option<Value<'c>> {
        self.definition_if(operation)?.operand(0).ok().map(Value::from)
    }

    /// The operands of the operation that the value is the result of, if that has this name.
    pub fn operands_if_made_by(self, operation: &str) -> Option<Vec<Value<'c>>> {
        Some(self.definition_if(operation)?.operands().map(Value::from).collect())
    }

    /// The operation that the value is the result of, if that has this name.
    fn definition_if(self, operation: &str) -> Option<ir::OperationRef<'c, 'c>> {
        operations::definition(self.into())
            .filter(|definition| attributes::identifier_text(definition.name()) == operation)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({:?}: {})", self.raw.ptr, self.r#type())
    }
}

/// Handle of a created operation.
#[derive(Clone, Copy)]
pub struct Operation<'c> {
    raw: MlirOperation,
    context: PhantomData<&'c Context>,
}

impl<'c> Operation<'c> {
    /// The results.
    pub fn results(self) -> Vec<Value<'c>> {
        // SAFETY: the operation is live, and the positions are below the number of its results.
        unsafe {
            (0..mlirOperationGetNumResults(self.raw))
                .map(|index| Value { raw: mlirOperationGetResult(self.raw, index), context: PhantomData })
                .collect()
        }
    }
}

/// A region with at most one block, not yet owned by an operation.
pub struct Region<'c> {
    region: MlirRegion,
    context: PhantomData<&'c Context>,
}

impl Region<'_> {
    /// The region, whose owner the caller becomes.
    fn into_raw(self) -> MlirRegion {
        std::mem::ManuallyDrop::new(self).region
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // SAFETY: no operation owns the region: giving it to one takes the handle.
        unsafe { mlirRegionDestroy(self.region) };
    }
}

/// A function's body while it is written: parameters can still be added to it.
pub struct Body<'c> {
    block: MlirBlock,
    location: Location<'c>,
}

impl<'c> Body<'c> {
    /// The parameters so far.
    pub fn parameters(&self) -> Vec<Value<'c>> {
        // SAFETY: the block is live while the body is written, and the positions are below the number of arguments.
        unsafe {
            (0..mlirBlockGetNumArguments(self.block))
                .map(|index| Value { raw: mlirBlockGetArgument(self.block, index), context: PhantomData })
                .collect()
        }
    }

    /// Adds a parameter behind the others.
    pub fn add_parameter(&self, r#type: Type<'c>) -> Value<'c> {
        // SAFETY: the block is live while the body is written; type and location are of its context.
        let raw = unsafe { mlirBlockAddArgument(self.block, r#type.to_raw(), self.location.to_raw()) };
        Value { raw, context: PhantomData }
    }
}

/// The block of the function being written, and the last operation of its prologue.
#[derive(Clone, Copy)]
struct Frame {
    block: MlirBlock,
    prologue: Option<MlirOperation>,
}

/// Target features that lowering may rely on; the default is the least that every machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Scaling vectors of floats by powers of two is one instruction, and so are converting 64-bit integers to them and
    /// estimating their reciprocal square roots (AVX-512).
    pub scales_vectors: bool,
    /// The widest vector of the vector math library, in bits: 512, 256 or 128; 0 without such a library.
    pub vector_library_bits: u32,
    /// The widest vectors of the tiles that the runtime has for products of matrices and transpositions, in bits: 512 or
    /// 256; 0 without.
    pub runtime_tile_bits: u32,
    /// There are instructions for dot products of four bytes in each lane of a vector (AVX-512 VNNI).
    pub byte_dot_products: bool,
    /// There are instructions for dot products of two integers of 16 bits in each lane (AVX2).
    pub word_dot_products: bool,
    /// There are instructions for dot products of two bf16 in each lane (AVX-512 BF16), whose rounding may be used: they
    /// take subnormal numbers for zero.
    pub bf16_dot_products: bool,
    /// There are registers for tiles of matrices, and instructions that multiply tiles of bytes (AMX-INT8).
    pub byte_matrices: bool,
    /// There are such registers and instructions for bf16 (AMX-BF16), whose rounding may be used: that of `bf16_dot_products`.
    pub bf16_matrices: bool,
    /// There are instructions for arithmetic of f16 in vectors and alone (AVX-512 FP16).
    pub half_arithmetic: bool,
    /// Four warps of a GPU multiply matrices in shared memory together (`wgmma` of `sm_90a`).
    pub warp_group_matrices: bool,
    /// The machine is an NVIDIA GPU. There are instructions for the larger and the smaller of two floats that keep NaN and the
    /// order of zeros. Shifts of 64 bits look at 32 bits of their amount, where LLVM's code generator thinks that they look at
    /// the whole. What widens f16 makes all NaN the same one.
    pub is_gpu: bool,
    /// A product that is added to something need not be rounded before: one fused multiply-add, where there is one.
    pub allow_fma: bool,
}

/// Where in its block an operation is inserted.
#[derive(Clone, Copy)]
enum Place {
    End,
    Start,
    After(MlirOperation),
    Before(MlirOperation),
}

/// Appends operations to the block at the insertion point.
pub struct OpBuilder<'c> {
    context: &'c Context,
    location: Cell<Location<'c>>,
    module: Cell<MlirBlock>,
    block: Cell<MlirBlock>,
    place: Cell<Place>,
    frame: Cell<Option<Frame>>,
    machine: Cell<Machine>,
    defined: RefCell<BTreeSet<String>>,
    reassociate: OnceCell<Attribute<'c>>,
    contract: OnceCell<Attribute<'c>>,
    /// `index`.
    pub index_type: Type<'c>,
}

fn string_ref(text: &str) -> MlirStringRef {
    MlirStringRef { data: text.as_ptr().cast(), length: text.len() }
}

impl<'c> OpBuilder<'c> {
    /// Builder that appends to the body of `module`.
    pub fn new(context: &'c Context, module: &Module<'c>, location: Location<'c>) -> Self {
        OpBuilder {
            context,
            location: Cell::new(location),
            module: Cell::new(module.body().to_raw()),
            block: Cell::new(module.body().to_raw()),
            place: Cell::new(Place::End),
            frame: Cell::new(None),
            machine: Cell::new(Machine::default()),
            defined: RefCell::new(BTreeSet::new()),
            reassociate: OnceCell::new(),
            contract: OnceCell::new(),
            index_type: Type::index(context),
        }
    }

    /// Builder that inserts before an operation of a block, and has no module level of its own.
    ///
    /// # Safety
    /// The operation is live and in the block, and both stay so as long as the builder is used.
    pub(crate) unsafe fn before(
        context: &'c Context,
        location: Location<'c>,
        block: MlirBlock,
        operation: MlirOperation,
    ) -> Self {
        OpBuilder {
            context,
            location: Cell::new(location),
            module: Cell::new(block),
            block: Cell::new(block),
            place: Cell::new(Place::Before(operation)),
            frame: Cell::new(None),
            machine: Cell::new(Machine::default()),
            defined: RefCell::new(BTreeSet::new()),
            reassociate: OnceCell::new(),
            contract: OnceCell::new(),
            index_type: Type::index(context),
        }
    }

    /// The context.
    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// Sets the location of the operations created from now on; returns that of those before.
    pub fn set_location(&self, location: Location<'c>) -> Location<'c> {
        self.location.replace(location)
    }

    /// What the code may assume of the machine it runs on.
    pub fn machine(&self) -> Machine {
        self.machine.get()
    }

    /// Sets what code created from now on may assume; at first it may assume nothing.
    pub fn set_machine(&self, machine: Machine) {
        self.machine.set(machine);
    }

    /// Creates an operation at the insertion point.
    pub fn operation(
        &self,
        name: &str,
        operands: &[Value<'c>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        regions: Vec<Region<'c>>,
    ) -> Operation<'c> {
        // SAFETY: every handle belongs to this context and is live; arrays are read during the calls only;
        // regions pass to the operation, and the operation to the block.
        unsafe {
            let mut state = mlirOperationStateGet(string_ref(name), self.location.get().to_raw());
            let operands: Vec<MlirValue> = operands.iter().map(|value| value.raw).collect();
            mlirOperationStateAddOperands(&mut state, operands.len() as isize, operands.as_ptr());
            let results: Vec<_> = results.iter().map(|r#type| r#type.to_raw()).collect();
            mlirOperationStateAddResults(&mut state, results.len() as isize, results.as_ptr());
            let attributes: Vec<MlirNamedAttribute> = attributes
                .iter()
                .map(|(name, attribute)| MlirNamedAttribute {
                    name: mlirIdentifierGet(self.context.to_raw(), string_ref(name)),
                    attribute: attribute.to_raw(),
                })
                .collect();
            mlirOperationStateAddAttributes(&mut state, attributes.len() as isize, attributes.as_ptr());
            let regions: Vec<MlirRegion> = regions.into_iter().map(Region::into_raw).collect();
            mlirOperationStateAddOwnedRegions(&mut state, regions.len() as isize, regions.as_ptr());
            let operation = mlirOperationCreate(&mut state);
            self.insert(operation);
            Operation { raw: operation, context: PhantomData }
        }
    }

    /// Inserts an operation at the insertion point, which moves behind it.
    ///
    /// # Safety
    /// The operation is live, of this context, and in no block.
    pub(crate) unsafe fn insert(&self, operation: MlirOperation) {
        // SAFETY: the block is live, the operations that say where are in it, and the block takes the operation.
        unsafe {
            match self.place.get() {
                Place::End => mlirBlockAppendOwnedOperation(self.block.get(), operation),
                Place::Start => mlirBlockInsertOwnedOperation(self.block.get(), 0, operation),
                Place::After(last) => mlirBlockInsertOwnedOperationAfter(self.block.get(), last, operation),
                Place::Before(next) => mlirBlockInsertOwnedOperationBefore(self.block.get(), next, operation),
            }
        }
        if let Place::Start | Place::After(_) = self.place.get() {
            self.place.set(Place::After(operation));
        }
    }

    /// Creates an operation with one result and no regions.
    pub fn value(
        &self,
        name: &str,
        operands: &[Value<'c>],
        result: Type<'c>,
        attributes: &[(&str, Attribute<'c>)],
    ) -> Value<'c> {
        let operation = self.operation(name, operands, &[result], attributes, Vec::new());
        // SAFETY: the operation was created with one result.
        Value { raw: unsafe { mlirOperationGetResult(operation.raw, 0) }, context: PhantomData }
    }

    /// Creates an operation without results or regions.
    pub fn effect(&self, name: &str, operands: &[Value<'c>], attributes: &[(&str, Attribute<'c>)]) {
        self.operation(name, operands, &[], attributes, Vec::new());
    }

    /// A region with one block of the given arguments, filled by `body` with the insertion point inside it.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn region<E>(
        &self,
        arguments: &[Type<'c>],
        body: impl FnOnce(&Self, &[Value<'c>]) -> Result<(), E>,
    ) -> Result<Region<'c>, E> {
        self.body_region(arguments, |builder, region| body(builder, &region.parameters()))
    }

    fn body_region<E>(
        &self,
        arguments: &[Type<'c>],
        body: impl FnOnce(&Self, &Body<'c>) -> Result<(), E>,
    ) -> Result<Region<'c>, E> {
        let location = self.location.get();
        // SAFETY: types and location belong to this context; the block passes to the region.
        let (region, block) = unsafe {
            let region = mlirRegionCreate();
            let types: Vec<_> = arguments.iter().map(|r#type| r#type.to_raw()).collect();
            let locations = vec![location.to_raw(); types.len()];
            let block = mlirBlockCreate(types.len() as isize, types.as_ptr(), locations.as_ptr());
            mlirRegionAppendOwnedBlock(region, block);
            (Region { region, context: PhantomData }, block)
        };
        let outer = self.block.replace(block);
        let outer_place = self.place.replace(Place::End);
        let result = body(self, &Body { block, location });
        self.place.set(outer_place);
        self.block.set(outer);
        result.map(|()| region)
    }

    /// The region of a function, whose block is the top level for [`Self::is_at_top_level`] and
    /// [`Self::in_prologue`]; `body` may add parameters, whose types are given back with those there were.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn function_region<E>(
        &self,
        parameters: &[Type<'c>],
        body: impl FnOnce(&Self, &Body<'c>) -> Result<(), E>,
    ) -> Result<(Region<'c>, Vec<Type<'c>>), E> {
        let mut types = Vec::new();
        let outer = self.frame.get();
        let region = self.body_region(parameters, |builder, region| {
            builder.frame.set(Some(Frame { block: region.block, prologue: None }));
            let result = body(builder, region);
            types = region.parameters().into_iter().map(Value::r#type).collect();
            result
        });
        self.frame.set(outer);
        Ok((region?, types))
    }

    /// Whether the insertion point is in the block of a function: values created there are symbols for affine
    /// operations everywhere in the function.
    pub fn is_at_top_level(&self) -> bool {
        self.frame.get().is_some_and(|frame| frame.block.ptr == self.block.get().ptr)
    }

    /// Creates operations at the start of the function being written, after those that were created there before:
    /// before everything else in it. Outside of functions they are created at the insertion point.
    pub fn in_prologue<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        let Some(frame) = self.frame.get() else { return body(self) };
        let outer_block = self.block.replace(frame.block);
        let outer_place = self.place.replace(frame.prologue.map_or(Place::Start, Place::After));
        let result = body(self);
        if let Place::After(last) = self.place.replace(outer_place) {
            self.frame.set(Some(Frame { prologue: Some(last), ..frame }));
        }
        self.block.set(outer_block);
        result
    }

    /// Creates operations whose results are symbols for affine operations everywhere in the function: where the builder stands,
    /// if that is in the function's block, else in its prologue.
    pub fn as_symbols<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        if self.is_at_top_level() { body(self) } else { self.in_prologue(body) }
    }

    /// Creates operations at the end of the module: further functions, while one is being written.
    pub fn at_module_level<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        let outer_block = self.block.replace(self.module.get());
        let outer_place = self.place.replace(Place::End);
        let outer_frame = self.frame.replace(None);
        let result = body(self);
        self.frame.set(outer_frame);
        self.place.set(outer_place);
        self.block.set(outer_block);
        result
    }

    /// A region with one block that is the module's level for what `body` creates, as a nested module's is.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn module_region<E>(&self, body: impl FnOnce(&Self) -> Result<(), E>) -> Result<Region<'c>, E> {
        self.body_region(&[], |builder, region| {
            let outer = builder.module.replace(region.block);
            let result = body(builder);
            builder.module.set(outer);
            result
        })
    }

    /// `memref.alloca` with an alignment in bytes: memory that lives until the function returns.
    pub fn stack_buffer(&self, r#type: Type<'c>, alignment: i64) -> Value<'c> {
        let alignment = self.integer_attribute(self.integer_type(64), alignment);
        let no_operands = DenseI32ArrayAttribute::new(self.context, &[0, 0]).into();
        self.value("memref.alloca", &[], r#type, &[("alignment", alignment), ("operandSegmentSizes", no_operands)])
    }

    /// The first `count` of `lanes` lanes, as a vector of `i1`.
    pub fn constant_mask(&self, lanes: u32, count: i64) -> Value<'c> {
        let r#type = self.vector_type(lanes, self.integer_type(1));
        let set: Vec<i32> = (0..i64::from(lanes)).map(|lane| i32::from(lane < count)).collect();
        let value = DenseElementsAttribute::bool_values(r#type, &set).into();
        self.value("arith.constant", &[], r#type, &[("value", value)])
    }

    /// Address of a function of this module as a value of the given pointer type.
    pub fn function_pointer(
        &self,
        name: &str,
        parameters: &[Type<'c>],
        results: &[Type<'c>],
        pointer: Type<'c>,
    ) -> Value<'c> {
        let r#type: Type<'c> = FunctionType::new(self.context, parameters, results).into();
        let symbol = FlatSymbolRefAttribute::new(self.context, name).into();
        let function = self.value("func.constant", &[], r#type, &[("value", symbol)]);
        self.value("builtin.unrealized_conversion_cast", &[function], pointer, &[])
    }

    /// A region without blocks, as declarations have.
    pub fn empty_region(&self) -> Region<'c> {
        Region {
            // SAFETY: a fresh region.
            region: unsafe { mlirRegionCreate() },
            context: PhantomData,
        }
    }

    /// `func.func` with a body, which may add parameters. `attributes` are further ones, such as `arg_attrs`.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn function<E>(
        &self,
        name: &str,
        parameters: &[Type<'c>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        body: impl FnOnce(&Self, &Body<'c>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (region, parameters) = self.function_region(parameters, body)?;
        self.function_operation(name, &parameters, results, attributes, region);
        Ok(())
    }

    /// The attribute that makes a function invisible outside of its module.
    pub fn private(&self) -> (&'static str, Attribute<'c>) {
        ("sym_visibility", self.string_attribute("private"))
    }

    /// `func.func private` without a body.
    pub fn declare_function(&self, name: &str, parameters: &[Type<'c>], results: &[Type<'c>]) {
        self.function_operation(name, parameters, results, &[self.private()], self.empty_region());
    }

    /// Runs `define` with the insertion point at the end of the module, unless this builder did so for `symbol`
    /// before: declares or defines the functions that code refers to, once.
    pub fn define_once(&self, symbol: &str, define: impl FnOnce(&Self)) {
        if !self.defined.borrow_mut().insert(symbol.to_string()) {
            return;
        }
        self.at_module_level(define);
    }

    /// `#arith.fastmath<reassoc>`: operands may be grouped anew, as horizontal reductions need.
    pub fn reassociate(&self) -> Attribute<'c> {
        *self.reassociate.get_or_init(|| self.fast_math_attribute("reassoc"))
    }

    /// `#arith.fastmath<contract>`: a product need not be rounded before it is added to something.
    pub fn contract(&self) -> Attribute<'c> {
        *self.contract.get_or_init(|| self.fast_math_attribute("contract"))
    }

    fn fast_math_attribute(&self, flag: &str) -> Attribute<'c> {
        // The dialect must be loaded for its attribute to parse; the unit attribute would fail verification.
        self.context.get_or_load_dialect("arith");
        Attribute::parse(self.context, &format!("#arith.fastmath<{flag}>"))
            .unwrap_or_else(|| Attribute::unit(self.context))
    }

    /// `func.func` with a region that is there already, and further attributes.
    pub fn function_operation(
        &self,
        name: &str,
        parameters: &[Type<'c>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        region: Region<'c>,
    ) {
        let r#type = FunctionType::new(self.context, parameters, results);
        let own =
            [("sym_name", self.string_attribute(name)), ("function_type", TypeAttribute::new(r#type.into()).into())];
        let attributes = [&own, attributes].concat();
        self.operation("func.func", &[], &[], &attributes, vec![region]);
    }

    /// String attribute.
    pub fn string_attribute(&self, text: &str) -> Attribute<'c> {
        StringAttribute::new(self.context, text).into()
    }

    /// Integer attribute of the given type.
    pub fn integer_attribute(&self, r#type: Type<'c>, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(r#type, value).into()
    }

    /// Signless integer type.
    pub fn integer_type(&self, width: u32) -> Type<'c> {
        IntegerType::new(self.context, width).into()
    }

    /// One-dimensional vector type.
    pub fn vector_type(&self, lanes: u32, element: Type<'c>) -> Type<'c> {
        let shape = [i64::from(lanes)];
        // SAFETY: `element` is an integer, index or float type of this context; the shape is read during the call.
        unsafe { Type::from_raw(mlirVectorTypeGet(1, shape.as_ptr(), element.to_raw())) }
    }

    /// Static memref type without layout.
    pub fn memref_type(&self, dimensions: &[i64], element: Type<'c>) -> Type<'c> {
        MemRefType::new(element, dimensions, None, None).into()
    }

    /// `arith.constant` of an integer or index type (or a splat of it over a vector type).
    pub fn constant_integer(&self, r#type: Type<'c>, value: i64) -> Value<'c> {
        let element = self.element_type_of(r#type);
        let attribute = self.splat(r#type, IntegerAttribute::new(element, value).into());
        self.value("arith.constant", &[], r#type, &[("value", attribute)])
    }

    /// `arith.constant` of a float type (or a splat of it over a vector type); the value is rounded to the type.
    pub fn constant_float(&self, r#type: Type<'c>, value: f64) -> Value<'c> {
        let element = self.element_type_of(r#type);
        let attribute = self.splat(r#type, FloatAttribute::new(self.context, element, value).into());
        self.value("arith.constant", &[], r#type, &[("value", attribute)])
    }

    /// `arith.constant` zero of an integer, index or float type, or a vector of it.
    pub fn zero(&self, r#type: Type<'c>) -> Value<'c> {
        let element = self.element_type_of(r#type);
        if element.is_integer() || element.is_index() {
            self.constant_integer(r#type, 0)
        } else {
            self.constant_float(r#type, 0.0)
        }
    }

    /// `arith.constant` of type `index`.
    pub fn constant_index(&self, value: i64) -> Value<'c> {
        self.constant_integer(self.index_type, value)
    }

    /// `arith.constant` of a vector with the given lanes.
    pub fn constant_integers(&self, element: Type<'c>, lanes: &[i64]) -> Value<'c> {
        let r#type = self.vector_type(lanes.len() as u32, element);
        let elements: Vec<_> = lanes.iter().map(|&lane| IntegerAttribute::new(element, lane).to_raw()).collect();
        // SAFETY: a static vector type, and as many attributes of its element type as it has elements.
        let value = unsafe {
            Attribute::from_raw(mlirDenseElementsAttrGet(r#type.to_raw(), elements.len() as isize, elements.as_ptr()))
        };
        self.value("arith.constant", &[], r#type, &[("value", value)])
    }

    fn splat(&self, r#type: Type<'c>, element: Attribute<'c>) -> Attribute<'c> {
        if !r#type.is_vector() {
            return element;
        }
        // SAFETY: a static vector type and an attribute of its element type.
        unsafe { Attribute::from_raw(mlirDenseElementsAttrSplatGet(r#type.to_raw(), element.to_raw())) }
    }

    /// Element type of a vector type; other types are returned as they are.
    pub fn element_type_of(&self, r#type: Type<'c>) -> Type<'c> {
        types::vector_element(r#type).unwrap_or(r#type)
    }

    /// Lanes of a one-dimensional vector type; `None` for scalars.
    pub fn lanes_of(&self, r#type: Type<'c>) -> Option<u32> {
        if !r#type.is_vector() {
            return None;
        }
        // SAFETY: a vector type of this builder has one static dimension.
        u32::try_from(unsafe { mlir_sys::mlirShapedTypeGetDimSize(r#type.to_raw(), 0) }).ok()
    }
}
