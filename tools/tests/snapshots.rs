//! Whole outputs of the tools, as files in `snapshots/`: stages of programs, help.
//!
//! `INSTA_UPDATE=always` rewrites them.

use std::process::Command;

use lowering_llvm::Target;
use tools::emit::{self, CodePlatform, EmitOptions, Stage};
use tools::module_file::SourceText;

/// A fusion of elementwise operations into a reduction, and one that moves elements.
const SUM: &str = "HloModule sum
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,32] parameter(0)
  y = f32[32,4] parameter(1)
  t = f32[4,32] transpose(y), dimensions={1,0}
  p = f32[4,32] multiply(x, t)
  zero = f32[] constant(0)
  ROOT r = f32[4] reduce(p, zero), dimensions={1}, to_apply=add
}
";

/// A loop with a state, and a matrix product in its body.
const POWER: &str = "HloModule power
condition {
  p = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  m = f32[4,4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  square = f32[4,4] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[4,4]) tuple(next, square)
}
ENTRY e {
  m = f32[4,4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4,4]) tuple(zero, m)
  w = (s32[], f32[4,4]) while(t), condition=condition, body=body
  ROOT r = f32[4,4] get-tuple-element(w), index=1
}
";

/// The stages whose text is halo's and MLIR's, not that of LLVM's optimizer and code generators.
const STAGES: [Stage; 8] = [
    Stage::Hlo,
    Stage::Mlir,
    Stage::Indexing,
    Stage::Fusions,
    Stage::Buffers,
    Stage::Affine,
    Stage::Scf,
    Stage::LlvmDialect,
];

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn stages(name: &str, program: &str) {
    let source_text = SourceText { path: format!("{name}.hlo").into(), text: program.into() };
    for stage in STAGES {
        let target = Target::cpu("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma");
        let bytes = emit::emit(&source_text, &EmitOptions::new(stage, CodePlatform::Cpu, target))
            .unwrap_or_else(|error| panic!("{name}, {}: {error}", stage.name()));
        snapshot(&format!("{name}.{}", stage.name()), &String::from_utf8(bytes).expect("text"));
    }
}

#[test]
fn stages_of_a_sum() {
    stages("sum", SUM);
}

#[test]
fn stages_of_a_loop() {
    stages("power", POWER);
}

#[test]
fn help() {
    let run = |name: &str, tool: &str, argument: &str| {
        let output = Command::new(tool).arg(argument).output().expect("the tool starts");
        assert!(output.status.success(), "{name}");
        snapshot(name, &String::from_utf8(output.stdout).expect("text"));
    };
    run("hlo-run.help", env!("CARGO_BIN_EXE_hlo-run"), "--help");
    run("hlo-opt.help", env!("CARGO_BIN_EXE_hlo-opt"), "--help");
    run("hlo-bench.help", env!("CARGO_BIN_EXE_hlo-bench"), "--help");
}
