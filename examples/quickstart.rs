//! The smallest program: build, compile, run.

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Shape};

/// Builds, compiles and runs.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let b = HloBuilder::new("quickstart");
    let x = b.parameter(0, Shape::of::<f32>([3]), "x");
    let program = b.build((x * 2.0 + 1.0).tanh())?;
    let executable = Client::cpu()?.compile(&program, &CompileOptions::default())?;
    let result = executable.execute((&[0.5f32, 1.0, 1.5],))?;
    println!("{:?}", result.as_slice::<f32>().unwrap_or_default());
    Ok(())
}
