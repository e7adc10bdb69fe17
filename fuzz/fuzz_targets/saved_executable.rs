//! Saved executables: those with a right checksum, and what follows the header of a real one.
#![no_main]

use std::sync::LazyLock;

use halo::{Client, CompileOptions};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

static CLIENT: LazyLock<Client> = LazyLock::new(|| Client::with_threads(1).expect("a device"));

/// A saved program without its checksum.
static SAVED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let text = "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }";
    let saved = CLIENT.compile(text, &CompileOptions::default()).expect("a program").serialize();
    saved[..saved.len() - 32].to_vec()
});

fuzz_target!(|bytes: &[u8]| {
    // The first two bytes say how much of the real file comes before the rest.
    let [low, high, rest @ ..] = bytes else { return };
    let start = usize::from(u16::from_le_bytes([*low, *high])) % (SAVED.len() + 1);
    let mut file = [&SAVED[..start], rest].concat();
    let checksum = Sha256::digest(&file);
    file.extend(checksum);
    // SAFETY: what is loaded is never run.
    let _ = unsafe { CLIENT.deserialize(&file) };
});
