//! Faults of a text: what is said, and where it points.

use hlo::text::{Error, Errors, read};

fn errors(text: &str) -> Errors {
    match read(text) {
        Ok(_) => panic!("this is no error:\n{text}"),
        Err(errors) => errors,
    }
}

/// The only error of `text` must say `message` and point at `at`, the text right behind the first `@@`, which is
/// taken out before reading.
fn expect(text: &str, at: &str, message: &str) -> Error {
    let position = text.find("@@").expect("a mark");
    let text = text.replacen("@@", "", 1);
    let found = errors(&text);
    let error = &found.0[0];
    let shown = error.render("test.hlo", &text);
    assert!(error.with_hint().contains(message), "{message}\n{shown}");
    assert_eq!(error.location().span.start, position, "{shown}");
    assert_eq!(&text[error.location().span.clone()], at, "{shown}");
    error.clone()
}

/// The same, for the lines of an entry computation.
fn expect_in_entry(lines: &str, at: &str, message: &str) -> Error {
    expect(&format!("HloModule m\n\nENTRY e {{\n{lines}\n}}\n"), at, message)
}

#[test]
fn syntax() {
    expect("@@", "", "expected a computation marked `ENTRY`, found the end of the text");
    expect("HloModule thi@@$ str1ng", "$", "expected");
    let printed = "HloModule m, entry_computation_layout={(f32[])->f32[]}\nf { ROOT x = f32[] parameter(0) }\n@@";
    expect(printed, "", "expected a computation marked `ENTRY`");
    expect("HloModule m, is_scheduled@@ true", " ", "expected `=`");
    expect("HloModule m, k={a@@", "", "expected `}`");
    expect("HloModule m, k={a@@) }", ")", "expected `}`, found `)`");
    expect("HloModule m, k=@@\"abc", "\"", "expected `\"` at the end of this string");
    expect("HloModule m @@/* abc", "/", "expected `*/` at the end of this comment");
    expect("HloModule m\nENTRY e @@x", "x", "expected");
    expect_in_entry("x @@f32[] parameter(0)", "f32", "expected `=`, found `f32`");
    expect_in_entry("x = f32[2@@;] parameter(0)", ";", "expected");
    expect_in_entry("x = f32[2] parameter @@0", "0", "expected `(`");
    expect("ENTRY e { x = f32[2] parameter(0)\ny = f32[2] add(x, @@}", "}", "expected an operand, found `}`");
    expect_in_entry("x = f32[2] parameter(0)\ny = f32[2] add(x @@x)", "x", "expected `,`");
    expect_in_entry("x = f32[2] parameter(0), @@=3", "=", "expected an attribute");
    expect_in_entry("x = f32[2] parameter(0), sharding=@@, a=1", ",", "expected a value");
    expect_in_entry("x = f32[2]{0:@@Q} parameter(0)", "Q", "expected `}` or a layout property, found `Q`");
    expect("HloModule m\nENTRY e {\n x = f32[] constant(1@@", "", "expected `)` at the end of this literal");
    expect(
        "HloModule m\nENTRY e {\n x = f32[] parameter(0)\n@@",
        "",
        "expected an instruction, found the end of the text",
    );
}

#[test]
fn names() {
    expect_in_entry(
        "x = f32[] parameter(0)\n@@x = f32[] negate(x)",
        "x",
        "instruction `x` is already defined in line 4",
    );
    expect_in_entry("x = f32[] negate(@@y)\ny = f32[] parameter(0)", "y", "operand `y` is not defined before its use");
    expect_in_entry("x = f32[] negate(%@@z)", "z", "operand `z` is not defined");
    expect_in_entry("x = f32[] parameter(0)\nr = f32[] call(x), to_apply=%@@f", "f", "computation `f` is not defined");
    expect_in_entry("ROOT x = f32[] parameter(0)\nROOT @@r = f32[] negate(x)", "r", "root `r` is already defined");
    expect(
        "f { x = f32[] parameter(0) }\n@@f { x = f32[] parameter(0) }\nENTRY e { x = f32[] parameter(0) }",
        "f",
        "computation `f` is already",
    );
    expect(
        "ENTRY f { x = f32[] parameter(0) }\nENTRY @@e { x = f32[] parameter(0) }",
        "e",
        "entry computation `e` is already",
    );
    expect_in_entry(
        "x = f32[2] parameter(0), sharding={a}, @@sharding={b}",
        "sharding",
        "attribute `sharding` is already",
    );
    expect_in_entry("x = f32[] @@quux()", "quux", "unknown opcode `quux`");
    expect_in_entry("x = f32[] @@quux-start()", "quux-start", "unknown opcode `quux-start`");
}

#[test]
fn calls() {
    expect(
        "HloModule m\na { x = f32[] parameter(0) r = f32[] call(x), to_apply=b }\n\
         b { x = f32[] parameter(0) r = f32[] call(x), to_apply=@@a }\nENTRY e { x = f32[] parameter(0) r = f32[] call(x), to_apply=a }",
        "a",
        "computation `a` calls itself: a -> b -> a",
    );
    expect(
        "ENTRY e { x = f32[] parameter(0) r = f32[] call(x), to_apply=@@e }",
        "e",
        "computation `e` calls itself: e -> e",
    );
}

#[test]
fn computations() {
    expect("ENTRY @@e { }", "e", "a computation needs an instruction");
    expect_in_entry(
        "x = f32[] parameter(0)\ny = f32[] parameter(@@0)",
        "0",
        "2 parameters must be numbered 0..2, each once, got 0",
    );
    expect_in_entry("x = f32[] parameter(@@1)", "1", "1 parameters must be numbered 0..1");
    expect_in_entry("x = f32[] parameter(@@-1)", "-1", "1 parameters must be numbered 0..1");
    expect(
        "ENTRY e (x: f32[]) -> s32[] { @@x = f32[] parameter(0) }",
        "x",
        "the root has shape f32[], but the computation is declared to give s32[]",
    );
    expect_in_entry(
        "x = f32[2] parameter(0)\ny = f32[2] negate(f32[3] @@x)",
        "x",
        "operand `x` has shape f32[2], not f32[3]",
    );
    expect_in_entry("x = @@parameter(0)", "parameter", "the shape of a `parameter` must be written");
    expect_in_entry(
        "x = f32[] parameter(0)\nr = f32[] @@reduce(x, x)",
        "reduce",
        "`reduce` needs the attribute `to_apply`",
    );
}

#[test]
fn shapes() {
    expect_in_entry("x = @@f33[2] parameter(0)", "f33", "unknown element type `f33`");
    expect_in_entry(
        "x = @@f32[9223372036854775807,9223372036854775807] parameter(0)",
        "f32[9223372036854775807,9223372036854775807]",
        "does not fit 63 bits",
    );
    expect_in_entry("x = @@f32[4611686018427387904] parameter(0)", "f32[4611686018427387904]", "does not fit 63 bits");
    expect_in_entry(
        "x = f32[@@99999999999999999999] parameter(0)",
        "99999999999999999999",
        "expected a 64-bit integer",
    );
    expect_in_entry(
        "x = @@f32[2,3]{0,0} parameter(0)",
        "f32[2,3]{0,0}",
        "a layout must be a permutation of 0..2, got [0, 0]",
    );
    expect_in_entry("x = @@token[2] parameter(0)", "token[2]", "`token` takes no dimensions");
}

#[test]
fn attributes() {
    expect_in_entry("x = f32[2] @@iota()", "iota", "`iota` needs the attribute `iota_dimension`");
    expect_in_entry("x = f32[2] iota(), iota_dimension=@@{0}", "{0}", "expected a 64-bit integer");
    expect_in_entry(
        "x = f32[2] parameter(0)\ny = f32[2] transpose(x), dimensions={@@a}",
        "a",
        "expected `}` or an integer, found `a`",
    );
    expect_in_entry("x = f32[2] parameter(0)\ny = f32[2] transpose(x), dimensions=@@0", "0", "expected `{`");
    expect_in_entry("x = f32[2] parameter(0)\ny = f32[2] slice(x), slice=@@0", "0", "expected `{`");
    expect_in_entry(
        "x = f32[2] parameter(0)\ny = f32[2] sort(x), dimensions={0}, is_stable=@@maybe",
        "maybe",
        "attribute `is_stable` expects `true` or `false`",
    );
    expect_in_entry("x = f32[2] parameter(0)\ny = f32[1] slice(x), slice={[0@@]}", "]", "expected `:`");
    expect_in_entry(
        "x = f32[8] parameter(0)\ny = f32[8] collective-broadcast(x), replica_groups=@@[2,4]<=[9]",
        "[2,4]<=[9]",
        "as many devices on both sides",
    );
    expect_in_entry(
        "x = f32[8] parameter(0)\ny = f32[8] collective-broadcast(x), replica_groups=@@[2,4]<=[4,2]T(0,0)",
        "[2,4]<=[4,2]T(0,0)",
        "a permutation of 0..2",
    );
    expect_in_entry(
        "x = f32[1,1] parameter(0)\ny = f32[1,1] convolution(x, x), dim_labels=@@bb_io->bf",
        "bb",
        "`b`, `f` once each",
    );
    expect_in_entry(
        "x = f32[4,4] parameter(0)\ny = f32[4,4] dot(x, x), @@lhs_contracting_dim={1}, rhs_contracting_dims={0}",
        "lhs_contracting_dim",
        "`dot` has no attribute `lhs_contracting_dim`, did you mean `lhs_contracting_dims`?",
    );
    expect(
        "f { x = f32[] parameter(0) }\nENTRY e { x = f32[] parameter(0)\n y = f32[] negate(x), @@to_apply=f }",
        "to_apply",
        "`negate` has no attribute `to_apply`, it takes metadata, backend_config, sharding",
    );
}

/// Rules of operations point at the attribute or operand at fault, and several are reported at once.
#[test]
fn rules_of_operations() {
    let error = expect_in_entry(
        "x = f32[4,8,2] parameter(0)\nt = f32[4,8,2] transpose(x), @@dimensions={0,0,2}",
        "dimensions={0,0,2}",
        "permutation",
    );
    assert!(error.label().starts_with("transpose (C"), "{}", error.label());
    expect_in_entry("x = f32[4] parameter(0)\nr = f32[5] @@negate(x)", "negate", "f32[5]");
    expect_in_entry(
        "x = f32[4] parameter(0)\ny = pred[4] parameter(1)\nr = f32[4] select(@@x, y, y)",
        "x",
        "operand 0 must have element type pred, got f32",
    );
    let text =
        "ENTRY e { x = f32[4] parameter(0)\n a = f32[5] negate(x)\n b = f32[6] abs(a)\n ROOT c = f32[7] copy(b) }";
    let found = errors(text);
    assert_eq!(found.0.len(), 3, "{found}");
    assert_eq!(found.0.iter().map(|error| error.location().line).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(found.to_string().lines().count(), 3);
}

#[test]
fn messages_show_the_text() {
    let text = "HloModule m\n\nENTRY e {\n  %p = f32[4,8,2] parameter(0)\n  \
                ROOT %t = f32[4,8,2] transpose(%p), dimensions={0,0,2}\n}\n";
    let shown = errors(text).render("softmax.hlo", text);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("error: dimensions"), "{shown}");
    assert_eq!(
        lines[1..4],
        [" --> softmax.hlo:5:39", "  |", "5 |   ROOT %t = f32[4,8,2] transpose(%p), dimensions={0,0,2}"]
    );
    assert!(
        lines[4].starts_with("  |                                       ^^^^^^^^^^^^^^^^^^ transpose (C"),
        "{shown}"
    );
}

#[test]
fn branches() {
    let text = |line: &str| {
        format!(
            "f {{ x = f32[] parameter(0) }}\nENTRY e {{ x = f32[] parameter(0)\n p = pred[] parameter(1)\n i = s32[] parameter(2)\n {line} }}"
        )
    };
    expect(
        &text("c = f32[] conditional(p, x, x), @@branch_computations={f, f}"),
        "branch_computations",
        "expects a first operand of type s32, found pred[]",
    );
    expect(
        &text("c = f32[] conditional(i, x, x), @@true_computation=f, false_computation=f"),
        "true_computation",
        "expects a first operand of type pred, found s32[]",
    );
}

#[test]
fn literals() {
    expect_in_entry("x = f32[2] constant({1, 2@@, 3})", ",", "dimension 0 needs 2 elements, got more");
    expect_in_entry("x = f32[2] constant({1@@})", "}", "dimension 0 needs 2 elements, got 1");
    expect_in_entry("x = u8[] constant(@@300)", "300", "literal of shape u8[]: 300 is out of the range of u8");
    expect_in_entry(
        "x = f32[16] constant(1)\ny = f32[268435456] constant(@@1)",
        "1",
        "constants of one value fill at most 1073741824 bytes together",
    );
    expect_in_entry("x = (s32[], s32[]) constant((1, @@x))", "x", "`x` is not a number of type s32");
    expect_in_entry("x = f32[] add(f32[] constant(@@1e99), f32[] constant(1))", "1e99", "out of the range of f32");
}

#[test]
fn nesting() {
    let deep = |open: &str, close: &str| {
        format!(
            "HloModule m, k={}x{}\nENTRY e {{ x = f32[] parameter(0) }}",
            open.repeat(100_000),
            close.repeat(100_000)
        )
    };
    for text in [
        deep("{", "}"),
        deep("(", ")"),
        format!("ENTRY e {{ x = {}{} parameter(0) }}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("ENTRY e {{ x = {} }}", "add(".repeat(100_000)),
        format!("ENTRY e {{ x = f32[] constant({}1{}) }}", "{".repeat(100_000), "}".repeat(100_000)),
        format!("ENTRY e {{ x = f32[] parameter(0), sharding={}", "[".repeat(100_000)),
        format!("ENTRY e {{ {}", "x = f32[] call(), to_apply={ ".repeat(100_000)),
    ] {
        let found = errors(&text);
        assert!(matches!(found.0[0], Error::TooDeep { .. }), "{found}");
    }
    // Just below the limit everything is still read, on a small stack.
    let text = format!("ENTRY e {{ x = {}f32[]{} parameter(0) }}", "(".repeat(190), ")".repeat(190));
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || read(&text).is_ok()).expect("a thread");
    assert!(thread.join().expect("no overflow"));
}

#[test]
fn sharing_that_explodes_is_refused() {
    // Forty computations, each nesting the one before twice.
    let mut text = "HloModule m\nc0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n".to_string();
    for level in 1..=40 {
        let callee = level - 1;
        text += &format!(
            "c{level} {{ x = f32[] parameter(0)\n a = f32[] fusion(x), kind=kLoop, calls=c{callee}\n \
             ROOT b = f32[] fusion(a), kind=kLoop, calls=c{callee} }}\n"
        );
    }
    text += "ENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] fusion(x), kind=kLoop, calls=c40 }\n";
    let found = errors(&text);
    assert!(matches!(found.0[0], Error::Expansion { .. }), "{found}");
    // A long chain of nested computations is refused too; a long chain of calls is not.
    let chain = |length: usize, call: &str| {
        let mut text = "HloModule m\nc0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n".to_string();
        for level in 1..=length {
            text += &format!("c{level} {{ x = f32[] parameter(0)\n ROOT a = f32[] {call}=c{} }}\n", level - 1);
        }
        text + &format!("ENTRY e {{ x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=c{length} }}\n")
    };
    let found = errors(&chain(101, "fusion(x), kind=kLoop, calls"));
    assert!(found.to_string().contains("computations nest deeper than 100 levels"), "{found}");
    assert!(read(&chain(90, "fusion(x), kind=kLoop, calls")).is_ok());
    assert!(read(&chain(20_000, "call(x), to_apply")).is_ok());
}

#[test]
fn all_faults_are_found_in_the_order_of_the_text() {
    let text = "HloModule m\n\
        f {\n\
        x = float32[2] parameter(0)\n\
        ROOT y = f32[2] negate(x)\n\
        }\n\
        ENTRY e {\n\
        a = f32[2] parameter(0)\n\
        b = f32[2] ad(a, a)\n\
        c = f32[2] multiply(b, nothing)\n\
        d = f32[3] add(c, b)\n\
        g = negate(c), dimensions={0}\n\
        h = add(g, g)\n\
        i = f32[2] transpose(a), dimensions={1}\n\
        j = f32[2] call(a), to_apply=g\n\
        ROOT k = f32[2] call(a), to_apply=f\n\
        }\n";
    let found = errors(text);
    let lines: Vec<usize> = found.0.iter().map(|error| error.location().line).collect();
    let messages: Vec<String> = found.0.iter().map(Error::with_hint).collect();
    for (line, message) in [
        (3, "unknown element type `float32`, did you mean `f32`?"),
        (8, "unknown opcode `ad`, did you mean `add`?"),
        (9, "operand `nothing` is not defined"),
        (10, "the result has shape f32[2], but f32[3] is declared"),
        (13, "dimensions must be"),
        (14, "computation `g` is not defined"),
    ] {
        let place = lines.iter().position(|&other| other == line);
        let said = place.map(|place| messages[place].as_str()).unwrap_or_default();
        assert!(said.contains(message), "line {line}: {messages:?}");
    }
    assert!(lines.is_sorted(), "{lines:?}");
    assert!(!lines.contains(&4) && !lines.contains(&12) && !lines.contains(&15), "no follow-up errors: {messages:?}");
}

#[test]
fn faults_are_counted() {
    let wrong: String = (0..100).map(|number| format!("x{number} = f32[] quux()\n")).collect();
    assert_eq!(errors(&format!("ENTRY e {{\n{wrong}}}")).0.len(), 20);
    let unknown: String = (0..100).map(|number| format!("x{number} = f3[] parameter({number})\n")).collect();
    assert_eq!(errors(&format!("ENTRY e {{\n{unknown}}}")).0.len(), 20);
}

#[test]
fn names_of_other_languages_are_known() {
    for (foreign, own) in [("float32", "f32"), ("double", "f64"), ("int32", "s32"), ("bool", "pred"), ("bf61", "bf16")]
    {
        let message = format!("unknown element type `{foreign}`, did you mean `{own}`?");
        expect_in_entry(&format!("x = @@{foreign}[2] parameter(0)"), foreign, &message);
    }
    for (text, opcode) in [("mult", "multiply"), ("cosin", "cosine"), ("dynamic_slice", "dynamic-slice"), ("ad", "add")]
    {
        let message = format!("unknown opcode `{text}`, did you mean `{opcode}`?");
        expect_in_entry(&format!("x = f32[] @@{text}()"), text, &message);
    }
}

#[test]
fn a_wrong_computation_is_pointed_at() {
    expect(
        "f { x = f32[] parameter(0) ROOT y = f32[] negate(x) }\nENTRY e {\n x = f32[4] parameter(0)\n z = f32[] constant(0)\n \
         ROOT r = f32[] reduce(x, z), dimensions={0}, @@to_apply=f\n}",
        "to_apply=f",
        "computation 0 must have the signature",
    );
}

#[test]
fn what_has_no_end_is_said_so() {
    let error = expect("HloModule m, k=@@\"abc", "\"", "expected `\"` at the end of this string");
    assert!(error.to_string().contains("found the end of the text"), "{error}");
}

#[test]
fn a_wrong_signature_does_not_hide_other_faults() {
    let text = "HloModule m\n\
        ENTRY e (a: float32[4]) -> (float32[4], f32[4]) {\n\
        a = float32[4] parameter(0)\n\
        b = f32[4] parameter(1)\n\
        c = f32[4] ad(b, b)\n\
        ROOT t = (f32[4], f32[4]) tuple(b, b)\n\
        }\n";
    let lines: Vec<usize> = errors(text).0.iter().map(|error| error.location().line).collect();
    assert_eq!(lines, [2, 2, 2, 3, 5], "{}", errors(text));
}
