//! Quoted strings, with the escapes of C that XLA writes.

use std::fmt::Write;

use crate::escapes::unescape;

use crate::text::error::Error;
use crate::text::source::SourceLines;

/// The value of a quoted string.
pub(crate) fn unquote(source: SourceLines<'_>, text: &str) -> Result<String, Error> {
    let inner = ['"', '\''].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let Some(inner) = inner else {
        return Err(Error::Syntax {
            at: source.location_of(text),
            expected: "a quoted string".into(),
            found: format!("`{}`", text.chars().take(60).collect::<String>()),
        });
    };
    Ok(unescape(inner).into_owned())
}

/// Writes `text` in double quotes.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(byte.into());
            }
            b' '..=b'~' => out.push(byte.into()),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_survive() {
        for (text, value) in [
            (r#""plain""#, "plain"),
            (r#""it\'s \"so\"\n\\""#, "it's \"so\"\n\\"),
            (r#""\303\251""#, "é"),
            (r#""\001a""#, "\u{1}a"),
        ] {
            let read = unquote(SourceLines::new(text), text).expect("a string");
            assert_eq!(read, value);
            let mut written = String::new();
            quote(&mut written, value);
            assert_eq!(written, text);
        }
        assert_eq!(unquote(SourceLines::new("'a'"), "'a'").expect("a string"), "a");
        assert!(unquote(SourceLines::new("a"), "a").is_err());
    }
}
