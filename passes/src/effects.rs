//! Which operations may be removed.

use hlo::dialect;
use hlo::op_kind::OpKind;
use hlo::ops;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};

/// Whether an operation has an effect besides its result: by its definition, or because of an operation in its
/// computations. Calls count as effects, as what they call is not looked at; so do operations of other dialects.
pub fn has_effect<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, operation: OperationRef<'c, 'r>) -> bool {
    let mut stack = vec![operation];
    while let Some(operation) = stack.pop() {
        let Some(kind) = dialect::kind_of(operation) else {
            if attributes::identifier_text(operation.name()) == "hlo.return" {
                continue;
            }
            return true;
        };
        let is_declared = kind == OpKind::CustomCall
            && operations::attribute(&operation, "custom_call_has_side_effect").and_then(attributes::boolean)
                == Some(true);
        if is_declared || kind == OpKind::Call || ops::definition(kind).has_side_effect {
            return true;
        }
        stack.extend(rewriter.operations_directly_in(operation));
    }
    false
}
