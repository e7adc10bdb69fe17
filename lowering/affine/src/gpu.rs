//! Fusions as GPU kernels: one thread an element, the element from the same emitter as on the CPU.
//!
//! A first slice: programs whose code is elementwise, broadcast, reshape and transpose fusions (with constants and
//! iotas). Everything else is reported before anything is emitted.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpClass};
use indexing::Interval;
use melior::Context;
use melior::ir::attribute::{Attribute, TypeAttribute};
use melior::ir::r#type::FunctionType;
use melior::ir::{Location, Module, Type};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{Machine, OpBuilder, Region, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, flat_memref_type};
use crate::program::is_free;
use crate::trace::split_merged;

type Result<T> = std::result::Result<T, LoweringError>;

/// Threads of a block.
const BLOCK_SIZE: i64 = 256;

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

/// Lowers the fusions of an entry computation to one `gpu.module`, with their launches in order; with
/// `contracts_products`, a product that is added to something need not be rounded before.
///
/// # Errors
/// [`LoweringError::Unsupported`] for everything but elementwise, broadcast, reshape and transpose fusions.
pub fn lower_kernels<'c>(
    context: &'c Context,
    entry: &Computation,
    contracts_products: bool,
) -> Result<(Module<'c>, Vec<Launch>)> {
    for instruction in &entry.instructions {
        check_supported(instruction)?;
    }
    crate::load_dialects(context);
    let location = Location::unknown(context);
    let module = Module::new(location);
    let builder = OpBuilder::new(context, &module, location);
    builder.set_machine(Machine { contracts_products, ..Machine::default() });
    let mut launches = Vec::new();
    let mut result = Ok(());
    // Functions that kernels call stand beside them, in the GPU's module.
    let kernels = builder.module_region(|builder| {
        for instruction in entry.instructions.iter().filter(|instruction| instruction.kind == OpKind::Fusion) {
            match emit_kernel(builder, entry, instruction) {
                Ok(launch) => launches.push(launch),
                Err(error) => result = Err(error),
            }
        }
    });
    builder.operation("gpu.module", &[], &[], &[("sym_name", builder.string_attribute("kernels"))], vec![kernels]);
    result.map(|()| (module, launches))
}

fn check_supported(instruction: &Instruction) -> Result<()> {
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
    Ok(())
}

fn emit_kernel<'c>(builder: &OpBuilder<'c>, entry: &Computation, fusion: &Instruction) -> Result<Launch> {
    let body = &fusion.computations[0];
    let name: String =
        fusion.name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    let mut shapes = Vec::new();
    for &operand in &fusion.operands {
        shapes.extend(entry.get(operand).shape.leaves().into_iter().filter_map(|leaf| leaf.as_array()).cloned());
    }
    let input_count = shapes.len();
    shapes.extend(fusion.shape.leaves().into_iter().filter_map(|leaf| leaf.as_array()).cloned());
    let types: Vec<Type<'c>> =
        shapes.iter().map(|shape| flat_memref_type(builder, shape.element_type, shape.element_count())).collect();
    let dimensions = shapes.get(input_count).map(|shape| shape.dimensions.clone()).unwrap_or_default();
    let elements: i64 = dimensions.iter().product();
    let mut result = Ok(());
    let region = builder.region(&types, |builder, region| {
        let arrays: Vec<ArrayRef<'c>> = shapes
            .iter()
            .enumerate()
            .map(|(number, shape)| ArrayRef {
                memref: region.argument(number),
                element_type: shape.element_type,
                dimensions: shape.dimensions.clone(),
            })
            .collect();
        let (inputs, outputs) = arrays.split_at(input_count);
        let position = thread_position(builder);
        let bound = builder.constant_index(elements);
        let is_inside = builder.cmpi(CmpiPredicate::Ult, position, bound);
        builder.if_then(is_inside, |builder| {
            result = emit_element(builder, body, inputs, outputs, position, &dimensions);
        });
        builder.effect("gpu.return", &[], &[]);
    });
    result?;
    kernel_function(builder, &name, &types, region);
    Ok(Launch {
        kernel: name,
        blocks: elements.max(1).div_euclid(BLOCK_SIZE) + i64::from(elements.max(1) % BLOCK_SIZE != 0),
        threads: BLOCK_SIZE,
        arguments: shapes.iter().map(|shape| shape.to_string()).collect(),
    })
}

/// The number of this thread in the grid.
fn thread_position<'c>(builder: &OpBuilder<'c>) -> Value<'c> {
    let x = Attribute::parse(builder.context(), "#gpu<dim x>").unwrap_or_else(|| Attribute::unit(builder.context()));
    let read = |name: &str| builder.value(name, &[], builder.index_type, &[("dimension", x)]);
    let (block, size, thread) = (read("gpu.block_id"), read("gpu.block_dim"), read("gpu.thread_id"));
    let first = builder.muli(block, size);
    builder.addi(first, thread)
}

fn emit_element<'c>(
    builder: &OpBuilder<'c>,
    body: &Computation,
    inputs: &[ArrayRef<'c>],
    outputs: &[ArrayRef<'c>],
    position: Value<'c>,
    dimensions: &[i64],
) -> Result<()> {
    let mut emitter = Elemental::new(builder, body, inputs, 1);
    let elements: i64 = dimensions.iter().product();
    let position = emitter.scope.add_variable(Interval::new(0, elements - 1), position);
    let index: Vec<_> = split_merged(&position, dimensions).iter().map(|part| emitter.scope.simplify(part)).collect();
    let root = body.root();
    let roots = if root.kind == OpKind::Tuple { root.operands.clone() } else { vec![body.root] };
    let mut values = Vec::with_capacity(roots.len());
    for root in roots {
        values.push(emitter.evaluate(root, &index)?);
    }
    values.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, &index, value))
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
