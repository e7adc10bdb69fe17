//! Compiling independent modules side by side, each thread with MLIR and LLVM contexts of its own.
//!
//! Contexts are single-threaded: sharding scales (1.97 times on two cores) where MLIR's and LLVM's own locks would not.
//! A context costs some milliseconds, so each thread keeps one for all shards it takes.

use crate::{
    Effort, Emit, Error, LoweringOptions, Target, code,
    cpu::lower_to_llvm_dialect,
    timing::{Timings, timed},
};
use melior::{Context, dialect::DialectRegistry, ir::Module, utility::register_all_dialects};
use mlir_ext::diagnostics;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Makes a module of loops in the context it is given; runs on the thread that compiles the shard.
pub type ShardBuilder<'a> = Box<dyn for<'c> FnOnce(&'c Context) -> Result<Module<'c>, String> + Send + 'a>;

/// What one thread compiles at a time. Shards refer to each other by symbols, which the loader binds.
pub struct Shard<'a> {
    /// Where the module comes from.
    pub source: ShardSource<'a>,
    /// How much work its code is worth.
    pub effort: Effort,
}

/// Where a shard's module comes from.
pub enum ShardSource<'a> {
    /// MLIR text.
    Text(&'a str),
    /// A function that builds it.
    Builder(ShardBuilder<'a>),
}

impl<'a> Shard<'a> {
    /// A shard from MLIR text.
    pub fn text(text: &'a str) -> Self {
        Self { source: ShardSource::Text(text), effort: Effort::Full }
    }

    /// A shard from a builder.
    pub fn builder(builder: impl for<'c> FnOnce(&'c Context) -> Result<Module<'c>, String> + Send + 'a) -> Self {
        Self { source: ShardSource::Builder(Box::new(builder)), effort: Effort::Full }
    }

    /// The same shard with another effort, such as quick code for constants that are computed once.
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }
}

/// How to compile shards.
pub struct ShardOptions<'a> {
    /// Threads to use; 0 for as many as the machine runs at once. Never more than there are shards.
    pub threads: usize,
    /// Conversion options.
    pub lowering: LoweringOptions,
    /// Makes the MLIR context of each thread.
    pub context: &'a (dyn Fn() -> Context + Sync),
}

impl Default for ShardOptions<'_> {
    fn default() -> Self {
        Self { threads: 0, lowering: LoweringOptions::default(), context: &upstream_context }
    }
}

/// An MLIR context that knows every upstream dialect (and loads none yet), without MLIR's own threads.
pub fn upstream_context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    Context::new_with_registry(&registry, false)
}

/// The object file of one shard.
pub struct CompiledShard {
    /// A relocatable object file.
    pub object: Vec<u8>,
    /// What its compilation cost.
    pub timings: Timings,
}

/// Compiles every shard to an object file; results are in the order of `shards`.
///
/// # Errors
/// The error of the first failing shard; a panic of a builder is [`Error::Build`].
pub fn compile_shards(
    shards: Vec<Shard>,
    target: &Target,
    options: &ShardOptions,
) -> Result<Vec<CompiledShard>, Error> {
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
    .min(shards.len());
    let work: Vec<Mutex<Option<Shard>>> = shards.into_iter().map(|shard| Mutex::new(Some(shard))).collect();
    let next = AtomicUsize::new(0);
    let take_all = || {
        let context = (options.context)();
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = work.get(index) else { return results };
            let shard = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(shard) = shard else { continue };
            let result = catch_unwind(AssertUnwindSafe(|| compile_shard(shard, &context, target, options.lowering)))
                .unwrap_or_else(|_| Err(Error::Build("the builder panicked".into())));
            let failed = result.is_err();
            results.push((index, result));
            if failed {
                next.store(work.len(), Ordering::Relaxed);
            }
        }
    };
    let mut results = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(take_all)).collect();
        let mut results = take_all();
        for helper in helpers {
            match helper.join() {
                Ok(more) => results.extend(more),
                Err(_) => results.push((0, Err(Error::Build("a compile thread panicked".into())))),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Compiles one shard in a given MLIR context, on this thread.
///
/// # Errors
/// Those of each phase.
pub fn compile_shard(
    shard: Shard,
    context: &Context,
    target: &Target,
    lowering: LoweringOptions,
) -> Result<CompiledShard, Error> {
    let mut timings = Timings::default();
    let target = target.clone().with_effort(shard.effort);
    let module = timed(&mut timings.build, || match shard.source {
        ShardSource::Text(text) => parse(context, text),
        ShardSource::Builder(build) => build(context).map_err(Error::Build),
    })?;
    compile_loops(&module, &target, lowering, timings)
}

fn compile_loops(
    module: &Module,
    target: &Target,
    lowering: LoweringOptions,
    mut timings: Timings,
) -> Result<CompiledShard, Error> {
    timed(&mut timings.lower, || lower_to_llvm_dialect(module, lowering))?;
    let code = code::generate(module.as_operation(), target, Emit::Object, lowering.verify)?;
    timings += code.timings;
    Ok(CompiledShard { object: code.bytes, timings })
}

/// Parses MLIR text.
///
/// # Errors
/// [`Error::Parse`] with positions.
pub fn parse<'c>(context: &'c Context, text: &str) -> Result<Module<'c>, Error> {
    let (module, diagnostics) = diagnostics::collect(context, || Module::parse(context, text));
    module.ok_or(Error::Parse(diagnostics))
}
