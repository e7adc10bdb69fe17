//! Quoted strings, with the escapes of C that XLA writes.

use std::fmt::Write;

use crate::error::Error;
use crate::source::SourceLines;

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
    if !inner.contains('\\') {
        return Ok(inner.to_string());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|byte| matches!(byte, b'0'..=b'7')) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(value as u8);
            }
            Some(b'x') => {
                let mut value = 0u32;
                while let Some(digit) = rest.peek().and_then(|&byte| char::from(byte).to_digit(16)) {
                    rest.next();
                    value = (value << 4 | digit) & 0xff;
                }
                bytes.push(value as u8);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
