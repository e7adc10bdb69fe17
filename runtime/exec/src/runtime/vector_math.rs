//! libmvec, the vector library of glibc on x86-64: the `f64` functions that compiled code calls by name.

use crate::jit::Symbol;
use std::{ffi::CString, sync::OnceLock};

const UNARY: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "expm1", "log", "log1p",
    "sin", "sinh", "tan", "tanh",
];
const BINARY: &[&str] = &["atan2", "hypot", "pow"];

/// Instruction set letter, lanes and bits of each width.
const WIDTHS: &[(char, u32, u32)] = &[('b', 2, 128), ('d', 4, 256), ('e', 8, 512)];

struct Library {
    symbols: Vec<(String, usize)>,
    widest: u32,
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| load().unwrap_or(Library { symbols: Vec::new(), widest: 0 }))
}

/// Loads the library if it has every function (glibc 2.35 and later).
fn load() -> Option<Library> {
    // SAFETY: loading glibc's library runs no code but its own; it stays loaded.
    let handle = unsafe { libc::dlopen(c"libmvec.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return None;
    }
    let mut symbols = Vec::new();
    for (letter, lanes, _) in WIDTHS {
        for (names, arguments) in [(UNARY, "v"), (BINARY, "vv")] {
            for name in names {
                let symbol = format!("_ZGV{letter}N{lanes}{arguments}_{name}");
                let c_name = CString::new(symbol.as_str()).ok()?;
                // SAFETY: a live handle and a zero-terminated name.
                let address = unsafe { libc::dlsym(handle, c_name.as_ptr()) };
                if address.is_null() {
                    return None;
                }
                symbols.push((symbol, address as usize));
            }
        }
    }
    Some(Library { symbols, widest: widest_of_cpu() })
}

#[cfg(target_arch = "x86_64")]
fn widest_of_cpu() -> u32 {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        512
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        256
    } else if is_x86_feature_detected!("sse4.1") {
        128
    } else {
        0
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn widest_of_cpu() -> u32 {
    0
}

/// Bits of the widest vectors that the library and this CPU handle; 0 without the library.
pub fn widest_vector_bits() -> u32 {
    library().widest
}

/// The library's functions.
pub(super) fn symbols() -> impl Iterator<Item = Symbol<'static>> {
    library().symbols.iter().map(|(name, address)| (name.as_str(), *address as *const ()))
}
