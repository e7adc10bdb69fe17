//! Cholesky factorisation.

use faer::{
    Mat, MatMut, MatRef,
    linalg::zip::Diag,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{add, conj, from_real, is_nan, real, recip, sqrt, zero},
    unzip, zip,
};

use crate::{
    Element, TriangularSystem, in_vectors,
    panel::{FEW_COLUMNS, Panel, scale, subtract_multiple},
    subtract_product_with_adjoint,
};

/// Rows of the squares on the diagonal of which both triangles are computed.
const SMALL_SQUARE: usize = 64;

/// Replaces the lower triangle by the Cholesky factor; what stands above the diagonal stays. The error is the order of the
/// first leading minor that is not positive definite.
pub(crate) fn factorise<T: Element>(mut a: MatMut<'_, T>) -> Result<(), usize> {
    let size = a.nrows();
    if size <= FEW_COLUMNS {
        let mut panel = Panel::of(a.rb());
        let result = in_vectors!(by_columns(&mut panel, size));
        let both = zip!(a, panel.matrix());
        both.for_each_triangular_lower(Diag::Include, |unzip!(element, factor)| *element = *factor);
        return result;
    }
    let half = (size / 2).next_multiple_of(FEW_COLUMNS);
    let (mut upper_left, _, mut lower_left, mut lower_right) = a.rb_mut().split_at_mut(half, half);
    factorise(upper_left.rb_mut())?;
    let system =
        TriangularSystem { left_side: false, lower: true, unit_diagonal: false, transposed: true, conjugated: true };
    T::solve_triangular(upper_left.rb(), lower_left.rb_mut(), system);
    subtract_square(lower_right.rb_mut(), lower_left.rb());
    factorise(lower_right).map_err(|order| half + order)
}

/// Subtracts the lower triangle of the product of a matrix with its adjoint.
fn subtract_square<T: Element>(target: MatMut<'_, T>, a: MatRef<'_, T>) {
    let size = target.nrows();
    if size <= SMALL_SQUARE {
        let mut square = Mat::zeros(size, size);
        subtract_product_with_adjoint(square.as_mut(), a, a);
        let both = zip!(target, square.as_ref());
        both.for_each_triangular_lower(Diag::Include, |unzip!(element, less)| *element = add(element, less));
        return;
    }
    let half = size / 2;
    let (upper_left, _, lower_left, lower_right) = target.split_at_mut(half, half);
    let (upper, lower) = a.split_at_row(half);
    subtract_product_with_adjoint(lower_left, lower, upper);
    subtract_square(upper_left, upper);
    subtract_square(lower_right, lower);
}

#[inline(always)]
fn by_columns<T: Element>(a: &mut Panel<T>, size: usize) -> Result<(), usize> {
    for step in 0..size {
        let value = real(&a.column(step)[step]);
        if value <= zero() || is_nan(&value) {
            return Err(step + 1);
        }
        let root = sqrt(&value);
        a.column(step)[step] = from_real(&root);
        scale(&mut a.column(step)[step + 1..], from_real(&recip(&root)));
        for column in step + 1..size {
            let (done, open) = a.columns(step, column);
            subtract_multiple(&mut open[column..], conj(&done[column]), &done[column..]);
        }
    }
    Ok(())
}
