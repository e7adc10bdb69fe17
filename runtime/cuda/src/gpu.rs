//! GPUs of this machine, and their memory.

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use crate::Error;
use crate::conditions::Conditions;
use crate::cubins::{CubinCache, KernelCode};
use crate::device_memory::TransferCounter;
use crate::driver::{DevicePointer, Driver, Handle, PoolFunctions, SUCCESS};

/// The driver's numbers of options for loading code: a buffer for errors, and its size.
const ERROR_LOG: [i32; 2] = [5, 6];
const ERROR_LOG_BYTES: usize = 8192;

/// The driver's numbers of what a device can be asked for: the parts of its compute capability.
const COMPUTE_CAPABILITY: [c_int; 2] = [75, 76];

/// The driver's number of what says whether it has memory in the order of streams.
const HAS_POOLS: c_int = 115;

/// The driver's number of how much a pool may keep of what nobody uses.
const RELEASE_THRESHOLD: c_int = 4;

/// How much it keeps when a stream is waited for.
const KEPT_BYTES: u64 = 1 << 30;

/// A GPU of this machine.
pub struct Gpu {
    pub(crate) driver: &'static Driver,
    number: u32,
    device: c_int,
    pub(crate) context: Handle,
    capability: (u32, u32),
    /// Memory in the order of streams, where driver and device have it.
    pool: Option<&'static PoolFunctions>,
    /// What sets the conditions of graphs, once a program needs it: none where that cannot be.
    pub(crate) conditions: OnceLock<Option<Conditions>>,
    pub(crate) transfers: TransferCounter,
    cubins: Option<CubinCache>,
}

// SAFETY: the context is the driver's, which is made for any number of threads.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Drop for Gpu {
    fn drop(&mut self) {
        if let Some(Some(conditions)) = self.conditions.take() {
            conditions.unload(self);
        }
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
        let capability = (capability[0] as u32, capability[1] as u32);
        let pool = driver.pools.as_ref().filter(|pools| prepare_pool(driver, pools, device));
        let (conditions, transfers) = (OnceLock::new(), TransferCounter::default());
        Ok(Gpu { driver, number, device, context, capability, pool, conditions, transfers, cubins: None })
    }

    /// With a folder for the machine code that the driver makes of PTX, so that it is made once for each GPU and driver.
    pub fn with_cubin_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cubins = Some(CubinCache::new(folder.into()));
        self
    }

    /// Its number among those of the machine, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its compute capability, as in 9.0.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.capability
    }

    /// What the driver says of the device, by its number of that.
    pub(crate) fn attribute(&self, attribute: c_int) -> Result<c_int, Error> {
        let mut value = 0;
        // SAFETY: the value is written to a live variable.
        let code = unsafe { (self.driver.device_attribute)(&raw mut value, attribute, self.device) };
        self.driver.check("cuDeviceGetAttribute", code).map(|()| value)
    }

    /// The version of CUDA that its driver is of, as in 12.4; 0.0 where that does not say.
    pub fn driver_version(&self) -> (u32, u32) {
        let mut version = 0;
        // SAFETY: the version is written to a live variable.
        let known = unsafe { (self.driver.version)(&raw mut version) } == SUCCESS;
        let number = if known { version as u32 } else { 0 };
        (number / 1000, number % 1000 / 10)
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

    /// Memory that what a stream does from now on may use; where the device has no pool, anything may.
    pub(crate) fn allocate(&self, bytes: usize, stream: Handle) -> Result<DevicePointer, Error> {
        let mut address = 0;
        // SAFETY: the address is written to a live variable.
        let (name, code) = unsafe {
            match self.pool {
                Some(pool) => ("cuMemAllocAsync", (pool.allocate)(&raw mut address, bytes.max(1), stream)),
                None => ("cuMemAlloc", (self.driver.allocate)(&raw mut address, bytes.max(1))),
            }
        };
        self.driver.check(name, code).map(|()| address).map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory { bytes },
            other => other,
        })
    }

    /// Gives memory back, which a pool may give to others once the stream is there.
    ///
    /// # Safety
    /// The memory must be of [`Self::allocate`], and nothing but the stream may use it any more.
    pub(crate) unsafe fn free(&self, address: DevicePointer, stream: Handle) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.pool {
                Some(pool) => (pool.free)(address, stream),
                None => (self.driver.free)(address),
            }
        };
    }

    /// The kernels of a program: by machine code that is there, or by PTX, which the driver compiles.
    ///
    /// # Errors
    /// As for [`Self::load_module`].
    pub(crate) fn load_kernels(&self, code: &KernelCode<'_>) -> Result<Handle, Error> {
        if let Some(Ok(module)) = code.cubin_for(self.capability).map(|cubin| self.load_module(cubin)) {
            return Ok(module);
        }
        if let Some(Ok(module)) = self.cubins.as_ref().map(|cubins| cubins.load(code.ptx, self)) {
            return Ok(module);
        }
        let text = CString::new(code.ptx).map_err(|_| Error::Plan("the kernels' code has a zero byte".into()))?;
        self.load_module(text.as_bytes_with_nul())
    }

    /// Machine code, or PTX that ends with a zero byte, which the driver compiles for the device.
    ///
    /// # Errors
    /// For what the driver refuses, with what it says about it.
    pub(crate) fn load_module(&self, code: &[u8]) -> Result<Handle, Error> {
        let mut log = vec![0u8; ERROR_LOG_BYTES];
        let mut module = ptr::null_mut();
        let values = [log.as_mut_ptr().cast::<c_void>(), ERROR_LOG_BYTES as *mut c_void];
        // SAFETY: code and buffers live through the call; the options have as many values, of the kinds that they take.
        let code = unsafe {
            (self.driver.load_module)(&raw mut module, code.as_ptr().cast(), 2, ERROR_LOG.as_ptr(), values.as_ptr())
        };
        self.driver.check("cuModuleLoadDataEx", code).map_err(|error| {
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches('\0').trim();
            if log.is_empty() { error } else { Error::Refused { reason: error.to_string(), log: log.to_string() } }
        })?;
        Ok(module)
    }

    /// A kernel of such code.
    pub(crate) fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle, Error> {
        let mut kernel = ptr::null_mut();
        // SAFETY: the name is a live text, the handle is written to a live variable.
        let code = unsafe { (self.driver.function)(&raw mut kernel, module, name.as_ptr()) };
        self.driver.check("cuModuleGetFunction", code).map(|()| kernel)
    }
}

/// Whether a device has memory in the order of streams, of which some is kept for later.
fn prepare_pool(driver: &Driver, pools: &PoolFunctions, device: c_int) -> bool {
    let (mut is_there, mut pool, mut kept) = (0, ptr::null_mut(), KEPT_BYTES);
    // SAFETY: results are written to live variables; the attribute is a number of eight bytes.
    unsafe {
        (driver.device_attribute)(&raw mut is_there, HAS_POOLS, device) == SUCCESS
            && is_there != 0
            && (pools.default_pool)(&raw mut pool, device) == SUCCESS
            && (pools.set_attribute)(pool, RELEASE_THRESHOLD, (&raw mut kept).cast()) == SUCCESS
    }
}

/// Why kernels in a text of PTX cannot run on a GPU of this compute capability. Code for a processor runs on newer ones; if
/// it says `a`, on no other.
fn obstacle(ptx: &str, (major, minor): (u32, u32)) -> Option<String> {
    let processor = ptx.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    let processor = processor.split(',').next()?.trim();
    let (needed, is_exact) = number_of(processor)?;
    let own = major * 10 + minor;
    let runs = if is_exact { needed == own } else { needed <= own };
    let or_newer = if is_exact { "" } else { " and newer ones" };
    (!runs).then(|| format!("its kernels are for {processor} GPUs{or_newer}, this one is sm_{own}"))
}

/// The number in the name of a processor, as in `sm_90a`, and whether a letter behind it keeps its code from any other.
pub(crate) fn number_of(processor: &str) -> Option<(u32, bool)> {
    let number = processor.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    Some((digits.parse().ok()?, digits.len() < number.len()))
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
