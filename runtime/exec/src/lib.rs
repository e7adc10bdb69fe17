//! The runtime: loaded code and what it needs while it runs. Nothing of MLIR or LLVM.

pub mod buffer_pool;
mod error;
pub mod file_cache;
pub mod host;
pub mod jit;
pub mod runtime;
mod subnormals;
pub mod thread_pool;

pub use buffer_pool::{Buffer, BufferPool};
pub use error::Error;
pub use file_cache::FileCache;
pub use jit::Jit;
pub use subnormals::FlushSubnormals;
pub use thread_pool::ThreadPool;
