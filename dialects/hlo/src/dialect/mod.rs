//! The `hlo` dialect of MLIR and its bridge to the graph.
//!
//! The dialect is declared in ODS (`td/`). [`graph_to_mlir`] and [`mlir_to_graph`] are inverse to each other, also
//! across printing with debug information and parsing again; without debug information names are made up. MLIR's
//! verifier applies the same rules as the graph's: those in [`crate::ops`].

mod annotations;
mod attributes;
mod error;
mod ffi;
mod from_graph;
mod literals;
mod locations;
mod mapping;
pub mod ods;
mod slices;
mod to_graph;
mod types;
mod verifier;

use melior::Context;
use melior::dialect::DialectHandle;
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, BlockLike, Module, OperationRef, RegionLike, Type, ValueLike};
use mlir_ext::{attributes as builtin, operations};

pub use mlir_ext::operations::PrintOptions;

pub use self::error::DialectError;
pub use self::from_graph::{
    function_like, graph_to_mlir, instruction_to_operation, new_operation, new_operation_with, new_return,
    update_signature,
};
pub use self::locations::{instruction_location, name_of, renamed};
pub use self::mapping::{mapping_attribute, mapping_of};
pub use self::slices::{slices_attribute, slices_of};
pub use self::to_graph::{
    Snapshot, functions_in_call_order, input_output_aliases, mlir_to_graph, operation_to_instruction, single_block,
    snapshot, symbol_of,
};

use self::types::DefaultLayout;
use crate::attributes::Attributes;
use crate::devices::DeviceCount;
use crate::literal::{ArrayLiteral, Literal};
use crate::op_kind::OpKind;
use crate::shape::{ProgramShape, Shape};

pub use crate::ENTRY_SYMBOL;

/// Attribute of a module: which results take the place of arguments in memory.
pub const INPUT_OUTPUT_ALIASES: &str = "hlo.input_output_aliases";

/// Attribute of a module whose entry's signature passes may change: the type of the signature that the program
/// declares.
pub const PROGRAM_SHAPE: &str = "hlo.program_shape";

/// How deep computations may nest.
const NESTING_LIMIT: usize = 200;

/// Devices that the header of a program's module names.
pub fn device_count(module: OperationRef<'_, '_>) -> DeviceCount {
    DeviceCount::of_annotations(&annotations::annotations_of(|name| operations::attribute(&module, name), None))
}

/// A context with the dialects `hlo` and `func` loaded, `indexing` and those of [`mlir_ext::dialects`] registered. It does not
/// use threads.
pub fn context() -> Context {
    let registry = mlir_ext::dialects::registry();
    ffi::dialect_handle().insert_dialect(&registry);
    indexing::dialect::register(&registry);
    let context = Context::new_with_registry(&registry, false);
    DialectHandle::func().load_dialect(&context);
    ffi::dialect_handle().load_dialect(&context);
    ffi::set_verifiers(verifier::verify_operation, verifier::verify_call);
    context
}

/// Parses the MLIR text of a module and verifies it.
///
/// # Errors
/// [`DialectError::Diagnostics`].
pub fn parse<'c>(context: &'c Context, text: &str) -> Result<Module<'c>, DialectError> {
    operations::parse_module(context, text).map_err(DialectError::Diagnostics)
}

/// MLIR text of a module. With `locations` it reads back as the same graph; with `names` its values have the names of
/// the instructions.
pub fn print(module: &Module<'_>, options: PrintOptions) -> String {
    operations::print(&module.as_operation(), options)
}

/// Verifies a module: MLIR's rules and those of [`crate::ops`].
///
/// # Errors
/// [`DialectError::Diagnostics`].
pub fn verify(module: &Module<'_>) -> Result<(), DialectError> {
    operations::verify(&module.as_operation()).map_err(DialectError::Diagnostics)
}

/// The entry function of a module.
///
/// # Errors
/// [`DialectError::Invalid`] when there is none.
pub fn entry_function<'c, 'a>(module: OperationRef<'c, 'a>) -> Result<OperationRef<'c, 'a>, DialectError> {
    // SAFETY: the reference is used while the module, which outlives `'a`, keeps its body.
    let body = unsafe { module.to_ref() }.regions().next().and_then(|region| region.first_block());
    let mut next = body.and_then(|body| body.first_operation());
    while let Some(operation) = next {
        if operations::attribute(&operation, "sym_name").and_then(builtin::string) == Some(ENTRY_SYMBOL) {
            return Ok(operation);
        }
        next = operation.next_in_block();
    }
    Err(DialectError::invalid(format!("the module has no function `@{ENTRY_SYMBOL}`")))
}

/// Kind of an operation of the dialect; `None` for others.
pub fn kind_of(operation: OperationRef<'_, '_>) -> Option<OpKind> {
    to_graph::kind_of(operation).ok()
}

/// The attributes that the definition of an operation of this kind declares.
///
/// # Errors
/// [`DialectError::Invalid`] for attributes or types of other forms.
pub fn attributes_of(operation: OperationRef<'_, '_>, kind: OpKind) -> Result<Attributes, DialectError> {
    let result = operation.results().next().ok_or_else(|| DialectError::invalid("an operation has one result"))?;
    let result = shape_of(result.r#type())?;
    to_graph::attributes_of(DefaultLayout::Absent, operation, kind, &result)
}

/// The one value, as a scalar, of all elements of an array constant. Looks at the way the value is stored only, so an
/// array that was built element by element may not be recognised.
pub fn splat_of(constant: OperationRef<'_, '_>) -> Option<ArrayLiteral> {
    operations::attribute(&constant, "value").and_then(literals::splat_of)
}

/// MLIR type of a shape; layouts become encodings.
///
/// # Errors
/// [`DialectError::Invalid`] for a negative size.
pub fn type_of<'c>(context: &'c Context, shape: &Shape) -> Result<Type<'c>, DialectError> {
    types::type_of(context, DefaultLayout::Absent, shape)
}

/// Function type of a signature.
///
/// # Errors
/// Those of [`type_of`].
pub fn signature_type<'c>(context: &'c Context, signature: &ProgramShape) -> Result<Type<'c>, DialectError> {
    types::function_type(context, DefaultLayout::Absent, signature)
}

/// Signature of a function type.
///
/// # Errors
/// [`DialectError::Invalid`] for other types, and for a function that has not one result.
pub fn signature_of(value: Type<'_>) -> Result<ProgramShape, DialectError> {
    types::program_shape(DefaultLayout::Absent, value)
}

/// Elements attribute of an array, or array attribute of a tuple.
///
/// # Errors
/// Those of [`type_of`].
pub fn literal_attribute<'c>(context: &'c Context, literal: &Literal) -> Result<Attribute<'c>, DialectError> {
    literals::attribute_of(context, DefaultLayout::Absent, literal)
}

/// Literal of a shape that [`literal_attribute`] made an attribute of.
///
/// # Errors
/// [`DialectError::Invalid`] for attributes of other forms.
pub fn literal_of(attribute: Attribute<'_>, shape: &Shape) -> Result<Literal, DialectError> {
    literals::literal_of(DefaultLayout::Absent, attribute, shape)
}

/// Shape of an MLIR type.
///
/// # Errors
/// [`DialectError::Invalid`] for a type that HLO values do not have.
pub fn shape_of(value: Type<'_>) -> Result<Shape, DialectError> {
    types::shape_of(DefaultLayout::Absent, value)
}
