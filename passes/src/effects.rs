//! Which operations may be removed.

use hlo::dialect;
use hlo::ops::{self, Effects};
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
        let is_declared = operations::attribute(&operation, "custom_call_has_side_effect")
            .and_then(attributes::boolean)
            == Some(true);
        let may_have_effect = match ops::definition(kind).effects {
            Effects::None => false,
            Effects::Always | Effects::OfCallee => true,
            Effects::Declared => is_declared,
        };
        if may_have_effect {
            return true;
        }
        stack.extend(rewriter.operations_directly_in(operation));
    }
    false
}
