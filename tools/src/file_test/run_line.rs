//! `run` lines: `name(argument, …) == expected`, with literals as HLO text writes them.
//!
//! Of several devices, `name(argument, … | argument, …) == expected | expected`; one expected value is that of all.
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
    /// Those of each device.
    pub(super) arguments: Vec<Vec<Literal>>,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    /// One value for all devices, or one for each.
    Values {
        values: Vec<Literal>,
        exact: bool,
    },
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
        let (devices, rest) = split_arguments(rest).ok_or("the arguments have no closing `)`")?;
        let shapes = entry.program_shape();
        let mut arguments = Vec::with_capacity(devices.len());
        for parts in devices {
            if parts.len() != shapes.parameters.len() {
                return Err(format!("`{name}` takes {} arguments, got {}", shapes.parameters.len(), parts.len()));
            }
            let values = parts.iter().zip(&shapes.parameters).map(|(text, shape)| read_literal(text, shape));
            arguments.push(values.collect::<Result<_, _>>()?);
        }
        let values = |text: &str, exact: bool| {
            let values = text.split('|').map(|text| read_literal(text.trim(), &shapes.result));
            Ok::<_, String>(Expected::Values { values: values.collect::<Result<_, _>>()?, exact })
        };
        let rest = rest.trim_start();
        let expected = if let Some(text) = rest.strip_prefix("fails:") {
            Expected::Failure(text.trim().to_string())
        } else if let Some(text) = rest.strip_prefix("==") {
            values(text, true)?
        } else if let Some(text) = rest.strip_prefix("~=") {
            values(text, false)?
        } else {
            return Err("expected `==`, `~=` or `fails:` behind the arguments".into());
        };
        Ok(ExpectedRun { arguments, expected })
    }

    /// Whether the program must fail.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.expected, Expected::Failure(_))
    }

    /// Compares the outcome of all devices; the error shows both values.
    pub(super) fn check(&self, found: Result<Vec<Literal>, ToolError>) -> Result<(), String> {
        let text = value_text::shortened;
        let texts = |values: &[Literal]| values.iter().map(text).collect::<Vec<_>>().join(" | ");
        let (found, values, exact) = match (found, &self.expected) {
            (Ok(found), Expected::Values { values, exact }) => (found, values, *exact),
            (Err(error), Expected::Failure(text)) if error.render().contains(text) => return Ok(()),
            (Ok(found), Expected::Failure(text)) => {
                return Err(format!("expected the error {text}\n    got {}", texts(&found)));
            }
            (Err(error), Expected::Failure(text)) => {
                return Err(format!("expected the error {text}\n    got {}", error.render()));
            }
            (Err(error), Expected::Values { .. }) => return Err(error.render()),
        };
        if values.len() != 1 && values.len() != found.len() {
            return Err(format!("expected the values of {} devices, got those of {}", values.len(), found.len()));
        }
        let strict = Tolerance::default();
        let tolerance = |element_type| if exact { strict } else { Tolerance::default_for(element_type) };
        for (found_here, value) in found.iter().zip(values.iter().cycle()) {
            let comparison = compare::compare_literals(found_here, value, tolerance);
            if !comparison.agrees() {
                return Err(format!("{comparison}\n    expected {}\n    got      {}", texts(values), texts(&found)));
            }
        }
        Ok(())
    }
}

fn read_literal(text: &str, shape: &Shape) -> Result<Literal, String> {
    hlo::text::literal::parse_literal(text, &shape.without_layout()).map_err(|error| error.render("literal", text))
}

/// The arguments of each device before the closing parenthesis, and what stands behind it.
fn split_arguments(text: &str) -> Option<(Vec<Vec<&str>>, &str)> {
    let mut depth = 0usize;
    let mut start = 0;
    let mut devices = vec![Vec::new()];
    for (position, byte) in text.bytes().enumerate() {
        let mut end = |devices: &mut Vec<Vec<_>>, is_last_of_device: bool| {
            let part = text[start..position].trim();
            start = position + 1;
            match devices.last_mut() {
                Some(parts) if !(is_last_of_device && part.is_empty() && parts.is_empty()) => parts.push(part),
                _ => {}
            }
        };
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' if depth == 0 => {
                end(&mut devices, true);
                return Some((devices, &text[position + 1..]));
            }
            b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            b'|' if depth == 0 => {
                end(&mut devices, true);
                devices.push(Vec::new());
            }
            b',' if depth == 0 => end(&mut devices, false),
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
        let parts = vec![vec!["{1,2}", "( {3}, (4, 5) )"]];
        assert_eq!(split_arguments("{1,2}, ( {3}, (4, 5) )) == x"), Some((parts, " == x")));
        assert_eq!(split_arguments(") == 1"), Some((vec![vec![]], " == 1")));
        assert_eq!(split_arguments("1, 2 | 3, 4)"), Some((vec![vec!["1", "2"], vec!["3", "4"]], "")));
        assert_eq!(split_arguments("1, 2"), None);
        assert_eq!(split_arguments("}"), None);
    }
}
