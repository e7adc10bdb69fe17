//! Elements of fused instructions as code: the value of an instruction at an index.
//!
//! [`Elemental::evaluate`] follows a fusion from its root to its inputs. Elementwise instructions are emitted on
//! registers; shape and indexing instructions only change the index, through their indexing maps; parameters are
//! loaded. An index that depends on the lane variable asks for a vector. What was evaluated at an index is not
//! evaluated again in the same block or one inside it.

use std::collections::HashMap;
use std::rc::Rc;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId, SourceTables};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::iota::IotaAttributes;
use indexing::{Constraint, Expr, Interval};
use melior::Context;
use melior::ir::{Location, Type};
use mlir_ext::builder::{OpBuilder, Value};

use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::operand_maps::{operand_map, operand_shape, result_shape};
use crate::scalar::{self, RegisterValue};
use crate::scope::{Binding, Scope};

type Result<T> = std::result::Result<T, LoweringError>;

/// Values by instruction and index, for one level of nesting.
type Values<'c> = HashMap<(InstructionId, Vec<Expr<'c>>), Vec<RegisterValue<'c>>>;

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
    starts: Vec<HashMap<(InstructionId, usize, Vec<Expr<'c>>), Expr<'c>>>,
    concatenates: HashMap<InstructionId, Rc<(usize, Vec<ConcatenatedPart>)>>,
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
            scope: Scope::new(builder.context()),
            vector_lanes,
            values: vec![HashMap::new()],
            starts: vec![HashMap::new()],
            concatenates: HashMap::new(),
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
    pub fn evaluate(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        self.evaluate_all(id, index)?
            .first()
            .copied()
            .ok_or_else(|| LoweringError::bug(format!("`{}` has no value", self.computation.get(id).name)))
    }

    /// The elements of all results of an instruction (one, except for variadic reductions).
    pub fn evaluate_all(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>> {
        let key = (id, index.to_vec());
        if let Some(known) = self.values.iter().rev().find_map(|level| level.get(&key)) {
            return Ok(known.clone());
        }
        let computation = self.computation;
        let instruction = computation.get(id);
        let outer = self.builder.set_location(instruction_location(self.builder.context(), instruction));
        let values = self.compute(id, instruction, index);
        self.builder.set_location(outer);
        let values = values?;
        self.remember(id, index, values.clone());
        Ok(values)
    }

    /// Notes the results of an instruction at an index.
    pub(crate) fn remember(&mut self, id: InstructionId, index: &[Expr<'c>], values: Vec<RegisterValue<'c>>) {
        if let Some(level) = self.values.last_mut() {
            level.insert((id, index.to_vec()), values);
        }
    }

    fn compute(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let one = |value| Ok(vec![value]);
        match instruction.kind {
            OpKind::Parameter => {
                let array = instruction.parameter_number().and_then(|number| self.inputs.get(number));
                one(self.load(array.ok_or_else(|| LoweringError::bug("missing fusion input"))?, index)?)
            }
            OpKind::Constant => one(self.constant(instruction)?),
            OpKind::Iota => {
                let element_type = result_shape(instruction)?.element_type;
                let IotaAttributes { iota_dimension } = instruction.attributes()?;
                let position = index.get(iota_dimension as usize);
                let position = position.ok_or_else(|| LoweringError::bug("an iota without its dimension"))?;
                one(self.index_value(*position, element_type)?)
            }
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::Reverse
            | OpKind::Slice
            | OpKind::Copy => {
                let map = operand_map(self.scope.context(), self.computation, instruction, 0)?.map;
                let operand_index = self.apply(map.results(), index, &[])?;
                one(self.evaluate(instruction.operands[0], &operand_index)?)
            }
            OpKind::Pad => one(self.pad(instruction, index)?),
            OpKind::Concatenate => {
                let known = self.concatenates.get(&id).cloned();
                let parts = match known {
                    Some(parts) => parts,
                    None => Rc::new(concatenated(self.computation, instruction)?),
                };
                self.concatenates.insert(id, Rc::clone(&parts));
                one(self.concatenate(instruction, index, parts.0, &parts.1)?)
            }
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
    fn operands_at(&mut self, instruction: &'a Instruction, index: &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>> {
        let mut operands = Vec::with_capacity(instruction.operands.len());
        for (number, &operand) in instruction.operands.iter().enumerate() {
            let is_scalar = operand_shape(self.computation, instruction, number)?.rank() == 0;
            operands.push(self.evaluate(operand, if is_scalar { &[] } else { index })?);
        }
        Ok(operands)
    }

    fn elementwise(
        &self,
        instruction: &Instruction,
        operands: &[RegisterValue<'c>],
        result: ElementType,
    ) -> Result<RegisterValue<'c>> {
        scalar::elementwise(self.builder, instruction.kind, &instruction.attributes, operands, result).map_err(
            |error| LoweringError::Unsupported {
                op: instruction.kind,
                platform: "cpu",
                what: error.to_string(),
                instruction: instruction.name.clone(),
            },
        )
    }

    fn constant(&self, instruction: &Instruction) -> Result<RegisterValue<'c>> {
        match instruction.literal() {
            Some(Literal::Array(array)) if array.shape().rank() == 0 => {
                Ok(scalar::constant(self.builder, array.element_type(), array.bytes(), None))
            }
            Some(Literal::Elided(_)) => Err(LoweringError::Elided(instruction.name.clone())),
            _ => Err(LoweringError::bug(format!("constant `{}` is not a scalar", instruction.name))),
        }
    }

    /// Results of a map at an index, simplified with the ranges in scope. Large ones become variables.
    pub fn apply(&mut self, results: &[Expr<'c>], index: &[Expr<'c>], runtimes: &[Expr<'c>]) -> Result<Vec<Expr<'c>>> {
        self.apply_with_ranges(results, index, &[], runtimes)
    }

    /// As [`Self::apply`], with values of the map's range variables.
    pub fn apply_with_ranges(
        &mut self,
        results: &[Expr<'c>],
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
        runtimes: &[Expr<'c>],
    ) -> Result<Vec<Expr<'c>>> {
        results
            .iter()
            .map(|result| {
                let result = self.scope.simplify(substitute(*result, index, ranges, runtimes));
                if Scope::is_large(result) { self.scope.emit_variable(self.builder, result) } else { Ok(result) }
            })
            .collect()
    }

    /// A value of an integer or float type that equals an index expression.
    fn index_value(&self, expr: Expr<'c>, element_type: ElementType) -> Result<RegisterValue<'c>> {
        let builder = self.builder;
        let lane = self.scope.uses_lane(expr).then(|| self.scope.lane_type(builder, expr));
        let (value, own) = match lane {
            Some(lane) if lane == builder.integer_type(32) => {
                (self.scope.lane_values(builder, expr, lane)?, ElementType::S32)
            }
            Some(lane) => (self.scope.lane_values(builder, expr, lane)?, ElementType::S64),
            None => {
                let value = self.scope.emit(builder, expr)?;
                (builder.value("arith.index_cast", &[value], builder.integer_type(64), &[]), ElementType::S64)
            }
        };
        let value = RegisterValue::real(builder, own, value);
        scalar::convert::convert(builder, &value, element_type)
            .ok_or_else(|| LoweringError::bug(format!("iota of {element_type}")))
    }

    /// pad: the operand's element where the conditions hold, the padding value elsewhere.
    fn pad(&mut self, instruction: &'a Instruction, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        let map = operand_map(self.scope.context(), self.computation, instruction, 0)?;
        let conditions = self.conditions(&map.conditions, index, &[]);
        let (operand, padding) = (instruction.operands[0], instruction.operands[1]);
        let sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        let operand_index = self.apply(map.map.results(), index, &[])?;
        self.choose(
            &conditions,
            result_shape(instruction)?.element_type,
            &operand_index,
            &sizes,
            &mut |emitter, index| emitter.evaluate(operand, index),
            &mut |emitter| emitter.evaluate(padding, &[]),
        )
    }

    /// concatenate: the operand, of some neighbouring ones, on whose part the index is. The choice is binary, so that
    /// the code for many operands nests no deeper than the logarithm of their number.
    fn concatenate(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        dimension: usize,
        parts: &[ConcatenatedPart],
    ) -> Result<RegisterValue<'c>> {
        let position =
            *index.get(dimension).ok_or_else(|| LoweringError::bug("a concatenate without its dimension"))?;
        let (left, right) = parts.split_at(parts.len() / 2);
        let Some(middle) = right.first() else { return Ok(self.zeros(result_shape(instruction)?.element_type)) };
        if left.is_empty() {
            let number = middle.operand;
            let map = operand_map(self.scope.context(), self.computation, instruction, number)?.map;
            let mut operand_index = self.apply(map.results(), index, &[])?;
            if self.scope.uses_lane(position) {
                // Lanes of other operands read what is there.
                let sizes = &operand_shape(self.computation, instruction, number)?.dimensions;
                for (expr, &size) in operand_index.iter_mut().zip(sizes) {
                    *expr = self.clamped(*expr, Interval::of_size(size))?;
                }
            }
            return self.evaluate(instruction.operands[number], &operand_index);
        }
        let first = [Constraint::new(position, Interval::new(i64::MIN, middle.start - 1))];
        let sizes = result_shape(instruction)?.dimensions.clone();
        self.choose(
            &first,
            result_shape(instruction)?.element_type,
            index,
            &sizes,
            &mut |emitter, index| emitter.concatenate(instruction, index, dimension, left),
            &mut |emitter| emitter.concatenate(instruction, index, dimension, right),
        )
    }

    /// Conditions of a map at an index and values of the range variables.
    pub(crate) fn conditions(
        &self,
        conditions: &[Constraint<'c>],
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
    ) -> Vec<Constraint<'c>> {
        conditions
            .iter()
            .map(|condition| {
                let expr = self.scope.simplify(substitute(condition.expr, index, ranges, &[]));
                Constraint::new(expr, condition.interval)
            })
            .collect()
    }

    /// One of two elements by conditions; see [`Self::choose_all`].
    fn choose(
        &mut self,
        conditions: &[Constraint<'c>],
        element_type: ElementType,
        index: &[Expr<'c>],
        sizes: &[i64],
        inside: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<RegisterValue<'c>>,
        outside: &mut dyn FnMut(&mut Self) -> Result<RegisterValue<'c>>,
    ) -> Result<RegisterValue<'c>> {
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
        conditions: &[Constraint<'c>],
        index: &[Expr<'c>],
        sizes: &[i64],
        accumulators: &[RegisterValue<'c>],
        step: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>>,
    ) -> Result<Vec<RegisterValue<'c>>> {
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
        conditions: &[Constraint<'c>],
        types: &[(ElementType, Type<'c>)],
        index: &[Expr<'c>],
        sizes: &[i64],
        inside: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>>,
        outside: &mut dyn FnMut(&mut Self) -> Result<Vec<RegisterValue<'c>>>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let truths: Vec<Option<bool>> = conditions.iter().map(|condition| self.scope.truth(condition)).collect();
        if truths.contains(&Some(false)) || sizes.contains(&0) {
            return outside(self);
        }
        let open: Vec<&Constraint<'c>> = conditions
            .iter()
            .zip(&truths)
            .filter(|(_, truth)| truth.is_none())
            .map(|(condition, _)| condition)
            .collect();
        if open.is_empty() {
            return inside(self, index);
        }
        let lanes = self.scope.lanes();
        if open.iter().any(|condition| self.scope.uses_lane(condition.expr)) {
            let holds = self.scope.lane_condition(self.builder, &open)?;
            let clamped = index.iter().zip(sizes).map(|(&expr, &size)| self.clamped(expr, Interval::of_size(size)));
            let clamped: Vec<Expr<'c>> = clamped.collect::<Result<_>>()?;
            let inside_values = inside(self, &clamped)?;
            let outside_values = outside(self)?;
            let select = |(inside, outside): (&RegisterValue<'c>, &RegisterValue<'c>)| {
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
        let results = self.scope.condition(builder, &open)?.choose(builder, &part_types, |_, holds| {
            let values = self.nested(|emitter| if holds { inside(emitter, index) } else { outside(emitter) })?;
            Ok::<_, LoweringError>(
                values.iter().flat_map(|value| scalar::splat(builder, value, lanes).values()).collect(),
            )
        })?;
        let mut rest = results.into_iter();
        Ok(types
            .iter()
            .filter_map(|&(element_type, _)| {
                let value = rest.next()?;
                let imaginary = if element_type.is_complex() { rest.next() } else { None };
                Some(RegisterValue { element_type, lanes, value, imaginary })
            })
            .collect())
    }

    /// An index kept inside its bounds: a variable, unless it cannot leave them.
    fn clamped(&mut self, expr: Expr<'c>, bounds: Interval) -> Result<Expr<'c>> {
        let range = self.scope.range(expr);
        if bounds.contains_interval(range) {
            return Ok(expr);
        }
        let builder = self.builder;
        if self.scope.uses_lane(expr) {
            let value = self.scope.lane_values(builder, expr, self.scope.lane_type(builder, expr))?;
            return Ok(self.clamped_lanes(value, range, bounds));
        }
        let mut clamped = expr;
        if range.lower < bounds.lower {
            let larger = self.scope.emit_max(builder, &[expr, self.scope.constant(bounds.lower)])?;
            let range = Interval::new(bounds.lower, range.upper.max(bounds.lower));
            clamped = self.scope.add_variable(range, index_binding(builder, larger));
        }
        if range.upper > bounds.upper {
            let smaller = self.scope.emit_min(builder, &[clamped, self.scope.constant(bounds.upper)])?;
            clamped = self.scope.add_variable(bounds, index_binding(builder, smaller));
        }
        Ok(clamped)
    }

    /// As [`Self::clamped`], of a vector of integers within a range.
    fn clamped_lanes(&mut self, value: Value<'c>, range: Interval, bounds: Interval) -> Expr<'c> {
        let builder = self.builder;
        let bound = |bound| builder.integer_like(value, bound);
        let mut clamped = value;
        if range.lower < bounds.lower {
            clamped = builder.maxsi(clamped, bound(bounds.lower));
        }
        // A bound beyond 32 bits does not bound a number of 32 bits.
        if range.upper > bounds.upper {
            clamped = builder.minsi(clamped, bound(bounds.upper));
        }
        self.scope.add_variable(bounds, Binding::Lanes(clamped))
    }

    /// dynamic-slice and gather: the operand's element at a start read from memory plus an offset.
    fn lookup(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<RegisterValue<'c>> {
        let map = operand_map(self.scope.context(), self.computation, instruction, 0)?.map;
        let sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        if sizes.contains(&0) {
            return Ok(self.zeros(result_shape(instruction)?.element_type));
        }
        let mut starts = Vec::new();
        for (number, runtime) in map.runtimes().iter().enumerate() {
            let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
            let start_index = self.apply(&source.index, index, &[])?;
            let operand = instruction.operands[source.value as usize];
            starts.push(self.start((id, number, start_index), operand, runtime.bounds)?);
        }
        let operand_index = self.apply(map.results(), index, &starts)?;
        self.evaluate(instruction.operands[0], &operand_index)
    }

    /// A clamped start, known or read from an operand.
    fn start(
        &mut self,
        key: (InstructionId, usize, Vec<Expr<'c>>),
        operand: InstructionId,
        bounds: Interval,
    ) -> Result<Expr<'c>> {
        if let Some(known) = self.starts.iter().rev().find_map(|level| level.get(&key)) {
            return Ok(*known);
        }
        let value = self.evaluate(operand, &key.2)?;
        let start = self.clamped_start(&value, bounds)?;
        if let Some(level) = self.starts.last_mut() {
            level.insert(key, start);
        }
        Ok(start)
    }

    /// Reads the starts of dynamic slices before any loop: there they are symbols of the loops' accesses.
    pub fn read_starts(&mut self) -> Result<()> {
        let computation = self.computation;
        for (id, instruction) in computation.iter().filter(|(_, own)| own.kind == OpKind::DynamicSlice) {
            let map = operand_map(self.scope.context(), computation, instruction, 0)?.map;
            for (number, runtime) in map.runtimes().iter().enumerate() {
                let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
                if source.index.is_empty() {
                    let operand = instruction.operands[source.value as usize];
                    self.start((id, number, Vec::new()), operand, runtime.bounds)?;
                }
            }
        }
        Ok(())
    }

    /// A start index as a variable, clamped to its bounds.
    pub fn clamped_start(&mut self, value: &RegisterValue<'c>, bounds: Interval) -> Result<Expr<'c>> {
        if bounds.lower >= bounds.upper {
            return Ok(self.scope.constant(bounds.lower));
        }
        if value.lanes.is_some() {
            return Ok(self.clamped_starts(value, bounds));
        }
        let start = self.index_variable(value, Interval::FULL);
        self.clamped(start, bounds)
    }

    /// As [`Self::clamped_start`], of a vector.
    fn clamped_starts(&mut self, value: &RegisterValue<'c>, bounds: Interval) -> Expr<'c> {
        let is_small = value.element_type.class() != ElementClass::Unsigned && value.element_type.bit_width() <= 32;
        let bits = if is_small { 32 } else { 64 };
        let range = Interval::new(i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        let wide = self.signed_integer(value, self.builder.integer_type(bits));
        self.clamped_lanes(wide, range, bounds)
    }

    /// A single integer element as an index variable; unsigned values beyond `i64` saturate.
    pub fn index_variable(&mut self, value: &RegisterValue<'c>, bounds: Interval) -> Expr<'c> {
        let builder = self.builder;
        let signed = self.signed_integer(value, builder.integer_type(64));
        let start = builder.value("arith.index_cast", &[signed], builder.index_type, &[]);
        self.scope.add_variable(bounds, index_binding(builder, start))
    }

    /// Integer elements as signed ones of a type that is no narrower; unsigned values beyond `i64` saturate.
    fn signed_integer(&self, value: &RegisterValue<'c>, element: Type<'c>) -> Value<'c> {
        let builder = self.builder;
        let own = builder.element_type_of(value.value.r#type());
        match (value.element_type.class(), own == element) {
            (ElementClass::Unsigned | ElementClass::Predicate, false) => builder.extui(value.value, element),
            (ElementClass::Unsigned, true) => {
                let maximum = builder.integer_like(value.value, i64::MAX);
                builder.value("arith.minui", &[value.value, maximum], value.value.r#type(), &[])
            }
            (_, false) => builder.extsi(value.value, element),
            (_, true) => value.value,
        }
    }

    fn zeros(&self, element_type: ElementType) -> RegisterValue<'c> {
        scalar::constant(self.builder, element_type, &[], None)
    }

    /// Emits a computation on single elements (of `map`, `reduce`, `sort` …) with its arguments in registers.
    pub fn scalar_computation(
        &mut self,
        computation: &Computation,
        arguments: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let mut values: Vec<Vec<RegisterValue<'c>>> = Vec::with_capacity(computation.instructions.len());
        for instruction in &computation.instructions {
            let operand = |number: usize| values[instruction.operands[number].index()].clone();
            let value = match instruction.kind {
                OpKind::Parameter => {
                    let argument = instruction.parameter_number().and_then(|number| arguments.get(number));
                    vec![*argument.ok_or_else(|| LoweringError::bug("missing argument"))?]
                }
                OpKind::Constant => vec![self.constant(instruction)?],
                OpKind::Tuple => (0..instruction.operands.len()).flat_map(operand).collect(),
                OpKind::GetTupleElement => {
                    let (operand, GetTupleElementAttributes { index }) = (operand(0), instruction.attributes()?);
                    let element = operand.get(index as usize);
                    vec![*element.ok_or_else(|| LoweringError::bug("missing tuple element"))?]
                }
                // Everything here is rank 0, where these change nothing.
                OpKind::Broadcast | OpKind::Reshape | OpKind::Copy | OpKind::Transpose => operand(0),
                OpKind::Map => {
                    let arguments: Vec<RegisterValue<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    self.scalar_computation(&instruction.computations[0], &arguments)?
                }
                OpKind::Fusion => {
                    let arguments: Vec<RegisterValue<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    self.scalar_computation(&instruction.computations[0], &arguments)?
                }
                _ => {
                    let operands: Vec<RegisterValue<'c>> = (0..instruction.operands.len()).flat_map(operand).collect();
                    vec![self.elementwise(instruction, &operands, result_shape(instruction)?.element_type)?]
                }
            };
            values.push(value);
        }
        Ok(values.swap_remove(computation.root.index()))
    }
}

/// An operand of a concatenate that has elements, and where it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConcatenatedPart {
    pub operand: usize,
    pub start: i64,
}

/// The dimension of a concatenate, and its operands along it.
pub(crate) fn concatenated(
    computation: &Computation,
    instruction: &Instruction,
) -> Result<(usize, Vec<ConcatenatedPart>)> {
    let dimension = instruction.attributes::<ConcatenateAttributes>()?.dimensions.index();
    let mut parts = Vec::with_capacity(instruction.operands.len());
    let mut start = 0i64;
    for operand in 0..instruction.operands.len() {
        let size = operand_shape(computation, instruction, operand)?.dimensions.get(dimension).copied();
        let size = size.ok_or_else(|| LoweringError::bug("a concatenate beyond its operands' dimensions"))?;
        if size > 0 {
            parts.push(ConcatenatedPart { operand, start });
        }
        start += size;
    }
    Ok((dimension, parts))
}

/// Replaces the variables of a map's expression.
pub fn substitute<'c>(expr: Expr<'c>, dims: &[Expr<'c>], ranges: &[Expr<'c>], runtimes: &[Expr<'c>]) -> Expr<'c> {
    expr.replace(dims, &[ranges, runtimes].concat())
}

/// The row-major element offset of an index.
pub fn linear_address<'c>(context: &'c Context, dimensions: &[i64], index: &[Expr<'c>]) -> Expr<'c> {
    let strides = indexing::queries::row_major_strides(dimensions);
    index
        .iter()
        .zip(strides)
        .zip(dimensions)
        .filter(|(_, size)| **size != 1)
        .fold(Expr::constant(context, 0), |sum, ((&expr, stride), _)| sum + expr * stride)
}

/// What a value of type `index` that was just created is to affine operations.
pub(crate) fn index_binding<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Binding<'c> {
    if builder.is_at_top_level() { Binding::Symbol(value) } else { Binding::Index(value) }
}

/// Name and origin of an instruction.
pub(crate) fn instruction_location<'c>(context: &'c Context, instruction: &Instruction) -> Location<'c> {
    hlo::dialect::instruction_location(context, &SourceTables::default(), instruction)
}
