//! `hlo-to-gpu`: fusions as GPU kernels, by the same emitter as on the CPU.
//!
//! A first slice: programs whose code is elementwise, broadcast, reshape and transpose fusions (with constants and
//! iotas). Everything else is reported before anything is emitted.

use hlo::graph::{Computation, Instruction};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpClass};
use indexing::{Expr, Interval};
use melior::Context;
use melior::ir::attribute::{Attribute, TypeAttribute};
use melior::ir::r#type::FunctionType;
use melior::ir::{Location, Module, Type};
use mlir_ext::builder::{Machine, OpBuilder, Region, Value};
use mlir_ext::control::AffineConditions;

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::kernel::emit_fusion;
use crate::mapping::{self, Mappings};
use crate::memory::{ArrayRef, array_type};
use crate::program::{check_elements, is_free};
use crate::scope::Binding;

type Result<T> = std::result::Result<T, LoweringError>;

/// How to start one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// Blocks of the grid.
    pub blocks: i64,
    /// Threads of a block.
    pub threads: i64,
    /// What the arguments are, in order: operands, then results.
    pub arguments: Vec<String>,
}

impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: grid ({}, 1, 1), block ({}, 1, 1), arguments ({})",
            self.kernel,
            self.blocks,
            self.threads,
            self.arguments.join(", ")
        )
    }
}

/// Lowers the mapped fusions of an entry computation to one `gpu.module`, with their launches in order; with
/// `allow_fma`, a product that is added to something need not be rounded before.
///
/// # Errors
/// [`LoweringError::Unsupported`] for everything but elementwise, broadcast, reshape and transpose fusions.
pub fn lower_kernels<'c>(
    context: &'c Context,
    entry: &Computation,
    mappings: &Mappings<'c>,
    allow_fma: bool,
) -> Result<(Module<'c>, Vec<Launch>)> {
    for instruction in &entry.instructions {
        check_supported(instruction)?;
    }
    crate::load_dialects(context);
    let location = Location::unknown(context);
    let module = Module::new(location);
    let builder = OpBuilder::new(context, &module, location);
    builder.set_machine(Machine { allow_fma, ..Machine::default() });
    let mut launches = Vec::new();
    // Functions that kernels call stand beside them, in the GPU's module.
    let kernels = builder.module_region(|builder| {
        for instruction in entry.instructions.iter().filter(|instruction| instruction.kind == OpKind::Fusion) {
            for mapping in mapping::of(mappings, instruction)? {
                launches.push(emit_kernel(builder, entry, instruction, mapping)?);
            }
        }
        Ok::<_, LoweringError>(())
    })?;
    builder.operation("gpu.module", &[], &[], &[("sym_name", builder.string_attribute("kernels"))], vec![kernels]);
    Ok((module, launches))
}

pub(crate) fn check_supported(instruction: &Instruction) -> Result<()> {
    let unsupported = |inner: &Instruction, what: &str| {
        Err(LoweringError::Unsupported {
            op: inner.kind,
            platform: "cuda",
            what: what.to_string(),
            instruction: inner.name.clone(),
        })
    };
    if is_free(instruction) {
        return Ok(());
    }
    if instruction.kind != OpKind::Fusion {
        return unsupported(
            instruction,
            "only elementwise, broadcast, reshape and transpose fusions have GPU code yet",
        );
    }
    for inner in &instruction.computations[0].instructions {
        let has_code = match inner.kind {
            OpKind::Parameter
            | OpKind::Constant
            | OpKind::Tuple
            | OpKind::Iota
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::Copy => true,
            kind => ops::definition(kind).class == OpClass::Elementwise,
        };
        if !has_code {
            return unsupported(inner, "no GPU code yet");
        }
    }
    check_elements(instruction, "cuda")
}

fn emit_kernel<'c>(
    builder: &OpBuilder<'c>,
    entry: &Computation,
    fusion: &Instruction,
    mapping: &WorkMapping<'c>,
) -> Result<Launch> {
    let body = &fusion.computations[0];
    let name: String =
        fusion.name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    let mut shapes = Vec::new();
    for &operand in &fusion.operands {
        shapes.extend(entry.get(operand).shape.leaves().into_iter().filter_map(|leaf| leaf.as_array()).cloned());
    }
    let input_count = shapes.len();
    shapes.extend(fusion.shape.leaves().into_iter().filter_map(|leaf| leaf.as_array()).cloned());
    let types: Vec<Type<'c>> = shapes.iter().map(|shape| array_type(builder, shape)).collect();
    let (region, _) = builder.function_region(&types, |builder, function| {
        let arrays: Vec<ArrayRef<'c>> = function
            .parameters()
            .into_iter()
            .zip(&shapes)
            .map(|(memref, shape)| ArrayRef::new(memref, shape))
            .collect();
        let (inputs, outputs) = arrays.split_at(input_count);
        emit_fusion(builder, body, mapping, inputs, outputs, None)?;
        builder.effect("gpu.return", &[], &[]);
        Ok::<_, LoweringError>(())
    })?;
    kernel_function(builder, &name, &types, region);
    let threads = mapping.dimensions.first().map_or(1, |dimension| dimension.tile);
    Ok(Launch {
        kernel: name,
        blocks: blocks(mapping.iterations(), threads),
        threads,
        arguments: shapes.iter().map(|shape| shape.to_string()).collect(),
    })
}

/// Blocks that have a thread for each of some positions.
fn blocks(positions: i64, threads: i64) -> i64 {
    positions / threads + i64::from(positions % threads != 0)
}

/// The positions within bounds, one a thread: the last block may have threads without any.
pub(crate) fn over_threads<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    bounds: Interval,
    threads: i64,
    body: &mut dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>) -> Result<()>,
) -> Result<()> {
    let builder = emitter.builder;
    let positions = bounds.upper - bounds.lower + 1;
    let blocks = blocks(positions, threads);
    let (block, thread) = (id(builder, "gpu.block_id", blocks)?, id(builder, "gpu.thread_id", threads)?);
    let block = emitter.scope.add_variable(Interval::of_size(blocks), Binding::Symbol(block));
    let thread = emitter.scope.add_variable(Interval::of_size(threads), Binding::Symbol(thread));
    let number = emitter.scope.emit(builder, block * threads + thread)?;
    let bounded = emitter.scope.add_variable(Interval::of_size(blocks * threads), Binding::Symbol(number));
    let has_one = emitter.scope.affine_bounds(&[-bounded + (positions - 1)])?;
    let has_one = AffineConditions { values: has_one, equalities: vec![false] };
    builder.affine_if_then(&has_one, |_| {
        let number = emitter.scope.add_variable(Interval::of_size(positions), Binding::Symbol(number));
        body(emitter, number + bounds.lower)
    })
}

/// The number of a block in the grid, or of a thread in its block.
fn id<'c>(builder: &OpBuilder<'c>, name: &str, bound: i64) -> Result<Value<'c>> {
    let x = Attribute::parse(builder.context(), "#gpu<dim x>").ok_or_else(|| LoweringError::bug("#gpu<dim x>"))?;
    let bound = builder.integer_attribute(builder.index_type, bound);
    Ok(builder.value(name, &[], builder.index_type, &[("dimension", x), ("upper_bound", bound)]))
}

fn kernel_function<'c>(builder: &OpBuilder<'c>, name: &str, types: &[Type<'c>], region: Region<'c>) {
    let context = builder.context();
    let r#type = FunctionType::new(context, types, &[]);
    builder.operation(
        "gpu.func",
        &[],
        &[],
        &[
            ("sym_name", builder.string_attribute(name)),
            ("function_type", TypeAttribute::new(r#type.into()).into()),
            ("gpu.kernel", Attribute::unit(context)),
        ],
        vec![region],
    );
}
