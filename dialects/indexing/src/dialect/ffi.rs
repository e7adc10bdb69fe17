//! The dialect's C interface (`capi/IndexingDialect.h`), wrapped.

use std::ffi::c_void;
use std::sync::Once;

use melior::dialect::DialectHandle;
use melior::ir::attribute::{Attribute, AttributeLike};
use melior::{Context, StringRef};
use mlir_ext::raw::{MlirAttribute, MlirContext, MlirDialectHandle, MlirStringCallback, MlirStringRef};

type NormalizeMap = unsafe extern "C" fn(MlirStringRef, MlirStringCallback, *mut c_void) -> bool;

unsafe extern "C" {
    fn mlirGetDialectHandle__indexing__() -> MlirDialectHandle;
    fn haloIndexingSetNormalizeMap(normalize: NormalizeMap);
    fn haloIndexingMapGet(context: MlirContext, text: MlirStringRef) -> MlirAttribute;
    fn haloIndexingAttributeIsMap(attribute: MlirAttribute) -> bool;
    fn haloIndexingMapGetText(map: MlirAttribute) -> MlirStringRef;
}

/// Handle of the dialect.
pub(super) fn dialect_handle() -> DialectHandle {
    // SAFETY: the function returns a static handle.
    unsafe { DialectHandle::from_raw(mlirGetDialectHandle__indexing__()) }
}

/// Sets the callback of the process, once.
pub(super) fn set_normalize_map(normalize: NormalizeMap) {
    static SET: Once = Once::new();
    // SAFETY: it is a plain function, and nothing of the dialect exists before it is registered.
    SET.call_once(|| unsafe { haloIndexingSetNormalizeMap(normalize) });
}

/// `#indexing.map` of a map's text.
pub(super) fn map_attribute<'c>(context: &'c Context, text: &str) -> Attribute<'c> {
    // SAFETY: the context is live and has the dialect loaded; MLIR copies the text.
    unsafe { Attribute::from_raw(haloIndexingMapGet(context.to_raw(), StringRef::new(text).to_raw())) }
}

/// The text of a map attribute, if this is one.
pub(super) fn map_text<'c>(attribute: Attribute<'c>) -> Option<&'c str> {
    let raw = attribute.to_raw();
    // SAFETY: the attribute is live, asked for its text only if it is a map, and lives as long as the context.
    unsafe { haloIndexingAttributeIsMap(raw).then(|| string(haloIndexingMapGetText(raw))).flatten() }
}

/// A string of MLIR's as text; `None` if it is not UTF-8.
///
/// # Safety
/// The string must be alive for `'a`.
pub(super) unsafe fn string<'a>(string: MlirStringRef) -> Option<&'a str> {
    if string.length == 0 {
        return Some("");
    }
    // SAFETY: the caller answers for the lifetime; a string that is not empty has a valid pointer.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(string.data.cast::<u8>(), string.length) }).ok()
}
