//! Builds the C++ part of the dialect.

#[path = "../build_dialect.rs"]
mod build_dialect;

fn main() {
    println!("cargo:rerun-if-changed=../build_dialect.rs");
    build_dialect::build("HaloIndexingDialect");
}
