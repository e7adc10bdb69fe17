//! mlir-ext
