//! Positions in a source text, and the excerpt that points at one.
//!
//! Syntax trees keep slices of the text only; `Source::span_of` finds where a slice lies, so that nothing but an
//! error pays for positions.

use std::fmt::Write;
use std::ops::Range;

/// A text being read.
#[derive(Clone, Copy, Debug)]
pub struct SourceLines<'t> {
    text: &'t str,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Bytes covered; empty at the end of the text.
    pub span: Range<usize>,
    /// Line of the first byte, from 1.
    pub line: usize,
    /// Column of the first byte in characters, from 1.
    pub column: usize,
}

/// The longest part of a line an excerpt shows, in characters.
const EXCERPT_WIDTH: usize = 160;

impl<'t> SourceLines<'t> {
    /// The source made of `text`.
    pub fn new(text: &'t str) -> Self {
        SourceLines { text }
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Where `slice`, a part of this text, lies in it. A slice from elsewhere gives the start of the text.
    pub fn span_of(&self, slice: &str) -> Range<usize> {
        let start = (slice.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        match start.checked_add(slice.len()) {
            Some(end) if end <= self.text.len() => start..end,
            _ => 0..0,
        }
    }

    /// The location of `slice`, a part of this text.
    pub fn location_of(&self, slice: &str) -> Location {
        self.location(self.span_of(slice))
    }

    /// The location of a byte range; a range that is not inside the text is clipped to it.
    pub fn location(&self, span: Range<usize>) -> Location {
        let start = self.floor_boundary(span.start);
        let end = self.floor_boundary(span.end).max(start);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Location {
            span: start..end,
            line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }

    fn floor_boundary(&self, position: usize) -> usize {
        let mut position = position.min(self.text.len());
        while !self.text.is_char_boundary(position) {
            position -= 1;
        }
        position
    }
}

impl Location {
    /// Writes a message with an excerpt of the text it is about:
    ///
    /// ```text
    /// error: permutation must be a permutation of 0..3, got [0, 0, 2]
    ///   --> softmax.hlo:14:58
    ///    |
    /// 14 |   %t = f32[4,8,2] transpose(%p), dimensions={0,0,2}
    ///    |                                  ^^^^^^^^^^^^^^^^^^ transpose (C1)
    /// ```
    ///
    /// `label` stands behind the carets and may be empty. Of a very long line only the part round the span is shown.
    pub fn render(&self, file: &str, text: &str, message: &str, label: &str) -> String {
        let source = SourceLines::new(text);
        let start = source.floor_boundary(self.span.start);
        let end = source.floor_boundary(self.span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);

        let mut from = line_start;
        let mut ellipsis = "";
        if start - line_start > EXCERPT_WIDTH / 2 && line_end - line_start > EXCERPT_WIDTH {
            from = source.floor_boundary(start - EXCERPT_WIDTH / 2);
            ellipsis = "...";
        }
        let shown: String = text[from..line_end].chars().take(EXCERPT_WIDTH).collect();
        let shown = shown.trim_end_matches('\r').replace('\t', " ");
        let cut = if from + shown.len() < line_end && shown.chars().count() == EXCERPT_WIDTH { "..." } else { "" };
        let indent = ellipsis.len() + text[from..start].chars().count();
        let width =
            text[start..end.min(line_end)].chars().count().clamp(1, EXCERPT_WIDTH.saturating_sub(indent).max(1));

        let gutter = " ".repeat(self.line.to_string().len());
        let mut out = String::new();
        let _ = writeln!(out, "error: {message}");
        let _ = writeln!(out, "{gutter}--> {file}:{}:{}", self.line, self.column);
        let _ = writeln!(out, "{gutter} |");
        let _ = writeln!(out, "{} | {ellipsis}{shown}{cut}", self.line);
        let _ = write!(out, "{gutter} | {}{}", " ".repeat(indent), "^".repeat(width));
        if !label.is_empty() {
            let _ = write!(out, " {label}");
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_format_of_messages() {
        let text = "HloModule m\n\n  %t = f32[4] transpose(%p), dimensions={0,0}\n";
        let source = SourceLines::new(text);
        let at = text.find("dimensions").expect("present");
        let location = source.location(at..at + "dimensions={0,0}".len());
        assert_eq!((location.line, location.column), (3, 30));
        assert_eq!(
            location.render("m.hlo", text, "not a permutation", "transpose (C1)"),
            "error: not a permutation\n --> m.hlo:3:30\n  |\n\
             3 |   %t = f32[4] transpose(%p), dimensions={0,0}\n  \
               |                              ^^^^^^^^^^^^^^^^ transpose (C1)\n"
        );
    }

    #[test]
    fn clips_a_long_line() {
        let text = format!("{}X{}", "a".repeat(10_000), "b".repeat(10_000));
        let location = SourceLines::new(&text).location(10_000..10_001);
        assert_eq!(location.column, 10_001);
        let shown = location.render("f", &text, "m", "");
        assert!(shown.lines().all(|line| line.len() < 200), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find('X'), lines[4].find('^'));
    }

    #[test]
    fn a_location_past_the_end_is_clipped() {
        let location = SourceLines::new("é").location(1..50);
        assert_eq!((location.span, location.line, location.column), (0..2, 1, 1));
        let end = SourceLines::new("ab\n").location(3..3);
        assert_eq!((end.line, end.column), (2, 1));
        assert!(end.render("f", "ab\n", "m", "").ends_with("^\n"));
    }
}
