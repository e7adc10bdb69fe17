//! The machine that this process runs on, and whether code that was made for another runs here.

use std::sync::OnceLock;

/// LLVM's names of the features that code may use and that can be asked for, each with the answer.
#[cfg(target_arch = "x86_64")]
fn known_features() -> impl Iterator<Item = (&'static str, bool)> {
    macro_rules! features {
        ($($llvm:literal = $rust:tt),* $(,)?) => { [$(($llvm, std::arch::is_x86_feature_detected!($rust))),*] };
    }
    features![
        "adx" = "adx",
        "aes" = "aes",
        "avx" = "avx",
        "avx2" = "avx2",
        "avx512bf16" = "avx512bf16",
        "avx512bitalg" = "avx512bitalg",
        "avx512bw" = "avx512bw",
        "avx512cd" = "avx512cd",
        "avx512dq" = "avx512dq",
        "avx512f" = "avx512f",
        "avx512fp16" = "avx512fp16",
        "avx512ifma" = "avx512ifma",
        "avx512vbmi" = "avx512vbmi",
        "avx512vbmi2" = "avx512vbmi2",
        "avx512vl" = "avx512vl",
        "avx512vnni" = "avx512vnni",
        "avx512vp2intersect" = "avx512vp2intersect",
        "avx512vpopcntdq" = "avx512vpopcntdq",
        "avxifma" = "avxifma",
        "avxneconvert" = "avxneconvert",
        "avxvnni" = "avxvnni",
        "avxvnniint16" = "avxvnniint16",
        "avxvnniint8" = "avxvnniint8",
        "bmi" = "bmi1",
        "bmi2" = "bmi2",
        "cx16" = "cmpxchg16b",
        "f16c" = "f16c",
        "fma" = "fma",
        "gfni" = "gfni",
        "lzcnt" = "lzcnt",
        "movbe" = "movbe",
        "pclmul" = "pclmulqdq",
        "popcnt" = "popcnt",
        "sha" = "sha",
        "sha512" = "sha512",
        "sm3" = "sm3",
        "sm4" = "sm4",
        "sse" = "sse",
        "sse2" = "sse2",
        "sse3" = "sse3",
        "sse4.1" = "sse4.1",
        "sse4.2" = "sse4.2",
        "sse4a" = "sse4a",
        "ssse3" = "ssse3",
        "tbm" = "tbm",
        "vaes" = "vaes",
        "vpclmulqdq" = "vpclmulqdq",
    ]
    .into_iter()
    .chain(matrix_features())
}

/// The features of the matrix unit, which the standard library does not know.
#[cfg(target_arch = "x86_64")]
fn matrix_features() -> impl Iterator<Item = (&'static str, bool)> {
    let flags = match std::arch::x86_64::__cpuid(0).eax {
        7.. => std::arch::x86_64::__cpuid_count(7, 0).edx,
        _ => 0,
    };
    let has = move |bit: u32| flags & (1 << bit) != 0 && permits_matrix_unit();
    [("amx-bf16", 22), ("amx-tile", 24), ("amx-int8", 25)].into_iter().map(move |(name, bit)| (name, has(bit)))
}

/// Whether this process may use the registers of the processor's matrix unit (AMX). Linux wants to be asked first: they make
/// what it saves of a thread larger. The answer holds for all threads of the process.
pub fn permits_matrix_unit() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    *PERMITTED.get_or_init(ask_for_matrix_unit)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask_for_matrix_unit() -> bool {
    /// `ARCH_REQ_XCOMP_PERM` of Linux, and the number of the state that holds the contents of tiles.
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: a request of two numbers, which touches no memory of this process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask_for_matrix_unit() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn known_features() -> impl Iterator<Item = (&'static str, bool)> {
    std::iter::empty()
}

/// Why code that was made for a machine of this triple, with these features in LLVM's form `+avx2,-sse4a`, cannot run here;
/// `None` if it can. Features that concern systems and not arithmetic are not looked at: compiled programs use none.
pub fn obstacle(triple: &str, features: &str) -> Option<String> {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    if triple.split('-').next() != Some(architecture) || !triple.contains(system) {
        return Some(format!("it was made for {triple}, this machine is {architecture}-{system}"));
    }
    let missing: Vec<&str> = known_features()
        .filter(|(name, is_here)| {
            !is_here && features.split(',').any(|feature| feature.strip_prefix('+') == Some(name))
        })
        .map(|(name, _)| name)
        .collect();
    (!missing.is_empty()).then(|| format!("it needs features that this CPU lacks: {}", missing.join(", ")))
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn code_runs_where_its_features_are() {
        assert_eq!(obstacle("x86_64-pc-linux-gnu", "+sse2,+cx8,-avx512f"), None);
        let elsewhere = obstacle("aarch64-unknown-linux-gnu", "").unwrap();
        assert!(elsewhere.contains("made for aarch64-unknown-linux-gnu, this machine is x86_64-linux"), "{elsewhere}");
        let all: Vec<&str> = known_features().map(|(name, _)| name).collect();
        let absent: Vec<&str> = known_features().filter(|(_, is_here)| !is_here).map(|(name, _)| name).collect();
        let needed = all.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(",");
        let expected =
            (!absent.is_empty()).then(|| format!("it needs features that this CPU lacks: {}", absent.join(", ")));
        assert_eq!(obstacle("x86_64-unknown-linux-gnu", &needed), expected);
    }
}
