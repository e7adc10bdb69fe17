//! The tools as a user meets them: transcripts of commands with their output and exit status.
//!
//! `TRYCMD=overwrite` rewrites the transcripts.

use std::path::{Path, PathBuf};

/// Lets relative paths start at the root of the repository, as in the documentation.
fn at_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).expect("the repository");
    root
}

#[test]
fn transcripts() {
    at_root();
    trycmd::TestCases::new().case("test-files/command-line/*.trycmd");
}

/// The commands in the documentation, where `./x run` is `hlo-run`.
#[test]
fn documentation() {
    let root = at_root();
    let tools = Path::new(env!("CARGO_BIN_EXE_hlo-run")).parent().expect("a folder of binaries");
    let cases = trycmd::TestCases::new();
    cases.register_bin("./x", root.join("x"));
    cases.env("HALO_BIN", tools.display().to_string());
    for page in ["README.md", "docs/*.md"] {
        cases.case(page);
    }
}
