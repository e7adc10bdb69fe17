//! `arrange-operands`: operands of products lie as the loops of a processor go through them.
//!
//! These take batches one after the other, contracted positions as one row, columns as one, and neighbours as vectors. An operand
//! whose neighbours are batches, whose contracted dimensions come in another order than those of the other one, or lie apart, as its
//! columns may, is transposed before, where each of its elements is multiplied often enough or the other operand is much larger. A
//! product whose neighbours are many rows, beside few columns, is computed as that of the exchanged operands, and transposed.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::exchanged_dot::exchanged_dot;
use crate::fuse;
use crate::graph_builder::GraphBuilder;
use crate::registry::{OptionDefinition, PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};
use crate::split_products::{Side, side_in_order, with_sides};

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[fuse::LEFT_ATTENTION_ROWS];

/// Multiplications of products for which it is worth further kernels.
const LEAST_WORK: i64 = 1 << 16;

/// How often each element of an operand is multiplied at least, so that transposing it is a small part of the work.
const LEAST_USES: i64 = 2;

/// The same where it lies well enough but for contracted dimensions that are apart.
const LEAST_USES_APART: i64 = 32;

/// How many times as large the other operand is at least, where elements are multiplied less often.
const MUCH_LARGER: i64 = 8;

/// Terms along the innermost contracted dimension that are a row on their own.
const LONG_ROW: i64 = 128;

/// Columns whose sums are made along rows of both operands, and their terms.
const COLUMNS_OF_ROWS: i64 = 4;
const LONG_SUM: i64 = 4096;

/// Columns that are few, and rows beside which they are.
const FEW_COLUMNS: i64 = 16;
const MANY_ROWS: i64 = 256;

/// Runs the pass; products of attentions of so many rows of queries are left as they are, since they will be fused; none for 0.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, attention_rows: u64, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let is_dot = |_, kind| kind == OpKind::Dot;
    for block in blocks_with(&rewriter, is_dot) {
        let stay = fuse::products_of_attentions(&rewriter, block, attention_rows)?;
        let body = Body::read(&rewriter, block, is_dot)?;
        body.rewrite(|builder, id, instruction| {
            if instruction.kind != OpKind::Dot || stay.contains(&id) {
                return None;
            }
            let product = Product::of(builder, instruction)?;
            if product.has_neighbouring_rows()
                && let Some(exchanged) = product.exchanged(builder)
            {
                statistics.add("exchanged", 1);
                return Some(exchanged);
            }
            let arranged = product.arranged(builder)?;
            statistics.add("arranged", 1);
            Some(arranged)
        })?;
    }
    Ok(())
}

/// An operand and its dimensions.
struct Operand {
    value: InstructionId,
    shape: ArrayShape,
    batch: Vec<usize>,
    contracting: Vec<usize>,
    free: Vec<usize>,
}

impl Operand {
    fn elements(&self) -> i64 {
        self.shape.element_count()
    }

    fn size(&self, dimensions: &[usize]) -> i64 {
        dimensions.iter().map(|&dimension| self.shape.dimensions[dimension]).product()
    }

    /// Whether a dimension has several positions.
    fn is_long(&self, dimension: usize) -> bool {
        self.shape.dimensions[dimension] > 1
    }

    /// The dimension along which elements are neighbours.
    fn innermost(&self) -> Option<usize> {
        (0..self.shape.rank()).rev().find(|&dimension| self.is_long(dimension))
    }

    /// Whether neighbours are of a kind.
    fn has_neighbours(&self, kind: &[usize]) -> bool {
        self.innermost().is_some_and(|dimension| kind.contains(&dimension))
    }

    /// Whether some dimensions follow one another as if they were one.
    fn are_one(&self, dimensions: impl Iterator<Item = usize>) -> bool {
        let places: Vec<usize> = dimensions.filter(|&dimension| self.is_long(dimension)).collect();
        places.windows(2).all(|two| two[0] < two[1] && !(two[0] + 1..two[1]).any(|between| self.is_long(between)))
    }

    /// The contracted dimensions of some pairs.
    fn contracted(&self, pairs: &[usize]) -> impl Iterator<Item = usize> {
        pairs.iter().map(|&pair| self.contracting[pair])
    }

    /// The dimensions with batches first, and contracted ones last or before those that are free.
    fn order(&self, pairs: &[usize], is_along_terms: bool) -> Vec<usize> {
        let contracted: Vec<usize> = self.contracted(pairs).collect();
        let [first, second] = if is_along_terms { [&self.free, &contracted] } else { [&contracted, &self.free] };
        [&self.batch[..], first, second].concat()
    }
}

/// A dot.
struct Product<'i> {
    dot: &'i Instruction,
    attributes: DotAttributes<'i>,
    operands: [Operand; 2],
    /// Multiplications.
    work: i64,
}

impl<'i> Product<'i> {
    /// A dot whose operands may be worth moving.
    fn of(builder: &GraphBuilder, dot: &'i Instruction) -> Option<Self> {
        let &[lhs, rhs] = &dot.operands[..] else { return None };
        let attributes: DotAttributes = dot.attributes().ok()?;
        let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = attributes.dimensions();
        let operand = |value, batch: Vec<usize>, contracting: Vec<usize>| {
            let shape = builder.array(value);
            let free = (0..shape.rank()).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect();
            Operand { value, shape, batch, contracting, free }
        };
        let operands = [operand(lhs, lhs_batch, lhs_contracting), operand(rhs, rhs_batch, rhs_contracting)];
        let is_dynamic = dot.shape.as_array()?.is_dynamic() || operands.iter().any(|own| own.shape.is_dynamic());
        let [left, right] = &operands;
        let work = left.elements().saturating_mul(right.size(&right.free));
        (!is_dynamic && work >= LEAST_WORK).then_some(Product { dot, attributes, operands, work })
    }

    // dot(x, y) => dot(transpose(x), transpose(y))
    fn arranged(&self, builder: &mut GraphBuilder) -> Option<InstructionId> {
        let [left, right] = &self.operands;
        let large = if left.elements() >= right.elements() { left } else { right };
        // Contracted dimensions as they are in the larger operand.
        let mut pairs: Vec<usize> = (0..large.contracting.len()).collect();
        pairs.sort_unstable_by_key(|&pair| large.contracting[pair]);
        let row = pairs.iter().rev().map(|&pair| large.size(&large.contracting[pair..=pair])).find(|&size| size > 1);
        let is_short = row.is_some_and(|row| row < LONG_ROW);
        // The order that an operand is better read in.
        let order = |number: usize| {
            let [own, other] = [number, 1 - number].map(|number| &self.operands[number]);
            let is_much_smaller = |than: &Operand| own.elements().saturating_mul(MUCH_LARGER) <= than.elements();
            let uses = self.work / own.elements().max(1);
            let last_column =
                right.free.iter().rev().map(|&dimension| right.shape.dimensions[dimension]).find(|&size| size > 1);
            let crosses_few_columns = other.has_neighbours(&other.contracting)
                && own.has_neighbours(&own.free)
                && own.size(&own.free) <= COLUMNS_OF_ROWS
                && own.size(&own.contracting) >= LONG_SUM
                && is_much_smaller(other);
            let has_batches = own.has_neighbours(&own.batch) && uses >= LEAST_USES;
            let has_terms_apart = !own.are_one(own.contracted(&pairs))
                && (is_much_smaller(large) || is_short && uses >= LEAST_USES_APART);
            let has_columns_apart = number == 1
                && !own.are_one(own.free.iter().copied())
                && last_column < Some(FEW_COLUMNS)
                && uses >= LEAST_USES_APART;
            let is_along_terms = match own.innermost() {
                _ if crosses_few_columns => true,
                Some(dimension) if own.contracting.contains(&dimension) => true,
                Some(dimension) if own.free.contains(&dimension) => false,
                _ => number == 0,
            };
            let is_moved = crosses_few_columns || has_batches || has_terms_apart || has_columns_apart;
            is_moved.then(|| own.order(&pairs, is_along_terms))
        };
        let orders = [0, 1].map(order);
        if orders.iter().all(Option::is_none) {
            return None;
        }
        // The dimensions of batches stay where they are in the result, and so do those that are free.
        let sides = self.operands.iter().zip(orders);
        let sides = sides.map(|(own, order)| {
            let order = order.unwrap_or_else(|| (0..own.shape.rank()).collect());
            side_in_order(builder, own.value, &order, (&own.batch, &own.contracting))
        });
        let sides: Vec<Side> = sides.collect();
        let [left, right] = &sides[..] else { return None };
        let attributes = with_sides(self.attributes, [left, right]);
        Some(builder.push(Instruction { operands: vec![left.0, right.0], attributes, ..self.dot.clone() }))
    }

    /// Whether the elements of the left operand that are neighbours are those of many rows, which are multiplied by few columns:
    /// the rows would be better columns.
    fn has_neighbouring_rows(&self) -> bool {
        let [left, right] = &self.operands;
        let columns = right.size(&right.free);
        left.has_neighbours(&left.free)
            && (2..=FEW_COLUMNS).contains(&columns)
            && left.innermost().is_some_and(|dimension| left.shape.dimensions[dimension] >= MANY_ROWS)
    }

    // dot(x, y) => transpose(dot(y, x))
    fn exchanged(&self, builder: &mut GraphBuilder) -> Option<InstructionId> {
        let (dot, order) = exchanged_dot(builder, self.dot)?;
        let order: Vec<i64> = order.into_iter().map(|dimension| dimension as i64).collect();
        let dot = builder.push(dot);
        Some(builder.transpose_back(dot, &order))
    }
}
