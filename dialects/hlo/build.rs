//! Builds the C++ part of the dialect, and says where its ODS files are.

fn main() {
    #[cfg(feature = "mlir")]
    {
        // For the typed builders, which a macro generates from the same files.
        println!("cargo:rustc-env=HLO_ODS_DIRECTORY={}/td", env!("CARGO_MANIFEST_DIR"));
        mlir_build::build("HaloHloDialect");
    }
}
