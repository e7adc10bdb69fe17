//! `unsigned-divisions`: index arithmetic of `affine` operations whose divisions have dividends that are provably not
//! negative becomes unsigned divisions, shifts and masks.
//!
//! Upstream's `lower-affine`, which comes next, expands every `floordiv`, `ceildiv` and `mod` with corrections for
//! negative dividends. Here intervals of the values are known from the constant bounds of loops. A dividend with a
//! negative lower bound is moved up by a multiple of the divisor first. What has no division stays as it is, but for
//! operations that use a value which was lowered: such a value is no dimension any more, so loads, stores, loops and
//! branches over it become those of `memref`, `vector` and `scf`.

use std::collections::{HashMap, HashSet};

use indexing::{Expr, ExprKind, Interval, Operator, Var};
use melior::ir::operation::OperationLike;
use melior::ir::{AffineMap, BlockLike, BlockRef, OperationRef, ValueLike};
use mlir_ext::access::{AffineValues, map_of};
use mlir_ext::affine;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::attributes;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::control::conditions_of;
use mlir_ext::rewrite::{RewriteError, Rewriter};

/// What is made of `affine`.
pub const DIALECTS: [&str; 5] = ["affine", "arith", "memref", "scf", "vector"];

/// Lower bound from which on dividends are moved up, far from where that would leave 64 bits.
const LOWEST_DIVIDEND: i64 = -(1 << 48);

/// Lowers divisions inside of an operation; returns how many operations were replaced.
///
/// # Errors
/// [`RewriteError`] for invalid IR.
pub fn run(root: OperationRef<'_, '_>) -> Result<usize, RewriteError> {
    let rewriter = Rewriter::new(root);
    for dialect in DIALECTS {
        rewriter.context().get_or_load_dialect(dialect);
    }
    let mut pass = Pass { rewriter: &rewriter, plain: HashSet::new(), ranges: HashMap::new(), replaced: 0 };
    for block in rewriter.blocks(root) {
        pass.block(block, false)?;
    }
    Ok(pass.replaced)
}

struct Pass<'c, 'r, 'm> {
    rewriter: &'r Rewriter<'c, 'm>,
    /// Values that affine operations cannot use as dimensions or symbols any more.
    plain: HashSet<usize>,
    ranges: HashMap<usize, Interval>,
    replaced: usize,
}

/// Results of a map of values.
struct Mapped<'c> {
    map: AffineMap<'c>,
    operands: Vec<Value<'c>>,
}

fn key(value: Value<'_>) -> usize {
    attributes::value_key(&melior::ir::Value::from(value))
}

impl<'c, 'r> Pass<'c, 'r, '_> {
    fn block(&mut self, block: BlockRef<'c, 'r>, is_top_level: bool) -> Result<(), RewriteError> {
        let mut next = block.first_operation();
        while let Some(operation) = next {
            next = operation.next_in_block();
            self.operation(operation, is_top_level)?;
        }
        Ok(())
    }

    fn operation(&mut self, operation: OperationRef<'c, 'r>, is_top_level: bool) -> Result<(), RewriteError> {
        let name = attributes::identifier_text(operation.name());
        let operation = match name {
            "affine.apply" | "affine.min" | "affine.max" => return self.value(operation, name, is_top_level),
            "affine.load" | "affine.vector_load" => return self.load(operation),
            "affine.store" | "affine.vector_store" => return self.store(operation),
            "affine.for" => self.for_loop(operation)?,
            "affine.if" => self.branches(operation)?,
            "gpu.block_id" | "gpu.thread_id" => {
                let bound = operation.attribute("upper_bound").ok().and_then(attributes::integer);
                if let (Some(bound), Some(result)) = (bound, operation.results().next()) {
                    let result = key(Value::from(melior::ir::Value::from(result)));
                    self.ranges.insert(result, Interval::new(0, bound - 1));
                }
                return Ok(());
            }
            _ => operation,
        };
        if operation.region_count() == 0 {
            return Ok(());
        }
        let is_function = matches!(name, "func.func" | "gpu.func");
        self.rewriter.blocks(operation).into_iter().try_for_each(|block| self.block(block, is_function))
    }

    fn value(&mut self, operation: OperationRef<'c, 'r>, name: &str, is_top_level: bool) -> Result<(), RewriteError> {
        let Some(mapped) = mapped(operation, "map", operation.operands().map(Value::from).collect()) else {
            return Ok(());
        };
        let range = self.range_of_results(&mapped, name);
        if !self.divides(&mapped) {
            for result in operation.results() {
                let result = key(Value::from(melior::ir::Value::from(result)));
                self.ranges.insert(result, range);
                if !is_top_level && self.uses_plain(&mapped) {
                    self.plain.insert(result);
                }
            }
            return Ok(());
        }
        let code = self.code(operation)?;
        let combine = |a, b| if name == "affine.min" { code.builder.minsi(a, b) } else { code.builder.maxsi(a, b) };
        let Some(value) = code.results(&mapped).into_iter().reduce(combine) else { return Ok(()) };
        self.ranges.insert(key(value), range);
        if !is_top_level {
            self.plain.insert(key(value));
        }
        self.replace(operation, &[value])
    }

    fn load(&mut self, operation: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
        let Some((&memref, index)) = operands.split_first() else { return Ok(()) };
        let Some(mapped) = self.division_to_lower(operation, index) else { return Ok(()) };
        let Some(result) = operation.results().next() else { return Ok(()) };
        let code = self.code(operation)?;
        let place = code.results(&mapped);
        let loaded = code.builder.plain_load(memref, &place, melior::ir::Value::from(result).r#type());
        self.replace(operation, &[loaded])
    }

    fn store(&mut self, operation: OperationRef<'c, 'r>) -> Result<(), RewriteError> {
        let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
        let [value, memref, index @ ..] = &operands[..] else { return Ok(()) };
        let Some(mapped) = self.division_to_lower(operation, index) else { return Ok(()) };
        let code = self.code(operation)?;
        code.builder.plain_store(*value, *memref, &code.results(&mapped));
        self.replace(operation, &[])
    }

    /// The map of an access that must be lowered.
    fn division_to_lower(&mut self, operation: OperationRef<'c, 'r>, index: &[Value<'c>]) -> Option<Mapped<'c>> {
        let mapped = mapped(operation, "map", index.to_vec())?;
        (self.uses_plain(&mapped) || self.divides(&mapped)).then_some(mapped)
    }

    /// The loop, or the `scf.for` in its place.
    fn for_loop(&mut self, operation: OperationRef<'c, 'r>) -> Result<OperationRef<'c, 'r>, RewriteError> {
        let Some((lower, upper, initial)) = loop_bounds(operation) else { return Ok(operation) };
        let blocks = self.rewriter.blocks(operation);
        let ([body], Some(step)) = (&blocks[..], operation.attribute("step").ok().and_then(attributes::integer)) else {
            return Ok(operation);
        };
        let range = Interval::new(
            self.range_of_results(&lower, "affine.max").lower,
            self.range_of_results(&upper, "affine.min").upper.saturating_sub(1),
        );
        if let Ok(variable) = body.argument(0) {
            self.ranges.insert(key(Value::from(melior::ir::Value::from(variable))), range);
        }
        if ![&lower, &upper].into_iter().any(|bound| self.uses_plain(bound) || self.divides(bound)) {
            return Ok(operation);
        }
        let code = self.code(operation)?;
        let builder = &code.builder;
        let bound = |mapped: &Mapped<'c>, combine: &dyn Fn(Value<'c>, Value<'c>) -> Value<'c>| {
            code.results(mapped).into_iter().reduce(combine)
        };
        let lower = bound(&lower, &|a, b| builder.maxsi(a, b));
        let upper = bound(&upper, &|a, b| builder.minsi(a, b));
        let (Some(lower), Some(upper)) = (lower, upper) else { return Ok(operation) };
        let mut variable = None;
        let step = builder.constant_index(step);
        let results = builder.for_loop(lower, upper, step, &initial, |builder, position, carried| {
            variable = Some(key(position));
            let arguments = [&[position], carried].concat();
            self.move_body(*body, builder, &arguments)
        })?;
        if let Some(variable) = variable {
            self.ranges.insert(variable, range);
            self.plain.insert(variable);
        }
        self.replaced_by_next(operation, step, &results)
    }

    /// The branches, or the `scf.if` in their place.
    fn branches(&mut self, operation: OperationRef<'c, 'r>) -> Result<OperationRef<'c, 'r>, RewriteError> {
        let condition = operation.attribute("condition").ok().and_then(conditions_of);
        let Some((conditions, dimensions)) = condition else { return Ok(operation) };
        let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
        let expressions: Vec<Expr<'c>> = conditions.iter().map(|(expression, _)| *expression).collect();
        let context = self.rewriter.context();
        let map = affine::map(context, dimensions, operands.len().saturating_sub(dimensions), &expressions);
        let mapped = Mapped { map, operands };
        if !self.uses_plain(&mapped) && !self.divides(&mapped) {
            return Ok(operation);
        }
        let code = self.code(operation)?;
        let builder = &code.builder;
        let zero = builder.constant_index(0);
        let tests = code.results(&mapped).into_iter().zip(&conditions).map(|(value, (_, is_equality))| {
            let predicate = if *is_equality { CmpiPredicate::Eq } else { CmpiPredicate::Sge };
            builder.cmpi(predicate, value, zero)
        });
        let Some(holds) = tests.reduce(|all, test| builder.andi(all, test)) else { return Ok(operation) };
        let types: Vec<_> = operation.results().map(|result| melior::ir::Value::from(result).r#type()).collect();
        let blocks = self.rewriter.blocks(operation);
        let results = match blocks[..] {
            [then_block] => {
                builder.if_then(holds, |builder| self.move_body(then_block, builder, &[]).map(|_| ()))?;
                Vec::new()
            }
            [then_block, else_block] => builder.if_else(holds, &types, |builder, holds| {
                self.move_body(if holds { then_block } else { else_block }, builder, &[])
            })?,
            _ => return Ok(operation),
        };
        self.replaced_by_next(operation, holds, &results)
    }

    /// Moves a block's operations to a builder; returns what the block yields.
    fn move_body(
        &self,
        block: BlockRef<'c, 'r>,
        builder: &OpBuilder<'c>,
        arguments: &[Value<'c>],
    ) -> Result<Vec<Value<'c>>, RewriteError> {
        let yielded = self.rewriter.inline_block(block, builder, arguments)?;
        if let Some(terminator) = block.terminator() {
            self.rewriter.erase(terminator)?;
        }
        Ok(yielded)
    }

    fn replace(&mut self, operation: OperationRef<'c, 'r>, values: &[Value<'c>]) -> Result<(), RewriteError> {
        self.replaced += 1;
        self.rewriter.replace_with(operation, values)
    }

    /// Replaces an operation by the one that was created right behind that of a value.
    fn replaced_by_next(
        &mut self,
        operation: OperationRef<'c, 'r>,
        before: Value<'c>,
        values: &[Value<'c>],
    ) -> Result<OperationRef<'c, 'r>, RewriteError> {
        let rewriter: &'r Rewriter<'c, '_> = self.rewriter;
        let created = rewriter.definition(before.into()).and_then(|(definition, _)| definition.next_in_block());
        self.replace(operation, values)?;
        Ok(created.unwrap_or(operation))
    }

    fn uses_plain(&self, mapped: &Mapped<'c>) -> bool {
        !self.plain.is_empty() && mapped.operands.iter().any(|&operand| self.plain.contains(&key(operand)))
    }

    /// Whether there is a division that can be made unsigned.
    fn divides(&mut self, mapped: &Mapped<'c>) -> bool {
        let results = affine::results(mapped.map);
        if !results.iter().any(|&result| has_division(result)) {
            return false;
        }
        let ranges = self.operand_ranges(mapped);
        results.iter().any(|&result| is_lowered(result, &ranges))
    }

    fn operand_ranges(&mut self, mapped: &Mapped<'c>) -> Ranges {
        let ranges = mapped.operands.iter().map(|&operand| self.range(operand)).collect();
        Ranges { operands: ranges, dimensions: mapped.map.dim_count() }
    }

    fn code(&mut self, operation: OperationRef<'c, 'r>) -> Result<Code<'c, '_>, RewriteError> {
        let builder = self.rewriter.builder_before(self.rewriter.context(), operation)?;
        Ok(Code { builder, ranges: &self.ranges })
    }

    /// The values that an index takes.
    fn range(&mut self, value: Value<'c>) -> Interval {
        if let Some(&range) = self.ranges.get(&key(value)) {
            return range;
        }
        // Variables of affine loops, and results of apply, min and max, were met before their uses.
        let constant = value.constant().map(Interval::point);
        let range = constant.unwrap_or(Interval::FULL);
        self.ranges.insert(key(value), range);
        range
    }

    fn range_of_results(&mut self, mapped: &Mapped<'c>, name: &str) -> Interval {
        let ranges = self.operand_ranges(mapped);
        let results = affine::results(mapped.map).iter().map(|&result| ranges.range(result));
        let combined = results.reduce(|a, b| if name == "affine.min" { a.min(b) } else { a.max(b) });
        combined.unwrap_or(Interval::FULL)
    }
}

fn mapped<'c>(operation: OperationRef<'c, '_>, name: &str, operands: Vec<Value<'c>>) -> Option<Mapped<'c>> {
    let map = operation.attribute(name).ok().and_then(map_of)?;
    (operands.len() == map.dim_count() + map.symbol_count()).then_some(Mapped { map, operands })
}

/// Bounds and initial values of an `affine.for`.
fn loop_bounds<'c>(operation: OperationRef<'c, '_>) -> Option<(Mapped<'c>, Mapped<'c>, Vec<Value<'c>>)> {
    let segments = operation.attribute("operandSegmentSizes").ok().and_then(attributes::segment_sizes)?;
    let [lower, upper, _] = segments[..] else { return None };
    let operands: Vec<Value<'c>> = operation.operands().map(Value::from).collect();
    let (lower_operands, rest) = operands.split_at_checked(lower)?;
    let (upper_operands, initial) = rest.split_at_checked(upper)?;
    let lower = mapped(operation, "lowerBoundMap", lower_operands.to_vec())?;
    let upper = mapped(operation, "upperBoundMap", upper_operands.to_vec())?;
    Some((lower, upper, initial.to_vec()))
}

/// Ranges of the operands of a map.
struct Ranges {
    operands: Vec<Interval>,
    dimensions: usize,
}

impl Ranges {
    fn range(&self, expression: Expr<'_>) -> Interval {
        let operand = |position: usize| self.operands.get(position).copied().unwrap_or(Interval::FULL);
        match expression.kind() {
            ExprKind::Constant(value) => Interval::point(value),
            ExprKind::Variable(Var::Dim(position)) => operand(position as usize),
            ExprKind::Variable(Var::Symbol(position)) => operand(self.dimensions + position as usize),
            ExprKind::Binary(operator, left, right) => {
                let (left, right) = (self.range(left), self.range(right));
                match operator {
                    Operator::Add => left + right,
                    Operator::Mul => left * right,
                    Operator::FloorDiv => left.floordiv(right),
                    Operator::CeilDiv => left.ceildiv(right),
                    Operator::Mod => left.modulo(right),
                }
            }
        }
    }
}

/// The dividend and the constant divisor of a division.
fn division<'c>(expression: Expr<'c>) -> Option<(Operator, Expr<'c>, i64)> {
    let ExprKind::Binary(operator, left, right) = expression.kind() else { return None };
    let is_division = matches!(operator, Operator::FloorDiv | Operator::CeilDiv | Operator::Mod);
    match right.kind() {
        ExprKind::Constant(divisor) if is_division && divisor > 0 => Some((operator, left, divisor)),
        _ => None,
    }
}

fn has_division(expression: Expr<'_>) -> bool {
    match expression.kind() {
        ExprKind::Binary(_, left, right) => division(expression).is_some() || has_division(left) || has_division(right),
        ExprKind::Constant(_) | ExprKind::Variable(_) => false,
    }
}

/// Whether an expression has divisions, all of which can be made unsigned.
fn is_lowered(expression: Expr<'_>, ranges: &Ranges) -> bool {
    has_division(expression) && can_be_lowered(expression, ranges)
}

fn can_be_lowered(expression: Expr<'_>, ranges: &Ranges) -> bool {
    let ExprKind::Binary(operator, left, right) = expression.kind() else { return true };
    if let Some((_, dividend, _)) = division(expression) {
        return ranges.range(dividend).lower >= LOWEST_DIVIDEND && can_be_lowered(dividend, ranges);
    }
    matches!(operator, Operator::Add | Operator::Mul) && can_be_lowered(left, ranges) && can_be_lowered(right, ranges)
}

/// Writes index arithmetic.
struct Code<'c, 'p> {
    builder: OpBuilder<'c>,
    ranges: &'p HashMap<usize, Interval>,
}

impl<'c> Code<'c, '_> {
    /// The results of a map; those without divisions, or with ones that cannot be made unsigned, as `affine.apply`.
    fn results(&self, mapped: &Mapped<'c>) -> Vec<Value<'c>> {
        let ranges = mapped.operands.iter().map(|&operand| {
            self.ranges
                .get(&key(operand))
                .copied()
                .unwrap_or_else(|| operand.constant().map_or(Interval::FULL, Interval::point))
        });
        let ranges = Ranges { operands: ranges.collect(), dimensions: mapped.map.dim_count() };
        affine::results(mapped.map)
            .iter()
            .map(|&result| match result.kind() {
                _ if is_lowered(result, &ranges) => self.expression(result, mapped, &ranges),
                ExprKind::Constant(value) => self.builder.constant_index(value),
                ExprKind::Variable(Var::Dim(position)) => mapped.operands[position as usize],
                ExprKind::Variable(Var::Symbol(position)) => mapped.operands[ranges.dimensions + position as usize],
                ExprKind::Binary(..) => {
                    // Any index can be a dimension of `affine.apply`.
                    let (dimensions, count) = (ranges.dimensions, mapped.operands.len());
                    let context = self.builder.context();
                    let symbols: Vec<Expr<'c>> = (dimensions..count).map(|i| Expr::dim(context, i)).collect();
                    let map = affine::map(context, count, 0, &[result.replace(&[], &symbols)]);
                    self.builder.affine_apply(&AffineValues { map, operands: mapped.operands.clone() })
                }
            })
            .collect()
    }

    fn expression(&self, expression: Expr<'c>, mapped: &Mapped<'c>, ranges: &Ranges) -> Value<'c> {
        let builder = &self.builder;
        if let Some((operator, dividend, divisor)) = division(expression) {
            return self.division(operator, dividend, divisor, (mapped, ranges));
        }
        match expression.kind() {
            ExprKind::Constant(value) => builder.constant_index(value),
            ExprKind::Variable(Var::Dim(position)) => mapped.operands[position as usize],
            ExprKind::Variable(Var::Symbol(position)) => mapped.operands[ranges.dimensions + position as usize],
            ExprKind::Binary(operator, left, right) => {
                let left = self.expression(left, mapped, ranges);
                let right = self.expression(right, mapped, ranges);
                if operator == Operator::Add { builder.addi(left, right) } else { builder.muli(left, right) }
            }
        }
    }

    fn division(
        &self,
        operator: Operator,
        dividend: Expr<'c>,
        divisor: i64,
        (mapped, ranges): (&Mapped<'c>, &Ranges),
    ) -> Value<'c> {
        let builder = &self.builder;
        // x ceildiv d => (x + d - 1) floordiv d
        let rounding = if operator == Operator::CeilDiv { divisor - 1 } else { 0 };
        let lower = ranges.range(dividend).lower + rounding;
        let multiples = if lower < 0 { (-lower + divisor - 1) / divisor } else { 0 };
        let mut value = self.expression(dividend, mapped, ranges);
        if rounding + multiples * divisor != 0 {
            value = builder.addi(value, builder.constant_index(rounding + multiples * divisor));
        }
        let is_power = divisor & (divisor - 1) == 0;
        if operator == Operator::Mod {
            return match is_power {
                true => builder.andi(value, builder.constant_index(divisor - 1)),
                false => builder.remui(value, builder.constant_index(divisor)),
            };
        }
        let quotient = match is_power {
            true => builder.shrui(value, builder.constant_index(i64::from(divisor.trailing_zeros()))),
            false => builder.divui(value, builder.constant_index(divisor)),
        };
        if multiples == 0 { quotient } else { builder.subi(quotient, builder.constant_index(multiples)) }
    }
}
