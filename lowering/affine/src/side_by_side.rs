//! Vectors that are computed side by side where functions are computed: what the steps of one wait for, others compute
//! meanwhile. A processor looks only so far ahead that it finds the next vector of a loop too late.

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use passes::fuse::is_function;

/// Such vectors where little else is done with each element, and where more is.
const VECTORS_OF_FUNCTIONS: [u32; 2] = [4, 2];

/// Elementwise operations up to which that is little.
const FEW_OPERATIONS: usize = 2;

/// Elementwise operations up to which several vectors are worth their code.
const MOST_OPERATIONS: usize = 256;

/// The most vectors that are worth computing side by side where these instructions are computed; nothing where no functions are, or
/// some that are called.
pub(crate) fn vectors_of_functions<'a>(instructions: impl Iterator<Item = &'a Instruction> + Clone) -> Option<u32> {
    let operations = instructions.clone().filter(|own| definition(own.kind).fusion == FusionRole::Elementwise).count();
    let [most, fewer] = VECTORS_OF_FUNCTIONS;
    let is_worth_it = operations <= MOST_OPERATIONS && has_functions_in_place(instructions);
    is_worth_it.then_some(if operations <= FEW_OPERATIONS { most } else { fewer })
}

/// The lanes of the widest of several vectors for a row of this length that ends with few elements that are computed twice.
fn lanes_side_by_side(length: i64, lanes: u32, vectors: u32) -> Option<u32> {
    [vectors, vectors / 2].map(|vectors| lanes * vectors).into_iter().find(|&wide| repeats_few(length, wide.into()))
}

/// Whether vectors of so many lanes compute few elements twice at the end of a row.
pub(crate) fn repeats_few(length: i64, lanes: i64) -> bool {
    length >= lanes && 8 * (indexing::ceil_div(length, lanes) * lanes - length) <= length
}

/// As many lanes as are worth computing side by side along a row of values that are made, element by element, of
/// parameters and of what `is_known`.
pub(crate) fn lanes_of_row(
    computation: &Computation,
    values: &[InstructionId],
    (length, lanes): (i64, u32),
    is_known: impl Fn(InstructionId) -> bool,
) -> u32 {
    let (mut open, mut made) = (values.to_vec(), Vec::new());
    let mut seen: HashSet<InstructionId> = values.iter().copied().collect();
    while let Some(id) = open.pop() {
        let own = computation.get(id);
        match own.kind {
            _ if is_known(id) => {}
            OpKind::Constant | OpKind::Iota | OpKind::Parameter => {}
            kind if kind == OpKind::Broadcast || definition(kind).fusion == FusionRole::Elementwise => {
                made.push(own);
                open.extend(own.operands.iter().copied().filter(|&operand| seen.insert(operand)));
            }
            _ => return lanes,
        }
    }
    let vectors = vectors_of_functions(made.into_iter());
    vectors.and_then(|vectors| lanes_side_by_side(length, lanes, vectors)).unwrap_or(lanes)
}

/// Whether there are functions whose code stands where they are used, and no others.
fn has_functions_in_place<'a>(instructions: impl Iterator<Item = &'a Instruction> + Clone) -> bool {
    let is_in_place = |own: &Instruction| match own.kind {
        OpKind::Exponential | OpKind::Logistic | OpKind::Rsqrt | OpKind::Sqrt | OpKind::Tanh => true,
        OpKind::Cosine
        | OpKind::Erf
        | OpKind::ExponentialMinusOne
        | OpKind::Log
        | OpKind::LogPlusOne
        | OpKind::Sine => own.shape.as_array().is_some_and(|array| array.element_type != ElementType::F64),
        _ => false,
    };
    let is_complex = |own: &Instruction| own.shape.as_array().is_some_and(|array| array.element_type.is_complex());
    let mut functions = instructions.clone().filter(|own| is_function(own)).peekable();
    functions.peek().is_some() && functions.all(is_in_place) && !instructions.clone().any(is_complex)
}
