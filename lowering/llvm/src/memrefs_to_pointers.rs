//! `memrefs-to-pointers`: arrays become pointers, indices integers, and accesses the loads and stores of LLVM.
//!
//! MLIR's own conversion makes a descriptor of each memref (two pointers, an offset, sizes and strides, inserted one by
//! one), of which static shapes leave only a pointer that is ever read; and each address has constants of its own. Together
//! they would be more than half of the operations of a program. Here each constant of a function is defined once, at its
//! beginning, and values get the types that they have in LLVM, so that the conversions that follow need no casts.
//!
//! A module that does more with memrefs than the lowering of HLO does is left to MLIR's conversion.

use std::collections::HashMap;
use std::rc::Rc;

use melior::Context;
use melior::ir::attribute::{BoolAttribute, DenseI32ArrayAttribute, IntegerAttribute, TypeAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::{DimSize, FunctionType, IntegerType, MemRefType, ShapedTypeLike};
use melior::ir::{Attribute, AttributeLike, BlockLike, BlockRef, OperationRef, Type, TypeLike, ValueLike};
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::rewrite::{RewriteError, Rewriter};
use mlir_ext::{attributes, operations, types};

/// Gives the values of a module the types of LLVM; returns how many operations were replaced.
///
/// # Errors
/// [`RewriteError`] for invalid IR.
pub fn run(root: OperationRef<'_, '_>) -> Result<usize, RewriteError> {
    let rewriter = Rewriter::new(root);
    rewriter.context().get_or_load_dialect("llvm");
    let Some(arrays) = arrays(&rewriter) else { return Ok(0) };
    let mut pass = Pass {
        rewriter: &rewriter,
        types: Types::new(rewriter.context()),
        arrays,
        constants: HashMap::new(),
        entry: None,
        replaced: 0,
    };
    rewriter.operations_directly_in(root).into_iter().try_for_each(|function| pass.function(function))?;
    Ok(pass.replaced)
}

/// Elements in row-major order.
struct Array<'c> {
    element: Type<'c>,
    element_bytes: i64,
    dimensions: Vec<i64>,
}

impl<'c> Array<'c> {
    /// `None` for arrays of other layouts or unknown sizes.
    fn of(r#type: Type<'c>) -> Option<Self> {
        let memref = MemRefType::try_from(r#type).ok()?;
        let dimensions: Vec<i64> = (0..memref.rank())
            .map(|position| match memref.dim_size(position) {
                Ok(DimSize::Static(size)) => i64::try_from(size).ok(),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let array = Array { element: memref.element(), element_bytes: byte_width(memref.element())?, dimensions };
        let strides: Vec<i64> = (0..array.dimensions.len()).map(|dimension| array.stride(dimension)).collect();
        (memref.memory_space().is_none() && memref.strides_and_offset() == (strides, 0)).then_some(array)
    }

    fn stride(&self, dimension: usize) -> i64 {
        self.dimensions[dimension + 1..].iter().product()
    }

    fn elements(&self) -> i64 {
        self.dimensions.iter().product()
    }
}

/// Bytes of a scalar in memory.
fn byte_width(r#type: Type<'_>) -> Option<i64> {
    if r#type.is_index() || r#type.is_f64() {
        return Some(8);
    }
    if r#type.is_f32() {
        return Some(4);
    }
    if r#type.is_f16() || r#type.is_bf16() {
        return Some(2);
    }
    let bits = i64::from(IntegerType::try_from(r#type).ok()?.width());
    (bits % 8 == 0).then_some(bits / 8)
}

/// What becomes of the values of a type.
#[derive(Clone)]
enum Form<'c> {
    Kept,
    Integer,
    Pointer(Rc<Array<'c>>),
}

impl<'c> Form<'c> {
    /// `None` for types that have no form here.
    fn of(r#type: Type<'c>) -> Option<Self> {
        if r#type.is_mem_ref() {
            return Array::of(r#type).map(|array| Form::Pointer(Rc::new(array)));
        }
        if let Some(function) = function_type(r#type) {
            parts(function).try_for_each(|part| Form::of(part).map(drop))?;
            return Some(Form::Kept);
        }
        if r#type.is_unranked_mem_ref() || types::vector_element(r#type).is_some_and(|element| element.is_index()) {
            return None;
        }
        Some(if r#type.is_index() { Form::Integer } else { Form::Kept })
    }
}

/// The types of the parameters and of the results.
fn parts<'c>(function: FunctionType<'c>) -> impl Iterator<Item = Type<'c>> {
    let inputs = (0..function.input_count()).filter_map(move |number| function.input(number).ok());
    inputs.chain((0..function.result_count()).filter_map(move |number| function.result(number).ok()))
}

/// Whether this pass replaces operations of a name.
fn is_replaced(name: &str) -> bool {
    matches!(
        name,
        "memref.alloca"
            | "memref.copy"
            | "memref.extract_aligned_pointer_as_index"
            | "memref.load"
            | "memref.prefetch"
            | "memref.reinterpret_cast"
            | "memref.store"
            | "memref.view"
            | "scf.index_switch"
            | "vector.gather"
            | "vector.load"
            | "vector.maskedload"
            | "vector.maskedstore"
            | "vector.store"
    )
}

/// Whether operations of a name may have pointers in the place of memrefs, and integers in that of indices.
fn takes_other_types(name: &str) -> bool {
    match name.split_once('.') {
        Some(("arith" | "cf" | "func" | "llvm", _)) => true,
        Some(("scf", name)) => matches!(name, "condition" | "for" | "if" | "while" | "yield"),
        _ => name == "builtin.unrealized_conversion_cast",
    }
}

/// The arrays that operations access, by operation; `None` if something is done with memrefs or indices that has no form
/// here.
fn arrays<'c>(rewriter: &Rewriter<'c, '_>) -> Option<HashMap<usize, Rc<Array<'c>>>> {
    let mut arrays = HashMap::new();
    let mut forms: HashMap<usize, Option<Form<'c>>> = HashMap::new();
    let mut form_of = |r#type: Type<'c>| -> Option<Form<'c>> {
        forms.entry(r#type.to_raw().ptr as usize).or_insert_with(|| Form::of(r#type)).clone()
    };
    for operation in rewriter.operations() {
        let name = attributes::identifier_text(operation.name());
        let mut is_kept = true;
        let blocks = rewriter.blocks(operation);
        // The order of several blocks need not be that of definitions and uses.
        if blocks.len() > operation.region_count() || name.starts_with("memref.") && !is_replaced(name) {
            return None;
        }
        if name == "func.func" {
            form_of(operations::attribute(&operation, "function_type").and_then(attributes::r#type)?)?;
        }
        let results = operation.results().map(melior::ir::Value::from);
        for value in results.chain(blocks.iter().flat_map(|block| arguments(*block))) {
            is_kept &= matches!(form_of(value.r#type())?, Form::Kept);
        }
        if takes_other_types(name) {
            continue;
        }
        let is_replaced = is_replaced(name);
        for value in operation.operands().chain(operation.results().map(melior::ir::Value::from)) {
            match form_of(value.r#type())? {
                Form::Pointer(array) if is_replaced => {
                    arrays.entry(operation_key(operation)).or_insert(array);
                    break;
                }
                form => is_kept &= matches!(form, Form::Kept),
            }
        }
        if !is_kept && !is_replaced {
            return None;
        }
    }
    Some(arrays)
}

fn arguments<'c, 'r>(block: BlockRef<'c, 'r>) -> impl Iterator<Item = melior::ir::Value<'c, 'r>> {
    (0..block.argument_count()).filter_map(move |number| block.argument(number).ok()).map(melior::ir::Value::from)
}

/// A type as that of a function, if it is one. Asked first: the error of a conversion would be the text of the type.
fn function_type(r#type: Type<'_>) -> Option<FunctionType<'_>> {
    r#type.is_function().then(|| FunctionType::try_from(r#type).ok()).flatten()
}

/// Types and attributes of the operations that are made.
struct Types<'c> {
    context: &'c Context,
    integer: Type<'c>,
    pointer: Type<'c>,
    byte: Type<'c>,
    /// The one index of a `getelementptr` is an operand.
    operand_index: Attribute<'c>,
}

impl<'c> Types<'c> {
    fn new(context: &'c Context) -> Self {
        Types {
            context,
            integer: IntegerType::new(context, 64).into(),
            pointer: melior::dialect::llvm::r#type::pointer(context, 0),
            byte: IntegerType::new(context, 8).into(),
            operand_index: DenseI32ArrayAttribute::new(context, &[i32::MIN]).into(),
        }
    }

    fn converted(&self, r#type: Type<'c>) -> Type<'c> {
        if r#type.is_index() {
            self.integer
        } else if r#type.is_mem_ref() {
            self.pointer
        } else if let Some(function) = function_type(r#type) {
            self.function(function)
        } else {
            r#type
        }
    }

    fn function(&self, function: FunctionType<'c>) -> Type<'c> {
        let parts: Vec<Type> = parts(function).map(|part| self.converted(part)).collect();
        let (inputs, results) = parts.split_at(function.input_count());
        FunctionType::new(self.context, inputs, results).into()
    }
}

struct Pass<'c, 'r, 'm> {
    rewriter: &'r Rewriter<'c, 'm>,
    types: Types<'c>,
    /// The arrays that operations access.
    arrays: HashMap<usize, Rc<Array<'c>>>,
    /// The constants of the function by their attributes.
    constants: HashMap<usize, Value<'c>>,
    /// First block of the function.
    entry: Option<BlockRef<'c, 'r>>,
    replaced: usize,
}

fn operation_key(operation: OperationRef<'_, '_>) -> usize {
    operation.to_raw().ptr as usize
}

impl<'c, 'r> Pass<'c, 'r, '_> {
    fn function(&mut self, function: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        if attributes::identifier_text(function.name()) != "func.func" {
            return Ok(());
        }
        let r#type = operations::attribute(&function, "function_type").and_then(attributes::r#type);
        if let Some(r#type) = r#type {
            let converted = TypeAttribute::new(self.types.converted(r#type));
            self.rewriter.set_attribute(function, "function_type", converted.into());
        }
        self.constants.clear();
        for block in self.rewriter.blocks(function) {
            self.entry = Some(block);
            self.block(block)?;
        }
        Ok(())
    }

    fn block(&mut self, block: BlockRef<'c, 'r>) -> Result<(), RewriteError> {
        arguments(block).for_each(|argument| self.convert_type(argument));
        let mut next = block.first_operation();
        while let Some(operation) = next {
            next = operation.next_in_block();
            self.operation(operation)?;
        }
        Ok(())
    }

    fn convert_type(&self, value: melior::ir::Value<'c, '_>) {
        let (old, new) = (value.r#type(), self.types.converted(value.r#type()));
        if old != new {
            self.rewriter.set_type(value, new);
        }
    }

    fn operation(&mut self, operation: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        let name = attributes::identifier_text(operation.name());
        match name {
            "arith.constant" => return self.constant(operation),
            "arith.index_cast" | "arith.index_castui" => return self.index_cast(operation, name),
            "scf.index_switch" => self.index_switch(operation)?,
            _ if is_replaced(name) => return self.access(operation, name),
            _ => {}
        }
        operation.results().for_each(|result| self.convert_type(result.into()));
        self.rewriter.blocks(operation).into_iter().try_for_each(|block| self.block(block))
    }

    /// Moves a constant to the beginning of the function, unless there is an equal one.
    fn constant(&mut self, operation: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        let Some(mut value) = operations::attribute(&operation, "value") else { return Ok(()) };
        for result in operation.results().map(melior::ir::Value::from) {
            if let (true, Some(integer)) = (result.r#type().is_index(), attributes::integer(value)) {
                value = IntegerAttribute::new(self.types.integer, integer).into();
                self.rewriter.set_attribute(operation, "value", value);
                self.convert_type(result);
            }
            match self.constants.get(&(value.to_raw().ptr as usize)) {
                Some(&known) => return self.replace(operation, &[known]),
                None => _ = self.constants.insert(value.to_raw().ptr as usize, result.into()),
            }
        }
        match self.entry.and_then(|entry| entry.first_operation()) {
            Some(first) if first != operation => self.rewriter.move_before(operation, first),
            _ => Ok(()),
        }
    }

    fn integer(&mut self, value: i64) -> Result<Value<'c>, RewriteError> {
        let attribute: Attribute = IntegerAttribute::new(self.types.integer, value).into();
        let place = attribute.to_raw().ptr as usize;
        if let Some(&known) = self.constants.get(&place) {
            return Ok(known);
        }
        let first = self.entry.and_then(|entry| entry.first_operation());
        let first = first.ok_or_else(|| RewriteError::Detached("arith.constant".into()))?;
        let builder = self.rewriter.builder_before(self.rewriter.context(), first)?;
        let constant = builder.constant_integer(self.types.integer, value);
        self.constants.insert(place, constant);
        Ok(constant)
    }

    /// An index is an integer of 64 bits already.
    fn index_cast(&mut self, operation: OperationRef<'c, 'r>, name: &str) -> Result<(), RewriteError> {
        let (Some(operand), Some(result)) = (operation.operands().next(), operation.results().next()) else {
            return Ok(());
        };
        self.convert_type(result.into());
        let (from, to) = (operand.r#type(), melior::ir::Value::from(result).r#type());
        let width = |r#type: Type<'c>| IntegerType::try_from(r#type).map_or(0, |r#type| r#type.width());
        let builder = self.builder_before(operation)?;
        let value = if from == to {
            operand.into()
        } else if width(to) < width(from) {
            builder.value("arith.trunci", &[operand.into()], to, &[])
        } else {
            let name = if name == "arith.index_cast" { "arith.extsi" } else { "arith.extui" };
            builder.value(name, &[operand.into()], to, &[])
        };
        self.replace(operation, &[value])
    }

    /// Its selector must be an index.
    fn index_switch(&mut self, operation: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        let Some(selector) = operation.operands().next() else { return Ok(()) };
        let builder = self.builder_before(operation)?;
        let selector = builder.value("arith.index_cast", &[selector.into()], builder.index_type, &[]);
        self.rewriter.redirect_operand(operation, 0, selector.into())
    }

    fn access(&mut self, operation: OperationRef<'c, 'r>, name: &str) -> Result<(), RewriteError> {
        let builder = self.builder_before(operation)?;
        let array = self.arrays.get(&operation_key(operation)).cloned().ok_or_else(|| unexpected(name))?;
        let bytes = array.element_bytes;
        let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
        let result = operation.results().next().map(melior::ir::Value::from);
        let r#type = result.map(|result| self.types.converted(result.r#type()));
        let values = match (name, &operands[..], r#type) {
            ("memref.load", [memref, index @ ..], Some(r#type)) => {
                let place = self.address(&builder, &array, *memref, index)?;
                vec![builder.value("llvm.load", &[place], r#type, &[])]
            }
            ("memref.store", [value, memref, index @ ..], _) => {
                let place = self.address(&builder, &array, *memref, index)?;
                builder.effect("llvm.store", &[*value, place], &[]);
                Vec::new()
            }
            ("memref.prefetch", [memref, index @ ..], _) => {
                let place = self.address(&builder, &array, *memref, index)?;
                let attributes = self.prefetch_attributes(operation).ok_or_else(|| unexpected(name))?;
                builder.effect("llvm.intr.prefetch", &[place], &attributes);
                Vec::new()
            }
            ("vector.load", [memref, index @ ..], Some(r#type)) => {
                let place = self.address(&builder, &array, *memref, index)?;
                vec![builder.value("llvm.load", &[place], r#type, &[self.alignment(64, bytes)])]
            }
            ("vector.store", [value, memref, index @ ..], _) => {
                let place = self.address(&builder, &array, *memref, index)?;
                builder.effect("llvm.store", &[*value, place], &[self.alignment(64, bytes)]);
                Vec::new()
            }
            ("vector.maskedload", [memref, index @ .., mask, other], Some(r#type)) => {
                let place = self.address(&builder, &array, *memref, index)?;
                let operands = [place, *mask, *other];
                vec![builder.value("llvm.intr.masked.load", &operands, r#type, &[self.alignment(32, bytes)])]
            }
            ("vector.maskedstore", [memref, index @ .., mask, value], _) => {
                let place = self.address(&builder, &array, *memref, index)?;
                builder.effect("llvm.intr.masked.store", &[*value, place, *mask], &[self.alignment(32, bytes)]);
                Vec::new()
            }
            ("vector.gather", [memref, index @ .., offsets, mask, other], Some(r#type)) => {
                let place = self.address(&builder, &array, *memref, index)?;
                let places = builder.with_element_type(r#type, self.types.pointer);
                let places = self.element_pointer(&builder, array.element, place, *offsets, places);
                let operands = [places, *mask, *other];
                vec![builder.value("llvm.intr.masked.gather", &operands, r#type, &[self.alignment(32, bytes)])]
            }
            ("memref.view", [memref, offset, ..], Some(pointer)) => {
                vec![self.element_pointer(&builder, self.types.byte, *memref, *offset, pointer)]
            }
            ("memref.reinterpret_cast", [memref, ..], _) => vec![*memref],
            ("memref.extract_aligned_pointer_as_index", [memref], Some(r#type)) => {
                vec![builder.value("llvm.ptrtoint", &[*memref], r#type, &[])]
            }
            ("memref.copy", [source, target], _) => {
                let size = self.integer(array.elements() * array.element_bytes)?;
                let is_volatile = [("isVolatile", Attribute::from(BoolAttribute::new(builder.context(), false)))];
                builder.effect("llvm.intr.memcpy", &[*target, *source, size], &is_volatile);
                Vec::new()
            }
            ("memref.alloca", [], Some(pointer)) => {
                let count = self.integer(array.elements())?;
                let mut attributes = vec![("elem_type", self.element_attribute(array.element))];
                attributes.extend(operations::attribute(&operation, "alignment").map(|value| ("alignment", value)));
                vec![builder.value("llvm.alloca", &[count], pointer, &attributes)]
            }
            _ => return Err(unexpected(name)),
        };
        if let (Some(result), Some(r#type)) = (result, r#type) {
            self.rewriter.set_type(result, r#type);
        }
        self.replace(operation, &values)
    }

    /// Pointer to the element of an array at an index. What is constant of the index comes last: elements that differ in
    /// it alone share the rest, and the processor's addressing adds it for nothing.
    fn address(
        &mut self,
        builder: &OpBuilder<'c>,
        array: &Array<'c>,
        start: Value<'c>,
        index: &[Value<'c>],
    ) -> Result<Value<'c>, RewriteError> {
        let mut sum = None;
        let mut constant = 0;
        for (dimension, &index) in index.iter().enumerate() {
            let stride = array.stride(dimension);
            let (variable, offset) = Self::without_constant(index);
            constant += offset * stride;
            let Some(variable) = variable else { continue };
            let increment = match stride {
                1 => variable,
                stride => {
                    let stride = self.integer(stride)?;
                    builder.value("llvm.mul", &[variable, stride], self.types.integer, &[])
                }
            };
            sum = Some(match sum {
                None => increment,
                Some(sum) => builder.value("llvm.add", &[sum, increment], self.types.integer, &[]),
            });
        }
        let pointer = self.types.pointer;
        let mut place = sum.map_or(start, |sum| self.element_pointer(builder, array.element, start, sum, pointer));
        if constant != 0 {
            let constant = self.integer(constant)?;
            place = self.element_pointer(builder, array.element, place, constant, pointer);
        }
        Ok(place)
    }

    /// An index as a value, if it is no constant, and a constant that is added to it.
    fn without_constant(index: Value<'c>) -> (Option<Value<'c>>, i64) {
        if let Some(constant) = index.constant() {
            return (None, constant);
        }
        let sum = operations::definition(index.into())
            .filter(|definition| attributes::identifier_text(definition.name()) == "arith.addi");
        let operands: Vec<Value<'c>> = sum.iter().flat_map(|sum| sum.operands().map(Value::from)).collect();
        match operands[..] {
            [variable, added] => added.constant().map_or((Some(index), 0), |added| (Some(variable), added)),
            _ => (Some(index), 0),
        }
    }

    /// Pointer, or pointers, to elements behind one.
    fn element_pointer(
        &self,
        builder: &OpBuilder<'c>,
        element: Type<'c>,
        pointer: Value<'c>,
        offset: Value<'c>,
        result: Type<'c>,
    ) -> Value<'c> {
        let attributes =
            [("rawConstantIndices", self.types.operand_index), ("elem_type", self.element_attribute(element))];
        builder.value("llvm.getelementptr", &[pointer, offset], result, &attributes)
    }

    fn element_attribute(&self, element: Type<'c>) -> Attribute<'c> {
        TypeAttribute::new(self.types.converted(element)).into()
    }

    fn alignment(&self, bits: u32, bytes: i64) -> (&'static str, Attribute<'c>) {
        let r#type = IntegerType::new(self.types.context, bits);
        ("alignment", IntegerAttribute::new(r#type.into(), bytes).into())
    }

    /// What a prefetch is for, in LLVM's numbers.
    fn prefetch_attributes(&self, operation: OperationRef<'c, '_>) -> Option<[(&'static str, Attribute<'c>); 3]> {
        let attribute = |name| operations::attribute(&operation, name);
        let flag = |name| Some(i64::from(BoolAttribute::try_from(attribute(name)?).ok()?.value()));
        let hint = attributes::integer(attribute("localityHint")?)?;
        let r#type = IntegerType::new(self.types.context, 32).into();
        let numbers = [("rw", flag("isWrite")?), ("hint", hint), ("cache", flag("isDataCache")?)];
        Some(numbers.map(|(name, number)| (name, IntegerAttribute::new(r#type, number).into())))
    }

    fn builder_before(&self, operation: OperationRef<'c, 'r>) -> Result<OpBuilder<'c>, RewriteError> {
        self.rewriter.builder_before(self.rewriter.context(), operation)
    }

    fn replace(&mut self, operation: OperationRef<'c, 'r>, values: &[Value<'c>]) -> Result<(), RewriteError> {
        self.replaced += 1;
        self.rewriter.replace_with(operation, values)
    }
}

/// An operation that the scan before should have refused.
fn unexpected(name: &str) -> RewriteError {
    RewriteError::Operand { operation: name.to_string(), position: 0 }
}
