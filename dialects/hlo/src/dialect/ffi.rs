//! The dialect's C interface (`capi/HloDialect.cpp`), wrapped.

use std::sync::Once;

use melior::Context;
use melior::dialect::DialectHandle;
use melior::ir::attribute::{Attribute, AttributeLike, DictionaryAttribute};
use melior::ir::{Type, TypeLike};
use mlir_ext::raw::{MlirAttribute, MlirContext, MlirDialectHandle, MlirOperation, MlirType};

type VerifyOperation = unsafe extern "C" fn(MlirOperation) -> bool;
type VerifyCall = unsafe extern "C" fn(MlirOperation, MlirOperation) -> bool;

unsafe extern "C" {
    fn mlirGetDialectHandle__hlo__() -> MlirDialectHandle;
    fn haloHloSetVerifiers(operation: VerifyOperation, call: VerifyCall);
    fn haloHloTokenTypeGet(context: MlirContext) -> MlirType;
    fn haloHloTypeIsToken(value: MlirType) -> bool;
    fn haloHloOpaqueTypeGet(context: MlirContext) -> MlirType;
    fn haloHloTypeIsOpaque(value: MlirType) -> bool;
    fn haloHloLayoutGet(
        context: MlirContext,
        minor_to_major: MlirAttribute,
        extras: MlirAttribute,
        bounds: MlirAttribute,
    ) -> MlirAttribute;
    fn haloHloLayoutGetParameters(attribute: MlirAttribute, parameters: *mut MlirAttribute) -> bool;
    fn haloHloMappingGet(entries: MlirAttribute) -> MlirAttribute;
    fn haloHloMappingGetEntries(attribute: MlirAttribute) -> MlirAttribute;
    fn haloHloSlicesGet(context: MlirContext, fields: *const i64, count: isize) -> MlirAttribute;
    fn haloHloSlicesGetFields(attribute: MlirAttribute, fields: *mut *const i64, count: *mut isize) -> bool;
    fn haloHloElementsGetData(
        attribute: MlirAttribute,
        data: *mut *const u8,
        size: *mut isize,
        is_splat: *mut bool,
    ) -> bool;
    fn haloHloElidedElementsGet(tensor: MlirType) -> MlirAttribute;
}

/// Handle of the dialect.
pub(super) fn dialect_handle() -> DialectHandle {
    // SAFETY: the function returns a static handle.
    unsafe { DialectHandle::from_raw(mlirGetDialectHandle__hlo__()) }
}

/// Sets the verifiers of the process, once.
pub(super) fn set_verifiers(operation: VerifyOperation, call: VerifyCall) {
    static SET: Once = Once::new();
    // SAFETY: both are plain functions, and no operation of the dialect exists before the first context is made.
    SET.call_once(|| unsafe { haloHloSetVerifiers(operation, call) });
}

/// `!hlo.token`.
pub(super) fn token_type(context: &Context) -> Type<'_> {
    // SAFETY: the context is live and has the dialect loaded.
    unsafe { Type::from_raw(haloHloTokenTypeGet(context.to_raw())) }
}

/// Whether a type is `!hlo.token`.
pub(super) fn is_token(value: Type<'_>) -> bool {
    // SAFETY: the type is live.
    unsafe { haloHloTypeIsToken(value.to_raw()) }
}

/// `!hlo.opaque`.
pub(super) fn opaque_type(context: &Context) -> Type<'_> {
    // SAFETY: the context is live and has the dialect loaded.
    unsafe { Type::from_raw(haloHloOpaqueTypeGet(context.to_raw())) }
}

/// Whether a type is `!hlo.opaque`.
pub(super) fn is_opaque(value: Type<'_>) -> bool {
    // SAFETY: the type is live.
    unsafe { haloHloTypeIsOpaque(value.to_raw()) }
}

/// The parameters of `#hlo.layout`.
#[derive(Clone, Copy)]
pub(super) struct LayoutParameters<'c> {
    pub minor_to_major: Option<Attribute<'c>>,
    pub extras: Option<Attribute<'c>>,
    pub bounds: Option<Attribute<'c>>,
}

/// `#hlo.layout<…>`.
pub(super) fn layout<'c>(context: &'c Context, parameters: LayoutParameters<'c>) -> Attribute<'c> {
    let raw = |attribute: Option<Attribute<'c>>| {
        attribute.map_or(MlirAttribute { ptr: std::ptr::null() }, |attribute| attribute.to_raw())
    };
    // SAFETY: the context is live and has the dialect loaded; null stands for an absent parameter.
    unsafe {
        Attribute::from_raw(haloHloLayoutGet(
            context.to_raw(),
            raw(parameters.minor_to_major),
            raw(parameters.extras),
            raw(parameters.bounds),
        ))
    }
}

/// The parameters of a layout attribute, if this is one.
pub(super) fn layout_parameters(attribute: Attribute<'_>) -> Option<LayoutParameters<'_>> {
    let mut parameters = [MlirAttribute { ptr: std::ptr::null() }; 3];
    // SAFETY: the attribute and the three places for the answer are live.
    if !unsafe { haloHloLayoutGetParameters(attribute.to_raw(), parameters.as_mut_ptr()) } {
        return None;
    }
    // SAFETY: the parameters belong to the attribute, which lives as long as the context.
    let [minor_to_major, extras, bounds] = parameters.map(|raw| unsafe { Attribute::from_option_raw(raw) });
    Some(LayoutParameters { minor_to_major, extras, bounds })
}

/// `#hlo.mapping<…>` of a dictionary.
pub(super) fn mapping(entries: DictionaryAttribute<'_>) -> Attribute<'_> {
    // SAFETY: the dictionary is live, and its context has the dialect loaded.
    unsafe { Attribute::from_raw(haloHloMappingGet(entries.to_raw())) }
}

/// The dictionary of a mapping attribute, if this is one.
pub(super) fn mapping_entries(attribute: Attribute<'_>) -> Option<Attribute<'_>> {
    // SAFETY: the attribute is live, and its dictionary lives as long.
    unsafe { Attribute::from_option_raw(haloHloMappingGetEntries(attribute.to_raw())) }
}

/// `#hlo.slices<…>`: four numbers an entry, of which the first is below the number of kinds of buffers.
pub(super) fn slices<'c>(context: &'c Context, fields: &[[i64; 4]]) -> Attribute<'c> {
    let fields = fields.as_flattened();
    // SAFETY: the context is live and has the dialect loaded; MLIR copies the numbers.
    unsafe { Attribute::from_raw(haloHloSlicesGet(context.to_raw(), fields.as_ptr(), fields.len() as isize)) }
}

/// The numbers of a slices attribute, if this is one.
pub(super) fn slices_fields<'c>(attribute: Attribute<'c>) -> Option<&'c [i64]> {
    let mut fields = std::ptr::null();
    let mut count = 0;
    // SAFETY: the attribute and the places for the answer are live.
    if !unsafe { haloHloSlicesGetFields(attribute.to_raw(), &raw mut fields, &raw mut count) } {
        return None;
    }
    if fields.is_null() {
        return Some(&[]);
    }
    // SAFETY: the numbers belong to the attribute, which lives as long as the context.
    Some(unsafe { std::slice::from_raw_parts(fields, count as usize) })
}

/// Bytes of an elements attribute as MLIR stores them.
pub(super) enum ElementsData<'c> {
    /// One element for all.
    Splat(&'c [u8]),
    /// All elements; `i1` packed in bits from the lowest.
    Full(&'c [u8]),
    /// All elements of a resource; `i1` in bytes.
    Resource(&'c [u8]),
    /// A resource without data.
    Missing,
}

/// Data of a dense or dense-resource elements attribute; `None` for attributes of other kinds.
pub(super) fn elements_data<'c>(attribute: Attribute<'c>) -> Option<ElementsData<'c>> {
    let mut data = std::ptr::null();
    let mut size = 0;
    let mut is_splat = false;
    // SAFETY: the attribute and the places for the answer are live.
    if !unsafe { haloHloElementsGetData(attribute.to_raw(), &raw mut data, &raw mut size, &raw mut is_splat) } {
        return None;
    }
    if data.is_null() {
        return Some(if attribute.is_dense_elements() { ElementsData::Full(&[]) } else { ElementsData::Missing });
    }
    // SAFETY: the data belongs to the attribute, which lives as long as the context.
    let bytes = unsafe { std::slice::from_raw_parts(data, size as usize) };
    Some(match attribute.is_dense_elements() {
        true if is_splat => ElementsData::Splat(bytes),
        true => ElementsData::Full(bytes),
        false => ElementsData::Resource(bytes),
    })
}

/// `dense_resource<__elided__>` of a tensor type; `None` for other types.
pub(super) fn elided_elements(tensor: Type<'_>) -> Option<Attribute<'_>> {
    // SAFETY: the type is live and, where it is used, a tensor.
    tensor.is_ranked_tensor().then(|| unsafe { Attribute::from_raw(haloHloElidedElementsGet(tensor.to_raw())) })
}
