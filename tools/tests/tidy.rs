//! The architecture's invariants, each a test: what `ARCHITECTURE.md` promises is checked here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use syn::visit::{self, Visit};

/// The crates; each may depend on those above it only.
const CRATES: [&str; 14] = [
    "halo-mlir-build",
    "halo-mlir-ext",
    "halo-indexing",
    "halo-hlo",
    "halo-evaluator",
    "halo-linear-algebra",
    "halo-exec",
    "halo-cuda",
    "halo-passes",
    "halo-lowering-llvm",
    "halo-lowering-affine",
    "halo",
    "halo-data",
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

/// What crates.io and whoever packages need: `./x package` makes the packages.
#[test]
fn crates_can_be_packaged() {
    for package in metadata()["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().unwrap_or_default();
        for key in ["description", "license", "readme"] {
            assert!(package[key].is_string(), "`{name}` has no {key}");
        }
        assert!(package["keywords"].as_array().is_some_and(|words| !words.is_empty()), "`{name}` has no keywords");
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            assert!(dependency["req"] != "*", "`{name}` depends on {} of no version", dependency["name"]);
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
const WHOLE_TABLES: [&str; 3] =
    ["dialects/hlo/src/op_kind.rs", "dialects/hlo/src/ops/mod.rs", "dialects/hlo/src/indexing_maps/to_operand.rs"];

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

/// Methods that read an attribute by its name.
const BY_NAME: [&str; 5] = ["int", "ints", "flag", "float", "word"];

/// Finds attributes that are read by names in string literals, and literal defaults.
#[derive(Default)]
struct Shortcuts {
    /// Lines of reads by name, and of values set by name.
    names: Vec<usize>,
    /// Lines of `unwrap_or(0)` and the like.
    defaults: Vec<usize>,
}

impl<'ast> Visit<'ast> for Shortcuts {
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        let is_test = node.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if !is_test {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_expr_method_call(&mut self, node: &'ast syn::ExprMethodCall) {
        let method = node.method.to_string();
        let line = node.method.span().start().line;
        let is_name =
            |argument: &syn::Expr| matches!(argument, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(_), .. }));
        let is_value = |argument: &syn::Expr| match argument {
            syn::Expr::Call(call) => path_text(&call.func).starts_with("AttributeValue::"),
            _ => false,
        };
        let arguments: Vec<&syn::Expr> = node.args.iter().collect();
        match arguments.as_slice() {
            [name] if BY_NAME.contains(&method.as_str()) && is_name(name) => self.names.push(line),
            [_, value] if matches!(method.as_str(), "with" | "set") && is_value(value) => self.names.push(line),
            [default] if method == "unwrap_or" && is_literal_default(default) => self.defaults.push(line),
            _ => {}
        }
        visit::visit_expr_method_call(self, node);
    }
}

fn path_text(expression: &syn::Expr) -> String {
    match expression {
        syn::Expr::Path(path) => {
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::")
        }
        _ => String::new(),
    }
}

/// `0`, `1` and `usize::MAX`: values that hide a case that cannot happen.
fn is_literal_default(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => {
            matches!(number.base10_digits(), "0" | "1")
        }
        path => path_text(path) == "usize::MAX",
    }
}

fn shortcuts(path: &Path) -> Shortcuts {
    let mut shortcuts = Shortcuts::default();
    shortcuts.visit_file(&syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", name(path))));
    shortcuts
}

/// Source files that are no tests.
fn sources() -> impl Iterator<Item = PathBuf> {
    files(&["rs"]).into_iter().filter(|path| !path.components().any(|part| part.as_os_str() == "tests"))
}

#[test]
fn attributes_are_read_from_typed_structs() {
    let mut faults = Vec::new();
    for path in sources() {
        let lines = shortcuts(&path).names;
        faults.extend(lines.iter().map(|line| format!("{}:{line}: an attribute by its name", name(&path))));
    }
    assert!(faults.is_empty(), "{}\nread `instruction.attributes::<…Attributes>()` instead", faults.join("\n"));
}

/// Folders without literal defaults. None may leave.
const WITHOUT_LITERAL_DEFAULTS: [&str; 3] = ["dialects/hlo/src/", "evaluator/src/", "lowering/"];

#[test]
fn no_literal_default_hides_a_case_that_cannot_happen() {
    let mut faults = Vec::new();
    for path in sources() {
        let name = name(&path);
        let is_read = WITHOUT_LITERAL_DEFAULTS.iter().any(|folder| name.starts_with(folder));
        if is_read {
            faults.extend(shortcuts(&path).defaults.iter().map(|line| format!("{name}:{line}: a literal default")));
        }
    }
    assert!(faults.is_empty(), "{}\nwhat cannot happen is an error of kind Bug", faults.join("\n"));
}

/// Pipelines of MLIR's own that have file tests beside those of halo's passes.
const PASSES_OF_MLIR: [&str; 1] = ["cse"];

#[test]
fn a_pass_its_file_and_its_file_test_have_one_name() {
    let names: Vec<String> = passes::registry::all()
        .iter()
        .map(|pass| pass.name().strip_prefix("hlo-").unwrap_or(pass.name()).replace('-', "_"))
        .collect();
    for name in &names {
        let source = ["passes/src/{}.rs", "passes/src/{}/mod.rs"].map(|place| root().join(place.replace("{}", name)));
        assert!(source.iter().any(|place| place.exists()), "the pass `{name}` has no file of its name");
        let test = root().join(format!("test-files/passes/{name}.hlo"));
        assert!(test.exists(), "the pass `{name}` has no file test of its name");
    }
    for entry in std::fs::read_dir(root().join("test-files/passes")).expect("a folder").flatten() {
        let stem = entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_named = names.contains(&stem) || PASSES_OF_MLIR.contains(&stem.as_str());
        assert!(is_named, "test-files/passes/{stem}.hlo is named after no pass");
    }
}

/// Names of public types that several crates have, and why.
const NAMES_OF_SEVERAL_TYPES: [(&str, &str); 4] = [
    ("Error", "a crate with one error enum calls it so; others say which crate they mean"),
    ("ArrayRef", "an argument of a call, and an array in the memory of a kernel"),
    ("Buffer", "an array of the user's, the memory behind it, and a buffer of a buffer assignment"),
    ("Place", "a place for a result, and a place in an array"),
];

/// The names of public types that are declared outside of tests.
fn public_types(path: &Path) -> Vec<String> {
    let file = syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", name(path)));
    let declared = file.items.into_iter().filter_map(|item| match item {
        syn::Item::Struct(item) => Some((item.vis, item.ident)),
        syn::Item::Enum(item) => Some((item.vis, item.ident)),
        syn::Item::Union(item) => Some((item.vis, item.ident)),
        syn::Item::Trait(item) => Some((item.vis, item.ident)),
        syn::Item::Type(item) => Some((item.vis, item.ident)),
        _ => None,
    });
    let is_public = |visibility: &syn::Visibility| matches!(visibility, syn::Visibility::Public(_));
    declared.filter(|(visibility, _)| is_public(visibility)).map(|(_, name)| name.to_string()).collect()
}

#[test]
fn public_type_names_are_unique() {
    let mut places: HashMap<String, Vec<String>> = HashMap::new();
    for path in sources().filter(|path| !path.components().any(|part| part.as_os_str() == "benches")) {
        for declared in public_types(&path) {
            places.entry(declared).or_default().push(name(&path));
        }
    }
    let several = |name: &str| NAMES_OF_SEVERAL_TYPES.iter().any(|(known, _)| *known == name);
    let mut faults: Vec<String> = places
        .iter()
        .filter(|(name, places)| places.len() > 1 && !several(name))
        .map(|(name, places)| format!("`{name}` is declared in {}", places.join(", ")))
        .collect();
    let unused = NAMES_OF_SEVERAL_TYPES.iter().filter(|(name, _)| places.get(*name).is_none_or(|at| at.len() < 2));
    faults.extend(unused.map(|(name, _)| format!("`{name}` is unique: NAMES_OF_SEVERAL_TYPES can lose it")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Crates that may depend on the evaluator: tools and tests compare with it, a pass folds constants by it, another tries computations on samples.
const MAY_EVALUATE: [&str; 2] = ["halo-passes", "halo-tools"];

/// The files outside of tools and tests that name the evaluator.
const EVALUATE: [&str; 2] = ["passes/src/canonicalize/constants.rs", "passes/src/regrouping.rs"];

#[test]
fn the_evaluator_is_independent_of_what_it_judges() {
    for package in metadata()["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let mut linked = dependencies.filter(|dependency| dependency["kind"] != "dev");
        let evaluates = linked.any(|dependency| dependency["name"] == "halo-evaluator");
        assert!(!evaluates || MAY_EVALUATE.contains(&name), "`{name}` depends on the evaluator");
    }
    for path in sources() {
        let name = name(&path);
        let may_name_it = name.starts_with("tools/") || EVALUATE.contains(&name.as_str());
        let names_it = read(&path).lines().any(|line| line.trim_start().starts_with("use evaluator::"));
        assert!(may_name_it || !names_it, "{name} names the evaluator");
    }
}

/// Where lowering makes operations of `scf` or `llvm`, or index arithmetic of `arith`: file, operations, reason.
/// Everything else is said in `affine`, `memref` and `func`.
const BELOW_AFFINE: [(&str, &[&str], &str); 32] = [
    ("access.rs", &["addi"], "addresses of a gather: one for each lane, imaginary parts behind the real ones"),
    ("elemental.rs", &["maxsi", "minsi"], "starts of slices that differ between lanes are clamped as vectors"),
    (
        "index.rs",
        &["addi", "subi", "muli", "divui", "remui", "shrui"],
        "indices that differ between lanes irregularly are vectors",
    ),
    ("index.rs", &["if_else"], "conditions on loaded indices, which affine.if cannot test"),
    ("scatter.rs", &["if_then", "while_carrying"], "windows that lie inside, by loaded starts, and runs of equal ones"),
    ("branches.rs", &["while_loop", "if_else", "index_switch"], "while and conditional of HLO"),
    ("kernel_function.rs", &["llvm.call"], "functions of memrefs are given the addresses of the runtime's tables"),
    (
        "memory.rs",
        &["addi", "llvm.inttoptr", "llvm.getelementptr", "llvm.load"],
        "addresses that the runtime gives or takes",
    ),
    (
        "library_calls/mod.rs",
        &["llvm.mlir.addressof", "llvm.mlir.global", "llvm.mlir.zero"],
        "descriptors of calls of the runtime are constants at addresses",
    ),
    ("gpu/block_sort.rs", &["addi", "subi", "muli", "divui", "minsi"], "places in sorted runs, whose length doubles"),
    (
        "gpu/sort.rs",
        &["addi", "muli", "divui", "minsi"],
        "places in sorted runs, whose length is known when a kernel is launched",
    ),
    ("gpu/sort_order.rs", &["while_carrying", "addi", "subi", "shrui"], "bisection"),
    (
        "gpu/radix_sort.rs",
        &["for_loop", "if_else", "if_then", "addi", "subi", "muli", "divui", "remui", "shli", "shrui"],
        "places that digits of elements, which are loaded, and counts of these lead to",
    ),
    ("runs.rs", &["llvm.intr.memset"], "rows of dynamic places are cleared by libc: linalg.fill is of whole arrays"),
    (
        "tiles/chunks.rs",
        &["llvm.ptrtoint", "llvm.inttoptr"],
        "copies into shared memory are LLVM's: they take an address, or none",
    ),
    (
        "tiles/pipeline.rs",
        &["muli", "llvm.nvvm.cp.async.commit.group", "llvm.nvvm.cp.async.wait.group"],
        "copies into shared memory are LLVM's: they take addresses, and are waited for in groups",
    ),
    ("tiles/rings.rs", &["addi"], "copies by TMA have addresses in shared memory as operands"),
    ("tiles/attention/slabs.rs", &["addi"], "copies into shared memory are LLVM's: they take addresses"),
    ("tiles/attention/matrices.rs", &["addi"], "matrix instructions are LLVM's: they take addresses in shared memory"),
    ("tiles/warp_groups.rs", &["addi", "shrui"], "descriptors of matrices have addresses in shared memory in them"),
    (
        "tiles/tensor_cores.rs",
        &["addi", "llvm.bitcast", "llvm.extractvalue"],
        "matrix instructions are LLVM's: they take addresses in shared memory and pairs of halves, and give structures",
    ),
    (
        "transposed.rs",
        &["addi", "llvm.load", "llvm.store"],
        "one function transposes squares of all shapes of arrays: it takes addresses and distances",
    ),
    ("team.rs", &["shli", "shrui"], "halves of a register of 64 bits, which lanes exchange one by one"),
    (
        "scalar, math",
        &["llvm.mlir.addressof", "llvm.mlir.global", "llvm.getelementptr", "llvm.load"],
        "digits of 2/pi, of which an operand of sin or cos chooses some",
    ),
    (
        "atomics.rs",
        &["muli", "llvm.atomicrmw"],
        "an instruction that MLIR orders with all others, which takes an address",
    ),
    (
        "gpu/control.rs",
        &["for_loop", "while_carrying", "if_else", "if_then", "index_switch", "addi"],
        "control flow by values, and a count of iterations; what a thread copies",
    ),
    ("matmul/emit.rs", &["addi", "muli"], "sums of products of integers"),
    (
        "matmul/matrices.rs",
        &["for_loop", "addi", "muli"],
        "a function of addresses and of distances, whose products with positions are of two values",
    ),
    ("matmul/tiled.rs", &["if_then"], "B is packed unless an earlier run did, which only the run knows"),
    ("matmul/runtime_tiles.rs", &["addi"], "the address of panels of an earlier run"),
    (
        "matmul/tiled.rs",
        &["subi"],
        "sums of products of integers, whose operands were moved into the range of unsigned ones",
    ),
    (
        "scalar, math",
        &["for_loop", "if_else", "llvm.nvvm.rcp.approx.ftz.f"],
        "values, not indices: powers by squaring, rarely needed slow paths, and an instruction of GPUs",
    ),
];

#[test]
fn lowering_stays_above_scf_and_llvm() {
    let operation = regex::Regex::new(
        r#""((?:llvm|scf)\.[a-z_.]+)"|\.(for_loop|if_else|if_then|while_loop|while_carrying|index_switch)\("#,
    );
    let arithmetic = regex::Regex::new(r"\.((?:add|sub|mul)i|(?:div|rem|shr)ui|shli|(?:max|min)si)\(");
    let (operation, arithmetic) = (operation.expect("a pattern"), arithmetic.expect("a pattern"));
    let folder = "lowering/affine/src/";
    let mut unused: Vec<(&str, &str)> =
        BELOW_AFFINE.iter().flat_map(|(file, names, _)| names.iter().map(|name| (*file, *name))).collect();
    let mut faults = Vec::new();
    for path in files(&["rs"]) {
        let full = name(&path);
        let Some(file) = full.strip_prefix(folder) else { continue };
        let is_of_values = file.starts_with("scalar/") || file.starts_with("math/");
        let file = if is_of_values { "scalar, math" } else { file };
        let text = read(&path);
        let in_arithmetic = arithmetic.captures_iter(&text).filter(|_| !is_of_values);
        for found in operation.captures_iter(&text).chain(in_arithmetic) {
            let found = found.iter().skip(1).flatten().next().map_or("", |found| found.as_str());
            unused.retain(|row| *row != (file, found));
            if !BELOW_AFFINE.iter().any(|(allowed, names, _)| *allowed == file && names.contains(&found)) {
                faults.push(format!("{full} makes `{found}`, which has no reason in BELOW_AFFINE"));
            }
        }
    }
    faults.extend(unused.iter().map(|(file, found)| format!("{file} makes no `{found}`: BELOW_AFFINE can lose it")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_pass_takes_the_graph() {
    for path in files(&["rs"]).into_iter().filter(|path| name(path).contains("passes/src/")) {
        let text = read(&path);
        let imports = text.lines().filter(|line| line.contains("graph::"));
        let mut words = imports.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        assert!(words.all(|word| word != "Module"), "{} names the graph's modules", name(&path));
    }
}
