//! The operations: one definition each, with its attributes, nested computations, shape rule and facets.
//!
//! [`definition`] is the only place that maps an [`OpKind`] to its definition. A definition's `infer_shape`
//! checks the operation's constraints (labelled C1, C2 …) and returns the result shape; [`verify`] compares
//! that with the declared shape. Reader, MLIR verifier and builder all come through here.

pub mod add_dependency;
pub mod after_all;
pub mod all_gather;
pub mod all_reduce;
pub mod all_to_all;
pub mod asynchronous;
pub mod batch_norm;
pub mod bitcast;
pub mod bitcast_convert;
pub mod broadcast;
pub mod call;
pub mod cholesky;
pub mod clamp;
pub mod collective_broadcast;
pub mod collective_groups;
pub mod collective_permute;
pub mod compare;
pub mod concatenate;
pub mod conditional;
pub mod constant;
pub mod convert;
pub mod convolution;
pub mod copy;
pub mod custom_call;
pub mod custom_call_targets;
pub mod dimensions;
pub mod domain;
pub mod dot;
pub mod dynamic_reshape;
pub mod dynamic_slice;
pub mod dynamic_update_slice;
pub mod element_classes;
pub mod elementwise_binary;
pub mod elementwise_unary;
pub mod enumerations;
pub mod facets;
pub mod fft;
pub mod fusion;
pub mod gather;
pub mod get_dimension_size;
pub mod get_tuple_element;
pub mod infeed_outfeed;
pub mod iota;
pub mod map;
pub mod optimization_barrier;
pub mod pad;
pub mod parameter;
pub mod ragged_all_to_all;
pub mod ragged_dot;
pub mod reduce;
pub mod reduce_precision;
pub mod reduce_scatter;
pub mod reduce_window;
pub mod replica_partition_id;
pub mod reshape;
pub mod reverse;
pub mod rng;
pub mod rng_bit_generator;
pub mod rng_get_and_update_state;
pub mod scatter;
pub mod select;
pub mod select_and_scatter;
pub mod send_recv;
pub mod set_dimension_size;
pub mod signatures;
pub mod slice;
pub mod sort;
pub mod sparse_product;
pub mod top_k;
pub mod transpose;
pub mod triangular_solve;
pub mod tuple;
pub mod typed_attributes;
pub mod view;
pub mod while_loop;
pub mod window;

use self::view::counted;
use std::collections::HashSet;
use std::sync::LazyLock;

use self::custom_call::CustomCallAttributes;
pub use self::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use self::typed_attributes::{NoAttributes, OperationAttributes, typed};
use crate::attributes::{AttributeSpec, AttributeTable, Attributes};
use crate::op_kind::OpKind;
use crate::shape::{ProgramShape, Shape};

/// What a definition's rules look at: an operation that may not exist yet.
#[derive(Clone, Copy, Debug)]
pub struct OpView<'a> {
    /// Operation.
    pub kind: OpKind,
    /// Shapes of the operands.
    pub operands: &'a [&'a Shape],
    /// Attributes.
    pub attributes: &'a Attributes,
    /// Signatures of the nested computations (a call: of its callee), in the definition's order.
    pub computations: &'a [ProgramShape],
    /// Declared result shape. Operations whose shape is part of their definition (`iota`, `reshape`, `convert` …) need it.
    pub result: Option<&'a Shape>,
}

/// A broken rule of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{kind}{}]", label.map(|label| format!(" ({label})")).unwrap_or_default())]
pub struct OpError {
    /// The operation.
    pub kind: OpKind,
    /// Label of the constraint, e.g. `C1`.
    pub label: Option<&'static str>,
    /// The rule, the value expected and the value found.
    pub message: String,
    /// Attribute at fault, if one is: readers point at it.
    pub attribute: Option<&'static str>,
    /// Operand at fault, if one is.
    pub operand: Option<usize>,
    /// Nested computation at fault, if one is.
    pub computation: Option<usize>,
}

/// How many operands an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// At least this many.
    AtLeast(usize),
    /// Between the two, inclusive.
    Between(usize, usize),
}

/// An attribute of HLO text that names nested computations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputationKey {
    /// It names one.
    One(&'static str),
    /// It names one, or is absent.
    Optional(&'static str),
    /// It names a list of any length, or is absent.
    List(&'static str),
}

impl ComputationKey {
    /// The name of the attribute.
    pub fn name(self) -> &'static str {
        match self {
            ComputationKey::One(name) | ComputationKey::Optional(name) | ComputationKey::List(name) => name,
        }
    }
}

/// Whether an attribute of this name names computations, in any operation that has one.
pub fn names_computations(attribute: &str) -> bool {
    static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
        let keys = OpKind::ALL.iter().flat_map(|&kind| definition(kind).computations);
        keys.map(|key| key.name()).collect()
    });
    NAMES.contains(attribute)
}

/// Everything about one operation that does not depend on MLIR.
#[derive(Debug)]
pub struct OpDefinition {
    /// Operation.
    pub kind: OpKind,
    /// Operand count.
    pub arity: Arity,
    /// Declarations of the attributes.
    pub attributes: &'static AttributeTable,
    /// Text keys of the nested computations in order (`condition`, `body`); only the last may be a list.
    pub computations: &'static [ComputationKey],
    /// Checks the constraints and returns the result shape.
    pub infer_shape: fn(&OpView<'_>) -> Result<Shape, OpError>,
    /// The kind of work it is.
    pub class: OpClass,
    /// What it is to loop fusion.
    pub fusion: FusionRole,
    /// How it becomes code.
    pub lowering: Lowering,
    /// Its effects besides its result.
    pub effects: Effects,
    /// What an element of its result costs.
    pub cost: ElementCost,
}

impl OpDefinition {
    /// A definition without attributes and computations.
    pub const fn new(
        kind: OpKind,
        arity: Arity,
        facets: Facets,
        infer_shape: fn(&OpView<'_>) -> Result<Shape, OpError>,
    ) -> Self {
        let Facets { class, fusion, lowering, effects, cost } = facets;
        let (attributes, computations) = (NoAttributes::TABLE, [].as_slice());
        OpDefinition { kind, arity, attributes, computations, infer_shape, class, fusion, lowering, effects, cost }
    }

    /// With the attributes of a struct: `with_attributes(DotAttributes::TABLE)`.
    pub const fn with_attributes(self, attributes: &'static AttributeTable) -> Self {
        OpDefinition { attributes, ..self }
    }

    /// With these nested computations.
    pub const fn with_computations(self, computations: &'static [ComputationKey]) -> Self {
        OpDefinition { computations, ..self }
    }

    /// Declaration of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&'static AttributeSpec> {
        self.attributes.get(name)
    }

    /// Fewest and most (`None`: any number of) nested computations.
    pub fn computation_count(&self) -> (usize, Option<usize>) {
        let required = self.computations.iter().filter(|key| matches!(key, ComputationKey::One(_))).count();
        let unlimited = self.computations.iter().any(|key| matches!(key, ComputationKey::List(_)));
        (required, (!unlimited).then_some(self.computations.len()))
    }
}

/// The definition of an operation.
pub fn definition(kind: OpKind) -> &'static OpDefinition {
    match kind {
        OpKind::Abs => &elementwise_unary::ABS,
        OpKind::Acos => &elementwise_unary::ACOS,
        OpKind::Acosh => &elementwise_unary::ACOSH,
        OpKind::Add => &elementwise_binary::ADD,
        OpKind::AddDependency => &add_dependency::DEFINITION,
        OpKind::AfterAll => &after_all::DEFINITION,
        OpKind::AllGather => &all_gather::ALL_GATHER,
        OpKind::AllGatherDone => &all_gather::ALL_GATHER_DONE,
        OpKind::AllGatherStart => &all_gather::ALL_GATHER_START,
        OpKind::AllReduce => &all_reduce::ALL_REDUCE,
        OpKind::AllReduceDone => &all_reduce::ALL_REDUCE_DONE,
        OpKind::AllReduceStart => &all_reduce::ALL_REDUCE_START,
        OpKind::AllToAll => &all_to_all::DEFINITION,
        OpKind::And => &elementwise_binary::AND,
        OpKind::Asin => &elementwise_unary::ASIN,
        OpKind::Asinh => &elementwise_unary::ASINH,
        OpKind::AsyncDone => &asynchronous::ASYNC_DONE,
        OpKind::AsyncStart => &asynchronous::ASYNC_START,
        OpKind::AsyncUpdate => &asynchronous::ASYNC_UPDATE,
        OpKind::Atan2 => &elementwise_binary::ATAN2,
        OpKind::Atanh => &elementwise_unary::ATANH,
        OpKind::BatchNormGrad => &batch_norm::BATCH_NORM_GRAD,
        OpKind::BatchNormInference => &batch_norm::BATCH_NORM_INFERENCE,
        OpKind::BatchNormTraining => &batch_norm::BATCH_NORM_TRAINING,
        OpKind::Bitcast => &bitcast::DEFINITION,
        OpKind::BitcastConvert => &bitcast_convert::DEFINITION,
        OpKind::Broadcast => &broadcast::DEFINITION,
        OpKind::Call => &call::DEFINITION,
        OpKind::Cbrt => &elementwise_unary::CBRT,
        OpKind::Ceil => &elementwise_unary::CEIL,
        OpKind::Cholesky => &cholesky::DEFINITION,
        OpKind::Clamp => &clamp::DEFINITION,
        OpKind::CollectiveBroadcast => &collective_broadcast::DEFINITION,
        OpKind::CollectivePermute => &collective_permute::COLLECTIVE_PERMUTE,
        OpKind::CollectivePermuteDone => &collective_permute::COLLECTIVE_PERMUTE_DONE,
        OpKind::CollectivePermuteStart => &collective_permute::COLLECTIVE_PERMUTE_START,
        OpKind::Compare => &compare::DEFINITION,
        OpKind::Complex => &elementwise_binary::COMPLEX,
        OpKind::Concatenate => &concatenate::DEFINITION,
        OpKind::Conditional => &conditional::DEFINITION,
        OpKind::Constant => &constant::DEFINITION,
        OpKind::Convert => &convert::CONVERT,
        OpKind::Convolution => &convolution::DEFINITION,
        OpKind::Copy => &copy::COPY,
        OpKind::CopyDone => &copy::COPY_DONE,
        OpKind::CopyStart => &copy::COPY_START,
        OpKind::Cosh => &elementwise_unary::COSH,
        OpKind::Cosine => &elementwise_unary::COSINE,
        OpKind::CountLeadingZeros => &elementwise_unary::COUNT_LEADING_ZEROS,
        OpKind::CustomCall => &custom_call::DEFINITION,
        OpKind::Divide => &elementwise_binary::DIVIDE,
        OpKind::Domain => &domain::DEFINITION,
        OpKind::Dot => &dot::DEFINITION,
        OpKind::DynamicReshape => &dynamic_reshape::DEFINITION,
        OpKind::DynamicSlice => &dynamic_slice::DEFINITION,
        OpKind::DynamicUpdateSlice => &dynamic_update_slice::DEFINITION,
        OpKind::Erf => &elementwise_unary::ERF,
        OpKind::Exponential => &elementwise_unary::EXPONENTIAL,
        OpKind::ExponentialMinusOne => &elementwise_unary::EXPONENTIAL_MINUS_ONE,
        OpKind::Fft => &fft::DEFINITION,
        OpKind::Floor => &elementwise_unary::FLOOR,
        OpKind::Fusion => &fusion::DEFINITION,
        OpKind::Gather => &gather::DEFINITION,
        OpKind::GetDimensionSize => &get_dimension_size::DEFINITION,
        OpKind::GetTupleElement => &get_tuple_element::DEFINITION,
        OpKind::Imag => &elementwise_unary::IMAG,
        OpKind::Infeed => &infeed_outfeed::INFEED,
        OpKind::Iota => &iota::DEFINITION,
        OpKind::IsFinite => &elementwise_unary::IS_FINITE,
        OpKind::Log => &elementwise_unary::LOG,
        OpKind::LogPlusOne => &elementwise_unary::LOG_PLUS_ONE,
        OpKind::Logistic => &elementwise_unary::LOGISTIC,
        OpKind::Map => &map::DEFINITION,
        OpKind::Maximum => &elementwise_binary::MAXIMUM,
        OpKind::Minimum => &elementwise_binary::MINIMUM,
        OpKind::Multiply => &elementwise_binary::MULTIPLY,
        OpKind::Negate => &elementwise_unary::NEGATE,
        OpKind::Not => &elementwise_unary::NOT,
        OpKind::OptimizationBarrier => &optimization_barrier::DEFINITION,
        OpKind::Or => &elementwise_binary::OR,
        OpKind::Outfeed => &infeed_outfeed::OUTFEED,
        OpKind::Pad => &pad::DEFINITION,
        OpKind::Parameter => &parameter::DEFINITION,
        OpKind::PartitionId => &replica_partition_id::PARTITION_ID,
        OpKind::PopulationCount => &elementwise_unary::POPULATION_COUNT,
        OpKind::Power => &elementwise_binary::POWER,
        OpKind::RaggedAllToAll => &ragged_all_to_all::DEFINITION,
        OpKind::RaggedDot => &ragged_dot::DEFINITION,
        OpKind::Real => &elementwise_unary::REAL,
        OpKind::Recv => &send_recv::RECV,
        OpKind::RecvDone => &send_recv::RECV_DONE,
        OpKind::Reduce => &reduce::DEFINITION,
        OpKind::ReducePrecision => &reduce_precision::DEFINITION,
        OpKind::ReduceScatter => &reduce_scatter::DEFINITION,
        OpKind::ReduceWindow => &reduce_window::DEFINITION,
        OpKind::Remainder => &elementwise_binary::REMAINDER,
        OpKind::ReplicaId => &replica_partition_id::REPLICA_ID,
        OpKind::Reshape => &reshape::DEFINITION,
        OpKind::Reverse => &reverse::DEFINITION,
        OpKind::Rng => &rng::DEFINITION,
        OpKind::RngBitGenerator => &rng_bit_generator::DEFINITION,
        OpKind::RngGetAndUpdateState => &rng_get_and_update_state::DEFINITION,
        OpKind::RoundNearestAfz => &elementwise_unary::ROUND_NEAREST_AFZ,
        OpKind::RoundNearestEven => &elementwise_unary::ROUND_NEAREST_EVEN,
        OpKind::Rsqrt => &elementwise_unary::RSQRT,
        OpKind::Scatter => &scatter::DEFINITION,
        OpKind::Select => &select::DEFINITION,
        OpKind::SelectAndScatter => &select_and_scatter::DEFINITION,
        OpKind::Send => &send_recv::SEND,
        OpKind::SendDone => &send_recv::SEND_DONE,
        OpKind::SetDimensionSize => &set_dimension_size::DEFINITION,
        OpKind::ShiftLeft => &elementwise_binary::SHIFT_LEFT,
        OpKind::ShiftRightArithmetic => &elementwise_binary::SHIFT_RIGHT_ARITHMETIC,
        OpKind::ShiftRightLogical => &elementwise_binary::SHIFT_RIGHT_LOGICAL,
        OpKind::Sign => &elementwise_unary::SIGN,
        OpKind::Sine => &elementwise_unary::SINE,
        OpKind::Sinh => &elementwise_unary::SINH,
        OpKind::Slice => &slice::DEFINITION,
        OpKind::Sort => &sort::DEFINITION,
        OpKind::Sqrt => &elementwise_unary::SQRT,
        OpKind::StochasticConvert => &convert::STOCHASTIC_CONVERT,
        OpKind::Subtract => &elementwise_binary::SUBTRACT,
        OpKind::Tan => &elementwise_unary::TAN,
        OpKind::Tanh => &elementwise_unary::TANH,
        OpKind::TopK => &top_k::DEFINITION,
        OpKind::Transpose => &transpose::DEFINITION,
        OpKind::TriangularSolve => &triangular_solve::DEFINITION,
        OpKind::Tuple => &tuple::DEFINITION,
        OpKind::While => &while_loop::DEFINITION,
        OpKind::Xor => &elementwise_binary::XOR,
    }
}

/// Whether an instruction has an effect besides its result, itself: its computations and its callee are not looked
/// into.
pub fn has_side_effect(kind: OpKind, attributes: &Attributes) -> bool {
    match definition(kind).effects {
        Effects::None | Effects::OfCallee => false,
        Effects::Always => true,
        // What cannot be read may have one.
        Effects::Declared => typed::<CustomCallAttributes>(kind, attributes)
            .map_or(true, |attributes| attributes.custom_call_has_side_effect),
    }
}

/// Checks an operation against its definition and its declared result shape.
///
/// As in XLA's verifier, layouts and the dynamism of dimensions (not their bounds) may differ from the inferred shape.
pub fn verify(view: &OpView<'_>) -> Result<(), OpError> {
    let inferred = infer_shape(view)?;
    match view.result {
        Some(declared) if !same_sizes_and_types(declared, &inferred) => {
            Err(view.error(None, format!("the result has shape {inferred}, but {declared} is declared")))
        }
        Some(_) => Ok(()),
        None => Err(view.error(None, "the result shape is not declared".to_string())),
    }
}

/// Checks operand count, attributes, computations and constraints; returns the result shape, without layouts.
pub fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let definition = definition(view.kind);
    check_arity(definition, view)?;
    check_attributes(definition, view)?;
    check_computations(definition, view)?;
    Ok((definition.infer_shape)(view)?.without_layout())
}

fn check_arity(definition: &OpDefinition, view: &OpView<'_>) -> Result<(), OpError> {
    let found = view.operands.len();
    let expected = match definition.arity {
        Arity::Exactly(count) if found != count => counted(count, "operand"),
        Arity::AtLeast(count) if found < count => format!("at least {}", counted(count, "operand")),
        Arity::Between(low, high) if found < low || found > high => format!("{low} to {high} operands"),
        Arity::Exactly(_) | Arity::AtLeast(_) | Arity::Between(..) => return Ok(()),
    };
    Err(view.error(None, format!("takes {expected}, got {found}")))
}

fn check_attributes(definition: &OpDefinition, view: &OpView<'_>) -> Result<(), OpError> {
    if let Some((name, _)) = view.attributes.iter().find(|(name, _)| definition.attribute(name).is_none()) {
        return Err(view.error(None, format!("has no attribute `{name}`")));
    }
    (definition.attributes.check)(view.kind, view.attributes)
}

fn check_computations(definition: &OpDefinition, view: &OpView<'_>) -> Result<(), OpError> {
    let found = view.computations.len();
    let (least, most) = definition.computation_count();
    if found < least || most.is_some_and(|most| found > most) {
        let expected = match most {
            Some(most) if most == least => counted(least, "computation"),
            Some(most) => format!("{least} to {most} computations"),
            None => format!("at least {}", counted(least, "computation")),
        };
        let keys = definition.computations.iter().map(|key| key.name()).collect::<Vec<_>>().join(", ");
        return Err(view.error(None, format!("takes {expected} ({keys}), got {found}")));
    }
    Ok(())
}

fn same_sizes_and_types(declared: &Shape, inferred: &Shape) -> bool {
    match (declared, inferred) {
        (Shape::Array(a), Shape::Array(b)) => a.element_type == b.element_type && a.dimensions == b.dimensions,
        (Shape::Tuple(a), Shape::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_sizes_and_types(a, b))
        }
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        (Shape::Array(_) | Shape::Tuple(_) | Shape::Token | Shape::Opaque, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_stand_under_their_own_kind_and_name_each_attribute_once() {
        for &kind in OpKind::ALL {
            let definition = definition(kind);
            assert_eq!(definition.kind, kind);
            let specs = definition.attributes.specs;
            for (position, spec) in specs.iter().enumerate() {
                assert!(specs[..position].iter().all(|other| other.name != spec.name), "{kind}: {}", spec.name);
                assert!(!definition.computations.iter().any(|key| key.name() == spec.name));
            }
            let lists = definition
                .computations
                .iter()
                .rev()
                .skip(1)
                .filter(|key| matches!(key, ComputationKey::List(_)))
                .count();
            assert_eq!(lists, 0, "{kind}: only the last computations are a list");
        }
    }

    #[test]
    fn side_effects_of_custom_calls_are_their_attribute() {
        let plain = CustomCallAttributes::new("target");
        let effect = CustomCallAttributes { custom_call_has_side_effect: true, ..plain };
        assert!(has_side_effect(OpKind::CustomCall, &effect.into()));
        assert!(!has_side_effect(OpKind::CustomCall, &plain.into()));
        assert!(has_side_effect(OpKind::Outfeed, &Attributes::new()));
        assert!(!has_side_effect(OpKind::Add, &Attributes::new()));
    }
}
