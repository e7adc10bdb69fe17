//! Small triangular matrices: their factors, and systems of equations with them. Larger ones were divided into these and products
//! (`hlo-expand-host-calls`).
//!
//! A factor is computed column by column, by a thread for each row, in memory that they share; a system by a thread for each
//! of its vectors, in the result's place.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::launch_plan::PlanStep;
use hlo::op_kind::OpKind;
use hlo::ops::cholesky::CholeskyAttributes;
use hlo::ops::enumerations::TransposeKind;
use hlo::ops::triangular_solve::TriangularSolveAttributes;
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval, ceil_div};
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{Body, OpBuilder};
use mlir_ext::control::AffineConditions;
use passes::assign_buffers::ComputationBuffers;
use passes::expand_host_calls::LARGEST_FACTOR;

use super::kernels::KernelArrays;
use super::{GpuProgram, Result, over_threads};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::memory::ArrayRef;
use crate::program::{kernel_body, kernel_slices};
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::{SharedValues, Team, TeamShape, barrier};
use crate::trace::split_merged;

/// Bytes of the memory that the threads of a block share for matrices.
const SHARED_BYTES: i64 = 32 << 10;

/// Vectors that a block solves for: few, so that there are many blocks.
const VECTORS_OF_BLOCK: i64 = 64;

/// Whether an instruction is one of matrices that are small enough for these kernels.
pub(super) fn is_small(instruction: &Instruction, computation: &Computation) -> bool {
    matches!(instruction.kind, OpKind::Cholesky | OpKind::TriangularSolve)
        && matrix(instruction, computation).is_some_and(|shape| shape.dimensions.last() <= Some(&LARGEST_FACTOR))
}

/// The square matrices of an instruction.
fn matrix<'a>(instruction: &Instruction, computation: &'a Computation) -> Option<&'a ArrayShape> {
    computation.get(*instruction.operands.first()?).shape.as_array()
}

impl GpuProgram<'_, '_> {
    /// The launch of a factorisation, or of systems of equations.
    pub(super) fn factors(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
    ) -> Result<Vec<PlanStep>> {
        let instruction = computation.get(id);
        let [inputs, outputs] = kernel_slices(computation, buffers, id);
        let result = outputs.first().map(|(shape, _)| *shape);
        let Some([batch @ .., rows, columns]) = result.map(|shape| &shape.dimensions[..]) else {
            return Err(LoweringError::bug(format!("`{}` has no matrices", instruction.name)));
        };
        let matrices: i64 = batch.iter().product();
        if matrices * rows * columns == 0 {
            return Ok(Vec::new());
        }
        let single = kernel_body(computation, instruction);
        let key = format!("factors {}", self.kernel_names.number_of(single.structure()));
        let arrays = KernelArrays { inputs, outputs, are_exchanged: false, limits: None };
        let (work, teams) = match instruction.kind {
            OpKind::Cholesky => {
                let width = result.map_or(0, |shape| shape.element_type.byte_width() as i64);
                let size = (*rows as u64).next_power_of_two() as i64;
                let count = (BLOCK_SIZE / size).min(SHARED_BYTES / ((rows + 1) * rows * width)).max(1);
                let shape = TeamShape { size, count: count.min(matrices), is_near: true };
                (matrices, shape)
            }
            _ => {
                let TriangularSolveAttributes { left_side, .. } = instruction.attributes()?;
                let vectors = if left_side { columns } else { rows };
                (matrices * vectors, TeamShape { size: 1, count: VECTORS_OF_BLOCK, is_near: true })
            }
        };
        let kernel = self.kernel(computation, id, &arrays, (&key, &[]), &|builder, inputs, outputs, function| {
            let (Some(matrices), Some(result)) = (inputs.first(), outputs.first()) else {
                return Err(LoweringError::bug("a factorisation without arrays"));
            };
            let mut emitter = Elemental::new(builder, &single, inputs, 1);
            match inputs.get(1) {
                None => {
                    let CholeskyAttributes { lower } = single.root().attributes()?;
                    let factor = Factor { matrices, result, is_lower: lower, function };
                    factor.emit(&mut emitter, work, teams)
                }
                Some(vectors) => {
                    let attributes = single.root().attributes()?;
                    let system = System { matrices, vectors, result, attributes };
                    over_threads(&mut emitter, Interval::of_size(work), teams.count, &mut |emitter, number| {
                        system.emit(emitter, number)
                    })
                }
            }
        })?;
        let (blocks, threads) = (ceil_div(work, teams.count) as u64, teams.threads() as u32);
        Ok(vec![kernel.launch(blocks, threads, arrays.arguments())])
    }
}

/// Factors l of matrices l lᴴ, or u of uᴴ u, which are the conjugate transposes of those.
struct Factor<'f, 'c> {
    matrices: &'f ArrayRef<'c>,
    result: &'f ArrayRef<'c>,
    is_lower: bool,
    function: &'f Body<'c>,
}

impl<'f, 'c> Factor<'f, 'c> {
    fn emit(&self, emitter: &mut Elemental<'f, 'c>, matrices: i64, teams: TeamShape) -> Result<()> {
        let builder = emitter.builder;
        let Some((&size, [batch @ .., _])) = self.result.dimensions.split_last() else { return Ok(()) };
        let (team, wanted) = Team::of_thread(emitter, (teams, self.function), matrices)?;
        // Threads without a row, or without a matrix, compute the last one once more, and store nothing.
        let [row, number] = [(team.part, size), (wanted, matrices)].map(|(own, count)| {
            let last = emitter.scope.constant(count - 1);
            let kept = emitter.scope.emit_min(builder, &[own, last])?;
            Ok::<_, LoweringError>(emitter.scope.add_variable(Interval::of_size(count), Binding::Symbol(kept)))
        });
        let (row, number) = (row?, number?);
        let has_row = conditions(emitter, &[-team.part + (size - 1)], false)?;
        let has_matrix = conditions(emitter, &[-team.part + (size - 1), -wanted + (matrices - 1)], false)?;
        let index = split_merged(number, batch);
        let zero = scalar::constant(builder, self.result.element_type, &[], None);
        let member = emitter.scope.emit(builder, team.member)?;
        let own_row = emitter.scope.emit(builder, row)?;
        let factor = SharedValues::new(builder, self.function, &zero, &[teams.count, size, size]);
        let pivots = SharedValues::new(builder, self.function, &zero, &[teams.count, size]);
        let all = Interval::of_size(size);
        let is_definite = builder.constant_integer(builder.integer_type(1), 1);
        let is_definite = emitter.loop_in(all, None, vec![is_definite], &mut |emitter, column, is_definite| {
            let own = emitter.load_element(self.matrices, &self.place(&index, row, column))?;
            let own = if self.is_lower { own } else { conjugate(builder, &own) };
            let own_column = emitter.scope.emit(builder, column)?;
            let first = emitter.scope.constant(0);
            let rest =
                emitter.loop_between(&[first], &[column], 1, all, own.values(), &mut |emitter, place, rest| {
                    let place = emitter.scope.emit(builder, place)?;
                    let [left, right] = [own_row, own_column].map(|row| factor.load(builder, &[member, row, place]));
                    let product = arithmetic(builder, OpKind::Multiply, left, conjugate(builder, &right))?;
                    Ok(arithmetic(builder, OpKind::Subtract, own.with_values(&rest), product)?.values())
                })?;
            let rest = own.with_values(&rest);
            let is_pivot = conditions(emitter, &[team.part - column], true)?;
            builder.affine_if_then(&is_pivot, |_| {
                pivots.store(builder, &rest, &[member, own_column]);
                Ok::<_, LoweringError>(())
            })?;
            barrier(builder);
            let pivot = pivots.load(builder, &[member, own_column]).value;
            let infinity = builder.float_like(pivot, f64::INFINITY);
            let is_positive = builder.cmpf(CmpfPredicate::Ogt, pivot, builder.float_like(pivot, 0.0));
            let is_finite = builder.cmpf(CmpfPredicate::Olt, pivot, infinity);
            let is_definite = builder.andi(is_definite[0], builder.andi(is_positive, is_finite));
            let pivot = RegisterValue::real(builder, zero.element_type.real_part(), pivot);
            let attributes = Default::default();
            let root = scalar::elementwise(builder, OpKind::Sqrt, &attributes, &[pivot], pivot.element_type)?.value;
            let is_own = builder.cmpi(CmpiPredicate::Eq, own_row, own_column);
            let parts = rest.values().into_iter().zip([root, builder.float_like(root, 0.0)]);
            let parts = parts.map(|(part, pivot)| builder.select(is_own, pivot, builder.divf(part, root)));
            let value = rest.with_values(&parts.collect::<Vec<_>>());
            builder.affine_if_then(&has_row, |_| {
                factor.store(builder, &value, &[member, own_row, own_column]);
                Ok::<_, LoweringError>(())
            })?;
            barrier(builder);
            Ok(vec![is_definite])
        })?;
        builder.affine_if_then(&has_matrix, |_| {
            let stored = emitter.loop_in(all, None, Vec::new(), &mut |emitter, column, _| {
                let own_column = emitter.scope.emit(builder, column)?;
                let value = factor.load(builder, &[member, own_row, own_column]);
                let value = if self.is_lower { value } else { conjugate(builder, &value) };
                let is_inside = builder.cmpi(CmpiPredicate::Ule, own_column, own_row);
                let parts = value.values().into_iter().map(|part| {
                    let part = builder.select(is_inside, part, builder.float_like(part, 0.0));
                    builder.select(is_definite[0], part, builder.float_like(part, f64::NAN))
                });
                let value = value.with_values(&parts.collect::<Vec<_>>());
                emitter.store(self.result, &self.place(&index, row, column), &value)?;
                Ok(Vec::new())
            });
            stored.map(|_| ())
        })
    }

    /// Where the element of a row and a column of the lower factor is.
    fn place(&self, batch: &[Expr<'c>], row: Expr<'c>, column: Expr<'c>) -> Vec<Expr<'c>> {
        place(batch, if self.is_lower { [row, column] } else { [column, row] })
    }
}

/// Systems op(a) x = b, or x op(a) = b.
struct System<'f, 'c> {
    matrices: &'f ArrayRef<'c>,
    vectors: &'f ArrayRef<'c>,
    result: &'f ArrayRef<'c>,
    attributes: TriangularSolveAttributes,
}

impl<'c> System<'_, 'c> {
    /// Substitution, for one vector.
    fn emit(&self, emitter: &mut Elemental<'_, 'c>, number: Expr<'c>) -> Result<()> {
        let builder = emitter.builder;
        let [batch @ .., rows, columns] = &self.result.dimensions[..] else { return Ok(()) };
        let TriangularSolveAttributes { left_side, lower, unit_diagonal, transpose_a } = self.attributes;
        let (size, vectors) = if left_side { (*rows, *columns) } else { (*columns, *rows) };
        let mut batch = split_merged(number, &[batch, &[vectors]].concat());
        let Some(vector) = batch.pop() else { return Ok(()) };
        // x op(a) = b is op(a)ᵀ xᵀ = bᵀ, whose matrix is lower when op(a) is upper.
        let is_transposed = transpose_a != TransposeKind::NoTranspose;
        let is_forward = (lower != is_transposed) == left_side;
        let position = |step: Expr<'c>| if is_forward { step } else { -step + (size - 1) };
        let element =
            |position: Expr<'c>| place(&batch, if left_side { [position, vector] } else { [vector, position] });
        let coefficient = |emitter: &mut Elemental<'_, 'c>, equation: Expr<'c>, unknown: Expr<'c>| {
            let is_swapped = is_transposed == left_side;
            let place = place(&batch, if is_swapped { [unknown, equation] } else { [equation, unknown] });
            let own = emitter.load_element(self.matrices, &place)?;
            Ok::<_, LoweringError>(match transpose_a {
                TransposeKind::Adjoint => conjugate(builder, &own),
                TransposeKind::Transpose | TransposeKind::NoTranspose => own,
            })
        };
        let all = Interval::of_size(size);
        emitter.loop_in(all, None, Vec::new(), &mut |emitter, step, _| {
            let own = position(step);
            let value = emitter.load_element(self.vectors, &element(own))?;
            let first = emitter.scope.constant(0);
            let rest =
                emitter.loop_between(&[first], &[step], 1, all, value.values(), &mut |emitter, step, rest| {
                    let unknown = position(step);
                    let factor = coefficient(emitter, own, unknown)?;
                    let known = emitter.load_element(self.result, &element(unknown))?;
                    let product = arithmetic(builder, OpKind::Multiply, factor, known)?;
                    Ok(arithmetic(builder, OpKind::Subtract, value.with_values(&rest), product)?.values())
                })?;
            let rest = value.with_values(&rest);
            let solved = match unit_diagonal {
                true => rest,
                false => arithmetic(builder, OpKind::Divide, rest, coefficient(emitter, own, own)?)?,
            };
            emitter.store(self.result, &element(own), &solved)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }
}

/// The index of an element of a matrix.
fn place<'c>(batch: &[Expr<'c>], inner: [Expr<'c>; 2]) -> Vec<Expr<'c>> {
    [batch, &inner].concat()
}

/// Conditions that expressions are not negative, or are all zero.
fn conditions<'c>(emitter: &Elemental<'_, 'c>, exprs: &[Expr<'c>], are_zero: bool) -> Result<AffineConditions<'c>> {
    let values = emitter.scope.affine_bounds(exprs)?;
    Ok(AffineConditions { values, equalities: vec![are_zero; exprs.len()] })
}

fn conjugate<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>) -> RegisterValue<'c> {
    let imaginary = value.imaginary.map(|imaginary| builder.negf(imaginary));
    RegisterValue { imaginary, ..*value }
}

fn arithmetic<'c>(
    builder: &OpBuilder<'c>,
    kind: OpKind,
    left: RegisterValue<'c>,
    right: RegisterValue<'c>,
) -> Result<RegisterValue<'c>> {
    scalar::elementwise(builder, kind, &Default::default(), &[left, right], left.element_type)
}
