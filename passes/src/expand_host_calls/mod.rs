//! `expand-host-calls`: what a GPU would have to wait for the host for, as operations that are kernels.
//!
//! Random bits and numbers are elementwise (`random`), Fourier transforms sums of few terms (`fourier`), factors of matrices those of small
//! ones and products (`factors`), the largest elements of rows the first ones of sorted rows.

mod factors;
mod fourier;
mod random;

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::sort::SortAttributes;
use hlo::ops::top_k::TopKAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::shape::Shape;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{GraphBuilder, total_order};
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

pub use factors::LARGEST_FACTOR;

/// Appends what an instruction is replaced by; `None` leaves it to the host.
type Expansion = fn(&mut GraphBuilder, &Instruction) -> Option<InstructionId>;

/// The operations that are replaced, what statistics call them, and by what.
const EXPANSIONS: &[(OpKind, &str, Expansion)] = &[
    (OpKind::Cholesky, "factor of matrices", factors::cholesky),
    (OpKind::Fft, "Fourier transform", fourier::transform),
    (OpKind::Rng, "random numbers", random::numbers),
    (OpKind::RngBitGenerator, "random bits", random::bits),
    (OpKind::TopK, "top k", top_k),
    (OpKind::TriangularSolve, "triangular systems", factors::triangular_solve),
];

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let expansion = |wanted: OpKind| EXPANSIONS.iter().find(|(kind, ..)| *kind == wanted);
    let is_expanded = |_, kind| expansion(kind).is_some();
    for block in blocks_with(&rewriter, is_expanded) {
        let body = Body::read(&rewriter, block, is_expanded)?;
        body.rewrite(|builder, _, instruction| {
            let (_, what, expand) = expansion(instruction.kind)?;
            let expanded = expand(builder, instruction)?;
            statistics.add(what, 1);
            Some(expanded)
        })?;
    }
    Ok(())
}

// topk(x) => slice(sort(x, iota))
fn top_k(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let TopKAttributes { k, largest } = instruction.attributes().ok()?;
    let operand = instruction.operands[0];
    let shape = builder.array(operand);
    let along = shape.rank().checked_sub(1)?;
    if shape.is_dynamic() {
        return None;
    }
    let places = builder.iota(ElementType::S32, &shape.dimensions, along);
    let order = total_order(&instruction.name, shape.element_type, largest);
    let results = [&shape, &shape.with_element_type(ElementType::S32)].map(|shape| shape.clone().into());
    let attributes = SortAttributes { dimensions: Dimension(along as i64), is_stable: true };
    let operands = [operand, places];
    let sorted = builder.add_with(OpKind::Sort, Shape::Tuple(results.to_vec()), &operands, attributes, vec![order]);
    let first = [0, 1].map(|number| {
        let sorted = builder.element(sorted, number);
        builder.slice(sorted, along, 0, k)
    });
    Some(builder.tuple(&first))
}
