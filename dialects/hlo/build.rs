//! Builds the C++ part of the dialect, and says where its ODS files are.

use std::path::PathBuf;

#[path = "../build_cpp.rs"]
mod build_cpp;

fn main() {
    println!("cargo:rerun-if-changed=../build_cpp.rs");
    // For the typed builders, which a macro generates from the same files.
    let dialect = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    println!("cargo:rustc-env=HLO_ODS_DIRECTORY={}", dialect.join("td").display());
    if std::env::var_os("CARGO_FEATURE_MLIR").is_some() {
        build_cpp::build("HaloHloDialect");
    }
}
