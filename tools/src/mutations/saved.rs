//! Mutated saved executables and cache entries: refused, or loaded, never a crash.

use std::fs;
use std::panic::{self, AssertUnwindSafe};

use fastrand::Rng;
use halo::{Client, ClientOptions, CompilationCache, CompileOptions, Literal};
use sha2::{Digest, Sha256};

use super::files::mutated_bytes;

const PROGRAM: &str = "HloModule saved
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  e = f32[4] exponential(p)
  m = f32[4] multiply(e, c)
  ROOT t = (f32[4], f32[4]) tuple(m, p)
}";

const CHECKSUM_BYTES: usize = 32;

/// A saved program and a cache to mutate.
pub struct SavedMutants {
    client: Client,
    bytes: Vec<u8>,
    cache: CompilationCache,
    result: Literal,
}

impl SavedMutants {
    /// Saves a program; the cache is in a folder of its own.
    ///
    /// # Errors
    /// When the program cannot be compiled or run, or the folder cannot be made.
    pub fn new() -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("halo-mutants-{}-{number}", std::process::id()));
        let cache = CompilationCache::new(folder, 1 << 20).map_err(|error| text(&error))?;
        let options = ClientOptions { threads: 1, cache: Some(cache.clone()), ..ClientOptions::default() };
        let client = Client::with_options(options).map_err(|error| text(&error))?;
        let executable = client.compile(PROGRAM, &CompileOptions::default()).map_err(|error| text(&error))?;
        let result = executable.execute(([0f32, 1.0, 2.0, 3.0].as_slice(),)).map_err(|error| text(&error))?;
        Ok(SavedMutants { client, bytes: executable.serialize(), cache, result })
    }

    /// Loads the mutant of a seed: as it is, which the checksum refuses, and with a checksum of its own.
    ///
    /// # Errors
    /// For a panic, and for a damaged file that is loaded.
    pub fn check(&self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::with_seed(seed);
        let content = &self.bytes[..self.bytes.len() - CHECKSUM_BYTES];
        let damaged = mutated_bytes(&self.bytes, &mut rng);
        let mut signed = mutated_bytes(content, &mut rng);
        let checksum = Sha256::digest(&signed);
        signed.extend(checksum);
        // SAFETY: what is loaded is never run.
        let load = |bytes: &[u8]| unsafe { self.client.deserialize(bytes).map(drop) };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            let _ = load(&signed);
            load(&damaged).is_ok() && damaged != self.bytes
        }));
        match outcome {
            Ok(false) => Ok(()),
            Ok(true) => Err(format!("saved mutant {seed}: a damaged file is loaded")),
            Err(payload) => Err(format!("saved mutant {seed}: panic: {}", super::text_of_panic(&*payload))),
        }
    }

    /// Damages the cache's entry: the program is compiled again, and runs as before.
    ///
    /// # Errors
    /// If not.
    pub fn check_cache(&self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::with_seed(seed);
        let damaged = mutated_bytes(&self.bytes, &mut rng);
        for entry in fs::read_dir(self.cache.directory()).map_err(|error| error.to_string())?.flatten() {
            fs::write(entry.path(), &damaged).map_err(|error| error.to_string())?;
        }
        let run = || {
            let executable = self.client.compile(PROGRAM, &CompileOptions::default())?;
            let result = executable.execute(([0f32, 1.0, 2.0, 3.0].as_slice(),))?;
            Ok((executable.is_from_cache(), result))
        };
        match run().map_err(|error: halo::Error| error.to_string())? {
            (is_kept, result) if result == self.result && is_kept == (damaged == self.bytes) => Ok(()),
            (is_kept, result) => Err(format!("cache mutant {seed}: from the cache: {is_kept}, gives {result}")),
        }
    }
}

impl Drop for SavedMutants {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.cache.directory());
    }
}
