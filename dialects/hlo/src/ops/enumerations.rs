//! Closed sets of words that attributes take, each with its spelling in HLO text.

use std::fmt;
use std::str::FromStr;

use super::typed_attributes::{AttributeType, wrong_form};
use crate::attributes::{AttributeForm, AttributeValue};

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

        impl<'a> AttributeType<'a> for $name {
            const FORM: AttributeForm = AttributeForm::Word;

            fn from_value(value: &'a AttributeValue) -> Result<Self, String> {
                match value {
                    AttributeValue::Word(word) => word.parse().map_err(|error: UnknownWord| error.to_string()),
                    _ => Err(wrong_form(Self::FORM, value)),
                }
            }

            fn to_value(self) -> Option<AttributeValue> {
                Some(AttributeValue::Word(self.text().to_string()))
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
        /// As it is.
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

words! {
    /// An entry of `operand_precision`.
    Precision {
        /// The backend's fastest.
        Default = "default",
        /// A middle way, e.g. bf16_3x.
        High = "high",
        /// The operands' own precision.
        Highest = "highest",
    }
}

words! {
    /// `algorithm` of dot: types of the operands and of the accumulator.
    DotAlgorithm {
        /// As `operand_precision` says.
        Unset = "dot_unset",
        /// Any f8 operands, f32 accumulator.
        AnyF8AnyF8F32 = "dot_any_f8_any_f8_f32",
        /// Any f8 operands, f32 accumulator of fewer bits.
        AnyF8AnyF8F32FastAccum = "dot_any_f8_any_f8_f32_fast_accum",
        /// Any f8 operands, any accumulator.
        AnyF8AnyF8Any = "dot_any_f8_any_f8_any",
        /// Any f8 operands, any accumulator of fewer bits.
        AnyF8AnyF8AnyFastAccum = "dot_any_f8_any_f8_any_fast_accum",
        /// f16 throughout.
        F16F16F16 = "dot_f16_f16_f16",
        /// f16 operands, f32 accumulator.
        F16F16F32 = "dot_f16_f16_f32",
        /// bf16 throughout.
        Bf16Bf16Bf16 = "dot_bf16_bf16_bf16",
        /// bf16 operands, f32 accumulator.
        Bf16Bf16F32 = "dot_bf16_bf16_f32",
        /// Three bf16 products for each f32 product.
        Bf16Bf16F32X3 = "dot_bf16_bf16_f32_x3",
        /// Six bf16 products for each f32 product.
        Bf16Bf16F32X6 = "dot_bf16_bf16_f32_x6",
        /// Nine bf16 products for each f32 product.
        Bf16Bf16F32X9 = "dot_bf16_bf16_f32_x9",
        /// tf32 operands, f32 accumulator.
        Tf32Tf32F32 = "dot_tf32_tf32_f32",
        /// Three tf32 products for each f32 product.
        Tf32Tf32F32X3 = "dot_tf32_tf32_f32_x3",
        /// f32 throughout.
        F32F32F32 = "dot_f32_f32_f32",
        /// f64 throughout.
        F64F64F64 = "dot_f64_f64_f64",
    }
}

words! {
    /// `api_version` of custom-call: the convention the target is called by.
    CustomCallApiVersion {
        /// As the original.
        Unspecified = "API_VERSION_UNSPECIFIED",
        /// `void target(void* out, void** in)`.
        Original = "API_VERSION_ORIGINAL",
        /// With a status.
        StatusReturning = "API_VERSION_STATUS_RETURNING",
        /// With a status, on all platforms alike.
        StatusReturningUnified = "API_VERSION_STATUS_RETURNING_UNIFIED",
        /// XLA's typed foreign function interface.
        TypedFfi = "API_VERSION_TYPED_FFI",
    }
}

words! {
    /// `schedule` of custom-call.
    CustomCallSchedule {
        /// Anywhere.
        None = "SCHEDULE_NONE",
        /// As late as possible.
        Latest = "SCHEDULE_LATEST",
        /// As early as possible.
        Earliest = "SCHEDULE_EARLIEST",
    }
}

words! {
    /// `mode` of a collective: what the numbers of its replica groups are.
    CollectiveMode {
        /// Replicas, each partition for itself.
        CrossReplica = "cross_replica",
        /// Partitions, each replica for itself.
        CrossPartition = "cross_partition",
        /// Replicas, all partitions together.
        CrossReplicaAndPartition = "cross_replica_and_partition",
        /// Numbers of devices.
        FlattenedId = "flattened_id",
    }
}

words! {
    /// Who goes through the positions of a dimension of the work of a kernel, in `#hlo.mapping`.
    WorkKind {
        /// One thread, one position after another.
        Sequential = "sequential",
        /// Threads, in any order.
        Parallel = "parallel",
        /// One thread; each position takes over what the one before it has accumulated.
        Scan = "scan",
        /// One thread, whose vectors go through its few positions, and on to the next ones of the dimension around it.
        Crossed = "crossed",
        /// Threads of a GPU, one a position.
        Threads = "threads",
        /// Threads of a GPU that compute an element together, or of a block inside of tiles.
        Team = "team",
        /// Blocks of a GPU's threads, each so many positions of the dimension that all of its threads compute together.
        Tile = "tile",
    }
}
