//! Input arrays from wherever a case has them, expected arrays, and output files.

use std::path::{Path, PathBuf};

use hlo::graph::Module;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::ops::view::counted;
use hlo::shape::{ArrayShape, Shape};
use serde_json::json;

use super::Place;
use super::case::{InputFiles, RunCase};
use crate::error::ToolError;
use crate::fill::{self, FillRange};
use crate::model_spec::ModelSpec;
use crate::npy::{self, NpzFile};

/// The entry parameters' values on a device: tuples are put together from the arrays that stand for their leaves.
pub(super) fn inputs(
    case: &RunCase,
    spec: Option<&ModelSpec>,
    module: &Module,
    place: Place,
) -> Result<Vec<Literal>, ToolError> {
    let parameters = module.entry().program_shape().parameters;
    let shapes: Vec<&ArrayShape> = parameters.iter().flat_map(Shape::leaves).filter_map(Shape::as_array).collect();
    let arrays = match (&case.inputs, case.random_inputs, spec) {
        (Some(InputFiles::Arrays(files)), _, _) => match archive_of(files, place)? {
            Some(archive) => read_archive(archive, &shapes)?,
            None => read_files(files_of(files, shapes.len(), place), &shapes, module)?,
        },
        (Some(InputFiles::Archive(file)), _, _) => read_archive(file, &shapes)?,
        (None, Some(seed), _) => random(seed.wrapping_add(place.device as u64), &shapes)?,
        (None, None, Some(spec)) => spec.inputs(&shapes, place.device)?,
        (None, None, None) if shapes.is_empty() => Vec::new(),
        (None, None, None) => {
            return Err(ToolError::Usage(format!(
                "the program takes {}: give them with --spec, --input, --inputs or --random-inputs",
                parameter_list(module)
            )));
        }
    };
    let mut arrays = arrays.into_iter();
    parameters.iter().map(|shape| assemble(shape, &mut arrays)).collect()
}

/// The archive of a device, if the files are archives: one for all devices, or one for each.
fn archive_of(files: &[PathBuf], place: Place) -> Result<Option<&PathBuf>, ToolError> {
    let is_archive = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "npz");
    if files.is_empty() || !files.iter().all(is_archive) {
        return Ok(None);
    }
    let number = if files.len() == 1 { 0 } else { place.device };
    match files.get(number) {
        Some(file) if files.len() == 1 || files.len() == place.devices => Ok(Some(file)),
        _ => Err(ToolError::Usage(format!(
            "expected one archive, or one for each of {}, got {}",
            counted(place.devices, "device"),
            files.len()
        ))),
    }
}

/// The files of a device: all, or of as many for each device those of this one.
fn files_of(files: &[PathBuf], count: usize, place: Place) -> &[PathBuf] {
    let own = place.device * count..(place.device + 1) * count;
    if place.devices > 1 && files.len() == count * place.devices { files.get(own).unwrap_or(files) } else { files }
}

fn assemble(shape: &Shape, arrays: &mut impl Iterator<Item = ArrayLiteral>) -> Result<Literal, ToolError> {
    match shape {
        Shape::Array(_) => arrays.next().map(Literal::Array).ok_or_else(|| ToolError::Bug("too few inputs".into())),
        Shape::Tuple(elements) => {
            Ok(Literal::Tuple(elements.iter().map(|element| assemble(element, arrays)).collect::<Result<_, _>>()?))
        }
        Shape::Token => Ok(Literal::Token),
        Shape::Opaque => Err(ToolError::Unsupported("an entry parameter of shape opaque[]".into())),
    }
}

/// Parameters that a message names one by one.
const MOST_NAMED: usize = 16;

/// How many arrays a program takes, and which.
fn parameter_list(module: &Module) -> String {
    let entry = module.entry();
    let mut names = Vec::new();
    for &parameter in &entry.parameters {
        let parameter = entry.get(parameter);
        for (leaf, shape) in parameter.shape.leaves().into_iter().filter_map(Shape::as_array).enumerate() {
            let place = if parameter.shape.as_array().is_some() { String::new() } else { format!("[{leaf}]") };
            names.push(format!("`{}{place}` {}", parameter.name, ArrayShape { layout: None, ..shape.clone() }));
        }
    }
    let count = names.len();
    let more = if count > MOST_NAMED { ", …" } else { "" };
    names.truncate(MOST_NAMED);
    format!("{} ({}{more})", counted(count, "array"), names.join(", "))
}

fn read_files(files: &[PathBuf], shapes: &[&ArrayShape], module: &Module) -> Result<Vec<ArrayLiteral>, ToolError> {
    if files.len() != shapes.len() {
        return Err(ToolError::Usage(format!("the program takes {}, got {}", parameter_list(module), files.len())));
    }
    files.iter().zip(shapes).map(|(file, shape)| npy::read(file, shape)).collect()
}

/// Arrays named `…_0`, `…_1` … are taken in that order, others in the order of the archive.
fn read_archive(file: &Path, shapes: &[&ArrayShape]) -> Result<Vec<ArrayLiteral>, ToolError> {
    let mut archive = NpzFile::open(file)?;
    let names = archive.names();
    if names.len() != shapes.len() {
        let message = format!("expected {} arrays, the archive has {}", shapes.len(), names.len());
        return Err(ToolError::data(file, message));
    }
    let numbers: Option<Vec<usize>> = names.iter().map(|name| name.rsplit_once('_')?.1.parse().ok()).collect();
    let mut positions: Vec<usize> = (0..names.len()).collect();
    if let Some(numbers) = numbers {
        positions.sort_by_key(|&position| numbers[position]);
    }
    positions.into_iter().zip(shapes).map(|(position, shape)| archive.read(position, shape)).collect()
}

fn random(seed: u64, shapes: &[&ArrayShape]) -> Result<Vec<ArrayLiteral>, ToolError> {
    // Streams are 2^24 apart in the generator's state space; seeds are spread over it.
    let first = fill::mix(seed) >> 24;
    let array = |(number, shape): (u64, &&ArrayShape)| {
        fill::fill(first.wrapping_add(number), shape, FillRange::default_for(shape.element_type))
    };
    (0..).zip(shapes).map(array).collect()
}

/// Expected outputs from a folder that `--output-dir` wrote, or an archive.
pub(super) fn expected(path: &Path, outputs: &[&ArrayLiteral]) -> Result<Vec<ArrayLiteral>, ToolError> {
    let shapes: Vec<&ArrayShape> = outputs.iter().map(|output| output.shape()).collect();
    if !path.is_dir() {
        return read_archive(path, &shapes);
    }
    let beyond = path.join(output_name(outputs.len()));
    if beyond.exists() {
        let message = format!("expected {} arrays, the folder has {}", outputs.len(), output_name(outputs.len()));
        return Err(ToolError::data(path, message));
    }
    shapes.iter().enumerate().map(|(number, shape)| npy::read(&path.join(output_name(number)), shape)).collect()
}

fn output_name(number: usize) -> String {
    format!("out_{number}.npy")
}

/// Writes `out_0.npy` … and `meta.json`, which names the XLA type and shape of each.
pub(super) fn write_outputs(folder: &Path, outputs: &[&ArrayLiteral]) -> Result<(), ToolError> {
    std::fs::create_dir_all(folder).map_err(|source| ToolError::write(folder, source))?;
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
    std::fs::write(&path, text).map_err(|source| ToolError::write(&path, source))
}
