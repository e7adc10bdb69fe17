//! Builds the C++ part of a crate and links it: for the `build.rs` of each crate that has one.
//!
//! LLVM 22 is found by itself ([`installation`]). `mlir-sys` and `tblgen`, from which halo's MLIR comes, look for
//! `llvm-config` on the `PATH` only; the build script of this crate runs before theirs and says what to do if they will not
//! find it.

pub mod installation;

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
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
    let sources = ["td", "capi", "CMakeLists.txt"].map(|path| dialect.join(path));
    let common = ["CMakeLists.txt", "Dialects.cmake"].map(|path| project.join(path));
    // A path that is not there counts as changed, always.
    for path in sources.iter().chain(&common).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    for variable in installation::VARIABLES.into_iter().chain(["CXX"]) {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let prefix =
        installation::prefix().unwrap_or_else(|| panic!("LLVM {} with MLIR is not installed", installation::VERSION));
    let mlir = ["lib", "lib64"].map(|lib| prefix.join(lib).join("cmake/mlir"));
    let mlir = mlir.iter().find(|folder| folder.exists()).unwrap_or(&mlir[0]);
    let mut options = vec![
        format!("-S{}", project.display()),
        "-GNinja".to_string(),
        "-DCMAKE_BUILD_TYPE=Release".to_string(),
        format!("-DMLIR_DIR={}", mlir.display()),
        format!("-DDIALECT={}", dialect.display()),
    ];
    // It takes three quarters of the time of other compilers.
    let clang = prefix.join("bin/clang++");
    if clang.exists() && env::var_os("CXX").is_none() {
        options.push(format!("-DCMAKE_CXX_COMPILER={}", clang.display()));
    }
    let build = build_folder(target, &options);
    let _lock = lock(&build);
    check("configure", Command::new("cmake").args(&options).arg("-B").arg(&build).status());
    check("build", Command::new("cmake").arg("--build").arg(&build).args(["--target", target]).status());
    println!("cargo:rustc-link-search=native={}", build.join("lib").display());
    println!("cargo:rustc-link-lib=static={target}");
}

/// The folder where a library is built with some options. Cargo has a folder for each set of a crate's features, and others for clippy, and
/// the C++ is the same for all: it is built beside them, once.
fn build_folder(target: &str, options: &[String]) -> PathBuf {
    let own = folder("OUT_DIR");
    let mut hasher = DefaultHasher::new();
    options.hash(&mut hasher);
    let of_profile = own.ancestors().find(|folder| folder.ends_with("build")).and_then(Path::parent);
    of_profile.unwrap_or(&own).join("cmake").join(format!("{target}-{:016x}", hasher.finish()))
}

/// Keeps other build scripts away from a folder as long as the file is open.
fn lock(folder: &Path) -> File {
    let path = folder.with_extension("lock");
    let file = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(&path));
    file.and_then(|file| file.lock().map(|()| file)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
