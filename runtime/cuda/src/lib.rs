//! Running launch plans: on an NVIDIA GPU, and emulated on the host. Nothing of MLIR or LLVM, and no toolkit of NVIDIA's.
//!
//! ```text
//!  LaunchPlan ──execution──> Device ─┬─ emulator: kernels as code of the host, threads one after another, with checks
//!                                    └─ stream of a GPU: kernels as PTX, by the driver that the machine has
//! ```

mod box_table;
pub mod ceilings;
mod conditions;
mod cubins;
mod device_memory;
mod driver;
pub mod emulator;
mod error;
pub mod execution;
#[cfg(test)]
mod fake_driver;
mod gpu;
mod gpu_program;
mod host_call;
mod recording_order;
mod run_memory;
mod staging;
mod stream;
mod stream_device;

pub use cubins::KernelCode;
pub use device_memory::{DeviceArray, DeviceMemory, GpuMemory, TransferCounter, Transferred};
pub use emulator::Emulator;
pub use error::Error;
pub use execution::{Device, PlanMemory};
pub use gpu::Gpu;
pub use gpu_program::{ArrayPlace, BufferSizes, GpuProgram, RunArrays};
