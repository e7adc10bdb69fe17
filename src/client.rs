//! The devices that programs are compiled for and run on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cuda::{DeviceMemory, Transferred};
use exec::runtime::devices::DEFAULT_TIME_LIMIT;
use exec::runtime::feeds::Channels;
use exec::{BufferPool, ThreadPool};
use hlo::shape::ArrayShape;
#[cfg(feature = "compiler")]
use lowering_llvm::Target;

use crate::argument::{Arguments, Leaf};
use crate::buffer::Buffer;
#[cfg(feature = "compiler")]
use crate::cache::CompilationCache;
#[cfg(feature = "compiler")]
use crate::contexts::ContextPool;
use crate::error::Error;
use crate::prepacked::Room;

/// What runs a client's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// The host's processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU of the machine.
    Cuda,
    /// An NVIDIA GPU played by the host's processor: for tests, as each access of each thread is checked.
    CudaEmulator,
}

/// How a client's devices work.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// What runs the programs.
    pub platform: Platform,
    /// Which of the machine's GPUs it is, from 0, as the driver numbers them; the other platforms ignore it.
    pub gpu_number: u32,
    /// Threads that a program runs on; 0 for the number of hardware threads.
    pub threads: usize,
    /// Where compiled programs are kept on disk; nowhere by default.
    #[cfg(feature = "compiler")]
    pub cache: Option<CompilationCache>,
    /// LLVM's name of the GPU that kernels are for, such as `sm_90a`, whose matrix instructions no other GPU has: by default the
    /// newest one that the platform's GPU and its driver know. The CPU ignores it.
    #[cfg(feature = "compiler")]
    pub gpu_processor: Option<String>,
    /// A folder for the machine code that a GPU's driver makes of kernels, so that it makes it once for each GPU and driver;
    /// it has up to 1 GB, and any number of processes share it. The driver has a cache of its own, which may be turned off.
    pub cubin_cache: Option<PathBuf>,
    /// Whether programs on the host's processor (x86-64) take numbers too small to be normal (below 1.2e-38 of an `f32`) for
    /// zero, as XLA's do. Where many results are as small, such as `exp(-x * x)` far from 0, code is up to several times as
    /// fast. By default they are kept.
    pub flush_subnormals: bool,
    /// Bytes that the client's programs may use to keep arguments of products as these read them, in panels: of an argument on the
    /// host that comes as the same [`Buffer`] again, such as a model's weights, they are made once and not in each call. Up to
    /// 1 GB by default; 0 for none.
    pub prepacked_bytes: Option<usize>,
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
    /// For packed arguments.
    pub(crate) room: Arc<Room>,
    /// What programs send each other, and themselves.
    pub(crate) channels: Arc<Channels>,
    pub(crate) collective_time_limit: Duration,
    devices: usize,
    platform: Platform,
    pub(crate) flush_subnormals: bool,
    /// The memory of a GPU; none where programs run in the host's.
    pub(crate) device: Option<DeviceMemory>,
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

    /// The machine's NVIDIA GPU of this number, from 0.
    ///
    /// # Errors
    /// [`Error::Cuda`] where there is no driver or no such GPU.
    pub fn cuda(gpu_number: u32) -> Result<Self, Error> {
        Self::with_options(ClientOptions { platform: Platform::Cuda, gpu_number, ..ClientOptions::default() })
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
        let device = match options.platform {
            Platform::Cpu => None,
            Platform::Cuda => {
                let gpu = cuda::Gpu::open(options.gpu_number)?;
                Some(DeviceMemory::of_gpu(match &options.cubin_cache {
                    Some(folder) => gpu.with_cubin_cache(folder),
                    None => gpu,
                }))
            }
            Platform::CudaEmulator => Some(DeviceMemory::emulated()),
        };
        let inner = ClientInner {
            threads,
            memory: BufferPool::new(),
            room: Room::new(options.prepacked_bytes),
            channels: Arc::default(),
            collective_time_limit: options.collective_time_limit.unwrap_or(DEFAULT_TIME_LIMIT),
            devices: options.devices.max(1),
            platform: options.platform,
            flush_subnormals: options.flush_subnormals,
            device,
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

    /// The arrays of arguments in the memory of the client's devices, tuples flattened and tokens left out: programs take them
    /// from there any number of times. Buffers that are there are only cloned.
    ///
    /// ```no_run
    /// # use halo::{Client, CompileOptions};
    /// let client = Client::cuda(0)?;
    /// # let step = client.compile("", &CompileOptions::default())?;
    /// let weights = client.to_device(([1f32, 2.0, 3.0].as_slice(),))?;
    /// let results = step.execute_buffers(&weights)?; // nothing is copied
    /// println!("{:?}", results[0].as_slice::<f32>()); // to the host, now
    /// # Ok::<(), halo::Error>(())
    /// ```
    ///
    /// # Errors
    /// When memory runs out, for copies that fail, and for arguments that are no arrays in memory.
    pub fn to_device(&self, arguments: impl Arguments) -> Result<Vec<Buffer>, Error> {
        let mut buffers = Vec::new();
        let mut number = 0;
        arguments.for_each(&mut |leaf| {
            let buffer = match leaf {
                Leaf::Array(array) => {
                    let shape = array.shape();
                    // SAFETY: the array is readable by contract, and as large as it says.
                    let bytes = unsafe { std::slice::from_raw_parts(array.address, shape.byte_size()) };
                    Some(self.buffer_of(Arc::new(shape), bytes))
                }
                Leaf::Buffer(buffer) => Some(buffer.to_device(self)),
                Leaf::Donated(donated) => Some(donated.buffer().to_device(self)),
                Leaf::Token => None,
                Leaf::Unusable(reason) => Some(Err(Error::Argument { argument: number.to_string(), reason })),
            };
            buffers.extend(buffer);
            number += 1;
        });
        buffers.into_iter().collect()
    }

    /// A buffer whose bytes nobody has written, with its address, of the host or of the client's GPU.
    pub(crate) fn new_buffer(&self, shape: Arc<ArrayShape>) -> Result<(Buffer, *mut u8), Error> {
        let size = shape.byte_size();
        Ok(match &self.inner.device {
            Some(device) => {
                let memory = device.allocate(size)?;
                let address = memory.address() as *mut u8;
                (Buffer::on_device(shape, memory), address)
            }
            None => {
                let memory = self.inner.memory.allocate(size)?;
                let address = memory.as_ptr();
                (Buffer::pooled(shape, memory), address)
            }
        })
    }

    /// A buffer of the shape's bytes.
    pub(crate) fn buffer_of(&self, shape: Arc<ArrayShape>, bytes: &[u8]) -> Result<Buffer, Error> {
        match &self.inner.device {
            Some(device) => Ok(Buffer::on_device(shape, device.upload(bytes)?)),
            None => {
                let mut memory = self.inner.memory.allocate(bytes.len())?;
                memory.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
                Ok(Buffer::pooled(shape, memory))
            }
        }
    }

    /// Bytes that went to the client's GPU so far, and came from there: none where programs run in the host's memory.
    pub fn transferred(&self) -> Transferred {
        self.inner.device.as_ref().map(DeviceMemory::transferred).unwrap_or_default()
    }

    /// Gives memory that no buffer, no literal and no compilation uses back to the system.
    pub fn release_unused_memory(&self) {
        #[cfg(feature = "compiler")]
        self.inner.contexts.clear();
        self.inner.memory.release_unused();
        self.inner.device.iter().for_each(DeviceMemory::release_unused);
        hlo::literal_memory::release();
    }
}
