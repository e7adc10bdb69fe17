//! Elements of fused instructions as code: the value of an instruction at an index.
//!
//! The emitter follows the walk of `walk`: elementwise instructions are emitted on registers, parameters are
//! loaded. An index that depends on the lane variable asks for a vector. What was evaluated at an index is not
//! evaluated again in the same block or one inside it.

use std::collections::HashMap;
use std::rc::Rc;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId, SourceTables};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use indexing::{Constraint, Expr, Interval, Var};
use melior::Context;
use melior::ir::{Location, Type};
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::error::LoweringError;
use crate::memory::{ArrayRef, Inputs};
use crate::operand_maps::{operand_map, operand_shape, result_shape};
use crate::rows::RowValue;
use crate::scalar::approximate::{self, Digits};
use crate::scalar::compare::Comparison;
use crate::scalar::{self, RegisterValue};
use crate::scope::{Binding, Scope};
use crate::team::Team;
use crate::tiles::is_only_moved;
use crate::transposed::Transposed;
use crate::walk::{Choice, Inside, Outside, Parts, Visitor, concatenated, linear_address};

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
    pub inputs: Inputs<'a, 'c>,
    /// Variables in scope.
    pub scope: Scope<'c>,
    /// Lanes that a reduction may use for vectors of its own.
    pub vector_lanes: u32,
    /// The threads that compute an element together, where they do.
    pub(crate) team: Option<Team<'a, 'c>>,
    /// Whether parameters, which are small, are loaded as bits.
    as_bits: bool,
    /// Lanes at the beginning of vectors that are not stored.
    pub(crate) skipped_lanes: u32,
    /// What was computed for the rows of a block.
    pub(crate) row_values: HashMap<InstructionId, RowValue<'c>>,
    /// What a team of threads has combined for its row.
    pub(crate) combined: HashMap<InstructionId, RegisterValue<'c>>,
    /// The place in its block of the row that is emitted.
    pub(crate) row_in_block: Option<Expr<'c>>,
    /// The row, within a square of elements that is computed at once.
    pub(crate) row: Option<(Var, u32)>,
    /// What was loaded for a square before its rows are computed.
    pub(crate) transposed: Vec<Transposed<'c>>,
    /// What came through the memory that threads of a block share, by parameter and address.
    pub(crate) staged: HashMap<(usize, Expr<'c>), RegisterValue<'c>>,
    /// The variable of a loop along columns, whose next rows are asked for beforehand.
    pub(crate) along_columns: Option<Var>,
    /// How many digits are needed of what is computed.
    pub(crate) digits: Digits,
    values: Vec<Values<'c>>,
    starts: Vec<HashMap<(InstructionId, usize, Vec<Expr<'c>>), Expr<'c>>>,
    concatenates: HashMap<InstructionId, Rc<Parts>>,
    /// The reductions that are made together, once they are known.
    pub(crate) joint_reductions: Option<Rc<Vec<Vec<InstructionId>>>>,
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// An emitter with no variables in scope.
    pub fn new(
        builder: &'a OpBuilder<'c>,
        computation: &'a Computation,
        inputs: impl Into<Inputs<'a, 'c>>,
        vector_lanes: u32,
    ) -> Self {
        Elemental {
            builder,
            computation,
            inputs: inputs.into(),
            scope: Scope::new(builder.context()),
            vector_lanes,
            team: None,
            as_bits: false,
            skipped_lanes: 0,
            row_values: HashMap::new(),
            combined: HashMap::new(),
            row_in_block: None,
            row: None,
            transposed: Vec::new(),
            staged: HashMap::new(),
            along_columns: None,
            digits: Digits::All,
            values: vec![HashMap::new()],
            starts: vec![HashMap::new()],
            concatenates: HashMap::new(),
            joint_reductions: None,
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

    /// As [`Self::nested`], for code that not all threads of a block go through, or that several elements need: each thread is
    /// alone there.
    pub(crate) fn alone<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let team = self.team.take();
        let result = self.nested(body);
        self.team = team;
        result
    }

    /// Runs `body` where values are not negative.
    pub(crate) fn where_not_negative(
        &mut self,
        values: &[Expr<'c>],
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let holds =
            AffineConditions { values: self.scope.affine_bounds(values)?, equalities: vec![false; values.len()] };
        self.builder.affine_if_then(&holds, |_| self.nested(body))
    }

    /// The bits of an instruction at an index, whose elements are those of a parameter of 8 or 16 bits.
    pub(crate) fn evaluate_bits(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        self.as_bits = true;
        let bits = self.nested(|emitter| emitter.evaluate(id, index));
        self.as_bits = false;
        bits
    }

    /// Whether an instruction tells apart what is the same once it is widened to registers.
    fn compares_bits(&self, instruction: &Instruction) -> bool {
        let is_total = || {
            let comparison = Comparison::from_attributes(&instruction.attributes);
            comparison.is_some_and(|comparison| comparison.total_order)
        };
        let is_half = || {
            let operand = operand_shape(self.computation, instruction, 0);
            operand.is_ok_and(|shape| shape.element_type == ElementType::F16)
        };
        self.builder.machine().is_gpu && instruction.kind == OpKind::Compare && is_half() && is_total()
    }

    /// The place of an f16 in the total order, by its bits in memory.
    fn half_in_order(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        let builder = self.builder;
        let mut value = match is_only_moved(self.computation, id, ElementType::F16) {
            true => self.evaluate_bits(id, index)?,
            false => self.evaluate(id, index)?,
        };
        if value.element_type == ElementType::F16 {
            let bits = builder.integer_type(ElementType::F16.bit_width());
            value.value = builder.bitcast(scalar::to_memory(builder, &value), bits);
        }
        let value_in_order = scalar::compare::ordered_bits(builder, value.value, ElementType::F16.bit_width());
        Ok(RegisterValue { element_type: ElementType::S16, value: value_in_order, ..value })
    }

    /// What a parameter has at an index, if it came through shared memory.
    fn staged_value(&self, parameter: usize, array: &ArrayRef<'c>, index: &[Expr<'c>]) -> Option<RegisterValue<'c>> {
        if self.staged.is_empty() {
            return None;
        }
        let address = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        self.staged.get(&(parameter, address)).copied()
    }

    /// A variable of so many values for an expression of symbols.
    pub(crate) fn emit_symbol(&mut self, expr: Expr<'c>, size: i64) -> Result<Expr<'c>> {
        let value = self.builder.as_symbols(|builder| self.scope.emit(builder, expr))?;
        Ok(self.scope.add_variable(Interval::of_size(size), Binding::Symbol(value)))
    }

    fn elementwise_on(
        &self,
        instruction: &Instruction,
        operands: &[RegisterValue<'c>],
        result: ElementType,
    ) -> Result<RegisterValue<'c>> {
        let kind = instruction.kind;
        match approximate::elementwise(self.builder, self.digits, kind, operands) {
            Some(value) => Ok(value),
            None => scalar::elementwise(self.builder, kind, &instruction.attributes, operands, result),
        }
    }

    fn scalar_constant(&self, instruction: &Instruction) -> Result<RegisterValue<'c>> {
        match instruction.literal() {
            Some(Literal::Array(array)) if array.shape().rank() == 0 => {
                Ok(scalar::constant(self.builder, array.element_type(), array.bytes(), None))
            }
            Some(Literal::Elided(_)) => Err(LoweringError::Elided(instruction.name.clone())),
            _ => Err(LoweringError::bug(format!("constant `{}` is not a scalar", instruction.name))),
        }
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

    /// A step of an accumulation that is left out where the conditions do not hold.
    pub(crate) fn guarded_step(
        &mut self,
        conditions: &[Constraint<'c>],
        index: &[Expr<'c>],
        sizes: &[i64],
        accumulators: &[RegisterValue<'c>],
        step: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let types: Vec<ElementType> = accumulators.iter().map(|value| value.element_type).collect();
        self.choose(&Choice { conditions, types: &types, index, sizes }, step, &mut |_| Ok(accumulators.to_vec()))
    }

    /// An index clamped to bounds: a variable, unless it cannot leave them.
    fn clamped(&mut self, expr: Expr<'c>, bounds: Interval) -> Result<Expr<'c>> {
        let range = self.scope.range(expr);
        if bounds.contains_interval(range) {
            return Ok(expr);
        }
        // Alike for all lanes, whatever the expression.
        if bounds.lower == bounds.upper {
            return Ok(self.scope.constant(bounds.lower));
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

    /// Reads the starts of dynamic slices before any loop: there they are symbols of the loops' accesses.
    pub fn read_starts(&mut self) -> Result<()> {
        let computation = self.computation;
        for (id, instruction) in computation.iter().filter(|(_, own)| own.kind == OpKind::DynamicSlice) {
            let map = operand_map(self.scope.context(), computation, instruction, 0)?.map;
            for (number, runtime) in map.runtimes().iter().enumerate() {
                // Nothing is read of an array without elements, and its map knows no starts.
                let Some(source) = &runtime.source else { continue };
                if source.index.is_empty() {
                    let operand = instruction.operands[source.value as usize];
                    self.start((id, number), operand, Vec::new(), runtime.bounds)?;
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
                OpKind::Constant => vec![self.scalar_constant(instruction)?],
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
                    vec![self.elementwise_on(instruction, &operands, result_shape(instruction)?.element_type)?]
                }
            };
            values.push(value);
        }
        Ok(values.swap_remove(computation.root.index()))
    }
}

impl<'a, 'c> Visitor<'a, 'c> for Elemental<'a, 'c> {
    type Value = RegisterValue<'c>;

    fn computation(&self) -> &'a Computation {
        self.computation
    }

    fn scope(&self) -> &Scope<'c> {
        &self.scope
    }

    fn known(&self, id: InstructionId, index: &[Expr<'c>]) -> Option<Vec<RegisterValue<'c>>> {
        let key = (id, index.to_vec());
        self.values.iter().rev().find_map(|level| level.get(&key)).cloned()
    }

    fn row_value(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<Option<RegisterValue<'c>>> {
        if let Some(combined) = self.combined.get(&id) {
            return Ok(Some(*combined));
        }
        match (self.row_values.get(&id).cloned(), self.row_in_block) {
            (Some(value), Some(row)) => self.load_element(&value.array, &value.place(row, index)).map(Some),
            _ => Ok(None),
        }
    }

    fn remember(&mut self, id: InstructionId, index: &[Expr<'c>], values: Vec<RegisterValue<'c>>) {
        if let Some(level) = self.values.last_mut() {
            level.insert((id, index.to_vec()), values);
        }
    }

    fn in_instruction<T>(&mut self, instruction: &'a Instruction, visit: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.builder.set_location(instruction_location(self.builder.context(), instruction));
        let result = visit(self);
        self.builder.set_location(outer);
        result
    }

    fn named(&mut self, expr: Expr<'c>) -> Result<Expr<'c>> {
        self.scope.emit_variable(self.builder, expr)
    }

    fn kept_inside(&mut self, expr: Expr<'c>, bounds: Interval) -> Result<Expr<'c>> {
        if self.scope.uses_lane(expr)
            && let Some(by_lane) = self.scope.lane_constants(expr)
        {
            let inside: Vec<i64> = by_lane.iter().map(|value| *value.clamp(&bounds.lower, &bounds.upper)).collect();
            return Ok(if inside == by_lane { expr } else { self.scope.add_constants(expr, inside) });
        }
        let clamped = self.clamped(expr, bounds)?;
        let binding = clamped.as_variable().and_then(|variable| self.scope.binding(variable));
        match binding {
            Some(lanes @ Binding::Lanes(_)) if clamped != expr => Ok(self.scope.add_unless_unread(expr, bounds, lanes)),
            _ => Ok(clamped),
        }
    }

    fn load(&mut self, parameter: &'a Instruction, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        let inputs = self.inputs;
        let found = parameter.parameter_number().and_then(|number| Some((number, inputs.get(number)?)));
        let (number, array) = found.ok_or_else(|| LoweringError::bug("missing fusion input"))?;
        if let Some(staged) = self.staged_value(number, array, index) {
            return Ok(staged);
        }
        match self.loaded_transposed(number, array, index)? {
            Some(loaded) => Ok(loaded),
            None if self.as_bits => self.load_element(&array.as_bits(), index),
            None => self.load_element(array, index),
        }
    }

    fn elementwise_operand(
        &mut self,
        instruction: &'a Instruction,
        operand: InstructionId,
        index: &[Expr<'c>],
    ) -> Result<RegisterValue<'c>> {
        match self.compares_bits(instruction) {
            true => self.half_in_order(operand, index),
            false => self.evaluate(operand, index),
        }
    }

    fn constant(&mut self, instruction: &'a Instruction) -> Result<RegisterValue<'c>> {
        self.scalar_constant(instruction)
    }

    fn zero(&mut self, element_type: ElementType) -> RegisterValue<'c> {
        scalar::constant(self.builder, element_type, &[], None)
    }

    fn number(&mut self, _: &[Expr<'c>], position: Expr<'c>, element_type: ElementType) -> Result<RegisterValue<'c>> {
        self.index_value(position, element_type)
    }

    fn elementwise(
        &mut self,
        instruction: &'a Instruction,
        operands: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        match (instruction.kind, &instruction.computations[..]) {
            (OpKind::Map, [computation]) => self.scalar_computation(computation, operands),
            _ => Ok(vec![self.elementwise_on(instruction, operands, result_shape(instruction)?.element_type)?]),
        }
    }

    fn combine(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        match instruction.kind {
            OpKind::Reduce => self.reduce_with_others(id, instruction, index),
            OpKind::ReduceWindow => self.reduce_window(instruction, index),
            _ => Ok(vec![self.contract(instruction, index)?]),
        }
    }

    fn parts(&mut self, id: InstructionId, instruction: &'a Instruction) -> Result<Rc<Parts>> {
        if let Some(parts) = self.concatenates.get(&id) {
            return Ok(Rc::clone(parts));
        }
        let parts = Rc::new(concatenated(self.computation, instruction)?);
        self.concatenates.insert(id, Rc::clone(&parts));
        Ok(parts)
    }

    fn start(
        &mut self,
        (id, number): (InstructionId, usize),
        operand: InstructionId,
        index: Vec<Expr<'c>>,
        bounds: Interval,
    ) -> Result<Expr<'c>> {
        let key = (id, number, index);
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

    /// Conditions that differ between lanes select between both ways, others branch.
    fn branch(
        &mut self,
        open: &[&Constraint<'c>],
        choice: &Choice<'_, 'c>,
        inside: Inside<'_, 'c, Self, RegisterValue<'c>>,
        outside: Outside<'_, Self, RegisterValue<'c>>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let (builder, lanes) = (self.builder, self.scope.lanes());
        if open.iter().any(|condition| self.scope.uses_lane(condition.expr)) {
            let holds = self.scope.lane_condition(builder, open)?;
            let sizes = choice.sizes.iter().map(|&size| Interval::of_size(size));
            let kept = choice.index.iter().zip(sizes).map(|(&expr, bounds)| self.kept_inside(expr, bounds));
            let kept: Vec<Expr<'c>> = kept.collect::<Result<_>>()?;
            let inside_values = inside(self, &kept)?;
            let outside_values = outside(self)?;
            let select = |(inside, outside): (&RegisterValue<'c>, &RegisterValue<'c>)| {
                let inside = scalar::splat(builder, inside, lanes);
                let outside = scalar::splat(builder, outside, lanes);
                let pairs = inside.values().into_iter().zip(outside.values());
                let parts: Vec<Value<'c>> = pairs.map(|(a, b)| builder.select(holds, a, b)).collect();
                inside.with_values(&parts)
            };
            return Ok(inside_values.iter().zip(&outside_values).map(select).collect());
        }
        // Both branches agree in lanes: vectors if vectors are being emitted.
        let parts = |element_type: ElementType| if element_type.is_complex() { 2 } else { 1 };
        let types = choice.types.iter().flat_map(|&element_type| {
            std::iter::repeat_n(scalar::register_type(builder, element_type, lanes), parts(element_type))
        });
        let types: Vec<Type<'c>> = types.collect();
        let results = self.scope.condition(builder, open)?.choose(builder, &types, |_, holds| {
            let values = self.alone(|emitter| if holds { inside(emitter, choice.index) } else { outside(emitter) })?;
            let parts = values.iter().flat_map(|value| scalar::splat(builder, value, lanes).values());
            Ok::<_, LoweringError>(parts.collect())
        })?;
        let mut rest = results.into_iter();
        let register = |&element_type: &ElementType| {
            let value = rest.next()?;
            let imaginary = if element_type.is_complex() { rest.next() } else { None };
            Some(RegisterValue { element_type, lanes, value, imaginary })
        };
        Ok(choice.types.iter().filter_map(register).collect())
    }
}

/// What a value of type `index` that was just created is to affine operations.
pub(crate) fn index_binding<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Binding<'c> {
    if builder.is_at_top_level() { Binding::Symbol(value) } else { Binding::Index(value) }
}

/// Name and origin of an instruction.
pub(crate) fn instruction_location<'c>(context: &'c Context, instruction: &Instruction) -> Location<'c> {
    hlo::dialect::instruction_location(context, &SourceTables::default(), instruction)
}
