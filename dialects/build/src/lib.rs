//! Builds the C++ part of a crate and links it: for the `build.rs` of each crate that has one.
//!
//! LLVM 22 is found by itself ([`installation`]). `mlir-sys` and `tblgen`, from which halo's MLIR comes, look for
//! `llvm-config` on the `PATH` only; the build script of this crate runs before theirs and says what to do if they will not
//! find it.

pub mod installation;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the static library `target` of the crate at hand, whose folder has a `CMakeLists.txt`. To be called by a build
/// script.
///
/// # Panics
/// If that fails: the message is what cargo shows.
pub fn build(target: &str) {
    let dialect = folder("CARGO_MANIFEST_DIR");
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = folder("OUT_DIR").join("cmake");
    let sources = ["td", "capi", "CMakeLists.txt"].map(|path| dialect.join(path));
    let common = ["CMakeLists.txt", "Dialects.cmake"].map(|path| project.join(path));
    // A path that is not there counts as changed, always.
    for path in sources.iter().chain(&common).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    for variable in installation::VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let prefix =
        installation::prefix().unwrap_or_else(|| panic!("LLVM {} with MLIR is not installed", installation::VERSION));
    let mlir = ["lib", "lib64"].map(|lib| prefix.join(lib).join("cmake/mlir"));
    let mlir = mlir.iter().find(|folder| folder.exists()).unwrap_or(&mlir[0]);
    let configure = Command::new("cmake")
        .arg("-S")
        .arg(project)
        .arg("-B")
        .arg(&build)
        .args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"])
        .arg(format!("-DMLIR_DIR={}", mlir.display()))
        .arg(format!("-DDIALECT={}", dialect.display()))
        .status();
    check("configure", configure);
    check("build", Command::new("cmake").arg("--build").arg(&build).args(["--target", target]).status());
    println!("cargo:rustc-link-search=native={}", build.join("lib").display());
    println!("cargo:rustc-link-lib=static={target}");
}

/// A folder that cargo names to build scripts.
fn folder(variable: &str) -> PathBuf {
    env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| panic!("cargo sets {variable} for build scripts"))
}

fn check(step: &str, status: std::io::Result<std::process::ExitStatus>) {
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("cmake did not {step} the C++ part of the dialect: {status}"),
        Err(error) => panic!("`cmake` does not start ({error}): building the dialects needs cmake and ninja"),
    }
}
