//! The line of the user's own program that an instruction came from, as its metadata has it.

use hlo::graph::{Instruction, SourceTables};
use hlo::metadata::{METADATA, source_position};

/// `file:line` of an instruction, with its function where the module's tables name one.
pub fn source_line(tables: &SourceTables, instruction: &Instruction) -> Option<String> {
    Some(source_position(tables, instruction.annotation(METADATA)?)?.to_string())
}
