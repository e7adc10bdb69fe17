//! The device that programs are compiled for and run on.

use std::sync::Arc;
use std::time::Instant;

use exec::runtime::feeds::Channels;
use exec::{BufferPool, ThreadPool};
use hlo::graph::Module;
use lowering_llvm::{CodeGenerationOptions, Target, generate_code};

use crate::cache::{CompilationCache, Key};
use crate::error::Error;
use crate::executable::{CompileTimings, Executable, Interface, Origin};
use crate::pending::Queue;
use crate::pipeline::{self, CompileOptions, CompilePipeline};
use crate::source::Source;

/// How a device works.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Threads that a program runs on; 0 for the number of hardware threads.
    pub threads: usize,
    /// Where compiled programs are kept on disk; nowhere by default.
    pub cache: Option<CompilationCache>,
}

/// A device: its threads, its memory and the target that code is made for. Clones are the same device.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) threads: Option<ThreadPool>,
    pub(crate) memory: BufferPool,
    pub(crate) queue: Queue,
    /// What programs send each other, and themselves.
    pub(crate) channels: Arc<Channels>,
    target: Target,
    cache: Option<CompilationCache>,
}

impl Client {
    /// The host's CPU, with as many threads as it runs at once.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu() -> Result<Self, Error> {
        Self::with_options(ClientOptions::default())
    }

    /// The host's CPU, with this many threads; 0 for the number of hardware threads.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        Self::with_options(ClientOptions { threads, ..ClientOptions::default() })
    }

    /// The host's CPU.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn with_options(options: ClientOptions) -> Result<Self, Error> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = if threads > 1 { Some(ThreadPool::new(threads)?) } else { None };
        let inner = ClientInner {
            threads,
            memory: BufferPool::new(),
            queue: Queue::default(),
            channels: Arc::default(),
            target: Target::host(),
            cache: options.cache,
        };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The target that code is made for.
    pub fn target(&self) -> &Target {
        &self.inner.target
    }

    /// Threads that a program runs on.
    pub fn threads(&self) -> usize {
        self.inner.threads.as_ref().map_or(1, ThreadPool::threads)
    }

    /// Gives memory that no buffer uses back to the system.
    pub fn release_unused_memory(&self) {
        self.inner.memory.release_unused();
    }

    /// Compiles a module, HLO text, or a file.
    ///
    /// # Errors
    /// For invalid programs, operations without a lowering, and constants without a value.
    pub fn compile<'a>(&self, source: impl Into<Source<'a>>, options: &CompileOptions) -> Result<Executable, Error> {
        let module = source.into().module()?;
        let Some(cache) = &self.inner.cache else { return self.compile_module(&module, options) };
        let key = Key::new(&module, options, &self.inner.target, self.inner.threads.is_some());
        if let Some(bytes) = cache.get(&key) {
            // SAFETY: the cache's folder holds what this function wrote, see `CompilationCache::new`.
            match unsafe { self.deserialize(&bytes) } {
                Ok(executable) => return Ok(executable),
                Err(_) => cache.remove(&key),
            }
        }
        let executable = self.compile_module(&module, options)?;
        cache.put(&key, &executable.serialize());
        Ok(executable)
    }

    fn compile_module(&self, module: &Module, options: &CompileOptions) -> Result<Executable, Error> {
        let mut timings = CompileTimings::default();
        let start = Instant::now();
        let context = hlo::dialect::context();
        timings.context = start.elapsed();
        let start = Instant::now();
        let target = &self.inner.target;
        let program = pipeline::import(&context, module)?;
        let pipeline = CompilePipeline::cpu(target, self.inner.threads.is_some(), options);
        let run = pipeline::run(&program, &pipeline.text(), options.verify)?;
        let all = start.elapsed();
        timings.loops = run.elapsed_in(pipeline::TO_AFFINE);
        timings.passes = run.elapsed_until(pipeline::TO_AFFINE).saturating_sub(timings.loops);
        timings.lower = all.saturating_sub(timings.passes + timings.loops);
        let code_options = CodeGenerationOptions {
            threads: options.compile_threads,
            verify: options.verify,
            ..CodeGenerationOptions::default()
        };
        let code = generate_code(&program, target, code_options)?;
        timings.translate = code.timings.translate;
        timings.optimize = code.timings.optimize;
        timings.emit = code.timings.emit;

        let interface = Interface::read(&program)?;
        let origin = Origin { timings, is_from_cache: false };
        // SAFETY: the objects were compiled from this program, for the host.
        unsafe { Executable::load(self.clone(), code.objects, interface, origin) }
    }
}
