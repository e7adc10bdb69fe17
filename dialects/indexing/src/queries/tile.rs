//! Tile propagation: which tile of an operand a tile of the result needs.

use mlir_ext::affine::{Expr, Var};

use crate::interval::Interval;
use crate::linear::Linear;
use crate::map::{IndexingMap, Variable};

/// A hyper-rectangular strided subset of an array: along dimension `i` the indices
/// `offsets[i] + strides[i] * k` for `k` in `[0, sizes[i])`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile<'c> {
    /// First index along each dimension, in the offsets `d_i` of the result's tile (and run-time variables).
    pub offsets: Vec<Expr<'c>>,
    /// Number of indices along each dimension.
    pub sizes: Vec<i64>,
    /// Distance of neighbouring indices; 1 where there is one index.
    pub strides: Vec<i64>,
}

/// The operand's tile for the result's tile with offsets `d_0, d_1, …`, the given sizes and strides.
///
/// `map` takes the result to the operand. The offsets take every value that keeps the tile inside the bounds
/// of `map`'s dimensions. All values of range variables are needed. `None` if the elements do not form a tile
/// for some offset, or constraints cut through.
pub fn propagate_tile<'c>(map: &IndexingMap<'c>, sizes: &[i64], strides: &[i64]) -> Option<Tile<'c>> {
    let dims = map.dims().len();
    if sizes.len() != dims || strides.len() != dims || map.is_known_empty() || !map.constraints().is_empty() {
        return None;
    }
    // The place k inside the tile becomes a dimension after the map's own.
    let mut tiled = map.clone();
    let mut indices = Vec::with_capacity(dims);
    for (i, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
        if size < 1 || stride < 1 {
            return None;
        }
        let extent = (size - 1).checked_mul(stride)?;
        let bounds = &mut tiled.dims[i].bounds;
        bounds.upper = bounds.upper.checked_sub(extent)?;
        if bounds.is_empty() {
            return None;
        }
        tiled.dims.push(Variable::new(Interval::of_size(size)));
        indices.push(Expr::dim(map.context(), i) + Expr::dim(map.context(), dims + i) * stride);
    }
    tiled.set_results(&[]);
    let moves = |variable: Var| match variable {
        Var::Dim(i) => i as usize >= dims,
        Var::Symbol(_) => map.as_runtime(variable).is_none(),
    };
    let mut tile = Tile { offsets: Vec::new(), sizes: Vec::new(), strides: Vec::new() };
    let mut moving: Vec<Var> = Vec::new();
    for result in map.results() {
        let expr = tiled.simplify_expr(result.replace(&indices, &[]));
        let (offset, size, stride) = progression(&tiled, expr, &moves)?;
        for variable in expr.variables() {
            // Indices that move together fill no box.
            let varies = moves(variable) && tiled.bounds(variable).as_point().is_none();
            if varies && moving.contains(&variable) {
                return None;
            }
            moving.push(variable);
        }
        tile.offsets.push(offset);
        tile.sizes.push(size);
        tile.strides.push(stride);
    }
    Some(tile)
}

/// Reads an expression as `offset + stride * k` with `k` in `[0, size)`, over all values of the variables that move.
fn progression<'c>(map: &IndexingMap<'c>, expr: Expr<'c>, moves: &dyn Fn(Var) -> bool) -> Option<(Expr<'c>, i64, i64)> {
    let sum = Linear::from_expr(expr)?;
    let mut offset = Linear::constant(sum.constant);
    let mut steps: Vec<(i64, i64)> = Vec::new();
    for &(atom, k) in &sum.terms {
        if !atom.variables().into_iter().any(moves) {
            offset.add_atom(atom, k)?;
            continue;
        }
        let bounds = map.bounds(atom.as_variable()?);
        let last = bounds.upper.checked_sub(bounds.lower)?;
        // The first index is the one with the least value.
        let first = if k > 0 { bounds.lower } else { bounds.upper };
        offset.constant = offset.constant.checked_add(first.checked_mul(k)?)?;
        if last > 0 {
            steps.push((k.checked_abs()?, last));
        }
    }
    steps.sort_unstable();
    let stride = steps.first().map_or(1, |&(k, _)| k);
    let mut last = 0i64;
    for (k, n) in steps {
        // Each further variable has to continue where the ones before end, or overlap them.
        if k % stride != 0 || k / stride > last + 1 {
            return None;
        }
        last = last.checked_add((k / stride).checked_mul(n)?)?;
    }
    Some((map.simplify_expr(offset.to_expr(map.context())), last + 1, stride))
}
