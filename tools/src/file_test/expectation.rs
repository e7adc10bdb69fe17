//! The `expect` block: comparison with a diff, and bless.

use similar::TextDiff;

use super::case::SEPARATOR;

/// Compares an output with the block; the error is a diff.
pub(super) fn compare(expected: Option<&str>, output: &str) -> Result<(), String> {
    let output = normalized(output);
    let expected = normalized(expected.unwrap_or(""));
    if output == expected {
        return Ok(());
    }
    let diff = TextDiff::from_lines(&expected, &output).unified_diff().header("expected", "output").to_string();
    Err(format!("the output is not the expected one; `./x bless` rewrites the expectation\n{diff}"))
}

/// The text as the block can hold it: no blanks at line ends, no blank lines.
fn normalized(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect()
}

/// The file with the `expect` block of case `case` (from 0) holding `output`.
pub(super) fn bless(file: &str, case: usize, output: &str) -> String {
    let mut result = String::new();
    let mut current = 0;
    let mut in_block = false;
    let mut written = false;
    let block = || {
        let mut block = String::from("// expect:\n");
        normalized(output).lines().for_each(|line| block.push_str(&format!("//   {line}\n")));
        block
    };
    for line in file.lines() {
        if line.trim_end() == SEPARATOR {
            if current == case && !written {
                result.push_str(&block());
            }
            current += 1;
            in_block = false;
            written = false;
        } else if current == case && line.starts_with("// expect:") {
            in_block = true;
            written = true;
            result.push_str(&block());
        }
        if !in_block {
            result.push_str(line);
            result.push('\n');
        }
    }
    if current == case && !written {
        result.push_str(&block());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_space_at_line_ends_does_not_count() {
        compare(Some("a\nb\n"), "a  \n\nb").unwrap();
        assert!(compare(Some("a\n"), "b\n").unwrap_err().contains("-a\n+b"));
    }

    #[test]
    fn bless_replaces_or_adds_the_block_of_its_case_only() {
        let file = "// test: x precise\n// expect:\n//   old\n// -----\n// test: y precise\n";
        assert_eq!(
            bless(file, 0, "new\n  line\n"),
            "// test: x precise\n// expect:\n//   new\n//     line\n// -----\n// test: y precise\n"
        );
        assert!(bless(file, 1, "z").ends_with("// test: y precise\n// expect:\n//   z\n"));
    }
}
