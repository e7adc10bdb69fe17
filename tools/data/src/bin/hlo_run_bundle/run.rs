//! One program on its inputs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data::arrays;
use data::compare::{ArrayComparison, Tolerance, compare_arrays};
use data::error::{DataError, io_text};
use data::model_spec::{ModelSpec, has_floats_in};
use data::npy;
use data::value_text;
use halo::{Client, Executable};
use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::{ArrayShape, Shape};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// Arrays or their files.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Loading or running.
    #[error(transparent)]
    Halo(#[from] halo::Error),
}

impl RunError {
    /// Whether it is a mistake in halo itself.
    pub fn is_bug(&self) -> bool {
        matches!(self, RunError::Halo(error) if error.is_bug())
    }
}

/// Where inputs come from.
pub(crate) enum Inputs {
    /// NumPy's files.
    Files(Vec<PathBuf>),
    /// A model's description, which says what comes out, too.
    Described(PathBuf),
    /// Made up from a seed.
    Random(u64),
}

/// What is done with a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Runs before those that are timed.
    pub warm_up: u32,
    /// Runs that are timed.
    pub repeat: u32,
    /// Tolerances in the place of the usual ones.
    pub relative: Option<f64>,
    /// As above.
    pub absolute: Option<f64>,
    /// What should come out.
    pub expected: Option<PathBuf>,
    /// Where what comes out goes.
    pub output_dir: Option<PathBuf>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    load: Duration,
    runs: Vec<Duration>,
    devices: Vec<Duration>,
    /// Of runs without the device's clock, until all was given to the device.
    launches: Vec<Duration>,
    /// Of each output that something is expected of.
    pub comparisons: Vec<ArrayComparison>,
    shapes: Vec<String>,
    values: Vec<String>,
}

impl Report {
    /// Whether all outputs are as expected.
    pub fn agrees(&self) -> bool {
        self.comparisons.iter().all(ArrayComparison::agrees)
    }

    /// The report for people.
    pub fn text(&self, timed: bool) -> String {
        let mut text = String::new();
        self.values.iter().for_each(|value| text += &format!("{value}\n"));
        for (number, (shape, comparison)) in self.shapes.iter().zip(&self.comparisons).enumerate() {
            let _ = match comparison.agrees() {
                true => writeln!(text, "output {number} {shape}: agrees, worst deviation {:.2e}", comparison.worst),
                false => writeln!(text, "output {number} {shape}: DIFFERS; {comparison}"),
            };
        }
        if timed {
            let times = [
                ("load", Some(self.load)),
                ("run", median(&self.runs)),
                ("least", self.runs.iter().min().copied()),
                ("launch", median(&self.launches)),
                ("device", median(&self.devices)),
            ];
            for (name, time) in times {
                let _ = time.map(|time| writeln!(text, "{name:<8} {:>10.4} ms", time.as_secs_f64() * 1e3));
            }
        }
        text
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Runs a program.
///
/// # Errors
/// For files that are not what they should be, and for programs that cannot be loaded or fail.
pub(crate) fn run(client: &Client, program: &Path, inputs: &Inputs, settings: &Settings) -> Result<Report, RunError> {
    let bytes = std::fs::read(program).map_err(|source| DataError::Read { path: program.into(), source })?;
    let start = Instant::now();
    // SAFETY: who runs a compiled program trusts who made it, as with any program.
    let executable = unsafe { client.deserialize(&bytes)? };
    let mut report = Report { load: start.elapsed(), ..Report::default() };
    let spec = match inputs {
        Inputs::Described(path) => Some(ModelSpec::read(path)?),
        Inputs::Files(_) | Inputs::Random(_) => None,
    };
    let arguments = arguments(&executable, inputs, spec.as_ref())?;
    let arguments = client.to_device(&arguments[..])?;
    let mut results = Vec::new();
    let count = settings.warm_up + settings.repeat;
    for number in 0..count {
        results.clear();
        // By host and device in turns, as the device's clock costs the host time; the last by both.
        let is_timed = (count - number) % 2 == 1;
        executable.time_device(is_timed);
        let start = Instant::now();
        results = executable.execute_buffers(&arguments)?;
        if number >= settings.warm_up {
            report.runs.push(start.elapsed());
            report.devices.extend(executable.device_time().filter(|_| is_timed));
            report.launches.extend(executable.launch_time().filter(|_| !is_timed));
        }
    }
    // Behind the results are the sizes of dynamic dimensions.
    let result = &executable.program_shape().result;
    results.truncate(arrays_in(result).len());
    let results = results.iter().map(|result| result.to_literal()).collect::<Result<Vec<_>, _>>()?;
    let outputs: Vec<&ArrayLiteral> = results.iter().filter_map(Literal::as_array).collect();
    report.shapes = outputs.iter().map(|output| shape_text(output.shape())).collect();
    let usual =
        |element_type: ElementType| Tolerance::default_for(element_type).with(settings.relative, settings.absolute);
    if let Some(expected) = &settings.expected {
        let expected = arrays::expected(expected, &outputs)?;
        let pairs = outputs.iter().zip(&expected);
        let compared =
            pairs.map(|(found, expected)| compare_arrays(found, expected, usual(found.element_type()), None));
        report.comparisons = compared.collect();
    } else if let Some(spec) = spec.filter(|spec| !spec.outputs.is_empty()) {
        // Only the shapes of a compiled program are known.
        let shape = executable.program_shape();
        let in_floats = shape.parameters.iter().chain([&shape.result]).any(has_floats_in);
        report.comparisons = spec.check(in_floats, &outputs, usual, &[])?;
    }
    match &settings.output_dir {
        Some(folder) => arrays::write_outputs(folder, &outputs)?,
        None if report.comparisons.is_empty() => report.values = results.iter().map(value_text::shortened).collect(),
        None => {}
    }
    Ok(report)
}

fn arrays_in(shape: &Shape) -> Vec<&ArrayShape> {
    shape.leaves().into_iter().filter_map(Shape::as_array).collect()
}

fn shape_text(shape: &ArrayShape) -> String {
    ArrayShape { layout: None, ..shape.clone() }.to_string()
}

/// The arrays that a program takes.
fn arguments(
    executable: &Executable,
    inputs: &Inputs,
    spec: Option<&ModelSpec>,
) -> Result<Vec<ArrayLiteral>, RunError> {
    let shapes: Vec<&ArrayShape> = executable.program_shape().parameters.iter().flat_map(arrays_in).collect();
    let arrays = match (inputs, spec) {
        (_, Some(spec)) => spec.inputs(&shapes, 0)?,
        (Inputs::Random(seed), None) => arrays::random(*seed, &shapes)?,
        (Inputs::Files(files), None) if files.len() == shapes.len() => {
            files.iter().zip(&shapes).map(|(file, shape)| npy::read(file, shape)).collect::<Result<_, _>>()?
        }
        (Inputs::Files(files), None) => {
            let wanted: Vec<String> = shapes.iter().map(|shape| shape_text(shape)).collect();
            let message =
                format!("the program takes {} arrays ({}), got {}", shapes.len(), wanted.join(", "), files.len());
            return Err(DataError::Usage(message).into());
        }
        (Inputs::Described(path), None) => {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(DataError::Read { path: path.clone(), source }.into());
        }
    };
    Ok(arrays)
}

/// Folders in a folder, by name.
pub(crate) fn folders(path: &Path) -> Result<Vec<PathBuf>, RunError> {
    let failed = |source: std::io::Error| DataError::Data { path: path.into(), message: io_text(&source) };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
