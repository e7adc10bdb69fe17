//! MLIR's C types, for crates that declare the C interface of an ODS dialect.
//!
//! Nothing else of `mlir-sys` is visible outside of this crate.

pub use mlir_sys::{
    MlirAttribute, MlirContext, MlirDialectHandle, MlirOperation, MlirStringCallback, MlirStringRef, MlirType,
};
