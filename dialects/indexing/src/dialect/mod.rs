//! The `indexing` dialect of MLIR: indexing maps as the attribute `#indexing.map`.
//!
//! The dialect is declared in ODS (`td/`); what a map is is known here.

mod ffi;
mod normalize;

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Attribute;

use crate::map::IndexingMap;

/// Registers the dialect.
pub fn register(registry: &DialectRegistry) {
    ffi::dialect_handle().insert_dialect(registry);
    ffi::set_normalize_map(normalize::normalize_map);
}

/// `#indexing.map<"…">`. What run-time variables stand for is not part of it.
///
/// The context has the dialect registered.
pub fn map_attribute<'c>(context: &'c Context, map: &IndexingMap<'_>) -> Attribute<'c> {
    ffi::dialect_handle().load_dialect(context);
    ffi::map_attribute(context, &map.to_string())
}

/// The map of an attribute; `None` for other attributes.
pub fn map_of<'c>(context: &'c Context, attribute: Attribute<'c>) -> Option<IndexingMap<'c>> {
    IndexingMap::parse(context, ffi::map_text(attribute)?).ok()
}

#[cfg(test)]
mod tests {
    use mlir_ext::operations::parse_module;

    use super::*;

    fn context() -> Context {
        let registry = DialectRegistry::new();
        register(&registry);
        let context = Context::new_with_registry(&registry, false);
        context.load_all_available_dialects();
        context
    }

    #[test]
    fn attributes_and_maps_are_exchanged() {
        let context = context();
        let text = "(d0)[s0]{rt0} -> (d0 mod 3 + s0, rt0), domain: d0 in [0, 9], s0 in [0, 2], rt0 in [0, 5]";
        let map = IndexingMap::parse(&context, text).expect("parses");
        let attribute = map_attribute(&context, &map);
        assert_eq!(attribute.to_string(), format!("#indexing.map<\"{text}\">"));
        assert_eq!(map_of(&context, attribute), Some(map));
        // Spacing and other spellings do not make another attribute.
        let text = "#indexing.map<\"(d0)[s0]{rt0}->(d0%3+s0, rt0),domain:d0 in [0,9], s0 in [0,2], rt0 in [0,5]\">";
        assert_eq!(Attribute::parse(&context, text), Some(attribute));
        assert_eq!(map_of(&context, Attribute::parse(&context, "42 : i32").expect("parses")), None);
    }

    #[test]
    fn invalid_maps_are_rejected() {
        let text = "module attributes {m = #indexing.map<\"(d0) -> (d1)\">} {}";
        let diagnostics = parse_module(&context(), text).map(|_| ()).expect_err("is not valid");
        let message = &diagnostics.first().expect("one").message;
        assert!(message.contains("not an indexing map: `d1` is not a variable of the map at byte 9"), "{message}");
    }
}
