//! Everything that can be wrong with a text.

use crate::ops::OpError;

use crate::text::error_message::{ErrorMessage, Style};
use crate::text::source::Location;

/// A fault of a text: what was expected, what was found, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Something else should stand here.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// Where.
        at: Location,
        /// What should stand here.
        expected: String,
        /// What does.
        found: String,
    },
    /// Brackets nest too deep.
    #[error("brackets nest deeper than {limit} levels")]
    TooDeep {
        /// The first bracket too many.
        at: Location,
        /// Levels that are read.
        limit: usize,
    },
    /// A shape that means nothing.
    #[error("{reason}")]
    Shape {
        /// The shape, or its part at fault.
        at: Location,
        /// The rule, and the value found.
        reason: String,
    },
    /// A name stands for two things.
    #[error("{what} `{name}` is already defined in line {}", first.line)]
    Duplicate {
        /// The second definition.
        at: Location,
        /// What is defined: an instruction, a computation, an attribute …
        what: &'static str,
        /// Its name.
        name: String,
        /// The first definition.
        first: Location,
    },
    /// Use of an undefined name.
    #[error("{what} `{name}` is not defined{}", if later.is_some() { " before its use" } else { "" })]
    Undefined {
        /// The use.
        at: Location,
        /// What should be defined: an instruction, a computation …
        what: &'static str,
        /// Its name.
        name: String,
        /// Its definition after its use, if there is one.
        later: Option<Location>,
    },
    /// An operand is written with a shape that it does not have.
    #[error("operand `{name}` has shape {found}, not {declared}")]
    OperandShape {
        /// The operand.
        at: Location,
        /// Its name.
        name: String,
        /// The shape written here.
        declared: String,
        /// The shape of its definition.
        found: String,
        /// Its definition.
        definition: Location,
    },
    /// A computation is not well formed.
    #[error("{reason}")]
    Computation {
        /// The computation's name, or its part at fault.
        at: Location,
        /// The rule, and what was found.
        reason: String,
    },
    /// A computation calls itself, directly or not.
    #[error("computation `{name}` calls itself: {path}")]
    CallCycle {
        /// The call that closes the cycle.
        at: Location,
        /// A computation of the cycle.
        name: String,
        /// The cycle, as `a -> b -> a`.
        path: String,
    },
    /// Shared computations, copied to where they are called, become too large.
    #[error("copies of shared computations take more than {limit} bytes")]
    Expansion {
        /// The call at which the limit was passed.
        at: Location,
        /// Bytes allowed.
        limit: u64,
    },
    /// A literal that does not fit its shape.
    #[error("literal of shape {shape}: {reason}")]
    Literal {
        /// The number or bracket at fault.
        at: Location,
        /// The shape.
        shape: String,
        /// The rule, and what was found.
        reason: String,
    },
    /// An opcode that no operation has.
    #[error("unknown opcode `{name}`")]
    UnknownOpcode {
        /// The opcode.
        at: Location,
        /// Its text.
        name: String,
        /// The opcode that was meant, if one has a similar name.
        suggestion: Option<&'static str>,
    },
    /// An attribute with a value of the wrong form.
    #[error("attribute `{key}` expects {expected}, found {found}")]
    Attribute {
        /// The value, or its part at fault.
        at: Location,
        /// Name of the attribute.
        key: String,
        /// The form expected.
        expected: String,
        /// The value found.
        found: String,
    },
    /// An attribute that the operation does not have.
    #[error("`{opcode}` has no attribute `{key}`")]
    UnknownAttribute {
        /// The attribute.
        at: Location,
        /// The operation.
        opcode: String,
        /// Name of the attribute.
        key: String,
        /// The attribute that was meant, if one has a similar name.
        suggestion: Option<&'static str>,
        /// The attributes that the operation takes.
        allowed: String,
    },
    /// An operation lacks an attribute or a called computation that it needs.
    #[error("`{opcode}` needs the attribute `{key}`")]
    MissingAttribute {
        /// The instruction.
        at: Location,
        /// The operation.
        opcode: String,
        /// Name of the attribute.
        key: String,
    },
    /// An instruction that breaks a rule of its operation.
    #[error("{}", error.message)]
    Op {
        /// The operand or attribute at fault, or else the instruction.
        at: Location,
        /// The broken rule.
        error: Box<OpError>,
        /// The definition of the operand at fault, if one is.
        operand: Option<Location>,
    },
}

impl Error {
    /// Where the fault is.
    pub fn location(&self) -> &Location {
        match self {
            Error::Syntax { at, .. }
            | Error::TooDeep { at, .. }
            | Error::Shape { at, .. }
            | Error::Duplicate { at, .. }
            | Error::Undefined { at, .. }
            | Error::OperandShape { at, .. }
            | Error::Computation { at, .. }
            | Error::CallCycle { at, .. }
            | Error::Expansion { at, .. }
            | Error::Literal { at, .. }
            | Error::UnknownOpcode { at, .. }
            | Error::Attribute { at, .. }
            | Error::UnknownAttribute { at, .. }
            | Error::MissingAttribute { at, .. }
            | Error::Op { at, .. } => at,
        }
    }

    /// The rule's name, to stand behind the carets: `transpose (C1)`. Empty where there is none.
    pub fn label(&self) -> String {
        match self {
            Error::Op { error, .. } => match error.label {
                Some(label) => format!("{} ({label})", error.kind),
                None => error.kind.to_string(),
            },
            _ => String::new(),
        }
    }

    /// What may help.
    fn hint(&self) -> Option<String> {
        match self {
            Error::UnknownOpcode { suggestion, .. } => suggestion.map(did_you_mean),
            Error::UnknownAttribute { suggestion, allowed, .. } => {
                let meant = suggestion.map(|name| format!("{} ", did_you_mean(name))).unwrap_or_default();
                Some(format!("{meant}it takes {allowed}"))
            }
            _ => None,
        }
    }

    /// The message and what may help, in one line.
    pub fn with_hint(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self}, {hint}"))
    }

    /// The message with its places and what may help.
    pub fn message(&self) -> ErrorMessage {
        let message = ErrorMessage::new(self.to_string()).label(self.location(), self.label());
        let message = match self {
            Error::Duplicate { first, .. } => message.label(first, "first defined here"),
            Error::Undefined { later: Some(later), .. } => message.label(later, "defined here"),
            Error::OperandShape { definition, .. } | Error::Op { operand: Some(definition), .. } => {
                message.label(definition, "the operand")
            }
            _ => message,
        };
        self.hint().into_iter().fold(message, ErrorMessage::help)
    }

    /// The message with an excerpt of `text`, the text that was read; `file` is its name for the reader.
    pub fn render(&self, file: &str, text: &str) -> String {
        self.message().render(file, text, Style::Plain)
    }
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// No more faults than this are looked for.
const MOST_FAULTS: usize = 20;

/// Faults that do not keep the rest of a text from being read.
pub(crate) struct Faults<'f>(pub(crate) &'f mut Vec<Error>);

impl Faults<'_> {
    /// Adds a fault; there is an end of the work when there are too many.
    pub(crate) fn add(&mut self, fault: Error) -> Result<(), Error> {
        if self.0.len() + 1 >= MOST_FAULTS {
            return Err(fault);
        }
        self.0.push(fault);
        Ok(())
    }
}

/// All the faults found in a text; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors(pub Vec<Error>);

impl Errors {
    /// Faults in the order of the text.
    pub(crate) fn in_order(mut faults: Vec<Error>) -> Self {
        faults.sort_by_key(|fault| fault.location().span.start);
        faults.dedup();
        Errors(faults)
    }

    /// The messages with excerpts of `text`, the text that was read, one below the other.
    pub fn render(&self, file: &str, text: &str) -> String {
        self.render_in(Style::Plain, file, text)
    }

    /// The same in a style.
    pub fn render_in(&self, style: Style, file: &str, text: &str) -> String {
        self.0.iter().map(|error| error.message().render(file, text, style)).collect::<Vec<_>>().join("\n")
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            let at = error.location();
            let line_break = if position > 0 { "\n" } else { "" };
            write!(f, "{line_break}{}:{}: {}", at.line, at.column, error.with_hint())?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Errors(vec![error])
    }
}
