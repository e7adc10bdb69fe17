//! Builds the C++ part of the dialect.

#[path = "../build_cpp.rs"]
mod build_cpp;

fn main() {
    println!("cargo:rerun-if-changed=../build_cpp.rs");
    if std::env::var_os("CARGO_FEATURE_MLIR").is_some() {
        build_cpp::build("HaloIndexingDialect");
    }
}
