//! Memory of a large constant on its way to execution. The only test of its process: others would count too.

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Literal, Shape};
use hlo::graph::Module;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Elements of the constant: 200 MB.
const COUNT: usize = 50_000_000;

/// A part of a table of so many numbers.
fn program(count: usize) -> Module {
    let b = HloBuilder::new("lookup");
    let index = b.parameter(0, Shape::of::<i32>([]), "index");
    let values: Vec<f32> = (0..count).map(|number| number as f32).collect();
    let table = b.constant(Literal::from_slice([count as i64], &values).unwrap());
    b.build(b.dynamic_slice(table, &[index], &[2])).unwrap()
}

/// A field of the process's status in bytes: what other languages allocate counts too.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok()).unwrap() * 1024
}

#[test]
fn compiling_copies_no_large_constant() {
    let client = Client::with_threads(1).unwrap();
    let options = CompileOptions::default();
    // What the process needs once.
    client.compile(&program(2000), &options).unwrap();
    let program = program(COUNT);
    // The peak starts anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    ALLOCATOR.reset_peak_usage();
    let (resident, allocated) = (status("VmRSS"), ALLOCATOR.current_usage());
    let executable = client.compile(&program, &options).unwrap();
    let result = executable.execute((&(COUNT as i32 - 2),)).unwrap();
    let resident = status("VmHWM") - resident;
    let allocated = ALLOCATOR.peak_usage() - allocated;
    assert_eq!(result.as_slice::<f32>(), Some(&[(COUNT - 2) as f32, (COUNT - 1) as f32][..]));
    let bytes = COUNT * size_of::<f32>();
    println!("{bytes} bytes of constant, {allocated} allocated by Rust, {resident} more resident");
    assert!(allocated < bytes / 20 && resident < bytes * 3 / 10, "{allocated} {resident}");
}
