//! `dce`: removes operations whose results are not used and that have no effect, and functions that nothing calls.
//!
//! One walk in reverse order: users stand after what they use, so that a chain of dead operations goes at once. An
//! operation is looked into for effects only if it is not used.

use std::collections::{HashMap, HashSet};

use melior::ir::operation::OperationLike;
use melior::ir::{OperationRef, Value};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

use crate::effects::has_effect;
use crate::registry::{PassError, PassStatistics};

/// Runs the pass.
///
/// # Errors
/// None but internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    for operation in rewriter.operations().into_iter().rev() {
        // An operation inside of an erased one is no longer asked for: its parent came first.
        if is_inside_erased(&rewriter, operation) || operation.result_count() == 0 {
            continue;
        }
        let is_used = operation.results().any(|result| rewriter.has_uses(Value::from(result)));
        if !is_used && !has_effect(&rewriter, operation) {
            rewriter.erase(operation)?;
            statistics.add("dead-operation", 1);
        }
    }
    remove_functions(&rewriter, statistics)
}

/// Erased operations keep their computations; everything in these is as dead as they are.
fn is_inside_erased<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, operation: OperationRef<'c, 'r>) -> bool {
    let mut outermost = operation;
    while outermost != rewriter.root() {
        let Some(parent) = outermost.parent_operation() else { return true };
        outermost = parent;
    }
    false
}

fn remove_functions(rewriter: &Rewriter<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let is_function = |operation: &OperationRef| attributes::identifier_text(operation.name()) == "func.func";
    let functions: Vec<OperationRef> =
        rewriter.operations_directly_in(rewriter.root()).into_iter().filter(is_function).collect();
    let symbol = |function| operations::attribute(&function, "sym_name").and_then(attributes::string);
    let by_name: HashMap<&str, OperationRef> =
        functions.iter().filter_map(|&function| Some((symbol(function)?, function))).collect();
    let is_private =
        |function| operations::attribute(&function, "sym_visibility").and_then(attributes::string) == Some("private");
    let mut stack: Vec<&str> =
        functions.iter().filter(|&&function| !is_private(function)).filter_map(|&function| symbol(function)).collect();
    let mut reached = HashSet::new();
    while let Some(name) = stack.pop() {
        if reached.insert(name)
            && let Some(&function) = by_name.get(name)
        {
            let calls = rewriter.operations_in(function).into_iter();
            stack
                .extend(calls.filter_map(|call| operations::attribute(&call, "to_apply").and_then(attributes::symbol)));
        }
    }
    for function in functions {
        if is_private(function) && symbol(function).is_some_and(|name| !reached.contains(name)) {
            rewriter.erase(function)?;
            statistics.add("dead-function", 1);
        }
    }
    Ok(())
}
