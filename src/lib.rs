//! halo: compiled array programs from HLO.
//!
//! A [`Client`] compiles a [`hlo::graph::Module`] to an [`Executable`], which runs on host [`hlo::literal::Literal`]s.

pub mod client;
pub mod error;
pub mod executable;
pub mod pipeline;

pub use client::Client;
pub use error::Error;
pub use executable::{CompileTimings, Executable};
pub use pipeline::CompileOptions;
