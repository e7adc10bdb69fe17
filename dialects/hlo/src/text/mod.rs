//! HLO text, as XLA prints it: read into [`Module`]s and written back. Programs as protocol buffers become text ([`proto`]).
//!
//! Text → [`ast`] ([`parse()`]) → graph ([`import()`]) → text ([`print()`]). [`read`] does the first two. No MLIR here.

pub mod ast;
mod asynchronous;
mod attributes;
mod computation_order;
mod error;
pub mod error_message;
mod expansion;
mod export;
mod grammar;
mod header;
mod import;
pub mod literal;
mod older;
mod parse;
pub mod proto;
mod resolve;
mod scan;
mod shapes;
pub mod source;
mod strings;
mod suggestion;

pub use error::{Error, Errors};
pub use expansion::{COMPUTATION_DEPTH_LIMIT, EXPANSION_LIMIT};
pub use export::{TextOptions, print, print_with};
pub use import::import;
pub use parse::parse;
pub use scan::NESTING_LIMIT;

use std::fmt;
use std::str::FromStr;

use crate::graph::Module;

/// Reads a module from text and verifies it. All faults of the text are found, up to a limit, but those behind a syntax error.
pub fn read(text: &str) -> Result<Module, Errors> {
    let mut faults = Vec::new();
    match parse::parse_collecting(text, &mut faults) {
        Ok(module) => import::import_with_faults(module, source::SourceLines::new(text), faults),
        Err(error) => {
            faults.push(error);
            Err(Errors::in_order(faults))
        }
    }
}

impl FromStr for Module {
    type Err = Errors;

    /// [`read`]. The errors say lines and columns; [`Errors::render`] shows the text with them.
    fn from_str(text: &str) -> Result<Self, Errors> {
        read(text)
    }
}

impl fmt::Display for Module {
    /// [`print()`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}
