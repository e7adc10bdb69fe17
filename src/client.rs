//! The device that programs are compiled for and run on.

use std::sync::Arc;
use std::time::Instant;

use exec::{BufferPool, Jit, ThreadPool};
use hlo::graph::Module;
use lowering_llvm::{LoweringOptions, Target, shards};

use crate::error::Error;
use crate::executable::{CompileTimings, Executable};
use crate::pipeline::{self, CompileOptions};

/// A device: its threads, its memory and the target that code is made for.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) threads: Option<ThreadPool>,
    pub(crate) memory: BufferPool,
    pub(crate) target: Target,
}

impl Client {
    /// The host's CPU with the given number of threads; 0 for as many as it runs at once.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu(threads: usize) -> Result<Self, Error> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = if threads > 1 { Some(ThreadPool::new(threads)?) } else { None };
        let inner = ClientInner { threads, memory: BufferPool::new(), target: Target::host() };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The target that code is made for.
    pub fn target(&self) -> &Target {
        &self.inner.target
    }

    /// Compiles a module.
    ///
    /// # Errors
    /// For invalid programs, operations without a lowering, and constants without a value.
    pub fn compile(&self, module: &Module, options: &CompileOptions) -> Result<Executable, Error> {
        let mut timings = CompileTimings::default();
        let start = Instant::now();
        let context = hlo::dialect::context();
        context.load_all_available_dialects();
        timings.context = start.elapsed();
        let start = Instant::now();
        let planned = pipeline::plan_in(&context, module, options.verify)?;
        timings.passes = start.elapsed();

        let start = Instant::now();
        let loops = pipeline::emit_loops(&context, &planned, &self.inner.target, self.inner.threads.is_some())?;
        timings.loops = start.elapsed();
        let lowering = LoweringOptions { verify: options.verify };
        let compiled = shards::compile_module(&loops, &self.inner.target, lowering)?;
        timings.lower = compiled.timings.lower;
        timings.translate = compiled.timings.translate;
        timings.optimize = compiled.timings.optimize;
        timings.emit = compiled.timings.emit;

        let start = Instant::now();
        // SAFETY: the object comes from this compiler for the host, the symbols are the runtime's own.
        let jit = unsafe { Jit::load(&[compiled.object], exec::runtime::symbols())? };
        let executable = Executable::new(self.clone(), jit, module.entry(), planned.buffers, timings)?;
        let mut executable = executable;
        executable.timings.load = start.elapsed();
        Ok(executable)
    }
}
