//! MLIR's diagnostics as Rust values.
//!
//! MLIR reports through a handler of the context, never through return values. [`collect`] attaches a handler for
//! the length of one call and hands back what was said, so that each fallible call can put it into its error.
//! Handlers nest: the innermost `collect` gets the message.

use melior::{
    Context, ContextRef,
    diagnostic::{DiagnosticHandlerId, DiagnosticSeverity},
    ir::Location,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use crate::operations;

/// How serious a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The operation at the location is at fault.
    Error,
    /// Suspicious, but not an error.
    Warning,
    /// Supplement of another diagnostic.
    Note,
    /// Information about what was done.
    Remark,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::Remark => "remark",
        })
    }
}

/// One message of MLIR with its location and notes, free of the context that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How serious it is.
    pub severity: Severity,
    /// The location as MLIR prints it, without the `loc(…)` around it; empty for an unknown location.
    pub location: String,
    /// What is wrong.
    pub message: String,
    /// Notes that MLIR attached, in its order.
    pub notes: Vec<Diagnostic>,
}

impl Diagnostic {
    fn from_mlir(diagnostic: &melior::diagnostic::Diagnostic) -> Self {
        Self {
            severity: match diagnostic.severity() {
                DiagnosticSeverity::Error => Severity::Error,
                DiagnosticSeverity::Warning => Severity::Warning,
                DiagnosticSeverity::Note => Severity::Note,
                DiagnosticSeverity::Remark => Severity::Remark,
            },
            location: location_text(diagnostic.location()),
            message: diagnostic.to_string(),
            notes: (0..diagnostic.note_count())
                .filter_map(|index| diagnostic.note(index).ok())
                .map(|note| Self::from_mlir(&note))
                .collect(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        if !self.location.is_empty() {
            write!(formatter, "{}: ", self.location)?;
        }
        write!(formatter, "{}: {}", self.severity, self.message)?;
        for note in &self.notes {
            write!(formatter, "\n{note}")?;
        }
        Ok(())
    }
}

/// Renders diagnostics one per line.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn location_text(location: Location) -> String {
    let text = location.to_string();
    let inner = text.strip_prefix("loc(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(&text);
    match inner {
        "unknown" => String::new(),
        // `"file":line:column` reads better without the quotes that MLIR's own syntax needs.
        _ => inner.replacen('"', "", 2),
    }
}

/// [`collect`] for the context of a module, type or value.
pub fn collect_in<T>(context: ContextRef, call: impl FnOnce() -> T) -> (T, Vec<Diagnostic>) {
    collect(operations::context(context), call)
}

/// Runs `call` and returns its result with every diagnostic that `context` emitted meanwhile.
pub fn collect<T>(context: &Context, call: impl FnOnce() -> T) -> (T, Vec<Diagnostic>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let handler = AttachedHandler::new(context, messages.clone());
    let result = call();
    drop(handler);
    let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
    (result, std::mem::take(&mut *messages))
}

/// Detaches its handler when dropped, also when the call panics.
struct AttachedHandler<'c> {
    context: &'c Context,
    id: DiagnosticHandlerId,
}

impl<'c> AttachedHandler<'c> {
    fn new(context: &'c Context, messages: Arc<Mutex<Vec<Diagnostic>>>) -> Self {
        let id = context.attach_diagnostic_handler(move |diagnostic| {
            messages.lock().unwrap_or_else(PoisonError::into_inner).push(Diagnostic::from_mlir(&diagnostic));
            true
        });
        Self { context, id }
    }
}

impl Drop for AttachedHandler<'_> {
    fn drop(&mut self) {
        self.context.detach_diagnostic_handler(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melior::ir::Module;

    #[test]
    fn a_parse_error_carries_its_position() {
        let context = Context::new();
        let (parsed, diagnostics) = collect(&context, || Module::parse(&context, "\n  foo"));
        assert!(parsed.is_none());
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(diagnostics[0].severity, Severity::Error);
        assert!(diagnostics[0].location.ends_with(":2:3"), "{diagnostics:?}");
        assert!(render(&diagnostics).contains("custom op 'foo' is unknown"));
    }

    #[test]
    fn nested_calls_get_their_own_messages() {
        let context = Context::new();
        let (inner, outer) = collect(&context, || {
            let (_, inner) = collect(&context, || Module::parse(&context, "foo").is_none());
            inner
        });
        assert_eq!((inner.len(), outer.len()), (1, 0));
    }
}
