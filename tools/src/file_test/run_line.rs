//! `run` lines: `name(argument, …) == expected`, with literals as HLO text writes them.
//!
//! `==` means equal values, NaN being equal to NaN; `~=` allows the rounding of [`crate::compare`]; `fails: text` means an
//! error with that text, before the program runs or while it does.

use hlo::graph::Module;
use hlo::literal::Literal;
use hlo::shape::Shape;

use super::case::RunLine;
use crate::compare::{self, Tolerance};
use crate::error::ToolError;
use crate::value_text;

/// An execution and what it must give.
#[derive(Debug)]
pub(super) struct ExpectedRun {
    pub(super) arguments: Vec<Literal>,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    Value { value: Literal, exact: bool },
    Failure(String),
}

impl ExpectedRun {
    /// Reads a line for a module; the name must be the entry computation's.
    pub(super) fn read(line: &RunLine, module: &Module) -> Result<Self, String> {
        let entry = module.entry();
        let (name, rest) = line.text.split_once('(').ok_or("expected `name(arguments) == value`")?;
        if name.trim() != entry.name {
            return Err(format!("the entry computation is `{}`, not `{}`", entry.name, name.trim()));
        }
        let (parts, rest) = split_arguments(rest).ok_or("the arguments have no closing `)`")?;
        let shapes = entry.program_shape();
        if parts.len() != shapes.parameters.len() {
            return Err(format!("`{name}` takes {} arguments, got {}", shapes.parameters.len(), parts.len()));
        }
        let arguments = parts
            .iter()
            .zip(&shapes.parameters)
            .map(|(text, shape)| read_literal(text, shape))
            .collect::<Result<_, _>>()?;
        let value = |text: &str| read_literal(text.trim(), &shapes.result);
        let rest = rest.trim_start();
        let expected = if let Some(text) = rest.strip_prefix("fails:") {
            Expected::Failure(text.trim().to_string())
        } else if let Some(text) = rest.strip_prefix("==") {
            Expected::Value { value: value(text)?, exact: true }
        } else if let Some(text) = rest.strip_prefix("~=") {
            Expected::Value { value: value(text)?, exact: false }
        } else {
            return Err("expected `==`, `~=` or `fails:` behind the arguments".into());
        };
        Ok(ExpectedRun { arguments, expected })
    }

    /// Whether the program must fail.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.expected, Expected::Failure(_))
    }

    /// Compares an outcome; the error shows both values.
    pub(super) fn check(&self, found: Result<Literal, ToolError>) -> Result<(), String> {
        let (found, value, exact) = match (found, &self.expected) {
            (Ok(found), Expected::Value { value, exact }) => (found, value, *exact),
            (Err(error), Expected::Failure(text)) if error.render().contains(text) => return Ok(()),
            (Ok(found), Expected::Failure(text)) => {
                return Err(format!("expected the error {text}\n    got {}", value_text::shortened(&found)));
            }
            (Err(error), Expected::Failure(text)) => {
                return Err(format!("expected the error {text}\n    got {}", error.render()));
            }
            (Err(error), Expected::Value { .. }) => return Err(error.render()),
        };
        let strict = Tolerance::default();
        let tolerance = |element_type| if exact { strict } else { Tolerance::default_for(element_type) };
        let comparison = compare::compare_literals(&found, value, tolerance);
        if comparison.agrees() {
            return Ok(());
        }
        let text = value_text::shortened;
        Err(format!("{comparison}\n    expected {}\n    got      {}", text(value), text(&found)))
    }
}

fn read_literal(text: &str, shape: &Shape) -> Result<Literal, String> {
    hlo_text::literal::parse_literal(text, &shape.without_layout()).map_err(|error| error.render("literal", text))
}

/// The arguments before the closing parenthesis, and what stands behind it.
fn split_arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut depth = 0usize;
    let mut start = 0;
    let mut parts = Vec::new();
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..position].trim();
                if !(last.is_empty() && parts.is_empty()) {
                    parts.push(last);
                }
                return Some((parts, &text[position + 1..]));
            }
            b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(text[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_at_the_outer_commas() {
        assert_eq!(split_arguments("{1,2}, ( {3}, (4, 5) )) == x"), Some((vec!["{1,2}", "( {3}, (4, 5) )"], " == x")));
        assert_eq!(split_arguments(") == 1"), Some((vec![], " == 1")));
        assert_eq!(split_arguments("1, 2"), None);
        assert_eq!(split_arguments("}"), None);
    }
}
