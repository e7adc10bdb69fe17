//! Where LLVM 22 is installed. The build script of this crate includes this file too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is needed.
pub const VERSION: &str = "22";

/// What `mlir-sys` and `tblgen` look at before the `PATH`.
pub const VARIABLES: [&str; 2] = ["MLIR_SYS_220_PREFIX", "TABLEGEN_220_PREFIX"];

/// Where packages of LLVM put it: Debian, Fedora, Arch, Homebrew, and by hand.
const USUAL: [&str; 9] = [
    "/usr/lib/llvm-22",
    "/usr/lib64/llvm22",
    "/usr/lib/llvm22",
    "/opt/homebrew/opt/llvm@22",
    "/usr/local/opt/llvm@22",
    "/opt/homebrew/opt/llvm",
    "/usr/local/opt/llvm",
    "/usr/local",
    "/usr",
];

/// What a `llvm-config` says to a question.
fn ask(llvm_config: &Path, question: &str) -> Option<String> {
    let output = Command::new(llvm_config).arg(question).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|answer| answer.trim().to_string())
}

/// The version of the `llvm-config` of an installation, or of the `PATH` for the empty path.
pub fn version(prefix: &Path) -> Option<String> {
    let folder = if prefix.as_os_str().is_empty() { PathBuf::new() } else { prefix.join("bin") };
    ask(&folder.join("llvm-config"), "--version")
}

/// Whether this is a version that will do.
pub fn suits(version: &str) -> bool {
    version.split('.').next() == Some(VERSION)
}

/// Whether MLIR is there too, not LLVM alone.
fn has_mlir(prefix: &Path) -> bool {
    prefix.join("lib/cmake/mlir/MLIRConfig.cmake").exists() || prefix.join("lib64/cmake/mlir/MLIRConfig.cmake").exists()
}

/// The installation: what a variable says, else the `llvm-config` of the `PATH`, whose name may have the version, else
/// the usual places.
pub fn prefix() -> Option<PathBuf> {
    let told = VARIABLES.iter().filter_map(env::var_os).map(PathBuf::from);
    let on_path = ["llvm-config-22", "llvm-config22", "llvm-config"].into_iter().filter_map(|name| {
        let name = Path::new(name);
        ask(name, "--version").filter(|version| suits(version))?;
        ask(name, "--prefix").map(PathBuf::from)
    });
    let usual = USUAL.iter().map(PathBuf::from).filter(|prefix| version(prefix).is_some_and(|version| suits(&version)));
    told.chain(on_path).chain(usual).find(|prefix| has_mlir(prefix))
}
