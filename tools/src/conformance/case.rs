//! Reading the files of cases.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hlo::devices::DeviceCount;
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, Module};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;
use serde::Deserialize;

use crate::error::ToolError;
use crate::module_file::SourceText;

/// A case as its line in a file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    op: String,
    #[serde(rename = "type")]
    element_type: String,
    what: String,
    source: ResultSource,
    hlo: String,
    inputs: Vec<String>,
    results: Vec<String>,
    #[serde(default)]
    fed: Vec<String>,
    #[serde(default)]
    written: Vec<String>,
    /// Replicas and partitions.
    #[serde(default)]
    devices: Option<(i64, i64)>,
}

/// Where the expected results come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultSource {
    /// XLA:CPU ran the program.
    Xla,
    /// The operation computed in more bits and rounded once, where XLA:CPU has no code or flushes denormals.
    Ieee,
    /// The rule of the operation semantics, where XLA:CPU refuses the program.
    Document,
}

/// One program with inputs and expected results.
#[derive(Clone, Debug)]
pub struct ConformanceCase {
    /// The operation it is about.
    pub op: OpKind,
    /// The element type it is about.
    pub element_type: ElementType,
    /// What is special about it.
    pub what: String,
    /// Where the results come from.
    pub source: ResultSource,
    text: SourceText,
    inputs: Vec<String>,
    results: Vec<String>,
    fed: Vec<String>,
    written: Vec<String>,
    /// The devices that the program is for.
    pub devices: DeviceCount,
}

/// A case ready to run.
#[derive(Clone, Debug)]
pub struct LoadedCase {
    /// The program.
    pub module: Module,
    /// Arguments by parameter, of each device.
    pub inputs: Vec<Vec<Literal>>,
    /// The arrays of the results of all devices, in order; tokens are left out.
    pub results: Vec<ArrayLiteral>,
    /// The arrays that each of the program's `infeed`s reads, in order.
    pub fed: Vec<Vec<ArrayLiteral>>,
    /// The arrays that its `outfeed`s must write, in order.
    pub written: Vec<ArrayLiteral>,
}

/// The cases of a file by operation.
///
/// # Errors
/// For files that cannot be read, lines that are no cases, and names of no operation or element type.
pub fn read_family(path: &Path) -> Result<BTreeMap<OpKind, Vec<Arc<ConformanceCase>>>, ToolError> {
    let file = SourceText::read(path)?;
    let mut cases: BTreeMap<OpKind, Vec<Arc<ConformanceCase>>> = BTreeMap::new();
    for (number, line) in file.text.lines().enumerate() {
        let located = |message: String| ToolError::data(path, format!("line {}: {message}", number + 1));
        let line: Line = serde_json::from_str(line).map_err(|error| located(error.to_string()))?;
        let op: OpKind = line.op.parse().map_err(|error| located(format!("{error}")))?;
        let element_type: ElementType = line.element_type.parse().map_err(|error| located(format!("{error}")))?;
        let text = SourceText { path: path.to_path_buf(), text: line.hlo.into() };
        let case = ConformanceCase {
            op,
            element_type,
            what: line.what,
            source: line.source,
            text,
            inputs: line.inputs,
            results: line.results,
            fed: line.fed,
            written: line.written,
            devices: line
                .devices
                .map_or(DeviceCount::ONE, |(replicas, partitions)| DeviceCount { replicas, partitions }),
        };
        cases.entry(op).or_default().push(Arc::new(case));
    }
    Ok(cases)
}

impl ConformanceCase {
    /// Its name: the operation, the element type and what is special.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.op, self.element_type, self.what)
    }

    /// The program's text.
    pub fn source_text(&self) -> &SourceText {
        &self.text
    }

    /// Reads the program and its data.
    ///
    /// # Errors
    /// A text for programs that are refused and data that does not fit them.
    pub fn load(&self) -> Result<LoadedCase, String> {
        let module = self.text.module().map_err(|error| error.render())?;
        let program_shape = module.entry().program_shape();
        let devices = self.devices.total() as usize;
        let parameters = &program_shape.parameters;
        let of_all = vec![parameters.clone(); devices].concat();
        let mut inputs = arrays(&of_all, &self.inputs)?.into_iter().map(Literal::Array);
        let inputs = (0..devices).map(|_| inputs.by_ref().take(parameters.len()).collect()).collect();
        let results = arrays(&vec![program_shape.result; devices], &self.results)?;
        let entry = module.entry();
        let values: Vec<Shape> =
            entry.instructions.iter().filter(|i| i.kind == OpKind::Infeed).filter_map(fed_shape).collect();
        let mut arrays_fed = arrays(&values, &self.fed)?.into_iter();
        let fed = values.iter().map(|value| arrays_fed.by_ref().take(value.leaves().len()).collect()).collect();
        let outfeeds = entry.instructions.iter().filter(|instruction| instruction.kind == OpKind::Outfeed);
        let values: Vec<Shape> = outfeeds.map(|outfeed| entry.get(outfeed.operands[0]).shape.clone()).collect();
        let written = arrays(&values, &self.written)?;
        Ok(LoadedCase { inputs, results, fed, written, module })
    }

    /// Whether the program uses queues, which programs that are joined would share.
    pub fn has_queues(&self) -> bool {
        !(self.fed.is_empty() && self.written.is_empty())
    }
}

/// Shape of the value that an `infeed` reads.
fn fed_shape(infeed: &Instruction) -> Option<Shape> {
    infeed.shape.as_tuple().and_then(|elements| elements.first().cloned())
}

/// The arrays among the leaves of some shapes, with their data.
fn arrays(shapes: &[Shape], data: &[String]) -> Result<Vec<ArrayLiteral>, String> {
    let leaves: Vec<_> = shapes.iter().flat_map(Shape::leaves).filter_map(Shape::as_array).collect();
    if leaves.len() != data.len() {
        return Err(format!("the program has {} arrays, the case {}", leaves.len(), data.len()));
    }
    leaves
        .into_iter()
        .zip(data)
        .map(|(shape, data)| {
            let bytes = bytes(data).ok_or_else(|| format!("not hexadecimal: {data}"))?;
            let shape = hlo::shape::ArrayShape { layout: None, ..shape.clone() };
            ArrayLiteral::from_bytes(shape, &bytes).map_err(|error| error.to_string())
        })
        .collect()
}

/// The bytes of a text of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
