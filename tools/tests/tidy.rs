//! The architecture's invariants, each a test: what `ARCHITECTURE.md` promises is checked here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use syn::visit::{self, Visit};

/// The crates; each may depend on those above it only.
const CRATES: [&str; 12] = [
    "halo-mlir-ext",
    "halo-indexing",
    "halo-hlo",
    "halo-hlo-text",
    "halo-evaluator",
    "halo-linear-algebra",
    "halo-exec",
    "halo-passes",
    "halo-lowering-llvm",
    "halo-lowering-affine",
    "halo",
    "halo-tools",
];

/// The only crate that may name MLIR's C functions.
const MLIR_CRATE: &str = "halo-mlir-ext";

/// C++ lines in the whole repository, comments included.
const CPP_LINES: usize = 700;

/// Lines that a file of Rust may have.
const RUST_LINES: usize = 800;

/// Folders of source code.
const SOURCE_FOLDERS: [&str; 7] = ["dialects", "evaluator", "passes", "lowering", "runtime", "src", "tools"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    package["dependencies"].as_array().into_iter().flatten().filter_map(|dependency| dependency["name"].as_str())
}

/// Files of the source folders with one of the extensions.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = SOURCE_FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[test]
fn crates_depend_only_on_those_above_them() {
    let metadata = metadata();
    let position: HashMap<&str, usize> = CRATES.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let place = position.get(name).unwrap_or_else(|| panic!("`{name}` has no place in the order of crates"));
        for dependency in dependencies(package) {
            if let Some(below) = position.get(dependency) {
                assert!(below < place, "`{name}` must not depend on `{dependency}`, which comes later");
            }
        }
    }
}

#[test]
fn one_crate_names_mlir_sys() {
    for package in metadata()["packages"].as_array().expect("packages") {
        if package["name"] != MLIR_CRATE {
            let name = package["name"].as_str().unwrap_or_default();
            assert!(dependencies(package).all(|dependency| dependency != "mlir-sys"), "`{name}` depends on mlir-sys");
        }
    }
}

#[test]
fn cpp_stays_small() {
    let lines: usize = files(&["cpp", "h", "cc", "hpp", "c"]).iter().map(|path| read(path).lines().count()).sum();
    assert!(lines < CPP_LINES, "{lines} lines of C++, {CPP_LINES} allowed");
}

#[test]
fn rust_files_are_short_and_say_what_they_own() {
    let mut faults = Vec::new();
    for path in files(&["rs"]) {
        let text = read(&path);
        let lines = text.lines().count();
        if lines >= RUST_LINES {
            faults.push(format!("{} has {lines} lines, {RUST_LINES} allowed", name(&path)));
        }
        if !text.starts_with("//!") {
            faults.push(format!("{} has no `//!` header", name(&path)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_are_named_for_what_they_hold() {
    let vague = ["utils", "util", "common", "helpers", "helper", "misc", "prelude"];
    for path in files(&["rs"]) {
        let named = path.iter().any(|part| vague.contains(&part.to_string_lossy().trim_end_matches(".rs")));
        assert!(!named, "{} has a name that says nothing", name(&path));
    }
}

/// Finds matches that name operations and have a `_` arm.
#[derive(Default)]
struct WildcardMatches {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for WildcardMatches {
    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        let names_operations = node.arms.iter().any(|arm| mentions_op_kind(&arm.pat));
        // `matches!` and guarded arms ask about one operation; a bare `_` decides about all that are to come.
        let wildcard = node.arms.iter().find_map(|arm| match &arm.pat {
            syn::Pat::Wild(wildcard) if arm.guard.is_none() => Some(wildcard.underscore_token.spans[0]),
            _ => None,
        });
        if let (true, Some(span)) = (names_operations, wildcard) {
            self.lines.push(span.start().line);
        }
        visit::visit_expr_match(self, node);
    }
}

fn mentions_op_kind(pattern: &syn::Pat) -> bool {
    struct Mentions(bool);
    impl<'ast> Visit<'ast> for Mentions {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            self.0 |= path.segments.len() > 1 && path.segments.iter().any(|segment| segment.ident == "OpKind");
        }
    }
    let mut mentions = Mentions(false);
    mentions.visit_pat(pattern);
    mentions.0
}

/// The tables that say something about every operation. Elsewhere a match may single out the operations it is about.
const WHOLE_TABLES: [&str; 2] = ["dialects/hlo/src/op_kind.rs", "dialects/hlo/src/ops/mod.rs"];

#[test]
fn matches_on_operations_are_exhaustive() {
    let mut faults = Vec::new();
    for path in files(&["rs"]).into_iter().filter(|path| WHOLE_TABLES.contains(&name(path).as_str())) {
        let mut matches = WildcardMatches::default();
        matches.visit_file(&syn::parse_file(&read(&path)).unwrap_or_else(|error| panic!("{}: {error}", name(&path))));
        faults.extend(matches.lines.iter().map(|line| format!("{}:{line}: `_ =>` in a match on OpKind", name(&path))));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The file of `passes` that knows whole programs in graph form: it runs pipelines on them.
const GRAPH_FILE: &str = "passes/src/pipeline.rs";

#[test]
fn no_pass_takes_the_graph() {
    for path in files(&["rs"]).into_iter().filter(|path| name(path).contains("passes/src/")) {
        let text = read(&path);
        let imports = text.lines().filter(|line| line.contains("graph::"));
        let mut words = imports.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let is_allowed = name(&path).ends_with(GRAPH_FILE);
        assert!(is_allowed || words.all(|word| word != "Module"), "{} names the graph's modules", name(&path));
    }
}
