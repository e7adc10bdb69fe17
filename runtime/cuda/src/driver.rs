//! NVIDIA's driver, loaded while the program runs: the few functions that launch plans need.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::Error;

/// Addresses of what the driver owns.
pub(crate) type Handle = *mut c_void;

/// An address in a device's memory.
pub(crate) type DevicePointer = u64;

/// Where the driver is looked for.
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

macro_rules! driver_functions {
    ($($name:ident = $symbol:literal ($($parameter:ty),*);)*) => {
        /// The driver's functions, by their names in its header.
        pub(crate) struct Driver {
            $(pub $name: unsafe extern "C" fn($($parameter),*) -> c_int,)*
            /// None where tests play the driver.
            _library: Option<Library>,
        }

        impl Driver {
            fn of(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the driver's header, and the library stays loaded as long as the table.
                unsafe {
                    Ok(Driver { $($name: *library.get(concat!($symbol, "\0").as_bytes())?,)* _library: Some(library) })
                }
            }

            /// Functions that a test has in the place of the driver's.
            #[cfg(test)]
            #[expect(clippy::too_many_arguments, reason = "one for each function of the driver")]
            pub(crate) fn fake($($name: unsafe extern "C" fn($($parameter),*) -> c_int),*) -> Self {
                Driver { $($name,)* _library: None }
            }
        }
    };
}

driver_functions! {
    init = "cuInit"(c_uint);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut c_int, c_int);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int);
    retain_context = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    release_context = "cuDevicePrimaryCtxRelease_v2"(c_int);
    set_context = "cuCtxSetCurrent"(Handle);
    load_module = "cuModuleLoadDataEx"(*mut Handle, *const c_void, c_uint, *const c_int, *const *mut c_void);
    unload_module = "cuModuleUnload"(Handle);
    function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    set_function_attribute = "cuFuncSetAttribute"(Handle, c_int, c_int);
    launch = "cuLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *const *const u64, *const *mut c_void
    );
    allocate = "cuMemAlloc_v2"(*mut DevicePointer, usize);
    free = "cuMemFree_v2"(DevicePointer);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(DevicePointer, *const c_void, usize, Handle);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePointer, usize, Handle);
    copy = "cuMemcpyDtoDAsync_v2"(DevicePointer, DevicePointer, usize, Handle);
    create_stream = "cuStreamCreate"(*mut Handle, c_uint);
    destroy_stream = "cuStreamDestroy_v2"(Handle);
    synchronize = "cuStreamSynchronize"(Handle);
    begin_capture = "cuStreamBeginCapture_v2"(Handle, c_int);
    end_capture = "cuStreamEndCapture"(Handle, *mut Handle);
    instantiate_graph = "cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64);
    destroy_graph = "cuGraphDestroy"(Handle);
    launch_graph = "cuGraphLaunch"(Handle, Handle);
    destroy_graph_exec = "cuGraphExecDestroy"(Handle);
    create_event = "cuEventCreate"(*mut Handle, c_uint);
    record_event = "cuEventRecord"(Handle, Handle);
    elapsed = "cuEventElapsedTime"(*mut f32, Handle, Handle);
    destroy_event = "cuEventDestroy_v2"(Handle);
    error_text = "cuGetErrorString"(c_int, *mut *const c_char);
}

/// The driver's number for success, and for memory that there is not.
const SUCCESS: c_int = 0;
const OUT_OF_MEMORY: c_int = 2;

impl Driver {
    /// The driver of this machine.
    ///
    /// # Errors
    /// [`Error::NoDriver`].
    pub(crate) fn get() -> Result<&'static Driver, Error> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let loaded = DRIVER.get_or_init(|| {
            // SAFETY: the driver's library is made to be loaded so.
            let open = |name: &&str| unsafe { Library::new(name) };
            let library = LIBRARIES.iter().map(open).reduce(Result::or).ok_or("no library has a name")?;
            let driver = library.and_then(Driver::of).map_err(|error| error.to_string())?;
            // SAFETY: as the header says; the flags must be 0.
            let code = unsafe { (driver.init)(0) };
            driver.check("cuInit", code).map_err(|error| error.to_string())?;
            Ok(driver)
        });
        loaded.as_ref().map_err(|reason| Error::NoDriver(reason.clone()))
    }

    /// The error of a code that a function returned.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Driver`].
    pub(crate) fn check(&self, function: &'static str, code: c_int) -> Result<(), Error> {
        match code {
            SUCCESS => Ok(()),
            OUT_OF_MEMORY => Err(Error::OutOfMemory { bytes: 0 }),
            _ => Err(Error::Driver { function, reason: self.text_of(code) }),
        }
    }

    fn text_of(&self, code: c_int) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the function writes the address of a text that lives as long as the driver, or null.
        unsafe {
            if (self.error_text)(code, &raw mut text) == SUCCESS && !text.is_null() {
                return CStr::from_ptr(text).to_string_lossy().into_owned();
            }
        }
        format!("error {code}")
    }
}
