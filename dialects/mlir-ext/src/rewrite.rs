//! Rewriting of finished IR, with the invariants of MLIR checked at each step.
//!
//! [`Rewriter::erase`] takes an operation out of the IR but keeps its memory until the rewriter is dropped, so that a
//! handle to an erased operation, in a worklist for instance, never dangles. All handles borrow from the rewriter.

use std::cell::RefCell;
use std::ptr;

use melior::ir::attribute::{Attribute, AttributeLike};
use melior::ir::operation::OperationLike;
use melior::ir::{
    Block, BlockLike, BlockRef, Location, Operation, OperationRef, RegionLike, RegionRef, Type, TypeLike, Value,
    ValueLike,
};
use melior::{Context, StringRef};
use mlir_sys::{
    MlirOpOperand, MlirOperation, mlirBlockAppendOwnedOperation, mlirOpOperandGetNextUse,
    mlirOpOperandGetOperandNumber, mlirOpOperandGetOwner, mlirOpOperandIsNull, mlirOpResultGetOwner,
    mlirOpResultGetResultNumber, mlirOperationDestroy, mlirOperationMoveBefore, mlirOperationRemoveAttributeByName,
    mlirOperationRemoveFromParent, mlirOperationSetAttributeByName, mlirOperationSetLocation, mlirOperationSetOperand,
    mlirOperationSetOperands, mlirValueGetFirstUse, mlirValueIsAOpResult, mlirValueReplaceAllUsesOfWith,
    mlirValueSetType,
};

use crate::builder::{self, OpBuilder};
use crate::operations;

/// A rewrite that would break the IR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The value to put in place has another type.
    #[error("a value of type `{expected}` cannot be replaced by one of type `{found}`")]
    Type {
        /// Type of the value to replace.
        expected: String,
        /// Type of the replacement.
        found: String,
    },
    /// The operation's results are still in use.
    #[error("`{0}` is erased while its results are in use")]
    InUse(String),
    /// The operation is in no block: erased, or a module.
    #[error("`{0}` is in no block")]
    Detached(String),
    /// A position beyond the end.
    #[error("`{operation}` has no operand {position}")]
    Operand {
        /// Name of the operation.
        operation: String,
        /// The position.
        position: usize,
    },
}

/// A use of a value.
#[derive(Clone, Copy, Debug)]
pub struct Use<'c, 'r> {
    /// The operation that uses the value.
    pub user: OperationRef<'c, 'r>,
    /// Position of the value among its operands.
    pub operand: usize,
}

/// Rewrites what is inside of one operation, a module or a function for instance.
pub struct Rewriter<'c, 'm> {
    root: OperationRef<'c, 'm>,
    // Raw, so that the rewriter's lifetimes can be shortened.
    erased: RefCell<Vec<MlirOperation>>,
}

fn name(operation: OperationRef<'_, '_>) -> String {
    crate::attributes::identifier_text(operation.name()).to_string()
}

impl<'c, 'm> Rewriter<'c, 'm> {
    /// Rewriter of what is inside of an operation. Nothing else may change it meanwhile.
    pub fn new(root: OperationRef<'c, 'm>) -> Self {
        Rewriter { root, erased: RefCell::new(Vec::new()) }
    }

    /// The operation whose inside is rewritten.
    pub fn root<'r>(&'r self) -> OperationRef<'c, 'r> {
        self.root
    }

    /// The context.
    pub fn context(&self) -> &'c Context {
        operations::context_of(&self.root)
    }

    /// Whether an operation has been erased (or not yet inserted).
    pub fn is_detached(&self, operation: OperationRef<'c, '_>) -> bool {
        operation.block().is_none()
    }

    /// Inserts an operation before another.
    ///
    /// # Errors
    /// [`RewriteError::Detached`] when the other is in no block.
    pub fn insert_before<'r>(
        &'r self,
        operation: Operation<'c>,
        before: OperationRef<'c, 'r>,
    ) -> Result<OperationRef<'c, 'r>, RewriteError> {
        let block = before.block().ok_or_else(|| RewriteError::Detached(name(before)))?;
        Ok(block.insert_operation_before(before, operation))
    }

    /// Replaces every use of a value by another of the same type.
    ///
    /// # Errors
    /// [`RewriteError::Type`].
    pub fn replace_all_uses(&self, value: Value<'c, '_>, replacement: Value<'c, '_>) -> Result<(), RewriteError> {
        if value.r#type() != replacement.r#type() {
            return Err(RewriteError::Type {
                expected: value.r#type().to_string(),
                found: replacement.r#type().to_string(),
            });
        }
        // SAFETY: both values are live: erased operations keep their memory.
        unsafe { mlirValueReplaceAllUsesOfWith(value.to_raw(), replacement.to_raw()) };
        Ok(())
    }

    /// Takes an operation without uses out of the IR, and its uses of other values with it. For an operation with
    /// regions, these must be isolated from above.
    ///
    /// # Errors
    /// [`RewriteError::InUse`] and [`RewriteError::Detached`].
    pub fn erase(&self, operation: OperationRef<'c, '_>) -> Result<(), RewriteError> {
        if operation.results().any(|result| self.has_uses(Value::from(result))) {
            return Err(RewriteError::InUse(name(operation)));
        }
        if operation.block().is_none() {
            return Err(RewriteError::Detached(name(operation)));
        }
        // SAFETY: the operation is live and in a block. From here on the rewriter owns it.
        unsafe {
            mlirOperationRemoveFromParent(operation.to_raw());
            mlirOperationSetOperands(operation.to_raw(), 0, ptr::null());
            self.erased.borrow_mut().push(operation.to_raw());
        }
        Ok(())
    }

    /// Replaces the one result of an operation and erases it.
    ///
    /// # Errors
    /// Those of [`Self::replace_all_uses`] and [`Self::erase`].
    pub fn replace(&self, operation: OperationRef<'c, '_>, replacement: Value<'c, '_>) -> Result<(), RewriteError> {
        for result in operation.results() {
            self.replace_all_uses(Value::from(result), replacement)?;
        }
        self.erase(operation)
    }

    /// Replaces an operand.
    ///
    /// # Errors
    /// [`RewriteError::Operand`] for a position beyond the end, and [`RewriteError::Type`].
    pub fn set_operand(
        &self,
        operation: OperationRef<'c, '_>,
        position: usize,
        value: Value<'c, '_>,
    ) -> Result<(), RewriteError> {
        let old = operation
            .operands()
            .nth(position)
            .ok_or_else(|| RewriteError::Operand { operation: name(operation), position })?;
        if old.r#type() != value.r#type() {
            return Err(RewriteError::Type { expected: old.r#type().to_string(), found: value.r#type().to_string() });
        }
        self.redirect_operand(operation, position, value)
    }

    /// Replaces an operand by a value of any type: whether it fits is for the verifier to say.
    ///
    /// # Errors
    /// [`RewriteError::Operand`] for a position beyond the end.
    pub fn redirect_operand(
        &self,
        operation: OperationRef<'c, '_>,
        position: usize,
        value: Value<'c, '_>,
    ) -> Result<(), RewriteError> {
        if position >= operation.operand_count() {
            return Err(RewriteError::Operand { operation: name(operation), position });
        }
        // SAFETY: the operation is live and has an operand at that position.
        unsafe { mlirOperationSetOperand(operation.to_raw(), position as isize, value.to_raw()) };
        Ok(())
    }

    /// Replaces every use of a value by one of any type: whether it fits is for the verifier to say.
    ///
    /// # Errors
    /// None for uses as they are.
    pub fn redirect_uses(&self, value: Value<'c, '_>, replacement: Value<'c, '_>) -> Result<(), RewriteError> {
        self.uses(value).into_iter().try_for_each(|r#use| self.redirect_operand(r#use.user, r#use.operand, replacement))
    }

    /// Sets an attribute.
    pub fn set_attribute(&self, operation: OperationRef<'c, '_>, name: &str, attribute: Attribute<'c>) {
        // SAFETY: operation and attribute are live; MLIR copies the name.
        unsafe {
            mlirOperationSetAttributeByName(operation.to_raw(), StringRef::new(name).to_raw(), attribute.to_raw());
        }
    }

    /// Removes an attribute. Returns whether there was one.
    pub fn remove_attribute(&self, operation: OperationRef<'c, '_>, name: &str) -> bool {
        // SAFETY: the operation is live; MLIR only looks at the name.
        unsafe { mlirOperationRemoveAttributeByName(operation.to_raw(), StringRef::new(name).to_raw()) }
    }

    /// Gives a value another type: whether its definition and its uses fit is for the verifier to say.
    pub fn set_type(&self, value: Value<'c, '_>, r#type: Type<'c>) {
        // SAFETY: value and type are live.
        unsafe { mlirValueSetType(value.to_raw(), r#type.to_raw()) };
    }

    /// Gives an operation another location.
    pub fn set_location(&self, operation: OperationRef<'c, '_>, location: Location<'c>) {
        // SAFETY: operation and location are live.
        unsafe { mlirOperationSetLocation(operation.to_raw(), location.to_raw()) };
    }

    /// Moves an operation before another. The caller keeps definitions before uses.
    ///
    /// # Errors
    /// [`RewriteError::Detached`] when either is in no block.
    pub fn move_before(
        &self,
        operation: OperationRef<'c, '_>,
        before: OperationRef<'c, '_>,
    ) -> Result<(), RewriteError> {
        for operation in [operation, before] {
            if operation.block().is_none() {
                return Err(RewriteError::Detached(name(operation)));
            }
        }
        // SAFETY: both operations are live and in blocks.
        unsafe { mlirOperationMoveBefore(operation.to_raw(), before.to_raw()) };
        Ok(())
    }

    /// Moves an operation to the end of a block, of a new region for instance.
    ///
    /// # Errors
    /// [`RewriteError::Detached`] when it is in no block.
    pub fn move_to_end(&self, operation: OperationRef<'c, '_>, block: &Block<'c>) -> Result<(), RewriteError> {
        if operation.block().is_none() {
            return Err(RewriteError::Detached(name(operation)));
        }
        // SAFETY: the operation is live and in a block, which gives it to the other block.
        unsafe {
            mlirOperationRemoveFromParent(operation.to_raw());
            mlirBlockAppendOwnedOperation(block.to_raw(), operation.to_raw());
        }
        Ok(())
    }

    /// Inserts a copy of an operation, regions included, before another. `replacement` maps its operands.
    ///
    /// # Errors
    /// [`RewriteError::Detached`] when the other is in no block, and [`RewriteError::Type`].
    pub fn clone_before<'r>(
        &'r self,
        operation: OperationRef<'c, '_>,
        before: OperationRef<'c, 'r>,
        replacement: impl Fn(Value<'c, '_>) -> Option<Value<'c, 'r>>,
    ) -> Result<OperationRef<'c, 'r>, RewriteError> {
        let copy = self.insert_before((*operation).clone(), before)?;
        for (position, operand) in operation.operands().enumerate() {
            if let Some(value) = replacement(operand) {
                self.set_operand(copy, position, value)?;
            }
        }
        Ok(copy)
    }
}

/// Rewriting with the builder that writes new code.
impl<'c> Rewriter<'c, '_> {
    /// A builder that inserts before an operation, which must stay where it is meanwhile. The context is the root's.
    ///
    /// # Errors
    /// [`RewriteError::Detached`] when the operation is in no block.
    pub fn builder_before(
        &self,
        context: &'c Context,
        operation: OperationRef<'c, '_>,
    ) -> Result<OpBuilder<'c>, RewriteError> {
        let block = operation.block().ok_or_else(|| RewriteError::Detached(name(operation)))?;
        // SAFETY: the operation is live and in the block.
        Ok(unsafe { OpBuilder::before(context, operation.location(), block.to_raw(), operation.to_raw()) })
    }

    /// Moves the operations of a block, but for its terminator, to a builder's insertion point, and puts `arguments`
    /// in the place of the block's arguments. Returns the terminator's operands.
    ///
    /// # Errors
    /// [`RewriteError::Type`] for an argument of another type.
    pub fn inline_block(
        &self,
        block: BlockRef<'c, '_>,
        builder: &OpBuilder<'c>,
        arguments: &[builder::Value<'c>],
    ) -> Result<Vec<builder::Value<'c>>, RewriteError> {
        for (position, &value) in arguments.iter().enumerate() {
            if let Ok(argument) = block.argument(position) {
                self.replace_all_uses(argument.into(), value.into())?;
            }
        }
        let terminator = block.terminator();
        let mut next = block.first_operation();
        while let Some(operation) = next.filter(|operation| Some(*operation) != terminator) {
            next = operation.next_in_block();
            // SAFETY: the operation is live, and once removed in no block.
            unsafe {
                mlirOperationRemoveFromParent(operation.to_raw());
                builder.insert(operation.to_raw());
            }
        }
        Ok(terminator.map(|last| last.operands().map(builder::Value::from).collect()).unwrap_or_default())
    }

    /// Replaces all results of an operation and erases it.
    ///
    /// # Errors
    /// Those of [`Self::replace_all_uses`] and [`Self::erase`].
    pub fn replace_with(
        &self,
        operation: OperationRef<'c, '_>,
        values: &[builder::Value<'c>],
    ) -> Result<(), RewriteError> {
        for (result, &value) in operation.results().zip(values) {
            self.replace_all_uses(Value::from(result), value.into())?;
        }
        self.erase(operation)
    }
}

/// Reading that rewrites need and melior lacks.
impl<'c> Rewriter<'c, '_> {
    /// The operation that defines a value, and the number of the result; `None` for block arguments.
    pub fn definition<'r>(&'r self, value: Value<'c, '_>) -> Option<(OperationRef<'c, 'r>, usize)> {
        // SAFETY: the value is live, and is asked for its owner only if it is a result.
        unsafe {
            mlirValueIsAOpResult(value.to_raw()).then(|| {
                let owner = OperationRef::from_raw(mlirOpResultGetOwner(value.to_raw()));
                (owner, mlirOpResultGetResultNumber(value.to_raw()) as usize)
            })
        }
    }

    /// Whether a value has uses.
    pub fn has_uses(&self, value: Value<'c, '_>) -> bool {
        // SAFETY: the value is live.
        unsafe { !mlirOpOperandIsNull(mlirValueGetFirstUse(value.to_raw())) }
    }

    /// The uses of a value.
    pub fn uses<'r>(&'r self, value: Value<'c, '_>) -> Vec<Use<'c, 'r>> {
        let mut uses = Vec::new();
        // SAFETY: the value is live, and so are its uses and their owners; the list does not change meanwhile.
        unsafe {
            let mut next: MlirOpOperand = mlirValueGetFirstUse(value.to_raw());
            while !mlirOpOperandIsNull(next) {
                uses.push(Use {
                    user: OperationRef::from_raw(mlirOpOperandGetOwner(next)),
                    operand: mlirOpOperandGetOperandNumber(next) as usize,
                });
                next = mlirOpOperandGetNextUse(next);
            }
        }
        uses
    }

    /// The blocks of an operation's regions.
    pub fn blocks<'r>(&'r self, operation: OperationRef<'c, 'r>) -> Vec<BlockRef<'c, 'r>> {
        let mut blocks = Vec::new();
        for index in 0..operation.region_count() {
            let mut next = region(operation, index).and_then(|region| region.first_block());
            while let Some(block) = next {
                blocks.push(block);
                next = block.next_in_region();
            }
        }
        blocks
    }

    /// The operations in the root, nested ones included, each after those before it and those inside it.
    pub fn operations<'r>(&'r self) -> Vec<OperationRef<'c, 'r>> {
        let mut operations = self.operations_in(self.root());
        operations.pop();
        operations
    }

    /// The operations in an operation, and last itself, each after those before it and those inside it.
    pub fn operations_in<'r>(&'r self, root: OperationRef<'c, 'r>) -> Vec<OperationRef<'c, 'r>> {
        let mut operations = Vec::new();
        // Operations with those directly in them that are still to come.
        let mut stack = vec![(root, self.operations_directly_in(root).into_iter())];
        while let Some((operation, inner)) = stack.last_mut() {
            match inner.next() {
                Some(next) if next.region_count() == 0 => operations.push(next),
                Some(next) => stack.push((next, self.operations_directly_in(next).into_iter())),
                None => {
                    operations.push(*operation);
                    stack.pop();
                }
            }
        }
        operations
    }

    /// The operations of the blocks of an operation, in order, without those inside of them.
    pub fn operations_directly_in<'r>(&'r self, root: OperationRef<'c, 'r>) -> Vec<OperationRef<'c, 'r>> {
        let mut operations = Vec::new();
        for block in self.blocks(root) {
            let mut next = block.first_operation();
            while let Some(operation) = next {
                operations.push(operation);
                next = operation.next_in_block();
            }
        }
        operations
    }
}

fn region<'c, 'r>(operation: OperationRef<'c, 'r>, index: usize) -> Option<RegionRef<'c, 'r>> {
    // SAFETY: the operation outlives `'r`: it belongs to the rewriter's root.
    unsafe { operation.to_ref() }.region(index).ok()
}

impl Drop for Rewriter<'_, '_> {
    fn drop(&mut self) {
        for operation in self.erased.borrow_mut().drain(..) {
            // SAFETY: erased operations are in no block, without uses, and owned by this rewriter alone. Handles to
            // them borrow from the rewriter and so are gone.
            unsafe { mlirOperationDestroy(operation) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melior::ir::Module;

    const TEXT: &str = "func.func @f(%a: i32, %b: i64) -> i32 {
        %0 = arith.addi %a, %a : i32
        %1 = arith.muli %0, %a : i32
        %2 = arith.addi %b, %b : i64
        return %1 : i32
    }";

    fn with_module(test: impl FnOnce(&Rewriter)) -> String {
        let context = Context::new_with_registry(&crate::dialects::registry(), false);
        let module = Module::parse(&context, TEXT).unwrap();
        test(&Rewriter::new(module.as_operation()));
        assert!(module.as_operation().verify());
        module.as_operation().to_string()
    }

    fn named<'c, 'r>(rewriter: &'r Rewriter<'c, '_>, wanted: &str) -> Vec<OperationRef<'c, 'r>> {
        rewriter.operations().into_iter().filter(|operation| name(*operation) == wanted).collect()
    }

    #[test]
    fn what_would_break_the_module_is_refused() {
        with_module(|rewriter| {
            let (add, multiply) = (named(rewriter, "arith.addi"), named(rewriter, "arith.muli")[0]);
            assert_eq!(rewriter.erase(add[0]), Err(RewriteError::InUse("arith.addi".into())));
            let (narrow, wide) = (Value::from(add[0].result(0).unwrap()), Value::from(add[1].result(0).unwrap()));
            assert!(matches!(rewriter.replace_all_uses(narrow, wide), Err(RewriteError::Type { .. })));
            assert!(matches!(rewriter.set_operand(multiply, 0, wide), Err(RewriteError::Type { .. })));
            assert!(matches!(rewriter.set_operand(multiply, 2, narrow), Err(RewriteError::Operand { .. })));
            rewriter.erase(add[1]).unwrap();
            assert!(rewriter.is_detached(add[1]));
            assert_eq!(rewriter.erase(add[1]), Err(RewriteError::Detached("arith.addi".into())));
            assert!(matches!(rewriter.move_before(multiply, add[1]), Err(RewriteError::Detached(_))));
        });
    }

    #[test]
    fn operations_are_copied_replaced_and_erased() {
        let text = with_module(|rewriter| {
            let (add, multiply) = (named(rewriter, "arith.addi")[0], named(rewriter, "arith.muli")[0]);
            let (argument, sum) = (add.operand(0).unwrap(), Value::from(add.result(0).unwrap()));
            assert_eq!(rewriter.uses(sum).len(), 1);
            let copy = rewriter.clone_before(add, multiply, |value| (value == argument).then_some(sum)).unwrap();
            rewriter.set_operand(multiply, 0, Value::from(copy.result(0).unwrap())).unwrap();
            assert_eq!(rewriter.definition(multiply.operand(0).unwrap()).map(|(owner, _)| owner), Some(copy));
            rewriter.replace(copy, argument).unwrap();
            rewriter.erase(add).unwrap();
        });
        assert!(text.contains("arith.muli %arg0, %arg0 : i32"), "{text}");
        assert_eq!(text.matches("arith.addi").count(), 1, "{text}");
    }

    #[test]
    fn operations_come_after_those_inside_them() {
        with_module(|rewriter| {
            let names: Vec<String> = rewriter.operations().into_iter().map(name).collect();
            assert_eq!(names, ["arith.addi", "arith.muli", "arith.addi", "func.return", "func.func"]);
        });
    }
}
