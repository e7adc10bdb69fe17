//! `canonicalize-dots`: brings contractions into the forms that have fast code.
//!
//! Transposes of an operand become dimension numbers of the dot, which reads its operands in any order; a transpose of
//! the result exchanges the operands, if its rows are those of the first one: what is left of it moves whole rows. A dot
//! whose result has free dimensions on one side only is a reduction of products, and fuses like one. A dot that contracts
//! nothing, or one element, is a product of elements, and one with small matrices sums of them (`small_dots`). Small floats are
//! widened to the type of their sums; a product of complex matrices becomes four of real ones.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::ops::transpose::TransposeAttributes;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::r#type::RankedTensorType;
use melior::ir::{OperationRef, ShapedTypeLike, ValueLike};
use mlir_ext::rewrite::Rewriter;

use crate::complex_products::real_products;
use crate::exchanged_dot::exchanged_dot;
use crate::graph_builder::{ConstantNumber, GraphBuilder, scalar_literal};
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};
use crate::small_dots::{factors, sums_of_products};
use crate::split_products::{Side, side_in_order, with_sides};
use crate::widen_contractions::{fold_bytes, widen_operands};

/// Batch and contracting dimensions of the two operands of a dot.
fn numbers<'a>(attributes: &DotAttributes<'a>) -> [[&'a [i64]; 2]; 2] {
    [
        [attributes.lhs_batch_dims, attributes.lhs_contracting_dims],
        [attributes.rhs_batch_dims, attributes.rhs_contracting_dims],
    ]
}

/// Options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "small-convolutions",
        description: "whether convolutions multiply floats of less than 32 bits as they are",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "small-matrices",
        description: "whether products with matrices of a few rows and columns are sums, of which vectors compute several rows at once",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

/// What the pass does beside what is always better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DotOptions {
    /// Whether convolutions multiply floats of less than 32 bits as they are: there are instructions for that.
    pub(crate) small_convolutions: bool,
    /// Whether products with small matrices become sums of products.
    pub(crate) small_matrices: bool,
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub(crate) fn run(
    root: OperationRef<'_, '_>,
    options: DotOptions,
    statistics: &mut PassStatistics,
) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let is_contraction = |kind| matches!(kind, OpKind::Dot | OpKind::Convolution);
    for block in blocks_with(&rewriter, |_, kind| is_contraction(kind)) {
        // Transposes are read for their permutations, pads for what they pad, and scalars for whether they are 1 or 0.
        let body = Body::read(&rewriter, block, |operation, kind| {
            is_contraction(kind)
                || matches!(kind, OpKind::Transpose | OpKind::Pad)
                || (kind == OpKind::Constant && is_scalar(operation))
        })?;
        let swaps = transposed_dots(body.computation());
        body.rewrite(|builder, id, instruction| match instruction.kind {
            OpKind::Transpose => swaps[id.index()].then(|| swapped(builder, instruction, statistics))?,
            OpKind::Constant | OpKind::Pad => None,
            _ => canonical(builder, instruction, (options, &mut *statistics)),
        })?;
    }
    Ok(())
}

/// Whether an operation's result is an array without dimensions.
fn is_scalar(operation: OperationRef<'_, '_>) -> bool {
    let result = operation.result(0).map(|result| RankedTensorType::try_from(result.r#type()));
    matches!(result, Ok(Ok(r#type)) if r#type.rank() == 0)
}

/// Whether all elements of a value are 1.
fn are_ones(builder: &GraphBuilder, id: InstructionId) -> bool {
    let mut own = builder.get(id);
    while let (OpKind::Broadcast | OpKind::Reshape, &[operand]) = (own.kind, &own.operands[..]) {
        own = builder.get(operand);
    }
    let one = |shape: &ArrayShape| scalar_literal(shape.element_type, ConstantNumber::Integer(1));
    own.kind == OpKind::Constant && own.literal() == own.shape.as_array().map(one).as_ref()
}

/// The product of two values, which is one of them where the other is 1.
fn product_of(builder: &mut GraphBuilder, lhs: InstructionId, rhs: InstructionId) -> InstructionId {
    match [lhs, rhs].map(|own| are_ones(builder, own)) {
        [true, _] => rhs,
        [_, true] => lhs,
        _ => builder.binary(OpKind::Multiply, lhs, rhs),
    }
}

/// Which instructions are the only use of a dot, and transpose it.
fn transposed_dots(computation: &Computation) -> Vec<bool> {
    let mut uses = vec![0u32; computation.instructions.len()];
    let operands = computation.instructions.iter().flat_map(|instruction| &instruction.operands);
    operands.chain([&computation.root]).for_each(|operand| uses[operand.index()] += 1);
    let is_transposed_dot = |instruction: &Instruction| match instruction.operands[..] {
        [operand] if instruction.kind == OpKind::Transpose => {
            computation.get(operand).kind == OpKind::Dot && uses[operand.index()] == 1
        }
        _ => false,
    };
    computation.instructions.iter().map(is_transposed_dot).collect()
}

// transpose(dot(x, y), p) => transpose(dot(y, x), q) where q leaves rows as they are, and these stay long enough; without a
// transpose where p exchanges the free dimensions of the operands
fn swapped(
    builder: &mut GraphBuilder,
    transpose: &Instruction,
    statistics: &mut PassStatistics,
) -> Option<InstructionId> {
    // It may have been widened.
    let own = builder.get(transpose.operands[0]);
    let is_widened = own.kind == OpKind::Convert;
    let dot = if is_widened { builder.get(own.operands[0]) } else { own };
    let (OpKind::Dot, &[lhs, rhs]) = (dot.kind, &dot.operands[..]) else { return None };
    let [lhs_shape, rhs_shape] = [lhs, rhs].map(|operand| builder.array(operand));
    let attributes: DotAttributes = dot.attributes().ok()?;
    if lhs_shape.element_type != rhs_shape.element_type {
        return None;
    }
    let (swapped, exchanged) = exchanged_dot(builder, dot)?;
    let element_type = transpose.shape.as_array()?.element_type;
    let batch = attributes.lhs_batch_dims.len();
    let lhs_end = lhs_shape.rank() - attributes.lhs_contracting_dims.len();
    let TransposeAttributes { dimensions: permutation } = transpose.attributes().ok()?;
    let place = |&d: &i64| exchanged.iter().position(|&exchanged| exchanged as i64 == d).map(|place| place as i64);
    let rest: Vec<i64> = permutation.iter().map(place).collect::<Option<_>>()?;
    if lhs_end == batch || rest.last() != Some(&(rest.len() as i64 - 1)) {
        return None;
    }
    // Rows of a vector or more would become columns beside short rows, which take one element at a time.
    let row_of = |shape: &Shape| shape.as_array().and_then(|array| array.dimensions.last().copied());
    if row_of(&transpose.shape) < Some(VECTOR_ROW) && row_of(&dot.shape) >= Some(VECTOR_ROW) {
        return None;
    }
    statistics.add("swap", 1);
    let mut swapped = builder.push(swapped);
    if is_widened {
        swapped = builder.convert(swapped, element_type);
    }
    Some(if rest.is_sorted() { swapped } else { builder.transpose(swapped, &rest) })
}

/// What a contraction becomes; `None` where it stays as it is.
fn canonical(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    (options, statistics): (DotOptions, &mut PassStatistics),
) -> Option<InstructionId> {
    let is_dot = instruction.kind == OpKind::Dot;
    if is_dot && let Some(smaller) = without_ones(builder, instruction) {
        statistics.add("drop-dimension", 1);
        let value = canonical(builder, &smaller, (options, &mut *statistics)).unwrap_or_else(|| builder.push(smaller));
        return Some(builder.reshape(value, &instruction.shape.as_array()?.dimensions));
    }
    if is_dot
        && instruction.attributes::<DotAttributes>().ok()?.lhs_contracting_dims.is_empty()
        && let Some(product) = product(builder, instruction)
    {
        statistics.add("product", 1);
        return Some(product);
    }
    let mut contraction = instruction.clone();
    let mut folded = if is_dot { fold_transposes(builder, &mut contraction) } else { 0 };
    statistics.add("fold-transpose", folded);
    if fold_bytes(builder, &mut contraction) {
        statistics.add("fold-bytes", 1);
        folded += 1;
    }
    if is_dot && let Some(value) = real_products(builder, &contraction) {
        statistics.add("real-products", 1);
        return Some(value);
    }
    if is_dot && let Some(value) = columns_together(builder, &contraction) {
        statistics.add("columns-together", 1);
        return Some(value);
    }
    let narrow = widen_operands(builder, &mut contraction, options.small_convolutions);
    statistics.add("widen", u64::from(narrow.is_some()));
    if is_dot
        && options.small_matrices
        && let Some(sums) = sums_of_products(builder, &contraction)
    {
        statistics.add("small-matrices", 1);
        return Some(narrow.map_or(sums, |element_type| builder.convert(sums, element_type)));
    }
    if is_dot && let Some(value) = terms_together(builder, &contraction) {
        statistics.add("terms-together", 1);
        return Some(narrow.map_or(value, |element_type| builder.convert(value, element_type)));
    }
    let vector_dot = if is_dot { VectorDot::of(builder, &contraction) } else { None };
    let value = match vector_dot {
        Some(vector_dot) => {
            statistics.add("vector-dot-to-reduce", 1);
            vector_dot.expand(builder, &contraction)
        }
        None if folded > 0 || narrow.is_some() => builder.push(contraction),
        None => return None,
    };
    Some(narrow.map_or(value, |element_type| builder.convert(value, element_type)))
}

/// An operand of a dot, and what its dimensions are.
struct DotOperand {
    value: InstructionId,
    shape: ArrayShape,
    batch: Vec<usize>,
    contracting: Vec<usize>,
    free: Vec<usize>,
}

impl DotOperand {
    /// Both operands of a dot without dynamic dimensions.
    fn both(builder: &GraphBuilder, dot: &Instruction) -> Option<[Self; 2]> {
        let &[lhs, rhs] = &dot.operands[..] else { return None };
        let [lhs_shape, rhs_shape] = [lhs, rhs].map(|operand| builder.array(operand));
        let own = dot.attributes::<DotAttributes>().ok()?.dimensions();
        let (lhs_free, rhs_free) = (own.lhs_free(lhs_shape.rank()), own.rhs_free(rhs_shape.rank()));
        let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = own;
        let operand = |value, shape, batch, contracting, free| DotOperand { value, shape, batch, contracting, free };
        let both = [
            operand(lhs, lhs_shape, lhs_batch, lhs_contracting, lhs_free),
            operand(rhs, rhs_shape, rhs_batch, rhs_contracting, rhs_free),
        ];
        both.iter().all(|own| !own.shape.is_dynamic()).then_some(both)
    }

    /// Elements in some dimensions.
    fn size(&self, dimensions: &[usize]) -> i64 {
        dimensions.iter().map(|&d| self.shape.dimensions[d]).product()
    }

    /// Whether its last dimension is a free one, so that terms of the same sum lie apart.
    fn ends_with_free(&self) -> bool {
        self.free.last().is_some_and(|&last| last + 1 == self.shape.rank())
    }

    fn in_order(&self, builder: &mut GraphBuilder, order: &[usize]) -> Side {
        side_in_order(builder, self.value, order, (&self.batch, &self.contracting))
    }
}

/// Rows of a complex product from which on it is worth a transpose of the operand that has the columns.
const LEAST_ROWS_OF_TRANSPOSE: i64 = 4;

// dot(x, y) => dot(x, transpose(y)) of complex numbers, which are multiplied where they are, if a term of neighbouring columns lies apart
fn columns_together(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let operands = DotOperand::both(builder, dot)?;
    let count = |side: usize| operands[side].size(&operands[side].free);
    let columns = usize::from(count(1) > 1);
    let own = &operands[columns];
    if !dot.shape.as_array()?.element_type.is_complex()
        || own.free.is_empty()
        || own.ends_with_free()
        || count(1 - columns) < LEAST_ROWS_OF_TRANSPOSE
    {
        return None;
    }
    let sides = [0, 1].map(|side: usize| {
        let own = &operands[side];
        let order = match side == columns {
            true => [&own.batch[..], &own.contracting, &own.free].concat(),
            false => (0..own.shape.rank()).collect(),
        };
        own.in_order(builder, &order)
    });
    of_sides(builder, dot, sides)
}

/// Rows and columns up to which a product is one of few sums, of 64 bits and of fewer, and how many terms these have at least.
const FEW_SUMS: [i64; 2] = [3, 6];
const LEAST_TERMS: i64 = 128;

// dot(x, y) => dot(transpose(x), transpose(y)) of few rows and columns, if their terms lie apart: sums of many terms have these as lanes
fn terms_together(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let element_type = dot.shape.as_array()?.element_type;
    let operands = DotOperand::both(builder, dot)?;
    let most = FEW_SUMS[usize::from(element_type.bit_width() < 64)];
    let is_apart = |own: &DotOperand| own.ends_with_free() && (2..=most).contains(&own.size(&own.free));
    let terms = operands[0].size(&operands[0].contracting);
    if element_type.is_complex() || terms < LEAST_TERMS || !operands.iter().all(is_apart) {
        return None;
    }
    let [left, right] = &operands;
    let order = |own: &DotOperand| [&own.batch[..], &own.free, &own.contracting].concat();
    let is_square = left.value == right.value && order(left) == order(right);
    let lhs = left.in_order(builder, &order(left));
    let rhs = if is_square { lhs.clone() } else { right.in_order(builder, &order(right)) };
    of_sides(builder, dot, [lhs, rhs])
}

/// The same dot of other operands.
fn of_sides(builder: &mut GraphBuilder, dot: &Instruction, sides: [Side; 2]) -> Option<InstructionId> {
    let [lhs, rhs] = &sides;
    let attributes = with_sides(dot.attributes().ok()?, [lhs, rhs]);
    Some(builder.push(Instruction { operands: vec![lhs.0, rhs.0], attributes, ..dot.clone() }))
}

// dot(x, y) => reshape(dot(reshape(x), reshape(y))) without contracted dimensions of size 1, if nothing is contracted then,
// and without free dimensions of size 1, if none is free then; of some types, if none of that operand is
fn without_ones(builder: &mut GraphBuilder, dot: &Instruction) -> Option<Instruction> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let attributes: DotAttributes = dot.attributes().ok()?;
    let sides = [lhs, rhs].map(|operand| builder.array(operand));
    if result.is_dynamic() || sides.iter().any(ArrayShape::is_dynamic) {
        return None;
    }
    let numbers = numbers(&attributes);
    let size = |side: usize, d: i64| sides[side].dimensions.get(d as usize).copied();
    let contracts_one = numbers[0][1].iter().all(|&d| size(0, d) == Some(1));
    let is_free = |side: usize, d: &i64| numbers[side].iter().all(|list| !list.contains(d));
    let mut free_are_one =
        [0, 1].map(|side| (0..sides[side].rank() as i64).all(|d| !is_free(side, &d) || size(side, d) == Some(1)));
    if !sums_vectors_faster(result.element_type) {
        free_are_one = [free_are_one[0] && free_are_one[1]; 2];
    }
    let is_kept = |side: usize, d: &i64| {
        let is_dropped = contracts_one && numbers[side][1].contains(d) || free_are_one[side] && is_free(side, d);
        !is_dropped
    };
    let kept = [0, 1].map(|side| (0..sides[side].rank() as i64).filter(|d| is_kept(side, d)).collect::<Vec<i64>>());
    if kept.iter().zip(&sides).all(|(kept, shape)| kept.len() == shape.rank()) {
        return None;
    }
    let places = |side: usize, list: &[i64]| -> Vec<i64> {
        list.iter().filter_map(|d| kept[side].iter().position(|own| own == d)).map(|place| place as i64).collect()
    };
    let own = [0, 1].map(|side| numbers[side].map(|list| places(side, list)));
    let free = [0, 1].map(|side| kept[side].iter().copied().filter(|d| is_free(side, d)).collect::<Vec<i64>>());
    let sizes = |side: usize, list: &[i64]| list.iter().filter_map(|&d| size(side, d)).collect::<Vec<i64>>();
    let dimensions = [sizes(0, numbers[0][0]), sizes(0, &free[0]), sizes(1, &free[1])].concat();
    let operands = [(0, lhs), (1, rhs)].map(|(side, operand)| builder.reshape(operand, &sizes(side, &kept[side])));
    let [[lhs_batch, lhs_contracting], [rhs_batch, rhs_contracting]] = own;
    let (lhs, rhs) = ((operands[0], lhs_batch, lhs_contracting), (operands[1], rhs_batch, rhs_contracting));
    let shape = Shape::from(ArrayShape::new(result.element_type, dimensions));
    let attributes = with_sides(attributes, [&lhs, &rhs]);
    Some(Instruction { operands: operands.to_vec(), shape, attributes, ..dot.clone() })
}

/// Whether products with a matrix of one column (or row), which the lowering has no code for, are better with a vector.
fn sums_vectors_faster(element_type: ElementType) -> bool {
    element_type.is_complex() || element_type.is_integer() && (8..32).contains(&element_type.bit_width())
}

// dot(x, y) => multiply(broadcast(transpose(x)), broadcast(transpose(y)));
// dot(x, v) => transpose(multiply(x, broadcast(v))) where all dimensions of v are batch dimensions
fn product(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let attributes: DotAttributes = dot.attributes().ok()?;
    let [[lhs_batch, _], [rhs_batch, _]] = numbers(&attributes);
    let sides = [(lhs, lhs_batch), (rhs, rhs_batch)].map(|(operand, batch)| {
        let shape = builder.array(operand);
        let batch = batch.to_vec();
        let free: Vec<i64> = (0..shape.rank() as i64).filter(|d| !batch.contains(d)).collect();
        (operand, shape, batch, free)
    });
    if sides.iter().any(|(_, shape, ..)| shape.element_type != result.element_type || shape.is_dynamic()) {
        return None;
    }
    let [lhs_free, rhs_free] = [0, 1].map(|side: usize| &sides[side].3);
    let place_among = |dimensions: &[i64], d: i64| dimensions.iter().position(|&other| other == d);
    if lhs_free.is_empty() || rhs_free.is_empty() {
        let vector = usize::from(!lhs_free.is_empty());
        let (_, matrix_shape, matrix_batch, matrix_free) = &sides[1 - vector];
        let (vector_operand, vector_shape, vector_batch, _) = &sides[vector];
        let places: Option<Vec<i64>> =
            (0..vector_shape.rank() as i64).map(|d| matrix_batch.get(place_among(vector_batch, d)?).copied()).collect();
        let mut operands = [lhs, rhs];
        operands[vector] = builder.broadcast_in_dim(*vector_operand, &matrix_shape.dimensions, &places?);
        let product = product_of(builder, operands[0], operands[1]);
        return Some(builder.transpose(product, &[&matrix_batch[..], matrix_free].concat()));
    }
    let [lhs, rhs] = factors(builder, [lhs, rhs], &attributes.dimensions());
    Some(product_of(builder, lhs, rhs))
}

/// Folds transposes of the operands; returns how many.
fn fold_transposes(builder: &GraphBuilder, dot: &mut Instruction) -> u64 {
    (0..2).map(|side| u64::from(fold_transpose(builder, dot, side).is_some())).sum()
}

// dot(transpose(x, p), y) with dimensions d => dot(x, y) with dimensions p[d]
fn fold_transpose(builder: &GraphBuilder, dot: &mut Instruction, side: usize) -> Option<()> {
    let source = builder.get(dot.operands[side]);
    if source.kind != OpKind::Transpose {
        return None;
    }
    let TransposeAttributes { dimensions: permutation } = source.attributes().ok()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    let numbers = numbers(&attributes)[side];
    let [batch, contracting] =
        numbers.map(|list| -> Vec<i64> { list.iter().filter_map(|&d| permutation.get(d as usize).copied()).collect() });
    // The result lists free dimensions in the operand's order: it must stay the same.
    let is_free = |d: &i64| numbers.iter().all(|list| !list.contains(d));
    let free = (0..permutation.len() as i64).filter(is_free).map(|d| permutation[d as usize]);
    if !free.is_sorted() {
        return None;
    }
    let folded = match side {
        0 => DotAttributes { lhs_batch_dims: &batch, lhs_contracting_dims: &contracting, ..attributes },
        _ => DotAttributes { rhs_batch_dims: &batch, rhs_contracting_dims: &contracting, ..attributes },
    };
    dot.attributes = folded.into();
    dot.operands[side] = source.operands[0];
    Some(())
}

/// Elements of a matrix from which on a product with a vector, in which rows are added, is not a reduction.
const LARGE_MATRIX: i64 = 1 << 14;

/// The same, in which rows are summed: a matrix that comes from memory comes faster as several rows side by side.
const MATRIX_BEYOND_CACHES: i64 = 1 << 20;

/// Elements of a row of a result that are worth a vector.
const VECTOR_ROW: i64 = 8;

/// Whether sums go along the rows of a matrix of some dimensions.
fn sums_rows(dimensions: &[i64], contracted: &[i64]) -> bool {
    contracted.contains(&(dimensions.len() as i64 - 1))
}

/// A dot in which one operand has all free dimensions.
struct VectorDot {
    /// The operand with the free dimensions.
    matrix: usize,
    dimensions: Vec<i64>,
    /// For each dimension of the other operand, the dimension of the matrix it goes with.
    vector_dimensions: Vec<i64>,
    contracted: Vec<i64>,
    /// Where the dimensions of the result are among those of the matrix that are not contracted.
    order: Vec<i64>,
}

impl VectorDot {
    fn of(builder: &GraphBuilder, dot: &Instruction) -> Option<Self> {
        let result = dot.shape.as_array()?;
        let &[lhs, rhs] = &dot.operands[..] else { return None };
        let shapes = [lhs, rhs].map(|operand| builder.array(operand));
        let is_plain = |r#type: ElementType| {
            matches!(r#type, ElementType::F32 | ElementType::F64)
                || r#type.is_complex()
                || matches!(r#type.class(), ElementClass::Signed | ElementClass::Unsigned) && r#type.bit_width() >= 8
        };
        if !is_plain(result.element_type)
            || shapes.iter().any(|shape| shape.element_type != result.element_type || shape.is_dynamic())
        {
            return None;
        }
        let numbers = numbers(&dot.attributes().ok()?);
        let used = |side: usize| numbers[side].concat();
        let has_free = |side: usize| shapes[side].rank() > used(side).len();
        let is_matrix = has_free(0) || has_free(1);
        let matrix = match (has_free(0), has_free(1)) {
            (_, false) => 0,
            (false, true) => 1,
            (true, true) => return None,
        };
        // The result has batch dimensions first; the reduction keeps the matrix's order. A product of batches of vectors, which
        // the lowering of products has no code for, may have them anywhere.
        let [batch, contracting] = numbers[matrix];
        if is_matrix && !batch.iter().copied().eq(0..batch.len() as i64) {
            return None;
        }
        let (matrix_used, vector_used) = (used(matrix), used(1 - matrix));
        let vector_dimensions: Vec<i64> = (0..shapes[1 - matrix].rank() as i64)
            .map(|d| vector_used.iter().position(|&v| v == d).and_then(|place| matrix_used.get(place).copied()))
            .collect::<Option<_>>()?;
        let mut contracted = contracting.to_vec();
        contracted.sort_unstable();
        let dimensions = shapes[matrix].dimensions.clone();
        // A large matrix is read once by the lowering of products, of types that it has: in order, or several rows side by side.
        let large = if sums_rows(&dimensions, &contracted) { MATRIX_BEYOND_CACHES } else { LARGE_MATRIX };
        let is_lowered = result.element_type.bit_width() >= 32;
        if is_matrix && is_lowered && dimensions[batch.len()..].iter().product::<i64>() >= large {
            return None;
        }
        let kept: Vec<i64> = (0..dimensions.len() as i64).filter(|d| !contracted.contains(d)).collect();
        let wanted = batch.iter().chain(kept.iter().filter(|d| !batch.contains(d)));
        let order = wanted.map(|d| kept.binary_search(d).ok().map(|place| place as i64)).collect::<Option<Vec<_>>>()?;
        Some(VectorDot { matrix, dimensions, vector_dimensions, contracted, order })
    }

    // dot(x, v) => transpose(reduce(multiply(x, broadcast(transpose(v))), 0), add)
    fn expand(&self, builder: &mut GraphBuilder, dot: &Instruction) -> InstructionId {
        let element_type = builder.element_type(dot.operands[0]);
        // Bytes along a row are multiplied as words anyway, of which the lower halves make the same sums.
        let sum_type = match element_type.bit_width() {
            8 if sums_rows(&self.dimensions, &self.contracted) => ElementType::S16,
            _ => element_type,
        };
        let [matrix, vector] = [self.matrix, 1 - self.matrix].map(|side| builder.convert(dot.operands[side], sum_type));
        let vector = builder.broadcast_in_dim(vector, &self.dimensions, &self.vector_dimensions);
        let product = builder.binary(OpKind::Multiply, matrix, vector);
        let sums = builder.reduce(product, ConstantNumber::Integer(0), &self.contracted, OpKind::Add);
        let sums = builder.convert(sums, element_type);
        if self.order.is_sorted() { sums } else { builder.transpose(sums, &self.order) }
    }
}
