//! An HLO dump, loaded and timed on zeros. Arguments: the file; a model of the repository's tests by default.

use std::path::{Path, PathBuf};
use std::time::Instant;

use halo::{ArrayLiteral, Buffer, Client, CompileOptions};

/// Runs that are timed.
const RUNS: u32 = 20;

/// Loads, compiles and times.
pub fn run(arguments: &[PathBuf]) -> super::Outcome {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-files/models/mnist_mlp_sgd.hlo");
    let path = arguments.first().unwrap_or(&default);
    let executable = Client::cpu()?.compile(path, &CompileOptions::default())?;
    let leaves = executable.program_shape().parameters.iter().flat_map(halo::Shape::leaves);
    let mut parameters = Vec::new();
    for shape in leaves.filter_map(halo::Shape::as_array) {
        parameters.push(Buffer::from(ArrayLiteral::zeros(shape.clone())?));
    }
    let mut results = executable.result_buffers()?;
    executable.execute_into(&parameters, &mut results)?;
    let start = Instant::now();
    for _ in 0..RUNS {
        executable.execute_into(&parameters, &mut results)?;
    }
    let time = start.elapsed() / RUNS;
    let (cost, memory) = (executable.cost(), executable.memory());
    Ok(format!(
        "{}: compiled in {:.0?}, {time:.1?} a run, {:.2} GFLOP/s, {} bytes of temporaries",
        path.display(),
        executable.timings().total(),
        cost.flops as f64 / time.as_nanos() as f64,
        memory.temporaries
    ))
}
