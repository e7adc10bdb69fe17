//! The devices that programs are compiled for and run on.

use std::sync::Arc;
use std::time::Duration;

use exec::runtime::devices::DEFAULT_TIME_LIMIT;
use exec::runtime::feeds::Channels;
use exec::{BufferPool, ThreadPool};
#[cfg(feature = "compiler")]
use lowering_llvm::Target;

#[cfg(feature = "compiler")]
use crate::cache::CompilationCache;
#[cfg(feature = "compiler")]
use crate::contexts::ContextPool;
use crate::error::Error;

/// What runs a client's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// The host's processor.
    #[default]
    Cpu,
    /// The machine's first NVIDIA GPU.
    Cuda,
    /// An NVIDIA GPU played by the host's processor: for tests, as each access of each thread is checked.
    CudaEmulator,
}

/// How a client's devices work.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// What runs the programs.
    pub platform: Platform,
    /// Threads that a program runs on; 0 for the number of hardware threads.
    pub threads: usize,
    /// Where compiled programs are kept on disk; nowhere by default.
    #[cfg(feature = "compiler")]
    pub cache: Option<CompilationCache>,
    /// LLVM's name of the GPU that kernels are for, such as `sm_90a`, whose matrix instructions no other GPU has: by default the
    /// newest one that the platform's GPU and its driver know. The CPU ignores it.
    #[cfg(feature = "compiler")]
    pub gpu_processor: Option<String>,
    /// Whether programs on the host's processor (x86-64) take numbers too small to be normal (below 1.2e-38 of an `f32`) for
    /// zero, as XLA's do. Where many results are as small, such as `exp(-x * x)` far from 0, code is up to several times as
    /// fast. By default they are kept.
    pub flush_subnormals: bool,
    /// Devices that a program may be for; 0 for one. Each runs a program on a thread of its own.
    pub devices: usize,
    /// How long a device waits in a collective for others that still compute; a minute by default. That others have failed
    /// or ended is noticed at once.
    pub collective_time_limit: Option<Duration>,
}

/// Devices of one kind: their threads, their memory and the target that code is made for. Clones are the same devices.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) threads: Option<ThreadPool>,
    pub(crate) memory: BufferPool,
    /// What programs send each other, and themselves.
    pub(crate) channels: Arc<Channels>,
    pub(crate) collective_time_limit: Duration,
    devices: usize,
    platform: Platform,
    pub(crate) flush_subnormals: bool,
    pub(crate) gpu: Option<Arc<cuda::Gpu>>,
    #[cfg(feature = "compiler")]
    pub(crate) contexts: ContextPool,
    #[cfg(feature = "compiler")]
    pub(crate) target: Target,
    #[cfg(feature = "compiler")]
    pub(crate) gpu_processor: Option<String>,
    #[cfg(feature = "compiler")]
    pub(crate) cache: Option<CompilationCache>,
}

impl Client {
    /// The host's CPU, with as many threads as it runs at once.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu() -> Result<Self, Error> {
        Self::with_options(ClientOptions::default())
    }

    /// The machine's first NVIDIA GPU.
    ///
    /// # Errors
    /// [`Error::Cuda`] where there is no driver or no GPU.
    pub fn cuda() -> Result<Self, Error> {
        Self::with_options(ClientOptions { platform: Platform::Cuda, ..ClientOptions::default() })
    }

    /// The host's CPU, with this many threads; 0 for the number of hardware threads.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        Self::with_options(ClientOptions { threads, ..ClientOptions::default() })
    }

    /// The host's CPU as so many devices, for programs whose header has a `replica_count` or `num_partitions`. They
    /// share its memory and threads.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu_devices(devices: usize) -> Result<Self, Error> {
        Self::with_options(ClientOptions { devices, ..ClientOptions::default() })
    }

    /// Devices as the options say.
    ///
    /// # Errors
    /// [`Error::Threads`], [`Error::Cuda`] for a GPU that there is not, and [`Error::CodeGeneration`] for one that LLVM does not
    /// know.
    pub fn with_options(options: ClientOptions) -> Result<Self, Error> {
        #[cfg(feature = "compiler")]
        if let (Platform::Cuda | Platform::CudaEmulator, Some(name)) = (options.platform, &options.gpu_processor) {
            Target::nvptx(name, "").check()?;
        }
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let pool = || ThreadPool::with_subnormals(threads, !options.flush_subnormals);
        let threads = if threads > 1 { Some(pool()?) } else { None };
        let gpu = match options.platform {
            Platform::Cuda => Some(Arc::new(cuda::Gpu::open(0)?)),
            Platform::Cpu | Platform::CudaEmulator => None,
        };
        let inner = ClientInner {
            threads,
            memory: BufferPool::new(),
            channels: Arc::default(),
            collective_time_limit: options.collective_time_limit.unwrap_or(DEFAULT_TIME_LIMIT),
            devices: options.devices.max(1),
            platform: options.platform,
            flush_subnormals: options.flush_subnormals,
            gpu,
            #[cfg(feature = "compiler")]
            contexts: ContextPool::default(),
            #[cfg(feature = "compiler")]
            target: Target::host(),
            #[cfg(feature = "compiler")]
            gpu_processor: options.gpu_processor,
            #[cfg(feature = "compiler")]
            cache: options.cache,
        };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// Threads that a program runs on.
    pub fn threads(&self) -> usize {
        self.inner.threads.as_ref().map_or(1, ThreadPool::threads)
    }

    /// What runs the programs.
    pub fn platform(&self) -> Platform {
        self.inner.platform
    }

    /// Devices that a program may be for.
    pub fn devices(&self) -> usize {
        self.inner.devices
    }

    /// Gives memory that no buffer, no literal and no compilation uses back to the system.
    pub fn release_unused_memory(&self) {
        #[cfg(feature = "compiler")]
        self.inner.contexts.clear();
        self.inner.memory.release_unused();
        hlo::literal_memory::release();
    }
}
