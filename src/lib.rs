//! halo: compiled array programs from HLO.
//!
//! # A first program
//!
//! A program is written with a [`HloBuilder`](builder::HloBuilder), compiled by a [`Client`], and run:
//!
//! ```no_run
//! use halo::builder::HloBuilder;
//! use halo::{Client, CompileOptions, Shape};
//!
//! let b = HloBuilder::new("quickstart");
//! let x = b.parameter(0, Shape::of::<f32>([3]), "x");
//! let program = b.build((x * 2.0 + 1.0).tanh())?;
//! let executable = Client::cpu()?.compile(&program, &CompileOptions::default())?;
//! let result = executable.execute(([0.5f32, 1.0, 1.5].as_slice(),))?;
//! println!("{:?}", result.as_slice::<f32>());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program may come as HLO text or as a file just as well: `client.compile(text, …)`, `client.compile(path, …)`.
//!
//! # Building
//!
//! A value under construction is an [`Op`](builder::Op), a `Copy` handle with operators; numbers stand for scalars of the other
//! operand's type. Shapes are inferred at each call. The computation of an operation is a closure with a builder of its
//! own:
//!
//! ```no_run
//! # use halo::builder::HloBuilder;
//! # use halo::Shape;
//! # let b = HloBuilder::new("guide");
//! let x = b.parameter(0, Shape::of::<f32>([4, 8]), "x");
//! let sum = b.reduce(x, b.constant(0f32), |_, total, value| total + value, &[1]);
//! let state = b.tuple(&[b.constant(0i32), sum]);
//! let end = b.while_(
//!     state,
//!     |_, state| state.get(0).lt(10),
//!     |b, state| b.tuple(&[state.get(0) + 1, state.get(1) * 0.5]),
//! );
//! let module = b.build(end.get(1))?;
//! # Ok::<(), halo::builder::BuildErrors>(())
//! ```
//!
//! Errors carry the place of the call in Rust; `build` returns them all. Operands
//! [broadcast](builder::broadcasting) as XLA's do: scalars with anything, sizes of 1 with any size, and arrays of
//! different rank only where the call names the dimensions.
//!
//! # Running
//!
//! [`Executable::execute`] takes anything that is arrays in memory (literals, [`Buffer`]s, numbers, slices, `ndarray` arrays)
//! without a copy and returns a [`Literal`]. [`Executable::execute_buffers`] leaves the results in the device's memory.
//! [`Executable::execute_into`] writes them where the caller says and allocates nothing:
//!
//! ```no_run
//! # use halo::{Client, CompileOptions};
//! # let client = Client::cpu()?;
//! # let executable = client.compile("", &CompileOptions::default())?;
//! let weights = ndarray::Array2::<f32>::ones((4, 8));
//! let mut totals = ndarray::Array1::<f32>::zeros(4);
//! executable.execute_into((&weights,), (&mut totals,))?;
//! # Ok::<(), halo::Error>(())
//! ```
//!
//! On a GPU ([`Client::cuda`]), what [`Client::to_device`] gives and what [`Executable::execute_buffers`] returns is in its memory:
//! programs take it from there, and it comes to the host when its bytes are asked for.
//!
//! A step that returns new values of its arguments can write them over the old ones: the program says which result takes the
//! place of which argument (`input_output_alias`), and the caller gives these up with [`Buffer::donate`].
//!
//! Weights that come in each call should be [`Buffer`]s: on the host, products pack the same buffer once and not in each call, in up
//! to 1 GB of memory ([`ClientOptions::prepacked_bytes`]).
//!
//! [`Executable::execute_async`] returns at once with a [`Pending`] result, which is a future too. An executable is shared
//! between threads by reference or by clone. Programs that run at the same time share the client's threads loop by loop:
//! none waits until another ends.
//!
//! A program for several devices (`replica_count` or `num_partitions` in its header) runs on the devices of a client that
//! has as many ([`Client::cpu_devices`]): [`Executable::execute_on`] takes the arguments of each.
//! # Profiling
//!
//! With [`CompileOptions::profile`], [`Executable::take_profile`] tells when each kernel began and ended;
//! [`Executable::profiled_steps`] has their names and costs.
//!
//! # Calling back
//!
//! A program calls functions of the process by name ([`custom_call`]), reads values that the host puts into its [`Infeed`], and
//! hands values to the host through its [`Outfeed`].
//!
//! # Features
//!
//! `compiler` and `ndarray` are on by default. Without `compiler` there is neither MLIR nor LLVM: a program loads and runs what
//! [`Executable::serialize`] gave elsewhere. Programs with Fourier transforms need `fourier` there, those with factorisations,
//! triangular systems or calls of LAPACK `linear-algebra`; `compiler` has both.
//!
//! # Keeping compiled programs
//!
//! [`Executable::serialize`] gives bytes that [`Client::deserialize`] loads on a machine with the same processor features.
//! A [`CompilationCache`] does the same by itself, in a folder that any number of processes share:
//!
//! ```no_run
//! use halo::{Client, ClientOptions, CompilationCache};
//!
//! let cache = CompilationCache::new("/var/cache/my-program", 1 << 30)?;
//! let client = Client::with_options(ClientOptions { cache: Some(cache), ..ClientOptions::default() })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`bundle`] is one file with the code for several kinds of devices, of which [`Client::deserialize`] takes what suits its own.

mod argument;
mod buffer;
mod bundle;
#[cfg(feature = "compiler")]
mod cache;
pub mod client;
#[cfg(feature = "compiler")]
mod compile;
#[cfg(feature = "compiler")]
mod contexts;
pub mod custom_call;
mod encoding;
pub mod error;
pub mod executable;
mod execution;
mod feeds;
#[cfg(feature = "ndarray")]
mod ndarray_arrays;
mod pending;
// For the tools: it shows types of MLIR.
#[cfg(feature = "compiler")]
#[doc(hidden)]
pub mod pipeline;
mod prepacked;
mod profile;
mod results;
mod serialized;
#[cfg(feature = "compiler")]
mod source;

pub use argument::{Argument, Arguments, ArrayRef, Leaf, Sizes, View};
pub use buffer::{Buffer, Donated};
#[cfg(feature = "compiler")]
pub use cache::CompilationCache;
pub use client::{Client, ClientOptions, Platform};
#[cfg(feature = "compiler")]
pub use compile::bundle;
pub use cuda::Transferred;
pub use error::Error;
pub use executable::{CompileTimings, Executable, MemoryUse};
pub use feeds::{Infeed, Outfeed};
pub use hlo::builder;
pub use hlo::cost::Cost;
pub use hlo::element_type::ElementType;
pub use hlo::graph::Module;
/// HLO text: read into modules, and written. A [`Module`] has `FromStr` and `Display` too; [`print_with`](text::print_with) has
/// options, and [`Errors::render`](text::Errors::render) shows the faults of a text in their places.
#[cfg(feature = "compiler")]
pub mod text {
    pub use hlo::text::{Error, Errors, TextOptions, print, print_with, read};
}
pub use exec::runtime::ProgramState;
pub use half::{bf16, f16};
pub use hlo::literal::{ArrayLiteral, Literal, LiteralError, NativeElement};
pub use hlo::shape::{ArrayShape, Layout, ProgramShape, Shape};
#[cfg(feature = "compiler")]
pub use lowering_llvm::Target;
#[cfg(feature = "ndarray")]
pub use ndarray_arrays::literal_view;
pub use num_complex::Complex;
pub use pending::Pending;
#[cfg(feature = "compiler")]
pub use pipeline::CompileOptions;
pub use profile::{ProfiledStep, StepRun};
pub use results::{Place, ResultPlace, ResultTarget, Results};
#[cfg(feature = "compiler")]
pub use source::Source;
