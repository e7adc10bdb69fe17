//! The errors of this crate.

use thiserror::Error;

/// Why a launch plan could not be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// Kernels that cannot be loaded.
    #[error(transparent)]
    Load(#[from] exec::Error),
    /// A plan that does not fit its program.
    #[error("the launch plan is malformed: {0}")]
    Plan(String),
    /// The machine has no driver for NVIDIA GPUs.
    #[error("no driver for NVIDIA GPUs: {0}")]
    NoDriver(String),
    /// The machine has no such GPU.
    #[error("there is no GPU {number}: the driver has {count}")]
    NoDevice {
        /// Number of the GPU, from 0.
        number: u32,
        /// GPUs that there are.
        count: u32,
    },
    /// The GPU has no memory left.
    #[error("the GPU has too little memory: {bytes} bytes were asked for")]
    OutOfMemory {
        /// What was asked for; 0 where the driver needs it for itself.
        bytes: usize,
    },
    /// Kernels for other GPUs.
    #[error("the program does not run on this GPU: {0}")]
    WrongArchitecture(String),
    /// A call of the driver failed.
    #[error("{function} failed: {reason}")]
    Driver {
        /// The function.
        function: &'static str,
        /// What the driver says.
        reason: String,
    },
    /// The driver refused the kernels.
    #[error("{reason}\n{log}")]
    Refused {
        /// Why.
        reason: String,
        /// What its compiler says.
        log: String,
    },
    /// The GPU's blocks have less shared memory than a kernel needs.
    #[error("the GPU does not let a block of kernel `{kernel}` share {bytes} bytes: {reason}")]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// What it needs.
        bytes: i32,
        /// What the driver says.
        reason: String,
    },
    /// A function of the host that nobody knows.
    #[error("the host has no function `{name}`: {reason}")]
    NoFunction {
        /// Its name.
        name: String,
        /// Why there is none.
        reason: String,
    },
    /// One of several kernels did what it must not.
    #[error(
        "one of {count} kernels, of which the last is `{last}`: {fault} (with CUDA_LAUNCH_BLOCKING=1 in the environment the message names the kernel)"
    )]
    OneOfKernels {
        /// Kernels since the host last waited for the device.
        count: usize,
        /// The last of them.
        last: String,
        /// What it did.
        fault: String,
    },
    /// A kernel did what it must not.
    #[error("kernel `{kernel}`: {fault}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// What it did.
        fault: String,
    },
}

impl Error {
    /// Whether this is a mistake of the compiler, not of the program or of the machine.
    pub fn is_bug(&self) -> bool {
        match self {
            Error::Load(exec::Error::OutOfMemory { .. })
            | Error::NoDriver(_)
            | Error::NoDevice { .. }
            | Error::OutOfMemory { .. }
            | Error::WrongArchitecture(_)
            | Error::SharedMemory { .. }
            | Error::Driver { .. } => false,
            Error::Load(_)
            | Error::Plan(_)
            | Error::NoFunction { .. }
            | Error::Kernel { .. }
            | Error::OneOfKernels { .. }
            | Error::Refused { .. } => true,
        }
    }
}
