//! The callbacks of MLIR's verifier: the rules of [`crate::ops`] on operations of the dialect.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use melior::ir::operation::OperationLike;
use melior::ir::r#type::TupleType;
use melior::ir::{BlockLike, OperationRef, RegionLike, ValueLike};
use mlir_ext::raw::MlirOperation;
use mlir_ext::{attributes, operations};

use super::attributes::value_of;
use super::error::DialectError;
use super::literals::outline_of;
use super::to_graph::kind_of;
use super::types::{self, DefaultLayout};
use crate::attributes::{AttributeForm, AttributeValue, Attributes};
use crate::op_kind::OpKind;
use crate::ops::{self, OpView};
use crate::shape::{ProgramShape, Shape};

/// Verifies one operation but `hlo.call`.
pub(super) unsafe extern "C" fn verify_operation(operation: MlirOperation) -> bool {
    // SAFETY: MLIR passes an operation that lives during the call.
    let operation = unsafe { OperationRef::from_raw(operation) };
    report(operation, || check(operation, computation_signatures(operation)?))
}

/// Verifies a call against the function it names.
pub(super) unsafe extern "C" fn verify_call(call: MlirOperation, callee: MlirOperation) -> bool {
    // SAFETY: MLIR passes an operation that lives during the call.
    let call = unsafe { OperationRef::from_raw(call) };
    // SAFETY: the callee is null or an operation that lives during the call.
    let callee = unsafe { OperationRef::from_option_raw(callee) };
    report(call, || {
        let signature = callee
            .and_then(|callee| operations::attribute(&callee, "function_type"))
            .and_then(attributes::r#type)
            .ok_or_else(|| DialectError::invalid("the called function does not exist"))?;
        check(call, vec![types::program_shape(DefaultLayout::Absent, signature)?])
    })
}

fn report(operation: OperationRef<'_, '_>, verify: impl FnOnce() -> Result<(), DialectError>) -> bool {
    let message = match catch_unwind(AssertUnwindSafe(verify)) {
        Ok(Ok(())) => return true,
        Ok(Err(DialectError::Invalid { message, .. })) => message,
        Ok(Err(error @ DialectError::Diagnostics(_))) => error.to_string(),
        Err(panic) => format!("internal error in the verifier: {}", panic_text(&*panic)),
    };
    operations::emit_error(operation.location(), &message);
    false
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}

fn check(operation: OperationRef<'_, '_>, computations: Vec<ProgramShape>) -> Result<(), DialectError> {
    let default = DefaultLayout::Absent;
    let kind = kind_of(operation)?;
    if kind == OpKind::GetTupleElement && is_element(operation) == Some(true) {
        return Ok(());
    }
    let operands: Vec<Shape> =
        operation.operands().map(|operand| types::shape_of(default, operand.r#type())).collect::<Result<_, _>>()?;
    let operands: Vec<&Shape> = operands.iter().collect();
    let result = operation.results().next().ok_or_else(|| DialectError::invalid("an operation has one result"))?;
    let result = types::shape_of(default, result.r#type())?;
    let mut values = Attributes::new();
    for spec in ops::definition(kind).attributes.specs {
        if let Some(attribute) = operations::attribute(&operation, spec.name) {
            let value = match spec.form {
                // Constants may be large, and their rules concern the shape alone.
                AttributeForm::Literal => AttributeValue::Literal(outline_of(default, attribute, &result)?),
                form => value_of(default, form, attribute, &result)?,
            };
            values.set(spec.name, value);
        }
    }
    let view =
        OpView { kind, operands: &operands, attributes: &values, computations: &computations, result: Some(&result) };
    ops::verify(&view).map_err(|error| DialectError::invalid(error.to_string()))
}

/// Whether the result of a `get-tuple-element` is, by its type, the element it names. Decided without a look at the
/// other elements: with one such operation for each of them, reading all would take quadratic time.
fn is_element(operation: OperationRef<'_, '_>) -> Option<bool> {
    let operand = operation.operands().next().filter(|_| operation.operand_count() == 1)?;
    let tuple = TupleType::try_from(operand.r#type()).ok()?;
    let index = operations::attribute(&operation, "index").and_then(attributes::integer)?;
    let element = tuple.r#type(usize::try_from(index).ok()?).ok()?;
    Some(operation.results().next()?.r#type() == element)
}

/// Signatures of the regions. MLIR verifies an operation before what is in its regions, so these may be malformed.
fn computation_signatures(operation: OperationRef<'_, '_>) -> Result<Vec<ProgramShape>, DialectError> {
    let default = DefaultLayout::Absent;
    let mut signatures = Vec::with_capacity(operation.region_count());
    for region in operation.regions() {
        let block = region.first_block().filter(|block| block.next_in_region().is_none());
        let block = block.ok_or_else(|| DialectError::invalid("a computation must have exactly one block"))?;
        let result = block
            .terminator()
            .filter(|last| attributes::identifier_text(last.name()) == "hlo.return")
            .and_then(|last| last.operands().next())
            .ok_or_else(|| DialectError::invalid("a computation must end in `hlo.return`"))?;
        signatures.push(ProgramShape {
            parameters: (0..block.argument_count())
                .filter_map(|index| block.argument(index).ok())
                .map(|argument| types::shape_of(default, argument.r#type()))
                .collect::<Result<_, _>>()?,
            result: types::shape_of(default, result.r#type())?,
        });
    }
    Ok(signatures)
}
