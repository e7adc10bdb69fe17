//! GPU kernels to PTX.
//!
//! The input is a module with one `gpu.module` of `gpu.func` kernels, whose bodies are the same loops and vectors as on
//! the CPU. Math that is no instruction must already be arithmetic: there is no libdevice. Memref arguments become plain
//! pointers. Vector loads become vector instructions where they carry their alignment.

use crate::{
    CodeGenerationOptions, Emit, Error, LlvmModule, LoweringOptions, Target,
    code::{optimize_and_emit, translate},
    code_generation::generate_shards,
    gpu_instructions, libdevice,
    partition::partition_kernels,
    ptx_text,
    timing::{Timings, timed},
};
use melior::ir::{Module, OperationRef, RegionLike, block::BlockLike, operation::OperationLike};
use mlir_ext::pass_pipeline::run_pipeline;
use mlir_ext::{attributes::string, gpu};
use std::{ops::RangeInclusive, time::Duration};

/// The conversion's pass pipeline.
pub const PIPELINE: &str = "hlo-unsigned-divisions,gpu.module(lower-affine,convert-scf-to-cf,convert-vector-to-llvm,\
     convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1 has-redux=1},\
     convert-to-llvm,reconcile-unrealized-casts)";

/// LLVM's passes for kernels: each thread's code is scalar, so the standard pipeline earns its time.
pub const PASSES: &str = "default<O2>";

/// Parameters of a kernel, of eight bytes each, that every version of PTX has room for, and the first version with room for more.
const FEW_PARAMETERS: usize = 512;
const MANY_PARAMETERS_PTX: u32 = 81;

/// The first version of PTX that knows descriptions of boxes in memory.
const BOXES_PTX: u32 = 83;

/// The GPUs whose warps multiply matrices in shared memory in groups.
pub const WARP_GROUP_GPU: &str = "sm_90a";

/// What code may be made for, the newest first: (compute capabilities from and to; the version of CUDA whose drivers know it;
/// the processor, and the version of PTX). Code for `sm_90a` has instructions that no newer GPU has.
const PROCESSORS: [(Capabilities, (u32, u32), &str, &str); 4] = [
    ((10, 0)..=(u32::MAX, 0), (12, 8), "sm_100", "+ptx86"),
    ((9, 0)..=(9, 0), (12, 3), WARP_GROUP_GPU, "+ptx83"),
    ((9, 0)..=(u32::MAX, 0), (11, 8), "sm_90", "+ptx78"),
    ((0, 0)..=(u32::MAX, 0), (0, 0), "sm_80", "+ptx70"),
];

type Capabilities = RangeInclusive<(u32, u32)>;

/// What code for a GPU of a compute capability is made for, where the driver is of a version of CUDA: the newest processor that
/// both know.
pub fn target_for(capability: (u32, u32), driver: (u32, u32)) -> Target {
    let is_known = |(capabilities, oldest, ..): &&(Capabilities, (u32, u32), &str, &str)| {
        capabilities.contains(&capability) && driver >= *oldest
    };
    let known = PROCESSORS.iter().find(is_known).unwrap_or(&PROCESSORS[PROCESSORS.len() - 1]);
    Target::nvptx(known.2, known.3)
}

/// What a GPU module became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX text, whose entry points have the kernels' names.
    pub text: String,
    /// What it cost.
    pub timings: Timings,
}

/// Converts the contents of each `gpu.module` to the llvm and nvvm dialects, in place.
///
/// # Errors
/// [`Error::Pipeline`], after which the module is half-converted and only good for printing.
pub fn lower_to_nvvm_dialect(module: &Module, options: LoweringOptions) -> Result<(), Error> {
    crate::passes::register();
    Ok(run_pipeline(module, PIPELINE, options.verify)?)
}

/// Compiles the kernels of `module` for `target`, an NVIDIA GPU; `module` is converted in place.
///
/// # Errors
/// [`Error::NoGpuModule`], or the error of a phase.
pub fn compile_to_ptx(module: &Module, target: &Target, options: LoweringOptions) -> Result<Ptx, Error> {
    let mut lower = Duration::ZERO;
    timed(&mut lower, || lower_to_nvvm_dialect(module, options))?;
    let code = CodeGenerationOptions { verify: options.verify, ..CodeGenerationOptions::default() };
    let mut ptx = generate(module, target, code)?;
    ptx.timings.lower = lower;
    Ok(ptx)
}

/// PTX of the kernels of `module`, which are in the llvm and nvvm dialects and may be moved out of it. It depends on the module and the
/// target alone, not on threads.
///
/// # Errors
/// [`Error::NoGpuModule`], or the error of a phase.
pub fn generate(module: &Module, target: &Target, options: CodeGenerationOptions) -> Result<Ptx, Error> {
    let mut timings = Timings::default();
    let kernels = gpu_module(module).ok_or(Error::NoGpuModule)?;
    let target = &target_of(kernels, target);
    let shards = timed(&mut timings.translate, || partition_kernels(kernels, options.operations_per_shard))?;
    let parts = match shards {
        Some(shards) => generate_shards(shards, target, options, &emit, &mut timings)?,
        None => vec![emit(&translate(kernels, target, options.verify, &mut timings)?, &mut timings)?],
    };
    let parts = parts.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
    let text = ptx_text::joined(&parts.map_err(Error::emit)?);
    Ok(Ptx { text, timings })
}

/// The target with the version of PTX that the kernels need.
fn target_of(kernels: OperationRef, target: &Target) -> Target {
    let mut target = target.clone();
    let first = kernels.region(0).ok().and_then(|region| region.first_block());
    let mut next = first.and_then(|block| block.first_operation());
    while let Some(symbol) = next {
        let entry = symbol.region(0).ok().and_then(|region| region.first_block());
        if entry.is_some_and(|entry| entry.argument_count() > FEW_PARAMETERS) {
            target = target.with_ptx(MANY_PARAMETERS_PTX);
        }
        if symbol.inherent_attribute("sym_name").ok().and_then(string) == Some(gpu::COPY_BOX) {
            target = target.with_ptx(BOXES_PTX);
        }
        next = symbol.next_in_block();
    }
    target
}

/// PTX of kernels in LLVM IR.
fn emit(llvm: &LlvmModule, timings: &mut Timings) -> Result<Vec<u8>, Error> {
    libdevice::bind_instructions(llvm)?;
    gpu_instructions::define(llvm)?;
    optimize_and_emit(llvm, PASSES, Emit::Assembly, timings)
}

/// The first `gpu.module` of a module: what [`crate::llvm_module::LlvmModule::translate`] takes.
pub fn gpu_module<'c, 'a>(module: &'a Module<'c>) -> Option<OperationRef<'c, 'a>> {
    let mut next = module.body().first_operation();
    while let Some(operation) = next {
        if operation.name().as_string_ref().as_str() == Ok("gpu.module") {
            return Some(operation);
        }
        next = operation.next_in_block();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_for_the_newest_processor_that_gpu_and_driver_know() {
        let chip = |capability, driver| target_for(capability, driver).cpu_name().to_string();
        assert_eq!(chip((8, 0), (12, 8)), "sm_80");
        assert_eq!(chip((8, 9), (11, 4)), "sm_80");
        assert_eq!(chip((9, 0), (12, 4)), "sm_90a");
        assert_eq!(chip((9, 0), (12, 3)), "sm_90a");
        assert_eq!(chip((9, 0), (12, 2)), "sm_90");
        assert_eq!(chip((10, 0), (12, 8)), "sm_100");
        assert_eq!(chip((12, 0), (13, 0)), "sm_100");
        assert_eq!(chip((7, 5), (12, 0)), "sm_80", "which the device refuses, with a reason");
    }
}
