//! Arrays in a device's memory that outlive a run: arguments that are used again, and results.
//!
//! What is given back is kept for the next array of its size: a program that makes and drops the same arrays in each run finds
//! them at the same addresses, and its graphs fit.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::BufferPool;

use crate::driver::{DevicePointer, Handle};
use crate::stream::Stream;
use crate::{Error, Gpu};

/// Arrays begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

/// Bytes that are kept of what nobody uses, at most.
const KEPT_BYTES: usize = 4 << 30;

/// Bytes of the ring that arrays go through.
const STAGED_BYTES: usize = 16 << 20;

/// Bytes that went between the host and a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// From the host.
    pub to_device: u64,
    /// To the host.
    pub to_host: u64,
}

/// Counts them.
#[derive(Debug, Default)]
pub struct TransferCounter {
    to_device: AtomicU64,
    to_host: AtomicU64,
}

impl TransferCounter {
    /// Counts bytes from the host.
    pub fn add_to_device(&self, bytes: usize) {
        self.to_device.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes to the host.
    pub fn add_to_host(&self, bytes: usize) {
        self.to_host.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn transferred(&self) -> Transferred {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Transferred { to_device: of(&self.to_device), to_host: of(&self.to_host) }
    }
}

/// The memory of a device that runs launch plans.
#[derive(Clone)]
pub enum DeviceMemory {
    /// Of a GPU.
    Gpu(Arc<GpuMemory>),
    /// Of one that the host plays.
    Emulated(Arc<EmulatedMemory>),
}

/// Memory of the host, with a count of what a GPU would transfer.
#[derive(Default)]
pub struct EmulatedMemory {
    pool: BufferPool,
    /// The count.
    pub transfers: TransferCounter,
}

impl DeviceMemory {
    /// That of a GPU.
    pub fn of_gpu(gpu: Gpu) -> Self {
        DeviceMemory::Gpu(Arc::new(GpuMemory::new(gpu)))
    }

    /// That of a GPU that the host plays.
    pub fn emulated() -> Self {
        DeviceMemory::Emulated(Arc::default())
    }

    /// The GPU, unless the host plays it.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            DeviceMemory::Gpu(memory) => Some(&memory.gpu),
            DeviceMemory::Emulated(_) => None,
        }
    }

    /// Whether programs on one use arrays of the other where they are.
    pub fn is_same(&self, other: &DeviceMemory) -> bool {
        match (self, other) {
            (DeviceMemory::Gpu(own), DeviceMemory::Gpu(other)) => own.gpu.number() == other.gpu.number(),
            (DeviceMemory::Emulated(_), DeviceMemory::Emulated(_)) => true,
            (DeviceMemory::Gpu(_), DeviceMemory::Emulated(_)) | (DeviceMemory::Emulated(_), DeviceMemory::Gpu(_)) => {
                false
            }
        }
    }

    /// Memory for an array of so many bytes.
    ///
    /// # Errors
    /// For memory that the device does not have.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceArray, Error> {
        let place = match self {
            DeviceMemory::Gpu(memory) => Place::Gpu(memory.take(bytes)?),
            DeviceMemory::Emulated(memory) => Place::Host(memory.pool.allocate(bytes)?),
        };
        Ok(DeviceArray { memory: self.clone(), place, bytes })
    }

    /// An array of these bytes.
    ///
    /// # Errors
    /// For memory that the device does not have, and copies that fail.
    pub fn upload(&self, bytes: &[u8]) -> Result<DeviceArray, Error> {
        let array = self.allocate(bytes.len())?;
        match self {
            DeviceMemory::Gpu(memory) => memory.with_stream(|stream| {
                // SAFETY: both are live, and the stream is waited for.
                unsafe { stream.upload(bytes.as_ptr() as u64, array.address(), bytes.len())? };
                stream.wait()
            })?,
            DeviceMemory::Emulated(memory) => {
                memory.transfers.add_to_device(bytes.len());
                // SAFETY: the memory is new, and as large.
                unsafe { (array.address() as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
        Ok(array)
    }

    /// What went to the device and came from there so far.
    pub fn transferred(&self) -> Transferred {
        match self {
            DeviceMemory::Gpu(memory) => memory.gpu.transfers.transferred(),
            DeviceMemory::Emulated(memory) => memory.transfers.transferred(),
        }
    }

    /// Gives back what no array uses.
    pub fn release_unused(&self) {
        match self {
            DeviceMemory::Gpu(memory) => memory.release_unused(),
            DeviceMemory::Emulated(memory) => memory.pool.release_unused(),
        }
    }
}

/// An array in a device's memory.
pub struct DeviceArray {
    memory: DeviceMemory,
    place: Place,
    bytes: usize,
}

enum Place {
    Gpu(DevicePointer),
    Host(exec::Buffer),
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        if let (DeviceMemory::Gpu(memory), Place::Gpu(address)) = (&self.memory, &self.place) {
            memory.give_back(*address, self.bytes);
        }
    }
}

impl DeviceArray {
    /// Whose memory it is.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        match &self.place {
            Place::Gpu(address) => *address,
            Place::Host(memory) => memory.as_ptr() as u64,
        }
    }

    /// Copies the array to the host, as far as there is room.
    ///
    /// # Errors
    /// For a copy that fails.
    pub fn download(&self, to: &mut [u8]) -> Result<(), Error> {
        let bytes = self.bytes.min(to.len());
        match &self.memory {
            DeviceMemory::Gpu(memory) => memory.with_stream(|stream| {
                // SAFETY: both are live, and the stream is waited for.
                unsafe { stream.download(self.address(), to.as_mut_ptr() as u64, bytes)? };
                stream.wait()
            }),
            DeviceMemory::Emulated(memory) => {
                memory.transfers.add_to_host(bytes);
                // SAFETY: the array is live, and as large.
                unsafe { to.as_mut_ptr().copy_from_nonoverlapping(self.address() as *const u8, bytes) };
                Ok(())
            }
        }
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceArray({:#x}, {} bytes)", self.address(), self.bytes)
    }
}

/// A GPU with what its arrays need.
pub struct GpuMemory {
    pub(crate) gpu: Arc<Gpu>,
    /// What copies arrays, once one was copied.
    stream: Mutex<Option<Stream>>,
    unused: Mutex<Unused>,
}

/// Memory that no array uses, by its size. The first of a size is taken first: so a loop that drops its results finds the same
/// places each time, in whatever order they were dropped, and with them its graphs.
#[derive(Default)]
struct Unused {
    places: HashMap<usize, BTreeSet<DevicePointer>>,
    bytes: usize,
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        let _ = self.gpu.enter();
        self.release_unused();
    }
}

/// Bytes that an array takes, so that the next one may begin behind it.
pub(crate) fn rounded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGNMENT)
}

impl GpuMemory {
    pub(crate) fn new(gpu: Gpu) -> Self {
        GpuMemory { gpu: Arc::new(gpu), stream: Mutex::default(), unused: Mutex::default() }
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_stream<T>(&self, use_it: impl FnOnce(&mut Stream) -> Result<T, Error>) -> Result<T, Error> {
        self.gpu.enter()?;
        let mut kept = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => Stream::new(&self.gpu, STAGED_BYTES)?,
        };
        // One that failed is not kept.
        let used = use_it(&mut stream)?;
        *kept = Some(stream);
        Ok(used)
    }

    /// Memory for an array.
    fn take(&self, bytes: usize) -> Result<DevicePointer, Error> {
        let bytes = rounded(bytes);
        let mut unused = self.unused();
        if let Some(address) = unused.places.get_mut(&bytes).and_then(BTreeSet::pop_first) {
            unused.bytes -= bytes;
            return Ok(address);
        }
        drop(unused);
        // Other streams may use it once this one is there.
        self.with_stream(|stream| {
            let address = self.allocate(bytes, stream.handle)?;
            stream.wait().map(|()| address)
        })
    }

    /// Keeps memory of an array that nobody uses any more: runs that did have ended.
    fn give_back(&self, address: DevicePointer, bytes: usize) {
        let bytes = rounded(bytes);
        let mut unused = self.unused();
        if unused.bytes + bytes <= KEPT_BYTES {
            unused.places.entry(bytes).or_default().insert(address);
            unused.bytes += bytes;
            return;
        }
        drop(unused);
        self.free(&[address]);
    }

    fn free(&self, addresses: &[DevicePointer]) {
        // Where the context is gone, so is its memory.
        let _ = self.with_stream(|stream| {
            // SAFETY: whoever used them has ended.
            addresses.iter().for_each(|&address| unsafe { self.gpu.free(address, stream.handle) });
            stream.wait()
        });
    }

    fn take_unused(&self) -> Vec<DevicePointer> {
        std::mem::take(&mut *self.unused()).places.into_values().flatten().collect()
    }

    fn release_unused(&self) {
        let addresses = self.take_unused();
        if !addresses.is_empty() {
            self.free(&addresses);
        }
    }

    /// Memory in the order of a stream, for which arrays that nobody uses make room.
    pub(crate) fn allocate(&self, bytes: usize, stream: Handle) -> Result<DevicePointer, Error> {
        match self.gpu.allocate(bytes, stream) {
            Err(Error::OutOfMemory { .. }) if self.unused().bytes > 0 => {
                // SAFETY: whoever used them has ended.
                self.take_unused().into_iter().for_each(|address| unsafe { self.gpu.free(address, stream) });
                self.gpu.allocate(bytes, stream)
            }
            allocated => allocated,
        }
    }
}
