//! The examples, run.

use std::path::PathBuf;

type Outcome = Result<String, Box<dyn std::error::Error>>;

#[path = "../../examples/gallery/call_overhead.rs"]
mod call_overhead;
#[path = "../../examples/gallery/custom_call.rs"]
mod custom_call;
#[path = "../../examples/gallery/k_means.rs"]
mod k_means;
#[path = "../../examples/gallery/linear_regression.rs"]
mod linear_regression;
#[path = "../../examples/gallery/mandelbrot.rs"]
mod mandelbrot;
#[path = "../../examples/quickstart.rs"]
mod quickstart;
#[path = "../../examples/gallery/time_a_dump.rs"]
mod time_a_dump;
#[path = "../../examples/gallery/two_moons.rs"]
mod two_moons;

/// A file for an example to write.
fn file(name: &str) -> [PathBuf; 1] {
    [std::env::temp_dir().join(format!("halo-{}-{name}", std::process::id()))]
}

#[test]
fn quickstart_runs() {
    quickstart::main().unwrap();
}

#[test]
fn quickstart_is_short() {
    let text = include_str!("../../examples/quickstart.rs");
    let user_code = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(user_code <= 12, "{user_code} lines");
}

#[test]
fn a_line_is_found() {
    assert_eq!(linear_regression::run(&[]).unwrap(), "y = 3.00 x + -1.00, mean squared error 0.0050");
}

#[test]
fn clusters_are_found() {
    let line = k_means::run(&[]).unwrap();
    assert!(line.starts_with("means (1.0, 1.0) (5.0, 2.0) (2.0, 6.0) after "), "{line}");
}

#[test]
fn the_mandelbrot_set_is_an_image() {
    let path = file("mandelbrot.png");
    mandelbrot::run(&path).unwrap();
    let decoder = png::Decoder::new(std::fs::File::open(&path[0]).unwrap());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    reader.next_frame(&mut pixels).unwrap();
    let pixel = |x: f64, y: f64| pixels[((y + 1.) * 256.) as usize * 768 + ((x + 2.25) * 256.) as usize];
    // Points known to be in the set, and one outside.
    assert_eq!((pixel(0., 0.), pixel(-1., 0.), pixel(-0.5, 0.5)), (0, 0, 0));
    assert!(pixel(0.7, 0.9) > 100);
    std::fs::remove_file(&path[0]).unwrap();
}

#[test]
fn the_network_tells_the_moons_apart() {
    let path = file("two_moons.svg");
    let line = two_moons::run(&path).unwrap();
    let share: f64 = line.split(' ').rev().nth(3).and_then(|word| word.parse().ok()).expect("a share");
    assert!(share >= 95., "{line}");
    assert!(std::fs::read_to_string(&path[0]).unwrap().contains("<polyline"));
    std::fs::remove_file(&path[0]).unwrap();
}

#[test]
fn calls_are_timed() {
    assert!(call_overhead::run(&[]).unwrap().starts_with("a call takes "));
}

#[test]
fn a_custom_call_runs() {
    assert_eq!(custom_call::run(&[]).unwrap(), "primes among 1..=10: [2.0, 3.0, 5.0, 7.0]");
}

#[test]
fn a_dump_is_timed() {
    let line = time_a_dump::run(&[]).unwrap();
    assert!(line.contains("mnist_mlp_sgd.hlo: compiled in "), "{line}");
}
