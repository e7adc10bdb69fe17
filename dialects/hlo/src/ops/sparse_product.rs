//! The product of a sparse matrix in compressed rows and a dense one, which JAX calls for `BCSR` arrays on CPUs: rule C8 of
//! `custom_call`.

use super::{OpError, OpView};
use crate::element_type::ElementType;
use crate::shape::{ArrayShape, Shape};

/// The function: (elements, where each row of them begins and the last one ends, their columns, a vector or matrix) -> the product.
/// An element's row is the number of rows that end before it; what is in none, or has no column, counts nothing.
pub const SPARSE_PRODUCT: &str = "cpu_csr_sparse_dense_ffi";

/// Checks operands and the declared result.
pub(super) fn check(view: &OpView<'_>) -> Result<(), OpError> {
    let declared = view.declared()?;
    let fits = match (view.operands, declared) {
        (
            &[Shape::Array(elements), Shape::Array(starts), Shape::Array(columns), Shape::Array(rhs)],
            Shape::Array(own),
        ) => is_product(elements, [starts, columns], rhs, own),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let message = format!(
        "`{SPARSE_PRODUCT}` takes T[n], I[rows + 1], I[n] and T[columns] or T[columns,k], and gives T[rows] or T[rows,k], where T is a \
         number of 32 bits or more and I is s32 or s64; got {}, and {declared} is declared",
        super::view::list(view.operands)
    );
    Err(view.error(Some("C8"), message))
}

fn is_product(elements: &ArrayShape, [starts, columns]: [&ArrayShape; 2], rhs: &ArrayShape, own: &ArrayShape) -> bool {
    use ElementType::{C64, C128, F32, F64, S32, S64};
    let has_types = matches!(elements.element_type, S32 | S64 | F32 | F64 | C64 | C128)
        && [rhs, own].iter().all(|array| array.element_type == elements.element_type)
        && matches!(starts.element_type, S32 | S64)
        && columns.element_type == starts.element_type;
    let has_sizes = match (&elements.dimensions[..], &starts.dimensions[..], &columns.dimensions[..]) {
        (&[count], &[bounds], &[own_count]) => {
            count == own_count && own.dimensions.first() == Some(&(bounds - 1)) && own.rank() == rhs.rank()
        }
        _ => false,
    };
    has_types && has_sizes && matches!(rhs.rank(), 1 | 2) && own.dimensions[1..] == rhs.dimensions[1..]
}
