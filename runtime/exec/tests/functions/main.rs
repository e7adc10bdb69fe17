//! The functions that compiled code calls, by their C interfaces.
//!
//! They are no tests of the library itself: they reach nearly all of its code, which would be generated a second time.

mod custom_call;
#[cfg(feature = "fourier")]
mod fft;
#[cfg(feature = "linear-algebra")]
mod lapack;
#[cfg(feature = "linear-algebra")]
mod linear_algebra;
mod sort;
mod top_k;

use exec::runtime::{symbols, why_missing};

#[test]
fn what_is_missing_names_its_feature() {
    const NO_FEATURE: &str = "nothing defines it";
    assert_eq!(why_missing("halo_fft"), "it comes with halo's feature `fourier`, which this build is without");
    assert_eq!(why_missing("other"), NO_FEATURE);
    assert_eq!(why_missing("lapack_dpotrf_ffi") == NO_FEATURE, cfg!(feature = "linear-algebra"));
    for (name, is_built) in [
        ("halo_fft", cfg!(feature = "fourier")),
        ("halo_cholesky", cfg!(feature = "linear-algebra")),
        ("halo_triangular_solve", cfg!(feature = "linear-algebra")),
    ] {
        assert_eq!(symbols().iter().any(|(own, _)| *own == name), is_built, "{name}");
    }
}
