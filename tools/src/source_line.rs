//! The line of the user's own program that an instruction came from, as its metadata has it.

use std::sync::LazyLock;

use hlo::graph::{Instruction, SourceTables};
use regex::Regex;

static STACK_FRAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bstack_frame_id=(\d+)").ok());
static SOURCE_FILE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\bsource_file="((?:[^"\\]|\\.)*)"(?:\s+source_line=(\d+))?"#).ok());

/// `file:line` of an instruction, with its function where the module's tables name one.
pub fn source_line(tables: &SourceTables, instruction: &Instruction) -> Option<String> {
    let metadata = instruction.annotation("metadata")?;
    if let Some(found) = SOURCE_FILE.as_ref()?.captures(metadata) {
        let line = found.get(2).map(|line| format!(":{}", line.as_str())).unwrap_or_default();
        return Some(format!("{}{line}", &found[1]));
    }
    let frame: usize = STACK_FRAME.as_ref()?.captures(metadata)?[1].parse().ok()?;
    let location = row(&tables.stack_frames, frame)?.file_location;
    let location = row(&tables.file_locations, location as usize)?;
    let file = row(&tables.file_names, location.file_name as usize)?;
    let function = row(&tables.function_names, location.function_name as usize);
    let function = function.map(|name| format!(" in {name}")).unwrap_or_default();
    Some(format!("{file}:{}{function}", location.line))
}

/// Row `number` of a table whose rows count from 1.
fn row<T>(table: &[T], number: usize) -> Option<&T> {
    table.get(number.checked_sub(1)?)
}
