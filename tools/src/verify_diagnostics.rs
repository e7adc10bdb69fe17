//! `hlo-opt --verify-diagnostics`: the errors of a program against the comments that expect them.
//!
//! `// expected-error {{text}}` behind the line at fault; `expected-error@+1`, `@-1`, `@above` and `@below` are about
//! other lines, `@unknown` about errors without a place.

use halo::Error;
use mlir_ext::pass_pipeline::PipelineError;
use regex::Regex;

use crate::error::ToolError;
use crate::module_file::SourceText;

/// An error with its line, if it has one.
type Line = Option<usize>;

/// What is wrong with the errors of a program, a line each.
pub fn faults(source_text: &SourceText, result: Result<Vec<u8>, ToolError>) -> Vec<String> {
    let expected = match expected(&source_text.text) {
        Ok(expected) => expected,
        Err(message) => return vec![format!("{}: {message}", source_text.path.display())],
    };
    let mut found = result.err().map(|error| errors_of(&error)).unwrap_or_default();
    let place = |line: Line| match line {
        Some(line) => format!("{}:{line}", source_text.path.display()),
        None => source_text.path.display().to_string(),
    };
    let mut faults = Vec::new();
    for (line, text) in expected {
        match found.iter().position(|(at, message)| *at == line && message.contains(&text)) {
            Some(position) => drop(found.remove(position)),
            None => faults.push(format!("{}: expected error \"{text}\" was not produced", place(line))),
        }
    }
    faults.extend(found.into_iter().map(|(line, message)| format!("{}: unexpected error: {message}", place(line))));
    faults
}

fn expected(text: &str) -> Result<Vec<(Line, String)>, String> {
    let pattern = Regex::new(r"expected-error(@[^\s{]+)?\s*\{\{(.*?)\}\}").map_err(|error| error.to_string())?;
    let mut expected = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        for comment in pattern.captures_iter(line) {
            let offset = comment.get(1).map_or("", |offset| offset.as_str());
            let offset = match offset {
                "" => Some(0),
                "@above" => Some(-1),
                "@below" => Some(1),
                "@unknown" => None,
                other => Some(other[1..].parse::<isize>().map_err(|_| format!("`{other}` is no place of an error"))?),
            };
            let line = offset.and_then(|offset| number.checked_add_signed(offset));
            expected.push((line, comment[2].to_string()));
        }
    }
    Ok(expected)
}

fn errors_of(error: &ToolError) -> Vec<(Line, String)> {
    match error {
        ToolError::Program { errors, .. } => {
            errors.0.iter().map(|error| (Some(error.location().line), error.to_string())).collect()
        }
        ToolError::Instruction { position, message, .. } => vec![(Some(position.line as usize), message.clone())],
        ToolError::Compiled { error, place, .. } => {
            let line = place.as_ref().map(|(_, position)| position.line as usize);
            match &**error {
                Error::Pass(error) if line.is_none() => errors_of_passes(error),
                error => vec![(line, error.to_string())],
            }
        }
        ToolError::UserPipeline(error) => errors_of_passes(error),
        other => vec![(None, other.to_string())],
    }
}

fn errors_of_passes(error: &PipelineError) -> Vec<(Line, String)> {
    let diagnostics = error.diagnostics().iter();
    let errors: Vec<_> =
        diagnostics.map(|diagnostic| (line_of(&diagnostic.location), diagnostic.message.clone())).collect();
    if errors.is_empty() { vec![(None, error.to_string())] } else { errors }
}

/// The line in a location's text: the first `:line:column`.
fn line_of(location: &str) -> Line {
    let parts: Vec<&str> = location.split(':').collect();
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().ok();
    parts.windows(2).find_map(|pair| number(pair[0]).filter(|_| number(pair[1]).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        assert_eq!(line_of("a.mlir:12:3"), Some(12));
        assert_eq!(line_of("\"x\"(\"hlo\":4:4)"), Some(4));
        assert_eq!(line_of(""), None);
        let text = "a // expected-error {{one}}\n// expected-error@+1 {{two}} // expected-error@unknown {{three}}\n";
        let expected = expected(text).unwrap();
        let read: Vec<(Line, &str)> = expected.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(read, [(Some(1), "one"), (Some(3), "two"), (None, "three")]);
    }
}
