//! The passes on MLIR modules: each rule in isolation, and the whole pipeline.

use hlo::dialect;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use mlir_ext::pass_pipeline::PipelineError;
use passes::assign_buffers::{self, read_assignment};
use passes::pipeline::{self, HLO};
use passes::registry::{self, PassStatistics};

/// The text of a module after a pass, and its hits.
fn run(pass: &str, body: &str) -> (String, PassStatistics) {
    let context = dialect::context();
    let text = if body.contains("func.func") { body.to_string() } else { format!("func.func @main{body}") };
    let module = dialect::parse(&context, &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = pipeline::run(&module, &pipeline::parse(pass), true);
    let run = run.unwrap_or_else(|error| panic!("{error}\n{}", module.as_operation()));
    let mut statistics = PassStatistics::default();
    run.reports.iter().for_each(|report| statistics.merge(&report.statistics));
    assert_eq!(statistics.stopped, None);
    (operations(&module), statistics)
}

/// The lines inside of functions.
fn operations(module: &Module) -> String {
    let text = module.as_operation().to_string();
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| line.starts_with('%') || line.starts_with("return")).collect();
    lines.join("\n")
}

/// `expression` of one argument of type `argument` must become the lines `expected`; `rule` must have been used.
fn check(rule: &str, argument: &str, result: &str, before: &str, expected: &str) {
    let body = format!("(%x: {argument}) -> {result} {{\n{before}\nreturn %r : {result}\n}}");
    let (after, statistics) = run("hlo-canonicalize", &body);
    assert!(statistics.of(rule) > 0, "{rule}: {statistics}\n{after}");
    let after = after.replace("%arg0", "%x");
    assert_eq!(after.trim(), expected.trim(), "{rule}");
}

#[test]
fn identities_go() {
    let t = "tensor<2x3xf32>";
    for (rule, operation) in [
        ("same-type", "hlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        ("same-type", "hlo.copy %x : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        ("same-type", "hlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        (
            "identity-transpose",
            "hlo.transpose %x {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        (
            "identity-broadcast",
            "hlo.broadcast %x {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        (
            "identity-slice",
            "hlo.slice %x {slice = {start = array<i64: 0, 0>, limit = array<i64: 2, 3>, stride = array<i64: 1, 1>}} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        (
            "concatenate-of-one",
            "hlo.concatenate %x {dimensions = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        ("idempotent", "hlo.maximum %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"),
    ] {
        check(rule, t, t, &format!("%r = {operation}"), "return %x : tensor<2x3xf32>");
    }
}

#[test]
fn neutral_elements_go() {
    let t = "tensor<4xf32>";
    for (rule, operation, constant) in [
        ("add-of-zero", "add", "-0.0"),
        ("subtract-of-zero", "subtract", "0.0"),
        ("multiply-by-one", "multiply", "1.0"),
        ("divide-by-one", "divide", "1.0"),
        ("power-of-one", "power", "1.0"),
    ] {
        let before = format!(
            "%c = hlo.constant dense<{constant}> : {t} -> {t}\n%r = hlo.{operation} %x, %c : ({t}, {t}) -> {t}"
        );
        check(rule, t, t, &before, "return %x : tensor<4xf32>");
    }
    let t = "tensor<4xi32>";
    for (rule, operation, constant) in [
        ("add-of-zero", "add", "0"),
        ("multiply-by-one", "multiply", "1"),
        ("and-with-ones", "and", "-1"),
        ("or-with-zero", "xor", "0"),
        ("shift-by-zero", "shift_left", "0"),
    ] {
        let before = format!(
            "%c = hlo.constant dense<{constant}> : {t} -> {t}\n%r = hlo.{operation} %x, %c : ({t}, {t}) -> {t}"
        );
        check(rule, t, t, &before, "return %x : tensor<4xi32>");
    }
}

#[test]
fn inexact_neutral_elements_stay() {
    // -0.0 + 0.0 is 0.0, and 0 * NaN is NaN.
    for (operation, constant) in [("add", "0.0"), ("subtract", "-0.0"), ("multiply", "0.0")] {
        let t = "tensor<f32>";
        let body = format!(
            "(%x: {t}) -> {t} {{ %c = hlo.constant dense<{constant}> : {t} -> {t}
             %r = hlo.{operation} %x, %c : ({t}, {t}) -> {t} return %r : {t} }}"
        );
        let (after, statistics) = run("hlo-canonicalize", &body);
        assert_eq!(statistics.total(), 0, "{statistics}\n{after}");
    }
}

#[test]
fn compositions_merge() {
    check(
        "transpose-of-transpose",
        "tensor<2x3x4xf32>",
        "tensor<3x4x2xf32>",
        "%a = hlo.transpose %x {dimensions = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
         %r = hlo.transpose %a {dimensions = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>",
        "%0 = hlo.transpose %x {dimensions = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
return %0 : tensor<3x4x2xf32>",
    );
    check(
        "broadcast-of-broadcast",
        "tensor<3xf32>",
        "tensor<5x2x3xf32>",
        "%a = hlo.broadcast %x {dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
         %r = hlo.broadcast %a {dimensions = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<5x2x3xf32>",
        "%0 = hlo.broadcast %x {dimensions = array<i64: 2>} : (tensor<3xf32>) -> tensor<5x2x3xf32>
return %0 : tensor<5x2x3xf32>",
    );
    // Elements 2, 5, 8 of the first slice: 1 + 2·2, 1 + 5·2 ….
    check(
        "slice-of-slice",
        "tensor<20xf32>",
        "tensor<3xf32>",
        "%a = hlo.slice %x {slice = {start = array<i64: 1>, limit = array<i64: 20>, stride = array<i64: 2>}} : (tensor<20xf32>) -> tensor<10xf32>
         %r = hlo.slice %a {slice = {start = array<i64: 2>, limit = array<i64: 10>, stride = array<i64: 3>}} : (tensor<10xf32>) -> tensor<3xf32>",
        "%0 = hlo.slice %x {slice = {limit = array<i64: 18>, start = array<i64: 5>, stride = array<i64: 6>}} : (tensor<20xf32>) -> tensor<3xf32>
return %0 : tensor<3xf32>",
    );
    check(
        "transpose-is-reshape",
        "tensor<1x3x4xf32>",
        "tensor<3x1x4xf32>",
        "%r = hlo.transpose %x {dimensions = array<i64: 1, 0, 2>} : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32>",
        "%0 = hlo.reshape %x : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32>
return %0 : tensor<3x1x4xf32>",
    );
}

#[test]
fn small_operations_on_constants_are_evaluated() {
    check(
        "evaluate",
        "tensor<f32>",
        "tensor<2xi32>",
        "%a = hlo.constant dense<[3, 4]> : tensor<2xi32> -> tensor<2xi32>
         %b = hlo.constant dense<[10, 20]> : tensor<2xi32> -> tensor<2xi32>
         %c = hlo.multiply %a, %b : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
         %r = hlo.reverse %c {dimensions = array<i64: 0>} : (tensor<2xi32>) -> tensor<2xi32>",
        "%0 = hlo.constant dense<[80, 30]> : tensor<2xi32> -> tensor<2xi32>
return %0 : tensor<2xi32>",
    );
    check(
        "elementwise-of-splats",
        "tensor<f32>",
        "tensor<1000xf32>",
        "%a = hlo.constant dense<3.0> : tensor<1000xf32> -> tensor<1000xf32>
         %r = hlo.multiply %a, %a : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>",
        "%0 = hlo.constant dense<9.000000e+00> : tensor<f32> -> tensor<f32>
%1 = hlo.broadcast %0 {dimensions = array<i64>} : (tensor<f32>) -> tensor<1000xf32>
return %1 : tensor<1000xf32>",
    );
    check(
        "slice-at-constants",
        "tensor<8xf32>",
        "tensor<2xf32>",
        "%i = hlo.constant dense<7> : tensor<i32> -> tensor<i32>
         %r = hlo.dynamic_slice %x, %i {dynamic_slice_sizes = array<i64: 2>} : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>",
        "%0 = hlo.slice %x {slice = {limit = array<i64: 8>, start = array<i64: 6>, stride = array<i64: 1>}} : (tensor<8xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32>",
    );
}

#[test]
fn barriers_and_effects_stay() {
    let t = "tensor<f32>";
    let body = format!(
        "(%x: {t}) -> {t} {{
          %b = hlo.opt_barrier %x : ({t}) -> {t}
          %n = hlo.negate %b : ({t}) -> {t}
          %m = hlo.negate %x : ({t}) -> {t}
          %token = hlo.after_all : () -> !hlo.token
          %o = hlo.outfeed %m, %token : ({t}, !hlo.token) -> !hlo.token
          %c = hlo.custom_call %x {{custom_call_target = \"f\", custom_call_has_side_effect = true}} : ({t}) -> {t}
          %d = hlo.custom_call %x {{custom_call_target = \"g\"}} : ({t}) -> {t}
          return %n : {t} }}"
    );
    for pass in ["hlo-canonicalize", "hlo-dce"] {
        let (after, _) = run(pass, &body);
        for kept in ["opt_barrier", "outfeed", "after_all", "\"f\""] {
            assert!(after.contains(kept), "{pass}: {after}");
        }
        assert!(!after.contains("\"g\""), "{pass}: {after}");
    }
}

#[test]
fn common_subexpressions_merge_across_reductions() {
    let t = "tensor<4xf32>";
    let reduce = "(tensor<4xf32>, tensor<f32>) -> tensor<f32> {
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = hlo.add %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
          hlo.return %s : tensor<f32> }";
    let body = format!(
        "(%x: {t}) -> tensor<f32> {{
          %z = hlo.constant dense<0.0> : tensor<f32> -> tensor<f32>
          %z2 = hlo.constant dense<0.0> : tensor<f32> -> tensor<f32>
          %r1 = hlo.reduce %x, %z {{dimensions = array<i64: 0>}} : {reduce}
          %r2 = hlo.reduce %x, %z2 {{dimensions = array<i64: 0>}} : {reduce}
          %r = hlo.add %r1, %r2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
          return %r : tensor<f32> }}"
    );
    let (after, _) = run("func.func(cse)", &body);
    assert_eq!(after.matches("hlo.reduce").count(), 1, "{after}");
}

#[test]
fn dead_functions_go() {
    let (after, statistics) = run(
        "hlo-dce",
        "func.func private @dead(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
         func.func private @used(%x: tensor<f32>) -> tensor<f32> {
           %0 = hlo.negate %x : (tensor<f32>) -> tensor<f32>
           %1 = hlo.negate %0 : (tensor<f32>) -> tensor<f32>
           return %x : tensor<f32> }
         func.func @main(%x: tensor<f32>) -> tensor<f32> {
           %0 = hlo.call @used(%x) : (tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32> }",
    );
    assert_eq!((statistics.of("dead-function"), statistics.of("dead-operation")), (1, 2));
    assert!(after.contains("@used"), "{after}");
}

#[test]
fn the_pipeline_of_compilation_runs() {
    let context = dialect::context();
    let text = "func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
           %0 = hlo.negate %x : (tensor<8xf32>) -> tensor<8xf32>
           %1 = hlo.negate %0 : (tensor<8xf32>) -> tensor<8xf32>
           return %1 : tensor<8xf32> }
         func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
           %0 = hlo.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
           %1 = hlo.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
           %2 = hlo.add %0, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
           return %2 : tensor<8xf32> }";
    let module = dialect::parse(&context, text).unwrap();
    let passes = pipeline::parse(&format!("{HLO},hlo-fuse"));
    let run = pipeline::run(&module, &passes, true).unwrap();
    assert!(module.as_operation().verify());
    let graph = dialect::mlir_to_graph(&module).unwrap();
    graph.check().unwrap();
    assert_eq!(graph.functions.len(), 1);
    let seen: Vec<&str> = run.reports.iter().map(|report| report.pass).collect();
    let expected: Vec<&str> = passes.steps.iter().map(|step| step.name()).filter(|name| *name != "cse").collect();
    assert_eq!(seen, expected);
    assert_eq!((run.reports[0].pass, run.reports[0].statistics.total()), ("hlo-inline-calls", 2));
    let error = pipeline::run(&module, &pipeline::parse("cse, no-such-pass"), true).unwrap_err();
    assert!(matches!(&error, PipelineError::Malformed { message, .. } if message.contains("no-such-pass")), "{error}");
}

#[test]
fn long_chains_and_many_users_are_linear() {
    let mut body = String::from(
        "(%x: tensor<8xi32>) -> tensor<8xi32> {\n%z = hlo.constant dense<0> : tensor<8xi32> -> tensor<8xi32>\n%0 = hlo.copy %x : (tensor<8xi32>) -> tensor<8xi32>\n",
    );
    let count = 50_000;
    for index in 1..=count {
        let operand = if index % 2 == 0 { "%x".to_string() } else { format!("%{}", index - 1) };
        let line = match index % 3 {
            0 => format!("%{index} = hlo.add {operand}, %z : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>\n"),
            1 => format!("%{index} = hlo.negate {operand} : (tensor<8xi32>) -> tensor<8xi32>\n"),
            _ => format!(
                "%{index} = hlo.multiply {operand}, %{} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>\n",
                index - 1
            ),
        };
        body.push_str(&line);
    }
    body.push_str(&format!("return %{count} : tensor<8xi32>\n}}"));
    let start = std::time::Instant::now();
    let (_, statistics) = run("hlo-canonicalize", &body);
    println!("{statistics} in {:?}", start.elapsed());
    assert!(statistics.total() > 10_000);
}

/// Swaps two arrays of four numbers in a loop.
const SWAP: &str = r"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = hlo.negate %x : (tensor<4xf32>) -> tensor<4xf32>
  %t = hlo.tuple %x, %n : (tensor<4xf32>, tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  %w = hlo.while %t : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tuple<tensor<4xf32>, tensor<4xf32>> {
  ^bb0(%s: tuple<tensor<4xf32>, tensor<4xf32>>):
    %c = hlo.constant dense<false> : tensor<i1> -> tensor<i1>
    hlo.return %c : tensor<i1>
  }, {
  ^bb0(%s: tuple<tensor<4xf32>, tensor<4xf32>>):
    %a = hlo.get_tuple_element %s {index = 0 : i64} : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
    %b = hlo.get_tuple_element %s {index = 1 : i64} : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
    %r = hlo.tuple %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
    hlo.return %r : tuple<tensor<4xf32>, tensor<4xf32>>
  }
  %r = hlo.get_tuple_element %w {index = 0 : i64} : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}";

#[test]
fn places_in_memory_are_in_the_text_and_checked_where_they_are_read() {
    let context = dialect::context();
    let module = dialect::parse(&context, SWAP).unwrap_or_else(|error| panic!("{error}"));
    assign_buffers::run(module.as_operation(), true, &mut PassStatistics::default()).unwrap();
    let text = module.as_operation().to_string();
    for expected in [
        "hlo.arena_size = 48 : i64",
        "hlo.parameter_slices = [#hlo.slices<[parameter 0, 0 : 16]>]",
        "hlo.exchange_slices = #hlo.slices<[arena, ",
        "hlo.slices = #hlo.slices<[constant 0, 0 : 1]>",
        "hlo.slices = #hlo.slices<[output 0, 0 : 16]>",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let read = |text: &str| {
        let module = dialect::parse(&context, text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        read_assignment(dialect::entry_function(module.as_operation()).unwrap()).map(|(_, assignment)| assignment)
    };
    let good = read(&text).unwrap();
    assert_eq!((good.arena_size, good.constants.len()), (48, 1));
    for (from, to, message) in [
        ("hlo.arena_size = 48", "hlo.arena_size = 40", "is no place for f32[4]"),
        ("[parameter 0, 0 : 16]", "[parameter 1, 0 : 16]", "[parameter 1, 0 : 16] is no place for f32[4]"),
        ("[constant 0, 0 : 1]", "[constant 7, 0 : 1]", "numbered one after another"),
        ("[constant 0, 0 : 1]", "[output 0, 0 : 1]", "is no place for a constant"),
        ("[output 0, 0 : 16]", "none", "has no place"),
        ("hlo.parameter_slices", "hlo.other", "no `hlo.parameter_slices`"),
    ] {
        let wrong = text.replace(from, to);
        assert_ne!(wrong, text, "{from}");
        let error = read(&wrong).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\n{message}");
    }
    let wrong = text.replace("[constant 0, ", "[register 0, ");
    let error = dialect::parse(&context, &wrong).map(drop).unwrap_err().to_string();
    assert!(error.contains("`register` is no kind of buffer"), "{error}");
}

#[test]
fn names_of_passes_are_sorted_and_unique() {
    assert!(registry::all().is_sorted_by(|a, b| a.name() < b.name()));
}
