//! Every operation of the dialect, once: the enum, its HLO text opcode and its name in MLIR.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

macro_rules! op_kinds {
    ($($variant:ident = $text:literal),* $(,)?) => {
        /// The operations of HLO. Matches on it are exhaustive, so a new operation does not compile until it is whole.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum OpKind {
            $($variant),*
        }

        impl OpKind {
            /// Every operation, in the order of the enum.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$variant),*];

            /// Opcode in HLO text, e.g. `dynamic-slice`.
            pub fn text_name(self) -> &'static str {
                match self {
                    $(OpKind::$variant => $text),*
                }
            }
        }

        impl FromStr for OpKind {
            type Err = UnknownOp;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(OpKind::$variant),)*
                    _ => Err(UnknownOp(text.to_string())),
                }
            }
        }
    };
}

op_kinds! {
    Abs = "abs",
    Acos = "acos",
    Acosh = "acosh",
    Add = "add",
    AddDependency = "add-dependency",
    AfterAll = "after-all",
    AllGather = "all-gather",
    AllGatherDone = "all-gather-done",
    AllGatherStart = "all-gather-start",
    AllReduce = "all-reduce",
    AllReduceDone = "all-reduce-done",
    AllReduceStart = "all-reduce-start",
    AllToAll = "all-to-all",
    And = "and",
    Asin = "asin",
    Asinh = "asinh",
    AsyncDone = "async-done",
    AsyncStart = "async-start",
    AsyncUpdate = "async-update",
    Atan2 = "atan2",
    Atanh = "atanh",
    BatchNormGrad = "batch-norm-grad",
    BatchNormInference = "batch-norm-inference",
    BatchNormTraining = "batch-norm-training",
    Bitcast = "bitcast",
    BitcastConvert = "bitcast-convert",
    Broadcast = "broadcast",
    Call = "call",
    Cbrt = "cbrt",
    Ceil = "ceil",
    Cholesky = "cholesky",
    Clamp = "clamp",
    CollectiveBroadcast = "collective-broadcast",
    CollectivePermute = "collective-permute",
    CollectivePermuteDone = "collective-permute-done",
    CollectivePermuteStart = "collective-permute-start",
    Compare = "compare",
    Complex = "complex",
    Concatenate = "concatenate",
    Conditional = "conditional",
    Constant = "constant",
    Convert = "convert",
    Convolution = "convolution",
    Copy = "copy",
    CopyDone = "copy-done",
    CopyStart = "copy-start",
    Cosh = "cosh",
    Cosine = "cosine",
    CountLeadingZeros = "count-leading-zeros",
    CustomCall = "custom-call",
    Divide = "divide",
    Domain = "domain",
    Dot = "dot",
    DynamicReshape = "dynamic-reshape",
    DynamicSlice = "dynamic-slice",
    DynamicUpdateSlice = "dynamic-update-slice",
    Erf = "erf",
    Exponential = "exponential",
    ExponentialMinusOne = "exponential-minus-one",
    Fft = "fft",
    Floor = "floor",
    Fusion = "fusion",
    Gather = "gather",
    GetDimensionSize = "get-dimension-size",
    GetTupleElement = "get-tuple-element",
    Imag = "imag",
    Infeed = "infeed",
    Iota = "iota",
    IsFinite = "is-finite",
    Log = "log",
    LogPlusOne = "log-plus-one",
    Logistic = "logistic",
    Map = "map",
    Maximum = "maximum",
    Minimum = "minimum",
    Multiply = "multiply",
    Negate = "negate",
    Not = "not",
    OptimizationBarrier = "opt-barrier",
    Or = "or",
    Outfeed = "outfeed",
    Pad = "pad",
    Parameter = "parameter",
    PartitionId = "partition-id",
    PopulationCount = "popcnt",
    Power = "power",
    RaggedAllToAll = "ragged-all-to-all",
    RaggedDot = "ragged-dot",
    Real = "real",
    Recv = "recv",
    RecvDone = "recv-done",
    Reduce = "reduce",
    ReducePrecision = "reduce-precision",
    ReduceScatter = "reduce-scatter",
    ReduceWindow = "reduce-window",
    Remainder = "remainder",
    ReplicaId = "replica-id",
    Reshape = "reshape",
    Reverse = "reverse",
    Rng = "rng",
    RngBitGenerator = "rng-bit-generator",
    RngGetAndUpdateState = "rng-get-and-update-state",
    RoundNearestAfz = "round-nearest-afz",
    RoundNearestEven = "round-nearest-even",
    Rsqrt = "rsqrt",
    Scatter = "scatter",
    Select = "select",
    SelectAndScatter = "select-and-scatter",
    Send = "send",
    SendDone = "send-done",
    SetDimensionSize = "set-dimension-size",
    ShiftLeft = "shift-left",
    ShiftRightArithmetic = "shift-right-arithmetic",
    ShiftRightLogical = "shift-right-logical",
    Sign = "sign",
    Sine = "sine",
    Sinh = "sinh",
    Slice = "slice",
    Sort = "sort",
    Sqrt = "sqrt",
    StochasticConvert = "stochastic-convert",
    Subtract = "subtract",
    Tan = "tan",
    Tanh = "tanh",
    TopK = "topk",
    Transpose = "transpose",
    TriangularSolve = "triangular-solve",
    Tuple = "tuple",
    While = "while",
    Xor = "xor",
}

impl OpKind {
    /// Name of the operation in MLIR, e.g. `hlo.dynamic_slice`.
    pub fn mlir_name(self) -> &'static str {
        static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
            OpKind::ALL.iter().map(|kind| format!("hlo.{}", kind.text_name().replace('-', "_"))).collect()
        });
        &NAMES[self as usize]
    }

    /// The operation of a name in MLIR.
    pub fn from_mlir_name(name: &str) -> Result<Self, UnknownOp> {
        static KINDS: LazyLock<FxHashMap<&'static str, OpKind>> =
            LazyLock::new(|| OpKind::ALL.iter().map(|&kind| (kind.mlir_name(), kind)).collect());
        KINDS.get(name).copied().ok_or_else(|| UnknownOp(name.to_string()))
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text_name())
    }
}

/// The text names no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown opcode `{0}`")]
pub struct UnknownOp(pub String);
