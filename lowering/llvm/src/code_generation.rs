//! Object code, or PTX, from the llvm dialect, on several threads.
//!
//! ```text
//!  llvm dialect ──partition──> shards ──translate──> LLVM IR ──┬─ optimize, emit ─> object, or PTX
//!                              (this thread, one MLIR context) ├─ optimize, emit ─> object, or PTX
//!                                                              └─ …     (any thread, an LLVM context each)
//! ```
//! MLIR contexts belong to one thread, and translation is a small part of the time: so it stays on the calling thread,
//! which hands each translated shard over and then works with the others. Small modules are one shard and start no thread.

use crate::{
    Emit, Error, LlvmModule, Target,
    code::{Code, generate, optimize_and_emit, translate},
    llvm_module::KERNEL_PASSES,
    partition::{OPERATIONS_PER_SHARD, Shard, partition},
    timing::{Timings, timed},
};
use melior::ir::Module;
use std::{
    num::NonZero,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Instant,
};

/// How to generate code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeGenerationOptions {
    /// Threads to use; 0 for as many as the machine runs at once. Never more than there are shards.
    pub threads: usize,
    /// Verify the LLVM IR. For tests and debugging.
    pub verify: bool,
    /// Operations of the llvm dialect up to which a module is compiled as a whole.
    pub operations_per_shard: usize,
}

impl Default for CodeGenerationOptions {
    fn default() -> Self {
        Self { threads: 0, verify: false, operations_per_shard: OPERATIONS_PER_SHARD }
    }
}

impl CodeGenerationOptions {
    /// Threads that so many shards are spread over.
    fn threads_for(&self, shards: usize) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        }
        .min(shards)
    }
}

/// The code of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedCode {
    /// Relocatable object files, which refer to each other.
    pub objects: Vec<Vec<u8>>,
    /// Threads that took part.
    pub threads: usize,
    /// What they cost.
    pub timings: Timings,
}

/// Generates the code of a module of the llvm dialect, whose functions may be moved out of it. The objects depend on the
/// module and the target alone, not on threads.
///
/// # Errors
/// Those of each phase, of the first shard that fails.
pub fn generate_code(module: &Module, target: &Target, options: CodeGenerationOptions) -> Result<GeneratedCode, Error> {
    let mut timings = Timings::default();
    let shards = timed(&mut timings.translate, || partition(module, options.operations_per_shard))?;
    let Some(shards) = shards else {
        let Code { bytes, timings: own } = generate(module.as_operation(), target, Emit::Object, options.verify)?;
        timings.add(&own);
        return Ok(GeneratedCode { objects: vec![bytes], threads: 1, timings });
    };
    let emit = |llvm: &LlvmModule, timings: &mut Timings| optimize_and_emit(llvm, KERNEL_PASSES, Emit::Object, timings);
    let threads = options.threads_for(shards.len());
    let objects = generate_shards(shards, target, options, &emit, &mut timings)?;
    Ok(GeneratedCode { objects, threads, timings })
}

/// The code of a shard, by its number, and its timings.
type Generated = (usize, Result<Vec<u8>, Error>, Timings);

/// What makes code of a shard.
type EmitShard<'f> = dyn Fn(&LlvmModule, &mut Timings) -> Result<Vec<u8>, Error> + Sync + 'f;

/// The code of each shard, in their order.
pub(crate) fn generate_shards(
    shards: Vec<Shard<'_>>,
    target: &Target,
    options: CodeGenerationOptions,
    emit: &EmitShard<'_>,
    timings: &mut Timings,
) -> Result<Vec<Vec<u8>>, Error> {
    let threads = options.threads_for(shards.len());
    let (sender, receiver) = mpsc::channel::<(usize, LlvmModule)>();
    let receiver = Mutex::new(receiver);
    // Takes shards until there are no more to come.
    let work = || -> Vec<Generated> {
        let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        std::iter::from_fn(|| next().ok())
            .map(|(number, llvm)| {
                let mut timings = Timings::default();
                let code = emit(&llvm, &mut timings);
                (number, code, timings)
            })
            .collect()
    };
    let (translated, mut generated, elapsed) = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let translated = shards.into_iter().enumerate().try_for_each(|(number, shard)| {
            let target = target.clone().with_effort(shard.effort);
            let llvm = translate(shard.module.as_operation(), &target, options.verify, timings)?;
            // The receiver lives longer than this scope.
            sender.send((number, llvm)).map_err(|_| Error::Emit("no thread takes shards".into()))
        });
        drop(sender);
        let start = Instant::now();
        let mut generated = work();
        for helper in helpers {
            generated.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        (translated, generated, start.elapsed())
    });
    translated?;
    generated.sort_by_key(|(number, ..)| *number);
    timings.add_parallel(elapsed, generated.iter().map(|(.., timings)| timings));
    generated.into_iter().map(|(_, code, _)| code).collect()
}
