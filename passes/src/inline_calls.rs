//! `inline-calls`: replaces every `call` by the body of its function, so that the entry computation is the whole
//! program and fusion sees across function borders.
//!
//! Bodies are copied into the entry only, each as often as it is called there. An inlined operation gets the call's
//! name in front of its own. Functions that nothing calls any more go.

use std::collections::HashMap;

use hlo::dialect;
use hlo::op_kind::OpKind;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, OperationRef, Value};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

use crate::registry::{PassError, PassStatistics};

/// Operations that inlining may produce at most: nested calls can grow a small text exponentially.
pub const MAX_INSTRUCTIONS: usize = 4_000_000;

/// How long the names of inlined operations may get by the names of the calls around them.
const MAX_NAME: usize = 200;

/// The program is too large once its calls are inlined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inlining the calls of `{function}` makes more than {MAX_INSTRUCTIONS} instructions")]
pub struct InlineError {
    /// Name of the function in which the limit was passed.
    pub function: String,
}

/// Runs the pass on a module.
///
/// # Errors
/// [`PassError::Inline`], and [`PassError::Dialect`] for functions that do not exist or call themselves.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let functions = dialect::functions_in_call_order(root)?;
    let Some(&entry) = functions.iter().find(|function| dialect::symbol_of(**function) == Some(dialect::ENTRY_SYMBOL))
    else {
        return Ok(());
    };
    let symbols: HashMap<&str, OperationRef> =
        functions.iter().filter_map(|&function| Some((dialect::symbol_of(function)?, function))).collect();
    let inliner = Inliner { rewriter: &rewriter, functions: symbols };
    inliner.check_size(&functions)?;
    // The last call first: what it is replaced by does not move those before it.
    let mut pending = inliner.calls_in(entry);
    while let Some(call) = pending.pop() {
        inliner.inline(call, &mut pending)?;
        statistics.add("calls", 1);
    }
    for function in functions.into_iter().filter(|&function| function != entry) {
        rewriter.erase(function)?;
    }
    Ok(())
}

/// Name of the function that a call calls.
fn callee_of<'c>(call: OperationRef<'c, '_>) -> Option<&'c str> {
    operations::attribute(&call, "to_apply").and_then(attributes::symbol)
}

struct Inliner<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    functions: HashMap<&'c str, OperationRef<'c, 'r>>,
}

impl<'c, 'r> Inliner<'c, 'r> {
    fn calls_in(&self, operation: OperationRef<'c, 'r>) -> Vec<OperationRef<'c, 'r>> {
        let mut operations = self.rewriter.operations_in(operation);
        operations.retain(|&operation| dialect::kind_of(operation) == Some(OpKind::Call));
        operations
    }

    /// Refuses a program too large, before anything is copied: short texts can stand for immense programs. The functions are
    /// in call order.
    fn check_size(&self, functions: &[OperationRef<'c, 'r>]) -> Result<(), InlineError> {
        let mut sizes: HashMap<&str, usize> = HashMap::new();
        for &function in functions {
            let name = dialect::symbol_of(function).unwrap_or_default();
            let inlined = |operation: &OperationRef<'c, 'r>| match dialect::kind_of(*operation) {
                Some(OpKind::Call) => callee_of(*operation).and_then(|callee| sizes.get(callee)).copied().unwrap_or(1),
                _ => 1,
            };
            let size = self.rewriter.operations_in(function).iter().map(inlined).fold(0, usize::saturating_add);
            if size > MAX_INSTRUCTIONS {
                return Err(InlineError { function: name.to_string() });
            }
            sizes.insert(name, size);
        }
        Ok(())
    }

    /// Replaces a call; `calls` gets those in the function's body.
    fn inline(&self, call: OperationRef<'c, 'r>, calls: &mut Vec<OperationRef<'c, 'r>>) -> Result<(), PassError> {
        let rewriter = self.rewriter;
        let symbol = callee_of(call).unwrap_or_default();
        let callee = self.functions.get(symbol).ok_or_else(|| PassError::bug(format!("no function `{symbol}`")))?;
        let blocks = rewriter.blocks(*callee);
        let [block] = blocks[..] else { return Err(PassError::bug(format!("`{symbol}` has no single block"))) };
        let name = dialect::name_of(call.location()).unwrap_or_default();
        let mut values: HashMap<usize, Value<'c, 'r>> = HashMap::new();
        for (number, operand) in call.operands().enumerate() {
            let argument = block.argument(number).map_err(|error| PassError::bug(error.to_string()))?;
            values.insert(attributes::value_key(&argument), operand);
        }
        let value_of = |values: &HashMap<usize, Value<'c, 'r>>, value: Value<'c, '_>| {
            values.get(&attributes::value_key(&value)).copied()
        };
        for operation in rewriter.operations_directly_in(*callee) {
            if Some(operation) == block.terminator() {
                let root = operation.operands().next().and_then(|root| value_of(&values, root));
                let root = root.ok_or_else(|| PassError::bug("the result of a function is not in it"))?;
                for result in call.results() {
                    rewriter.redirect_uses(result.into(), root)?;
                }
                continue;
            }
            let copy = rewriter.insert_before((*operation).clone(), call)?;
            for (position, operand) in operation.operands().enumerate() {
                let operand = value_of(&values, operand).ok_or_else(|| PassError::bug("an operand is not in it"))?;
                rewriter.redirect_operand(copy, position, operand)?;
            }
            for (old, new) in operation.results().zip(copy.results()) {
                values.insert(attributes::value_key(&old), new.into());
            }
            let own = dialect::name_of(operation.location()).unwrap_or_default();
            // Printed and read again, a program has the names that an earlier inlining gave.
            let has_name_in_front = own.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
            if !has_name_in_front && name.len() + own.len() < MAX_NAME {
                rewriter.set_location(copy, dialect::renamed(copy.location(), &format!("{name}.{own}")));
            }
            if copy.region_count() > 0 || dialect::kind_of(copy) == Some(OpKind::Call) {
                calls.extend(self.calls_in(copy));
            }
        }
        if let Some(block) = call.block() {
            dialect::update_signature(rewriter, block);
        }
        Ok(rewriter.erase(call)?)
    }
}
