//! Closed sets of words that attributes take, each with its spelling in HLO text.

use std::fmt;
use std::str::FromStr;

/// The word is not one of an attribute's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {expected}, got {found}")]
pub struct UnknownWord {
    /// The words that the attribute takes.
    pub expected: String,
    /// The word found.
    pub found: String,
}

macro_rules! words {
    ($(#[$documentation:meta])* $name:ident { $($(#[$variant_documentation:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_documentation])* $variant),*
        }

        impl $name {
            /// Every value, in the order of the enum.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Spelling in HLO text.
            pub fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text),*
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok($name::$variant),)*
                    _ => Err(UnknownWord { expected: [$($text),*].join(", "), found: text.to_string() }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

words! {
    /// `direction` of compare.
    ComparisonDirection {
        /// Equal.
        Eq = "EQ",
        /// Not equal.
        Ne = "NE",
        /// Greater or equal.
        Ge = "GE",
        /// Greater.
        Gt = "GT",
        /// Less or equal.
        Le = "LE",
        /// Less.
        Lt = "LT",
    }
}

words! {
    /// `type` of compare.
    ComparisonType {
        /// IEEE order, where NaN is unordered.
        Float = "FLOAT",
        /// -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN.
        TotalOrder = "TOTALORDER",
        /// Signed integers.
        Signed = "SIGNED",
        /// Unsigned integers and `pred`.
        Unsigned = "UNSIGNED",
    }
}

words! {
    /// `fft_type` of fft.
    FftType {
        /// Complex to complex.
        Fft = "FFT",
        /// Inverse, complex to complex.
        Ifft = "IFFT",
        /// Real to complex.
        Rfft = "RFFT",
        /// Inverse, complex to real.
        Irfft = "IRFFT",
    }
}

words! {
    /// `distribution` of rng.
    RandomDistribution {
        /// Uniform over `[a, b)`.
        Uniform = "rng_uniform",
        /// Normal of mean a and standard deviation b.
        Normal = "rng_normal",
    }
}

words! {
    /// `algorithm` of rng-bit-generator.
    RngAlgorithm {
        /// The implementation chooses.
        Default = "rng_default",
        /// ThreeFry 2x32, 20 rounds.
        ThreeFry = "rng_three_fry",
        /// Philox 4x32, 10 rounds.
        Philox = "rng_philox",
    }
}

words! {
    /// `transpose_a` of triangular-solve.
    TransposeKind {
        /// As it is; also the meaning of the word XLA prints for an unset field.
        NoTranspose = "NO_TRANSPOSE",
        /// Transposed.
        Transpose = "TRANSPOSE",
        /// Conjugated and transposed.
        Adjoint = "ADJOINT",
    }
}

words! {
    /// `kind` of fusion.
    FusionKind {
        /// Fused into one loop.
        Loop = "kLoop",
        /// Producers fused into a consumer that reads them.
        Input = "kInput",
        /// Consumers fused into a producer.
        Output = "kOutput",
        /// Whatever a backend made of it.
        Custom = "kCustom",
    }
}
