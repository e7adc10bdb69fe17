//! HLO text, as XLA prints it: read into [`hlo::graph::Module`] and written back.
//!
//! Text → [`ast`] ([`parse()`]) → graph → text. No MLIR here.

pub mod ast;
mod error;
mod grammar;
mod parse;
mod resolve;
mod scan;
mod shapes;
pub mod source;

pub use error::Error;
pub use parse::parse;
pub use scan::NESTING_LIMIT;
