//! Products of sparse matrices.

use super::EvalFailure;
use super::dot::{Accumulator, load_all, store_all, with_accumulator};
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;
use num_complex::Complex64;

/// `hlo::ops::sparse_product::SPARSE_PRODUCT`, element by element.
pub(super) fn product(
    elements: &ArrayLiteral,
    [starts, columns]: [&ArrayLiteral; 2],
    rhs: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let types = [elements.element_type(), rhs.element_type(), result.element_type];
    with_accumulator!(types, A => {
        let [elements, rhs] = [elements, rhs].map(load_all::<A>);
        let [starts, columns] = [starts, columns].map(load_all::<i64>);
        let width = result.dimensions.get(1).map_or(1, |&width| width.max(0) as usize);
        let mut ends = vec![0; elements.len()];
        for end in starts.iter().skip(1).filter_map(|&end| usize::try_from(end).ok()) {
            if let Some(count) = ends.get_mut(end) {
                *count += 1;
            }
        }
        let mut sums = vec![A::default(); result.element_count().max(0) as usize];
        let mut row = 0;
        for ((element, column), ends) in elements.into_iter().zip(columns).zip(ends) {
            row += ends;
            let column = usize::try_from(column).ok();
            let factors = column.and_then(|column| rhs.chunks_exact(width.max(1)).nth(column));
            let own = sums.chunks_exact_mut(width.max(1)).nth(row);
            for (sum, &factor) in own.into_iter().flatten().zip(factors.into_iter().flatten()) {
                *sum = sum.add_product(element, factor);
            }
        }
        store_all(&sums, result)
    })
}
