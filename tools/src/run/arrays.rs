//! Input arrays from wherever a case has them.

use std::path::{Path, PathBuf};

use data::arrays::{random, read_archive};
use hlo::graph::{Computation, Module};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::view::counted;
use hlo::shape::{ArrayShape, Shape};

use super::Place;
use super::case::{InputFiles, RunCase};
use super::input_text::Input;
use crate::error::ToolError;
use crate::model_spec::ModelSpec;
use crate::npy;

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
        (Some(InputFiles::Arrays(texts)), _, _) => match archive_of(texts, place)? {
            Some(archive) => read_archive(archive, &shapes)?,
            None => read_inputs(texts_of(texts, shapes.len(), place), &leaves(module))?,
        },
        (Some(InputFiles::Archive(file)), _, _) => read_archive(file, &shapes)?,
        (None, Some(seed), _) => random(seed.wrapping_add(place.device as u64), &shapes)?,
        (None, None, Some(spec)) => spec.inputs(&shapes, place.device)?,
        (None, None, None) if shapes.is_empty() => Vec::new(),
        (None, None, None) => {
            return Err(ToolError::Usage(format!(
                "the program takes {}: use --spec, --input, --inputs or --random-inputs",
                parameter_list(&leaves(module))
            )));
        }
    };
    let mut arrays = arrays.into_iter();
    parameters.iter().map(|shape| assemble(shape, &mut arrays)).collect()
}

/// The archive of a device, if the files are archives: one for all devices, or one for each.
fn archive_of(files: &[String], place: Place) -> Result<Option<&Path>, ToolError> {
    let is_archive = |file: &String| file.ends_with(".npz");
    if files.is_empty() || !files.iter().all(is_archive) {
        return Ok(None);
    }
    let number = if files.len() == 1 { 0 } else { place.device };
    match files.get(number) {
        Some(file) if files.len() == 1 || files.len() == place.devices => Ok(Some(Path::new(file))),
        _ => Err(ToolError::Usage(format!(
            "expected one archive, or one for each of {}, got {}",
            counted(place.devices, "device"),
            files.len()
        ))),
    }
}

/// The inputs of a device: all, or of as many for each device those of this one.
fn texts_of(texts: &[String], count: usize, place: Place) -> &[String] {
    let own = place.device * count..(place.device + 1) * count;
    if place.devices > 1 && texts.len() == count * place.devices { texts.get(own).unwrap_or(texts) } else { texts }
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

/// The arrays of the parameters with their names; those of a tuple are numbered.
fn leaves(module: &Module) -> Vec<(String, &ArrayShape)> {
    let entry = module.entry();
    let mut leaves = Vec::new();
    for &parameter in &entry.parameters {
        let parameter = entry.get(parameter);
        for (leaf, shape) in parameter.shape.leaves().into_iter().filter_map(Shape::as_array).enumerate() {
            let place = if parameter.shape.as_array().is_some() { String::new() } else { format!("[{leaf}]") };
            leaves.push((format!("{}{place}", parameter.name), shape));
        }
    }
    leaves
}

/// How many arrays a program takes, and which.
fn parameter_list(leaves: &[(String, &ArrayShape)]) -> String {
    let text = |(name, shape): &(String, &ArrayShape)| format!("`{name}` {}", without_layout(shape));
    let mut names: Vec<String> = leaves.iter().map(text).collect();
    let count = names.len();
    if count == 0 {
        return "no array".to_string();
    }
    let more = if count > MOST_NAMED { ", …" } else { "" };
    names.truncate(MOST_NAMED);
    format!("{} ({}{more})", counted(count, "array"), names.join(", "))
}

fn without_layout(shape: &ArrayShape) -> ArrayShape {
    ArrayShape { layout: None, ..shape.clone() }
}

/// Inputs that name their parameter, and for the other parameters the other inputs in order.
fn read_inputs(texts: &[String], leaves: &[(String, &ArrayShape)]) -> Result<Vec<ArrayLiteral>, ToolError> {
    let usage = |message: String| Err(ToolError::Usage(message));
    let mut inputs: Vec<Option<Input>> = vec![None; leaves.len()];
    let (named, others): (Vec<Input>, Vec<Input>) =
        texts.iter().map(|text| Input::parse(text)).partition(|input| input.name.is_some());
    for input in named {
        let name = input.name.unwrap_or_default();
        match position_of(name, leaves) {
            Some(place) if inputs[place].is_some() => return usage(format!("the input `{name}` is given twice")),
            Some(place) => inputs[place] = Some(input),
            None if name.starts_with(|first: char| first.is_ascii_digit()) => {
                return usage(format!("`{name}` is no shape such as 2x3xf32"));
            }
            None => return usage(format!("no parameter `{name}`: the program takes {}", parameter_list(leaves))),
        }
    }
    let mut others = others.into_iter();
    inputs.iter_mut().filter(|input| input.is_none()).for_each(|input| *input = others.next());
    let missing: Vec<(String, &ArrayShape)> =
        inputs.iter().zip(leaves).filter(|(input, _)| input.is_none()).map(|(_, leaf)| leaf.clone()).collect();
    if others.next().is_some() {
        return usage(format!("the program takes {}, got {}", parameter_list(leaves), texts.len()));
    }
    if !missing.is_empty() {
        let [taken, missing] = [leaves, &missing].map(parameter_list);
        return usage(format!("the program takes {taken}, got {}; missing: {missing}", texts.len()));
    }
    inputs.iter().flatten().zip(leaves).map(|(input, (_, shape))| input.read(shape)).collect()
}

/// The parameter of a name: JAX numbers the names that its users know, so `w` is also `w.1`, if there is no other.
fn position_of(name: &str, leaves: &[(String, &ArrayShape)]) -> Option<usize> {
    let unnumbered = |leaf: &str| {
        let (stem, number) = leaf.rsplit_once('.')?;
        (stem == name && number.parse::<u64>().is_ok()).then_some(())
    };
    leaves.iter().position(|(leaf, _)| leaf == name).or_else(|| {
        let mut alike = leaves.iter().enumerate().filter(|(_, (leaf, _))| unnumbered(leaf).is_some());
        let (position, _) = alike.next()?;
        alike.next().is_none().then_some(position)
    })
}

/// The values that `infeed` instructions read: an array from each file, in the order of these instructions in the text, from
/// the beginning again while there are files.
pub(super) fn infeed(files: &[PathBuf], module: &Module) -> Result<Vec<Literal>, ToolError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut shapes = Vec::new();
    module.functions.iter().for_each(|function| infeed_shapes(function, &mut shapes));
    if shapes.iter().all(|shape| shape.leaves().is_empty()) {
        return Err(ToolError::Usage("--infeed is given, but the program has no infeed".into()));
    }
    let mut files = files.iter();
    let mut values = Vec::new();
    for shape in shapes.iter().cycle() {
        if files.len() == 0 {
            break;
        }
        let arrays = shape.leaves().into_iter().filter_map(Shape::as_array);
        let arrays: Vec<ArrayLiteral> = arrays
            .map(|shape| {
                let wanted = without_layout(shape);
                let missing = || ToolError::Usage(format!("--infeed: a file with {wanted} is missing"));
                Ok(npy::read(files.next().ok_or_else(missing)?, shape)?)
            })
            .collect::<Result<_, ToolError>>()?;
        values.push(assemble(shape, &mut arrays.into_iter())?);
    }
    Ok(values)
}

/// The shapes of what is read, without the tokens.
fn infeed_shapes(computation: &Computation, shapes: &mut Vec<Shape>) {
    for instruction in &computation.instructions {
        instruction.computations.iter().for_each(|nested| infeed_shapes(nested, shapes));
        if let (OpKind::Infeed, Some([value, ..])) = (instruction.kind, instruction.shape.as_tuple()) {
            shapes.push(value.clone());
        }
    }
}
