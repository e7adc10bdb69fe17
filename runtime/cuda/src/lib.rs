//! Running launch plans: on an NVIDIA GPU, and emulated on the host. Nothing of MLIR or LLVM, and no toolkit of NVIDIA's.
//!
//! ```text
//!  LaunchPlan ──execution──> Device ─┬─ emulator: kernels as code of the host, threads one after another, with checks
//!                                    └─ stream of a GPU: kernels as PTX, by the driver that the machine has
//! ```

mod box_table;
mod conditions;
mod driver;
pub mod emulator;
mod error;
pub mod execution;
#[cfg(test)]
mod fake_driver;
mod gpu;
mod gpu_program;
mod host_call;
mod staging;
mod stream;
mod stream_device;

pub use emulator::Emulator;
pub use error::Error;
pub use execution::{Device, PlanMemory};
pub use gpu::Gpu;
pub use gpu_program::{BufferSizes, GpuProgram};
