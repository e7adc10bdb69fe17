//! Elements of fused instructions as code: the value of an instruction at an index.
//!
//! [`Elemental::evaluate`] follows a fusion from its root to its inputs. Elementwise instructions are emitted on
//! registers; shape and indexing instructions only change the index, through their indexing maps; parameters are
//! loaded. An index that depends on the lane variable asks for a vector: loads are contiguous, strided, uniform
//! (and then broadcast late) or, lane by lane, irregular. What was evaluated at an index is not evaluated again in
//! the same block or one inside it.

use std::collections::HashMap;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use indexing::{Constraint, Expr, Interval};
use melior::ir::Type;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::operand_maps::{operand_map, operand_shape, result_shape};
use crate::scalar::{self, Lanes};
use crate::scope::{LaneAccess, Scope};

type Result<T> = std::result::Result<T, LoweringError>;

/// Values by instruction and index, for one level of nesting.
type Values<'c> = HashMap<(InstructionId, Vec<Expr>), Vec<Lanes<'c>>>;

/// Emits elements of one fused computation.
pub struct Elemental<'a, 'c> {
    /// Where code goes.
    pub builder: &'a OpBuilder<'c>,
    /// The fused computation.
    pub computation: &'a Computation,
    /// Arrays of the parameters.
    pub inputs: &'a [ArrayRef<'c>],
    /// Variables in scope.
    pub scope: Scope<'c>,
    /// Lanes that a reduction may use for vectors of its own.
    pub vector_lanes: u32,
    values: Vec<Values<'c>>,
    starts: Vec<HashMap<(InstructionId, usize, Vec<Expr>), Expr>>,
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// An emitter with no variables in scope.
    pub fn new(
        builder: &'a OpBuilder<'c>,
        computation: &'a Computation,
        inputs: &'a [ArrayRef<'c>],
        vector_lanes: u32,
    ) -> Self {
        Elemental {
            builder,
            computation,
            inputs,
            scope: Scope::new(),
            vector_lanes,
            values: vec![HashMap::new()],
            starts: vec![HashMap::new()],
        }
    }

    /// Runs `body` for code in a nested block: variables and values made there are forgotten afterwards.
    pub fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let variables = self.scope.len();
        self.values.push(HashMap::new());
        self.starts.push(HashMap::new());
        let result = body(self);
        self.starts.pop();
        self.values.pop();
        self.scope.truncate(variables);
        result
    }

    /// The element of an array-shaped instruction at an index.
    pub fn evaluate(&mut self, id: InstructionId, index: &[Expr]) -> Result<Lanes<'c>> {
        self.evaluate_all(id, index)?
            .first()
            .copied()
            .ok_or_else(|| LoweringError::bug(format!("`{}` has no value", self.computation.get(id).name)))
    }

    /// The elements of all results of an instruction (one, except for variadic reductions).
    pub fn evaluate_all(&mut self, id: InstructionId, index: &[Expr]) -> Result<Vec<Lanes<'c>>> {
        let key = (id, index.to_vec());
        if let Some(known) = self.values.iter().rev().find_map(|level| level.get(&key)) {
            return Ok(known.clone());
        }
        let computation = self.computation;
        let values = self.compute(id, computation.get(id), index)?;
        if let Some(level) = self.values.last_mut() {
            level.insert(key, values.clone());
        }
        Ok(values)
    }

    fn compute(&mut self, id: InstructionId, instruction: &'a Instruction, index: &[Expr]) -> Result<Vec<Lanes<'c>>> {
        let one = |value| Ok(vec![value]);
        match instruction.kind {
            OpKind::Parameter => {
                let number = instruction.parameter_number().unwrap_or(usize::MAX);
                let array = self.inputs.get(number).ok_or_else(|| LoweringError::bug("missing fusion input"))?;
                one(self.load(array, index))
            }
            OpKind::Constant => one(self.constant(instruction)?),
            OpKind::Iota => {
                let dimension = instruction.attributes.int("iota_dimension").unwrap_or(0) as usize;
                let element_type = result_shape(instruction)?.element_type;
                let position = index.get(dimension).cloned().unwrap_or_else(|| Expr::constant(0));
                one(self.index_value(&position, element_type)?)
            }
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::Reverse
            | OpKind::Slice
            | OpKind::Copy => {
                let map = operand_map(self.computation, instruction, 0)?.map;
                let operand_index = self.apply(map.results(), index, &[]);
                one(self.evaluate(instruction.operands[0], &operand_index)?)
            }
            OpKind::Pad => one(self.pad(instruction, index)?),
            OpKind::Concatenate => one(self.concatenate(instruction, index, 0)?),
            OpKind::DynamicSlice | OpKind::Gather => one(self.lookup(id, instruction, index)?),
            OpKind::Reduce => self.reduce(instruction, index),
            OpKind::ReduceWindow => self.reduce_window(instruction, index),
            OpKind::Dot | OpKind::Convolution => one(self.contract(instruction, index)?),
            OpKind::Map => {
                let operands = self.operands_at(instruction, index)?;
                self.scalar_computation(&instruction.computations[0], &operands)
            }
            _ => {
                let operands = self.operands_at(instruction, index)?;
                let element_type = result_shape(instruction)?.element_type;
                one(self.elementwise(instruction, &operands, element_type)?)
            }
        }
    }

    /// Operands of an elementwise instruction: at the same index, scalars at none.
    fn operands_at(&mut self, instruction: &'a Instruction, index: &[Expr]) -> Result<Vec<Lanes<'c>>> {
        let mut operands = Vec::with_capacity(instruction.operands.len());
        for (number, &operand) in instruction.operands.iter().enumerate() {
            let is_scalar = operand_shape(self.computation, instruction, number)?.rank() == 0;
            operands.push(self.evaluate(operand, if is_scalar { &[] } else { index })?);
        }
        Ok(operands)
    }

    fn elementwise(&self, instruction: &Instruction, operands: &[Lanes<'c>], result: ElementType) -> Result<Lanes<'c>> {
        scalar::elementwise(self.builder, instruction.kind, &instruction.attributes, operands, result).map_err(
            |error| LoweringError::Unsupported {
                op: instruction.kind,
                platform: "cpu",
                what: error.to_string(),
                instruction: instruction.name.clone(),
            },
        )
    }

    fn constant(&self, instruction: &Instruction) -> Result<Lanes<'c>> {
        match instruction.literal() {
            Some(Literal::Array(array)) if array.shape().rank() == 0 => {
                Ok(scalar::constant(self.builder, array.element_type(), array.bytes(), None))
            }
            Some(Literal::Elided(_)) => Err(LoweringError::Elided(instruction.name.clone())),
            _ => Err(LoweringError::bug(format!("constant `{}` is not a scalar", instruction.name))),
        }
    }

    /// Results of a map at an index, simplified with the ranges in scope.
    pub fn apply(&self, results: &[Expr], index: &[Expr], runtimes: &[Expr]) -> Vec<Expr> {
        self.apply_with_ranges(results, index, &[], runtimes)
    }

    /// As [`Self::apply`], with values of the map's range variables.
    pub fn apply_with_ranges(&self, results: &[Expr], index: &[Expr], ranges: &[Expr], runtimes: &[Expr]) -> Vec<Expr> {
        results.iter().map(|result| self.scope.simplify(&substitute(result, index, ranges, runtimes))).collect()
    }

    /// A value of an integer or float type that equals an index expression.
    fn index_value(&self, expr: &Expr, element_type: ElementType) -> Result<Lanes<'c>> {
        let builder = self.builder;
        let uses_lane = self.scope.uses_lane(expr);
        let value = if uses_lane { self.scope.emit_lanes(builder, expr) } else { self.scope.emit(builder, expr) };
        let lanes = if uses_lane { self.scope.lanes() } else { None };
        let wide = scalar::register_type(builder, ElementType::S64, lanes);
        let value = builder.value("arith.index_cast", &[value], wide, &[]);
        let value = Lanes { element_type: ElementType::S64, lanes, value, imaginary: None };
        scalar::convert::convert(builder, &value, element_type)
            .ok_or_else(|| LoweringError::bug(format!("iota of {element_type}")))
    }

    /// Loads the element of an array at an index.
    pub(crate) fn load(&self, array: &ArrayRef<'c>, index: &[Expr]) -> Lanes<'c> {
        let address = self.scope.simplify(&linear_address(&array.dimensions, index));
        match self.scope.lane_access(&address) {
            LaneAccess::Uniform => self.load_contiguous(array, &address, None),
            LaneAccess::Strided(1) => self.load_contiguous(array, &self.scope.at_lane(&address, 0), self.scope.lanes()),
            LaneAccess::Strided(_) | LaneAccess::Irregular => {
                let lanes = self.scope.lanes().unwrap_or(1);
                if self.scope.lane_access(&address) == LaneAccess::Strided(-1) {
                    let last = self.scope.at_lane(&address, lanes - 1);
                    return self.reversed(&self.load_contiguous(array, &last, Some(lanes)), lanes);
                }
                let elements: Vec<Lanes<'c>> = (0..lanes)
                    .map(|lane| self.load_contiguous(array, &self.scope.at_lane(&address, lane), None))
                    .collect();
                scalar::from_elements(self.builder, &elements).unwrap_or(elements[0])
            }
        }
    }

    fn reversed(&self, value: &Lanes<'c>, lanes: u32) -> Lanes<'c> {
        let mask: Vec<u32> = (0..lanes).rev().collect();
        let parts: Vec<Value<'c>> =
            value.values().iter().map(|&part| self.builder.shuffle(part, part, &mask)).collect();
        value.with_values(&parts)
    }

    /// Loads one element or consecutive elements from a lane-free address.
    fn load_contiguous(&self, array: &ArrayRef<'c>, address: &Expr, lanes: Option<u32>) -> Lanes<'c> {
        let builder = self.builder;
        let r#type = scalar::load_type(builder, array.element_type, lanes);
        let position = self.memory_position(array, address);
        let name = if lanes.is_some() || array.element_type.is_complex() { "vector.load" } else { "memref.load" };
        let loaded = builder.value(name, &[array.memref, position], r#type, &[]);
        scalar::from_memory(builder, array.element_type, lanes, loaded)
    }

    /// Stores one element or consecutive elements at an index whose last variable is the lane, if any.
    pub fn store(&self, array: &ArrayRef<'c>, index: &[Expr], value: &Lanes<'c>) -> Result<()> {
        let builder = self.builder;
        let address = self.scope.simplify(&linear_address(&array.dimensions, index));
        let lanes = self.scope.lanes();
        let value = scalar::splat(builder, value, lanes);
        match (lanes, self.scope.lane_access(&address)) {
            (None, _) => self.store_contiguous(array, &address, &value),
            (Some(_), LaneAccess::Strided(1)) => self.store_contiguous(array, &self.scope.at_lane(&address, 0), &value),
            (Some(lanes), _) => {
                for lane in 0..lanes {
                    let element = scalar::registers::extract(builder, &value, lane);
                    self.store_contiguous(array, &self.scope.at_lane(&address, lane), &element);
                }
            }
        }
        Ok(())
    }

    fn store_contiguous(&self, array: &ArrayRef<'c>, address: &Expr, value: &Lanes<'c>) {
        let builder = self.builder;
        let position = self.memory_position(array, address);
        let stored = scalar::to_memory(builder, value);
        let is_vector = builder.lanes_of(stored.r#type()).is_some();
        let name = if is_vector { "vector.store" } else { "memref.store" };
        builder.effect(name, &[stored, array.memref, position], &[]);
    }

    fn memory_position(&self, array: &ArrayRef<'c>, address: &Expr) -> Value<'c> {
        let parts = if array.element_type.is_complex() { 2 } else { 1 };
        self.scope.emit(self.builder, &self.scope.simplify(&(address.clone() * parts)))
    }

    /// pad: the operand's element where the conditions hold, the padding value elsewhere.
    fn pad(&mut self, instruction: &'a Instruction, index: &[Expr]) -> Result<Lanes<'c>> {
        let map = operand_map(self.computation, instruction, 0)?;
        let conditions = self.substituted(&map.conditions, index);
        let (operand, padding) = (instruction.operands[0], instruction.operands[1]);
        let sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        let operand_index = self.apply(map.map.results(), index, &[]);
        self.choose(
            &conditions,
            result_shape(instruction)?.element_type,
            &operand_index,
            &sizes,
            &mut |emitter, index| emitter.evaluate(operand, index),
            &mut |emitter| emitter.evaluate(padding, &[]),
        )
    }

    /// concatenate: the first operand from number `first` on whose part the index is in.
    fn concatenate(&mut self, instruction: &'a Instruction, index: &[Expr], first: usize) -> Result<Lanes<'c>> {
        let map = operand_map(self.computation, instruction, first)?;
        let conditions = self.substituted(&map.conditions, index);
        let operand = instruction.operands[first];
        let operand_index = self.apply(map.map.results(), index, &[]);
        if first + 1 == instruction.operands.len() {
            return self.evaluate(operand, &operand_index);
        }
        let sizes = operand_shape(self.computation, instruction, first)?.dimensions.clone();
        self.choose(
            &conditions,
            result_shape(instruction)?.element_type,
            &operand_index,
            &sizes,
            &mut |emitter, index| emitter.evaluate(operand, index),
            &mut |emitter| emitter.concatenate(instruction, index, first + 1),
        )
    }

    /// Conditions of a map at an index.
    fn substituted(&self, conditions: &[Constraint], index: &[Expr]) -> Vec<Constraint> {
        conditions
            .iter()
            .map(|condition| {
                Constraint::new(self.scope.simplify(&substitute(&condition.expr, index, &[], &[])), condition.interval)
            })
            .collect()
    }

    /// One of two elements by conditions; see [`Self::choose_all`].
    fn choose(
        &mut self,
        conditions: &[Constraint],
        element_type: ElementType,
        index: &[Expr],
        sizes: &[i64],
        inside: &mut dyn FnMut(&mut Self, &[Expr]) -> Result<Lanes<'c>>,
        outside: &mut dyn FnMut(&mut Self) -> Result<Lanes<'c>>,
    ) -> Result<Lanes<'c>> {
        let part = scalar::register_type(self.builder, element_type, self.scope.lanes());
        let values = self.choose_all(
            conditions,
            &[(element_type, part)],
            index,
            sizes,
            &mut |emitter, index| Ok(vec![inside(emitter, index)?]),
            &mut |emitter| Ok(vec![outside(emitter)?]),
        )?;
        values.first().copied().ok_or_else(|| LoweringError::bug("choice without a value"))
    }

    /// A step of an accumulation that is left out where the conditions do not hold.
    pub(crate) fn guarded_step(
        &mut self,
        conditions: &[Constraint],
        index: &[Expr],
        sizes: &[i64],
        accumulators: &[Lanes<'c>],
        step: &mut dyn FnMut(&mut Self, &[Expr]) -> Result<Vec<Lanes<'c>>>,
    ) -> Result<Vec<Lanes<'c>>> {
        let types: Vec<(ElementType, Type<'c>)> =
            accumulators.iter().map(|value| (value.element_type, value.value.r#type())).collect();
        self.choose_all(conditions, &types, index, sizes, step, &mut |_| Ok(accumulators.to_vec()))
    }

    /// One of two lists of values by conditions that may be known, differ between iterations, or between lanes.
    ///
    /// `types` are the element types and the types of their parts. `inside` is evaluated at `index` only where
    /// the conditions hold, or at `index` clamped to `sizes`.
    fn choose_all(
        &mut self,
        conditions: &[Constraint],
        types: &[(ElementType, Type<'c>)],
        index: &[Expr],
        sizes: &[i64],
        inside: &mut dyn FnMut(&mut Self, &[Expr]) -> Result<Vec<Lanes<'c>>>,
        outside: &mut dyn FnMut(&mut Self) -> Result<Vec<Lanes<'c>>>,
    ) -> Result<Vec<Lanes<'c>>> {
        let truths: Vec<Option<bool>> = conditions.iter().map(|condition| self.scope.truth(condition)).collect();
        if truths.contains(&Some(false)) || sizes.contains(&0) {
            return outside(self);
        }
        let open: Vec<&Constraint> = conditions
            .iter()
            .zip(&truths)
            .filter(|(_, truth)| truth.is_none())
            .map(|(condition, _)| condition)
            .collect();
        if open.is_empty() {
            return inside(self, index);
        }
        let by_lane = open.iter().any(|condition| self.scope.uses_lane(&condition.expr));
        let holds = self.conjunction(&open, by_lane);
        let lanes = self.scope.lanes();
        if by_lane {
            let clamped: Vec<Expr> = index.iter().zip(sizes).map(|(expr, &size)| self.clamped(expr, size)).collect();
            let inside_values = inside(self, &clamped)?;
            let outside_values = outside(self)?;
            let select = |(inside, outside): (&Lanes<'c>, &Lanes<'c>)| {
                let inside = scalar::splat(self.builder, inside, lanes);
                let outside = scalar::splat(self.builder, outside, lanes);
                let parts: Vec<Value<'c>> = inside
                    .values()
                    .into_iter()
                    .zip(outside.values())
                    .map(|(a, b)| self.builder.select(holds, a, b))
                    .collect();
                inside.with_values(&parts)
            };
            return Ok(inside_values.iter().zip(&outside_values).map(select).collect());
        }
        // Both branches agree in lanes: vectors if vectors are being emitted.
        let parts_of = |element_type: ElementType| if element_type.is_complex() { 2 } else { 1 };
        let part_types: Vec<Type<'c>> =
            types.iter().flat_map(|&(element_type, part)| std::iter::repeat_n(part, parts_of(element_type))).collect();
        let builder = self.builder;
        let failure = std::cell::Cell::new(None);
        let emitter = std::cell::RefCell::new(self);
        let branch = |evaluate: &mut dyn FnMut(&mut Self) -> Result<Vec<Lanes<'c>>>| -> Vec<Value<'c>> {
            match emitter.borrow_mut().nested(|emitter| evaluate(emitter)) {
                Ok(values) => values.iter().flat_map(|value| scalar::splat(builder, value, lanes).values()).collect(),
                Err(error) => {
                    failure.set(Some(error));
                    part_types.iter().map(|&part| zero(builder, part)).collect()
                }
            }
        };
        let results =
            builder.if_else(holds, &part_types, |_| branch(&mut |emitter| inside(emitter, index)), |_| branch(outside));
        if let Some(error) = failure.take() {
            return Err(error);
        }
        let mut rest = results.into_iter();
        Ok(types
            .iter()
            .filter_map(|&(element_type, _)| {
                let value = rest.next()?;
                let imaginary = if element_type.is_complex() { rest.next() } else { None };
                Some(Lanes { element_type, lanes, value, imaginary })
            })
            .collect())
    }

    /// An index kept inside `[0, size - 1]`.
    fn clamped(&self, expr: &Expr, size: i64) -> Expr {
        if Interval::new(0, size - 1).contains_interval(self.scope.range(expr)) {
            return expr.clone();
        }
        self.scope.simplify(&expr.clone().max(0).min(size - 1))
    }

    /// `i1` (a vector of them if `by_lane`): all constraints hold.
    fn conjunction(&self, constraints: &[&Constraint], by_lane: bool) -> Value<'c> {
        let builder = self.builder;
        let mut all: Option<Value<'c>> = None;
        for constraint in constraints {
            let range = self.scope.range(&constraint.expr);
            let value = if by_lane {
                self.scope.emit_lanes(builder, &constraint.expr)
            } else {
                self.scope.emit(builder, &constraint.expr)
            };
            let mut test = |predicate, bound| {
                let bound = builder.integer_like(value, bound);
                let holds = builder.cmpi(predicate, value, bound);
                all = Some(match all {
                    Some(all) => builder.andi(all, holds),
                    None => holds,
                });
            };
            if range.lower < constraint.interval.lower {
                test(CmpiPredicate::Sge, constraint.interval.lower);
            }
            if range.upper > constraint.interval.upper {
                test(CmpiPredicate::Sle, constraint.interval.upper);
            }
        }
        all.unwrap_or_else(|| {
            let lanes = if by_lane { self.scope.lanes() } else { None };
            let r#type = scalar::register_type(builder, ElementType::Pred, lanes);
            builder.constant_integer(r#type, 1)
        })
    }

    /// dynamic-slice and gather: the operand's element at a start read from memory plus an offset.
    fn lookup(&mut self, id: InstructionId, instruction: &'a Instruction, index: &[Expr]) -> Result<Lanes<'c>> {
        let map = operand_map(self.computation, instruction, 0)?.map;
        let sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        if sizes.contains(&0) {
            return Ok(self.zeros(result_shape(instruction)?.element_type));
        }
        let start_indices: Vec<Vec<Expr>> = map
            .runtimes()
            .iter()
            .map(|runtime| {
                let source = runtime.source.as_ref().map(|source| source.index.as_slice()).unwrap_or_default();
                self.apply(source, index, &[])
            })
            .collect();
        if start_indices.iter().flatten().any(|expr| self.scope.uses_lane(expr)) {
            return self.lane_by_lane(index, |emitter, index| emitter.lookup(id, instruction, index));
        }
        let mut starts = Vec::new();
        for (number, (runtime, start_index)) in map.runtimes().iter().zip(&start_indices).enumerate() {
            let key = (id, number, start_index.clone());
            if let Some(known) = self.starts.iter().rev().find_map(|level| level.get(&key)) {
                starts.push(known.clone());
                continue;
            }
            let operand = runtime.source.as_ref().map_or(1, |source| source.value as usize);
            let value = self.evaluate(instruction.operands[operand], start_index)?;
            let start = self.clamped_start(&value, runtime.bounds);
            if let Some(level) = self.starts.last_mut() {
                level.insert(key, start.clone());
            }
            starts.push(start);
        }
        let operand_index = self.apply(map.results(), index, &starts);
        self.evaluate(instruction.operands[0], &operand_index)
    }

    /// A start index as a variable, clamped to its bounds.
    pub fn clamped_start(&mut self, value: &Lanes<'c>, bounds: Interval) -> Expr {
        if bounds.lower >= bounds.upper {
            return Expr::constant(bounds.lower);
        }
        let builder = self.builder;
        let start = self.to_index(value);
        let lower = builder.constant_index(bounds.lower);
        let upper = builder.constant_index(bounds.upper);
        let start = builder.value("arith.maxsi", &[start, lower], builder.index_type, &[]);
        let start = builder.value("arith.minsi", &[start, upper], builder.index_type, &[]);
        self.scope.add_variable(bounds, start)
    }

    /// A single integer element as `index`; unsigned values beyond `i64` saturate.
    pub fn to_index(&self, value: &Lanes<'c>) -> Value<'c> {
        let builder = self.builder;
        if value.element_type.class() == ElementClass::Unsigned {
            let wide = if value.element_type.bit_width() < 64 {
                builder.value("arith.extui", &[value.value], builder.integer_type(64), &[])
            } else {
                let maximum = builder.integer_like(value.value, i64::MAX);
                builder.value("arith.minui", &[value.value, maximum], builder.integer_type(64), &[])
            };
            return builder.value("arith.index_cast", &[wide], builder.index_type, &[]);
        }
        builder.value("arith.index_cast", &[value.value], builder.index_type, &[])
    }

    fn zeros(&self, element_type: ElementType) -> Lanes<'c> {
        scalar::constant(self.builder, element_type, &[], None)
    }

    /// A vector put together from the elements of each lane.
    pub fn lane_by_lane(
        &mut self,
        index: &[Expr],
        mut element: impl FnMut(&mut Self, &[Expr]) -> Result<Lanes<'c>>,
    ) -> Result<Lanes<'c>> {
        let indices: Vec<Vec<Expr>> = (0..self.scope.lanes().unwrap_or(1))
            .map(|lane| index.iter().map(|expr| self.scope.at_lane(expr, lane)).collect())
            .collect();
        // Nothing differs between lanes here, so no vectors are made of what is alike in them.
        let lane = self.scope.leave_lanes();
        let elements: Result<Vec<Lanes<'c>>> = indices.iter().map(|index| element(self, index)).collect();
        self.scope.return_to_lanes(lane);
        // What was computed before may be a vector whose lanes are alike.
        let elements: Vec<Lanes<'c>> =
            elements?.iter().map(|element| scalar::registers::extract(self.builder, element, 0)).collect();
        scalar::from_elements(self.builder, &elements).ok_or_else(|| LoweringError::bug("vector without lanes"))
    }

    /// Emits a computation on single elements (of `map`, `reduce`, `sort` …) with its arguments in registers.
    pub fn scalar_computation(&mut self, computation: &Computation, arguments: &[Lanes<'c>]) -> Result<Vec<Lanes<'c>>> {
        let mut values: Vec<Vec<Lanes<'c>>> = Vec::with_capacity(computation.instructions.len());
        for instruction in &computation.instructions {
            let operand = |number: usize| values[instruction.operands[number].index()].clone();
            let value = match instruction.kind {
                OpKind::Parameter => {
                    let number = instruction.parameter_number().unwrap_or(usize::MAX);
                    vec![*arguments.get(number).ok_or_else(|| LoweringError::bug("missing argument"))?]
                }
                OpKind::Constant => vec![self.constant(instruction)?],
                OpKind::Tuple => (0..instruction.operands.len()).flat_map(operand).collect(),
                OpKind::GetTupleElement => {
                    let index = instruction.attributes.int("index").unwrap_or(0) as usize;
                    vec![*operand(0).get(index).ok_or_else(|| LoweringError::bug("missing tuple element"))?]
                }
                // Everything here is rank 0, where these change nothing.
                OpKind::Broadcast | OpKind::Reshape | OpKind::Copy | OpKind::Transpose => operand(0),
                OpKind::Map => {
                    let arguments: Vec<Lanes<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    self.scalar_computation(&instruction.computations[0], &arguments)?
                }
                OpKind::Fusion => {
                    let arguments: Vec<Lanes<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    self.scalar_computation(&instruction.computations[0], &arguments)?
                }
                _ => {
                    let operands: Vec<Lanes<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    vec![self.elementwise(instruction, &operands, result_shape(instruction)?.element_type)?]
                }
            };
            values.push(value);
        }
        Ok(values.swap_remove(computation.root.index()))
    }
}

/// Replaces the variables of a map's expression.
pub fn substitute(expr: &Expr, dims: &[Expr], ranges: &[Expr], runtimes: &[Expr]) -> Expr {
    expr.substitute(&|variable| match variable {
        indexing::Var::Dim(number) => dims.get(number as usize).cloned(),
        indexing::Var::Range(number) => ranges.get(number as usize).cloned(),
        indexing::Var::Runtime(number) => runtimes.get(number as usize).cloned(),
    })
}

/// The row-major element offset of an index.
pub fn linear_address(dimensions: &[i64], index: &[Expr]) -> Expr {
    let strides = indexing::queries::row_major_strides(dimensions);
    index
        .iter()
        .zip(strides)
        .zip(dimensions)
        .filter(|(_, size)| **size != 1)
        .fold(Expr::constant(0), |sum, ((expr, stride), _)| sum + expr.clone() * stride)
}

/// Zero of a register type.
fn zero<'c>(builder: &OpBuilder<'c>, r#type: Type<'c>) -> Value<'c> {
    let element = builder.element_type_of(r#type);
    if element == Type::float32(builder.context()) || element == Type::float64(builder.context()) {
        builder.constant_float(r#type, 0.0)
    } else {
        builder.constant_integer(r#type, 0)
    }
}
