//! Builds the C++ part of the crate.

#[path = "../build_cpp.rs"]
mod build_cpp;

fn main() {
    println!("cargo:rerun-if-changed=../build_cpp.rs");
    build_cpp::build("HaloMlirExt");
}
