//! The attribute and the operations from text, rejected where they are wrong, and lowered.

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::operation::OperationLike;
use melior::utility::register_all_dialects;
use mlir_ext::operations::parse_module;

use super::*;

fn context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    register(&registry);
    let context = Context::new_with_registry(&registry, false);
    context.load_all_available_dialects();
    context
}

fn lowered(text: &str) -> String {
    let context = context();
    let mut module = parse_module(&context, text).expect("parses");
    lower(&context, &mut module).expect("lowers");
    assert!(module.as_operation().verify());
    module.as_operation().to_string()
}

fn rejected(text: &str) -> String {
    let diagnostics = parse_module(&context(), text).map(|_| ()).expect_err("is not valid");
    diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn attributes_and_maps_are_exchanged() {
    let context = context();
    let map: IndexingMap = "(d0)[s0]{rt0} -> (min(d0, 3) + s0, rt0), domain: d0 in [0, 9], s0 in [0, 2], rt0 in [0, 5]"
        .parse()
        .expect("parses");
    let attribute = map_attribute(&context, &map);
    assert_eq!(attribute.to_string(), format!("#indexing.map<\"{map}\">"));
    assert_eq!(map_of(attribute), Some(map));
    // Spacing and other spellings do not make another attribute.
    let text = "#indexing.map<\"(d0)[s0]{rt0}->(min(d0,3)+s0, rt0),domain:d0 in [0,9], s0 in [0,2], rt0 in [0,5]\">";
    assert_eq!(Attribute::parse(&context, text), Some(attribute));
    assert_eq!(map_of(Attribute::parse(&context, "42 : i32").expect("parses")), None);
}

#[test]
fn invalid_maps_and_operations_are_rejected() {
    let message = rejected("module attributes {m = #indexing.map<\"(d0) -> (d1)\">} {}");
    assert!(message.contains("not an indexing map: `d1` is not a variable of the map at byte 9"), "{message}");
    let function = |operation: &str| format!("func.func @f(%i: index, %f: f32) {{\n  {operation}\n  return\n}}");
    let map = "#indexing.map<\"(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 2]\">";
    let message = rejected(&function(&format!("%0 = indexing.apply {map} (%i) : index")));
    assert!(message.contains("must have 1 range variables as its map, got 0"), "{message}");
    let message = rejected(&function(&format!("%0:2 = indexing.apply {map} (%i)[%i] : index, index")));
    assert!(message.contains("must have 1 results as its map, got 2"), "{message}");
    let looped = format!("indexing.loop {map} (%i) inits(%f : f32) -> f32 {{");
    let message = rejected(&function(&format!("%0 = {looped}\n^bb0(%s: index):\n indexing.yield\n}}")));
    assert!(message.contains("must have a body of 3 arguments"), "{message}");
    let message = rejected(&function(&format!(
        "%0 = {looped}\n^bb0(%s: index, %r: index, %x: f32):\n indexing.yield %s : index\n}}"
    )));
    assert!(message.contains("must yield the types of its inits"), "{message}");
}

#[test]
fn apply_becomes_arithmetic() {
    let text = lowered(
        "func.func @f(%i: index, %s: index, %rt: index) -> (index, index) {
           %0:2 = indexing.apply #indexing.map<\"(d0)[s0]{rt0} -> ((d0 * 8 + s0) floordiv 8, d0 - rt0), domain: d0 in [0, 9], s0 in [0, 7], rt0 in [0, 5]\">(%i)[%s]{%rt} : index, index
           return %0#0, %0#1 : index, index
         }",
    );
    // The first result is d0 itself.
    assert!(!text.contains("indexing.") && !text.contains("divui") && text.contains("return %arg0"), "{text}");
    assert!(text.contains("arith.muli") && text.contains("arith.addi"), "{text}");
}

#[test]
fn loops_become_nests_with_tests() {
    let text = lowered(
        "func.func @f(%array: memref<8xf32>, %i: index, %zero: f32) -> f32 {
           %sum = indexing.loop #indexing.map<\"(d0)[s0] -> (d0 + s0 - 1), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [1, 8]\">(%i) inits(%zero : f32) -> f32 {
           ^bb0(%s0: index, %place: index, %partial: f32):
             %element = memref.load %array[%place] : memref<8xf32>
             %next = arith.addf %partial, %element : f32
             indexing.yield %next : f32
           }
           return %sum : f32
         }",
    );
    for part in ["scf.for", "scf.if", "memref.load", "arith.cmpi sge", "arith.cmpi sle"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("indexing."), "{text}");
}
