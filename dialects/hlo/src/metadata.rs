//! The metadata of instructions, `{op_name="jit(f)/add" source_file="f.py" source_line=3}`: kept as text, and read where
//! somebody asks.

use std::borrow::Cow;

use crate::escapes::unescape;
use crate::graph::SourceTables;

/// Name of the annotation that holds it.
pub const METADATA: &str = "metadata";

/// A place in the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition<'t> {
    /// Path of the file.
    pub file: Cow<'t, str>,
    /// Line, from 1, if it is known.
    pub line: Option<u32>,
    /// Function, where the module's tables name it.
    pub function: Option<&'t str>,
}

impl std::fmt::Display for SourcePosition<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
        self.function.map_or(Ok(()), |function| write!(f, " in {function}"))
    }
}

/// The value of a field, without quotes and escapes.
pub fn field<'t>(metadata: &'t str, key: &str) -> Option<Cow<'t, str>> {
    let mut rest = metadata;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ','));
        let (name, value) = rest.split_once('=')?;
        let end = value_end(value);
        if name == key {
            let text = &value[..end];
            let inner = text.strip_prefix('"').map(|inner| inner.strip_suffix('"').unwrap_or(inner));
            return Some(inner.map_or(Cow::Borrowed(text), unescape));
        }
        rest = &value[end..];
    }
}

/// Where a value ends that `text` begins with.
fn value_end(text: &str) -> usize {
    let Some(inner) = text.strip_prefix('"') else {
        return text.find(|c: char| c.is_whitespace() || c == '}').unwrap_or(text.len());
    };
    let mut escaped = false;
    let close = inner.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    close.map_or(text.len(), |close| close + 2)
}

/// Where an instruction comes from: its file and line, or the innermost of its stack frames in the module's tables.
pub fn source_position<'t>(tables: &'t SourceTables, metadata: &'t str) -> Option<SourcePosition<'t>> {
    if let Some(file) = field(metadata, "source_file").filter(|file| !file.is_empty()) {
        let line = field(metadata, "source_line").and_then(|line| line.parse().ok());
        return Some(SourcePosition { file, line, function: None });
    }
    let frame: usize = field(metadata, "stack_frame_id")?.parse().ok()?;
    let location = row(&tables.stack_frames, frame)?.file_location;
    let location = row(&tables.file_locations, location as usize)?;
    let file = row(&tables.file_names, location.file_name as usize).filter(|file| !file.is_empty())?;
    let function = row(&tables.function_names, location.function_name as usize).map(String::as_str);
    Some(SourcePosition { file: Cow::Borrowed(file), line: Some(location.line), function })
}

/// Row `number` of a table whose rows count from 1.
fn row<T>(table: &[T], number: usize) -> Option<&T> {
    table.get(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_unescaped() {
        let metadata = r#"{op_name="p[\'source_file=\']" source_file="a \"b\".py" source_line=3 profile_type={1}}"#;
        assert_eq!(field(metadata, "op_name").as_deref(), Some("p['source_file=']"));
        assert_eq!(field(metadata, "source_file").as_deref(), Some("a \"b\".py"));
        assert_eq!(field(metadata, "source_line").as_deref(), Some("3"));
        assert_eq!(field(metadata, "op_type"), None);
        for broken in ["", "{", "{op_name=\"a", "{op_name=", "=", "{a=\"\\\""] {
            let _ = field(broken, "op_name");
        }
    }

    #[test]
    fn positions_are_of_fields_or_tables() {
        let none = SourceTables::default();
        let position = source_position(&none, r#"{source_file="f.py" source_line=7}"#).map(|found| found.to_string());
        assert_eq!(position.as_deref(), Some("f.py:7"));
        assert_eq!(source_position(&none, "{stack_frame_id=1}"), None);
    }
}
