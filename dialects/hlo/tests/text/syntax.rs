//! Each feature of the text, read and written back.

use hlo::attributes::{AttributeValue, PaddingDimension, ReplicaGroups, SliceDimension, WindowDimension};
use hlo::graph::{Instruction, Module};
use hlo::op_kind::OpKind;
use hlo::text::{TextOptions, print, print_with, read};

fn module(text: &str) -> Module {
    read(text).unwrap_or_else(|errors| panic!("{}", errors.render("test.hlo", text)))
}

/// The module of `text`, which must print as itself.
fn same(text: &str) -> Module {
    let module = module(text);
    assert_eq!(print(&module).trim(), text.trim());
    module
}

/// The module of `text`, which must be equal when printed and read again.
fn fixpoint(text: &str) -> Module {
    let first = module(text);
    let printed = print(&first);
    assert_eq!(module(&printed), first, "{printed}");
    assert_eq!(print(&module(&printed)), printed);
    first
}

/// The module of an entry computation with these lines.
fn entry(lines: &str) -> Module {
    fixpoint(&format!("HloModule m\n\nENTRY e {{\n{lines}\n}}\n"))
}

fn root(module: &Module) -> &Instruction {
    module.entry().root()
}

#[test]
fn long_form_prints_as_itself() {
    same(
        r#"HloModule axpy, is_scheduled=true, entry_computation_layout={(f32[], f32[2,4]{1,0}, f32[2,4]{1,0})->f32[2,4]{1,0}}, replica_count=2, num_partitions=4, frontend_attributes={a="b"}

ENTRY %axpy.v5 (alpha: f32[], x: f32[2,4], y: f32[2,4]) -> f32[2,4] {
  %alpha = f32[] parameter(0)
  %broadcast = f32[2,4]{1,0} broadcast(%alpha), dimensions={}
  %x = f32[2,4]{1,0} parameter(1)
  %multiply = f32[2,4]{1,0} multiply(%broadcast, %x)
  %y = f32[2,4]{1,0} parameter(2)
  ROOT %add = f32[2,4]{1,0} add(%multiply, %y)
}, execution_thread="main"
"#,
    );
}

#[test]
fn short_form_prints_as_itself() {
    let text = "HloModule m, entry_computation_layout={(f32[8]{0})->f32[]}

add {
  lhs = f32[] parameter(0)
  rhs = f32[] parameter(1)
  ROOT add = f32[] add(lhs, rhs)
}

ENTRY e {
  x = f32[8]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add
}
";
    assert_eq!(print_with(&module(text), TextOptions::SHORT).trim(), text.trim());
}

#[test]
fn operand_shapes_are_read_and_printed() {
    let text = "HloModule m

ENTRY %e (p: (f32[2], s32[])) -> f32[2] {
  %p = (f32[2]{0}, s32[]) parameter(0)
  ROOT %g = f32[2]{0} get-tuple-element((f32[2]{0}, s32[]) %p), index=0
}
";
    let options = TextOptions { operand_shapes: true, ..TextOptions::LONG };
    assert_eq!(print_with(&module(text), options).trim(), text.trim());
}

#[test]
fn tables_and_metadata_survive() {
    let module = same(
        r#"HloModule m, entry_computation_layout={()->pred[]}

FileNames
1 "<embedded \"module\">"
2 "experimental/module.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=153 end_line=153 column=2 end_column=31}
2 {file_name_id=2 function_name_id=1 line=35 end_line=35 column=2 end_column=24}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}


ENTRY %c () -> pred[] {
  ROOT %constant = pred[] constant(true), metadata={op_type="const" op_name="\"it\'s not a problem\n\"" source_file="a{b" source_line=68 stack_frame_id=1}, backend_config="foo\" } bar"
}
"#,
    );
    assert_eq!(module.sources.file_names[0], "<embedded \"module\">");
    assert_eq!(module.sources.file_locations[1].end_column, 24);
    assert_eq!(module.sources.stack_frames[1].parent, 1);
    assert_eq!(root(&module).annotation("backend_config"), Some(r#""foo\" } bar""#));
    let short = print_with(&module, TextOptions::SHORT);
    assert!(!short.contains("FileNames") && !short.contains("metadata"), "{short}");
}

#[test]
fn header_attributes() {
    let module = same(
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {0,1}, must-alias) }, \
         buffer_donor={ (2, {}) }, entry_computation_layout={(f32[4]{0}, ((s32[], f32[2,3]{0,1:T(8,128)}), f32[]), \
         f32[])->(f32[4]{0}, f32[2,3]{1,0})}, allow_spmd_sharding_propagation_to_parameters={true,false}, \
         some_new_key={x = [1, {2}] : \"a}\"}\n\n\
         ENTRY %e (a: f32[4], b: ((s32[], f32[2,3]), f32[]), c: f32[]) -> (f32[4], f32[2,3]) {\n  \
         %a = f32[4]{0} parameter(0)\n  \
         %b = ((s32[], f32[2,3]{0,1:T(8,128)}), f32[]) parameter(1)\n  \
         %c = f32[] parameter(2)\n  \
         %g = (s32[], f32[2,3]{0,1:T(8,128)}) get-tuple-element(%b), index=0\n  \
         %h = f32[2,3]{1,0} get-tuple-element(%g), index=1\n  \
         ROOT %t = (f32[4]{0}, f32[2,3]{1,0}) tuple(%a, %h)\n}\n",
    );
    assert_eq!(module.input_output_aliases.len(), 2);
    assert_eq!(module.input_output_aliases[1].parameter_index, [0, 1]);
    assert!(module.input_output_aliases[1].must_alias);
    assert_eq!(module.entry_layout.as_ref().map(|layout| layout.parameters.len()), Some(3));
    assert!(module.annotations.iter().any(|(key, value)| key == "some_new_key" && value.ends_with("\"a}\"}")));
}

#[test]
fn a_text_without_header_is_named_after_its_entry() {
    let module = module("ENTRY main { ROOT x = f32[] parameter(0) }");
    assert_eq!((module.name.as_str(), module.entry().name.as_str()), ("main", "main"));
    assert_eq!(self::module("HloModule named:\nENTRY e { ROOT x = f32[] parameter(0) }").name, "named");
}

#[test]
fn computations_in_any_order() {
    fixpoint(
        "HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  s = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  ROOT c = f32[] call(s), to_apply=later
}
later {
  p = f32[] parameter(0)
  ROOT c = f32[] call(p), to_apply=even_later
}
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
even_later { ROOT p = f32[] parameter(0) }",
    );
}

#[test]
fn the_last_instruction_is_the_root_when_none_is_marked() {
    let module = entry("a = f32[] parameter(0)\nb = f32[] negate(a)");
    assert_eq!(root(&module).name, "b");
    let module = entry("a = f32[] parameter(0)\nROOT c = f32[] negate(a)\nb = f32[] abs(c)");
    assert_eq!(root(&module).name, "c");
}

#[test]
fn comments_stand_anywhere() {
    fixpoint(
        "// a file\nHloModule m, /* here */ is_scheduled=true // and here\n\n/* before */ ENTRY e /* x */ (p: f32[2] /* ( */) -> \
         f32[2] { // open {\n  p = /*index=0*/ f32[2]{0} parameter(0) // p\n  c = f32[2]{0} constant({1, /* ) } */ 2}) // )\n  \
         ROOT r = f32[2] add(/*index=0*/p, /* , */ c) /* ; */ , metadata={op_name=\"x\" /* } */} // end\n} // }\n// last",
    );
}

#[test]
fn layouts_of_every_kind() {
    for layout in [
        "{1,0}",
        "{0,1}",
        "{1,0:T(8,128)}",
        "{1,0:T(8,128)(2,1)S(1)}",
        "{1,0:T(8,128)(2,1)E(4)S(1)}",
        "{1,0:S(2)}",
        "{1,0:D(D,C)}",
        "{1,0:D(D,C)#(u32)*(u8)}",
        "{1,0:T(*,128)}",
        "{1,0:L(64)S(3)}",
        "{1,0:SC(1:200,400)}",
        "{1,0:D(D,C)P((f32[2]{0}, u32[]))}",
        "{1,0:M(8)}",
    ] {
        let text = format!(
            "HloModule m\n\nENTRY %e (p: f32[2,4]) -> f32[2,4] {{\n  ROOT %p = f32[2,4]{layout} parameter(0)\n}}\n"
        );
        same(&text);
    }
    entry("p = f32[]{} parameter(0)");
    let module = entry("p = f32 [ 2, 3 ] {0,1 : T(8,128) S(1)} parameter(0)");
    assert_eq!(root(&module).shape.to_string(), "f32[2,3]{0,1:T(8,128)S(1)}");
    same("HloModule m\n\nENTRY %e (p: u32[]) -> u32[] {\n  ROOT %p = u32[]{:S(2)} parameter(0)\n}\n");
}

#[test]
fn shapes_of_every_kind() {
    for (signature, shape) in [
        ("()", "()"),
        ("(f32[], (s32[2], ()), token[])", "(f32[], (s32[2]{0}, ()), token[])"),
        ("token[]", "token[]"),
        ("opaque[]", "opaque[]"),
        ("f32[<=10,20]", "f32[<=10,20]{1,0}"),
        ("f32[?,<=5]", "f32[?,<=5]{1,0}"),
        ("f32[0,4611686018427387904]", "f32[0,4611686018427387904]"),
        (
            "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
            "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
        ),
    ] {
        if shape.contains("4611686018427387904") {
            continue;
        }
        same(&format!(
            "HloModule m\n\nENTRY %e (p: {signature}) -> {signature} {{\n  ROOT %p = {shape} parameter(0)\n}}\n"
        ));
    }
    for element in [
        "pred",
        "s2",
        "s4",
        "s8",
        "s16",
        "s32",
        "s64",
        "u2",
        "u4",
        "u8",
        "u16",
        "u32",
        "u64",
        "f4e2m1fn",
        "f8e3m4",
        "f8e4m3",
        "f8e4m3fn",
        "f8e4m3b11fnuz",
        "f8e4m3fnuz",
        "f8e5m2",
        "f8e5m2fnuz",
        "f8e8m0fnu",
        "bf16",
        "f16",
        "f32",
        "f64",
        "c64",
        "c128",
    ] {
        entry(&format!("p = {element}[2,3]{{1,0}} parameter(0)"));
    }
}

#[test]
fn attributes_of_every_form() {
    let module = entry(
        "p = f32[3,3,512]{2,1,0} parameter(0)\nROOT s = f32[1,2,256] slice(p), slice={[0:1], [0:3:2],[ 0 : 512:2 ]}",
    );
    let slice = |start, limit, stride| SliceDimension { start, limit, stride };
    assert_eq!(root(&module).attributes.slice(), [slice(0, 1, 1), slice(0, 3, 2), slice(0, 512, 2)]);

    let module =
        entry("p = f32[3,4]{1,0} parameter(0)\nz = f32[] constant(0)\nROOT s = f32[5,9] pad(p, z), padding=1_1x-1_0_2");
    let padding = |low, high, interior| PaddingDimension { low, high, interior };
    assert_eq!(root(&module).attributes.padding(), [padding(1, 1, 0), padding(-1, 0, 2)]);

    let module = entry(
        "x = f32[1,16,16,4]{3,2,1,0} parameter(0)\nw = f32[3,3,4,8]{3,2,1,0} parameter(1)\n\
         ROOT c = f32[1,8,15,8] convolution(x, w), window={size=3x3 stride=2x1 pad=0_1x-1_2 rhs_dilate=1x1 rhs_reversal=0x1}, \
         dim_labels=b01f_01io->b01f, operand_precision={highest,default}, feature_group_count=1",
    );
    let expected = [
        WindowDimension { stride: 2, padding_high: 1, ..WindowDimension::new(3) },
        WindowDimension { padding_low: -1, padding_high: 2, reversal: true, ..WindowDimension::new(3) },
    ];
    assert_eq!(root(&module).attributes.window(), expected);
    let words = AttributeValue::Words(vec!["highest".into(), "default".into()]);
    assert_eq!(root(&module).attributes.get("operand_precision"), Some(&words));

    let module = entry(
        "k = u64[2]{0} parameter(0)\nROOT r = (u64[2]{0}, u32[4]{0}) rng-bit-generator(k), algorithm=rng_three_fry",
    );
    assert_eq!(root(&module).attributes.word("algorithm"), Some("rng_three_fry"));

    let module = entry(
        "a = f32[2]{0} parameter(0)\nb = f32[2]{0} parameter(1)\nROOT r = pred[2]{0} compare(a, b), direction=LT, type=TOTALORDER",
    );
    assert_eq!(root(&module).attributes.word("direction"), Some("LT"));
    assert_eq!(root(&module).attributes.word("type"), Some("TOTALORDER"));

    let module = entry(
        "x = f32[2,2,2,2]{3,2,1,0} parameter(0)\ns = f32[2]{0} parameter(1)\n\
         ROOT r = f32[2,2,2,2]{3,2,1,0} batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=3",
    );
    assert_eq!(root(&module).attributes.float("epsilon"), Some(0.001));
}

#[test]
fn dimension_labels_with_unnamed_dimensions() {
    let module = same(
        "HloModule m

ENTRY %e (x: f32[1,2,8,8,4], w: f32[3,1,3,4,8]) -> f32[1,6,6,1,8] {
  %x = f32[1,2,8,8,4]{4,3,2,1,0} parameter(0)
  %w = f32[3,1,3,4,8]{4,3,2,1,0} parameter(1)
  ROOT %c = f32[1,6,6,1,8]{4,3,2,1,0} custom-call(%x, %w), window={size=3x3}, dim_labels=b?01f_0?1io->b01?f, feature_group_count=2, custom_call_target=\"t\"
}
",
    );
    let dimensions = root(&module).attributes.convolution_dimensions().expect("dimensions");
    assert_eq!(dimensions.input_spatial, [2, 3]);
    assert_eq!(dimensions.kernel_spatial, [0, 2]);
    assert_eq!((dimensions.output_batch, dimensions.output_feature), (0, 4));
    // Twelve spatial dimensions: labels of two digits.
    let labels = "b01234567891011f";
    let sizes = ["1"; 14].join(",");
    let module = entry(&format!(
        "x = f32[{sizes}] parameter(0)\nROOT c = f32[{sizes}] custom-call(x, x), \
         dim_labels={labels}_01234567891011io->{labels}, custom_call_target=\"t\""
    ));
    let dimensions = root(&module).attributes.convolution_dimensions().expect("dimensions");
    assert_eq!(dimensions.input_spatial, (1..13).collect::<Vec<i64>>());
}

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";

#[test]
fn replica_groups_explicit_and_iota() {
    for (text, groups) in [
        ("{}", vec![]),
        ("{{0,1},{2,3}}", vec![vec![0, 1], vec![2, 3]]),
        ("{ {0, 1}, {2,3} }", vec![vec![0, 1], vec![2, 3]]),
        ("[2,4]<=[8]", vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]),
    ] {
        let module = fixpoint(&format!(
            "HloModule m, replica_count=8\n{ADD}\nENTRY e {{ x = f32[8]{{0}} parameter(0)\n ROOT r = f32[8]{{0}} all-reduce(x), \
             channel_id=1, replica_groups={text}, use_global_device_ids=true, to_apply=add }}"
        ));
        let found = root(&module).attributes.replica_groups().map(ReplicaGroups::groups);
        assert_eq!(found, Some(groups), "{text}");
    }
    let module = entry(
        "x = f32[8]{0} parameter(0)\nROOT r = f32[8]{0} collective-permute(x), source_target_pairs={{0,1},{1,2}}",
    );
    let pairs = AttributeValue::IntLists(vec![vec![0, 1], vec![1, 2]]);
    assert_eq!(root(&module).attributes.get("source_target_pairs"), Some(&pairs));
}

#[test]
fn custom_calls() {
    let module = same(
        r#"HloModule m, entry_computation_layout={(f32[2,3]{0,1})->(f32[2,3]{0,1}, s32[])}

ENTRY %e (p: f32[2,3]) -> (f32[2,3], s32[]) {
  %p = f32[2,3]{0,1} parameter(0)
  ROOT %c = (f32[2,3]{0,1}, s32[]) custom-call(%p), custom_call_target="foo\"bar", operand_layout_constraints={f32[2,3]{0,1}}, custom_call_has_side_effect=true, literal=s32[2]{0} {1, 2}, output_to_operand_aliasing={{0}: (0, {})}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, sharding={{maximal device=0}, {replicated}}, frontend_attributes={a="x,y}",b={n = 1 : i32, t = dense<1> : tensor<i32>}}, metadata={op_name="n"}, backend_config={uplo = 76 : ui8}
}
"#,
    );
    assert_eq!(root(&module).attributes.word("custom_call_target"), Some("foo\"bar"));
    assert_eq!(root(&module).attributes.word("literal"), Some("s32[2]{0} {1, 2}"));
    assert_eq!(root(&module).annotation("backend_config"), Some("{uplo = 76 : ui8}"));
    assert_eq!(root(&module).annotation("sharding"), Some("{{maximal device=0}, {replicated}}"));
    for literal in ["f32[] 0.1", "( s32[4]{0} {4, 128, 128, 3}, pred[4]{0} {1, 0, 0, 0} )", "{1, 2}"] {
        let module = entry(&format!(
            "ROOT c = f32[] custom-call(), custom_call_target='a b', literal={literal}, backend_config={{\"a\":[1,{{}}],\"b\":\"}}\"}}"
        ));
        assert_eq!(root(&module).attributes.word("literal"), Some(literal));
        assert_eq!(root(&module).attributes.word("custom_call_target"), Some("a b"));
    }
}

#[test]
fn called_computations_of_every_kind() {
    let scalars = "
neg { x = f32[] parameter(0) ROOT n = f32[] negate(x) }
id { x = f32[] parameter(0) ROOT n = f32[] copy(x) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
test { x = f32[] parameter(0) z = f32[] constant(9) ROOT c = pred[] compare(x, z), direction=LT }";
    let text = |line: &str| {
        format!(
            "HloModule m\n{ADD}\n{scalars}\nENTRY e {{ x = f32[] parameter(0)\n y = f32[4,4]{{1,0}} parameter(1)\n \
             i = s32[] parameter(2)\n p = pred[] parameter(3)\n ROOT r = {line} }}"
        )
    };
    for (line, names) in [
        ("f32[] call(x), to_apply=neg", vec![]),
        ("f32[] while(x), condition=test, body=%neg", vec!["test", "neg"]),
        ("f32[] while(x), body=neg, condition=%test", vec!["test", "neg"]),
        ("f32[] conditional(p, x, x), true_computation=neg, false_computation=id", vec!["neg", "id"]),
        ("f32[] conditional(i, x, x, x), branch_computations={%neg, %id, neg}", vec!["neg", "id", "neg"]),
        ("f32[] fusion(x), kind=kLoop, calls=%neg", vec!["neg"]),
        ("f32[] custom-call(x), custom_call_target=\"t\", called_computations={%neg, id}", vec!["neg", "id"]),
        ("f32[4,4]{1,0} select-and-scatter(y, y, x), window={size=1x1}, select=ge, scatter=%add", vec!["ge", "add"]),
        ("f32[4,4]{1,0} map(y), dimensions={0,1}, to_apply=neg", vec!["neg"]),
    ] {
        let module = fixpoint(&text(line));
        let found: Vec<&str> = root(&module).computations.iter().map(|nested| nested.name.as_str()).collect();
        assert_eq!(found, names, "{line}");
        assert_eq!(root(&module).callee.is_some(), root(&module).kind == OpKind::Call);
    }
}

#[test]
fn shared_computations_are_printed_once() {
    let text = format!(
        "HloModule m\n{ADD}\nENTRY e {{ x = f32[8]{{0}} parameter(0) z = f32[] constant(0)\n \
         a = f32[] reduce(x, z), dimensions={{0}}, to_apply=add\n b = f32[] reduce(x, z), dimensions={{0}}, to_apply=add\n \
         c = f32[] call(a, b), to_apply=add\n ROOT r = f32[] add(b, c) }}"
    );
    let module = fixpoint(&text);
    // Nested twice and a function besides, but one computation in text.
    assert_eq!(print(&module).matches(" add(%a, %b)").count(), 1);
    assert_eq!(module.functions.len(), 2);
}

#[test]
fn computations_written_inside_instructions() {
    let module = fixpoint(
        "HloModule m

ENTRY e {
  tmp_0 = f32[] parameter(0)
  tmp_1 = s32[] parameter(1)
  tmp_2 = f32[] call(f32[] tmp_0), to_apply=
  {
    tmp_0 = f32[] parameter(0)
    ROOT tmp_1 = f32[] fusion(f32[] tmp_0), kind=kLoop, calls=
    {
      tmp_0 = f32[] parameter(0)
      ROOT tmp_1 = f32[] sine(f32[] tmp_0)
    }, backend_config={\"a\":1}
  }
  tmp_3 = f32[] fusion(f32[] tmp_2), kind=kLoop, calls= { ROOT p = f32[] parameter(0) }, metadata={op_name=\"x\"}
  ROOT tmp_4 = f32[] conditional(s32[] tmp_1, f32[] tmp_3, f32[] tmp_3), branch_computations={
  {
    ROOT tmp_0 = f32[] parameter(0)
  },
  {
    tmp_0 = f32[] parameter(0)
    ROOT tmp_1 = f32[] cosine(f32[] tmp_0)
  }
  }, sharding={replicated}
}
",
    );
    assert_eq!(module.functions.len(), 2);
    assert_eq!(root(&module).computations.len(), 2);
    assert_eq!(root(&module).annotation("sharding"), Some("{replicated}"));
    let call = module.entry().instructions[2].callee.expect("a callee");
    let fusion = module.function(call).root();
    assert_eq!(fusion.annotation("backend_config"), Some("{\"a\":1}"));
    assert_eq!(fusion.computations[0].root().kind, OpKind::Sine);
}

#[test]
fn instructions_written_as_operands() {
    let module = entry(
        "ROOT r = f32[10] add(f32[10] parameter(0), f32[10] multiply(f32[10] parameter(1), f32[10] broadcast(f32[] constant(-1.5e3))))",
    );
    let names: Vec<&str> = module.entry().instructions.iter().map(|instruction| instruction.name.as_str()).collect();
    assert_eq!(names, ["parameter.anon", "parameter.anon.1", "constant.anon", "broadcast.anon", "multiply.anon", "r"]);
    assert_eq!(module.entry().parameters.len(), 2);
    entry("ROOT r = c64[2] negate(c64[2] constant({(1, 2), (3, nan(0x1))}))");
}

#[test]
fn asynchronous_operations_in_both_forms() {
    let short = fixpoint(
        "HloModule m\n\nENTRY %e (p: f32[10]) -> f32[20] {\n  %p = f32[10]{0} parameter(0)\n  \
         %s = ((f32[10]{0}), f32[20]{0}, s32[]) custom-call-start(%p), async_execution_thread=\"parallel\", \
         custom_call_target=\"foo\", metadata={op_name=\"n\"}\n  \
         %u = ((f32[10]{0}), f32[20]{0}, s32[]) custom-call-update(%s)\n  \
         ROOT %d = f32[20]{0} custom-call-done(%u)\n}\n",
    );
    let start = &short.entry().instructions[1];
    assert_eq!(start.kind, OpKind::AsyncStart);
    assert_eq!(start.computations[0].root().kind, OpKind::CustomCall);
    assert_eq!(start.computations[0].root().attributes.word("custom_call_target"), Some("foo"));
    assert_eq!(start.attributes.word("async_execution_thread"), Some("parallel"));
    assert_eq!(short.entry().root().kind, OpKind::AsyncDone);
    fixpoint(
        "HloModule m\n\nwrapped { a = f32[10]{0} parameter(0) ROOT c = f32[20]{0} custom-call(a), custom_call_target=\"foo\" }, \
         execution_thread=\"parallel\"\nENTRY %e (p: f32[10]) -> f32[20] {\n  %p = f32[10]{0} parameter(0)\n  \
         %s = ((f32[10]{0}), f32[20]{0}, s32[]) async-start(%p), calls=%wrapped\n  \
         ROOT %d = f32[20]{0} async-done(%s), calls=%wrapped\n}\n",
    );
}

#[test]
fn shapes_that_follow_from_the_operation_may_be_left_out() {
    let module = entry("x = f32[10] parameter(0)\ny = add(x, x)\nROOT t = tuple(x, y, sqrt(y))");
    assert_eq!(root(&module).shape.to_string(), "(f32[10], f32[10], f32[10])");
}

#[test]
fn everything_else_keeps_its_text() {
    let module = same(
        r#"HloModule m, origin_recovery_table={
  {"constant"} : {"c0"},
  "
    HloModule inner {
  "
}

ENTRY %e (v1: f32[], v2: f32[3]) -> (f32[], f32[3]) {
  %v1 = f32[] parameter(0), parameter_replication={true}, origin={{"v1"}}
  %v2 = f32[3]{0} parameter(1), origin={{"v2" {0}}}, statistics={visualizing_index=1,stat-1=33}
  ROOT %t = (f32[], f32[3]{0}) tuple(%v1, %v2), control-predecessors={%v1, %v2}, sharding={devices=[4,1]<=[2,2]T(1,0) last_tile_dim_replicate}, origin={({"v1"}, {"v2"})}
}
"#,
    );
    assert_eq!(root(&module).annotation("control-predecessors"), Some("{%v1, %v2}"));
}

#[test]
fn one_value_fills_a_constant() {
    let module = entry("ROOT c = bf16[2, 3] constant(1)");
    assert!(print(&module).contains("bf16[2,3] constant({ { 1, 1, 1 }, { 1, 1, 1 } })"), "{}", print(&module));
}

#[test]
fn large_literals_can_be_left_out() {
    let numbers: Vec<String> = (0..11).map(|number| number.to_string()).collect();
    let text = format!("HloModule m\n\nENTRY e {{ ROOT c = s32[11]{{0}} constant({{{}}}) }}", numbers.join(", "));
    let options = TextOptions { large_literals: false, ..TextOptions::LONG };
    let printed = print_with(&module(&text), options);
    assert!(printed.contains("constant({...})"), "{printed}");
    let again = module(&printed);
    assert!(root(&again).literal().is_some());
    assert_eq!(print(&again), printed);
}

#[test]
fn modules_are_parsed_and_displayed_as_text() {
    let text = "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n  ROOT %p = f32[2]{0} parameter(0)\n}\n";
    let module: Module = text.parse().expect("a module");
    assert_eq!(module.to_string(), print(&module));
    let errors = "HloModule m\nENTRY e { ROOT p = f33[2] parameter(0) }".parse::<Module>().expect_err("no module");
    assert!(errors.to_string().starts_with("2:20: "), "{errors}");
}
