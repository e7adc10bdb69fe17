//! No text makes the reader crash: a valid module with bytes cut off, changed, repeated or removed.

use hlo::text::{print, read};

const TEXT: &str = r#"HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[4]{0}, (s32[], f32[2,3]{1,0:T(8,128)S(1)}))->(f32[4]{0}, pred[])}, frontend_attributes={a="b\"}"}

FileNames
1 "a.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=2 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(f32[] %a, f32[] %b), metadata={op_name="x/\'y\'" stack_frame_id=1}
}

%wrapped (p: f32[4]) -> f32[4] {
  ROOT %p = f32[4]{0} parameter(0)
}, execution_thread="t"

ENTRY %main (x: f32[4], t: (s32[], f32[2,3])) -> (f32[4], pred[]) {
  %x = f32[4]{0} parameter(0), sharding={devices=[2]<=[2]}
  %t = (s32[], f32[2,3]{1,0:T(8,128)S(1)}) parameter(1)
  %g = f32[2,3]{1,0:T(8,128)S(1)} get-tuple-element(%t), index=1
  %k = f32[] constant(-1.5e-3) /* a comment */
  %l = f32[4]{0} constant({1, nan(0x1), -inf, 0x1p3}) // another
  %m = (c64[2], s8[1,2]) constant(({(1, 2), (3, 4)}, { { -1, 2 } }))
  %n = f32[<=4] broadcast(%k), dimensions={}
  %r = f32[2]{0} reduce(%g, %k), dimensions={1}, to_apply=%add
  %w = f32[4]{0} reduce-window(%x, %k), window={size=3 stride=1 pad=1_1 rhs_dilate=1}, to_apply=%add
  %s = f32[2]{0} slice(%x), slice={[0:4:2]}
  %d = f32[6]{0} pad(%s, %k), padding=1_1_2
  %q = f32[4]{0} all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%add
  %v = f32[4]{0} custom-call(%x, %w), dim_labels=b0f_0io->b0f, custom_call_target="t\n", operand_layout_constraints={f32[4]{0}, f32[4]{0}}, literal=s32[2]{0} {1, 2}, backend_config={"a":[1,{"b":"}"}]}
  %u = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%x)
  %f = f32[4]{0} fusion(%x), kind=kLoop, calls={
    %y = f32[4]{0} parameter(0)
    ROOT %z = f32[4]{0} add(%y, f32[4] broadcast(f32[] constant(1)))
  }, control-predecessors={%v}
  %o = pred[] constant(true)
  ROOT %e = (f32[4]{0}, pred[]) tuple(%f, /*index=1*/%o)
}
"#;

/// Reads a text; if it is valid, so must be what is printed.
fn check(text: &str) {
    match read(text) {
        Ok(module) => {
            let printed = print(&module);
            if let Err(errors) = read(&printed) {
                panic!("{text}\nprints as\n{printed}\n{}", errors.render("printed", &printed));
            }
        }
        Err(errors) => {
            for error in &errors.0 {
                let span = &error.location().span;
                assert!(text.get(span.clone()).is_some(), "{error:?}");
            }
            assert!(errors.render("test.hlo", text).starts_with("error: "));
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % limit.max(1) as u64) as usize
    }
}

#[test]
fn the_text_is_valid() {
    if let Err(errors) = read(TEXT) {
        panic!("{}", errors.render("test.hlo", TEXT));
    }
    check(TEXT);
}

#[test]
fn every_prefix() {
    for length in 0..TEXT.len() {
        check(&TEXT[..length]);
    }
}

#[test]
fn changed_bytes() {
    let mut random = Random(1);
    let interesting = b"{}()[]<>=,:;%\"'\\/*#?x_-+.0123456789eTSRE \n\0\x7f";
    for _ in 0..20_000 {
        let mut bytes = TEXT.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let position = random.below(bytes.len());
            bytes[position] = match random.below(4) {
                0 => random.below(128) as u8,
                _ => interesting[random.below(interesting.len())],
            };
        }
        check(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn moved_and_removed_parts() {
    let mut random = Random(2);
    for _ in 0..10_000 {
        let mut text = TEXT.to_string();
        let start = random.below(text.len());
        let end = (start + random.below(60)).min(text.len());
        let part = text[start..end].to_string();
        if random.below(2) == 0 {
            text.replace_range(start..end, "");
        }
        let position = random.below(text.len());
        text.insert_str(position, &part);
        check(&text);
    }
}

#[test]
fn text_that_is_not_ascii() {
    let mut random = Random(3);
    for _ in 0..5_000 {
        let mut text = TEXT.to_string();
        for _ in 0..=random.below(3) {
            let mut position = random.below(text.len());
            while !text.is_char_boundary(position) {
                position -= 1;
            }
            text.insert_str(position, ["é", "∞", "\u{0}", "\u{1f600}", "\u{feff}"][random.below(5)]);
        }
        check(&text);
    }
}
