//! `reduce` ("Reduce") over any dimensions, of one or more arrays, with any computation.

use super::data::{build, row_major_strides, sizes, view};
use super::element_loops::BinaryFunction;
use super::scalar_function::ScalarFunction;
use super::{EvalFailure, Evaluator, binary};
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// How positions in the operand map to positions in the result.
struct Plan {
    /// Sizes of the operand.
    sizes: Vec<usize>,
    /// Stride in the result along each operand dimension; 0 for reduced ones.
    strides: Vec<usize>,
    result_count: usize,
}

impl Plan {
    fn new(operand: &ArrayShape, reduced: &[i64]) -> Plan {
        let sizes = sizes(&operand.dimensions);
        let kept: Vec<usize> = (0..sizes.len()).filter(|&d| !reduced.contains(&(d as i64))).collect();
        let kept_sizes: Vec<usize> = kept.iter().map(|&d| sizes[d]).collect();
        let mut strides = vec![0; sizes.len()];
        for (&d, stride) in kept.iter().zip(row_major_strides(&kept_sizes)) {
            strides[d] = stride;
        }
        Plan { strides, result_count: kept_sizes.iter().product(), sizes }
    }

    /// Calls `visit(first operand position, first result position, count, result stride)` for each row of the operand.
    fn for_each_row(
        &self,
        mut visit: impl FnMut(usize, usize, usize, usize) -> Result<(), EvalFailure>,
    ) -> Result<(), EvalFailure> {
        if self.sizes.contains(&0) {
            return Ok(());
        }
        let (Some((&inner, outer)), Some((&stride, outer_strides))) =
            (self.sizes.split_last(), self.strides.split_last())
        else {
            return visit(0, 0, 1, 0);
        };
        let mut index = vec![0usize; outer.len()];
        let (mut position, mut target) = (0, 0);
        loop {
            visit(position, target, inner, stride)?;
            position += inner;
            let mut dimension = outer.len();
            loop {
                if dimension == 0 {
                    return Ok(());
                }
                dimension -= 1;
                index[dimension] += 1;
                target += outer_strides[dimension];
                if index[dimension] < outer[dimension] {
                    break;
                }
                target -= outer_strides[dimension] * outer[dimension];
                index[dimension] = 0;
            }
        }
    }

    /// Folds each group of operand elements, starting from `initial`.
    fn fold<A: Copy>(
        &self,
        initial: A,
        element: impl Fn(usize) -> A,
        combine: impl Fn(A, A) -> A,
    ) -> Result<Vec<A>, EvalFailure> {
        let mut results = vec![initial; self.result_count];
        self.for_each_row(|position, target, count, stride| {
            if stride == 0 {
                let accumulator = &mut results[target];
                *accumulator = (position..position + count).fold(*accumulator, |sum, p| combine(sum, element(p)));
            } else {
                for (offset, accumulator) in results[target..].iter_mut().step_by(stride).take(count).enumerate() {
                    *accumulator = combine(*accumulator, element(position + offset));
                }
            }
            Ok(())
        })?;
        Ok(results)
    }
}

/// Reduces the operands together; `results` are the shapes of the results.
pub(super) fn reduce(
    evaluator: &mut Evaluator<'_, '_, '_>,
    operands: &[&ArrayLiteral],
    initial: &[&ArrayLiteral],
    dimensions: &[i64],
    function: &mut ScalarFunction<'_>,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let Some(first) = operands.first() else {
        return Err(EvalFailure::malformed("a reduction needs an operand"));
    };
    let plan = Plan::new(first.shape(), dimensions);
    if let ([operand], [initial], [result], Some(kind)) = (operands, initial, results, function.single_operation())
        && operand.element_type() == result.element_type
    {
        return Ok(vec![fold_single(&plan, kind, operand, initial, result)?]);
    }
    let count = operands.len();
    let start: Vec<Scalar> = initial.iter().map(|array| load(array.element_type(), array.bytes(), 0)).collect();
    let mut accumulators: Vec<Scalar> = start.iter().copied().cycle().take(count * plan.result_count).collect();
    let mut arguments = Vec::with_capacity(2 * count);
    let mut combined = Vec::with_capacity(count);
    plan.for_each_row(|position, target, row, stride| {
        for offset in 0..row {
            let accumulator = &mut accumulators[(target + offset * stride) * count..][..count];
            arguments.clear();
            arguments.extend_from_slice(accumulator);
            arguments.extend(
                operands.iter().map(|operand| load(operand.element_type(), operand.bytes(), position + offset)),
            );
            function.call(evaluator, &arguments, &mut combined)?;
            for (accumulator, value) in accumulator.iter_mut().zip(&combined) {
                *accumulator = *value;
            }
        }
        Ok(())
    })?;
    results
        .iter()
        .enumerate()
        .map(|(number, result)| store_all(result, accumulators.iter().skip(number).step_by(count).copied()))
        .collect()
}

fn store_all(result: &ArrayShape, values: impl Iterator<Item = Scalar>) -> Result<ArrayLiteral, EvalFailure> {
    build::<u8>(result, |target| {
        for (index, value) in values.enumerate() {
            store(result.element_type, target, index, value);
        }
        Ok(())
    })
}

/// One operation applied over and over: floats are combined in double precision and rounded at the end.
fn fold_single(
    plan: &Plan,
    kind: OpKind,
    operand: &ArrayLiteral,
    initial: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let element_type = operand.element_type();
    macro_rules! float {
        ($t:ty) => {{
            let elements = view::<$t>(operand);
            let start = f64::from(view::<$t>(initial)[0]);
            let element = |p: usize| f64::from(elements[p]);
            let folded = match kind {
                OpKind::Add => Some(plan.fold(start, element, |a, b| a + b)?),
                OpKind::Multiply => Some(plan.fold(start, element, |a, b| a * b)?),
                OpKind::Maximum => Some(plan.fold(start, element, binary::maximum)?),
                OpKind::Minimum => Some(plan.fold(start, element, binary::minimum)?),
                _ => None,
            };
            if let Some(folded) = folded {
                return build::<$t>(result, |target| {
                    target.iter_mut().zip(folded).for_each(|(target, value)| *target = value as $t);
                    Ok(())
                });
            }
        }};
    }
    match element_type {
        ElementType::F32 => float!(f32),
        ElementType::F64 => float!(f64),
        _ => {}
    }
    let function: BinaryFunction =
        binary::function(kind, element_type).ok_or_else(|| EvalFailure::type_mismatch(element_type))?;
    let width = element_type.bit_width();
    let folded = plan.fold(
        load(element_type, initial.bytes(), 0),
        |position| load(element_type, operand.bytes(), position),
        |a, b| function.apply(a, b, width),
    )?;
    store_all(result, folded.into_iter())
}
