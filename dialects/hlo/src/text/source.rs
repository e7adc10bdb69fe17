//! Positions in a source text.
//!
//! Syntax trees keep slices of the text only; `Source::span_of` finds where a slice lies, so that nothing but an
//! error pays for positions.

use std::ops::Range;

use crate::graph::TextPosition;

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
        let Range { start, end } = self.clipped(span);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Location {
            span: start..end,
            line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }

    /// The word that begins at a position: the name of an instruction, say.
    pub fn word_at(&self, position: TextPosition) -> Location {
        let before = position.line.saturating_sub(1) as usize;
        let start: usize = self.text.split_inclusive('\n').take(before).map(str::len).sum();
        let line = self.text[start..].lines().next().unwrap_or("");
        let skipped: usize = line.chars().take(position.column.saturating_sub(1) as usize).map(char::len_utf8).sum();
        let word = line[skipped..].split_whitespace().next().unwrap_or("");
        self.location(start + skipped..start + skipped + word.len())
    }

    /// The part of a byte range that is inside the text, between characters.
    pub(crate) fn clipped(&self, span: Range<usize>) -> Range<usize> {
        let start = self.floor_boundary(span.start);
        start..self.floor_boundary(span.end).max(start)
    }

    /// The whole lines that a byte range lies in, without the last line's end.
    pub(crate) fn lines_around(&self, span: Range<usize>) -> Range<usize> {
        let Range { start, end } = self.clipped(span);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[end..].find('\n').map_or(self.text.len(), |newline| end + newline);
        line_start..line_end
    }

    fn floor_boundary(&self, position: usize) -> usize {
        let mut position = position.min(self.text.len());
        while !self.text.is_char_boundary(position) {
            position -= 1;
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_past_the_end_is_clipped() {
        let location = SourceLines::new("é").location(1..50);
        assert_eq!((location.span, location.line, location.column), (0..2, 1, 1));
        let end = SourceLines::new("ab\n").location(3..3);
        assert_eq!((end.line, end.column), (2, 1));
    }
}
