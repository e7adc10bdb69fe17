//! Memory of the host that a device copies from and to by itself: what is on its way between other memory and the device.
//!
//! It is a ring of parts, each with an event behind the copies that use it. What is copied to the device is taken from the
//! caller at once; what comes from there is handed over when the stream was waited for, or when its part's turn comes again.

use std::ffi::c_uint;
use std::ptr;
use std::slice;

use crate::Error;
use crate::driver::{DevicePointer, Driver, Handle};

/// Parts of the ring: while one is filled, others are on their way.
const PARTS: usize = 4;

/// Bytes of a part, at least and at most.
const PART_BYTES: [usize; 2] = [4 << 10, 4 << 20];

/// The driver's number for events that do not say when they were.
const WITHOUT_TIME: c_uint = 2;

/// Pieces begin at multiples of so many bytes.
const ALIGNMENT: usize = 16;

/// A ring.
pub(crate) struct Staging {
    driver: &'static Driver,
    memory: *mut u8,
    part_bytes: usize,
    parts: [Part; PARTS],
    /// The part that is being filled, and the bytes of it that are in use.
    current: usize,
    used: usize,
}

// SAFETY: memory and events are the ring's own, and the driver is made for any number of threads.
unsafe impl Send for Staging {}

struct Part {
    /// Behind the copies of the part.
    event: Handle,
    is_in_use: bool,
    arriving: Vec<Arrival>,
}

/// Bytes of the ring that belong elsewhere as soon as they have come.
struct Arrival {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: all are this value's own; whoever drops it has waited for the stream.
        unsafe {
            for Part { event, .. } in self.parts.iter().filter(|part| !part.event.is_null()) {
                (self.driver.destroy_event)(*event);
            }
            (self.driver.free_pinned)(self.memory.cast());
        }
    }
}

impl Staging {
    /// A ring for transfers of so many bytes in all: none where the host has no such memory left.
    pub fn new(driver: &'static Driver, bytes: usize) -> Option<Self> {
        let part_bytes = bytes.div_ceil(PARTS).clamp(PART_BYTES[0], PART_BYTES[1]).next_multiple_of(ALIGNMENT);
        let (mut memory, no_flags): (_, c_uint) = (ptr::null_mut(), 0);
        // SAFETY: the address is written to a live variable.
        let code = unsafe { (driver.allocate_pinned)(&raw mut memory, part_bytes * PARTS, no_flags) };
        driver.check("cuMemHostAlloc", code).ok()?;
        let parts = [(); PARTS].map(|()| Part { event: ptr::null_mut(), is_in_use: false, arriving: Vec::new() });
        let mut staging = Staging { driver, memory: memory.cast(), part_bytes, parts, current: 0, used: 0 };
        for part in &mut staging.parts {
            // SAFETY: as above.
            let code = unsafe { (driver.create_event)(&raw mut part.event, WITHOUT_TIME) };
            driver.check("cuEventCreate", code).ok()?;
        }
        Some(staging)
    }

    /// Copies bytes of the host to the device, behind what the stream does. They are not needed any more.
    ///
    /// # Safety
    /// `to` must be live memory of as many bytes until the stream is there.
    pub unsafe fn upload(&mut self, bytes: &[u8], to: DevicePointer, stream: Handle) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            let (place, count) = self.take(bytes.len() - done, stream)?;
            // SAFETY: the place is of the ring, and nothing is on its way there; the rest is the caller's promise.
            unsafe {
                place.copy_from_nonoverlapping(bytes[done..].as_ptr(), count);
                let code = (self.driver.copy_to_device)(to + done as u64, place.cast(), count, stream);
                self.driver.check("cuMemcpyHtoDAsync", code)?;
            }
            done += count;
        }
        Ok(())
    }

    /// Copies bytes of the device to the host, where they are after [`Self::finish`].
    ///
    /// # Safety
    /// Both must be live memory of as many bytes until then.
    pub unsafe fn download(
        &mut self,
        from: DevicePointer,
        to: *mut u8,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes {
            let (place, count) = self.take(bytes - done, stream)?;
            // SAFETY: the place is of the ring, and nothing is on its way from there; the rest is the caller's promise.
            let to = unsafe {
                let code = (self.driver.copy_to_host)(place.cast(), from + done as u64, count, stream);
                self.driver.check("cuMemcpyDtoHAsync", code)?;
                to.add(done)
            };
            self.parts[self.current].arriving.push(Arrival { from: place, to, bytes: count });
            done += count;
        }
        Ok(())
    }

    /// Hands over what has come, once the stream was waited for: all that was on its way.
    pub fn finish(&mut self) {
        // Where the same bytes came twice, the later ones count.
        for later in 1..=PARTS {
            self.hand_over((self.current + later) % PARTS);
        }
        (self.current, self.used) = (0, 0);
    }

    /// Forgets what was on its way, after a failure for which the stream was waited.
    pub fn forget(&mut self) {
        self.parts.iter_mut().for_each(|part| {
            part.arriving.clear();
            part.is_in_use = false;
        });
        (self.current, self.used) = (0, 0);
    }

    /// The next place of the ring, of at most so many bytes, and its size.
    fn take(&mut self, bytes: usize, stream: Handle) -> Result<(*mut u8, usize), Error> {
        if self.used == self.part_bytes {
            // SAFETY: stream and event live.
            let code = unsafe { (self.driver.record_event)(self.parts[self.current].event, stream) };
            self.driver.check("cuEventRecord", code)?;
            self.parts[self.current].is_in_use = true;
            self.current = (self.current + 1) % PARTS;
            self.used = 0;
            let next = &self.parts[self.current];
            if next.is_in_use {
                // SAFETY: the event lives.
                let code = unsafe { (self.driver.wait_for_event)(next.event) };
                self.driver.check("cuEventSynchronize", code)?;
                self.hand_over(self.current);
            }
        }
        let count = bytes.min(self.part_bytes - self.used);
        // SAFETY: the offset is within the ring.
        let place = unsafe { self.memory.add(self.current * self.part_bytes + self.used) };
        self.used = (self.used + count).next_multiple_of(ALIGNMENT).min(self.part_bytes);
        Ok((place, count))
    }

    fn hand_over(&mut self, part: usize) {
        let part = &mut self.parts[part];
        part.is_in_use = false;
        for Arrival { from, to, bytes } in part.arriving.drain(..) {
            // SAFETY: `download`'s caller answers for the memory, into which nothing else is copied; the ring is another's.
            unsafe { slice::from_raw_parts_mut(to, bytes).copy_from_slice(slice::from_raw_parts(from, bytes)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Gpu;
    use crate::fake_driver::{self, Lacks};
    use crate::stream::Stream;

    /// Takes as many bytes to a device as 16 KiB of its ring hold several times, and back.
    fn round_trip(lacks: Lacks) -> usize {
        let (driver, _user) = fake_driver::fresh_without(lacks);
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let sizes = [1, 17, 4096, 40_000, 0, 100_001, 3];
        let arrays: Vec<Vec<u8>> =
            sizes.iter().map(|&size| (0..size).map(|place| (place % 251) as u8).collect()).collect();
        let mut back: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size]).collect();
        let mut stream = Stream::new(&gpu, 1).unwrap();
        // SAFETY: all memory lives until the stream was waited for.
        unsafe {
            let places: Vec<u64> = sizes.iter().map(|&size| gpu.allocate(size, stream.handle).unwrap()).collect();
            for (array, &place) in arrays.iter().zip(&places) {
                stream.upload(array.as_ptr() as u64, place, array.len()).unwrap();
            }
            for (array, &place) in back.iter_mut().zip(&places) {
                stream.download(place, array.as_mut_ptr() as u64, array.len()).unwrap();
            }
            stream.wait().unwrap();
            places.into_iter().for_each(|place| gpu.free(place, stream.handle));
        }
        assert_eq!(arrays, back);
        // The stream is the last to hold the context, in which all is given back.
        drop(gpu);
        drop(stream);
        let (counts, left) = fake_driver::counts();
        assert_eq!((left, counts.late), (0, 0), "nothing is left");
        counts.waits
    }

    #[test]
    fn parts_take_turns() {
        assert!(round_trip(Lacks::default()) > 8);
        assert_eq!(round_trip(Lacks { pinned_memory: true, ..Lacks::default() }), 0);
    }
}
