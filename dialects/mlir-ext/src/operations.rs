//! Checked access to operations beyond melior's: attributes without error values, diagnostics, parsing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use melior::ir::{
    Attribute, BlockLike, BlockRef, Location, Module, Operation, OperationRef, Value, ValueLike,
    operation::OperationRefMut,
};
use melior::{Context, ContextRef, StringRef};
use mlir_sys::{
    MlirContext, mlirEmitError, mlirOpPrintingFlagsPrintNameLocAsPrefix, mlirOpResultGetOwner,
    mlirOperationGetAttributeByName, mlirOperationGetContext, mlirOperationRemoveFromParent, mlirValueIsAOpResult,
};

use crate::diagnostics::{self, Diagnostic, Severity};

/// Attribute of an operation by name, inherent or discardable.
pub fn attribute<'c: 'a, 'a>(operation: &impl OperationLike<'c, 'a>, name: &str) -> Option<Attribute<'c>> {
    // SAFETY: the operation is live; MLIR copies nothing from the name.
    unsafe {
        Attribute::from_option_raw(mlirOperationGetAttributeByName(operation.to_raw(), StringRef::new(name).to_raw()))
    }
}

/// The context of an operation, for as long as the context lives.
pub fn context_of<'c: 'a, 'a>(operation: &impl OperationLike<'c, 'a>) -> &'c Context {
    // SAFETY: the operation is live, and its context lives for `'c`.
    context(unsafe { ContextRef::from_raw(mlirOperationGetContext(operation.to_raw())) })
}

/// The context that a module, type, value or location names, for as long as the context lives.
///
/// melior's own conversion of a [`ContextRef`] refers to the place where that reference is kept, such as a local
/// variable, instead of the context.
pub fn context<'c>(reference: ContextRef<'c>) -> &'c Context {
    thread_local! {
        /// The context that this thread asked for last, and the place of its reference: threads mostly have one.
        static LAST: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }
    // SAFETY: the place that the reference is kept in is this frame's, and used here only.
    let raw = unsafe { reference.to_ref() }.to_raw();
    let address = raw.ptr as usize;
    let (last, mut place) = LAST.get();
    if last != address {
        place = place_of(raw);
        LAST.set((address, place));
    }
    // SAFETY: the place holds a reference and is never freed, and the context lives for `'c`.
    unsafe { (*(place as *const ContextRef<'c>)).to_ref() }
}

/// The address of a reference to a context; the same for the same context.
fn place_of(context: MlirContext) -> usize {
    static PLACES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    *places.entry(context.ptr as usize).or_insert_with(|| {
        // SAFETY: the context is live; one that is made at the same address later has the same reference.
        let reference: &ContextRef = Box::leak(Box::new(unsafe { ContextRef::from_raw(context) }));
        std::ptr::from_ref(reference) as usize
    })
}

/// The operation that a value is a result of; `None` for block arguments.
pub fn definition<'c, 'a>(value: Value<'c, 'a>) -> Option<OperationRef<'c, 'a>> {
    // SAFETY: the value is live, and is asked for its owner only if it is a result.
    unsafe {
        mlirValueIsAOpResult(value.to_raw()).then(|| OperationRef::from_raw(mlirOpResultGetOwner(value.to_raw())))
    }
}

/// Moves an operation of a block to the end of another block, which may be another module's of the same context.
pub fn move_to_end<'c, 'a>(operation: OperationRef<'c, '_>, block: BlockRef<'c, 'a>) -> OperationRefMut<'c, 'a> {
    // SAFETY: the operation is live; taken out of its block, it is owned here until the other block owns it.
    unsafe {
        mlirOperationRemoveFromParent(operation.to_raw());
        block.append_operation(Operation::from_raw(operation.to_raw()));
        OperationRefMut::from_raw(operation.to_raw())
    }
}

/// How an operation is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// With locations, so that the text says everything.
    pub locations: bool,
    /// Values are named after their locations where these have names.
    pub names: bool,
    /// Elements attributes of more elements than this are left out.
    pub elide_above: Option<usize>,
    /// In the generic form, which every dialect shares.
    pub generic: bool,
}

/// Text of an operation.
pub fn print<'c: 'a, 'a>(operation: &impl OperationLike<'c, 'a>, options: PrintOptions) -> String {
    operation.to_string_with_flags(printing_flags(options)).unwrap_or_default()
}

/// MLIR's flags for the options.
pub(crate) fn printing_flags(options: PrintOptions) -> OperationPrintingFlags {
    let mut flags = OperationPrintingFlags::new().enable_debug_info(options.locations, false);
    if let Some(limit) = options.elide_above {
        flags = flags.elide_large_elements_attributes(limit);
    }
    if options.generic {
        flags = flags.print_generic_operation_form();
    }
    if options.names {
        // SAFETY: the flags are live.
        unsafe { mlirOpPrintingFlagsPrintNameLocAsPrefix(flags.to_raw()) };
    }
    flags
}

/// Emits an error at a location to the context's diagnostic handlers.
pub fn emit_error(location: Location<'_>, message: &str) {
    let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
    // SAFETY: the location is live and the message is a C string.
    unsafe { mlirEmitError(location.to_raw(), message.as_ptr()) };
}

/// How deep brackets may nest in text: MLIR's parser recurses on the C++ stack.
const BRACKET_LIMIT: usize = 256;

/// Parses a module and verifies it.
///
/// # Errors
/// MLIR's diagnostics, with positions in `text`.
pub fn parse_module<'c>(context: &'c Context, text: &str) -> Result<Module<'c>, Vec<Diagnostic>> {
    let refuse = |message: String| {
        Err(vec![Diagnostic { severity: Severity::Error, location: String::new(), message, notes: Vec::new() }])
    };
    if text.contains('\0') {
        return refuse("the text contains a NUL character".into());
    }
    let code = without_strings_and_comments(text);
    if bracket_depth(&code) > BRACKET_LIMIT {
        return refuse(format!("brackets nest deeper than {BRACKET_LIMIT}"));
    }
    if has_array_of_index(&code) {
        return refuse(
            "`array<index …>` is no attribute: the elements of an array are integers and floats of whole bytes".into(),
        );
    }
    let (module, diagnostics) = diagnostics::collect(context, || Module::parse(context, text));
    module.ok_or(diagnostics)
}

/// The text with blanks for what is in strings and comments.
fn without_strings_and_comments(text: &str) -> Vec<u8> {
    let mut code = text.as_bytes().to_vec();
    let mut position = 0;
    while position < code.len() {
        let rest = &code[position..];
        let length = if rest[0] == b'"' {
            let mut is_escaped = true;
            let end = rest.iter().position(|&byte| {
                let is_end = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                is_end
            });
            end.map_or(rest.len(), |end| end + 1)
        } else if rest.starts_with(b"//") {
            rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
        } else {
            position += 1;
            continue;
        };
        code[position..position + length].fill(b' ');
        position += length;
    }
    code
}

/// Deepest nesting of brackets. Angle brackets, which are also arrows and comparisons, count on their own.
fn bracket_depth(code: &[u8]) -> usize {
    let (mut depth, mut angles, mut deepest) = (0usize, 0usize, 0usize);
    for byte in code {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'<' => angles += 1,
            b'>' => angles = angles.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth).max(angles);
    }
    deepest
}

/// Whether there is a dense array of `index`, for whose width MLIR's parser asks although it has none.
fn has_array_of_index(code: &[u8]) -> bool {
    let is_index = |rest: &[u8]| {
        let rest = rest.trim_ascii_start().strip_prefix(b"<");
        let rest = rest.and_then(|rest| rest.trim_ascii_start().strip_prefix(b"index"));
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    code.windows(5).enumerate().any(|(place, word)| word == b"array" && is_index(&code[place + 5..]))
}

/// Verifies an operation and everything in it.
///
/// # Errors
/// MLIR's diagnostics.
pub fn verify<'c: 'a, 'a>(operation: &impl OperationLike<'c, 'a>) -> Result<(), Vec<Diagnostic>> {
    let (valid, diagnostics) = diagnostics::collect_in(operation.context(), || operation.verify());
    if valid { Ok(()) } else { Err(diagnostics) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_text_is_refused_and_text_within_the_limit_parses() {
        let context = Context::new();
        context.set_allow_unregistered_dialects(true);
        let tuples = |depth: usize| format!("\"a.b\"() : () -> {}i32{}", "tuple<".repeat(depth), ">".repeat(depth));
        let regions = |depth: usize| format!("{}{}", "\"a.b\"() ({\n".repeat(depth), "}) : () -> ()\n".repeat(depth));
        let lists = |depth: usize| format!("\"a.b\"() {{x = {}{}}} : () -> ()", "[".repeat(depth), "]".repeat(depth));
        let too_deep = |text: String| {
            let diagnostics = parse_module(&context, &text).map(|_| ()).unwrap_err();
            assert!(diagnostics[0].message.contains("nest deeper"), "{diagnostics:?}");
        };
        too_deep(tuples(100_000));
        too_deep(regions(100_000));
        too_deep(lists(100_000));
        assert!(parse_module(&context, &tuples(BRACKET_LIMIT - 10)).is_ok());
        assert!(parse_module(&context, &regions(BRACKET_LIMIT / 2 - 10)).is_ok());
        assert!(parse_module(&context, &lists(BRACKET_LIMIT - 10)).is_ok());
        let code = without_strings_and_comments("f(a) -> b \"((((\\\"((\" // (((\n [x < y, {z > 1 -> 2}]");
        assert_eq!(bracket_depth(&code), 2);
    }

    /// Found by mutation: MLIR's parser ends the process.
    #[test]
    fn arrays_of_index_are_refused() {
        let context = Context::new();
        let read = |attribute: &str| {
            parse_module(&context, &format!("module attributes {{test.a = {attribute}}} {{}}")).is_ok()
        };
        assert!(!read("array<index>") && !read("array < index: 1, 2>"));
        assert!(read("array<i64: 1>") && read("array<i64>") && read("\"array<index>\""));
    }
}
