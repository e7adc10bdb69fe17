//! Builds the C++ part of the dialect.

fn main() {
    mlir_build::build("HaloIndexingDialect");
}
