//! What a call costs besides its work: a 1-element addition, with arguments and results in place.

use std::path::PathBuf;
use std::time::Instant;

use halo::builder::HloBuilder;
use halo::{ArrayLiteral, Buffer, Client, CompileOptions, Shape};

/// Blocks of calls that are timed apart, so that other work of the machine shows.
const BLOCKS: usize = 200;
const CALLS: u32 = 1000;

/// Times the calls.
pub fn run(_arguments: &[PathBuf]) -> super::Outcome {
    let b = HloBuilder::new("add");
    let x = b.parameter(0, Shape::of::<f32>([1]), "x");
    let y = b.parameter(1, Shape::of::<f32>([1]), "y");
    let executable = Client::cpu()?.compile(&b.build(x + y)?, &CompileOptions::default())?;
    let x = Buffer::from(ArrayLiteral::from_slice([1], &[1f32])?);
    let y = Buffer::from(ArrayLiteral::from_slice([1], &[2f32])?);
    let mut results = executable.result_buffers()?;
    let mut times = Vec::with_capacity(BLOCKS);
    for _ in 0..BLOCKS {
        let start = Instant::now();
        for _ in 0..CALLS {
            executable.execute_into((&x, &y), &mut results)?;
        }
        times.push(start.elapsed() / CALLS);
    }
    times.sort();
    Ok(format!("a call takes {:?} (median of {BLOCKS} blocks {:?})", times[0], times[BLOCKS / 2]))
}
