//! Memory of reading a large text, in bytes allocated at once. The only test of its process: others would count too.

use std::fmt::Write;

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// 200,000 instructions, with what stands behind each.
fn program(metadata: impl Fn(usize) -> String) -> String {
    let mut text = "HloModule m\n\nENTRY %e {\n  %x.0 = f32[64,256]{1,0} parameter(0)\n".to_string();
    for number in 1..200_000 {
        let (first, second, rest) = (number - 1, number / 2, metadata(number));
        let _ = writeln!(text, "  %x.{number} = f32[64,256]{{1,0}} add(%x.{first}, %x.{second}){rest}");
    }
    text + "}\n"
}

/// Most bytes allocated while the text is read, the text itself not counted, for each byte of text.
fn bytes_for_each_byte(text: &str) -> f64 {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let module = hlo::text::read(text).expect("valid");
    let most = ALLOCATOR.peak_usage() - before;
    assert_eq!(module.entry().instructions.len(), 200_000);
    most as f64 / text.len() as f64
}

#[test]
fn reading_takes_less_than_ten_times_the_text() {
    let bare = bytes_for_each_byte(&program(|_| String::new()));
    let as_printed = bytes_for_each_byte(&program(|number| {
        let (block, frame) = (number % 97, number % 1000);
        format!(", metadata={{op_name=\"jit(step)/block/{block}/add\" stack_frame_id={frame}}}")
    }));
    println!("bytes for each byte of text: {bare:.1} bare, {as_printed:.1} with metadata");
    assert!(bare < 10.0 && as_printed < 10.0, "{bare} {as_printed}");
}
