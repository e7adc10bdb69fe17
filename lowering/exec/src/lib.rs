//! The runtime: loaded code and what it needs while it runs.

mod error;
pub mod jit;

pub use error::Error;
pub use jit::Jit;
