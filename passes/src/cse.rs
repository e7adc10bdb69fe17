//! `cse`: merges operations that compute the same value, by MLIR's pass of that name.
//!
//! The pass knows what has effects from the dialect's traits. Operations with different annotations stay apart.

use melior::ir::OperationRef;
use mlir_ext::pass_pipeline::run_pipeline_on;
use mlir_ext::rewrite::Rewriter;

use crate::registry::{PassError, PassStatistics};

/// Runs the pass.
///
/// # Errors
/// [`PassError::Pipeline`].
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let before = Rewriter::new(root).operations().len();
    run_pipeline_on(root, "cse", false)?;
    let after = Rewriter::new(root).operations().len();
    statistics.add("common-subexpression", before.saturating_sub(after) as u64);
    Ok(())
}
