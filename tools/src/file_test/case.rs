//! The cases of a file and their directives.

/// What a directive line of a case checks in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckKind {
    /// The pattern occurs after the previous match.
    Anywhere,
    /// The pattern occurs between the previous match and the next one: a failure.
    Not,
    /// The pattern occurs on the line of the previous match.
    Same,
    /// The pattern occurs on the line after the previous match.
    Next,
}

/// One `check` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) kind: CheckKind,
    pub(super) pattern: String,
    /// Line in the file, from 1.
    pub(super) line: usize,
}

/// An error that a line of the program must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedError {
    /// Line of the program in the file, from 1.
    pub(super) line: usize,
    /// Part of the message.
    pub(super) text: String,
}

/// One `test` line: a command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestLine {
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
    /// Whether the whole output is compared with the `expect` block.
    pub(super) precise: bool,
    /// Line in the file, from 1.
    pub(super) line: usize,
}

/// A `run` line: its text behind the colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunLine {
    pub(super) text: String,
    /// Line in the file, from 1.
    pub(super) line: usize,
}

/// A program with what is checked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// The case's lines up to the `expect` block; line `i` is line `first_line + i` of the file.
    pub(super) program: String,
    /// First line in the file, from 1.
    pub(super) first_line: usize,
    pub(super) tests: Vec<TestLine>,
    pub(super) runs: Vec<RunLine>,
    pub(super) checks: Vec<Check>,
    pub(super) errors: Vec<ExpectedError>,
    /// The `expect` block without its comment marks.
    pub(super) expected: Option<String>,
}

/// Separates cases.
pub(super) const SEPARATOR: &str = "// -----";

/// Splits a file into its cases.
pub(super) fn read_cases(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut first_line = 1;
    for (number, line) in text.lines().enumerate() {
        if line.trim_end() == SEPARATOR {
            cases.push(read_case(&lines, first_line)?);
            lines.clear();
            first_line = number + 2;
        } else {
            lines.push(line);
        }
    }
    cases.push(read_case(&lines, first_line)?);
    Ok(cases)
}

fn read_case(lines: &[&str], first_line: usize) -> Result<Case, String> {
    let mut case = Case {
        program: String::new(),
        first_line,
        tests: Vec::new(),
        runs: Vec::new(),
        checks: Vec::new(),
        errors: Vec::new(),
        expected: None,
    };
    for (offset, text) in lines.iter().enumerate() {
        let line = first_line + offset;
        if let Some((key, value)) = directive(text) {
            match key {
                "test" => case.tests.push(read_test(value, line)?),
                "run" => case.runs.push(RunLine { text: value.to_string(), line }),
                "check" => case.checks.push(Check { kind: CheckKind::Anywhere, pattern: value.to_string(), line }),
                "check-not" => case.checks.push(Check { kind: CheckKind::Not, pattern: value.to_string(), line }),
                "check-same" => case.checks.push(Check { kind: CheckKind::Same, pattern: value.to_string(), line }),
                "check-next" => case.checks.push(Check { kind: CheckKind::Next, pattern: value.to_string(), line }),
                "expect" => {
                    case.expected = Some(read_expected(&lines[offset + 1..], line)?);
                    break;
                }
                _ if key.starts_with("error") => {}
                _ => return Err(format!("line {line}: unknown key `{key}`")),
            }
        }
        if let Some(error) = read_error(text, line)? {
            case.errors.push(error);
        }
        case.program.push_str(text);
        case.program.push('\n');
    }
    if case.tests.is_empty() {
        return Err(format!("line {first_line}: the case has no `// test:` line"));
    }
    Ok(case)
}

/// Key and value of a whole-line comment `// key: value`.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix("// ")?.split_once(':')?;
    let is_key = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'@' | b'+' | b'0'..=b'9'));
    is_key.then_some((key, value.trim()))
}

fn read_test(text: &str, line: usize) -> Result<TestLine, String> {
    let mut words = text.split_whitespace().map(str::to_string);
    let command = words.next().ok_or_else(|| format!("line {line}: `// test:` names no command"))?;
    let mut arguments: Vec<String> = words.collect();
    let precise = arguments.last().is_some_and(|word| word == "precise");
    if precise {
        arguments.pop();
    }
    Ok(TestLine { command, arguments, precise, line })
}

fn read_error(text: &str, line: usize) -> Result<Option<ExpectedError>, String> {
    let Some(start) = text.find("// error") else { return Ok(None) };
    let Some((place, message)) = text[start + "// error".len()..].split_once(':') else { return Ok(None) };
    let offset = match place {
        "" => 0,
        _ => place
            .strip_prefix('@')
            .and_then(|offset| offset.parse::<isize>().ok())
            .ok_or_else(|| format!("line {line}: expected `error:` or `error@+1:`, got `error{place}:`"))?,
    };
    Ok(Some(ExpectedError { line: line.saturating_add_signed(offset), text: message.trim().to_string() }))
}

fn read_expected(lines: &[&str], line: usize) -> Result<String, String> {
    let mut expected = String::new();
    for (offset, text) in lines.iter().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let content = text
            .strip_prefix("//")
            .ok_or_else(|| format!("line {}: the `expect:` block must end the case", line + 1 + offset))?;
        expected.push_str(content.strip_prefix("   ").unwrap_or(content.trim_start()));
        expected.push('\n');
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
// A comment without a directive.
// test: parse
// test: pass cse precise
HloModule m
ENTRY e { ROOT a = f32[] abs(x) } // error: not defined
// run: e(1) == 1
// check-not: b
// expect:
//   first
//     second
//
// -----
// test: verify
HloModule n
// error@-1: text
";

    #[test]
    fn reads_every_directive() {
        let cases = read_cases(FILE).unwrap();
        assert_eq!(cases.len(), 2);
        let first = &cases[0];
        assert_eq!(first.tests[0].command, "parse");
        assert_eq!(first.tests[1].arguments, ["cse"]);
        assert!(first.tests[1].precise && !first.tests[0].precise);
        assert_eq!(first.errors, [ExpectedError { line: 5, text: "not defined".into() }]);
        assert_eq!(first.runs, [RunLine { text: "e(1) == 1".into(), line: 6 }]);
        assert_eq!(first.checks, [Check { kind: CheckKind::Not, pattern: "b".into(), line: 7 }]);
        assert_eq!(first.expected.as_deref(), Some("first\n  second\n\n"));
        assert_eq!(cases[1].first_line, 13);
        assert_eq!(cases[1].errors[0].line, 14);
    }

    #[test]
    fn unknown_keys_and_missing_tests_are_errors() {
        assert_eq!(read_cases("// tset: parse\n").unwrap_err(), "line 1: unknown key `tset`");
        assert_eq!(read_cases("HloModule m\n").unwrap_err(), "line 1: the case has no `// test:` line");
        assert!(read_cases("// test: parse\n// expect:\nHloModule m\n").unwrap_err().contains("must end the case"));
    }
}
