//! Builds the C++ part of the dialect.

#[path = "../build_cpp.rs"]
mod build_cpp;

fn main() {
    println!("cargo:rerun-if-changed=../build_cpp.rs");
    build_cpp::build("HaloIndexingDialect");
}
