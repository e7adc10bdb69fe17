//! What compiled code calls: functions with a C ABI, by symbol.
//!
//! Every function that can fail or run in parallel gets the [`RunContext`] that the program was started with, and reports
//! failures there, since neither a panic nor an error code may pass through compiled code: the first failure is kept, the
//! program runs on with unspecified values, and whoever started it asks [`RunContext::failure`] at the end.
//!
//! Descriptors are `#[repr(C)]` structures of 64-bit integers only, so that compiled code can hold them as constant arrays.

pub mod collectives;
mod context;
pub mod custom_call;
pub mod devices;
pub mod feeds;
#[cfg(feature = "fourier")]
pub mod fft;
#[cfg(feature = "linear-algebra")]
mod lapack;
#[cfg(feature = "linear-algebra")]
pub mod linear_algebra;
mod moving;
pub mod parallel;
pub mod primitive_type;
pub mod profile;
pub mod random;
pub mod sort;
pub mod tiles;
pub mod top_k;
pub mod vector_math;
mod widest_vectors;

pub use context::{ProgramState, RunContext};

use crate::jit::Symbol;
use std::sync::OnceLock;

/// Addresses are plain numbers to Rust; the functions behind them live as long as the process.
struct Table(Vec<Symbol<'static>>);

// SAFETY: the table is never changed, and its addresses may be called from any thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Functions that are there with a feature only.
const OPTIONAL: &[(&str, &str)] =
    &[("halo_cholesky", "linear-algebra"), ("halo_fft", "fourier"), ("halo_triangular_solve", "linear-algebra")];

/// Why the runtime lacks a function of this name.
pub fn why_missing(name: &str) -> String {
    missing_feature(name).unwrap_or_else(|| "nothing defines it".to_string())
}

/// As [`why_missing`], where it is for want of a feature.
fn missing_feature(name: &str) -> Option<String> {
    // Of LAPACK's functions, which a program calls by their names, no build has all.
    let is_lapack = !cfg!(feature = "linear-algebra") && name.starts_with("lapack_");
    let optional = OPTIONAL.iter().find(|(function, _)| *function == name).map(|(_, feature)| *feature);
    let feature = optional.or(is_lapack.then_some("linear-algebra"))?;
    Some(format!("it comes with halo's feature `{feature}`, which this build is without"))
}

/// Every symbol of the runtime with its address.
pub fn symbols() -> &'static [Symbol<'static>] {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut symbols: Vec<Symbol> = vec![
            ("halo_parallel_for", parallel::halo_parallel_for as *const ()),
            ("halo_copy", parallel::halo_copy as *const ()),
            ("halo_custom_call", custom_call::halo_custom_call as *const ()),
            ("halo_device_number", collectives::halo_device_number as *const ()),
            ("halo_exchange", collectives::halo_exchange as *const ()),
            ("halo_goes_on", collectives::halo_goes_on as *const ()),
            ("halo_infeed", feeds::halo_infeed as *const ()),
            ("halo_outfeed", feeds::halo_outfeed as *const ()),
            ("halo_ragged_all_to_all", collectives::halo_ragged_all_to_all as *const ()),
            ("halo_receive", feeds::halo_receive as *const ()),
            ("halo_receive_from_device", collectives::halo_receive_from_device as *const ()),
            ("halo_rng", random::halo_rng as *const ()),
            ("halo_rng_bit_generator", random::halo_rng_bit_generator as *const ()),
            ("halo_rng_get_and_update_state", random::halo_rng_get_and_update_state as *const ()),
            ("halo_send", feeds::halo_send as *const ()),
            ("halo_send_to_device", collectives::halo_send_to_device as *const ()),
            ("halo_sort", sort::halo_sort as *const ()),
            ("halo_step_begins", profile::halo_step_begins as *const ()),
            ("halo_step_ends", profile::halo_step_ends as *const ()),
            ("halo_top_k", top_k::halo_top_k as *const ()),
        ];
        #[cfg(feature = "fourier")]
        symbols.push(("halo_fft", fft::halo_fft as *const ()));
        #[cfg(feature = "linear-algebra")]
        symbols.extend([
            ("halo_cholesky", linear_algebra::halo_cholesky as *const ()),
            ("halo_triangular_solve", linear_algebra::halo_triangular_solve as *const ()),
        ]);
        symbols.extend(moving::symbols());
        symbols.extend(tiles::symbols());
        symbols.extend(vector_math::symbols());
        Table(symbols)
    });
    &table.0
}
