//! mlir-ext

pub mod diagnostics;
pub mod llvm_translation;
pub mod pass_pipeline;
