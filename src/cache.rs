//! Compiled programs kept on disk, by what they were compiled from.
//!
//! The name of a file is the SHA-256 of everything that decides about the code: the program, the options, the machine, the
//! compiler's sources. A file appears whole, by renaming, so any number of processes may use a folder at once; two that
//! compile the same program write the same file. The files that were not used for longest go first when they become
//! too many bytes. Whatever goes wrong with the folder costs a compilation, never a program.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hlo::graph::{Computation, Module};
use hlo::literal::Literal;
use hlo::text::TextOptions;
use lowering_llvm::Target;
use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::pipeline::CompileOptions;
use crate::serialized::COMPILER;

/// After this time, a file that was never renamed was left by a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of compiled programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilationCache {
    directory: PathBuf,
    limit: u64,
}

impl CompilationCache {
    /// A cache in a folder, made if it is not there, of at most this many bytes.
    ///
    /// The files hold machine code: nobody who is not trusted may write to the folder. A new one is its owner's only.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(directory: impl Into<PathBuf>, limit: u64) -> io::Result<Self> {
        let directory = directory.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory)?;
        Ok(CompilationCache { directory, limit })
    }

    /// The folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}.halo", key.0))
    }

    /// What is kept for a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        // The time of the last change stands for the last use; that it is not set only makes the file older.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Keeps bytes for a key, if they are no more than the cache holds.
    pub(crate) fn put(&self, key: &Key, bytes: &[u8]) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if bytes.len() as u64 > self.limit {
            return;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.directory.join(format!("{}.{}.{number}.unfinished", key.0, process::id()));
        let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        // What cannot be listed cannot be cleaned up either.
        let _ = self.clean_up();
    }

    /// Drops what is kept for a key.
    pub(crate) fn remove(&self, key: &Key) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Removes files until the rest is no more than the limit, the ones not used for longest first.
    fn clean_up(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            // Another process may remove the file meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, used) = (entry.path(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("halo") => files.push((used, metadata.len(), path)),
                Some("unfinished") if now.duration_since(used).is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort();
        for (_, size, path) in files {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            total -= size;
        }
        Ok(())
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
            verify: _,
            compile_threads: _,
            profile,
            debug_info: _,
            pass_limit,
            assemble,
        } = options;
        let (parallel, platform, gpu) = (client.threads() > 1, client.platform(), &client.inner.gpu_processor);
        let flags = format!("{parallel} {platform:?} {gpu:?} {excess_precision} {profile} {pass_limit:?} {assemble}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("halo-cache-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_oldest_files_go_first() {
        let cache = CompilationCache::new(empty_folder("oldest"), 250).unwrap();
        let keys = ["a", "b", "c"].map(|name| Key(name.to_string()));
        for (age, key) in [(30, &keys[0]), (20, &keys[1])] {
            cache.put(key, &[0; 100]);
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        assert!(cache.get(&keys[0]).is_some(), "a use makes it the youngest");
        cache.put(&keys[2], &[0; 100]);
        assert!(cache.get(&keys[0]).is_some() && cache.get(&keys[2]).is_some());
        assert!(cache.get(&keys[1]).is_none());
        cache.put(&keys[1], &[0; 251]);
        assert!(cache.get(&keys[1]).is_none(), "larger than the cache");
        fs::remove_dir_all(cache.directory()).unwrap();
    }

    #[test]
    fn writers_of_the_same_key_do_not_meet() {
        let cache = CompilationCache::new(empty_folder("writers"), 1 << 20).unwrap();
        let key = Key("same".to_string());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        cache.put(&key, &[7; 1000]);
                        let kept = cache.get(&key).unwrap();
                        assert!(kept.len() == 1000 && kept.iter().all(|&byte| byte == 7));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(cache.directory()).unwrap().count(), 1);
        fs::remove_dir_all(cache.directory()).unwrap();
    }
}
