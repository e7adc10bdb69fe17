//! The dialect's operations as `arith` and `scf`.

use melior::Context;
use melior::ir::operation::OperationLike;
use melior::ir::{Module, OperationRef, RegionLike};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::attributes;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::rewrite::Rewriter;

use super::verifier;
use crate::arithmetic::Arithmetic;
use crate::error::Error;
use crate::expr::{Expr, Var};
use crate::interval::Interval;
use crate::map::{Constraint, IndexingMap};
use crate::range::RangeEvaluator;
use crate::simplify::{PointVariables, Simplifier};

/// Replaces every operation of the dialect in a verified module of a context with the dialects `arith` and `scf`.
/// Returns how many there were.
///
/// # Errors
/// [`Error::Invalid`] for operations that the verifier would reject.
pub fn lower<'c>(context: &'c Context, module: &mut Module<'c>) -> Result<usize, Error> {
    let rewriter = Rewriter::new(module.as_operation());
    let mut count = 0;
    // Inner operations come before those around them, so that bodies are lowered when they are moved.
    for operation in rewriter.operations() {
        let values = match attributes::identifier_text(operation.name()) {
            "indexing.apply" => lower_apply(context, &rewriter, operation),
            "indexing.loop" => lower_loop(context, &rewriter, operation),
            _ => continue,
        };
        let values = values.map_err(Error::Invalid)?;
        rewriter.replace_with(operation, &values).map_err(|error| Error::Invalid(error.to_string()))?;
        count += 1;
    }
    Ok(count)
}

fn lower_apply<'c>(
    context: &'c Context,
    rewriter: &Rewriter<'c, '_>,
    operation: OperationRef<'c, '_>,
) -> Result<Vec<Value<'c>>, String> {
    let map = verifier::map(operation)?;
    let builder = rewriter.builder_before(context, operation).map_err(|error| error.to_string())?;
    let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
    let (dims, rest) = split(&operands, map.dims().len())?;
    let (ranges, runtimes) = split(rest, map.ranges().len())?;
    let code = Code { builder: &builder, map: &map, dims, ranges, runtimes };
    Ok(map.results().iter().map(|result| code.emit(&map.simplify_expr(result))).collect())
}

fn lower_loop<'c>(
    context: &'c Context,
    rewriter: &Rewriter<'c, '_>,
    operation: OperationRef<'c, '_>,
) -> Result<Vec<Value<'c>>, String> {
    let map = verifier::map(operation)?;
    let builder = rewriter.builder_before(context, operation).map_err(|error| error.to_string())?;
    let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
    let (dims, rest) = split(&operands, map.dims().len())?;
    let (runtimes, inits) = split(rest, map.runtimes().len())?;
    if map.is_known_empty() {
        return Ok(inits.to_vec());
    }
    let nest = Nest { rewriter, operation, map: &map, dims, runtimes };
    nest.over_ranges(&builder, &mut Vec::new(), inits.to_vec())
}

fn split<'v, 'c>(values: &'v [Value<'c>], count: usize) -> Result<(&'v [Value<'c>], &'v [Value<'c>]), String> {
    values.split_at_checked(count).ok_or_else(|| "has fewer operands than its map has variables".to_string())
}

/// The loops of an `indexing.loop`.
struct Nest<'n, 'c, 'm> {
    rewriter: &'n Rewriter<'c, 'm>,
    operation: OperationRef<'c, 'n>,
    map: &'n IndexingMap,
    dims: &'n [Value<'c>],
    runtimes: &'n [Value<'c>],
}

impl<'c> Nest<'_, 'c, '_> {
    /// Loops over the range variables from number `ranges.len()` on, then the test and the body.
    fn over_ranges(
        &self,
        builder: &OpBuilder<'c>,
        ranges: &mut Vec<Value<'c>>,
        carried: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>, String> {
        let Some(range) = self.map.ranges().get(ranges.len()) else {
            return self.guarded_body(builder, ranges, &carried);
        };
        let lower = builder.constant_index(range.bounds.lower);
        let upper = builder.constant_index(range.bounds.upper.saturating_add(1));
        let step = builder.constant_index(1);
        builder.for_loop(lower, upper, step, &carried, |builder, value, carried| {
            ranges.push(value);
            let next = self.over_ranges(builder, ranges, carried.to_vec());
            ranges.pop();
            next
        })
    }

    fn guarded_body(
        &self,
        builder: &OpBuilder<'c>,
        ranges: &[Value<'c>],
        carried: &[Value<'c>],
    ) -> Result<Vec<Value<'c>>, String> {
        let code = Code { builder, map: self.map, dims: self.dims, ranges, runtimes: self.runtimes };
        let tests: Vec<Value<'c>> = self.map.constraints().iter().flat_map(|c| code.tests(c)).collect();
        let Some(holds) = tests.into_iter().reduce(|all, test| builder.andi(all, test)) else {
            return self.body(&code, carried);
        };
        let types: Vec<_> = carried.iter().map(|value| value.r#type()).collect();
        if types.is_empty() {
            return builder.if_then(holds, |_| self.body(&code, carried).map(|_| ())).map(|()| Vec::new());
        }
        builder.if_else(holds, &types, |_, holds| if holds { self.body(&code, carried) } else { Ok(carried.to_vec()) })
    }

    fn body(&self, code: &Code<'_, 'c>, carried: &[Value<'c>]) -> Result<Vec<Value<'c>>, String> {
        let mut arguments = code.ranges.to_vec();
        arguments.extend(self.map.results().iter().map(|result| code.emit(&self.map.simplify_expr(result))));
        arguments.extend(carried);
        let block = self.operation.region(0).ok().and_then(|region| region.first_block());
        let block = block.ok_or_else(|| "has no body".to_string())?;
        self.rewriter.inline_block(block, code.builder, &arguments).map_err(|error| error.to_string())
    }
}

/// Values of a map's variables, and where code goes.
struct Code<'n, 'c> {
    builder: &'n OpBuilder<'c>,
    map: &'n IndexingMap,
    dims: &'n [Value<'c>],
    ranges: &'n [Value<'c>],
    runtimes: &'n [Value<'c>],
}

impl<'c> Code<'_, 'c> {
    /// `i1` values that are all true where the constraint holds, given the variables' bounds.
    fn tests(&self, constraint: &Constraint) -> Vec<Value<'c>> {
        let ranges = RangeEvaluator::without_constraints(self.map);
        let expr = Simplifier::new(ranges, PointVariables::Replace).simplify(&constraint.expr);
        let (range, interval) = (self.range(&expr), constraint.interval);
        let value = self.emit(&expr);
        let test = |needed: bool, predicate, bound| {
            needed.then(|| self.builder.cmpi(predicate, value, self.builder.constant_index(bound)))
        };
        let lower = test(range.lower < interval.lower, CmpiPredicate::Sge, interval.lower);
        let upper = test(range.upper > interval.upper, CmpiPredicate::Sle, interval.upper);
        lower.into_iter().chain(upper).collect()
    }
}

impl<'c> Arithmetic for Code<'_, 'c> {
    type Value = Value<'c>;

    fn constant(&self, value: i64) -> Value<'c> {
        self.builder.constant_index(value)
    }

    fn variable(&self, variable: Var) -> Value<'c> {
        let value = match variable {
            Var::Dim(i) => self.dims.get(i as usize),
            Var::Range(i) => self.ranges.get(i as usize),
            Var::Runtime(i) => self.runtimes.get(i as usize),
        };
        value.copied().unwrap_or_else(|| self.constant(0))
    }

    fn operation(&self, name: &'static str, left: Value<'c>, right: Value<'c>) -> Value<'c> {
        self.builder.value(name, &[left, right], self.builder.index_type, &[])
    }

    fn range(&self, expr: &Expr) -> Interval {
        RangeEvaluator::without_constraints(self.map).range(expr)
    }
}
