//! The `hlo` dialect: types, attributes, operations with their shape rules and the MLIR bridge.
//!
//! The plain-Rust core ([`graph`], [`ops`]) does not touch MLIR; `dialect` maps it to the ODS dialect, and the
//! maps of `indexing_maps` are affine maps.
//!
//! Errors are those of the layer that finds them, each with what is known there: names that mean nothing
//! (`UnknownOp`, `UnknownElementType`, `UnknownWord`: what `FromStr` gives), literals ([`literal::LiteralError`]), a rule
//! of an operation ([`ops::OpError`]), a module and the instruction at fault ([`graph::GraphError`]), a program for
//! several devices ([`devices::WrongDevices`]), a call of the builder and its place in Rust ([`builder::BuildError`]),
//! MLIR that is no HLO and its location (`dialect::DialectError`). A later layer holds the earlier one's error.

/// Symbol of the entry function of a program, in MLIR and in machine code.
pub const ENTRY_SYMBOL: &str = "main";

pub mod aliases;
pub mod attributes;
pub mod buffers;
pub mod builder;
pub mod cost;
pub mod devices;
#[cfg(feature = "mlir")]
pub mod dialect;
pub mod element_type;
pub mod escapes;
pub mod float_format;
pub mod graph;
#[cfg(feature = "mlir")]
pub mod indexing_maps;
pub mod interface;
pub mod launch_plan;
pub mod literal;
pub mod literal_memory;
pub mod literal_text;
#[cfg(feature = "mlir")]
pub mod mapping;
pub mod metadata;
pub mod op_kind;
pub mod ops;
pub mod packed_parameter;
pub mod profile;
pub mod scalar;
pub mod shape;
#[cfg(feature = "text")]
pub mod text;
