//! The `hlo` dialect: types, attributes, operations with their shape rules and the MLIR bridge.
//!
//! The plain-Rust core ([`graph`], [`ops`]) does not touch MLIR; `dialect` maps it to the ODS dialect.

pub mod attributes;
pub mod buffers;
pub mod builder;
pub mod devices;
#[cfg(feature = "mlir")]
pub mod dialect;
pub mod element_type;
pub mod float_format;
pub mod graph;
pub mod indexing_maps;
pub mod literal;
pub mod op_kind;
pub mod ops;
pub mod scalar;
pub mod shape;
