//! How the work of kernels is divided: chosen by the passes `hlo-map-to-cpu` and `hlo-map-to-gpu`, noted on the operations
//! as `hlo.mapping`, and followed by the lowering.
//!
//! An operation has a mapping for each kernel that it becomes: one, but for a concatenate of very many operands; none where
//! there is no element to compute.

use std::collections::HashMap;

use hlo::dialect::{self, DialectError};
use hlo::element_type::ElementClass;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::{ElementCost, Lowering, OpClass, definition};
use hlo::shape::ArrayShape;
use melior::Context;
use melior::ir::attribute::ArrayAttribute;
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, BlockRef, OperationRef};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};
use passes::fuse::{first_result, is_function, is_update};

use crate::error::LoweringError;
use crate::operand_maps::operand_shape;

type Result<T> = std::result::Result<T, LoweringError>;

/// Attribute of an operation that becomes kernels: an array of `#hlo.mapping`.
pub const MAPPING: &str = "hlo.mapping";

/// The mappings of a program's kernels, by the places of their instructions in memory.
pub(crate) type Mappings<'c> = HashMap<*const Instruction, Vec<WorkMapping<'c>>>;

/// Notes on the operations of a function what `choose` divides the work of their kernels into, once all is chosen; `None` is
/// for operations that are no kernels. Returns the number of kernels.
pub(crate) fn write<'c>(
    rewriter: &Rewriter<'c, '_>,
    function: OperationRef<'c, '_>,
    choose: &dyn Fn(OperationRef<'c, '_>, &Computation, &Instruction) -> Result<Option<Vec<WorkMapping<'c>>>>,
) -> Result<u64> {
    let mut chosen = Vec::new();
    let mut kernels = 0;
    // Of other operations nothing but their shapes is asked for.
    let reads = |_, kind| matches!(definition(kind).lowering, Lowering::Kernel | Lowering::Call);
    let mut blocks = vec![dialect::single_block(function, 0)?];
    while let Some(block) = blocks.pop() {
        let snapshot = dialect::snapshot(block, reads)?;
        let operations = snapshot.values.into_iter().map(operations::definition);
        for ((_, instruction), operation) in snapshot.computation.iter().zip(operations) {
            let Some(operation) = operation else { continue };
            if definition(instruction.kind).lowering == Lowering::Branches {
                for region in 0..operation.region_count() {
                    blocks.push(dialect::single_block(operation, region)?);
                }
            }
            if let Some(mappings) = choose(operation, &snapshot.computation, instruction)? {
                kernels += mappings.len() as u64;
                let mappings: Vec<Attribute> =
                    mappings.iter().map(|mapping| dialect::mapping_attribute(rewriter.context(), mapping)).collect();
                chosen.push((operation, ArrayAttribute::new(rewriter.context(), &mappings)));
            }
        }
    }
    for (operation, mappings) in chosen {
        rewriter.set_attribute(operation, MAPPING, mappings.into());
    }
    Ok(kernels)
}

/// Reads what the mapping passes noted on the operations of a function, whose computation `entry` is.
///
/// # Errors
/// [`DialectError::Invalid`] where a mapping is malformed or leaves the array that it is for.
pub(crate) fn read<'c>(
    context: &'c Context,
    function: OperationRef<'c, '_>,
    entry: &Computation,
) -> Result<Mappings<'c>> {
    let mut mappings = Mappings::new();
    let mut computations = vec![(dialect::single_block(function, 0)?, entry)];
    while let Some((block, computation)) = computations.pop() {
        for (instruction, operation) in computation.instructions.iter().zip(operations_of(block)?) {
            let Some(operation) = operation else { continue };
            if definition(instruction.kind).lowering == Lowering::Branches {
                for (region, nested) in instruction.computations.iter().enumerate() {
                    computations.push((dialect::single_block(operation, region)?, nested));
                }
            }
            let Some(attribute) = operations::attribute(&operation, MAPPING) else { continue };
            let invalid = |message: String| DialectError::Invalid {
                location: Some(operation.location().to_string()),
                message: format!("`{}`: {message}", instruction.name),
            };
            let elements = attributes::elements(attribute)
                .ok_or_else(|| invalid(format!("`{MAPPING}` is no array of `#hlo.mapping`")))?;
            let read: Vec<WorkMapping<'c>> = elements
                .into_iter()
                .map(|mapping| dialect::mapping_of(context, mapping))
                .collect::<std::result::Result<_, _>>()?;
            for mapping in &read {
                check(mapping, mapped_sizes(computation, instruction)?).map_err(invalid)?;
                check_rows(mapping, instruction).map_err(invalid)?;
            }
            mappings.insert(std::ptr::from_ref(instruction), read);
        }
    }
    Ok(mappings)
}

/// The operations of a computation's block in the order of its instructions; parameters have none.
fn operations_of<'c, 'a>(block: BlockRef<'c, 'a>) -> Result<Vec<Option<OperationRef<'c, 'a>>>> {
    let values = dialect::snapshot(block, |_, _| false)?.values;
    Ok(values.into_iter().map(operations::definition).collect())
}

/// Sizes of the array whose elements the work items of a kernel compute: those of the first result, of a fusion those of the
/// largest one, of an update in place those of the update, of a scatter those of the updates.
pub(crate) fn mapped_sizes<'a>(computation: &'a Computation, instruction: &'a Instruction) -> Result<&'a [i64]> {
    let written = |computation: &'a Computation, root: &'a Instruction| -> Result<Option<&'a [i64]>> {
        Ok(match root.kind {
            OpKind::DynamicUpdateSlice => Some(&operand_shape(computation, root, 1)?.dimensions),
            OpKind::Scatter => Some(&operand_shape(computation, root, scatter_inputs(root) + 1)?.dimensions),
            _ => None,
        })
    };
    let special = match &instruction.computations[..] {
        [body] if instruction.kind == OpKind::Fusion => match written(body, body.root())? {
            None => Some(passes::fuse::written(body).1).filter(|_| body.root().kind == OpKind::Tuple),
            updated => updated,
        },
        _ => written(computation, instruction)?,
    };
    let first = || first_result(instruction).map(|array| &array.dimensions[..]);
    special.or_else(first).ok_or_else(|| LoweringError::bug(format!("kernel `{}` has no array", instruction.name)))
}

/// Whether a kernel has an element to compute.
pub(crate) fn has_elements(computation: &Computation, instruction: &Instruction) -> Result<bool> {
    let is_empty = first_result(instruction).is_none_or(|first| first.element_count() == 0);
    Ok(!is_empty && !mapped_sizes(computation, instruction)?.contains(&0))
}

/// The mappings of an instruction's kernels.
pub(crate) fn of<'m, 'c>(mappings: &'m Mappings<'c>, instruction: &Instruction) -> Result<&'m [WorkMapping<'c>]> {
    let own = mappings.get(&std::ptr::from_ref(instruction));
    own.map(Vec::as_slice).ok_or_else(|| invalid(format!("`{}`: its work is not mapped", instruction.name)))
}

/// The error for a module that a pass does not take.
pub(crate) fn invalid(message: String) -> LoweringError {
    LoweringError::Dialect(DialectError::Invalid { location: None, message })
}

/// Operands that a scatter updates.
pub(crate) fn scatter_inputs(scatter: &Instruction) -> usize {
    scatter.operands.len().saturating_sub(1) / 2
}

/// Whether an element is made of many.
pub(crate) fn combines(instruction: &Instruction) -> bool {
    matches!(definition(instruction.kind).class, OpClass::Reduction | OpClass::Contraction)
}

/// The widest registers of a computation's elements, in bits: small floats are computed as `f32`.
pub(crate) fn register_bits(computation: &Computation) -> u32 {
    let arrays = computation.instructions.iter().filter_map(|instruction| instruction.shape.as_array());
    let bits = arrays.filter(|array| array.rank() > 0).map(|array| match array.element_type.class() {
        ElementClass::Predicate => 8,
        ElementClass::Signed | ElementClass::Unsigned => array.element_type.bit_width().max(8),
        ElementClass::Float | ElementClass::Complex => 32,
    });
    bits.max().unwrap_or(32)
}

/// Lanes of the vectors of a computation of small integers, which fill registers with more of them than the widest elements do.
pub(crate) fn lanes_of_small_integers(computation: &Computation, lanes: u32) -> u32 {
    lanes * (32 / register_bits(computation).min(32))
}

/// Whether a computation has functions of many operations each, such as exponentials of floats or quotients of integers.
pub(crate) fn has_functions(computation: &Computation) -> bool {
    computation.instructions.iter().any(|own| is_function(own) || is_quotient_of_integers(own))
}

fn is_quotient_of_integers(instruction: &Instruction) -> bool {
    let is_array_of_integers = |shape: &ArrayShape| shape.rank() > 0 && shape.element_type.is_integer();
    definition(instruction.kind).cost == ElementCost::Division
        && instruction.shape.as_array().is_some_and(is_array_of_integers)
}

/// Whether a fusion computes each element of arrays of some sizes, its results, from single elements.
pub(crate) fn is_by_element(body: &Computation, sizes: &[i64]) -> bool {
    !body.instructions.iter().any(combines) && gives_elements(body, sizes)
}

/// Whether a fusion computes the elements of arrays of some sizes, all of them.
pub(crate) fn gives_elements(body: &Computation, sizes: &[i64]) -> bool {
    let has_sizes = |shape: &ArrayShape| shape.dimensions == sizes;
    !is_update(body) && body.roots().iter().all(|&root| body.get(root).shape.as_array().is_some_and(has_sizes))
}

/// Whether what a fused computation computes from some of its values, all of the sizes of its results, is computed from single
/// elements of them.
pub(crate) fn are_followed_elementwise(computation: &Computation, values: &[InstructionId]) -> bool {
    let sizes = |id: InstructionId| first_result(computation.get(id)).map(|shape| &shape.dimensions);
    let Some(results) = values.first().map(|&first| sizes(first)) else { return false };
    let mut follows = vec![false; computation.instructions.len()];
    let tuple = (computation.root().kind == OpKind::Tuple).then_some(computation.root);
    for (id, own) in computation.iter().filter(|(id, _)| Some(*id) != tuple) {
        let is_value = values.contains(&id);
        follows[id.index()] = is_value || own.operands.iter().any(|operand| follows[operand.index()]);
        let is_alone = is_value && own.operands.iter().any(|operand| follows[operand.index()]);
        let is_elementwise = is_value || definition(own.kind).class == OpClass::Elementwise;
        if is_alone || follows[id.index()] && (!is_elementwise || sizes(id) != results) {
            return false;
        }
    }
    computation.roots().iter().all(|&root| sizes(root) == results)
}

/// Whether each value that a mapping computes for a row is one of the fusion, with dimensions for the row.
fn check_rows(mapping: &WorkMapping<'_>, instruction: &Instruction) -> std::result::Result<(), String> {
    let Some(rows) = &mapping.rows else { return Ok(()) };
    let body = instruction.computations.first().filter(|_| instruction.kind == OpKind::Fusion);
    let is_computed = |step: &InstructionId| {
        let value = body.and_then(|body| body.instructions.get(step.index()))?;
        let shape = value.shape.as_array().filter(|_| value.kind != OpKind::Parameter)?;
        (shape.rank() >= rows.rank).then_some(())
    };
    match rows.steps.iter().all(|step| is_computed(step).is_some()) {
        true => Ok(()),
        false => Err("the mapping computes for each row what the fusion does not".into()),
    }
}

/// Whether the indices of a mapping lie within an array.
fn check(mapping: &WorkMapping<'_>, sizes: &[i64]) -> std::result::Result<(), String> {
    let results = mapping.map.results();
    let ranges = indexing::RangeEvaluator::without_constraints(&mapping.map);
    let fits = results
        .iter()
        .zip(sizes)
        .all(|(&result, &size)| indexing::Interval::of_size(size).contains_interval(ranges.range(result)));
    if fits && results.len() == sizes.len() {
        return Ok(());
    }
    Err(format!("the mapping `{}` does not lie within an array of sizes {sizes:?}", mapping.map))
}
