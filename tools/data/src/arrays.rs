//! Inputs and outputs of a run, from and to files.

use std::path::Path;

use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;
use serde_json::json;

use crate::error::DataError;
use crate::fill::{self, FillRange};
use crate::npy::{self, NpzFile};

/// Arrays named `…_0`, `…_1` … are taken in that order, others in the order of the archive.
///
/// # Errors
/// For a file that cannot be read, and other arrays than the shapes say.
pub fn read_archive(file: &Path, shapes: &[&ArrayShape]) -> Result<Vec<ArrayLiteral>, DataError> {
    let mut archive = NpzFile::open(file)?;
    let names = archive.names();
    if names.len() != shapes.len() {
        let message = format!("expected {} arrays, the archive has {}", shapes.len(), names.len());
        return Err(DataError::data(file, message));
    }
    let numbers: Option<Vec<usize>> = names.iter().map(|name| name.rsplit_once('_')?.1.parse().ok()).collect();
    let mut positions: Vec<usize> = (0..names.len()).collect();
    if let Some(numbers) = numbers {
        positions.sort_by_key(|&position| numbers[position]);
    }
    positions.into_iter().zip(shapes).map(|(position, shape)| archive.read(position, shape)).collect()
}

/// Made-up values of arrays.
///
/// # Errors
/// Where there is no memory for them.
pub fn random(seed: u64, shapes: &[&ArrayShape]) -> Result<Vec<ArrayLiteral>, DataError> {
    // Streams are 2^24 apart in the generator's state space; seeds are spread over it.
    let first = fill::mix(seed) >> 24;
    let array = |(number, shape): (u64, &&ArrayShape)| {
        fill::fill(first.wrapping_add(number), shape, FillRange::default_for(shape.element_type))
    };
    (0..).zip(shapes).map(array).collect()
}

/// Expected outputs from a folder that [`write_outputs`] wrote, or an archive.
///
/// # Errors
/// For files that cannot be read, and other arrays than the outputs.
pub fn expected(path: &Path, outputs: &[&ArrayLiteral]) -> Result<Vec<ArrayLiteral>, DataError> {
    let shapes: Vec<&ArrayShape> = outputs.iter().map(|output| output.shape()).collect();
    if !path.is_dir() {
        return read_archive(path, &shapes);
    }
    let beyond = path.join(output_name(outputs.len()));
    if beyond.exists() {
        let message = format!("expected {} arrays, the folder has {}", outputs.len(), output_name(outputs.len()));
        return Err(DataError::data(path, message));
    }
    shapes.iter().enumerate().map(|(number, shape)| npy::read(&path.join(output_name(number)), shape)).collect()
}

fn output_name(number: usize) -> String {
    format!("out_{number}.npy")
}

/// Writes `out_0.npy` … and `meta.json`, which names the XLA type and shape of each.
///
/// # Errors
/// For files that cannot be written.
pub fn write_outputs(folder: &Path, outputs: &[&ArrayLiteral]) -> Result<(), DataError> {
    std::fs::create_dir_all(folder).map_err(|source| DataError::write(folder, source))?;
    let mut rows = Vec::with_capacity(outputs.len());
    for (number, output) in outputs.iter().enumerate() {
        npy::write(&folder.join(output_name(number)), output)?;
        rows.push(json!({
            "file": output_name(number),
            "type": output.element_type().name(),
            "shape": output.shape().dimensions,
        }));
    }
    let path = folder.join("meta.json");
    let text = format!("{:#}\n", json!({ "outputs": rows }));
    std::fs::write(&path, text).map_err(|source| DataError::write(&path, source))
}
