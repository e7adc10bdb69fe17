//! `check` lines against an output, with the meaning of LLVM's FileCheck.
//!
//! A pattern is literal text in which `{{…}}` is a regular expression, `[[X:…]]` one whose match is kept as X, and
//! `[[X]]` what X matched; a run of blanks matches any other.

use std::collections::HashMap;

use regex::Regex;

use super::case::{Check, CheckKind};

/// Tests all checks in order; the error says which failed and where the search began.
pub(super) fn check_output(output: &str, checks: &[Check]) -> Result<(), String> {
    let mut variables = HashMap::new();
    let mut position = 0;
    let mut forbidden: Vec<&Check> = Vec::new();
    for check in checks {
        if check.kind == CheckKind::Not {
            forbidden.push(check);
            continue;
        }
        let rest = &output[position..];
        let line_end = rest.find('\n').unwrap_or(rest.len());
        let (start, end) = match check.kind {
            CheckKind::Anywhere | CheckKind::Not => (0, rest.len()),
            CheckKind::Same => (0, line_end),
            CheckKind::Next => {
                let start = (line_end + 1).min(rest.len());
                (start, start + rest[start..].find('\n').unwrap_or(rest.len() - start))
            }
        };
        let Some((from, to)) = find(&rest[start..end], check, &mut variables)? else {
            return Err(failure(output, position, check, "not found"));
        };
        reject(output, position, position + start + from, &mut forbidden, &mut variables)?;
        position += start + to;
    }
    reject(output, position, output.len(), &mut forbidden, &mut variables)
}

/// None of the collected `check-not` patterns may occur in `output[from..to]`.
fn reject(
    output: &str,
    from: usize,
    to: usize,
    forbidden: &mut Vec<&Check>,
    variables: &mut HashMap<String, String>,
) -> Result<(), String> {
    for check in forbidden.drain(..) {
        if find(&output[from..to], check, variables)?.is_some() {
            return Err(failure(output, from, check, "found"));
        }
    }
    Ok(())
}

fn failure(output: &str, position: usize, check: &Check, what: &str) -> String {
    let line = 1 + output[..position].matches('\n').count();
    format!("line {}: `{}` {what} in the output from line {line} on", check.line, check.pattern)
}

fn find(text: &str, check: &Check, variables: &mut HashMap<String, String>) -> Result<Option<(usize, usize)>, String> {
    let (regex, names) = compile(&check.pattern, variables).map_err(|error| format!("line {}: {error}", check.line))?;
    let Some(found) = regex.captures(text) else { return Ok(None) };
    for name in names {
        if let Some(value) = found.name(&name) {
            variables.insert(name, value.as_str().to_string());
        }
    }
    Ok(found.get(0).map(|whole| (whole.start(), whole.end())))
}

/// The pattern as a regular expression, and the variables it sets.
fn compile(pattern: &str, variables: &HashMap<String, String>) -> Result<(Regex, Vec<String>), String> {
    let mut source = String::new();
    let mut names = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let opening = [rest.find("{{"), rest.find("[[")].into_iter().flatten().min().unwrap_or(rest.len());
        push_literal(&mut source, &rest[..opening]);
        rest = &rest[opening..];
        let Some(inside) = rest.get(2..) else { break };
        if rest.starts_with("{{") {
            let end = inside.find("}}").ok_or("`{{` without `}}`")?;
            source.push_str(&format!("(?:{})", &inside[..end]));
            rest = &inside[end + 2..];
        } else {
            let end = inside.find("]]").ok_or("`[[` without `]]`")?;
            match inside[..end].split_once(':') {
                Some((name, expression)) => {
                    source.push_str(&format!("(?P<{name}>{expression})"));
                    names.push(name.to_string());
                }
                None => {
                    let name = &inside[..end];
                    let value = variables.get(name).ok_or_else(|| format!("`[[{name}]]` is not set"))?;
                    source.push_str(&regex::escape(value));
                }
            }
            rest = &inside[end + 2..];
        }
    }
    Regex::new(&source).map(|regex| (regex, names)).map_err(|error| error.to_string())
}

fn push_literal(source: &mut String, text: &str) {
    let mut blank = false;
    for character in text.chars() {
        if character.is_whitespace() {
            if !blank {
                source.push_str("[ \\t]+");
            }
            blank = true;
        } else {
            source.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
            blank = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str =
        "define void @f(ptr %0) {\n  %1 = load  float, ptr %0\n  %2 = fadd float %1, %1\n  ret void\n}\n";

    fn check(lines: &[(CheckKind, &str)]) -> Result<(), String> {
        let checks: Vec<Check> =
            lines.iter().map(|&(kind, pattern)| Check { kind, pattern: pattern.to_string(), line: 1 }).collect();
        check_output(OUTPUT, &checks)
    }

    use CheckKind::*;

    #[test]
    fn matches_in_order() {
        check(&[(Anywhere, "load float"), (Anywhere, "fadd"), (Anywhere, "ret")]).unwrap();
        assert!(check(&[(Anywhere, "fadd"), (Anywhere, "load")]).is_err());
    }

    #[test]
    fn same_and_next_stay_on_their_line() {
        check(&[(Anywhere, "load"), (Same, "ptr %0"), (Next, "fadd"), (Next, "ret")]).unwrap();
        assert!(check(&[(Anywhere, "load"), (Same, "fadd")]).is_err());
        assert!(check(&[(Anywhere, "load"), (Next, "ret")]).is_err());
    }

    #[test]
    fn not_covers_the_gap_between_its_neighbours() {
        check(&[(Anywhere, "fadd"), (Not, "load"), (Anywhere, "ret")]).unwrap();
        check(&[(Not, "fmul")]).unwrap();
        let error = check(&[(Anywhere, "define"), (Not, "load"), (Anywhere, "ret")]).unwrap_err();
        assert_eq!(error, "line 1: `load` found in the output from line 1 on");
    }

    #[test]
    fn expressions_and_variables() {
        check(&[(Anywhere, "[[X:%[0-9]+]] = load"), (Anywhere, "fadd float [[X]], [[X]]")]).unwrap();
        check(&[(Anywhere, "%{{[0-9]}} = fadd {{f(loat|oo)}}")]).unwrap();
        assert!(check(&[(Anywhere, "[[Y]]")]).unwrap_err().contains("not set"));
    }
}
