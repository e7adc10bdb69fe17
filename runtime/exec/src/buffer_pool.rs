//! Memory for programs' buffers: aligned, reused, and never handed back to the system between runs.
//!
//! Fresh pages cost three times as much as the kernel that fills them (a 64 MB copy takes 15 ms into pooled pages, 40 ms
//! into new ones), so a freed buffer waits in the pool for the next request of its size class. Blocks of 4 MB and more
//! start on 2 MB boundaries and ask for huge pages.

use crate::Error;
use std::{
    alloc::{self, Layout},
    collections::HashMap,
    fmt,
    ptr::NonNull,
    slice,
    sync::{Arc, Mutex, PoisonError},
};

/// Every buffer starts on a cache line, which is also the widest vector register.
pub const ALIGNMENT: usize = 64;
const HUGE_PAGE: usize = 2 << 20;
const HUGE_PAGE_THRESHOLD: usize = 4 << 20;

/// A pool of memory blocks. Clones share it.
#[derive(Clone, Default)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    free: Mutex<HashMap<usize, Vec<Block>>>,
}

/// A block of `capacity` bytes that nothing else refers to.
struct Block {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a block is plain memory with one owner.
unsafe impl Send for Block {}
// SAFETY: shared references only read the address.
unsafe impl Sync for Block {}

impl Block {
    fn new(capacity: usize) -> Option<Self> {
        let start = if capacity >= HUGE_PAGE_THRESHOLD {
            map_huge(capacity)
        } else {
            let layout = Layout::from_size_align(capacity, ALIGNMENT).ok();
            // SAFETY: size classes are never zero.
            layout.and_then(|layout| NonNull::new(unsafe { alloc::alloc_zeroed(layout) }))
        };
        Some(Self { start: start?, capacity })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.capacity >= HUGE_PAGE_THRESHOLD {
            // SAFETY: mapped by `map_huge` with this capacity.
            unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.capacity);
            }
        } else if let Ok(layout) = Layout::from_size_align(self.capacity, ALIGNMENT) {
            // SAFETY: allocated by `new` with the same layout.
            unsafe { alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// Maps `capacity` bytes (a multiple of the huge page) of zeros on a huge page's boundary; untouched, so that the first
/// touch can take a huge page.
fn map_huge(capacity: usize) -> Option<NonNull<u8>> {
    let mapped = capacity.checked_add(HUGE_PAGE)?;
    // SAFETY: a fresh anonymous mapping; the parts before and after the aligned block are unmapped, the block itself is
    // advised about (which may be refused, and then only costs speed).
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let first = libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0);
        if first == libc::MAP_FAILED {
            return None;
        }
        let before = (first as usize).next_multiple_of(HUGE_PAGE) - first as usize;
        let start = first.cast::<u8>().add(before);
        if before > 0 {
            libc::munmap(first, before);
        }
        if before < HUGE_PAGE {
            libc::munmap(start.add(capacity).cast(), HUGE_PAGE - before);
        }
        libc::madvise(start.cast(), capacity, libc::MADV_HUGEPAGE);
        NonNull::new(start)
    }
}

/// The capacity that serves a request: at most an eighth larger, so that blocks are reused for similar sizes.
fn size_class(bytes: usize) -> Result<usize, Error> {
    let failed = Error::OutOfMemory { bytes };
    if bytes > isize::MAX as usize / 2 {
        return Err(failed);
    }
    if bytes <= 8 * ALIGNMENT {
        return Ok(bytes.max(1).next_multiple_of(ALIGNMENT));
    }
    let step = (bytes.next_power_of_two() / 16).max(ALIGNMENT);
    let class = bytes.next_multiple_of(step);
    Ok(if class >= HUGE_PAGE_THRESHOLD { class.next_multiple_of(HUGE_PAGE) } else { class })
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of `bytes` bytes (possibly none), aligned to [`ALIGNMENT`]. Its contents are zeros or what an earlier
    /// buffer left there.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        let class = size_class(bytes)?;
        let reused = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&class).and_then(Vec::pop);
        let block = match reused {
            Some(block) => block,
            None => Block::new(class).ok_or(Error::OutOfMemory { bytes })?,
        };
        Ok(Buffer { block: Some(block), bytes, pool: self.shared.clone() })
    }

    /// Gives the memory of all unused blocks back to the system.
    pub fn release_unused(&self) {
        let blocks = std::mem::take(&mut *self.shared.free.lock().unwrap_or_else(PoisonError::into_inner));
        drop(blocks);
    }

    /// Bytes waiting in the pool.
    pub fn unused_bytes(&self) -> usize {
        let free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.iter().map(|(capacity, blocks)| capacity * blocks.len()).sum()
    }
}

/// Memory from a [`BufferPool`], returned to it when dropped.
pub struct Buffer {
    // Only absent while being dropped.
    block: Option<Block>,
    bytes: usize,
    pool: Arc<Shared>,
}

impl Buffer {
    /// The size that was asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address of the first byte; valid, though not to be read, for an empty buffer too.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.as_ref().map_or(ALIGNMENT as *mut u8, |block| block.start.as_ptr())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the block holds at least that many bytes, initialised since it was allocated, and is owned by `self`.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`.
        unsafe { slice::from_raw_parts_mut(self.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(block.capacity)
                .or_default()
                .push(block);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_an_eighth_and_stay_aligned() {
        for bytes in [0, 1, 63, 64, 65, 511, 513, 1000, 4097, 70_000, (4 << 20) - 1] {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes && class.is_multiple_of(ALIGNMENT));
            assert!(class <= bytes + (bytes / 8).max(ALIGNMENT), "{bytes} {class}");
        }
        assert_eq!(size_class((32 << 20) + 1).unwrap(), 36 << 20);
        assert!(size_class(usize::MAX).is_err());
    }

    #[test]
    fn buffers_are_aligned_and_reused() {
        let pool = BufferPool::new();
        for bytes in [0, 10, 100_000, 5 << 20] {
            let mut first = pool.allocate(bytes).unwrap();
            assert_eq!(first.len(), bytes);
            let alignment = if bytes >= HUGE_PAGE_THRESHOLD { HUGE_PAGE } else { ALIGNMENT };
            assert!((first.as_ptr() as usize).is_multiple_of(alignment));
            first.as_mut_slice().fill(7);
            let address = first.as_ptr();
            drop(first);
            assert_eq!(pool.allocate(bytes).unwrap().as_ptr(), address);
        }
        assert!(pool.unused_bytes() >= 5 << 20);
        pool.release_unused();
        assert_eq!(pool.unused_bytes(), 0);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let pool = BufferPool::new();
        assert!(matches!(pool.allocate(usize::MAX), Err(Error::OutOfMemory { .. })));
        assert!(matches!(pool.allocate(1 << 60), Err(Error::OutOfMemory { .. })));
    }
}
