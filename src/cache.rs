//! Compiled programs kept on disk, by what they were compiled from.
//!
//! The name of a file is the SHA-256 of everything that decides about the code: the program, the options, the machine, the
//! compiler's sources. Whatever goes wrong with the folder costs a compilation, never a program.

use std::io;
use std::path::{Path, PathBuf};

use exec::FileCache;
use hlo::graph::{Computation, Module};
use hlo::literal::Literal;
use hlo::text::TextOptions;
use lowering_llvm::Target;
use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::pipeline::CompileOptions;
use crate::serialized::COMPILER;

/// A folder of compiled programs, which any number of processes may use at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilationCache {
    files: FileCache,
}

impl CompilationCache {
    /// A cache in a folder, made if it is not there, of at most this many bytes.
    ///
    /// The files hold machine code: nobody who is not trusted may write to the folder. A new one is its owner's only.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(directory: impl Into<PathBuf>, limit: u64) -> io::Result<Self> {
        let files = FileCache::new(directory.into(), "halo", limit);
        files.make_directory()?;
        Ok(CompilationCache { files })
    }

    /// The folder.
    pub fn directory(&self) -> &Path {
        self.files.directory()
    }

    /// What is kept for a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        self.files.get(&key.0)
    }

    /// Keeps bytes for a key, if they are no more than the cache holds.
    pub(crate) fn put(&self, key: &Key, bytes: &[u8]) {
        self.files.put(&key.0, bytes);
    }

    /// Drops what is kept for a key.
    pub(crate) fn remove(&self, key: &Key) {
        self.files.remove(&key.0);
    }
}

/// What a compiled program is kept under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key of a compilation.
    pub(crate) fn new(module: &Module, options: &CompileOptions, target: &Target, client: &Client) -> Self {
        let mut hash = Sha256::new();
        let CompileOptions {
            excess_precision,
            allow_tf32,
            verify: _,
            compile_threads: _,
            profile,
            debug_info: _,
            pass_limit,
            assemble,
        } = options;
        let (parallel, platform, gpu) = (client.threads() > 1, client.platform(), &client.inner.gpu_processor);
        let flags = format!(
            "{parallel} {platform:?} {gpu:?} {excess_precision} {allow_tf32} {profile} {pass_limit:?} {assemble}"
        );
        for part in [COMPILER, target.triple(), target.cpu_name(), target.features(), &flags] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        // Large constants are hashed as they are: writing them as text takes longer than compiling.
        let print = TextOptions { percent: false, metadata: false, large_literals: false, ..TextOptions::LONG };
        hash.update(hlo::text::print_with(module, print));
        module.functions.iter().for_each(|function| hash_literals(&mut hash, function));
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn hash_literals(hash: &mut Sha256, computation: &Computation) {
    for instruction in &computation.instructions {
        for leaf in instruction.literal().map(Literal::leaves).unwrap_or_default() {
            if let Literal::Array(array) = leaf {
                hash.update((array.bytes().len() as u64).to_le_bytes());
                hash.update(array.bytes());
            }
        }
        instruction.computations.iter().for_each(|nested| hash_literals(hash, nested));
    }
}
