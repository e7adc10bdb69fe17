//! Link options of the tools.

/// LLVM and MLIR hold many functions of the same code, a tenth of a tool: lld can keep one of each.
fn main() {
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    if std::env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("fuse-ld=lld")) {
        println!("cargo:rustc-link-arg=-Wl,--icf=all");
    }
}
