//! Time of the indexing maps of a large fusion: a transformer's layer of 201 instructions (normalisation, attention with its
//! softmax, feed-forward network) in one cluster. All maps to its operands have to be found in less than 50 ms.

use divan::Bencher;
use hlo::graph::Module;
use hlo::indexing_maps::Analysis;
use melior::Context;

fn main() {
    divan::main();
}

fn attention_block() -> Module {
    hlo::text::read(include_str!("attention_block.hlo")).unwrap_or_else(|errors| panic!("{errors}"))
}

#[divan::bench]
fn output_to_input(bencher: Bencher) {
    let context = Context::new_with_threading(false);
    let module = attention_block();
    let entry = module.entry();
    bencher.bench_local(|| Analysis::new(&context, entry).output_to_input(entry.root, 0));
}

#[divan::bench]
fn input_to_output(bencher: Bencher) {
    let context = Context::new_with_threading(false);
    let module = attention_block();
    let entry = module.entry();
    bencher.bench_local(|| Analysis::new(&context, entry).input_to_output(entry.root, 0));
}

#[divan::bench]
fn without_simplification(bencher: Bencher) {
    let context = Context::new_with_threading(false);
    let module = attention_block();
    let entry = module.entry();
    bencher.bench_local(|| Analysis::new(&context, entry).without_simplification().output_to_input(entry.root, 0));
}
