//! Tiles of elementwise kernels that read along another dimension than they write.
//!
//! Threads that are neighbours read neighbours, which are a column of the tile, and put them into shared memory; then threads
//! that are neighbours take a row of it.

use hlo::graph::Computation;
use hlo::mapping::WorkMapping;
use indexing::{Expr, IndexingMap, Interval, Var};
use melior::Context;
use mlir_ext::builder::{Body, Value};

use super::{Result, THREADS, TilePlace, simple_symbol, store_results, tile, where_inside};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::kernel::item_index;
use crate::mapping::is_by_element;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::{Binding, Scope};
use crate::team::{SharedValues, barrier};
use crate::trace::{NEAR, coefficient, split_merged, trace};

/// Rows and columns of a tile.
const SIDE: i64 = 32;

/// Rows that the threads of a block take at once.
const ROWS: i64 = THREADS / SIDE;

/// Elements between the rows of shared memory beyond their own, so that columns lie in different banks.
const PADDING: i64 = 1;

/// Rows and columns from which on tiles are worth it.
const LEAST_SIDE: i64 = 16;

/// Arrays that may be read so.
const MOST_ARRAYS: usize = 4;

/// The mapping of an elementwise fusion that reads neighbours of a dimension other than the last one.
pub(crate) fn transposes_of<'c>(
    context: &'c Context,
    body: &Computation,
    sizes: &[i64],
) -> Result<Option<WorkMapping<'c>>> {
    if !is_by_element(body, sizes) {
        return Ok(None);
    }
    let roots = body.roots();
    let Some(column) = (0..sizes.len()).rev().find(|&d| sizes[d] > 1).filter(|&d| sizes[d] >= LEAST_SIDE) else {
        return Ok(None);
    };
    let mut scope = Scope::new(context);
    let index: Vec<Expr<'c>> = sizes.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let variables: Vec<Option<Var>> = index.iter().map(|expr| expr.as_variable()).collect();
    let found = trace(body, &roots, &index, &mut scope)?;
    if !found.conditions.is_empty() || !found.lookups.is_empty() {
        return Ok(None);
    }
    let row_of = |address: Expr<'c>| {
        let along = |d: usize| variables[d].and_then(|variable| coefficient(&scope, address, variable));
        let is_near = along(column).is_some_and(|distance| distance < NEAR);
        let mut rows = (0..column).rev().filter(|&d| sizes[d] >= LEAST_SIDE && !is_near);
        rows.find(|&d| along(d) == Some(1))
    };
    let mut rows = found.loads.iter().filter_map(|(_, address)| row_of(*address));
    let Some(row) = rows.next() else { return Ok(None) };
    let others: Vec<usize> = (0..sizes.len()).filter(|&d| d != row && d != column).collect();
    let other_sizes: Vec<i64> = others.iter().map(|&d| sizes[d]).collect();
    let mut index = vec![Expr::constant(context, 0); sizes.len()];
    for (&d, expr) in others.iter().zip(split_merged(Expr::dim(context, 0), &other_sizes)) {
        index[d] = expr;
    }
    (index[row], index[column]) = (Expr::dim(context, 1), Expr::dim(context, 2));
    let extents = [other_sizes.iter().product(), sizes[row], sizes[column]];
    Ok(Some(WorkMapping {
        map: IndexingMap::from_sizes(context, &extents, &[], index),
        dimensions: vec![tile(1), tile(SIDE), tile(SIDE)],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    }))
}

/// What is read along the rows.
struct Staged<'a, 'c> {
    parameter: usize,
    array: &'a ArrayRef<'c>,
    address: Expr<'c>,
    shared: SharedValues<'c>,
}

/// Emits the kernel of such a fusion.
pub(super) fn emit<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let builder = emitter.builder;
    let sizes = [1, 2].map(|number| mapping.bounds(number).upper + 1);
    let TilePlace { batch, firsts, thread } = TilePlace::of(emitter, mapping, THREADS)?;
    let near = simple_symbol(emitter, thread.modulo(SIDE), SIDE)?;
    let far = simple_symbol(emitter, thread.floordiv(SIDE), ROWS)?;
    let row = emitter.scope.add_traced(Interval::of_size(sizes[0]));
    let column = emitter.scope.add_traced(Interval::of_size(sizes[1]));
    let place = [row.as_variable(), column.as_variable()];
    let staged = staged(emitter, mapping, [batch, row, column], function)?;
    let at = |emitter: &Elemental<'_, 'c>, address: Expr<'c>, [row, column]: [Expr<'c>; 2]| {
        let replaced = address.substitute(&|variable| match Some(variable) {
            own if own == place[0] => Some(row),
            own if own == place[1] => Some(column),
            _ => None,
        });
        emitter.scope.simplify(replaced)
    };
    for number in 0..SIDE / ROWS {
        let place = [firsts[0] + near, firsts[1] + far + number * ROWS];
        inside(emitter, place, sizes, &mut |emitter, place| {
            let shared = [emitter.scope.emit(builder, far + number * ROWS)?, emitter.scope.emit(builder, near)?];
            for staged in &staged {
                let address = at(emitter, staged.address, place);
                let (memref, place) = emitter.flat_place(staged.array, address)?;
                let r#type = scalar::load_type(builder, staged.array.element_type, None);
                let loaded = place.load(builder, memref, r#type);
                let value = scalar::from_memory(builder, staged.array.element_type, None, loaded);
                staged.shared.store(builder, &value, &shared);
            }
            Ok(())
        })?;
    }
    barrier(builder);
    for number in 0..SIDE / ROWS {
        let place = [firsts[0] + far + number * ROWS, firsts[1] + near];
        inside(emitter, place, sizes, &mut |emitter, place| {
            let shared: [Value<'c>; 2] =
                [emitter.scope.emit(builder, near)?, emitter.scope.emit(builder, far + number * ROWS)?];
            for staged in &staged {
                let address = at(emitter, staged.address, place);
                let value = staged.shared.load(builder, &shared);
                emitter.staged.insert((staged.parameter, address), value);
            }
            let index = item_index(emitter, mapping, &[batch, place[0], place[1]]);
            store_results(emitter, outputs, &index)?;
            emitter.staged.clear();
            Ok(())
        })?;
    }
    Ok(())
}

/// What is read along the rows, with memory for a tile of each.
fn staged<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    item: [Expr<'c>; 3],
    function: &Body<'c>,
) -> Result<Vec<Staged<'a, 'c>>> {
    let (builder, computation, inputs) = (emitter.builder, emitter.computation, emitter.inputs);
    let index = item_index(emitter, mapping, &item);
    // What the tracer adds to the scope has no code.
    let loads = emitter.nested(|emitter| trace(computation, &computation.roots(), &index, &mut emitter.scope))?.loads;
    let mut staged: Vec<Staged<'a, 'c>> = Vec::new();
    for (parameter, address) in loads {
        let along = |expr: Expr<'c>| expr.as_variable().and_then(|own| coefficient(&emitter.scope, address, own));
        let is_far = along(item[2]).is_none_or(|distance| distance >= NEAR);
        let is_known = staged.iter().any(|known| known.parameter == parameter && known.address == address);
        if !emitter.scope.holds(address)
            || !is_far
            || along(item[1]) != Some(1)
            || is_known
            || staged.len() == MOST_ARRAYS
        {
            continue;
        }
        let array = inputs.get(parameter).ok_or_else(|| LoweringError::bug("missing fusion input"))?;
        let like: RegisterValue<'c> = scalar::constant(builder, array.element_type, &[], None);
        let shared = SharedValues::new(builder, function, &like, &[SIDE, SIDE + PADDING]);
        staged.push(Staged { parameter, array, address, shared });
    }
    Ok(staged)
}

/// Runs `body` for a place if that is one of the result.
fn inside<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    place: [Expr<'c>; 2],
    sizes: [i64; 2],
    body: &mut dyn FnMut(&mut Elemental<'a, 'c>, [Expr<'c>; 2]) -> Result<()>,
) -> Result<()> {
    let builder = emitter.builder;
    let mut values = [builder.constant_index(0); 2];
    for (value, expr) in values.iter_mut().zip(place) {
        *value = emitter.scope.emit(builder, emitter.scope.simplify(expr))?;
    }
    where_inside(emitter, place, sizes, |emitter| {
        let [row, column] = [0, 1].map(|number: usize| {
            emitter.scope.add_variable(Interval::of_size(sizes[number]), Binding::Symbol(values[number]))
        });
        body(emitter, [row, column])
    })
}
