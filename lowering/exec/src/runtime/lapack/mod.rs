//! The LAPACK custom calls that JAX emits on CPUs (`lapack_spotrf_ffi` and its kin), through the faer crate.
//!
//! The prefix letter is the element type: `s` f32, `d` f64, `c` c64, `z` c128. Attributes are in the call's configuration, as in
//! `{uplo = 76 : ui8}`, letters as their character codes. Matrices are the last two dimensions of any layout, batches the
//! others. Results are LAPACK's up to what it leaves free (signs of vectors).

mod condensed;
mod matrices;
mod orthogonal;
mod spectral;
mod triangular;

use super::{RunContext, custom_call::CustomCall};
use linear_algebra::Element;

type Handler = fn(&CustomCall, &RunContext) -> Result<(), String>;

/// Every handler with its name.
pub(super) fn handlers() -> impl Iterator<Item = (String, Handler)> {
    fn of_type<T: Element>(letter: char) -> Vec<(String, Handler)> {
        let complex = matches!(letter, 'c' | 'z');
        let handlers: [(&str, Handler); 10] = [
            ("potrf", triangular::potrf::<T>),
            ("trsm", triangular::trsm::<T>),
            ("getrf", triangular::getrf::<T>),
            ("geqrf", orthogonal::geqrf::<T>),
            (if complex { "ungqr" } else { "orgqr" }, orthogonal::orgqr::<T>),
            (if complex { "heevd" } else { "syevd" }, spectral::syevd::<T>),
            ("gesdd", spectral::gesdd::<T>),
            ("gehrd", condensed::gehrd::<T>),
            (if complex { "hetrd" } else { "sytrd" }, condensed::sytrd::<T>),
            ("gtsv", condensed::gtsv::<T>),
        ];
        handlers.into_iter().map(|(name, handler)| (format!("lapack_{letter}{name}_ffi"), handler)).collect()
    }
    [of_type::<f32>('s'), of_type::<f64>('d'), of_type::<faer::c32>('c'), of_type::<faer::c64>('z')]
        .into_iter()
        .flatten()
}

/// The character that the configuration gives for `name`.
fn letter(call: &CustomCall, name: &str) -> Result<char, String> {
    attribute(call.configuration, name)
        .and_then(|value| u8::try_from(value).ok())
        .map(char::from)
        .ok_or_else(|| format!("no attribute {name} in `{}`", call.configuration))
}

/// The integer of `name = 76 : ui8` in a configuration.
fn attribute(configuration: &str, name: &str) -> Option<i64> {
    configuration.trim_matches(['{', '}']).split(',').find_map(|entry| {
        let (key, value) = entry.split_once('=')?;
        let value = value.split(':').next()?.trim();
        (key.trim() == name).then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests;
