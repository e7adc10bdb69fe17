//! What a GPU can do at best: how fast its driver copies, how often it multiplies and adds in a second, and how fast NVIDIA's own
//! library multiplies matrices, where a machine has that. Rates of programs are parts of these.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;

use libloading::Library;

use crate::device_memory::GpuMemory;
use crate::driver::DevicePointer;
use crate::stream::Stream;
use crate::{Error, Gpu};

/// Bytes of an array that is copied; half of it where a GPU has less memory, and so on.
const COPIED_BYTES: usize = 512 << 20;

/// Times that something is done, of which the fastest counts.
const ROUNDS: usize = 10;

/// The driver's numbers of what a device can be asked for: its clock in kHz, and its multiprocessors.
const CLOCK_RATE: c_int = 13;
const MULTIPROCESSORS: c_int = 16;

/// One of the things that a GPU can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// What it is, in one word.
    pub name: String,
    /// How much of it in a second: bytes that are read or written, or operations, multiplications and additions counted apart.
    pub rate: f64,
}

impl fmt::Display for Ceiling {
    /// The name, and the rate in thousand millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.1}", self.name, self.rate / 1e9)
    }
}

/// Measures what a GPU can do, and asks the driver for the rest. What cannot be found out is left out.
///
/// # Errors
/// Where nothing can be copied.
pub fn measure(gpu: Gpu) -> Result<Vec<Ceiling>, Error> {
    let memory = GpuMemory::new(gpu);
    memory.gpu.enter()?;
    let mut stream = Stream::new(&memory.gpu, 0)?;
    let mut ceilings = vec![Ceiling { name: "copy".into(), rate: copy_rate(&memory, &mut stream)? }];
    let peak = multiply_add_rate(&memory.gpu);
    ceilings.extend(peak.map(|rate| Ceiling { name: "fma_f32".into(), rate }));
    if let Some(vendor) = Vendor::load(&stream) {
        for (product, size) in PRODUCTS.iter().flat_map(|product| [(product, 4096), (product, 8192)]) {
            let name = format!("vendor_{}_{size}", product.name);
            let rate = vendor.rate(product, size, &memory, &mut stream);
            ceilings.extend(rate.ok().flatten().map(|rate| Ceiling { name, rate }));
        }
    }
    Ok(ceilings)
}

/// Memory that is freed whatever happens.
struct Arrays<'m> {
    memory: &'m GpuMemory,
    stream: *mut c_void,
    addresses: Vec<DevicePointer>,
}

impl<'m> Arrays<'m> {
    fn new(memory: &'m GpuMemory, stream: &Stream) -> Self {
        Arrays { memory, stream: stream.handle, addresses: Vec::new() }
    }

    fn allocate(&mut self, bytes: usize) -> Result<DevicePointer, Error> {
        let address = self.memory.allocate(bytes, self.stream)?;
        self.addresses.push(address);
        Ok(address)
    }
}

impl Drop for Arrays<'_> {
    fn drop(&mut self) {
        // SAFETY: what uses them is in the stream before.
        self.addresses.iter().for_each(|&address| unsafe { self.memory.gpu.free(address, self.stream) });
    }
}

/// The least seconds that something takes, which is put into the stream each time.
fn least_seconds(stream: &mut Stream, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        stream.start_clock()?;
        work()?;
        stream.stop_clock()?;
        stream.wait()?;
        least = least.min(stream.clock()?.as_secs_f64());
    }
    Ok(least)
}

/// Bytes that the driver's own copy reads and writes in a second.
fn copy_rate(memory: &GpuMemory, stream: &mut Stream) -> Result<f64, Error> {
    let mut bytes = COPIED_BYTES;
    let mut arrays = Arrays::new(memory, stream);
    let mut both =
        |bytes: usize| -> Result<[DevicePointer; 2], Error> { Ok([arrays.allocate(bytes)?, arrays.allocate(bytes)?]) };
    let [from, to] = loop {
        match both(bytes) {
            Err(Error::OutOfMemory { .. }) if bytes > 1 << 10 => bytes /= 2,
            allocated => break allocated?,
        }
    };
    let (driver, handle) = (memory.gpu.driver, stream.handle);
    let seconds = least_seconds(stream, || {
        // SAFETY: both are live, and as large.
        driver.check("cuMemcpyDtoDAsync", unsafe { (driver.copy)(to, from, bytes, handle) })
    })?;
    Ok(2.0 * bytes as f64 / seconds)
}

/// Multiplications and additions of `f32` in a second, by what the driver says of the device.
fn multiply_add_rate(gpu: &Gpu) -> Option<f64> {
    let lanes = match gpu.compute_capability() {
        (7, _) | (8, 0) => 64,
        (8.., _) => 128,
        _ => return None,
    };
    let [clock, processors] = [CLOCK_RATE, MULTIPROCESSORS].map(|attribute| gpu.attribute(attribute).ok());
    Some(2.0 * f64::from(lanes) * f64::from(processors?) * f64::from(clock?) * 1e3)
}

/// Where NVIDIA's library is looked for.
const LIBRARIES: [&str; 4] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"];

/// A kind of product, with the library's numbers of the types of operands and results, the bytes of an element of these, and
/// the library's number of how it computes.
struct Product {
    name: &'static str,
    operand: (c_int, usize),
    result: (c_int, usize),
    compute: c_int,
    /// Of eight bytes of operands, the bits that are random and those that are set: a product of zeros takes less current,
    /// and so a GPU makes it faster.
    bits: [u64; 2],
}

/// The bits of floats of size 0.5 to 1, of either sign.
const BF16: [u64; 2] = [0x807f_807f_807f_807f, 0x3f00_3f00_3f00_3f00];
const F16: [u64; 2] = [0x83ff_83ff_83ff_83ff, 0x3800_3800_3800_3800];
const F32: [u64; 2] = [0x807f_ffff_807f_ffff, 0x3f00_0000_3f00_0000];
const F64: [u64; 2] = [0x800f_ffff_ffff_ffff, 0x3fe0_0000_0000_0000];
const S8: [u64; 2] = [u64::MAX, 0];

const PRODUCTS: [Product; 6] = [
    Product { name: "bf16", operand: (14, 2), result: (14, 2), compute: 68, bits: BF16 },
    Product { name: "f16", operand: (2, 2), result: (2, 2), compute: 68, bits: F16 },
    Product { name: "tf32", operand: (0, 4), result: (0, 4), compute: 77, bits: F32 },
    Product { name: "f32", operand: (0, 4), result: (0, 4), compute: 68, bits: F32 },
    Product { name: "f64", operand: (1, 8), result: (1, 8), compute: 70, bits: F64 },
    Product { name: "s8", operand: (3, 1), result: (10, 4), compute: 72, bits: S8 },
];

/// The library's numbers for a transposed operand and one as it is, and for an algorithm of its choice.
const TRANSPOSED: c_int = 1;
const AS_IT_IS: c_int = 0;
const ANY_ALGORITHM: c_int = -1;

type Address = *const c_void;

/// NVIDIA's library of products.
struct Vendor {
    handle: *mut c_void,
    multiply: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        Address,
        Address,
        c_int,
        c_int,
        Address,
        c_int,
        c_int,
        Address,
        *mut c_void,
        c_int,
        c_int,
        c_int,
        c_int,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
    _library: Library,
}

impl Drop for Vendor {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's, and nothing uses it.
        unsafe { (self.destroy)(self.handle) };
    }
}

impl Vendor {
    /// The library, if the machine has it, for work in a stream.
    fn load(stream: &Stream) -> Option<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: the types are those of the library's header; what is loaded lives as long as the value.
        unsafe {
            let library = LIBRARIES.iter().find_map(|name| Library::new(name).ok())?;
            let create = *library.get::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(b"cublasCreate_v2\0").ok()?;
            let set_stream = *library
                .get::<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>(b"cublasSetStream_v2\0")
                .ok()?;
            let destroy = *library.get(b"cublasDestroy_v2\0").ok()?;
            let multiply = *library.get(b"cublasGemmEx\0").ok()?;
            if create(&raw mut handle) != 0 {
                return None;
            }
            let vendor = Vendor { handle, multiply, destroy, _library: library };
            (set_stream(handle, stream.handle) == 0).then_some(vendor)
        }
    }

    /// Operations a second of a product of square matrices: none where the library does not make it.
    fn rate(
        &self,
        product: &Product,
        size: usize,
        memory: &GpuMemory,
        stream: &mut Stream,
    ) -> Result<Option<f64>, Error> {
        let mut arrays = Arrays::new(memory, stream);
        let bytes = size * size * product.operand.1;
        let [a, b] = [arrays.allocate(bytes)?, arrays.allocate(bytes)?];
        let [random, set] = product.bits;
        let mut numbers = fastrand::Rng::with_seed(size as u64);
        let operand: Vec<u64> = (0..bytes / 8).map(|_| numbers.u64(..) & random | set).collect();
        for address in [a, b] {
            // SAFETY: both are as large; the host's array lives until the stream has been waited for.
            let code =
                unsafe { (memory.gpu.driver.copy_to_device)(address, operand.as_ptr().cast(), bytes, stream.handle) };
            memory.gpu.driver.check("cuMemcpyHtoDAsync", code)?;
        }
        stream.wait()?;
        let c = arrays.allocate(size * size * product.result.1)?;
        // Words of eight bytes that hold 1 and 0 of each type that products are computed in.
        let (one, zero) = match product.compute {
            70 => (1f64.to_bits(), 0),
            72 => (1, 0),
            _ => (u64::from(1f32.to_bits()), 0u64),
        };
        let (one, zero) = (ptr::from_ref(&one).cast(), ptr::from_ref(&zero).cast());
        let n = size as c_int;
        let mut failed = false;
        let seconds = least_seconds(stream, || {
            // SAFETY: the matrices are live and as large as is said.
            let code = unsafe {
                (self.multiply)(
                    self.handle,
                    TRANSPOSED,
                    AS_IT_IS,
                    n,
                    n,
                    n,
                    one,
                    a as Address,
                    product.operand.0,
                    n,
                    b as Address,
                    product.operand.0,
                    n,
                    zero,
                    c as *mut c_void,
                    product.result.0,
                    n,
                    product.compute,
                    ANY_ALGORITHM,
                )
            };
            failed |= code != 0;
            Ok(())
        })?;
        Ok((!failed).then_some(2.0 * (size as f64).powi(3) / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_driver;

    #[test]
    fn a_copy_reads_and_writes_as_much_as_the_device_has_room_for() {
        let (driver, _user) = fake_driver::fresh();
        let ceilings = measure(Gpu::of(driver, 0).unwrap()).unwrap();
        // Two arrays of 1 MiB each, as the fake driver has no more in one, in the 2.5 ms that all takes there.
        let [copy, peak] = &ceilings[..2] else { panic!("{ceilings:?}") };
        assert_eq!(copy.to_string(), "copy 0.8");
        assert_eq!(peak.name, "fma_f32");
        assert_eq!(fake_driver::counts().1, 0, "nothing is left");
    }
}
