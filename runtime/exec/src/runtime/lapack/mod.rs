//! The LAPACK custom calls that JAX emits on CPUs (`lapack_spotrf_ffi` and its kin), in part through the faer crate, and XLA's
//! own factorisations (`Qr`, `Eigh`), which are the same routines without a letter.
//!
//! The prefix letter is the element type: `s` f32, `d` f64, `c` c64, `z` c128. Attributes are in the call's configuration, as in
//! `{uplo = 76 : ui8}`, letters as their character codes. Matrices are the last two dimensions of any layout, batches the
//! others. Results are LAPACK's up to what it leaves free (signs of vectors).

mod condensed;
mod matrices;
mod orthogonal;
mod pivoted;
mod schur;
mod spectral;
mod triangular;
mod tridiagonal;

use super::{RunContext, custom_call::CustomCall, primitive_type};
use faer::{c32, c64};
use schur::Widened;

type Handler = fn(&CustomCall, &RunContext) -> Result<(), String>;

/// A routine for the element type of the call's first operand.
macro_rules! by_element_type {
    ($($routine:ident)::+) => {
        |call, context| match call.operands.first().map(|operand| operand.element_type) {
            Some(primitive_type::F32) => $($routine)::+::<f32>(call, context),
            Some(primitive_type::F64) => $($routine)::+::<f64>(call, context),
            Some(primitive_type::C64) => $($routine)::+::<c32>(call, context),
            Some(primitive_type::C128) => $($routine)::+::<c64>(call, context),
            other => Err(format!("no matrices of type {other:?}")),
        }
    };
}

/// Every handler with its name.
pub(super) fn handlers() -> impl Iterator<Item = (String, Handler)> {
    fn of_type<T: Widened>(letter: char) -> Vec<(String, Handler)> {
        let by_kind = |real: &'static str, complex: &'static str| if T::IS_REAL { real } else { complex };
        let handlers: [(&str, Handler); 15] = [
            ("potrf", triangular::potrf::<T>),
            ("trsm", triangular::trsm::<T>),
            ("getrf", triangular::getrf::<T>),
            ("geqrf", orthogonal::geqrf::<T>),
            ("geqp3", pivoted::geqp3::<T>),
            (by_kind("orgqr", "ungqr"), orthogonal::orgqr::<T>),
            (by_kind("ormqr", "unmqr"), orthogonal::ormqr::<T>),
            (by_kind("syevd", "heevd"), spectral::syevd::<T>),
            // The same decomposition by two algorithms of LAPACK's.
            ("gesdd", spectral::gesdd::<T>),
            ("gesvd", spectral::gesdd::<T>),
            ("geev", schur::geev::<T>),
            ("gees", schur::gees::<T>),
            ("gehrd", condensed::gehrd::<T>),
            (by_kind("sytrd", "hetrd"), condensed::sytrd::<T>),
            ("gtsv", tridiagonal::gtsv::<T>),
        ];
        handlers.into_iter().map(|(name, handler)| (format!("lapack_{letter}{name}_ffi"), handler)).collect()
    }
    let of_any_type: [(&str, Handler); 4] = [
        ("Qr", by_element_type!(orthogonal::geqrf)),
        ("ProductOfElementaryHouseholderReflectors", by_element_type!(orthogonal::orgqr)),
        ("Eigh", by_element_type!(spectral::eigh)),
        ("tridiagonal_solve_perturbed_ffi", by_element_type!(tridiagonal::solve_perturbed)),
    ];
    [of_type::<f32>('s'), of_type::<f64>('d'), of_type::<c32>('c'), of_type::<c64>('z')]
        .into_iter()
        .flatten()
        .chain(of_any_type.map(|(name, handler)| (name.to_string(), handler)))
}

/// Whether the program reads one of some results.
fn is_read<const COUNT: usize>(call: &CustomCall, results: [usize; COUNT]) -> bool {
    results.into_iter().any(|number| call.results.get(number).is_some_and(|result| result.is_read))
}

/// The character that the configuration gives for `name`.
fn letter(call: &CustomCall, name: &str) -> Result<char, String> {
    letters(call, [name]).map(|[letter]| letter)
}

/// The characters that the configuration gives for some names, as their codes.
fn letters<const COUNT: usize>(call: &CustomCall, names: [&str; COUNT]) -> Result<[char; COUNT], String> {
    let mut letters = ['\0'; COUNT];
    for ((letter, text), name) in letters.iter_mut().zip(values(call.configuration, names)).zip(names) {
        let code = text.and_then(|text| text.parse::<u8>().ok());
        *letter = code.map(char::from).ok_or_else(|| no_attribute(call, name))?;
    }
    Ok(letters)
}

/// The truth value that the configuration gives for `name`, as in `left = true`.
fn flag(call: &CustomCall, name: &str) -> Result<bool, String> {
    let [text] = values(call.configuration, [name]);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| no_attribute(call, name))
}

fn no_attribute(call: &CustomCall, name: &str) -> String {
    format!("no attribute {name} in `{}`", call.configuration)
}

/// Whether a byte may be part of a name or of a number.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.')
}

/// What a configuration has for some names, without types: 76 in `{name = 76 : ui8}`. It is gone through once, byte by byte: to search
/// it for each name took longer than to solve a small system.
fn values<'a, const COUNT: usize>(configuration: &'a str, names: [&str; COUNT]) -> [Option<&'a str>; COUNT] {
    let bytes = configuration.as_bytes();
    let end_of = |start: usize, belongs: fn(u8) -> bool| {
        start + bytes[start..].iter().take_while(|&&byte| belongs(byte)).count()
    };
    let word_from = |start: usize| {
        let start = end_of(start, |byte| byte != b',' && !is_of_word(byte));
        start..end_of(start, is_of_word)
    };
    let mut found = [None; COUNT];
    let mut place = 0;
    while place < bytes.len() {
        let key = word_from(place);
        let value = word_from(key.end);
        if let Some(number) = names.iter().position(|name| name.as_bytes() == &bytes[key.clone()]) {
            found[number] = configuration.get(value.clone());
        }
        place = end_of(value.end, |byte| byte != b',') + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found() {
        assert_eq!(values("{mode = 86 : ui8, uplo = 76 : ui8}", ["uplo", "mode"]), [Some("76"), Some("86")]);
        assert_eq!(values("{low=-1:i32,size =3}", ["low", "size", "high"]), [Some("-1"), Some("3"), None]);
        assert_eq!(values("{left = true}", ["left", "lef", "true"]), [Some("true"), None, None]);
        assert_eq!(values("{}", ["uplo"]), [None]);
        assert_eq!(values("{uplo = , , =", ["uplo", ""]), [Some(""), Some("")]);
    }

    #[test]
    fn flags_are_found() {
        let call = |configuration| CustomCall {
            target: "",
            configuration,
            operands: Vec::new(),
            results: Vec::new(),
            is_tuple: false,
        };
        assert_eq!(flag(&call("{left = true, transpose = false}"), "left"), Ok(true));
        assert_eq!(flag(&call("{left = true, transpose = false}"), "transpose"), Ok(false));
        assert!(flag(&call("{left = 1 : i32}"), "left").is_err());
        assert!(flag(&call("{}"), "left").is_err());
    }
}
