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
use melior::ir::r#type::{FunctionType, IntegerType, MemRefType};
use melior::ir::{self, Attribute, AttributeLike, BlockLike, Location, Module, Type, TypeLike, ValueLike};
use mlir_sys::{
    MlirBlock, MlirNamedAttribute, MlirOperation, MlirRegion, MlirStringRef, MlirValue, mlirBlockAppendOwnedOperation,
    mlirBlockCreate, mlirBlockGetArgument, mlirBlockInsertOwnedOperation, mlirBlockInsertOwnedOperationAfter,
    mlirBlockInsertOwnedOperationBefore, mlirDenseElementsAttrSplatGet, mlirIdentifierGet, mlirIdentifierStr,
    mlirOpResultGetOwner, mlirOperationCreate, mlirOperationGetName, mlirOperationGetResult,
    mlirOperationStateAddAttributes, mlirOperationStateAddOperands, mlirOperationStateAddOwnedRegions,
    mlirOperationStateAddResults, mlirOperationStateGet, mlirRegionAppendOwnedBlock, mlirRegionCreate,
    mlirValueGetType, mlirValueIsAOpResult, mlirVectorTypeGet,
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
    /// Result `index`; the caller gave the operation at least that many result types.
    pub fn result(self, index: usize) -> Value<'c> {
        // SAFETY: the operation is live, and `index` is below the number of result types it was created with.
        Value { raw: unsafe { mlirOperationGetResult(self.raw, index as isize) }, context: PhantomData }
    }

    /// The first `count` results.
    pub fn results(self, count: usize) -> Vec<Value<'c>> {
        (0..count).map(|index| self.result(index)).collect()
    }
}

/// A region with one block, not yet owned by an operation.
pub struct Region<'c> {
    region: MlirRegion,
    block: MlirBlock,
    context: PhantomData<&'c Context>,
}

impl<'c> Region<'c> {
    /// Argument `index` of the block; the caller created it with at least that many argument types.
    pub fn argument(&self, index: usize) -> Value<'c> {
        // SAFETY: the block is live and has more than `index` arguments.
        Value { raw: unsafe { mlirBlockGetArgument(self.block, index as isize) }, context: PhantomData }
    }
}

/// The start of a function's block, where operations can still be added after later ones exist.
pub struct Prologue<'c> {
    block: MlirBlock,
    last: Cell<Option<MlirOperation>>,
    context: PhantomData<&'c Context>,
}

/// What emission may choose by; the default is the least that every machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Scaling vectors of floats by powers of two is one instruction (AVX-512).
    pub scales_vectors: bool,
    /// The widest vector of the vector math library, in bits: 512, 256 or 128; 0 without such a library.
    pub vector_library_bits: u32,
    /// A product that is added to something need not be rounded before: one fused multiply-add, where there is one.
    pub contracts_products: bool,
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
    count: Cell<usize>,
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
            count: Cell::new(0),
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
            count: Cell::new(0),
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

    /// Location of the operations created from now on.
    pub fn set_location(&self, location: Location<'c>) {
        self.location.set(location);
    }

    /// What the code may assume of the machine it runs on.
    pub fn machine(&self) -> Machine {
        self.machine.get()
    }

    /// Sets what code created from now on may assume; at first it may assume nothing.
    pub fn set_machine(&self, machine: Machine) {
        self.machine.set(machine);
    }

    /// How many operations this builder has created: a measure of code size.
    pub fn operation_count(&self) -> usize {
        self.count.get()
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
        self.count.set(self.count.get() + 1);
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
            let regions: Vec<MlirRegion> = regions.iter().map(|region| region.region).collect();
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
        self.operation(name, operands, &[result], attributes, Vec::new()).result(0)
    }

    /// Creates an operation without results or regions.
    pub fn effect(&self, name: &str, operands: &[Value<'c>], attributes: &[(&str, Attribute<'c>)]) {
        self.operation(name, operands, &[], attributes, Vec::new());
    }

    /// A region with one block of the given arguments, filled by `body` with the insertion point inside it.
    pub fn region(&self, arguments: &[Type<'c>], body: impl FnOnce(&Self, &Region<'c>)) -> Region<'c> {
        // SAFETY: types and location belong to this context; the block passes to the region.
        let region = unsafe {
            let region = mlirRegionCreate();
            let types: Vec<_> = arguments.iter().map(|r#type| r#type.to_raw()).collect();
            let locations = vec![self.location.get().to_raw(); types.len()];
            let block = mlirBlockCreate(types.len() as isize, types.as_ptr(), locations.as_ptr());
            mlirRegionAppendOwnedBlock(region, block);
            Region { region, block, context: PhantomData }
        };
        let outer = self.block.replace(region.block);
        let outer_place = self.place.replace(Place::End);
        body(self, &region);
        self.place.set(outer_place);
        self.block.set(outer);
        region
    }

    /// Creates operations at the end of the module: further functions, while one is being written.
    pub fn at_module_level<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        let outer_block = self.block.replace(self.module.get());
        let outer_place = self.place.replace(Place::End);
        let result = body(self);
        self.place.set(outer_place);
        self.block.set(outer_block);
        result
    }

    /// A region with one block that is the module's level for what `body` creates, as a nested module's is.
    pub fn module_region(&self, body: impl FnOnce(&Self)) -> Region<'c> {
        self.region(&[], |builder, region| {
            let outer = builder.module.replace(region.block);
            body(builder);
            builder.module.set(outer);
        })
    }

    /// `memref.alloca` with an alignment in bytes: memory that lives until the function returns.
    pub fn stack_buffer(&self, r#type: Type<'c>, alignment: i64) -> Value<'c> {
        let alignment = self.integer_attribute(self.integer_type(64), alignment);
        let no_operands = DenseI32ArrayAttribute::new(self.context, &[0, 0]).into();
        self.value("memref.alloca", &[], r#type, &[("alignment", alignment), ("operandSegmentSizes", no_operands)])
    }

    /// `llvm.alloca` of `count` elements of a type, as a pointer.
    pub fn stack_pointers(&self, count: i64, pointer: Type<'c>) -> Value<'c> {
        let count = self.constant_integer(self.integer_type(64), count);
        self.value("llvm.alloca", &[count], pointer, &[("elem_type", TypeAttribute::new(pointer).into())])
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

    /// Number of elements of a static memref type.
    pub fn memref_size(&self, r#type: Type<'c>) -> i64 {
        // SAFETY: a memref type of this builder has static dimensions.
        unsafe {
            let rank = mlir_sys::mlirShapedTypeGetRank(r#type.to_raw());
            (0..rank).map(|dimension| mlir_sys::mlirShapedTypeGetDimSize(r#type.to_raw(), dimension as isize)).product()
        }
    }

    /// The start of the block at the insertion point.
    pub fn prologue(&self) -> Prologue<'c> {
        Prologue { block: self.block.get(), last: Cell::new(None), context: PhantomData }
    }

    /// Creates operations at the end of a prologue: before everything else in its block.
    pub fn in_prologue<T>(&self, prologue: &Prologue<'c>, body: impl FnOnce(&Self) -> T) -> T {
        let outer_block = self.block.replace(prologue.block);
        let outer_place = self.place.replace(prologue.last.get().map_or(Place::Start, Place::After));
        let result = body(self);
        if let Place::After(last) = self.place.replace(outer_place) {
            prologue.last.set(Some(last));
        }
        self.block.set(outer_block);
        result
    }

    /// A region without blocks, as declarations have.
    pub fn empty_region(&self) -> Region<'c> {
        Region {
            // SAFETY: a fresh region; the null block is never used.
            region: unsafe { mlirRegionCreate() },
            block: MlirBlock { ptr: std::ptr::null_mut() },
            context: PhantomData,
        }
    }

    /// `func.func` with a body; `body` gets the region whose arguments are the parameters.
    pub fn function(
        &self,
        name: &str,
        parameters: &[Type<'c>],
        results: &[Type<'c>],
        private: bool,
        body: impl FnOnce(&Self, &Region<'c>),
    ) {
        let region = self.region(parameters, body);
        self.function_operation(name, parameters, results, private, region);
    }

    /// `func.func private` without a body.
    pub fn declare_function(&self, name: &str, parameters: &[Type<'c>], results: &[Type<'c>]) {
        self.function_operation(name, parameters, results, true, self.empty_region());
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

    fn function_operation(
        &self,
        name: &str,
        parameters: &[Type<'c>],
        results: &[Type<'c>],
        private: bool,
        region: Region<'c>,
    ) {
        let r#type = FunctionType::new(self.context, parameters, results);
        let mut attributes = vec![
            ("sym_name", self.string_attribute(name)),
            ("function_type", TypeAttribute::new(r#type.into()).into()),
        ];
        if private {
            attributes.push(("sym_visibility", self.string_attribute("private")));
        }
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

    /// `arith.constant` of type `index`.
    pub fn constant_index(&self, value: i64) -> Value<'c> {
        self.constant_integer(self.index_type, value)
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
        if !r#type.is_vector() {
            return r#type;
        }
        // SAFETY: a vector type is a shaped type with an element type.
        unsafe { Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(r#type.to_raw())) }
    }

    /// Lanes of a one-dimensional vector type; `None` for scalars.
    pub fn lanes_of(&self, r#type: Type<'c>) -> Option<u32> {
        if !r#type.is_vector() {
            return None;
        }
        // SAFETY: a vector type of this builder has one static dimension.
        u32::try_from(unsafe { mlir_sys::mlirShapedTypeGetDimSize(r#type.to_raw(), 0) }).ok()
    }

    /// `scf.for`: `body` gets the induction variable and the carried values and returns the next ones.
    pub fn for_loop(
        &self,
        lower: Value<'c>,
        upper: Value<'c>,
        step: Value<'c>,
        initial: &[Value<'c>],
        body: impl FnOnce(&Self, Value<'c>, &[Value<'c>]) -> Vec<Value<'c>>,
    ) -> Vec<Value<'c>> {
        let types: Vec<Type<'c>> = initial.iter().map(|value| value.r#type()).collect();
        let mut arguments = vec![lower.r#type()];
        arguments.extend(&types);
        let region = self.region(&arguments, |builder, region| {
            let carried: Vec<Value<'c>> = (0..types.len()).map(|index| region.argument(index + 1)).collect();
            let next = body(builder, region.argument(0), &carried);
            builder.effect("scf.yield", &next, &[]);
        });
        let mut operands = vec![lower, upper, step];
        operands.extend(initial);
        self.operation("scf.for", &operands, &types, &[], vec![region]).results(types.len())
    }

    /// `scf.if` with results; both branches return values of the given types.
    pub fn if_else(
        &self,
        condition: Value<'c>,
        types: &[Type<'c>],
        then_branch: impl FnOnce(&Self) -> Vec<Value<'c>>,
        else_branch: impl FnOnce(&Self) -> Vec<Value<'c>>,
    ) -> Vec<Value<'c>> {
        let branch = |body: Vec<Value<'c>>, builder: &Self| builder.effect("scf.yield", &body, &[]);
        let then_region = self.region(&[], |builder, _| branch(then_branch(builder), builder));
        let else_region = self.region(&[], |builder, _| branch(else_branch(builder), builder));
        self.operation("scf.if", &[condition], types, &[], vec![then_region, else_region]).results(types.len())
    }

    /// `scf.if` without results or else branch.
    pub fn if_then(&self, condition: Value<'c>, then_branch: impl FnOnce(&Self)) {
        let then_region = self.region(&[], |builder, _| {
            then_branch(builder);
            builder.effect("scf.yield", &[], &[]);
        });
        let else_region = self.empty_region();
        self.operation("scf.if", &[condition], &[], &[], vec![then_region, else_region]);
    }

    /// `scf.while` whose state lives in memory: `condition` returns an `i1`, `body` runs while it is true.
    pub fn while_loop(&self, condition: impl FnOnce(&Self) -> Value<'c>, body: impl FnOnce(&Self)) {
        let before = self.region(&[], |builder, _| {
            let condition = condition(builder);
            builder.effect("scf.condition", &[condition], &[]);
        });
        let after = self.region(&[], |builder, _| {
            body(builder);
            builder.effect("scf.yield", &[], &[]);
        });
        self.operation("scf.while", &[], &[], &[], vec![before, after]);
    }
}
