//! Structured control flow with [`OpBuilder`]: loops and branches of the dialects `affine` and `scf`.
//!
//! Bodies are closures that return the values to yield. What they fail with is the error of the whole operation, which
//! is then not created.

use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute, IntegerAttribute};
use melior::ir::{AffineExpr, Attribute, AttributeLike, Type};
use mlir_sys::{
    mlirAttributeIsAIntegerSet, mlirIntegerSetAttrGet, mlirIntegerSetAttrGetValue, mlirIntegerSetGet,
    mlirIntegerSetGetConstraint, mlirIntegerSetGetNumConstraints, mlirIntegerSetGetNumDims,
    mlirIntegerSetIsConstraintEq,
};

use crate::access::{AffineValues, map_attribute};
use crate::affine::Expr;
use crate::builder::{OpBuilder, Region, Value};

/// Conditions of an `affine.if`, all of which hold in its first branch: the results of a map are not negative, or zero.
pub struct AffineConditions<'c> {
    /// The expressions, and the values they are taken of.
    pub values: AffineValues<'c>,
    /// Whether each is compared for equality with zero; others hold where they are not negative.
    pub equalities: Vec<bool>,
}

/// The expressions of an integer set attribute, each with whether it is compared for equality, and the number of
/// dimensions; `None` for an attribute of another kind.
pub fn conditions_of<'c>(attribute: Attribute<'c>) -> Option<(Vec<(Expr<'c>, bool)>, usize)> {
    // SAFETY: the attribute is live, and asked for its set only if it has one; positions are below the number of
    // constraints.
    unsafe {
        mlirAttributeIsAIntegerSet(attribute.to_raw()).then(|| {
            let set = mlirIntegerSetAttrGetValue(attribute.to_raw());
            let conditions = (0..mlirIntegerSetGetNumConstraints(set))
                .map(|position| {
                    let expression = AffineExpr::from_raw(mlirIntegerSetGetConstraint(set, position)).into();
                    (expression, mlirIntegerSetIsConstraintEq(set, position))
                })
                .collect();
            (conditions, mlirIntegerSetGetNumDims(set) as usize)
        })
    }
}

impl<'c> OpBuilder<'c> {
    /// `scf.for`: `body` gets the induction variable and the carried values and returns the next ones.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn for_loop<E>(
        &self,
        lower: Value<'c>,
        upper: Value<'c>,
        step: Value<'c>,
        initial: &[Value<'c>],
        body: impl FnOnce(&Self, Value<'c>, &[Value<'c>]) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Vec<Value<'c>>, E> {
        let region = self.loop_region(lower.r#type(), initial, "scf.yield", body)?;
        let operands = [&[lower, upper, step], initial].concat();
        let types: Vec<Type<'c>> = initial.iter().map(|value| value.r#type()).collect();
        Ok(self.operation("scf.for", &operands, &types, &[], vec![region]).results())
    }

    /// `affine.for` from the largest of some affine expressions to behind the smallest of others.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn affine_for<E>(
        &self,
        lower: &AffineValues<'c>,
        upper: &AffineValues<'c>,
        step: i64,
        initial: &[Value<'c>],
        body: impl FnOnce(&Self, Value<'c>, &[Value<'c>]) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Vec<Value<'c>>, E> {
        let region = self.loop_region(self.index_type, initial, "affine.yield", body)?;
        let groups = [lower.operands.len(), upper.operands.len(), initial.len()].map(|count| count as i32);
        let attributes = [
            ("lowerBoundMap", map_attribute(lower.map)),
            ("upperBoundMap", map_attribute(upper.map)),
            ("step", IntegerAttribute::new(self.index_type, step).into()),
            ("operandSegmentSizes", DenseI32ArrayAttribute::new(self.context(), &groups).into()),
        ];
        let operands = [&lower.operands[..], &upper.operands, initial].concat();
        let types: Vec<Type<'c>> = initial.iter().map(|value| value.r#type()).collect();
        Ok(self.operation("affine.for", &operands, &types, &attributes, vec![region]).results())
    }

    fn loop_region<E>(
        &self,
        variable: Type<'c>,
        initial: &[Value<'c>],
        terminator: &str,
        body: impl FnOnce(&Self, Value<'c>, &[Value<'c>]) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Region<'c>, E> {
        let types: Vec<Type<'c>> =
            std::iter::once(variable).chain(initial.iter().map(|value| value.r#type())).collect();
        self.region(&types, |builder, arguments| {
            let next = body(builder, arguments[0], &arguments[1..])?;
            builder.effect(terminator, &next, &[]);
            Ok(())
        })
    }

    /// `affine.if` with results; the branch for a true or false condition returns values of the given types.
    ///
    /// # Errors
    /// Those of `branch`.
    pub fn affine_if<E>(
        &self,
        conditions: &AffineConditions<'c>,
        types: &[Type<'c>],
        mut branch: impl FnMut(&Self, bool) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Vec<Value<'c>>, E> {
        let mut region = |holds| self.branch("affine.yield", |builder| branch(builder, holds));
        let regions = vec![region(true)?, region(false)?];
        Ok(self.affine_branches(conditions, types, regions))
    }

    /// `affine.if` without results or else branch.
    ///
    /// # Errors
    /// Those of the branch.
    pub fn affine_if_then<E>(
        &self,
        conditions: &AffineConditions<'c>,
        then_branch: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let then_region = self.branch("affine.yield", |builder| then_branch(builder).map(|()| Vec::new()))?;
        self.affine_branches(conditions, &[], vec![then_region, self.empty_region()]);
        Ok(())
    }

    fn affine_branches(
        &self,
        conditions: &AffineConditions<'c>,
        types: &[Type<'c>],
        regions: Vec<Region<'c>>,
    ) -> Vec<Value<'c>> {
        let map = conditions.values.map;
        let expressions: Vec<_> = crate::affine::results(map).iter().map(|expression| expression.to_raw()).collect();
        let equalities = &conditions.equalities;
        debug_assert_eq!(expressions.len(), equalities.len());
        // SAFETY: the expressions are of this context and over the map's dimensions and symbols; the arrays, which are
        // equally long, are read during the call.
        let set: Attribute<'c> = unsafe {
            Attribute::from_raw(mlirIntegerSetAttrGet(mlirIntegerSetGet(
                self.context().to_raw(),
                map.dim_count() as isize,
                map.symbol_count() as isize,
                expressions.len().min(equalities.len()) as isize,
                expressions.as_ptr(),
                equalities.as_ptr(),
            )))
        };
        self.operation("affine.if", &conditions.values.operands, types, &[("condition", set)], regions).results()
    }

    /// `scf.if` with results; the branch for a true or false condition returns values of the given types.
    ///
    /// # Errors
    /// Those of `branch`.
    pub fn if_else<E>(
        &self,
        condition: Value<'c>,
        types: &[Type<'c>],
        mut branch: impl FnMut(&Self, bool) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Vec<Value<'c>>, E> {
        let mut region = |holds| self.branch("scf.yield", |builder| branch(builder, holds));
        let regions = vec![region(true)?, region(false)?];
        Ok(self.operation("scf.if", &[condition], types, &[], regions).results())
    }

    /// `scf.if` without results or else branch.
    ///
    /// # Errors
    /// Those of the branch.
    pub fn if_then<E>(&self, condition: Value<'c>, then_branch: impl FnOnce(&Self) -> Result<(), E>) -> Result<(), E> {
        let then_region = self.branch("scf.yield", |builder| then_branch(builder).map(|()| Vec::new()))?;
        self.operation("scf.if", &[condition], &[], &[], vec![then_region, self.empty_region()]);
        Ok(())
    }

    /// `scf.index_switch` without results: branch number `selector`, and the last one for every other selector.
    ///
    /// # Errors
    /// Those of `branch`.
    pub fn index_switch<E>(
        &self,
        selector: Value<'c>,
        branches: usize,
        mut branch: impl FnMut(&Self, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let last = branches.saturating_sub(1);
        // The default branch is the first region.
        let order = std::iter::once(last).chain(0..last);
        let regions = order
            .map(|number| self.branch("scf.yield", |builder| branch(builder, number).map(|()| Vec::new())))
            .collect::<Result<Vec<_>, E>>()?;
        let cases: Vec<i64> = (0..last as i64).collect();
        let cases = DenseI64ArrayAttribute::new(self.context(), &cases).into();
        self.operation("scf.index_switch", &[selector], &[], &[("cases", cases)], regions);
        Ok(())
    }

    fn branch<E>(
        &self,
        terminator: &str,
        body: impl FnOnce(&Self) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Region<'c>, E> {
        self.region(&[], |builder, _| {
            let values = body(builder)?;
            builder.effect(terminator, &values, &[]);
            Ok(())
        })
    }

    /// `scf.while` whose state lives in memory: `condition` returns an `i1`, `body` runs while it is true.
    ///
    /// # Errors
    /// Those of `condition` and `body`.
    pub fn while_loop<E>(
        &self,
        condition: impl FnOnce(&Self) -> Result<Value<'c>, E>,
        body: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.region(&[], |builder, _| {
            let condition = condition(builder)?;
            builder.effect("scf.condition", &[condition], &[]);
            Ok(())
        })?;
        let after = self.branch("scf.yield", |builder| body(builder).map(|()| Vec::new()))?;
        self.operation("scf.while", &[], &[], &[], vec![before, after]);
        Ok(())
    }

    /// `scf.while` that carries values: `condition` gets them and returns an `i1`, `body` runs while that is true and returns the
    /// next ones.
    ///
    /// # Errors
    /// Those of `condition` and `body`.
    pub fn while_carrying<E>(
        &self,
        initial: &[Value<'c>],
        condition: impl FnOnce(&Self, &[Value<'c>]) -> Result<Value<'c>, E>,
        body: impl FnOnce(&Self, &[Value<'c>]) -> Result<Vec<Value<'c>>, E>,
    ) -> Result<Vec<Value<'c>>, E> {
        let types: Vec<Type<'c>> = initial.iter().map(|value| value.r#type()).collect();
        let before = self.region(&types, |builder, state| {
            let condition = condition(builder, state)?;
            builder.effect("scf.condition", &[&[condition], state].concat(), &[]);
            Ok(())
        })?;
        let after = self.region(&types, |builder, state| {
            let next = body(builder, state)?;
            builder.effect("scf.yield", &next, &[]);
            Ok(())
        })?;
        Ok(self.operation("scf.while", initial, &types, &[], vec![before, after]).results())
    }

    /// `body` runs while a condition is true, and returns the next one: an `scf.while` that tests behind its body, so that what
    /// the body does, it does in every iteration. LLVM keeps the state of such loops in registers.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn while_true<E>(
        &self,
        condition: Value<'c>,
        body: impl FnOnce(&Self) -> Result<Value<'c>, E>,
    ) -> Result<(), E> {
        self.if_then(condition, |builder| {
            let before = builder.branch("scf.condition", |builder| Ok(vec![body(builder)?]))?;
            let after = builder.branch("scf.yield", |_| Ok(Vec::new()))?;
            builder.operation("scf.while", &[], &[], &[], vec![before, after]);
            Ok(())
        })
    }
}
