//! `erase-layouts`: takes the layouts from the types of values.
//!
//! Compiled code keeps every array row-major, arguments and results too, so that only `bitcast` depends on layouts. Once that is
//! expanded they would hide from the passes behind that two types are the same: JAX gives a layout to whatever comes from a
//! transpose. What a custom call returns keeps its layout, for the call writes it as it is declared.

use std::collections::HashMap;

use hlo::dialect;
use hlo::op_kind::OpKind;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, OperationRef, Type, TypeLike, Value, ValueLike};
use mlir_ext::rewrite::Rewriter;

use crate::registry::{PassError, PassStatistics};

/// Runs the pass. Bitcasts must have been expanded.
///
/// # Errors
/// [`PassError::Dialect`] for types that no value of a program has.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let mut values: Vec<Value> = Vec::new();
    for operation in rewriter.operations_in(root) {
        if dialect::kind_of(operation) != Some(OpKind::CustomCall) {
            values.extend(operation.results().map(Value::from));
        }
        for block in rewriter.blocks(operation) {
            let arguments = (0..block.argument_count()).filter_map(|number| block.argument(number).ok());
            values.extend(arguments.map(Value::from));
        }
    }
    let mut erased: HashMap<usize, Type> = HashMap::new();
    for value in values {
        let old = value.r#type();
        let key = old.to_raw().ptr as usize;
        let new = match erased.get(&key) {
            Some(new) => *new,
            None => {
                let new = dialect::type_of(rewriter.context(), &dialect::shape_of(old)?.without_layout())?;
                *erased.entry(key).or_insert(new)
            }
        };
        if new != old {
            rewriter.set_type(value, new);
            statistics.add("values", 1);
        }
    }
    for block in rewriter.blocks(root) {
        dialect::update_signature(&rewriter, block);
    }
    Ok(())
}
