//! Gives the compiler a name made from its sources, by which saved executables know whether they fit.

use std::fs;
use std::path::{Path, PathBuf};

/// What compiled code depends on.
const SOURCES: [&str; 7] = ["dialects", "evaluator", "passes", "lowering", "runtime", "src", "Cargo.toml"];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    // In a package there are this crate's sources only; the version stands for the rest.
    for source in SOURCES.into_iter().filter(|source| root.join(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
        hash_tree(&root, Path::new(source), &mut hash);
    }
    println!("cargo::rustc-env=HALO_SOURCES={}-{:016x}", env!("CARGO_PKG_VERSION"), hash.0);
}

/// The 64-bit FNV-1a hash.
struct Fnv(u64);

impl Fnv {
    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Hashes names and contents, in the order of the names.
fn hash_tree(root: &Path, path: &Path, hash: &mut Fnv) {
    let whole = root.join(path);
    hash.update(path.to_string_lossy().as_bytes());
    if let Ok(entries) = fs::read_dir(&whole) {
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.iter().for_each(|name| hash_tree(root, &path.join(name), hash));
    } else if let Ok(contents) = fs::read(&whole) {
        hash.update(&contents);
    }
}
