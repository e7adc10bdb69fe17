//! Threads of a GPU that compute an element together: each combines a part of a reduction's terms, and then all combine
//! what they have, always in the same order.
//!
//! A block has several teams or one. Its threads are counted in the order of the mapping's dimensions, so that either the
//! threads of a team are neighbours (they read along a row) or those of the same part of several teams (they read along
//! elements).

use hlo::graph::{Computation, InstructionId};
use hlo::mapping::{WorkKind, WorkMapping};
use indexing::{Constraint, Expr, Interval, ceil_div};
use melior::ir::r#type::MemRefType;
use melior::ir::{Attribute, Type};
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::thread_numbers;
use crate::mapping::{are_followed_elementwise, combines};
use crate::memory::address_of;
use crate::scalar::RegisterValue;
use crate::scalar::combiner::Combiner;
use crate::scope::Binding;

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads that exchange registers.
pub(crate) const WARP: i64 = 32;

/// How the threads of a block are divided into teams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TeamShape {
    /// Threads of a team: a power of two.
    pub size: i64,
    /// Teams of a block.
    pub count: i64,
    /// Whether the threads of a team are neighbours.
    pub is_near: bool,
}

impl TeamShape {
    /// The teams of a mapping, if it has any.
    pub fn of(mapping: &WorkMapping<'_>) -> Option<Self> {
        let [first, second, ..] = &mapping.dimensions[..] else { return None };
        let extent = |number: usize| mapping.bounds(number).upper + 1;
        match (first.kind, second.kind) {
            (WorkKind::Threads, WorkKind::Team) => {
                Some(TeamShape { size: extent(1), count: first.tile, is_near: true })
            }
            (WorkKind::Team, WorkKind::Threads) => {
                Some(TeamShape { size: extent(0), count: second.tile, is_near: false })
            }
            _ => None,
        }
    }

    /// Threads of a block.
    pub fn threads(self) -> i64 {
        self.size * self.count
    }

    /// Which of the dimensions of the work are the elements.
    pub fn elements(self) -> usize {
        usize::from(!self.is_near)
    }
}

/// The team of the thread that code is for.
pub(crate) struct Team<'b, 'c> {
    pub shape: TeamShape,
    /// The function, which is given the memory that its block shares.
    function: &'b Body<'c>,
    /// The part of the terms that the thread combines.
    pub part: Expr<'c>,
    /// Which team of the block it is in.
    pub member: Expr<'c>,
    /// Under which conditions the thread stores what the team has computed.
    pub stores: AffineConditions<'c>,
}

impl<'b, 'c> Team<'b, 'c> {
    /// The team of a thread, where teams have so many elements, and the number of its element; the last teams may have none.
    pub fn of_thread(
        emitter: &mut Elemental<'_, 'c>,
        (shape, function): (TeamShape, &'b Body<'c>),
        count: i64,
    ) -> Result<(Self, Expr<'c>)> {
        let (block, thread) = thread_numbers(emitter, count, shape.count, shape.threads())?;
        let (part, member) = match shape.is_near {
            true => (thread.modulo(shape.size), thread.floordiv(shape.size)),
            false => (thread.floordiv(shape.count), thread.modulo(shape.count)),
        };
        let part = emitter.emit_symbol(part, shape.size)?;
        let member = emitter.emit_symbol(member, shape.count)?;
        let blocks = ceil_div(count, shape.count);
        let element = emitter.emit_symbol(block * shape.count + member, blocks * shape.count)?;
        let values = emitter.scope.affine_bounds(&[-part])?;
        let stores = AffineConditions { values, equalities: vec![false] };
        Ok((Team { shape, function, part, member, stores }, element))
    }
}

/// Runs `body` for the elements of a mapping with teams. Every thread goes through it, as others wait for it: those of teams
/// without an element compute the last one once more.
pub(crate) fn over_teams<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    (shape, function): (TeamShape, &'a Body<'c>),
    elements: Interval,
    body: &mut dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>) -> Result<()>,
) -> Result<()> {
    let builder = emitter.builder;
    let count = elements.upper - elements.lower + 1;
    let (team, wanted) = Team::of_thread(emitter, (shape, function), count)?;
    let last = emitter.scope.constant(count - 1);
    let kept = builder.as_symbols(|builder| emitter.scope.emit_min(builder, &[wanted, last]))?;
    let kept = emitter.scope.add_variable(Interval::of_size(count), Binding::Symbol(kept));
    let values = emitter.scope.affine_bounds(&[-team.part, -wanted + (count - 1)])?;
    let stores = AffineConditions { values, equalities: vec![false, false] };
    emitter.team = Some(Team { stores, ..team });
    body(emitter, kept + elements.lower)
}

/// What the threads of a team combine before one of them goes on alone, with what is computed from its elements one by one;
/// nothing where they all must.
pub(crate) fn combined_first(computation: &Computation) -> Vec<InstructionId> {
    let combined = computation.iter().filter(|(_, own)| combines(own)).map(|(id, _)| id);
    let combined: Vec<InstructionId> = combined.collect();
    if are_followed_elementwise(computation, &combined) { combined } else { Vec::new() }
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// Runs `store` in the thread that stores for its team.
    pub(crate) fn storing(&mut self, store: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let Some(team) = self.team.take() else { return store(self) };
        let stored = self.builder.affine_if_then(&team.stores, |_| self.nested(store));
        self.team = Some(team);
        stored
    }

    /// What the threads of the team have, combined.
    pub(crate) fn combine_team(
        &mut self,
        team: &Team<'a, 'c>,
        combiner: &Combiner,
        own: RegisterValue<'c>,
    ) -> Result<RegisterValue<'c>> {
        let total = self.combine_team_by(team, vec![own], &mut |emitter, left, right| {
            let pairs = left.iter().zip(right);
            Ok(pairs.map(|(left, right)| combiner.combine(emitter.builder, left, right)).collect())
        })?;
        Ok(total[0])
    }

    /// As [`Self::combine_team`], of several values together, in a way that does not depend on their order.
    pub(crate) fn combine_team_by(
        &mut self,
        team: &Team<'a, 'c>,
        own: Vec<RegisterValue<'c>>,
        combine: &mut CombineValues<'_, 'a, 'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let builder = self.builder;
        let TeamShape { size, count, is_near } = team.shape;
        if !is_near {
            let places = [self.scope.emit(builder, team.part)?, self.scope.emit(builder, team.member)?];
            let memory = SharedValues::of_all(builder, team.function, &own, &[size, count]);
            memory.iter().zip(&own).for_each(|(memory, own)| memory.store(builder, own, &places));
            barrier(builder);
            let total = self.combine_shared(&memory, size, &|part| vec![part, places[1]], combine)?;
            barrier(builder);
            return Ok(total);
        }
        let mut total = own;
        let mut distance = size.min(WARP) / 2;
        while distance > 0 {
            let of_other = |own: &RegisterValue<'c>| {
                let parts = own.values().into_iter().map(|value| exchange(builder, value, distance));
                own.with_values(&parts.collect::<Vec<_>>())
            };
            let others: Vec<RegisterValue<'c>> = total.iter().map(of_other).collect();
            total = combine(self, &total, &others)?;
            distance /= 2;
        }
        if size <= WARP {
            return Ok(total);
        }
        // Each warp leaves what it has, in a place of its team's own.
        let warps = size / WARP;
        let warp = self.scope.emit(builder, self.scope.simplify(team.part.floordiv(WARP)))?;
        let member = self.scope.emit(builder, team.member)?;
        let memory = SharedValues::of_all(builder, team.function, &total, &[count, warps]);
        let is_first = self.scope.affine_bounds(&[-team.part.modulo(WARP)])?;
        let is_first = AffineConditions { values: is_first, equalities: vec![false] };
        builder.affine_if_then(&is_first, |builder| {
            memory.iter().zip(&total).for_each(|(memory, total)| memory.store(builder, total, &[member, warp]));
            Ok::<_, LoweringError>(())
        })?;
        barrier(builder);
        let total = self.combine_shared(&memory, warps, &|warp| vec![member, warp], combine)?;
        barrier(builder);
        Ok(total)
    }

    /// The values at so many places of shared memory, combined in order.
    fn combine_shared(
        &mut self,
        memory: &[SharedValues<'c>],
        count: i64,
        place: &dyn Fn(Value<'c>) -> Vec<Value<'c>>,
        combine: &mut CombineValues<'_, 'a, 'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let builder = self.builder;
        let values = |number: i64| -> Vec<RegisterValue<'c>> {
            memory.iter().map(|own| own.load(builder, &place(builder.constant_index(number)))).collect()
        };
        (1..count).try_fold(values(0), |total, number| combine(self, &total, &values(number)))
    }
}

/// What two threads have of some values, combined.
pub(crate) type CombineValues<'f, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, &[RegisterValue<'c>], &[RegisterValue<'c>]) -> Result<Vec<RegisterValue<'c>>>
    + 'f;

/// Memory of a block with a value at each place.
pub(crate) struct SharedValues<'c> {
    /// For each register of a value.
    arrays: Vec<Value<'c>>,
    like: RegisterValue<'c>,
}

impl<'c> SharedValues<'c> {
    /// Memory for values like one.
    pub fn new(builder: &OpBuilder<'c>, function: &Body<'c>, like: &RegisterValue<'c>, sizes: &[i64]) -> Self {
        let array = |value: Value<'c>| function.add_parameter(shared_type(builder, memory_type(builder, value), sizes));
        SharedValues { arrays: like.values().into_iter().map(array).collect(), like: *like }
    }

    /// Memory for each of several values that a team combines: what others were combined in, which all threads have read, and
    /// new memory where that is not enough.
    pub(crate) fn of_all(
        builder: &OpBuilder<'c>,
        function: &Body<'c>,
        like: &[RegisterValue<'c>],
        sizes: &[i64],
    ) -> Vec<Self> {
        let mut unused = function.parameters();
        let mut array = |value: Value<'c>| {
            let wanted = shared_type(builder, memory_type(builder, value), sizes);
            match unused.iter().position(|own| own.r#type() == wanted) {
                Some(place) => unused.swap_remove(place),
                None => function.add_parameter(wanted),
            }
        };
        let memory = |own: &RegisterValue<'c>| SharedValues {
            arrays: own.values().into_iter().map(&mut array).collect(),
            like: *own,
        };
        like.iter().map(memory).collect()
    }

    /// Puts a value in its place.
    pub fn store(&self, builder: &OpBuilder<'c>, value: &RegisterValue<'c>, place: &[Value<'c>]) {
        for (value, &array) in value.values().into_iter().zip(&self.arrays) {
            let wide = memory_type(builder, value);
            let value = if wide == value.r#type() { value } else { builder.extui(value, wide) };
            builder.plain_store(value, array, place);
        }
    }

    /// The value at a place.
    pub fn load(&self, builder: &OpBuilder<'c>, place: &[Value<'c>]) -> RegisterValue<'c> {
        let registers = self.like.values().into_iter().zip(&self.arrays).map(|(like, &array)| {
            let loaded = builder.plain_load(array, place, memory_type(builder, like));
            if loaded.r#type() == like.r#type() { loaded } else { builder.trunci(loaded, like.r#type()) }
        });
        self.like.with_values(&registers.collect::<Vec<_>>())
    }

    /// The neighbours from a place on, which must be a multiple of their number.
    pub fn load_vector(&self, builder: &OpBuilder<'c>, place: &[Value<'c>], lanes: u32) -> RegisterValue<'c> {
        let loaded = self.like.values().into_iter().zip(&self.arrays).map(|(like, &array)| {
            let element = memory_type(builder, like);
            let operands: Vec<Value<'c>> = [&[array], place].concat();
            let alignment = builder.integer_attribute(builder.integer_type(64), ALIGNMENT.min(4 * i64::from(lanes)));
            builder.value("vector.load", &operands, builder.vector_type(lanes, element), &[("alignment", alignment)])
        });
        let loaded: Vec<Value<'c>> = loaded.collect();
        RegisterValue { lanes: Some(lanes), ..self.like.with_values(&loaded) }
    }

    /// Puts neighbours where they begin, which must be at a multiple of [`ALIGNMENT`].
    pub fn store_vector(&self, builder: &OpBuilder<'c>, value: &RegisterValue<'c>, place: &[Value<'c>]) {
        let alignment = builder.integer_attribute(builder.integer_type(64), ALIGNMENT);
        for (value, &array) in value.values().into_iter().zip(&self.arrays) {
            let operands: Vec<Value<'c>> = [&[value, array], place].concat();
            builder.effect("vector.store", &operands, &[("alignment", alignment)]);
        }
    }

    /// Where the first value is, as an `index`.
    pub fn address(&self, builder: &OpBuilder<'c>) -> Value<'c> {
        address_of(builder, self.arrays[0])
    }
}

/// Type of the memory that holds a register; truth values take a byte.
fn memory_type<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Type<'c> {
    let r#type = value.r#type();
    if r#type == builder.integer_type(1) { builder.integer_type(8) } else { r#type }
}

/// Arrays in shared memory begin at multiples of so many bytes.
pub(crate) const ALIGNMENT: i64 = 16;

/// Type of an array in the memory that the threads of a block share.
fn shared_type<'c>(builder: &OpBuilder<'c>, element: Type<'c>, sizes: &[i64]) -> Type<'c> {
    let space = builder.integer_attribute(builder.integer_type(64), SHARED_SPACE);
    MemRefType::new(element, sizes, None, Some(space)).into()
}

/// Number of the address space of the memory that the threads of a block share.
pub(crate) const SHARED_SPACE: i64 = 3;

/// All threads of the block wait for each other.
pub(crate) fn barrier(builder: &OpBuilder<'_>) {
    builder.effect("gpu.barrier", &[], &[]);
}

/// The register of the lane as far away in the bits of its number.
pub(crate) fn exchange<'c>(builder: &OpBuilder<'c>, value: Value<'c>, distance: i64) -> Value<'c> {
    let (r#type, word, wide) = (value.r#type(), builder.integer_type(32), builder.integer_type(64));
    let of_type = |type_of: Type<'c>| r#type == type_of;
    let bits = |value: Value<'c>, to: Type<'c>| builder.value("arith.bitcast", &[value], to, &[]);
    if of_type(Type::float32(builder.context())) || of_type(word) {
        return exchange_word(builder, value, distance);
    }
    if of_type(Type::float64(builder.context())) {
        return bits(exchange(builder, bits(value, wide), distance), r#type);
    }
    if of_type(wide) {
        let half = builder.integer_like(value, 32);
        let [low, high] = [value, builder.shrui(value, half)]
            .map(|part| builder.extui(exchange_word(builder, builder.trunci(part, word), distance), wide));
        return builder.ori(low, builder.shli(high, half));
    }
    builder.trunci(exchange_word(builder, builder.extui(value, word), distance), r#type)
}

fn exchange_word<'c>(builder: &OpBuilder<'c>, value: Value<'c>, distance: i64) -> Value<'c> {
    let word = |number: i64| builder.constant_integer(builder.integer_type(32), number);
    let mode = Attribute::parse(builder.context(), "#gpu<shuffle_mode xor>")
        .unwrap_or_else(|| Attribute::unit(builder.context()));
    let types = [value.r#type(), builder.integer_type(1)];
    let exchanged =
        builder.operation("gpu.shuffle", &[value, word(distance), word(WARP)], &types, &[("mode", mode)], Vec::new());
    exchanged.results()[0]
}

/// That a position is one of so many terms.
pub(crate) fn is_term<'c>(position: Expr<'c>, terms: i64) -> Constraint<'c> {
    Constraint::new(position, Interval::of_size(terms))
}
