//! Messages about a text as tools print them: what is wrong, excerpts with labels, hints. The drawing is that of the
//! crate `annotate-snippets`, which draws the messages of the Rust compiler.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::text::source::{Location, SourceLines};

/// What a message looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With the escape sequences of terminals for colours.
    Colored,
}

/// A message, the places that it is about, and what may help.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorMessage {
    message: String,
    labels: Vec<(Location, String)>,
    help: Vec<String>,
}

/// Columns of an excerpt; what is longer is cut round the place.
const WIDTH: usize = 160;

impl ErrorMessage {
    /// An error.
    pub fn new(message: impl Into<String>) -> Self {
        ErrorMessage { message: message.into(), labels: Vec::new(), help: Vec::new() }
    }

    /// With a place; the first one is what the message is about. `text` stands beside it and may be empty.
    #[must_use]
    pub fn label(mut self, at: &Location, text: impl Into<String>) -> Self {
        self.labels.push((at.clone(), text.into()));
        self
    }

    /// With a hint.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// The message with an excerpt of `text`, which is called `file`:
    ///
    /// ```text
    /// error: permutation must be a permutation of 0..3, got [0, 0, 2]
    ///   --> softmax.hlo:14:58
    ///    |
    /// 14 |   %t = f32[4,8,2] transpose(%p), dimensions={0,0,2}
    ///    |                                  ^^^^^^^^^^^^^^^^^^ transpose (C1)
    /// ```
    pub fn render(&self, file: &str, text: &str, style: Style) -> String {
        let title = Level::ERROR.primary_title(self.message.as_str());
        let mut group = Group::with_title(title);
        // The drawing walks the whole text that it gets: the lines of the places are enough.
        let source = SourceLines::new(text);
        let bounds = self.labels.iter().map(|(at, _)| source.lines_around(at.span.clone()));
        if let Some(shown) = bounds.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) {
            let first_line = 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..shown.start]).count();
            let annotations = self.labels.iter().enumerate().map(|(number, (at, label))| {
                let kind = if number == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                let span = source.clipped(at.span.clone());
                let label = (!label.is_empty()).then_some(label.as_str());
                kind.span(span.start - shown.start..span.end - shown.start).label(label)
            });
            let snippet = Snippet::source(&text[shown.clone()]).line_start(first_line).path(file);
            group = group.element(snippet.annotations(annotations));
        }
        let group = group.elements(self.help.iter().map(|help| Level::HELP.message(help.as_str())));
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Colored => Renderer::styled(),
        };
        let mut drawn = renderer.term_width(WIDTH).render(&[group]);
        drawn.push('\n');
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, place: &str) -> String {
        let at = text.find(place).expect("present");
        let location = SourceLines::new(text).location(at..at + place.len());
        ErrorMessage::new("not a permutation").label(&location, "transpose (C1)").render("m.hlo", text, Style::Plain)
    }

    #[test]
    fn renders_the_format_of_messages() {
        let text = "HloModule m\n\n  %t = f32[4] transpose(%p), dimensions={0,0}\n";
        assert_eq!(
            shown(text, "dimensions={0,0}"),
            "error: not a permutation\n --> m.hlo:3:30\n  |\n\
             3 |   %t = f32[4] transpose(%p), dimensions={0,0}\n  \
               |                              ^^^^^^^^^^^^^^^^ transpose (C1)\n"
        );
    }

    #[test]
    fn clips_a_long_line() {
        let text = format!("{}X{}", "a".repeat(10_000), "b".repeat(10_000));
        let shown = shown(&text, "X");
        assert!(shown.lines().all(|line| line.len() < 200), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find('X'), lines[4].find('^'));
    }

    #[test]
    fn colours_and_hints_are_asked_for() {
        let message = ErrorMessage::new("unknown").help("did you mean `known`?");
        assert_eq!(message.render("m.hlo", "", Style::Plain), "error: unknown\n |\n = help: did you mean `known`?\n");
        assert!(message.render("m.hlo", "", Style::Colored).contains('\u{1b}'));
    }
}
