//! Large texts: time is linear, memory is bounded, and nothing recurses over instructions.
//!
//! The throughputs printed are for people (`--nocapture`); tests that assert times are ignored by default.

use std::fmt::Write;
use std::time::{Duration, Instant};

use hlo::text::{parse, print, read};

fn chain(length: usize) -> String {
    let mut text =
        "HloModule m\n\nENTRY %e (p: f32[4,64,256]) -> f32[4,64,256] {\n  %x.0 = f32[4,64,256]{2,1,0} parameter(0)\n"
            .to_string();
    for number in 1..length {
        let root = if number + 1 == length { "ROOT " } else { "" };
        let _ = writeln!(
            text,
            "  {root}%x.{number} = f32[4,64,256]{{2,1,0}} add(%x.{}, %x.{}), metadata={{op_name=\"jit(step)/block/{}/add\" stack_frame_id={}}}",
            number - 1,
            number / 2,
            number % 97,
            number % 1000
        );
    }
    text + "}\n"
}

fn report(what: &str, bytes: usize, time: Duration) {
    println!(
        "{what}: {bytes} bytes in {:.0} ms, {:.0} MB/s",
        time.as_secs_f64() * 1e3,
        bytes as f64 / time.as_secs_f64() / 1e6
    );
}

#[test]
fn two_hundred_thousand_instructions() {
    let text = chain(200_000);
    let start = Instant::now();
    let tree = parse(&text).expect("valid");
    report("parse", text.len(), start.elapsed());
    assert_eq!(tree.computations[0].instructions.len(), 200_000);
    drop(tree);
    let start = Instant::now();
    let module = read(&text).expect("valid");
    report("read", text.len(), start.elapsed());
    let start = Instant::now();
    let printed = print(&module);
    report("print", printed.len(), start.elapsed());
    assert_eq!(module.entry().instructions.len(), 200_000);
    assert_eq!(printed.lines().count(), text.lines().count() + 1);
    assert!(read(&printed).expect("valid") == module);
}

#[test]
#[ignore = "timed"]
fn time_is_linear() {
    let time = |text: &str| {
        let start = Instant::now();
        read(text).expect("valid");
        start.elapsed().as_secs_f64()
    };
    let (small, large) = (chain(10_000), chain(80_000));
    let (small, large) = (time(&small).min(time(&small)), time(&large));
    assert!(large < 8.0 * small * 4.0, "8 times the text takes {:.1} times the time", large / small);
}

fn numbers(count: usize) -> String {
    let mut text = format!("HloModule m\n\nENTRY e {{\n  ROOT c = f32[{count}]{{0}} constant({{");
    let mut state = 1u64;
    for number in 0..count {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let value = (state >> 40) as f32 / (1 << 24) as f32 - 0.5;
        let separator = if number > 0 { ", " } else { "" };
        let _ = write!(text, "{separator}{value}");
    }
    text + "})\n}\n"
}

fn throughput(count: usize) -> f64 {
    let text = numbers(count);
    let start = Instant::now();
    let module = read(&text).expect("valid");
    let time = start.elapsed();
    report("read literal", text.len(), time);
    let literal = module.entry().root().literal().and_then(|literal| literal.as_array()).expect("an array");
    assert_eq!(literal.bytes().len(), 4 * count);
    let start = Instant::now();
    let printed = print(&module);
    report("print literal", printed.len(), start.elapsed());
    assert!(read(&printed).expect("valid") == module);
    text.len() as f64 / time.as_secs_f64()
}

#[test]
fn literals_are_read_fast() {
    throughput(500_000);
}

#[test]
#[ignore = "timed, and needs half a gigabyte"]
fn a_literal_of_a_hundred_megabytes() {
    let speed = throughput(8_500_000);
    assert!(speed > 20e6, "{speed}");
    // Peak memory of this process, text generation and the copy read back included.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("no peak known"));
}

#[test]
fn many_shared_computations() {
    let mut text = "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\nENTRY e {\n x = f32[8]{0} parameter(0)\n z = f32[] constant(0)\n".to_string();
    for number in 0..20_000 {
        let _ = writeln!(text, " r.{number} = f32[] reduce(x, z), dimensions={{0}}, to_apply=add");
    }
    text.push('}');
    let module = read(&text).expect("valid");
    let printed = print(&module);
    assert_eq!(printed.matches("parameter(1)").count(), 1);
    assert!(read(&printed).expect("valid") == module);
}
