//! A function of Rust in the middle of a compiled program.

use std::path::PathBuf;

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Shape, custom_call};

fn is_prime(number: f32) -> bool {
    number >= 2.0 && (2..).take_while(|&d| (d * d) as f32 <= number).all(|d| number % d as f32 != 0.0)
}

/// Marks the primes among the numbers from 1 to 10.
pub fn run(_arguments: &[PathBuf]) -> super::Outcome {
    custom_call::register("gallery.is_prime", |call, results| {
        let numbers = call.operand::<f32>(0)?;
        for (result, &number) in results[0].as_mut_slice::<f32>()?.iter_mut().zip(numbers) {
            *result = f32::from(is_prime(number));
        }
        Ok(())
    });
    let b = HloBuilder::new("primes");
    let numbers = b.iota(Shape::of::<f32>([10]), 0) + 1.0;
    let marks = b.custom_call("gallery.is_prime", &[numbers], Shape::of::<f32>([10]));
    let program = b.build(numbers * marks)?;
    let result = Client::cpu()?.compile(&program, &CompileOptions::default())?.execute(())?;
    let numbers = result.as_slice::<f32>().ok_or("numbers")?;
    let primes: Vec<f32> = numbers.iter().copied().filter(|&number| number > 0.0).collect();
    Ok(format!("primes among 1..=10: {primes:?}"))
}
