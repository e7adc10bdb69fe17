//! Times of simplification. The document's and XLA's worst examples have to stay below 100 µs.

use divan::Bencher;
use indexing::IndexingMap;
use melior::Context;

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
    let context = Context::new_with_threading(false);
    let map = IndexingMap::parse(&context, EXAMPLES[number]).expect("parses");
    bencher.with_inputs(|| map.clone()).bench_local_values(|mut map| {
        map.simplify();
        map
    });
}

#[divan::bench]
fn chained_reshapes(bencher: Bencher) {
    let context = Context::new_with_threading(false);
    let map = |text| IndexingMap::parse(&context, text).expect("parses");
    let first = map("(d0, d1, d2) -> (d0 * 5 + d1 floordiv 2, (d1 mod 2) * 10 + d2), \
                     domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]");
    let second = map("(d0, d1) -> (d0 floordiv 5, (d0 mod 5) * 2 + d1 floordiv 10, d1 mod 10), \
                      domain: d0 in [0, 49], d1 in [0, 19]");
    bencher.bench_local(|| {
        let mut map = first.compose(&second).expect("ranks agree");
        map.simplify();
        map
    });
}

#[divan::bench]
fn parse_and_print() -> String {
    let context = Context::new_with_threading(false);
    IndexingMap::parse(&context, EXAMPLES[2]).expect("parses").to_string()
}
