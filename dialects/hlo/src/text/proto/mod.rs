//! Programs as protocol buffers, as `--xla_dump_hlo_as_proto` and `as_serialized_hlo_module_proto` write them: `HloProto` or
//! `HloModuleProto`, told apart by what they hold. They become text, which is then read as any other: there is one place
//! that checks programs, and its errors point into that text.

mod attributes;
mod literal;
mod messages;

use std::collections::HashMap;
use std::fmt::Write;

use prost::Message;

use self::messages::{
    FileLocation, HloComputationProto, HloInstructionProto, HloModuleProto, HloProto, HloSnapshot, ShapeProto,
    StackFrame,
};

/// What is wrong with a protocol buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The bytes are no message, or not of a program.
    #[error("not a program as a protocol buffer: {0}")]
    Malformed(String),
    /// Something refers to what is not there.
    #[error("`{0}` refers to {1} {2}, which is not there")]
    Missing(String, &'static str, i64),
    /// A value that has no place in HLO text.
    #[error("`{0}` has {1}")]
    Unknown(String, String),
}

type Result<T> = std::result::Result<T, ProtoError>;

/// Whether bytes are no text: messages begin with small numbers that no text has.
pub fn is_proto(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err() || bytes.iter().take(4096).any(|&byte| byte < b'\t')
}

/// The text of a program.
///
/// # Errors
/// For bytes that are no program.
pub fn text_of_proto(bytes: &[u8]) -> Result<String> {
    let module = decode(bytes)?;
    let mut text = format!("HloModule {}", module_name(&module.name));
    write_aliases(&mut text, &module);
    text.push_str("\n\n");
    write_tables(&mut text, &module);
    let computations: HashMap<i64, &HloComputationProto> =
        module.computations.iter().map(|computation| (computation.id, computation)).collect();
    let entry = match module.entry_computation_id {
        0 => module.computations.iter().find(|computation| computation.name == module.entry_computation_name),
        id => computations.get(&id).copied(),
    };
    let entry = entry.ok_or_else(|| {
        ProtoError::Missing(module.name.clone(), "the entry computation", module.entry_computation_id)
    })?;
    let writer = Writer { computations: &computations };
    for computation in &module.computations {
        writer.computation(&mut text, computation, computation.id == entry.id)?;
    }
    Ok(text)
}

/// An `HloModuleProto`, or that of an `HloProto` or `HloSnapshot`: nothing in a message says which it is.
fn decode(bytes: &[u8]) -> Result<HloModuleProto> {
    let with_computations = |module: &HloModuleProto| !module.computations.is_empty();
    if let Ok(module) = HloModuleProto::decode(bytes)
        && with_computations(&module)
    {
        return Ok(module);
    }
    let snapshot = || HloSnapshot::decode(bytes).ok()?.hlo?.hlo_module.filter(with_computations);
    let whole = match HloProto::decode(bytes) {
        Ok(whole) => whole,
        Err(error) => return snapshot().ok_or_else(|| ProtoError::Malformed(error.to_string())),
    };
    let module = whole.hlo_module.filter(with_computations).or_else(snapshot);
    module.ok_or_else(|| ProtoError::Malformed("it has no computations".to_string()))
}

/// Names of modules may be anything in a message, in text only words.
fn module_name(name: &str) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
    let name: String = name.chars().map(|character| if is_word(character) { character } else { '_' }).collect();
    if name.is_empty() { "module".to_string() } else { name }
}

/// `a,b,c`.
fn list(values: &[i64]) -> String {
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// A text between quotation marks.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn write_aliases(text: &mut String, module: &HloModuleProto) {
    let aliases = module.input_output_alias.as_ref().map(|alias| alias.entries.as_slice()).unwrap_or_default();
    let entries: Vec<String> = aliases
        .iter()
        .map(|entry| {
            let [output, parameter] =
                [&entry.output_shape_index, &entry.parameter_shape_index].map(|index| list(index));
            let kind = if entry.kind == 2 { "must-alias" } else { "may-alias" };
            format!("{{{output}}}: ({}, {{{parameter}}}, {kind})", entry.parameter_number)
        })
        .collect();
    if !entries.is_empty() {
        let _ = write!(text, ", input_output_alias={{ {} }}", entries.join(", "));
    }
}

fn write_tables(text: &mut String, module: &HloModuleProto) {
    let Some(index) = &module.stack_frame_index else { return };
    let mut table = |name: &str, rows: Vec<String>| {
        let _ = writeln!(text, "{name}");
        for (number, row) in rows.iter().enumerate() {
            let _ = writeln!(text, "{} {row}", number + 1);
        }
        text.push('\n');
    };
    table("FileNames", index.file_names.iter().map(|name| quoted(name)).collect());
    table("FunctionNames", index.function_names.iter().map(|name| quoted(name)).collect());
    let location = |row: &FileLocation| {
        let FileLocation { file_name_id, function_name_id, line, column, end_line, end_column } = row;
        format!(
            "{{file_name_id={file_name_id} function_name_id={function_name_id} line={line} end_line={end_line} \
             column={column} end_column={end_column}}}"
        )
    };
    table("FileLocations", index.file_locations.iter().map(location).collect());
    let frame = |row: &StackFrame| {
        format!("{{file_location_id={} parent_frame_id={}}}", row.file_location_id, row.parent_frame_id)
    };
    table("StackFrames", index.stack_frames.iter().map(frame).collect());
}

/// Element types by their numbers in `PrimitiveType`.
fn element_type(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "pred",
        2 => "s8",
        3 => "s16",
        4 => "s32",
        5 => "s64",
        6 => "u8",
        7 => "u16",
        8 => "u32",
        9 => "u64",
        10 => "f16",
        11 => "f32",
        12 => "f64",
        15 => "c64",
        16 => "bf16",
        18 => "c128",
        19 => "f8e5m2",
        20 => "f8e4m3fn",
        21 => "s4",
        22 => "u4",
        23 => "f8e4m3b11fnuz",
        24 => "f8e5m2fnuz",
        25 => "f8e4m3fnuz",
        26 => "s2",
        27 => "u2",
        28 => "f8e4m3",
        29 => "f8e3m4",
        32 => "f4e2m1fn",
        33 => "f8e8m0fnu",
        _ => return None,
    })
}

fn shape_text(name: &str, shape: Option<&ShapeProto>) -> Result<String> {
    let shape = shape.ok_or_else(|| ProtoError::Unknown(name.to_string(), "no shape".to_string()))?;
    match shape.element_type {
        13 => {
            let elements: Vec<String> =
                shape.tuple_shapes.iter().map(|element| shape_text(name, Some(element))).collect::<Result<_>>()?;
            return Ok(format!("({})", elements.join(", ")));
        }
        14 => return Ok("opaque[]".to_string()),
        17 => return Ok("token[]".to_string()),
        _ => {}
    }
    let element_type = element_type(shape.element_type)
        .ok_or_else(|| ProtoError::Unknown(name.to_string(), format!("the element type {}", shape.element_type)))?;
    let is_dynamic = |dimension: usize| shape.is_dynamic_dimension.get(dimension) == Some(&true);
    let sizes: Vec<String> = shape
        .dimensions
        .iter()
        .enumerate()
        .map(|(dimension, size)| if is_dynamic(dimension) { format!("<={size}") } else { size.to_string() })
        .collect();
    let layout = shape.layout.as_ref().filter(|layout| !layout.minor_to_major.is_empty());
    let layout = layout.map(|layout| format!("{{{}}}", list(&layout.minor_to_major))).unwrap_or_default();
    Ok(format!("{element_type}[{}]{layout}", sizes.join(",")))
}

/// Writes computations.
struct Writer<'m> {
    computations: &'m HashMap<i64, &'m HloComputationProto>,
}

impl Writer<'_> {
    fn computation(&self, text: &mut String, computation: &HloComputationProto, is_entry: bool) -> Result<()> {
        let by_id: HashMap<i64, &HloInstructionProto> =
            computation.instructions.iter().map(|instruction| (instruction.id, instruction)).collect();
        // Some versions number the instructions of each computation on their own in references.
        let local: HashMap<i64, &HloInstructionProto> = computation
            .instructions
            .iter()
            .map(|instruction| (instruction.id & i64::from(u32::MAX), instruction))
            .collect();
        let find = |user: &str, id: i64| {
            by_id
                .get(&id)
                .or_else(|| local.get(&id))
                .copied()
                .ok_or_else(|| ProtoError::Missing(user.to_string(), "the instruction", id))
        };
        let root = find(&computation.name, computation.root_id)?.id;
        let _ = writeln!(text, "{}%{} {{", if is_entry { "ENTRY " } else { "" }, computation.name);
        for instruction in &computation.instructions {
            let name = instruction.name.as_str();
            let operands: Vec<&HloInstructionProto> =
                instruction.operand_ids.iter().map(|&id| find(name, id)).collect::<Result<_>>()?;
            let arguments = match instruction.opcode.as_str() {
                "parameter" => instruction.parameter_number.to_string(),
                "constant" => literal::text(name, instruction.literal.as_ref())?,
                _ => operands.iter().map(|operand| format!("%{}", operand.name)).collect::<Vec<_>>().join(", "),
            };
            let mut attributes = attributes::of(instruction, &operands)?;
            attributes.extend(self.called(instruction, &operands)?);
            let predecessors: Vec<String> = instruction
                .control_predecessor_ids
                .iter()
                .map(|&id| find(name, id).map(|before| format!("%{}", before.name)))
                .collect::<Result<_>>()?;
            if !predecessors.is_empty() {
                attributes.push(format!("control-predecessors={{{}}}", predecessors.join(", ")));
            }
            attributes.extend(attributes::annotations(instruction));
            let shape = shape_text(name, instruction.shape.as_ref())?;
            let opcode = &instruction.opcode;
            let is_root = if instruction.id == root { "ROOT " } else { "" };
            let _ = write!(text, "  {is_root}%{name} = {shape} {opcode}({arguments})");
            for attribute in attributes {
                let _ = write!(text, ", {attribute}");
            }
            text.push('\n');
        }
        text.push('}');
        if !computation.execution_thread.is_empty() && computation.execution_thread != "main" {
            let _ = write!(text, ", execution_thread={}", quoted(&computation.execution_thread));
        }
        text.push_str("\n\n");
        Ok(())
    }

    /// The attributes that name computations.
    fn called(&self, instruction: &HloInstructionProto, operands: &[&HloInstructionProto]) -> Result<Vec<String>> {
        let names: Vec<String> = instruction
            .called_computation_ids
            .iter()
            .map(|id| {
                let found = self.computations.get(id).map(|computation| format!("%{}", computation.name));
                found.ok_or_else(|| ProtoError::Missing(instruction.name.clone(), "the computation", *id))
            })
            .collect::<Result<_>>()?;
        let chooses_by_pred =
            operands.first().and_then(|first| first.shape.as_ref()).is_some_and(|shape| shape.element_type == 1);
        let attributes = match (instruction.opcode.as_str(), names.as_slice()) {
            (_, []) => Vec::new(),
            ("while", [body, condition]) => vec![format!("condition={condition}"), format!("body={body}")],
            ("select-and-scatter", [select, scatter]) => vec![format!("select={select}"), format!("scatter={scatter}")],
            ("conditional", [yes, no]) if chooses_by_pred => {
                vec![format!("true_computation={yes}"), format!("false_computation={no}")]
            }
            ("conditional", branches) => vec![format!("branch_computations={{{}}}", branches.join(", "))],
            ("fusion" | "async-start" | "async-update" | "async-done", [only]) => vec![format!("calls={only}")],
            ("custom-call", all) => vec![format!("called_computations={{{}}}", all.join(", "))],
            (_, [first, ..]) => vec![format!("to_apply={first}")],
        };
        Ok(attributes)
    }
}
