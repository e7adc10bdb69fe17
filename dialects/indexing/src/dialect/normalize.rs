//! The callback of MLIR's parser and verifier.

use std::ffi::c_void;
use std::panic::catch_unwind;

use melior::{Context, StringRef};
use mlir_ext::raw::{MlirStringCallback, MlirStringRef};

use super::ffi;
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
        // The text stays, the expressions do not.
        let context = Context::new_with_threading(false);
        let map = IndexingMap::parse(&context, text).map_err(|error| error.to_string())?;
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
