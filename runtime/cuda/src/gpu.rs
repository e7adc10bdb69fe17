//! GPUs of this machine, and their memory.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::Error;
use crate::driver::{DevicePointer, Driver, Handle};

/// The driver's numbers of what a device can be asked for: the parts of its compute capability.
const COMPUTE_CAPABILITY: [c_int; 2] = [75, 76];

/// A GPU of this machine.
pub struct Gpu {
    pub(crate) driver: &'static Driver,
    device: c_int,
    context: Handle,
    capability: (u32, u32),
}

// SAFETY: the context is the driver's, which is made for any number of threads.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the context was retained once.
        unsafe { (self.driver.release_context)(self.device) };
    }
}

impl Gpu {
    /// The GPU of this number.
    ///
    /// # Errors
    /// [`Error::NoDriver`] and [`Error::NoDevice`], and what the driver says.
    pub fn open(number: u32) -> Result<Self, Error> {
        Self::of(Driver::get()?, number)
    }

    pub(crate) fn of(driver: &'static Driver, number: u32) -> Result<Self, Error> {
        let (mut count, mut device, mut context) = (0, 0, ptr::null_mut());
        let mut capability = [0; 2];
        // SAFETY: as the driver's header says: results are written to live variables.
        unsafe {
            driver.check("cuDeviceGetCount", (driver.device_count)(&raw mut count))?;
            let wanted = c_int::try_from(number).ok().filter(|&wanted| wanted < count);
            let wanted = wanted.ok_or(Error::NoDevice { number, count: count as u32 })?;
            driver.check("cuDeviceGet", (driver.device)(&raw mut device, wanted))?;
            for (value, attribute) in capability.iter_mut().zip(COMPUTE_CAPABILITY) {
                driver.check("cuDeviceGetAttribute", (driver.device_attribute)(value, attribute, device))?;
            }
            driver.check("cuDevicePrimaryCtxRetain", (driver.retain_context)(&raw mut context, device))?;
        }
        Ok(Gpu { driver, device, context, capability: (capability[0] as u32, capability[1] as u32) })
    }

    /// Its compute capability, as in 9.0.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Why kernels in this PTX cannot run on it: `None` if they can.
    pub fn obstacle(&self, ptx: &[u8]) -> Option<String> {
        obstacle(&String::from_utf8_lossy(ptx), self.capability)
    }

    /// Makes the device the calling thread's.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context is retained as long as the value lives.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.set_context)(self.context) })
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePointer, Error> {
        let mut address = 0;
        // SAFETY: the address is written to a live variable.
        let code = unsafe { (self.driver.allocate)(&raw mut address, bytes.max(1)) };
        self.driver.check("cuMemAlloc", code).map(|()| address).map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory { bytes },
            other => other,
        })
    }

    /// # Safety
    /// The memory must be of [`Self::allocate`], and nothing may use it any more.
    pub(crate) unsafe fn free(&self, address: DevicePointer) {
        // SAFETY: the caller's promise.
        unsafe { (self.driver.free)(address) };
    }

    /// Copies bytes of the host to the device, and waits for it.
    ///
    /// # Safety
    /// `to` must be live memory of the device, of as many bytes.
    pub(crate) unsafe fn upload(&self, bytes: &[u8], to: DevicePointer) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise; the default stream is waited for.
        unsafe {
            let from = bytes.as_ptr().cast::<c_void>();
            self.driver
                .check("cuMemcpyHtoDAsync", (self.driver.copy_to_device)(to, from, bytes.len(), ptr::null_mut()))?;
            self.driver.check("cuStreamSynchronize", (self.driver.synchronize)(ptr::null_mut()))
        }
    }
}

/// Why kernels in a text of PTX cannot run on a GPU of this compute capability. Code for a processor runs on newer ones; if
/// it says `a`, on no other.
fn obstacle(ptx: &str, (major, minor): (u32, u32)) -> Option<String> {
    let processor = ptx.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    let processor = processor.split(',').next()?.trim();
    let number = processor.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (needed, own) = (digits.parse::<u32>().ok()?, major * 10 + minor);
    let is_exact = digits.len() < number.len();
    let runs = if is_exact { needed == own } else { needed <= own };
    let or_newer = if is_exact { "" } else { " and newer ones" };
    (!runs).then(|| format!("its kernels are for {processor} GPUs{or_newer}, this one is sm_{own}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_newer_gpus() {
        let ptx = |processor: &str| format!("//\n.version 8.0\n.target {processor}\n.address_size 64\n");
        assert_eq!(obstacle(&ptx("sm_80"), (8, 0)), None);
        assert_eq!(obstacle(&ptx("sm_80"), (9, 0)), None);
        assert_eq!(obstacle(&ptx("sm_90a"), (9, 0)), None);
        assert_eq!(obstacle(&ptx("sm_100, texmode_independent"), (12, 0)), None);
        let newer = obstacle(&ptx("sm_90"), (8, 6)).unwrap();
        assert_eq!(newer, "its kernels are for sm_90 GPUs and newer ones, this one is sm_86");
        let other = obstacle(&ptx("sm_90a"), (10, 0)).unwrap();
        assert_eq!(other, "its kernels are for sm_90a GPUs, this one is sm_100");
        assert_eq!(obstacle("", (8, 0)), None, "the driver decides");
    }
}
