//! The callbacks of MLIR's parser and verifier.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use melior::StringRef;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, OperationRef, RegionLike, Type, TypeLike, ValueLike};
use mlir_ext::raw::{MlirOperation, MlirStringCallback, MlirStringRef};
use mlir_ext::{attributes, operations};

use super::{ffi, map_of};
use crate::error::Error;
use crate::map::IndexingMap;

/// Reads a map's text and writes it as maps are printed, or what is wrong with it.
pub(super) unsafe extern "C" fn normalize_map(
    text: MlirStringRef,
    write: MlirStringCallback,
    user_data: *mut c_void,
) -> bool {
    let normalized = catch_unwind(|| {
        // SAFETY: MLIR passes a string that lives during the call.
        let text = unsafe { ffi::string(text) }.ok_or_else(|| "not UTF-8".to_string())?;
        let map: IndexingMap = text.parse().map_err(|error: Error| error.to_string())?;
        Ok(map.to_string())
    });
    let result: Result<String, String> = normalized.unwrap_or_else(|_| Err("internal error in the reader".to_string()));
    let (valid, text) = match result {
        Ok(text) => (true, text),
        Err(message) => (false, message),
    };
    if let Some(write) = write {
        // SAFETY: the callback copies the text, and `user_data` is what its owner gave.
        unsafe { write(StringRef::new(&text).to_raw(), user_data) };
    }
    valid
}

/// Verifies one operation of the dialect.
pub(super) unsafe extern "C" fn verify_operation(operation: MlirOperation) -> bool {
    // SAFETY: MLIR passes an operation that lives during the call.
    let operation = unsafe { OperationRef::from_raw(operation) };
    let message = match catch_unwind(AssertUnwindSafe(|| verify(operation))) {
        Ok(Ok(())) => return true,
        Ok(Err(message)) => message,
        Err(_) => "makes the verifier fail (internal error)".to_string(),
    };
    let name = attributes::identifier_text(operation.name());
    operations::emit_error(operation.location(), &format!("`{name}` {message}"));
    false
}

fn verify(operation: OperationRef<'_, '_>) -> Result<(), String> {
    let name = attributes::identifier_text(operation.name());
    match name {
        "indexing.apply" => verify_apply(operation),
        "indexing.loop" => verify_loop(operation),
        // A yield is verified with its loop.
        _ => Ok(()),
    }
}

fn equal(what: &str, expected: usize, found: usize) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("must have {expected} {what} as its map, got {found}")) }
}

fn verify_apply(operation: OperationRef<'_, '_>) -> Result<(), String> {
    let map = map(operation)?;
    let [dims, ranges, runtimes] = segments(operation)?[..] else { return Err("must have 3 operand groups".into()) };
    equal("dimension variables", map.dims().len(), dims)?;
    equal("range variables", map.ranges().len(), ranges)?;
    equal("run-time variables", map.runtimes().len(), runtimes)?;
    equal("results", map.results().len(), operation.result_count())
}

fn verify_loop(operation: OperationRef<'_, '_>) -> Result<(), String> {
    let map = map(operation)?;
    let [dims, runtimes, inits] = segments(operation)?[..] else { return Err("must have 3 operand groups".into()) };
    equal("dimension variables", map.dims().len(), dims)?;
    equal("run-time variables", map.runtimes().len(), runtimes)?;
    let carried: Vec<Type<'_>> = operation.operands().skip(dims + runtimes).map(|value| value.r#type()).collect();
    if operation.result_count() != inits || !operation.results().map(|value| value.r#type()).eq(carried.iter().copied())
    {
        return Err("must have the types of its inits as results".into());
    }
    let region = operation.region(0).map_err(|_| "must have a body".to_string())?;
    let block = region.first_block().ok_or("must have a body")?;
    let indices = map.ranges().len() + map.results().len();
    let expected = indices + carried.len();
    if block.argument_count() != expected {
        let found = block.argument_count();
        return Err(format!(
            "must have a body of {expected} arguments (range variables, results of its map, inits), got {found}"
        ));
    }
    for position in 0..expected {
        let Ok(argument) = block.argument(position) else { continue };
        let right = match position.checked_sub(indices) {
            None => argument.r#type().is_index(),
            Some(place) => argument.r#type() == carried[place],
        };
        if !right {
            return Err(format!("has an argument of type {} at place {position} of its body", argument.r#type()));
        }
    }
    let last = block.terminator().filter(|last| attributes::identifier_text(last.name()) == "indexing.yield");
    let last = last.ok_or("must end its body with `indexing.yield`")?;
    if !last.operands().map(|value| value.r#type()).eq(carried) {
        return Err("must yield the types of its inits".into());
    }
    Ok(())
}

/// The map of an operation.
pub(super) fn map(operation: OperationRef<'_, '_>) -> Result<IndexingMap, String> {
    operations::attribute(&operation, "map").and_then(map_of).ok_or_else(|| "must have a map".into())
}

/// Numbers of operands in the operation's groups.
pub(super) fn segments(operation: OperationRef<'_, '_>) -> Result<Vec<usize>, String> {
    operations::attribute(&operation, "operandSegmentSizes")
        .and_then(attributes::segment_sizes)
        .ok_or_else(|| "must have operand groups".into())
}
