//! Squares of elements that are read transposed.
//!
//! Where lanes would read elements far from each other, but neighbouring rows of the result read neighbours, a kernel takes as
//! many rows at once as there are lanes: it loads vectors along the rows and transposes them in registers, so that each
//! cache line is read once and no element by itself.

use indexing::{Expr, Var};
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::{LaneAccess, Scope};
use crate::trace::{NEAR, coefficient, trace};
use crate::walk::linear_address;

type Result<T> = std::result::Result<T, LoweringError>;

impl<'c> Elemental<'_, 'c> {
    /// Computes a square: the elements at an index that depends on the lane and the row, row by row.
    pub(crate) fn each_row(
        &mut self,
        (row, count): (Var, u32),
        index: &[Expr<'c>],
        body: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<()>,
    ) -> Result<()> {
        self.load_transposed((row, count), index)?;
        for number in 0..count {
            let index: Vec<Expr<'c>> = index.iter().map(|&expr| at_row(&self.scope, expr, row, number)).collect();
            self.nested(|emitter| body(emitter, &index))?;
        }
        self.transposed.clear();
        Ok(())
    }

    /// What a parameter has at an index, if it was loaded with its square.
    pub(crate) fn loaded_transposed(
        &self,
        parameter: usize,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
    ) -> Option<RegisterValue<'c>> {
        if self.transposed.is_empty() {
            return None;
        }
        let address = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        self.transposed.get(&(parameter, address)).copied()
    }

    /// Loads what a square reads along its rows.
    fn load_transposed(&mut self, (row, count): (Var, u32), index: &[Expr<'c>]) -> Result<()> {
        let (builder, computation, inputs) = (self.builder, self.computation, self.inputs);
        let Some(lanes) = self.scope.lanes().filter(|&lanes| lanes == count) else { return Ok(()) };
        // What the tracer adds to the scope has no code.
        let loads = self.nested(|emitter| trace(computation, &computation.roots(), index, &mut emitter.scope))?.loads;
        for (parameter, address) in loads {
            let array = inputs.get(parameter).ok_or_else(|| LoweringError::bug("missing fusion input"))?;
            let is_in_scope = address.variables().into_iter().all(|variable| self.scope.binding(variable).is_some());
            let is_far = matches!(self.scope.lane_access(address), LaneAccess::Strided(NEAR..));
            let is_transposed = is_in_scope && is_far && coefficient(&self.scope, address, row) == Some(1);
            let first = at_row(&self.scope, address, row, 0);
            if !is_transposed || array.parts() > 1 || self.transposed.contains_key(&(parameter, first)) {
                continue;
            }
            let r#type = scalar::load_type(builder, array.element_type, Some(count));
            let along_rows = (0..lanes).map(|lane| {
                let (memref, place) = self.flat_place(array, self.scope.at_lane(first, lane))?;
                Ok(place.load(builder, memref, r#type))
            });
            let along_rows: Vec<Value<'c>> = along_rows.collect::<Result<_>>()?;
            for (number, loaded) in (0..).zip(transpose(builder, along_rows)) {
                let value = scalar::from_memory(builder, array.element_type, Some(lanes), loaded);
                self.transposed.insert((parameter, at_row(&self.scope, address, row, number)), value);
            }
        }
        Ok(())
    }
}

/// An expression in one row.
fn at_row<'c>(scope: &Scope<'c>, expr: Expr<'c>, row: Var, number: u32) -> Expr<'c> {
    scope.simplify(expr.substitute(&|variable| (variable == row).then(|| scope.constant(i64::from(number)))))
}

/// Transposes a square of vectors, whose number is a power of two. Interleaving each vector of the first half with that of
/// the second half rotates the bits of (vector, lane) by one.
fn transpose<'c>(builder: &OpBuilder<'c>, mut vectors: Vec<Value<'c>>) -> Vec<Value<'c>> {
    let count = vectors.len() as u32;
    let mask = |begin: u32| -> Vec<u32> { (0..count).map(|lane| begin + lane / 2 + lane % 2 * count).collect() };
    let masks = [mask(0), mask(count / 2)];
    for _ in 0..count.ilog2() {
        let (first, second) = vectors.split_at(vectors.len() / 2);
        let pairs = first.iter().zip(second);
        vectors = pairs.flat_map(|(&a, &b)| masks.each_ref().map(|mask| builder.shuffle(a, b, mask))).collect();
    }
    vectors
}
