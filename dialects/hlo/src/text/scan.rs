//! The hand-written part of reading: where blanks, names, attribute values and literals end.
//!
//! Nothing here recurses, and every function is linear in the bytes it passes over.

use crate::text::error::Error;
use crate::text::source::SourceLines;

/// Brackets may nest this deep, which bounds the recursion of everything that reads or walks what they hold.
pub const NESTING_LIMIT: usize = 200;

/// A place in a text, moving forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    pub(crate) source: SourceLines<'t>,
    pub(crate) position: usize,
}

/// Whether a byte can stand inside a name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

impl<'t> Cursor<'t> {
    /// The start of a text.
    pub(crate) fn new(source: SourceLines<'t>) -> Self {
        Cursor { source, position: 0 }
    }

    /// The start of `slice`, a part of the source; reading on goes past its end.
    pub(crate) fn at(source: SourceLines<'t>, slice: &str) -> Self {
        Cursor { source, position: source.span_of(slice).start }
    }

    fn bytes(&self) -> &'t [u8] {
        self.source.text().as_bytes()
    }

    /// The text not read yet. The position is a character boundary wherever this is called: all tokens are ASCII
    /// or end behind an ASCII byte.
    pub(crate) fn rest(&self) -> &'t str {
        self.source.text().get(self.position..).unwrap_or_default()
    }

    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes().get(self.position).copied()
    }

    /// Passes over `byte` if it comes next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Passes over blanks and comments.
    pub(crate) fn skip_blank(&mut self) -> Result<(), Error> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\n' | b'\t' | b'\r' => self.position += 1,
                b'/' => match comment_end(self.bytes(), self.position) {
                    Comment::End(end) => self.position = end,
                    Comment::Open => return Err(self.unclosed("`*/` at the end of this comment")),
                    Comment::None => return Ok(()),
                },
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Passes over an identifier.
    pub(crate) fn identifier(&mut self) -> Option<&'t str> {
        let start = self.position;
        if !self.peek().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            return None;
        }
        while self.peek().is_some_and(is_name_byte) {
            self.position += 1;
        }
        self.source.text().get(start..self.position)
    }

    /// Passes over an identifier, with or without `%`.
    pub(crate) fn name(&mut self) -> Option<&'t str> {
        let start = self.position;
        self.eat(b'%');
        let name = self.identifier();
        if name.is_none() {
            self.position = start;
        }
        name
    }

    /// Passes over an attribute value: up to the comma, blank or closing bracket that ends it. Brackets and quoted
    /// strings inside are passed over whole.
    pub(crate) fn value(&mut self) -> Result<&'t str, Error> {
        let start = self.position;
        let bytes = self.bytes();
        let mut open: Vec<usize> = Vec::new();
        while let Some(&byte) = bytes.get(self.position) {
            match byte {
                b'"' | b'\'' => match string_end(bytes, self.position) {
                    Some(end) => self.position = end,
                    None => return Err(self.unclosed(&format!("`{}` at the end of this string", byte as char))),
                },
                b'{' | b'(' | b'[' => {
                    open.push(self.position);
                    self.position += 1;
                }
                b'}' | b')' | b']' => {
                    let Some(opening) = open.pop() else { break };
                    let expected = closing(bytes[opening]);
                    if byte != expected {
                        return Err(self.expected(&format!("`{}`", expected as char)));
                    }
                    self.position += 1;
                }
                b',' | b' ' | b'\n' | b'\t' | b'\r' if open.is_empty() => break,
                b'/' => match comment_end(bytes, self.position) {
                    Comment::End(_) if open.is_empty() => break,
                    Comment::End(end) => self.position = end,
                    Comment::Open => return Err(self.unclosed("`*/` at the end of this comment")),
                    Comment::None => self.position += 1,
                },
                _ => self.position += 1,
            }
        }
        if let Some(&opening) = open.last() {
            return Err(self.expected(&format!("`{}`", closing(bytes[opening]) as char)));
        }
        if start == self.position {
            return Err(self.expected("a value"));
        }
        Ok(self.source.text().get(start..self.position).unwrap_or_default())
    }

    /// Passes over the literal of a constant, up to the closing parenthesis that is not part of it.
    pub(crate) fn literal(&mut self) -> Result<&'t str, Error> {
        let start = self.position;
        let bytes = self.bytes();
        let mut depth = 0usize;
        while let Some(found) = bytes.get(self.position..).and_then(|rest| memchr::memchr3(b'(', b')', b'/', rest)) {
            self.position += found;
            match bytes[self.position] {
                b'(' => depth += 1,
                b')' if depth == 0 => {
                    return Ok(self.source.text().get(start..self.position).unwrap_or_default().trim());
                }
                b')' => depth -= 1,
                _ => {
                    if let Comment::End(end) = comment_end(bytes, self.position) {
                        self.position = end;
                        continue;
                    }
                }
            }
            self.position += 1;
        }
        self.position = bytes.len();
        Err(self.expected("`)` at the end of this literal"))
    }

    /// The error that what begins here has no end.
    fn unclosed(&self, expected: &str) -> Error {
        let at = self.expected(expected).location().clone();
        Error::Syntax { at, expected: expected.to_string(), found: "the end of the text".to_string() }
    }

    /// The error that `expected` should stand here.
    pub(crate) fn expected(&self, expected: &str) -> Error {
        let rest = self.rest();
        let length = match rest.bytes().next() {
            None => 0,
            Some(byte) if is_name_byte(byte) => rest.bytes().take_while(|&byte| is_name_byte(byte)).count(),
            Some(_) => rest.chars().next().map_or(0, char::len_utf8),
        };
        let found = match &rest[..length.min(60)] {
            "" => "the end of the text".to_string(),
            "\n" => "the end of the line".to_string(),
            token => format!("`{token}`"),
        };
        let at = self.source.location(self.position..self.position + length);
        Error::Syntax { at, expected: expected.to_string(), found }
    }
}

enum Comment {
    /// A comment that ends here.
    End(usize),
    /// A comment without end.
    Open,
    /// No comment.
    None,
}

/// Where the comment at `position` ends, if there is one.
fn comment_end(bytes: &[u8], position: usize) -> Comment {
    let rest = &bytes[position..];
    if rest.starts_with(b"//") {
        return Comment::End(memchr::memchr2(b'\n', b'\r', rest).map_or(bytes.len(), |length| position + length));
    }
    if rest.starts_with(b"/*") {
        return match memchr::memmem::find(&rest[2..], b"*/") {
            Some(length) => Comment::End(position + length + 4),
            None => Comment::Open,
        };
    }
    Comment::None
}

/// Where the string that begins with the quote at `position` ends.
fn string_end(bytes: &[u8], position: usize) -> Option<usize> {
    let quote = bytes[position];
    let mut end = position + 1;
    loop {
        end += memchr::memchr2(quote, b'\\', bytes.get(end..)?)?;
        if bytes[end] == quote {
            return Some(end + 1);
        }
        end += 2;
    }
}

fn closing(opening: u8) -> u8 {
    match opening {
        b'{' => b'}',
        b'(' => b')',
        _ => b']',
    }
}

/// Checks that brackets outside strings and comments nest no deeper than [`NESTING_LIMIT`].
pub(crate) fn check_nesting(source: SourceLines<'_>) -> Result<(), Error> {
    let bytes = source.text().as_bytes();
    let mut depth = 0usize;
    let mut position = 0;
    while let Some(&byte) = bytes.get(position) {
        match byte {
            b'{' | b'(' | b'[' => {
                depth += 1;
                if depth > NESTING_LIMIT {
                    return Err(Error::TooDeep { at: source.location(position..position + 1), limit: NESTING_LIMIT });
                }
            }
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                // An unterminated string is reported when it is read.
                position = string_end(bytes, position).unwrap_or(bytes.len());
                continue;
            }
            b'/' => {
                if let Comment::End(end) = comment_end(bytes, position) {
                    position = end;
                    continue;
                }
            }
            _ => {}
        }
        position += 1;
    }
    Ok(())
}
