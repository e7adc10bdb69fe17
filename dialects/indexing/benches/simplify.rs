//! Times of simplification. The document's and XLA's worst examples have to stay below 100 µs.

use divan::Bencher;
use indexing::{IndexingMap, maps};

fn main() {
    divan::main();
}

const EXAMPLES: [&str; 4] = [
    // The document's rules 2 and 4.
    "(d0, d1, d2) -> ((d0 * 100 + d1 * 10 + d2) floordiv 100, ((d0 * 100 + d1 * 10 + d2) mod 100) floordiv 10, \
     d2 mod 10), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
    "(d0, d1) -> (-((d0 * -11 - d1 + 109) floordiv 11) + 9, d0 * 11 + d1 + ((d0 * -11 - d1 + 109) floordiv 11) * 11 - 99), \
     domain: d0 in [0, 7], d1 in [0, 8]",
    // A bitcast and its reverse, the longest example of XLA's tests.
    "(d0, d1) -> ((d0 floordiv 1536) * 786432 + (((d0 * 2 + d1 floordiv 64) floordiv 3) mod 1024) * 768 \
     + ((d0 * 2 + d1 floordiv 64) mod 3) * 256 + (d1 mod 64) * 4), domain: d0 in [0, 3071], d1 in [0, 127]",
    "(d0)[s0, s1, s2] -> (s2, d0, s1, s0 floordiv 6), domain: d0 in [0, 9], s0 in [0, 69], s1 in [0, 19], s2 in [0, 7], \
     d0 + s2 in [0, 20], d0 mod 8 in [0, 0], s0 mod 3 in [1, 1], s2 mod 4 in [0, 0]",
];

#[divan::bench(args = 0..EXAMPLES.len())]
fn example(bencher: Bencher, number: usize) {
    let map: IndexingMap = EXAMPLES[number].parse().expect("parses");
    bencher.with_inputs(|| map.clone()).bench_values(|mut map| {
        map.simplify();
        map
    });
}

#[divan::bench]
fn chained_reshapes(bencher: Bencher) {
    let (first, second) = (maps::reshape(&[50, 20], &[10, 10, 10]), maps::reshape(&[10, 10, 10], &[50, 20]));
    bencher.bench(|| {
        let mut map = first.compose(&second).expect("ranks agree");
        map.simplify();
        map
    });
}

#[divan::bench]
fn parse_and_print() -> String {
    EXAMPLES[2].parse::<IndexingMap>().expect("parses").to_string()
}
