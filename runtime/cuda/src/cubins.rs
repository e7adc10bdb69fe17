//! Kernels as machine code: what a program brings along, and a folder of what the driver has made of PTX.
//!
//! The driver has such a folder itself, of the user's home: it may be turned off, has a size that programs share, and machines
//! that programs are sent to begin without one.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::slice;

use exec::FileCache;
use sha2::{Digest, Sha256};

use crate::driver::{Handle, LinkFunctions};
use crate::gpu::number_of;
use crate::{Error, Gpu};

/// Bytes of a cache's files, at most; the oldest are removed.
const MOST_BYTES: u64 = 1 << 30;

/// The driver's number of PTX among what it links.
const PTX_INPUT: c_int = 1;

/// The kernels of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelCode<'a> {
    /// As PTX.
    pub ptx: &'a [u8],
    /// As machine code, each with the GPU that it is for, as in `sm_90a`.
    pub cubins: &'a [(String, Vec<u8>)],
}

impl<'a> KernelCode<'a> {
    /// The machine code for a GPU of this compute capability: for the same, or an older one of its major version.
    pub(crate) fn cubin_for(&self, (major, minor): (u32, u32)) -> Option<&'a [u8]> {
        let fits = |processor: &str| {
            let (needed, is_exact) = number_of(processor)?;
            let runs = if is_exact { needed % 10 == minor } else { needed % 10 <= minor };
            (needed / 10 == major && runs).then_some(needed)
        };
        let fitting = self.cubins.iter().filter_map(|(processor, code)| Some((fits(processor)?, code)));
        fitting.max_by_key(|(needed, _)| *needed).map(|(_, code)| code.as_slice())
    }
}

/// A folder of machine code that the driver made of PTX.
#[derive(Debug)]
pub(crate) struct CubinCache {
    files: FileCache,
}

impl CubinCache {
    pub fn new(folder: PathBuf) -> Self {
        CubinCache { files: FileCache::new(folder, "cubin", MOST_BYTES) }
    }

    /// The key of what the driver makes of PTX on a GPU.
    fn key(ptx: &[u8], gpu: &Gpu) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{:?} {:?}\n", gpu.compute_capability(), gpu.driver_version()));
        hash.update(ptx);
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Kernels by their machine code, which is made if there is none yet.
    ///
    /// # Errors
    /// Where the driver does not link, or refuses: then it may take the PTX itself.
    pub fn load(&self, ptx: &[u8], gpu: &Gpu) -> Result<Handle, Error> {
        let key = Self::key(ptx, gpu);
        if let Some(code) = self.files.get(&key) {
            match gpu.load_module(&code) {
                Ok(module) => return Ok(module),
                // It is damaged.
                Err(_) => self.files.remove(&key),
            }
        }
        let functions = gpu.driver.links.as_ref();
        let functions = functions.ok_or_else(|| Error::WrongArchitecture("its driver does not link".into()))?;
        let code = link(functions, ptx, gpu)?;
        // What cannot be kept is made again.
        if self.files.make_directory().is_ok() {
            self.files.put(&key, &code);
        }
        gpu.load_module(&code)
    }
}

/// What the driver makes of PTX for a GPU, which the caller has entered.
fn link(functions: &LinkFunctions, ptx: &[u8], gpu: &Gpu) -> Result<Vec<u8>, Error> {
    let text: Vec<u8> = ptx.iter().copied().chain([0]).collect();
    let (mut state, mut code, mut size): (Handle, *mut c_void, usize) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: results are written to live variables, there are no options; what was made is the state's until that is destroyed.
    unsafe {
        let created = (functions.create)(0, ptr::null(), ptr::null(), &raw mut state);
        gpu.driver.check("cuLinkCreate", created)?;
        let added = (functions.add_data)(
            state,
            PTX_INPUT,
            text.as_ptr().cast(),
            text.len(),
            c"kernels".as_ptr(),
            0,
            ptr::null(),
            ptr::null(),
        );
        let linked = gpu.driver.check("cuLinkAddData", added).and_then(|()| {
            gpu.driver.check("cuLinkComplete", (functions.complete)(state, &raw mut code, &raw mut size))
        });
        let linked = linked.map(|()| slice::from_raw_parts(code.cast::<u8>(), size).to_vec());
        (functions.destroy)(state);
        linked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_gpus_of_its_major_version() {
        let cubins = ["sm_80", "sm_86", "sm_90a", "sm_120"].map(|name| (name.to_string(), name.as_bytes().to_vec()));
        let code = KernelCode { ptx: b"", cubins: &cubins };
        let chosen = |capability| code.cubin_for(capability).map(|code| String::from_utf8_lossy(code).into_owned());
        assert_eq!(chosen((8, 0)).as_deref(), Some("sm_80"));
        assert_eq!(chosen((8, 9)).as_deref(), Some("sm_86"));
        assert_eq!(chosen((9, 0)).as_deref(), Some("sm_90a"));
        assert_eq!(chosen((9, 1)), None, "only what it is for has its instructions");
        assert_eq!((chosen((10, 0)), chosen((7, 5))), (None, None));
        assert_eq!(chosen((12, 1)).as_deref(), Some("sm_120"));
    }
}
