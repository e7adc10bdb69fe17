//! Says what to do where `mlir-sys` and `tblgen` will not find LLVM. This crate depends on nothing, so that this comes
//! before their own attempts, which take a while to start. What was found is looked at again where one of the variables
//! changes, not the `PATH`: editors and shells differ in it, and `mlir-sys` keeps what it found too.

use std::env;
use std::path::Path;
use std::process::exit;

#[path = "src/installation.rs"]
mod installation;

fn main() {
    println!("cargo:rerun-if-changed=src/installation.rs");
    for variable in installation::VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // An empty prefix stands for the `PATH`.
    let seen = installation::VARIABLES.map(|variable| env::var(variable).unwrap_or_default());
    let versions = seen.each_ref().map(|prefix| installation::version(Path::new(prefix)));
    if versions.iter().flatten().filter(|version| installation::suits(version)).count() == seen.len() {
        return;
    }
    let found = match &versions {
        [Some(version), _] | [None, Some(version)] => format!("`llvm-config` is of version {version}"),
        [None, None] => "there is no `llvm-config`".to_string(),
    };
    let place = if seen.iter().all(String::is_empty) { "on the PATH" } else { "in the folders of these variables" };
    match installation::prefix() {
        Some(prefix) => eprintln!("{}", told(&prefix, &found, place)),
        None => eprintln!("{}", install(&found, place)),
    }
    exit(1);
}

fn told(prefix: &Path, found: &str, place: &str) -> String {
    let [mlir, tablegen] = installation::VARIABLES;
    let prefix = prefix.display();
    format!(
        "error: LLVM 22 is in {prefix}, but {found} {place}
  The crates mlir-sys and tblgen look there only. Put this into .cargo/config.toml of your project, once:

    [env]
    {mlir} = \"{prefix}\"
    {tablegen} = \"{prefix}\"

  or build with LLVM's programs first on the PATH: PATH={prefix}/bin:$PATH cargo build"
    )
}

fn install(found: &str, place: &str) -> String {
    format!(
        "error: halo needs LLVM 22 with MLIR and its headers; {found} {place}
  Debian, Ubuntu: apt install llvm-22-dev libmlir-22-dev mlir-22-tools libpolly-22-dev libclang-22-dev \\
                    libzstd-dev zlib1g-dev libxml2-dev cmake ninja-build g++
                  (https://apt.llvm.org has these packages where the system does not)
  macOS:          brew install llvm@22 cmake ninja
  elsewhere:      an installation of LLVM 22 built with the projects mlir and clang; {} names its folder
  Programs that only run saved executables need none of this: depend on halo with default-features = false.",
        installation::VARIABLES.join(" = ")
    )
}
