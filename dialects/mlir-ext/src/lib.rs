//! What halo needs of MLIR beyond melior, checked: the only crate that names `mlir-sys`.
//!
//! Reading ([`attributes`], [`locations`], [`types`], [`affine`]) answers `None` where melior's casts would be wrong;
//! writing is [`builder`] for new code and [`rewrite`] for finished code; [`pass`] registers passes, which run in a
//! [`pass_pipeline`]; [`diagnostics`] turns MLIR's messages into values, which [`operations`], [`pass_pipeline`] and
//! [`llvm_translation`] put into their errors.

pub mod access;
pub mod affine;
pub mod arith;
pub mod attributes;
pub mod builder;
pub mod control;
pub mod diagnostics;
pub mod dialects;
pub mod gpu;
pub mod llvm_translation;
pub mod locations;
pub mod modules;
pub mod operations;
pub mod pass;
pub mod pass_pipeline;
pub mod pipeline_text;
pub mod raw;
pub mod resources;
pub mod rewrite;
pub mod types;
