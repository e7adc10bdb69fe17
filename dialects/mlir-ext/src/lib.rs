//! mlir-ext

pub mod affine;
pub mod arith;
pub mod builder;
pub mod diagnostics;
pub mod llvm_translation;
pub mod pass_pipeline;
