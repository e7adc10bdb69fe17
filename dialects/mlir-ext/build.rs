//! Builds the C++ part of the crate.

fn main() {
    mlir_build::build("HaloMlirExt");
}
