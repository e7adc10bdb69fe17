//! Modules that passes work on: the operation `builtin.module` as a module, and a module put in its place.

use std::mem::ManuallyDrop;

use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, BlockRef, Module, OperationRef};
use mlir_sys::{
    mlirBlockAppendOwnedOperation, mlirIdentifierStr, mlirModuleFromOperation, mlirOperationDestroy,
    mlirOperationGetAttribute, mlirOperationGetNumAttributes, mlirOperationRemoveAttributeByName,
    mlirOperationRemoveFromParent, mlirOperationSetAttributeByName,
};

/// Looks at an operation as a module; `None` if it is no `builtin.module`.
pub fn with_module<'c, T>(operation: OperationRef<'c, '_>, look: impl FnOnce(&Module<'c>) -> T) -> Option<T> {
    // SAFETY: the operation is live, and keeps its owner: the module is never dropped.
    let module = unsafe { Module::from_option_raw(mlirModuleFromOperation(operation.to_raw())) };
    module.map(|module| look(&ManuallyDrop::new(module)))
}

/// The operations at the top level of a module, in order.
pub fn top_level<'c, 'a>(module: &'a Module<'c>) -> Vec<OperationRef<'c, 'a>> {
    in_block(module.body())
}

fn in_block<'c, 'a>(block: BlockRef<'c, 'a>) -> Vec<OperationRef<'c, 'a>> {
    let mut operations = Vec::new();
    let mut next = block.first_operation();
    while let Some(operation) = next {
        operations.push(operation);
        next = operation.next_in_block();
    }
    operations
}

/// Gives a module the operations and attributes of another in place of its own. Nothing may hold operations of the old
/// contents.
pub fn replace_contents<'c>(module: &Module<'c>, contents: Module<'c>) {
    let (target, source) = (module.as_operation().to_raw(), contents.as_operation().to_raw());
    let (old, new) = (top_level(module), top_level(&contents));
    // SAFETY: all operations are live and in the blocks of the two modules. Functions are isolated from above, so that no
    // operation of the top level uses another's results; each is destroyed or moved once. Attributes are read by numbers
    // below their count.
    unsafe {
        for operation in old {
            let operation = operation.to_raw();
            mlirOperationRemoveFromParent(operation);
            mlirOperationDestroy(operation);
        }
        for operation in new {
            let operation = operation.to_raw();
            mlirOperationRemoveFromParent(operation);
            mlirBlockAppendOwnedOperation(module.body().to_raw(), operation);
        }
        while mlirOperationGetNumAttributes(target) > 0 {
            let name = mlirIdentifierStr(mlirOperationGetAttribute(target, 0).name);
            if !mlirOperationRemoveAttributeByName(target, name) {
                break;
            }
        }
        for place in 0..mlirOperationGetNumAttributes(source) {
            let attribute = mlirOperationGetAttribute(source, place);
            mlirOperationSetAttributeByName(target, mlirIdentifierStr(attribute.name), attribute.attribute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melior::Context;

    #[test]
    fn contents_and_attributes_change_hands() {
        let context = Context::new_with_registry(&crate::dialects::registry(), false);
        let module =
            Module::parse(&context, "module @a attributes {test.x = 1} { func.func @f() { return } }").unwrap();
        let text = "module @b attributes {test.y = 2} { func.func @g() { return } func.func @h() { return } }";
        let expected = Module::parse(&context, text).unwrap().as_operation().to_string();
        replace_contents(&module, Module::parse(&context, text).unwrap());
        assert_eq!(module.as_operation().to_string(), expected);
        assert!(module.as_operation().verify());
        let function = top_level(&module)[0];
        assert_eq!(with_module(module.as_operation(), |module| top_level(module).len()), Some(2));
        assert_eq!(with_module(function, |_| ()), None);
    }
}
