//! Builds the C++ part of a crate with the CMake preset that people use too, and links it: the `build.rs` of each crate
//! that has one includes this file.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the static library `target` of the crate at hand.
pub fn build(target: &str) {
    let dialect = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = dialect.join("../..");
    let build = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("cmake");
    for path in ["td", "capi", "CMakeLists.txt"].map(|path| dialect.join(path)) {
        // A path that is not there counts as changed, always.
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    for path in ["CMakeLists.txt", "CMakePresets.json"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");

    cmake(&root, &["--preset", "release", "-B", &build.display().to_string()]);
    cmake(&root, &["--build", &build.display().to_string(), "--target", target]);
    println!("cargo:rustc-link-search=native={}", build.join("lib").display());
    println!("cargo:rustc-link-lib=static={target}");
}

fn cmake(directory: &Path, arguments: &[&str]) {
    let status = Command::new("cmake").current_dir(directory).args(arguments).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("`cmake {}` failed: {status}", arguments.join(" ")),
        Err(error) => panic!("`cmake` does not start ({error}); building the dialects needs cmake and ninja"),
    }
}
