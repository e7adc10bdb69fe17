//! Memory offsets of results and how they change along one variable (coalescing).

use mlir_ext::affine::{Expr, Var};

use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::{IndexingMap, Variable};

/// How an element offset changes from one lane of a vector to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All lanes use the same element.
    Broadcast,
    /// Lane `i` uses the element `i` places on.
    Contiguous,
    /// Lane `i` uses the element `c * i` places on; `c` is not 0 or 1 and may be negative.
    Strided(i64),
    /// No such constant exists, or none was found.
    Irregular,
}

/// The strides of an array of `sizes` in elements, the last dimension fastest.
pub fn row_major_strides(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(sizes[i]);
    }
    strides
}

/// The strides of an array of `sizes` in elements in a layout that lists the dimensions from the fastest to
/// the slowest. A dimension the layout does not list has stride 0.
pub fn strides_of_layout(sizes: &[i64], minor_to_major: &[i64]) -> Vec<i64> {
    let mut strides = vec![0i64; sizes.len()];
    let mut stride = 1i64;
    for &dimension in minor_to_major {
        let Ok(dimension) = usize::try_from(dimension) else { continue };
        if let (Some(entry), Some(size)) = (strides.get_mut(dimension), sizes.get(dimension)) {
            *entry = stride;
            stride = stride.saturating_mul(*size);
        }
    }
    strides
}

/// The element offset `sum(result_i * strides[i])` of a map's results, simplified over its domain.
pub fn linearize<'c>(map: &IndexingMap<'c>, strides: &[i64]) -> Expr<'c> {
    let offset = map
        .results()
        .iter()
        .zip(strides)
        .fold(Expr::constant(map.context(), 0), |sum, (&result, &stride)| sum + result * stride);
    map.simplify_expr(offset)
}

/// How `expr` changes between the lanes of vectors of `width` consecutive values of `variable`, the first
/// vector starting at the variable's lower bound. Only whole vectors are looked at; if there is none, the one
/// that is cut short.
pub fn stride_along<'c>(map: &IndexingMap<'c>, expr: Expr<'c>, variable: Var, width: i64) -> Access {
    let (lanes, lane, form) = vectorised(map, expr, variable, width);
    if lanes.bounds(lane).as_point().is_some() {
        return if form.uses(lane) { Access::Irregular } else { Access::Broadcast };
    }
    let Some(sum) = Linear::from_expr(form) else { return Access::Irregular };
    let lane_expr = Expr::variable(map.context(), lane);
    if sum.terms.iter().any(|(atom, _)| *atom != lane_expr && atom.uses(lane)) {
        return Access::Irregular;
    }
    match sum.coefficient(lane_expr) {
        0 => Access::Broadcast,
        1 => Access::Contiguous,
        c => Access::Strided(c),
    }
}

/// The expression with `variable` replaced by `lower + width * q + lane`, simplified: the map it is over, the
/// variable `lane` of that map, and the expression. `q` keeps the place of `variable`; `lane` is a new dimension
/// variable. Constraints of the map are not used, since they need not hold in every lane.
pub fn vectorised<'c>(
    map: &IndexingMap<'c>,
    expr: Expr<'c>,
    variable: Var,
    width: i64,
) -> (IndexingMap<'c>, Var, Expr<'c>) {
    let width = width.max(1);
    let bounds = map.bounds(variable);
    let count = bounds.len().map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
    let lane = Var::Dim(map.dims().len() as u32);
    let leaf = |variable| Expr::variable(map.context(), variable);
    let value = leaf(variable) * width + leaf(lane) + bounds.lower;
    let mut lanes = map.clone();
    lanes.constraints.clear();
    lanes.dims.push(Variable::new(Interval::new(0, width.min(count) - 1)));
    if let Some(v) = lanes.variable_mut(variable) {
        v.bounds = Interval::new(0, (count / width).max(1) - 1);
    }
    lanes.set_results(&[]);
    let expr = lanes.simplify_expr(expr.substitute(&|v| (v == variable).then_some(value)));
    (lanes, lane, expr)
}
