//! Which results may be written over which operands while these are read.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use hlo::attributes::SliceDimension;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::dynamic_slice::DynamicSliceAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::{FusionRole, OpClass, definition};
use hlo::scalar::load;
use hlo::shape::ArrayShape;

use super::RowsOf;
use crate::fuse::{Rows, is_update};

/// Elements of the last dimension that are a whole number of vectors on every target.
const LANES: i64 = 16;

/// Elements of the last dimension beyond which single elements behind the last whole vector cost little.
const LONG_ROW: i64 = 2048;

/// Elements of an array of which every loop is short.
const SMALL: i64 = 64;

/// A result that may be written over an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overwrite {
    /// Leaf of the result.
    pub output: usize,
    /// Number of the operand, an array.
    pub operand: usize,
    /// Whether the operand is copied into the result's place if it is not overwritten.
    pub is_update: bool,
}

/// What the instructions of a program may write over, found once for each fusion.
pub(super) struct Overwrites<'a> {
    /// What fusions compute once for each row.
    rows: &'a RowsOf<'a>,
    /// Whether several threads may compute an element.
    by_team: bool,
    /// Of fusions, by the computation, which stays where it is when instructions change places.
    known: RefCell<HashMap<*const Computation, Vec<Overwrite>>>,
}

impl<'a> Overwrites<'a> {
    /// Those of a program that lives as long as they do.
    pub(super) fn new(rows: &'a RowsOf<'a>, by_team: bool) -> Self {
        Overwrites { rows, by_team, known: RefCell::default() }
    }

    /// What an instruction may write over. Where threads compute an element by team, one of them may write it while others
    /// still read for it.
    pub(super) fn of(&self, instruction: &Instruction) -> Vec<Overwrite> {
        match instruction.kind {
            OpKind::DynamicUpdateSlice | OpKind::Scatter if instruction.shape.as_array().is_some() => update(0),
            // The runtime has read a row before it writes it.
            OpKind::Sort if !self.by_team => {
                let rearranged = |number| Overwrite { output: number, operand: number, is_update: false };
                (0..instruction.operands.len()).map(rearranged).collect()
            }
            // The runtime copies the matrices where the result goes, and goes on there.
            OpKind::Cholesky if !self.by_team => update(0),
            OpKind::TriangularSolve if !self.by_team => update(1),
            OpKind::Fusion => {
                let key = instruction.computations.as_ptr();
                if let Some(known) = self.known.borrow().get(&key) {
                    return known.clone();
                }
                let found = self.of_fusion(instruction, &instruction.computations[0]);
                self.known.borrow_mut().insert(key, found.clone());
                found
            }
            _ => Vec::new(),
        }
    }

    fn of_fusion(&self, instruction: &Instruction, body: &Computation) -> Vec<Overwrite> {
        let root = body.root();
        if !is_update(body) {
            return elementwise(instruction, body, (self.rows)(body).as_ref(), self.by_team);
        }
        let base = root.operands[0];
        match body.get(base).parameter_number() {
            Some(number) if !Reads::of_update(body, root).elsewhere.contains(&base) => update(number),
            _ => Vec::new(),
        }
    }
}

fn update(operand: usize) -> Vec<Overwrite> {
    vec![Overwrite { output: 0, operand, is_update: true }]
}

/// Operands of a fusion of which each element is read for the same element of the results alone, or before the row in which
/// it is gets written.
fn elementwise(instruction: &Instruction, body: &Computation, rows: Option<&Rows>, by_team: bool) -> Vec<Overwrite> {
    let roots = body.roots();
    // The sums of a product are kept in the result while its operands, and what is combined with it later, are still read.
    if body.instructions.iter().any(|inner| definition(inner.kind).class == OpClass::Contraction) {
        return Vec::new();
    }
    let leaves = instruction.shape.leaves();
    let Some(mut first) = leaves.first().and_then(|leaf| leaf.as_array()) else { return Vec::new() };
    if rows.is_some() {
        // Others have an element for each row.
        let arrays = leaves.iter().filter_map(|leaf| leaf.as_array());
        first = arrays.max_by_key(|array| array.element_count()).unwrap_or(first);
    }
    // All values of one element are there before the first of them is written.
    let is_combined = |inner: &Instruction| definition(inner.kind).fusion == FusionRole::Reduction;
    let is_single = leaves.iter().filter_map(|leaf| leaf.as_array()).all(|array| array.element_count() == 1)
        && !(by_team && body.instructions.iter().any(is_combined));
    let reads = Reads::of(body, &roots, first, rows);
    let may_skip_lanes = rows.is_none() && leaves.iter().filter_map(|leaf| leaf.as_array()).all(stores_some_lanes);
    if first.element_count() > SMALL && !may_skip_lanes && !ends_with_whole_vectors(body, first) {
        return Vec::new();
    }
    // By row, the elements of a root of several arrays are those of rows.
    let is_of_items = |root: InstructionId| {
        rows.is_none_or(|rows| body.get(root).shape.as_array().is_some() && !rows.steps.contains(&root))
    };
    let mut overwrites = Vec::new();
    for (output, (leaf, root)) in leaves.iter().zip(body.output_roots()).enumerate() {
        for (operand, &parameter) in body.parameters.iter().enumerate() {
            let (Some(result), Some(array)) = (leaf.as_array(), body.get(parameter).shape.as_array()) else { continue };
            let has_same_places = array.element_count() == result.element_count()
                && array.element_type.byte_width() == result.element_type.byte_width();
            if has_same_places && is_of_items(root) && (is_single || !reads.elsewhere.contains(&parameter)) {
                overwrites.push(Overwrite { output, operand, is_update: false });
            }
        }
    }
    overwrites
}

/// Whether some lanes of a vector are stored by few instructions: what follows the last whole vector is then a vector of which
/// the lanes that were stored before are left out.
fn stores_some_lanes(array: &ArrayShape) -> bool {
    !array.element_type.is_complex()
}

/// Whether the loops over some dimensions need no vector that overlaps the one before it, which would read what that one
/// has written. Loops are as long as rows, or over everything where all arrays are read at the index of the result.
fn ends_with_whole_vectors(body: &Computation, result: &ArrayShape) -> bool {
    let is_whole = |size: i64| size % LANES == 0 || size >= LONG_ROW;
    let row = result.dimensions.last().copied().unwrap_or(1);
    let is_plain = || {
        body.instructions.iter().all(|instruction| {
            let count = instruction.shape.as_array().map_or(1, ArrayShape::element_count);
            count == 1
                || count == result.element_count() && definition(instruction.kind).fusion != FusionRole::Reduction
        })
    };
    is_whole(row) || is_whole(result.element_count()) && is_plain()
}

/// The index that a constant is.
fn index_of(body: &Computation, id: InstructionId) -> Option<i64> {
    let literal = body.get(id).literal()?.as_array()?;
    (literal.shape().rank() == 0).then(|| load(literal.element_type(), literal.bytes(), 0).to_index())
}

/// How a fused computation reads its instructions.
struct Reads {
    /// Those that are read at another element than the one that is computed.
    elsewhere: HashSet<InstructionId>,
}

impl Reads {
    /// The reads for an element of several roots, which are arrays of the same dimensions, or have an element for each row.
    /// What is read before a row is written counts where it is read in other rows too.
    fn of(body: &Computation, roots: &[InstructionId], result: &ArrayShape, rows: Option<&Rows>) -> Self {
        let reads_here = |_: &Instruction| false;
        let Some(rows) = rows else { return Self::walk(body, roots, result, HashSet::new(), &reads_here, &[]) };
        let mut reads = Self::walk(body, roots, result, HashSet::new(), &reads_here, &rows.steps);
        reads.elsewhere.extend(body.parameters.iter().filter(|parameter| !rows.read_in_row.contains(parameter)));
        reads
    }

    /// The reads for an element that an update in place writes. The base's element in its place is read by the update itself, and
    /// by a `dynamic-slice` or `slice` of the same place. A scatter's windows may meet, so that all else is read at other places.
    fn of_update(body: &Computation, root: &Instruction) -> Self {
        let [base, update, starts @ ..] = &root.operands[..] else { return Reads { elsewhere: HashSet::new() } };
        let Some(shape) = body.get(*update).shape.as_array() else {
            return Reads { elsewhere: HashSet::from([*base]) };
        };
        if root.kind == OpKind::Scatter {
            let others = root.operands[1..].iter().copied().collect();
            return Self::walk(body, &[], shape, others, &|_| false, &[]);
        }
        let is_known_place = |slice: &[SliceDimension]| {
            slice.iter().zip(starts).zip(&shape.dimensions).all(|((own, &start), &size)| {
                own.stride == 1 && own.limit - own.start == size && index_of(body, start) == Some(own.start)
            })
        };
        let is_same_place = |instruction: &Instruction| match instruction.kind {
            OpKind::Slice => {
                let slice = instruction.attributes().map(|SliceAttributes { slice }| slice);
                instruction.operands[0] == *base && slice.is_ok_and(is_known_place)
            }
            OpKind::DynamicSlice => {
                let sizes = instruction.attributes().map(|slice: DynamicSliceAttributes| slice.dynamic_slice_sizes);
                instruction.operands[0] == *base
                    && sizes.is_ok_and(|sizes| *sizes == shape.dimensions[..])
                    && instruction.operands.len() == starts.len() + 1
                    && instruction.operands[1..].iter().zip(starts).all(|(&own, &other)| is_equal(body, own, other))
            }
            _ => false,
        };
        let mut elsewhere: HashSet<InstructionId> = starts.iter().copied().collect();
        if update == base {
            elsewhere.insert(*base);
        }
        Self::walk(body, &[*update], shape, elsewhere, &is_same_place, &[])
    }

    /// Follows the reads from `roots` at the element that is computed, and from `elsewhere` at others. `reads_in_place`
    /// are instructions whose first operand is read where the result goes, `known` those that read nothing any more.
    fn walk(
        body: &Computation,
        roots: &[InstructionId],
        result: &ArrayShape,
        mut elsewhere: HashSet<InstructionId>,
        reads_in_place: &dyn Fn(&Instruction) -> bool,
        known: &[InstructionId],
    ) -> Self {
        let mut here: HashSet<InstructionId> = roots.iter().copied().collect();
        let has_result_size = |id: InstructionId| {
            body.get(id).shape.as_array().is_some_and(|it| it.element_count() == result.element_count())
        };
        for (id, instruction) in
            (0..body.instructions.len() as u32).rev().map(InstructionId).map(|id| (id, body.get(id)))
        {
            if known.contains(&id) {
                continue;
            }
            let keeps_index = definition(instruction.kind).fusion == FusionRole::Elementwise
                || matches!(instruction.kind, OpKind::Reshape | OpKind::Copy);
            if elsewhere.contains(&id) {
                elsewhere.extend(&instruction.operands);
            }
            if !here.contains(&id) {
                continue;
            }
            for (number, &operand) in instruction.operands.iter().enumerate() {
                if keeps_index && has_result_size(operand) {
                    here.insert(operand);
                } else if number > 0 || !reads_in_place(instruction) {
                    elsewhere.insert(operand);
                }
            }
        }
        Reads { elsewhere }
    }
}

/// Whether two instructions of a computation have the same value: they are the same, or equal constants.
fn is_equal(computation: &Computation, a: InstructionId, b: InstructionId) -> bool {
    let literal = |id: InstructionId| computation.get(id).literal();
    a == b || literal(a).is_some_and(|a: &Literal| Some(a) == literal(b))
}
