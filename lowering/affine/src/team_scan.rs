//! Scans by teams of threads of a GPU: a warp or a block goes along a row, and each thread has elements at all times.
//!
//! In a round, a thread takes some elements a warp's width apart, so that neighbours read neighbours. Each warp scans its
//! elements by exchanging registers, one width after another; what the warps have goes through shared memory, and what all
//! rounds so far have is carried to the next. So the order in which elements are combined depends on the sizes alone.

use hlo::graph::InstructionId;
use hlo::mapping::{WorkKind, WorkMapping};
use indexing::{Expr, Interval, ceil_div};
use mlir_ext::arith::CmpiPredicate::{Eq, Ne};
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use crate::associative::Combination;
use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::kernel::item_index;
use crate::operand_maps::result_shape;
use crate::reduction::unpack;
use crate::scalar::{RegisterValue, select};
use crate::scan::Scan;
use crate::scope::Binding;
use crate::team::{SharedValues, Team, TeamShape, WARP, barrier, exchange, is_term};
use crate::walk::{Choice, Visitor};

type Result<T> = std::result::Result<T, LoweringError>;

/// Elements of a thread in a round, at most.
const MOST_ELEMENTS: i64 = 4;

/// Elements that a thread of a team takes in a round, for rows of a length.
pub(crate) fn elements_of_round(length: i64, team: i64) -> i64 {
    (length / team).clamp(1, MOST_ELEMENTS)
}

/// Whether a mapping has teams for the rows of a scan.
pub(crate) fn is_of_teams(mapping: &WorkMapping<'_>) -> bool {
    TeamShape::of(mapping).is_some() && mapping.dimensions.get(2).is_some_and(|own| own.kind == WorkKind::Scan)
}

/// A row of a scan, and the team that goes along it.
struct TeamScan<'s, 'c> {
    scan: &'s Scan,
    combination: Combination<'s>,
    shape: TeamShape,
    /// Elements of the row.
    length: i64,
    /// Elements of a thread in a round.
    elements: i64,
    /// The thread in its warp, its warp in the team, the team in the block.
    lane: Value<'c>,
    /// Whether it is the first one there.
    is_first: AffineConditions<'c>,
    warp: Value<'c>,
    member: Value<'c>,
    /// The thread's first position in a round.
    first: Expr<'c>,
    /// Under which conditions there is a row.
    has_row: Vec<Expr<'c>>,
}

/// Runs `body` at each index of a mapping of teams, once the scan's value there is known.
pub(crate) fn emit<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    function: &'a Body<'c>,
    body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &[Vec<Expr<'c>>]) -> Result<()>,
) -> Result<()> {
    let scan = Scan::of(emitter.computation);
    let found = scan.as_ref().and_then(|scan| Some((scan, scan.combination(emitter.computation)?)));
    let (Some((scan, combination)), Some(shape)) = (found, TeamShape::of(mapping)) else {
        return Err(LoweringError::bug("nothing is scanned by teams"));
    };
    let builder = emitter.builder;
    let rows = mapping.bounds(0).upper + 1;
    let (team, wanted) = Team::of_thread(emitter, (shape, function), rows)?;
    // Threads of teams without a row go along the last one, as others wait for them, and store nothing.
    let last = emitter.scope.constant(rows - 1);
    let row = builder.as_symbols(|builder| emitter.scope.emit_min(builder, &[wanted, last]))?;
    let row = emitter.scope.add_variable(Interval::of_size(rows), Binding::Symbol(row));
    let elements = mapping.dimensions[2].tile;
    let [warp, lane] = [team.part.floordiv(WARP), team.part.modulo(WARP)];
    let last_first = shape.size * elements - WARP * (elements - 1);
    let first = emitter.emit_symbol(warp * (WARP * elements) + lane, last_first)?;
    let row_scan = TeamScan {
        scan,
        combination,
        shape,
        length: mapping.bounds(2).upper + 1,
        elements,
        lane: emitter.scope.emit(builder, lane)?,
        is_first: AffineConditions { values: emitter.scope.affine_bounds(&[-lane])?, equalities: vec![false] },
        warp: emitter.scope.emit(builder, warp)?,
        member: emitter.scope.emit(builder, team.member)?,
        first,
        has_row: if rows % shape.count == 0 { Vec::new() } else { vec![-wanted + (rows - 1)] },
    };
    let index = |emitter: &Elemental<'a, 'c>, position: Expr<'c>| {
        item_index(emitter, mapping, &[row, emitter.scope.constant(0), position])
    };
    row_scan.emit(emitter, function, &index, body)
}

impl<'c> TeamScan<'_, 'c> {
    fn emit<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        function: &'a Body<'c>,
        index: &dyn Fn(&Elemental<'a, 'c>, Expr<'c>) -> Vec<Expr<'c>>,
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &[Vec<Expr<'c>>]) -> Result<()>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let instruction = emitter.computation.get(self.scan.instruction);
        let (inputs, starts) = instruction.operands.split_at(instruction.operands.len() / 2);
        let initial = starts.iter().map(|&start| emitter.evaluate(start, &[])).collect::<Result<Vec<_>>>()?;
        let initial = self.combination.widen(emitter, initial);
        let warps = self.shape.size / WARP;
        // In turns, so that nobody waits until all have read.
        let sizes = [2, self.shape.count, warps];
        let memory = (warps > 1).then(|| SharedValues::of_all(builder, function, &initial, &sizes));
        let rounds = Interval::of_size(ceil_div(self.length, self.shape.size * self.elements));
        let start = initial.iter().flat_map(RegisterValue::values).collect();
        emitter.loop_in(rounds, None, start, &mut |emitter, round, state| {
            let places: Vec<Expr<'c>> = (0..self.elements)
                .map(|number| round * (self.shape.size * self.elements) + self.first + number * WARP)
                .collect();
            let places = places.into_iter().map(|place| self.place(emitter, place)).collect::<Result<Vec<_>>>()?;
            // All are loaded before any is waited for.
            let mut elements = Vec::with_capacity(places.len());
            for place in &places {
                let index = index(emitter, place.position);
                let own = inputs.iter().map(|&operand| place.guarded(emitter, &index, operand));
                elements.push(own.collect::<Result<Vec<_>>>()?);
            }
            let mut own = Vec::with_capacity(elements.len());
            for element in elements {
                let element = self.combination.widen(emitter, element);
                own.push(self.scan_warp(emitter, &element)?);
            }
            let carried = unpack(&initial, &state);
            let mut before = carried.clone();
            let mut behind = carried;
            if let Some(memory) = &memory {
                let mut totals = own.iter().map(|[_, total]| total.clone());
                let first = totals.next().unwrap_or_else(|| behind.clone());
                let total = totals.try_fold(first, |total, own| self.combination.combine(emitter, &total, &own))?;
                let turn = emitter.scope.emit(builder, round.modulo(2))?;
                builder.affine_if_then(&self.is_first, |builder| {
                    let place = [turn, self.member, self.warp];
                    memory.iter().zip(&total).for_each(|(memory, total)| memory.store(builder, total, &place));
                    Ok::<_, LoweringError>(())
                })?;
                barrier(builder);
                for warp in 0..warps {
                    let warp = builder.constant_index(warp);
                    let is_own = builder.cmpi(Eq, self.warp, warp);
                    before = chosen(builder, is_own, &behind, &before);
                    let place = [turn, self.member, warp];
                    let total: Vec<RegisterValue<'c>> = memory.iter().map(|own| own.load(builder, &place)).collect();
                    behind = self.combination.combine(emitter, &behind, &total)?;
                }
            }
            for (place, [value, total]) in places.iter().zip(&own) {
                let scanned = self.combination.combine(emitter, &before, value)?;
                before = self.combination.combine(emitter, &before, total)?;
                let results = self.combination.finish(emitter, scanned);
                let index = index(emitter, place.position);
                let mut at_index = |emitter: &mut Elemental<'a, 'c>| {
                    emitter.nested(|emitter| {
                        emitter.remember(self.scan.instruction, &index, results.clone());
                        body(emitter, std::slice::from_ref(&index))
                    })
                };
                let guards: Vec<Expr<'c>> = place.guard().chain(self.has_row.iter().copied()).collect();
                if guards.is_empty() {
                    at_index(emitter)?;
                    continue;
                }
                let values = emitter.scope.affine_bounds(&guards)?;
                let conditions = AffineConditions { values, equalities: vec![false; guards.len()] };
                builder.affine_if_then(&conditions, |_| at_index(emitter))?;
            }
            let carried = if memory.is_some() { behind } else { before };
            Ok(carried.iter().flat_map(RegisterValue::values).collect())
        })?;
        Ok(())
    }

    /// What the lanes of the warp up to the own one have, combined, and what all of them have.
    fn scan_warp(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        own: &[RegisterValue<'c>],
    ) -> Result<[Vec<RegisterValue<'c>>; 2]> {
        let builder = emitter.builder;
        let lanes = (self.lane, self.combination.commutes());
        scan_lanes(builder, lanes, own, &mut |left, right| self.combination.combine(emitter, left, right))
    }

    /// A place in the row, or behind it.
    fn place(&self, emitter: &mut Elemental<'_, 'c>, wanted: Expr<'c>) -> Result<Place<'c>> {
        let bounds = Interval::of_size(self.length);
        if bounds.contains_interval(emitter.scope.range(wanted)) {
            return Ok(Place { position: wanted, wanted: None, length: self.length });
        }
        let builder = emitter.builder;
        let number = emitter.scope.emit(builder, wanted)?;
        let position = emitter.scope.add_variable(bounds, index_binding(builder, number));
        Ok(Place { position, wanted: Some(wanted), length: self.length })
    }
}

/// What the lanes of a warp up to one have, combined, and what all of them have; `commutes` says whether lanes may be exchanged.
pub(crate) fn scan_lanes<'c>(
    builder: &OpBuilder<'c>,
    (lane, commutes): (Value<'c>, bool),
    own: &[RegisterValue<'c>],
    combine: &mut CombineLanes<'_, 'c>,
) -> Result<[Vec<RegisterValue<'c>>; 2]> {
    let (mut scanned, mut total) = (own.to_vec(), own.to_vec());
    let mut distance = 1;
    while distance < WARP {
        let of_other = |own: &RegisterValue<'c>| {
            let parts = own.values().into_iter().map(|value| exchange(builder, value, distance));
            own.with_values(&parts.collect::<Vec<_>>())
        };
        let other: Vec<RegisterValue<'c>> = total.iter().map(of_other).collect();
        let bit = builder.andi(lane, builder.constant_index(distance));
        let is_behind = builder.cmpi(Ne, bit, builder.constant_index(0));
        let with_other = combine(&other, &scanned)?;
        scanned = chosen(builder, is_behind, &with_other, &scanned);
        total = match commutes {
            true => combine(&total, &other)?,
            false => {
                let first = chosen(builder, is_behind, &other, &total);
                combine(&first, &chosen(builder, is_behind, &total, &other))?
            }
        };
        distance *= 2;
    }
    Ok([scanned, total])
}

/// Combines what comes first with what comes behind it.
type CombineLanes<'f, 'c> =
    dyn FnMut(&[RegisterValue<'c>], &[RegisterValue<'c>]) -> Result<Vec<RegisterValue<'c>>> + 'f;

fn chosen<'c>(
    builder: &OpBuilder<'c>,
    condition: Value<'c>,
    if_true: &[RegisterValue<'c>],
    if_false: &[RegisterValue<'c>],
) -> Vec<RegisterValue<'c>> {
    if_true.iter().zip(if_false).map(|(own, other)| select(builder, condition, own, other)).collect()
}

/// A place of a round.
struct Place<'c> {
    /// Where it is in the row, if it is inside.
    position: Expr<'c>,
    /// The same, if it may lie behind the row.
    wanted: Option<Expr<'c>>,
    length: i64,
}

impl<'c> Place<'c> {
    /// What must not be negative for the place to be inside.
    fn guard(&self) -> impl Iterator<Item = Expr<'c>> {
        self.wanted.into_iter().map(|wanted| -wanted + (self.length - 1))
    }

    /// A value at the place; zero behind the row, where it goes nowhere: what is inside comes before it.
    fn guarded<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
        operand: InstructionId,
    ) -> Result<RegisterValue<'c>> {
        let Some(wanted) = self.wanted else { return emitter.evaluate(operand, index) };
        let element_type = result_shape(emitter.computation.get(operand))?.element_type;
        let condition = [is_term(wanted, self.length)];
        let choice = Choice { conditions: &condition, types: &[element_type], index, sizes: &[] };
        let values = emitter.choose(
            &choice,
            &mut |emitter, index| Ok(vec![emitter.evaluate(operand, index)?]),
            &mut |emitter| Ok(vec![emitter.zero(element_type)]),
        )?;
        values.first().copied().ok_or_else(|| LoweringError::bug("a choice without a value"))
    }
}
