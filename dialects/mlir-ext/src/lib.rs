//! mlir-ext

pub mod affine;
pub mod arith;
pub mod attributes;
pub mod builder;
pub mod diagnostics;
pub mod llvm_translation;
pub mod locations;
pub mod operations;
pub mod pass_pipeline;
pub mod raw;
pub mod rewrite;
pub mod types;
