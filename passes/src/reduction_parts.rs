//! Into which parts `split-reductions` divides a reduction.

use std::cmp::Ordering;

use hlo::graph::Instruction;
use hlo::ops::reduce::ReduceAttributes;
use hlo::shape::ArrayShape;

/// Results from which on a reduction has enough to do side by side.
const MANY_RESULTS: i64 = 256;

/// Elements that each result combines at least.
const LEAST_TERMS: i64 = 1 << 15;

/// Elements that each part of a result combines at least.
const LEAST_TERMS_OF_PART: i64 = 1 << 11;

/// Parts of all results, at most.
pub(crate) const MOST_PARTS: i64 = 1 << 10;

/// The same of results that lie abreast, where each part is combined by a few threads only: results from which on there are enough,
/// elements that are combined at least, in all and to each result and part, and parts of all results at most.
const MANY_ABREAST: i64 = 1 << 15;
const LEAST_ABREAST: i64 = 1 << 21;
const LEAST_TERMS_ABREAST: i64 = 1 << 10;
const LEAST_TERMS_OF_PART_ABREAST: i64 = 1 << 8;

/// Neighbours that lie abreast, at least.
const LEAST_NEIGHBOURS: i64 = 32;

/// Parts of all results whose order matters, at most: a thread combines those of each.
pub(crate) const MOST_PARTS_IN_ORDER: i64 = 1 << 6;

/// Parts for which a second reduction is worth it.
const LEAST_PARTS: i64 = 4;

/// For the threads of a processor: elements from which on a reduction of rows is worth dividing, rows from which on there are
/// enough of them for threads, elements of each part at least, and parts, which are enough for many threads.
const MANY_ELEMENTS: i64 = 1 << 18;
const FEW_ROWS: i64 = 32;
const ELEMENTS_OF_TASK: i64 = 1 << 14;
const LEAST_TASKS: i64 = 8;
const MOST_TASKS: i64 = 64;

/// The same for columns: so few that threads have nothing to share, those that vectors take at once, and results of all parts at
/// most.
const FEW_COLUMNS: i64 = 256;
const ABREAST_AT_ONCE: i64 = 64;
const MOST_RESULTS_OF_PARTS: i64 = 1 << 12;

/// What decides about parts: results from which on there are none, elements that each result and each part combine at least, and parts
/// of all results at most.
#[derive(Clone, Copy)]
struct Limits {
    results: i64,
    terms: i64,
    terms_of_part: i64,
    parts: i64,
}

/// How a reduction is divided.
pub(crate) struct Parts {
    /// Sizes of what is reduced, with a dimension for the parts.
    pub sizes: Vec<i64>,
    /// What the first reduction reduces.
    pub inner: Vec<i64>,
    /// The dimensions of the parts, among those that it leaves.
    pub left: Vec<i64>,
    /// The dimension that is divided.
    pub along: usize,
    /// Positions at its end that no part has.
    pub rest: i64,
}

impl Parts {
    /// The parts of a reduction of many elements to few, or along columns.
    pub(crate) fn of(shape: &ArrayShape, reduce: &Instruction, most: i64) -> Option<Self> {
        let limits =
            Limits { results: MANY_RESULTS, terms: LEAST_TERMS, terms_of_part: LEAST_TERMS_OF_PART, parts: most };
        Self::within(shape, reduce, limits)
    }

    /// Those of a reduction by an operation, whose results may lie abreast.
    pub(crate) fn of_operation(shape: &ArrayShape, reduce: &Instruction) -> Option<Self> {
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let is_abreast = shape.rank() > 0
            && !dimensions.contains(&(shape.rank() as i64 - 1))
            && shape.dimensions[shape.rank() - 1] >= LEAST_NEIGHBOURS
            && shape.element_count() >= LEAST_ABREAST;
        if !is_abreast {
            return Self::of(shape, reduce, MOST_PARTS);
        }
        let limits = Limits {
            results: MANY_ABREAST,
            terms: LEAST_TERMS_ABREAST,
            terms_of_part: LEAST_TERMS_OF_PART_ABREAST,
            parts: MANY_ABREAST,
        };
        Self::within(shape, reduce, limits)
    }

    fn within(shape: &ArrayShape, reduce: &Instruction, limits: Limits) -> Option<Self> {
        if shape.is_dynamic() {
            return None;
        }
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let reduced = |d: &i64| size_along(shape, *d);
        let [results, terms] = results_and_terms(shape, dimensions);
        if results == 0 || results >= limits.results || terms < limits.terms {
            return None;
        }
        // Of the longest reduced dimension, or the first of several.
        let along = dimensions.iter().copied().max_by_key(|d| (reduced(d), -d))?;
        let size = reduced(&along);
        let wanted = (limits.parts / results).min(terms / limits.terms_of_part).min(size);
        let parts = (LEAST_PARTS..=wanted).rev().find(|parts| size % parts == 0)?;
        Some(Self::along(shape, dimensions, along, (parts, 1)))
    }

    /// The parts of a reduction of many elements to few, of rows or along columns, for the threads of a processor: neighbours in
    /// memory, if the outermost reduced dimension can be divided. `allows_rest` if equal parts may leave some positions to no part.
    pub(crate) fn for_processor(shape: &ArrayShape, reduce: &Instruction, allows_rest: bool) -> Option<Self> {
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let [results, _] = results_and_terms(shape, dimensions);
        let count = shape.element_count();
        let along_rows = dimensions.contains(&(shape.rank() as i64 - 1));
        let few = if along_rows { FEW_ROWS } else { FEW_COLUMNS };
        let is_few = (1..few).contains(&results) && count >= MANY_ELEMENTS;
        if shape.is_dynamic() || !is_few {
            return None;
        }
        let wanted = (count / ELEMENTS_OF_TASK).min(MOST_TASKS).min(MOST_RESULTS_OF_PARTS / results);
        let mut in_order = dimensions.to_vec();
        in_order.sort_unstable();
        in_order.into_iter().find_map(|along| {
            let size = size_along(shape, along);
            let most = wanted.min(size);
            let counts = (LEAST_TASKS.max(most / 2)..=most).rev();
            let parts = counts.min_by_key(|parts| size % parts)?;
            let rest = size % parts;
            // What is left takes one thread no longer than a part.
            let is_fair = rest == 0 || allows_rest && rest <= size / parts;
            // Short rows are taken several at once.
            let rows = if along_rows || dimensions.len() > 1 { 1 } else { (ABREAST_AT_ONCE / results).max(1) };
            let at_once = (1..=rows).rev().find(|rows| size / parts % rows == 0)?;
            is_fair.then(|| Self::along(shape, dimensions, along, (parts, at_once)))
        })
    }

    /// So many parts of one dimension, as equal as they can be, each of which is combined to several results: neighbours.
    fn along(shape: &ArrayShape, dimensions: &[i64], along: i64, (parts, neighbours): (i64, i64)) -> Self {
        let place = along as usize;
        let mut sizes = shape.dimensions.clone();
        let (own, rest) = (sizes[place] / parts, sizes[place] % parts);
        let divided: &[i64] = if neighbours == 1 { &[parts, own] } else { &[parts, own / neighbours, neighbours] };
        sizes.splice(place..=place, divided.iter().copied());
        let added = divided.len() as i64 - 1;
        let behind = |d: i64| match d.cmp(&along) {
            Ordering::Less => d,
            Ordering::Equal => d + 1,
            Ordering::Greater => d + added,
        };
        let inner: Vec<i64> = dimensions.iter().map(|&d| behind(d)).collect();
        let first = along - dimensions.iter().filter(|&&d| d < along).count() as i64;
        Parts { sizes, inner, left: (first..first + added).collect(), along: place, rest }
    }
}

fn size_along(shape: &ArrayShape, dimension: i64) -> i64 {
    shape.dimensions.get(dimension as usize).copied().unwrap_or(1)
}

/// The results of a reduction of some dimensions, and the elements that each combines.
fn results_and_terms(shape: &ArrayShape, dimensions: &[i64]) -> [i64; 2] {
    let terms: i64 = dimensions.iter().map(|&d| size_along(shape, d)).product();
    [shape.element_count() / terms.max(1), terms]
}
