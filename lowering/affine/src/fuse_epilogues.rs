//! `hlo-fuse-epilogues`: moves products into the fusions that alone read them and compute each of their elements from one
//! of the product's: a bias, an activation, a residual. What is added to a sum is then added while the sum is in the cache,
//! and the product needs no array of its own. A product whose transpose is read is stored transposed.
//!
//! Products of matrices whose kernel cannot go on so ([`crate::matmul`], `tiles`) stay where they are.

use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::{Lowering, definition};
use melior::Context;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_ext::builder::Machine;
use mlir_ext::operations;
use mlir_ext::rewrite::Rewriter;

use crate::contraction::is_product;
use crate::cost::contracted_size;
use crate::error::LoweringError;
use crate::fuse_prologues;
use crate::mapping::combines;
use crate::matmul::{self, Finish};
use crate::merge::{merge, merged_bodies};
use crate::program::{is_free, kernel_body};
use crate::team::combined_first;
use crate::tiles::has_tiles;

type Result<T> = std::result::Result<T, LoweringError>;

/// Whose kernels go on with the elements of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductKernels {
    /// Those of a CPU with vectors of so many bits.
    Cpu {
        /// The bits.
        vector_bits: u32,
    },
    /// Those of a GPU.
    Gpu,
}

impl ProductKernels {
    /// Whether a product is one to move.
    fn want(self, context: &Context, computation: &Computation, product: &Instruction, fusion: &Computation) -> bool {
        match self {
            // It is as soon stored in another order.
            ProductKernels::Cpu { .. } if fusion.root().kind == OpKind::Transpose => fusion.instructions.len() == 2,
            ProductKernels::Cpu { .. } => {
                product.shape.byte_size() >= LEAST_BYTES
                    && contracted_size(context, computation, product) <= MOST_CONTRACTED
            }
            ProductKernels::Gpu => true,
        }
    }

    /// Whether there is one for a fusion into which a product was moved, which then is `fused`.
    fn go_on(self, context: &Context, computation: &Computation, product: &Instruction, fused: &Instruction) -> bool {
        let Some(body) = fused.computations.first() else { return false };
        match self {
            ProductKernels::Cpu { vector_bits } => {
                let has_kernel = |own: &Instruction| {
                    matmul::recognise(context, computation, own, vector_bits, Machine::default()).is_some()
                };
                // A product that is computed one element at a time is part of any loop.
                Finish::of(body)
                    .is_some_and(|finish| has_kernel(fused) || finish.permutation.is_none() && !has_kernel(product))
            }
            // A team goes on with what it has summed, and so does a thread.
            ProductKernels::Gpu => {
                has_tiles(context, body)
                    || !combined_first(body).is_empty()
                        && body.instructions.iter().filter(|own| combines(own)).count() == 1
                        && !has_tiles(context, &kernel_body(computation, product))
            }
        }
    }
}

/// Bytes of a product from which on it is moved: a fusion finds the elements of smaller ones in the cache, and equal
/// products before different fusions share their kernel.
const LEAST_BYTES: usize = 1 << 20;

/// Elements that each sum of it contracts at most: with more, the product takes so much longer than its fusion that what
/// this saves is less than what a kernel of its own for each fusion costs.
const MOST_CONTRACTED: i64 = 48;

/// Runs the pass on a module's entry function; returns how many products were moved.
///
/// # Errors
/// [`LoweringError::Dialect`] for a module that is no HLO program.
pub fn run(module: OperationRef<'_, '_>, kernels: ProductKernels) -> Result<u64> {
    let function = dialect::entry_function(module)?;
    let rewriter = Rewriter::new(function);
    let mut count = 0;
    let (mut blocks, mut fused_blocks) = (vec![dialect::single_block(function, 0)?], Vec::new());
    while let Some(block) = blocks.pop() {
        fused_blocks.push(block);
        let reads = |_, kind| is_product(kind) || kind == OpKind::Fusion;
        let dialect::Snapshot { computation, values, .. } = dialect::snapshot(block, reads)?;
        let users = computation.use_counts();
        // Where an instruction's value is there: before the instruction of this number.
        let mut places: Vec<usize> = (0..values.len())
            .map(|number| if operations::definition(values[number]).is_some() { number + 1 } else { 0 })
            .collect();
        let mut stays: Vec<bool> = places.iter().map(|&place| place > 0).collect();
        for (id, instruction) in computation.iter() {
            let Some(operation) = operations::definition(values[id.index()]) else { continue };
            if definition(instruction.kind).lowering == Lowering::Branches {
                for region in 0..operation.region_count() {
                    blocks.push(dialect::single_block(operation, region)?);
                }
            }
            let position = product_of(rewriter.context(), &computation, &users, &places, instruction, kernels);
            let Some(position) = position else { continue };
            let number = instruction.operands[position].index();
            let place = place_of(&places, instruction);
            let next = (place..id.index()).find(|&number| stays[number]).unwrap_or(id.index());
            let [Some(product), Some(next)] = [number, next].map(|number| operations::definition(values[number]))
            else {
                return Err(LoweringError::bug("a product is a parameter"));
            };
            merge(&rewriter, [operation, product], position, next, &instruction.attributes)?;
            places[id.index()] = place;
            (stays[number], stays[id.index()]) = (false, false);
            count += 1;
        }
    }
    let ProductKernels::Cpu { vector_bits } = kernels else { return Ok(count) };
    for block in fused_blocks {
        count += fuse_prologues::in_block(&rewriter, block, vector_bits)?;
    }
    Ok(count)
}

/// Where the operands of an instruction are all there.
fn place_of(places: &[usize], instruction: &Instruction) -> usize {
    instruction.operands.iter().map(|operand| places[operand.index()]).fold(0, usize::max)
}

/// The operand of a fusion that is a product to move into it: between the two nothing large is computed, since what the
/// product reads must be kept until then.
fn product_of(
    context: &Context,
    computation: &Computation,
    users: &[u32],
    places: &[usize],
    fusion: &Instruction,
    kernels: ProductKernels,
) -> Option<usize> {
    if fusion.kind != OpKind::Fusion {
        return None;
    }
    let body = fusion.computations.first()?;
    (0..fusion.operands.len()).find(|&position| {
        let operand = fusion.operands[position];
        let product = computation.get(operand);
        let is_product = is_product(product.kind);
        if !is_product || users[operand.index()] != 1 || operand == computation.root {
            return false;
        }
        let between = operand.index() + 1..place_of(places, fusion);
        let computed = computation.instructions.get(between).unwrap_or_default().iter();
        let computed: usize = computed.filter(|own| !is_free(own)).map(|own| own.shape.byte_size()).sum();
        if computed >= product.shape.byte_size() || !kernels.want(context, computation, product, body) {
            return false;
        }
        let mut fused = Instruction::new(&fusion.name, OpKind::Fusion, fusion.shape.clone(), []);
        fused.computations = vec![merged_bodies(body, position, &kernel_body(computation, product))];
        kernels.go_on(context, computation, product, &fused)
    })
}
