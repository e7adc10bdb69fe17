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
use hlo::ops::dot::DotAttributes;
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
use crate::widen_contractions::widen_operands;

/// Batch and contracting dimensions of the two operands of a dot.
fn numbers<'a>(attributes: &DotAttributes<'a>) -> [[&'a [i64]; 2]; 2] {
    [
        [attributes.lhs_batch_dims, attributes.lhs_contracting_dims],
        [attributes.rhs_batch_dims, attributes.rhs_contracting_dims],
    ]
}

/// The attributes with other batch and contracting dimensions.
fn renumbered<'a>(attributes: DotAttributes<'a>, numbers: &'a [[Vec<i64>; 2]; 2]) -> DotAttributes<'a> {
    let [[lhs_batch, lhs_contracting], [rhs_batch, rhs_contracting]] = numbers;
    DotAttributes {
        lhs_batch_dims: lhs_batch,
        lhs_contracting_dims: lhs_contracting,
        rhs_batch_dims: rhs_batch,
        rhs_contracting_dims: rhs_contracting,
        ..attributes
    }
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
        // Transposes are read for their permutations, and scalars for whether they are 1.
        let body = Body::read(&rewriter, block, |operation, kind| {
            is_contraction(kind) || kind == OpKind::Transpose || (kind == OpKind::Constant && is_scalar(operation))
        })?;
        let swaps = transposed_dots(body.computation());
        body.rewrite(|builder, id, instruction| match instruction.kind {
            OpKind::Transpose => swaps[id.index()].then(|| swapped(builder, instruction, statistics))?,
            OpKind::Constant => None,
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
    let folded = if is_dot { fold_transposes(builder, &mut contraction) } else { 0 };
    statistics.add("fold-transpose", folded);
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

/// The free dimensions of an operand, of those that are neither batch nor contracting ones.
fn free_dimensions(rank: usize, numbers: [&[i64]; 2]) -> Vec<i64> {
    (0..rank as i64).filter(|d| numbers.iter().all(|list| !list.contains(d))).collect()
}

/// The dot whose operands on some sides are transposed, so that their dimensions stand in these orders.
fn with_transposed(
    builder: &mut GraphBuilder,
    dot: &Instruction,
    orders: [Option<Vec<i64>>; 2],
) -> Option<InstructionId> {
    let attributes: DotAttributes = dot.attributes().ok()?;
    let (numbers, mut operands) = (numbers(&attributes), dot.operands.clone());
    let places = |side: usize, list: &[i64]| -> Vec<i64> {
        let place =
            |&d: &i64| orders[side].as_ref().map_or(Some(d as usize), |order| order.iter().position(|&own| own == d));
        list.iter().filter_map(place).map(|place| place as i64).collect()
    };
    let own = [0, 1].map(|side| numbers[side].map(|list| places(side, list)));
    let is_square = dot.operands[0] == dot.operands[1] && orders[0] == orders[1];
    for (side, order) in orders.iter().enumerate() {
        if let Some(order) = order {
            operands[side] =
                if side == 1 && is_square { operands[0] } else { builder.transpose(operands[side], order) };
        }
    }
    let attributes = renumbered(attributes, &own).into();
    Some(builder.push(Instruction { operands, attributes, ..dot.clone() }))
}

/// Rows of a complex product from which on it is worth a transpose of the operand that has the columns.
const LEAST_ROWS_OF_TRANSPOSE: i64 = 4;

// dot(x, y) => dot(x, transpose(y)) of complex numbers, which are multiplied where they are, if a term of neighbouring columns lies apart
fn columns_together(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let result = dot.shape.as_array()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    let sides = [*dot.operands.first()?, *dot.operands.get(1)?].map(|operand| builder.array(operand));
    if !result.element_type.is_complex() || sides.iter().any(ArrayShape::is_dynamic) {
        return None;
    }
    let numbers = numbers(&attributes);
    let free = [0, 1].map(|side| free_dimensions(sides[side].rank(), numbers[side]));
    let count = |side: usize| free[side].iter().map(|&d| sides[side].dimensions[d as usize]).product::<i64>();
    let side = usize::from(count(1) > 1);
    let last = sides[side].rank() as i64 - 1;
    if free[side].is_empty() || free[side].contains(&last) || count(1 - side) < LEAST_ROWS_OF_TRANSPOSE {
        return None;
    }
    let [batch, contracting] = numbers[side];
    let mut orders = [None, None];
    orders[side] = Some([batch, contracting, &free[side]].concat());
    with_transposed(builder, dot, orders)
}

/// Rows and columns up to which a product is one of few sums, of 64 bits and of fewer, and how many terms these have at least.
const FEW_SUMS: [i64; 2] = [3, 6];
const LEAST_TERMS: i64 = 128;

// dot(x, y) => dot(transpose(x), transpose(y)) of few rows and columns, if their terms lie apart: sums of many terms have these as lanes
fn terms_together(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let result = dot.shape.as_array()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    let sides = [*dot.operands.first()?, *dot.operands.get(1)?].map(|operand| builder.array(operand));
    if result.element_type.is_complex() || sides.iter().any(ArrayShape::is_dynamic) {
        return None;
    }
    let numbers = numbers(&attributes);
    let size = |side: usize, list: &[i64]| list.iter().map(|&d| sides[side].dimensions[d as usize]).product::<i64>();
    let most = FEW_SUMS[usize::from(result.element_type.bit_width() < 64)];
    let orders = [0, 1].map(|side| {
        let free = free_dimensions(sides[side].rank(), numbers[side]);
        let [batch, contracting] = numbers[side];
        let is_apart = free.contains(&(sides[side].rank() as i64 - 1)) && (2..=most).contains(&size(side, &free));
        is_apart.then(|| [batch, &free, contracting].concat())
    });
    let has_terms = size(0, numbers[0][1]) >= LEAST_TERMS;
    if has_terms && orders.iter().all(Option::is_some) { with_transposed(builder, dot, orders) } else { None }
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
    let operands = [lhs, rhs].into_iter().enumerate();
    let operands = operands.map(|(side, operand)| builder.reshape(operand, &sizes(side, &kept[side]))).collect();
    let shape = Shape::from(ArrayShape::new(result.element_type, dimensions));
    let attributes = renumbered(attributes, &own).into();
    Some(Instruction { operands, shape, attributes, ..dot.clone() })
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
        // A large matrix is read once by the lowering of products: in order, or several rows side by side.
        let sums_rows = contracted.contains(&(dimensions.len() as i64 - 1));
        let large = if sums_rows { MATRIX_BEYOND_CACHES } else { LARGE_MATRIX };
        if is_matrix && dimensions[batch.len()..].iter().product::<i64>() >= large {
            return None;
        }
        let kept: Vec<i64> = (0..dimensions.len() as i64).filter(|d| !contracted.contains(d)).collect();
        let wanted = batch.iter().chain(kept.iter().filter(|d| !batch.contains(d)));
        let order = wanted.map(|d| kept.binary_search(d).ok().map(|place| place as i64)).collect::<Option<Vec<_>>>()?;
        Some(VectorDot { matrix, dimensions, vector_dimensions, contracted, order })
    }

    // dot(x, v) => transpose(reduce(multiply(x, broadcast(transpose(v))), 0), add)
    fn expand(&self, builder: &mut GraphBuilder, dot: &Instruction) -> InstructionId {
        let vector = dot.operands[1 - self.matrix];
        let vector = builder.broadcast_in_dim(vector, &self.dimensions, &self.vector_dimensions);
        let product = builder.binary(OpKind::Multiply, dot.operands[self.matrix], vector);
        let sums = builder.reduce(product, ConstantNumber::Integer(0), &self.contracted, OpKind::Add);
        if self.order.is_sorted() { sums } else { builder.transpose(sums, &self.order) }
    }
}
