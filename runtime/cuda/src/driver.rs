//! NVIDIA's driver, loaded while the program runs: the few functions that launch plans need.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::Deref;
use std::sync::OnceLock;

use libloading::Library;

use crate::Error;

/// Addresses of what the driver owns.
pub(crate) type Handle = *mut c_void;

/// An address in a device's memory.
pub(crate) type DevicePointer = u64;

/// Where the driver is looked for.
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// A condition of a graph's node, as the driver numbers it.
pub(crate) type Condition = u64;

macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident = $symbol:literal ($($parameter:ty),*);)* }) => {
        $(#[$about])*
        pub(crate) struct $table {
            $(pub $name: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl $table {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the driver's header, and `Driver` keeps the library loaded as long as the table.
                unsafe { Ok($table { $($name: *library.get(concat!($symbol, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    /// Functions of every driver, by their names in its header.
    Functions {
        init = "cuInit"(c_uint);
        version = "cuDriverGetVersion"(*mut c_int);
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
        allocate_pinned = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
        free_pinned = "cuMemFreeHost"(*mut c_void);
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
        wait_for_event = "cuEventSynchronize"(Handle);
        elapsed = "cuEventElapsedTime"(*mut f32, Handle, Handle);
        destroy_event = "cuEventDestroy_v2"(Handle);
        error_text = "cuGetErrorString"(c_int, *mut *const c_char);
    }
}

functions! {
    /// Memory in the order of streams, of drivers since 11.2.
    PoolFunctions {
        default_pool = "cuDeviceGetDefaultMemPool"(*mut Handle, c_int);
        set_attribute = "cuMemPoolSetAttribute"(Handle, c_int, *mut c_void);
        allocate = "cuMemAllocAsync"(*mut DevicePointer, usize, Handle);
        free = "cuMemFreeAsync"(DevicePointer, Handle);
    }
}

functions! {
    /// Graphs with nodes that run on a condition, of drivers since 12.4.
    ConditionFunctions {
        capture_info = "cuStreamGetCaptureInfo_v2"(
            Handle, *mut c_int, *mut u64, *mut Handle, *mut *const Handle, *mut usize
        );
        set_capture_dependencies = "cuStreamUpdateCaptureDependencies"(Handle, *mut Handle, usize, c_uint);
        begin_capture_to_graph = "cuStreamBeginCaptureToGraph"(
            Handle, Handle, *const Handle, *const c_void, usize, c_int
        );
        create_condition = "cuGraphConditionalHandleCreate"(*mut Condition, Handle, Handle, c_uint, c_uint);
        add_node = "cuGraphAddNode"(*mut Handle, Handle, *const Handle, usize, *mut ConditionalNode);
    }
}

functions! {
    /// What makes machine code of PTX.
    LinkFunctions {
        create = "cuLinkCreate_v2"(c_uint, *const c_int, *const *mut c_void, *mut Handle);
        add_data = "cuLinkAddData_v2"(
            Handle, c_int, *const c_void, usize, *const c_char, c_uint, *const c_int, *const *mut c_void
        );
        complete = "cuLinkComplete"(Handle, *mut *mut c_void, *mut usize);
        destroy = "cuLinkDestroy"(Handle);
    }
}

functions! {
    /// Descriptions of boxes of arrays, of drivers since 12.0.
    BoxFunctions {
        describe = "cuTensorMapEncodeTiled"(
            *mut BoxDescription, c_int, c_uint, DevicePointer, *const u64, *const u64, *const c_uint, *const c_uint, c_int,
            c_int, c_int, c_int
        );
    }
}

/// What the driver makes of an array of which boxes are copied: `CUtensorMap`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoxDescription(pub [u64; 16]);

/// What the driver is told about a node that runs graphs on a condition: `CUgraphNodeParams` of that type.
#[repr(C)]
pub(crate) struct ConditionalNode {
    node_type: c_int,
    reserved: [c_int; 3],
    pub condition: Condition,
    pub kind: c_int,
    graph_count: c_uint,
    /// Where the driver says which graphs.
    pub graphs: *const Handle,
    context: Handle,
    rest: [u64; 26],
}

impl ConditionalNode {
    /// The driver's number of the type.
    const CONDITIONAL: c_int = 13;
    /// The driver's numbers of kinds: what runs once if the condition is not 0, and what runs as long as it is not.
    pub const IF: c_int = 0;
    pub const WHILE: c_int = 1;

    /// Of one graph.
    pub fn new(condition: Condition, kind: c_int, context: Handle) -> Self {
        let (reserved, graphs, rest) = ([0; 3], std::ptr::null(), [0; 26]);
        ConditionalNode {
            node_type: Self::CONDITIONAL,
            reserved,
            condition,
            kind,
            graph_count: 1,
            graphs,
            context,
            rest,
        }
    }
}

/// The driver of a machine.
pub(crate) struct Driver {
    functions: Functions,
    pub pools: Option<PoolFunctions>,
    pub conditions: Option<ConditionFunctions>,
    pub boxes: Option<BoxFunctions>,
    pub links: Option<LinkFunctions>,
    /// None where tests play the driver.
    _library: Option<Library>,
}

impl Deref for Driver {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// The first version whose graphs have conditions, as drivers number it.
const VERSION_OF_CONDITIONS: c_int = 12040;

/// The driver's number for success, and for memory that there is not.
pub(crate) const SUCCESS: c_int = 0;
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
            let driver = library.and_then(Driver::of_library).map_err(|error| error.to_string())?;
            // SAFETY: as the header says; the flags must be 0.
            let code = unsafe { (driver.init)(0) };
            driver.check("cuInit", code).map_err(|error| error.to_string())?;
            Ok(driver)
        });
        loaded.as_ref().map_err(|reason| Error::NoDriver(reason.clone()))
    }

    fn of_library(library: Library) -> Result<Self, libloading::Error> {
        let functions = Functions::of(&library)?;
        let mut version = 0;
        // SAFETY: the version is written to a live variable.
        let known = unsafe { (functions.version)(&raw mut version) } == SUCCESS;
        let (pools, boxes) = (PoolFunctions::of(&library).ok(), BoxFunctions::of(&library).ok());
        let links = LinkFunctions::of(&library).ok();
        let conditions = (known && version >= VERSION_OF_CONDITIONS).then(|| ConditionFunctions::of(&library).ok());
        Ok(Driver { functions, pools, conditions: conditions.flatten(), boxes, links, _library: Some(library) })
    }

    /// Functions that a test has in the place of the driver's.
    #[cfg(test)]
    pub(crate) fn fake(
        functions: Functions,
        pools: Option<PoolFunctions>,
        conditions: Option<ConditionFunctions>,
        boxes: Option<BoxFunctions>,
        links: Option<LinkFunctions>,
    ) -> Self {
        Driver { functions, pools, conditions, boxes, links, _library: None }
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
