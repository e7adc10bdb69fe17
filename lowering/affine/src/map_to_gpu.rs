//! `hlo-map-to-gpu`: a thread for each element.

use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use indexing::{Expr, IndexingMap};
use melior::Context;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::error::LoweringError;
use crate::gpu::check_supported;
use crate::mapping::{self, has_elements, mapped_sizes};
use crate::trace::split_merged;

/// Threads of a block.
const BLOCK_SIZE: i64 = 256;

/// Notes on the kernels of a module's entry function how their work is divided; returns their number.
///
/// # Errors
/// As for the choice; the module is then as it was.
pub fn run(module: OperationRef<'_, '_>) -> Result<u64, LoweringError> {
    let function = dialect::entry_function(module)?;
    let rewriter = Rewriter::new(function);
    let context = rewriter.context();
    mapping::write(&rewriter, function, &|_, computation, instruction| choose(context, computation, instruction))
}

/// How the work of an instruction's kernel is divided; `None` for what is no kernel.
///
/// # Errors
/// [`LoweringError::Unsupported`] for everything but elementwise, broadcast, reshape and transpose fusions.
fn choose<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<Option<Vec<WorkMapping<'c>>>, LoweringError> {
    check_supported(instruction)?;
    if instruction.kind != OpKind::Fusion {
        return Ok(None);
    }
    if !has_elements(computation, instruction)? {
        return Ok(Some(Vec::new()));
    }
    let sizes = mapped_sizes(computation, instruction)?;
    let index = split_merged(Expr::dim(context, 0), sizes);
    Ok(Some(vec![WorkMapping {
        map: IndexingMap::from_sizes(context, &[sizes.iter().product()], &[], index),
        dimensions: vec![WorkDimension { kind: WorkKind::Threads, tile: BLOCK_SIZE, ..WorkDimension::sequential() }],
        inner_lanes: 1,
        overlap: false,
    }]))
}
