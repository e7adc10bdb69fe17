//! What to run: one program with its inputs and what its outputs are checked against.

use std::path::PathBuf;

use serde::Deserialize;

/// One execution, from the command line or a line of a batch file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCase {
    /// The program.
    pub module: PathBuf,
    /// Description that fills the inputs and checks the outputs.
    pub spec: Option<PathBuf>,
    /// Input arrays.
    pub inputs: Option<InputFiles>,
    /// `.npy` files of the values that `infeed` reads.
    #[serde(default)]
    pub infeed: Vec<PathBuf>,
    /// Seed of made-up inputs.
    pub random_inputs: Option<u64>,
    /// Folder for the outputs.
    pub output_dir: Option<PathBuf>,
    /// Folder or `.npz` file of expected outputs.
    pub expected: Option<PathBuf>,
    /// Relative tolerance in place of the element type's own.
    pub rtol: Option<f64>,
    /// Absolute tolerance in place of 0.
    pub atol: Option<f64>,
}

/// Files of input arrays.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected one .npz file, or a list of texts as --input takes them")]
pub enum InputFiles {
    /// One `.npz` archive.
    Archive(PathBuf),
    /// One text for each array, for each device or for all: a `.npy` file or values, with or without the parameter's name
    /// before it. Or one `.npz` archive for each device.
    Arrays(Vec<String>),
}
