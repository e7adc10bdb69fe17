//! Fusion by row: reductions whose results are read all along the row that they reduce.
//!
//! The leading dimensions of a fusion's loops are its *rows*, the others go along a row. A value that has one element for
//! each row, such as a norm, is computed once, before the row's elements; so is a value along the row that several loops
//! over it read, or one at several places, and that is worth keeping. The reads decide: the indexing maps from users to operands say how many leading
//! indices of a value are those of the loops.

use std::collections::HashSet;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::indexing_maps::{InstructionMaps, Numbering};
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::{ArrayShape, Shape};
use indexing::{Expr, IndexingMap};
use melior::Context;

use super::indices::Indices;
use super::roles::{is_expensive, is_function, reads_at_same_index, role};

/// Bytes of one row of a value that is kept, at most: a part of the first cache.
const MOST_ROW_BYTES: i64 = 1 << 15;

/// Bytes of one row of all values that are kept, at most: they are on the stack of a thread.
const MOST_KEPT_BYTES: i64 = 1 << 18;

/// Elements of a row from which on a vector goes along it.
const SHORTEST_ROW: i64 = 32;

/// Elements of a row up to which the caches of a core hold what is read again.
const LONGEST_ROW: i64 = 1 << 16;

/// Rows that are enough for several threads.
const ENOUGH_ROWS: i64 = 8;

/// Elements of an array up to which one thread is enough.
const SMALL_ARRAY: i64 = 1 << 15;

/// Operations that computing a value again may take altogether, rather than storing it and loading it again.
const MOST_REPEATED_WORK: i64 = 8;

/// The work of an expensive operation, in simple ones.
const EXPENSIVE_WORK: i64 = 16;

/// A number of operations that is many.
const MUCH_WORK: i64 = 1 << 20;

/// Loops over a row that are told apart.
const MOST_LOOPS: u32 = 62;

/// What a fusion computes once for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Leading dimensions of the fusion's loops that go from row to row.
    pub rank: usize,
    /// The values that are computed for a row before its elements, in order: those of one element for the row, and those
    /// along the row that are kept.
    pub steps: Vec<InstructionId>,
    /// The reductions among the values of one element for the row, in order, whatever they are computed with.
    pub reductions: Vec<InstructionId>,
    /// The values that, wherever they are read, are read in the row that is computed.
    pub read_in_row: HashSet<InstructionId>,
}

/// How many leading indices of an operand are those of the loops, where so many of its user's are. `map` is the one from
/// the user to the operand.
pub(super) fn operand_prefix<'c>(
    computation: &Computation,
    user: &Instruction,
    number: usize,
    prefix: usize,
    map: impl FnOnce() -> Option<IndexingMap<'c>>,
) -> usize {
    let Some(shape) = computation.get(user.operands[number]).shape.as_array() else { return 0 };
    let most = prefix.min(shape.rank());
    if most == 0 || reads_at_same_index(user) {
        return most;
    }
    let Some(map) = map() else { return 0 };
    let is_own = |dimension: usize| {
        shape.dimensions[dimension] == 1 || map.results().get(dimension) == Some(&Expr::dim(map.context(), dimension))
    };
    (0..most).take_while(|&dimension| is_own(dimension)).count()
}

/// The leading dimensions of loops that a value with one element for each row has: all of its own but trailing ones of
/// size 1.
pub(super) fn row_rank(shape: &ArrayShape, loops: &[i64]) -> Option<usize> {
    let trailing = shape.dimensions.iter().rev().take_while(|&&size| size == 1).count();
    let rank = (shape.rank() - trailing).max(1);
    (shape.dimensions.get(..rank)? == loops.get(..rank)?).then_some(rank)
}

/// Whether each row of loops has its own part of an array, small enough to be kept.
pub(super) fn is_kept_by_row(shape: &ArrayShape, loops: &[i64], rank: usize) -> bool {
    let has_rows = shape.dimensions.len() >= rank && shape.dimensions[..rank] == loops[..rank];
    has_rows && row_bytes(shape, rank) <= MOST_ROW_BYTES
}

fn row_bytes(shape: &ArrayShape, rank: usize) -> i64 {
    shape.dimensions[rank..].iter().product::<i64>() * shape.element_type.byte_width().max(1) as i64
}

/// Whether it is worth it to go row by row, for so many rows of so many elements.
pub(super) fn is_worth_it(rows: i64, length: i64) -> bool {
    (SHORTEST_ROW..=LONGEST_ROW).contains(&length) && (rows >= ENOUGH_ROWS || rows * length <= SMALL_ARRAY)
}

/// For each instruction the length of the contiguous rows from whose reductions its elements are computed one by one; 0 where
/// it is no such value.
pub(super) fn reduced_lengths(computation: &Computation, reduces_rows: &dyn Fn(InstructionId) -> bool) -> Vec<i64> {
    let count = |id: InstructionId| computation.get(id).shape.as_array().map_or(0, ArrayShape::element_count);
    let mut lengths: Vec<i64> = Vec::with_capacity(computation.instructions.len());
    for (id, instruction) in computation.iter() {
        let own = count(id);
        lengths.push(match instruction.kind {
            OpKind::Reduce if own > 0 && reduces_rows(id) => count(instruction.operands[0]) / own,
            kind if role(instruction) == FusionRole::Elementwise || kind == OpKind::Reshape => {
                let same_size = instruction.operands.iter().filter(|&&operand| count(operand) == own);
                same_size.map(|operand| lengths[operand.index()]).max().unwrap_or(0)
            }
            _ => 0,
        });
    }
    lengths
}

/// The array that an instruction computes; of several, which those of one operation have the same dimensions, the first one.
pub fn first_result(instruction: &Instruction) -> Option<&ArrayShape> {
    instruction.shape.leaves().into_iter().find_map(Shape::as_array)
}

/// The values that a computation writes, and the dimensions of its loops: those of the largest of them.
pub fn written(computation: &Computation) -> (Vec<InstructionId>, &[i64]) {
    let roots = computation.roots();
    let shapes = roots.iter().filter_map(|&root| first_result(computation.get(root)));
    let largest = shapes.fold(None, |largest: Option<&ArrayShape>, shape| match largest {
        Some(largest) if (largest.element_count(), largest.rank()) >= (shape.element_count(), shape.rank()) => {
            Some(largest)
        }
        _ => Some(shape),
    });
    (roots, largest.map_or(&[], |shape| &shape.dimensions))
}

impl Rows {
    /// The rows of a fused computation, if it has any.
    pub fn of(context: &Context, body: &Computation) -> Option<Rows> {
        Self::found(context, body).filter(|(_, worth)| worth.for_loops).map(|(rows, _)| rows)
    }

    /// The elements of a fused computation as rows, where it computes functions of reductions: vectors take those of several.
    pub fn with_functions(context: &Context, body: &Computation) -> Option<Rows> {
        Self::found(context, body).filter(|(_, worth)| worth.for_functions).map(|(rows, _)| rows)
    }

    fn found(context: &Context, body: &Computation) -> Option<(Rows, Worth)> {
        let may_have = |instruction: &Instruction| instruction.kind == OpKind::Reduce || is_expensive(instruction);
        let (roots, loops) = written(body);
        // Their loops are not over rows of the results.
        let has_own_loops = |kind| {
            use OpKind::{Convolution, Dot, DynamicUpdateSlice, ReduceWindow, Scatter};
            matches!(kind, Convolution | Dot | DynamicUpdateSlice | ReduceWindow | Scatter)
        };
        if body.root().kind == OpKind::Concatenate
            || body.instructions.iter().any(|instruction| has_own_loops(instruction.kind))
        {
            return None;
        }
        let loop_elements: i64 = loops.iter().product();
        // Loops over all elements would write it once for each element of its row.
        let is_result_of_row = |id: InstructionId| {
            let shape = body.get(id).shape.as_array();
            roots.contains(&id) && shape.is_some_and(|shape| shape.element_count() < loop_elements)
        };
        let is_asked_for = |id: InstructionId| may_have(body.get(id)) || is_result_of_row(id);
        if loops.is_empty() || !body.iter().any(|(id, _)| is_asked_for(id)) {
            return None;
        }
        let prefixes = prefixes(context, body, &roots, loops);
        // Where a reduction has several results, which are computed together, they are no value that is kept.
        let rank_of_results = |id: InstructionId| {
            let rank = row_rank(first_result(body.get(id))?, loops)?;
            (prefixes[id.index()]? >= rank).then_some(rank)
        };
        let is_array = |id: InstructionId| body.get(id).shape.as_array().is_some();
        let rank_of = |id: InstructionId| rank_of_results(id).filter(|_| is_array(id));
        // Without dimensions along the rows, loops of reductions are what goes along them.
        let whole = row_rank_of_all(loops);
        let is_reduction = |id: InstructionId| body.get(id).kind == OpKind::Reduce;
        let ids = || body.iter().map(|(id, _)| id);
        let candidates = |of: &dyn Fn(InstructionId) -> bool| ids().filter(|&id| of(id)).filter_map(rank_of).min();
        let rank = candidates(&is_reduction).or_else(|| candidates(&is_asked_for))?;
        let work = work(body, &|id| rank_of(id) == Some(rank));
        let mut reads = vec![Reads::default(); body.instructions.len()];
        let is_item = |id: InstructionId| body.get(id).shape.as_array().is_some_and(|shape| shape.dimensions == loops);
        for &root in &roots {
            if is_item(root) {
                reads[root.index()].by_loops |= 1;
                reads[root.index()].indices.extend(&Indices::of_loops());
            }
            reads[root.index()].is_read = true;
        }
        let follows = follow_reductions(body);
        let (mut steps, mut kept_bytes, mut next_loop, mut worth) = (Vec::new(), 0, 1, Worth::default());
        for position in (0..body.instructions.len()).rev() {
            let id = InstructionId(position as u32);
            let (instruction, own) = (body.get(id), std::mem::take(&mut reads[position]));
            if !own.is_read || matches!(instruction.kind, OpKind::Parameter | OpKind::Constant | OpKind::Tuple) {
                continue;
            }
            let own_role = role(instruction);
            let is_value = own_role != FusionRole::View && rank_of_results(id) == Some(rank);
            let shape = instruction.shape.as_array();
            let is_kept = || {
                let Some(shape) = shape.filter(|_| prefixes[position] >= Some(rank)) else { return false };
                if own_role == FusionRole::View || !is_kept_by_row(shape, loops, rank) {
                    return false;
                }
                let again = i64::from(own.indices.count()) - 1;
                let is_written = roots.contains(&id);
                again > 0
                    && (is_written
                        || again * work[position] > MOST_REPEATED_WORK
                            && kept_bytes + row_bytes(shape, rank) <= MOST_KEPT_BYTES)
            };
            let (mut by_loops, mut indices) = (own.by_loops, own.indices.clone());
            let is_read_along = own.is_read_along || own.by_loops & !1 != 0;
            // What one other value of the row is simply made of is computed with it.
            let is_part = own.by_loops == 0 && own.by_values == 1 && !own.by_expensive && !roots.contains(&id);
            if is_value {
                worth.for_loops |= may_have(instruction) && (rank < whole || is_read_along) || is_result_of_row(id);
                worth.for_functions |= is_function(instruction) && follows[position] && rank == whole;
                let is_loop = instruction.kind == OpKind::Reduce;
                (by_loops, indices) = if is_loop { (1 << next_loop, Indices::of(id)) } else { Default::default() };
            } else if is_kept() {
                kept_bytes += shape.filter(|_| !roots.contains(&id)).map_or(0, |shape| row_bytes(shape, rank));
                (by_loops, indices) = (1 << next_loop, Indices::of(id));
            }
            if is_array(id) && (is_value && !is_part || !is_value && by_loops != own.by_loops) {
                steps.push(id);
            }
            if by_loops != own.by_loops {
                next_loop = (next_loop + 1).min(MOST_LOOPS);
            }
            for (number, operand) in instruction.operands.iter().enumerate() {
                let read = &mut reads[operand.index()];
                read.by_loops |= by_loops;
                if is_value || reads_at_same_index(instruction) {
                    read.indices.extend(&indices);
                } else {
                    read.indices.extend_moved(&indices, id, number);
                }
                read.by_values += if is_value { 1 } else { own.by_values };
                read.by_expensive |= is_value && is_expensive(instruction) || !is_value && own.by_expensive;
                read.is_read_along |= is_read_along && (is_value || own.by_values > 0);
                read.is_read = true;
            }
            reads[position] = own;
        }
        steps.reverse();
        let is_read_in_row = |id: InstructionId| {
            let shape = body.get(id).shape.as_array()?;
            (prefixes[id.index()] >= Some(rank)).then_some(shape.dimensions.get(..rank)? == &loops[..rank])
        };
        let read_in_row = ids().filter(|&id| is_read_in_row(id) == Some(true)).collect();
        let is_of_row = |id: &InstructionId| reads[id.index()].is_read && rank_of(*id) == Some(rank);
        let reductions = ids().filter(|&id| is_reduction(id)).filter(is_of_row).collect();
        Some((Rows { rank, steps, reductions, read_in_row }, worth))
    }
}

/// What it is worth to go row by row for.
#[derive(Clone, Copy, Default)]
struct Worth {
    /// Values that are read by loops along the row.
    for_loops: bool,
    /// Functions of what rows are reduced to.
    for_functions: bool,
}

/// For each instruction whether it is a reduction or computed from one.
fn follow_reductions(body: &Computation) -> Vec<bool> {
    let mut follows: Vec<bool> = Vec::with_capacity(body.instructions.len());
    for (_, instruction) in body.iter() {
        let follows_operand = instruction.operands.iter().any(|operand| follows[operand.index()]);
        follows.push(instruction.kind == OpKind::Reduce || follows_operand);
    }
    follows
}

/// The rank of the rows of loops that have nothing along them.
fn row_rank_of_all(loops: &[i64]) -> usize {
    let trailing = loops.iter().rev().take_while(|&&size| size == 1).count();
    (loops.len() - trailing).max(1)
}

/// By whom a value is read.
#[derive(Clone, Default)]
struct Reads {
    is_read: bool,
    /// The loops over a row that compute with its elements: the first is that of the results, others are reductions' and
    /// those of values that are kept.
    by_loops: u64,
    /// Where in these loops its elements are read.
    indices: Indices,
    /// How many values of a row read it, themselves or through views.
    by_values: u32,
    /// Whether one of these is expensive: rows wait for each other's less where it is computed by itself.
    by_expensive: bool,
    /// Whether such a value is read by loops other than that of the results.
    is_read_along: bool,
}

/// For each instruction of a fused computation, how many leading indices are those of the loops wherever it is read;
/// `None` for what is not.
fn prefixes(context: &Context, body: &Computation, roots: &[InstructionId], loops: &[i64]) -> Vec<Option<usize>> {
    let mut prefixes: Vec<Option<usize>> = vec![None; body.instructions.len()];
    for &root in roots {
        prefixes[root.index()] = Some(first_result(body.get(root)).map_or(0, |shape| shape.rank().min(loops.len())));
    }
    for position in (0..body.instructions.len()).rev() {
        let instruction = &body.instructions[position];
        let Some(prefix) = prefixes[position].filter(|_| instruction.kind != OpKind::Tuple) else { continue };
        for (number, operand) in instruction.operands.iter().enumerate() {
            let map = || InstructionMaps::new(context, body, instruction, Numbering::Operands).operand_map(number);
            let read = operand_prefix(body, instruction, number, prefix, map);
            let known = &mut prefixes[operand.index()];
            *known = Some(known.map_or(read, |known| known.min(read)));
        }
    }
    prefixes
}

/// Simple operations, roughly, that computing an element of each instruction takes, where values of rows are known.
fn work(body: &Computation, is_value: &dyn Fn(InstructionId) -> bool) -> Vec<i64> {
    let mut work: Vec<i64> = Vec::with_capacity(body.instructions.len());
    for (id, instruction) in body.iter() {
        let operands = || instruction.operands.iter().map(|operand| work[operand.index()]).sum::<i64>();
        work.push(match role(instruction) {
            _ if matches!(instruction.kind, OpKind::Constant) || is_value(id) => 0,
            _ if instruction.kind == OpKind::Parameter => 1,
            FusionRole::View => operands(),
            FusionRole::Elementwise if !is_expensive(instruction) => (operands() + 1).min(MUCH_WORK),
            FusionRole::Elementwise | FusionRole::Lookup => (operands() + EXPENSIVE_WORK).min(MUCH_WORK),
            FusionRole::Reduction | FusionRole::Update | FusionRole::Opaque => MUCH_WORK,
        });
    }
    work
}
