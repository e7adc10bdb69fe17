//! Rules about gathers.

use hlo::attributes::SliceDimension;
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::gather::GatherAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::scalar::load;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::Value;

use super::Rule;
use super::constants::{EVALUATION_LIMIT, known};
use super::site::{Site, has_default_layouts};

/// Bytes of indices that are looked at, at most.
const MOST_BYTES_OF_INDICES: usize = 1 << 14;

/// Pieces that rows at known places are joined of, at most, and where there are so many rows.
const MOST_PIECES: usize = 3;
const MOST_PIECES_OF_FEW_ROWS: usize = 5;
const FEW_ROWS: std::ops::RangeInclusive<usize> = 5..=7;

/// Rows from which on places are a piece that goes on by another step than one.
const LEAST_ROWS_OF_PIECE: usize = 4;

pub(super) static RULES: &[Rule] = &[
    // gather(x, i) => reshape(broadcast(reverse(slice(x))))  where i are known, and every so many-th row, each so many times,
    // and all that again, as of images that are made larger by whole factors; or a few such joined; otherwise with i as a constant
    Rule { name: "gather-of-known-rows", kinds: &[OpKind::Gather], apply: gather_of_known_rows },
];

fn gather_of_known_rows<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let result = site.array()?;
    let [operand, indices] = [site.operand_array(0)?, site.operand_array(1)?];
    let gather: GatherAttributes = site.attributes()?;
    let (&[dimension], [_]) = (gather.start_index_map, gather.collapsed_slice_dims) else { return None };
    let row = usize::try_from(dimension).ok()?;
    let added = result.rank().checked_sub(operand.rank() - 1)?;
    let is_of_rows = gather.collapsed_slice_dims == [dimension]
        && gather.operand_batching_dims.is_empty()
        && (0..).zip(gather.slice_sizes.iter().zip(&operand.dimensions)).all(|(own, (a, b))| own == row || a == b)
        // What is gathered is where the rows were.
        && (0..).zip(gather.offset_dims).all(|(own, &at)| at == if own < row { own } else { own + added } as i64);
    if !is_of_rows || result.element_count() == 0 || !has_default_layouts(&[result, &operand, &indices]) {
        return None;
    }
    let known = known(site, site.operand(1)?, MOST_BYTES_OF_INDICES)?;
    let literal = known.as_array()?;
    let size = *operand.dimensions.get(row)?;
    let places: Vec<i64> = (0..indices.element_count() as usize)
        .map(|position| load(literal.element_type(), literal.bytes(), position).to_index().clamp(0, size - 1))
        .collect();
    let pieces = match Steps::of(&places) {
        Some(all) => vec![all],
        None => pieces(&places).unwrap_or_default(),
    };
    match joined(site, row, &operand, &pieces) {
        Some(rows) => site.create_reshape(rows, &result.dimensions),
        None => with_constant_indices(site, &known),
    }
}

/// Places as a few pieces, of which each goes on by one step.
fn pieces(places: &[i64]) -> Option<Vec<Steps>> {
    let most = if FEW_ROWS.contains(&places.len()) { MOST_PIECES_OF_FEW_ROWS } else { MOST_PIECES };
    let (mut pieces, mut rest) = (Vec::new(), places);
    while let Some(&first) = rest.first() {
        let length_by = |step: i64| 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
        let own = rest.get(1).map_or(1, |next| next - first);
        let length = if length_by(own) >= LEAST_ROWS_OF_PIECE { length_by(own) } else { length_by(1) };
        let (piece, others) = rest.split_at(length);
        pieces.push(Steps::of(piece).filter(|_| pieces.len() < most)?);
        rest = others;
    }
    Some(pieces)
}

/// Rows of the first operand of a site at the places of all pieces, if there are any.
fn joined<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    row: usize,
    operand: &ArrayShape,
    pieces: &[Steps],
) -> Option<Value<'c, 'r>> {
    let parts = pieces.iter().map(|own| own.rows_of(site, row, operand)).collect::<Option<Vec<_>>>()?;
    if parts.len() < 2 {
        return parts.first().copied();
    }
    let mut dimensions = operand.dimensions.clone();
    dimensions[row] = pieces.iter().map(Steps::count).sum();
    let all = site.type_of(&Shape::from(ArrayShape::new(operand.element_type, dimensions)))?;
    site.create(OpKind::Concatenate, &parts, ConcatenateAttributes { dimensions: Dimension(row as i64) }, all)
}

/// The same gather of indices that need not be computed.
fn with_constant_indices<'c, 'r>(site: &Site<'_, 'c, 'r>, indices: &Literal) -> Option<Value<'c, 'r>> {
    let computed = site.any_definition(site.operand(1)?)?;
    let is_small = indices.as_array()?.bytes().len() <= EVALUATION_LIMIT;
    if !is_small || computed.kind == OpKind::Constant {
        return None;
    }
    let indices = site.create_constant(indices.clone(), site.type_of(&Shape::from(site.operand_array(1)?))?)?;
    site.create(OpKind::Gather, &[site.operand(0)?, indices], site.all_attributes()?.clone(), site.r#type)
}

/// Places as those of loops in each other, of which one at most goes on by a step.
struct Steps {
    first: i64,
    /// How often, and by how much, from the outermost loop to the innermost.
    loops: Vec<(i64, i64)>,
}

impl Steps {
    fn of(places: &[i64]) -> Option<Self> {
        let first = *places.first()?;
        let mut loops = Vec::new();
        let mut rest = places.to_vec();
        while let &[a, b, ..] = &rest[..] {
            let step = b - a;
            let is_next = |pair: &[i64]| pair[1] - pair[0] == step;
            let length = 1 + rest.windows(2).take_while(|pair| is_next(pair)).count();
            let mut blocks = rest.chunks(length);
            if !blocks.all(|block| block.len() == length && block.windows(2).all(is_next)) {
                return None;
            }
            loops.push((length as i64, step));
            rest = rest.into_iter().step_by(length).collect();
        }
        loops.reverse();
        (loops.iter().filter(|&&(_, step)| step != 0).count() <= 1).then_some(Steps { first, loops })
    }

    /// How many places these are.
    fn count(&self) -> i64 {
        self.loops.iter().map(|&(count, _)| count).product()
    }

    /// Rows of the first operand of a site at these places.
    fn rows_of<'c, 'r>(&self, site: &Site<'_, 'c, 'r>, row: usize, operand: &ArrayShape) -> Option<Value<'c, 'r>> {
        let array =
            |dimensions: Vec<i64>| site.type_of(&Shape::from(ArrayShape::new(operand.element_type, dimensions)));
        let with_rows = |rows: &[i64]| [&operand.dimensions[..row], rows, &operand.dimensions[row + 1..]].concat();
        let moving = self.loops.iter().position(|&(_, step)| step != 0);
        let (count, step) = moving.map_or((1, 1), |own| self.loops[own]);
        let last = self.first + (count - 1) * step;
        let mut slices: Vec<SliceDimension> =
            operand.dimensions.iter().map(|&size| SliceDimension { start: 0, limit: size, stride: 1 }).collect();
        slices[row] =
            SliceDimension { start: self.first.min(last), limit: self.first.max(last) + 1, stride: step.abs() };
        let type_of_rows = array(with_rows(&[count]))?;
        let mut rows =
            site.create(OpKind::Slice, &[site.operand(0)?], SliceAttributes { slice: &slices }, type_of_rows)?;
        if step < 0 {
            let dimensions = &[row as i64];
            rows = site.create(OpKind::Reverse, &[rows], ReverseAttributes { dimensions }, type_of_rows)?;
        }
        if self.loops.len() > moving.map_or(0, |_| 1) {
            let counts: Vec<i64> = self.loops.iter().map(|&(count, _)| count).collect();
            let own = moving.map(|own| (row + own) as i64);
            let (before, behind) = (0..row as i64, (row + counts.len()) as i64..);
            let dimensions: Vec<i64> = before.chain(own).chain(behind.take(operand.rank() - 1 - row)).collect();
            let source = if moving.is_some() { rows } else { site.create_reshape(rows, &with_rows(&[]))? };
            rows = site.create_broadcast(source, &dimensions, array(with_rows(&counts))?)?;
        }
        site.create_reshape(rows, &with_rows(&[self.count()]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Steps, pieces};

    fn loops(places: &[i64]) -> Option<Vec<(i64, i64)>> {
        Steps::of(places).map(|steps| steps.loops)
    }

    #[test]
    fn places_are_loops_in_each_other() {
        assert_eq!(loops(&[3]), Some(vec![]));
        assert_eq!(loops(&[1, 3, 5]), Some(vec![(3, 2)]));
        assert_eq!(loops(&[2, 1, 0]), Some(vec![(3, -1)]));
        assert_eq!(loops(&[4, 4, 5, 5, 6, 6]), Some(vec![(3, 1), (2, 0)]));
        assert_eq!(loops(&[0, 1, 2, 0, 1, 2]), Some(vec![(2, 0), (3, 1)]));
        assert_eq!(loops(&[0, 0, 1, 1, 0, 0, 1, 1]), Some(vec![(2, 0), (2, 1), (2, 0)]));
        assert_eq!(loops(&[7, 7, 7]), Some(vec![(3, 0)]));
    }

    #[test]
    fn other_places_are_no_loops() {
        assert_eq!(loops(&[0, 1, 3]), None);
        assert_eq!(loops(&[0, 0, 1, 1, 1]), None);
        // Windows that overlap would take two loops that go on.
        assert_eq!(loops(&[0, 1, 2, 1, 2, 3]), None);
    }

    #[test]
    fn places_are_a_few_pieces() {
        let counts = |places: &[i64]| pieces(places).map(|own| own.iter().map(Steps::count).collect::<Vec<_>>());
        assert_eq!(counts(&[1, 0, 2, 3, 4, 5, 6, 7]), Some(vec![1, 1, 6]));
        assert_eq!(counts(&[3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0]), Some(vec![4, 4, 4]));
        assert_eq!(counts(&[0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3]), Some(vec![4, 3, 4]));
        assert_eq!(counts(&[2, 0, 1, 3, 4]), Some(vec![1, 2, 2]));
        assert_eq!(counts(&[4, 1, 0, 2, 3, 3]), Some(vec![1, 1, 1, 2, 1]));
        assert_eq!(counts(&[4, 1, 0, 2, 3, 3, 5, 8]), None);
    }
}
