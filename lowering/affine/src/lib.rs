//! hlo → affine: functions of static memrefs with affine loops, loads and stores; scf for the program's control flow.
//!
//! ```text
//!  program ── control flow, kernels in order, copies          memory: buffers as memrefs, the arena's arrays as views
//!     │          (gpu: the same as a launch plan)
//!     ├─ matmul ── products of matrices in packed panels
//!     ├─ scatter ── what a fusion ends with, in the order of the updates, or by blocks, or by threads that do not meet
//!     ├─ library_calls ── sorting, transforms, factorisations, random bits, custom calls: functions of the runtime
//!     └─ kernel ── loop nest of one fusion, as its mapping     map_to_cpu, map_to_gpu: the mappings, chosen before, from the
//!          │       divides the work                           trace: what a fusion reads
//!          │       scan, vector_scan, team_scan: results that accumulate along a dimension
//!          └─ walk ── from an instruction at an index to what    scope: index variables and their ranges
//!               │     it reads; elemental: as code
//!               ├─ operand_maps: indexing maps of shape      index: index expressions as affine maps or vectors
//!               │     and indexing operations                access: loads and stores of elements and vectors
//!               ├─ reduction, contraction: loops inside an element
//!               └─ scalar, math: elementwise operations on registers
//! ```

// Loop bodies are closures of the emitter, an index and carried values; naming each combination helps nobody.
#![allow(clippy::type_complexity)]

pub mod access;
mod associative;
mod atomics;
mod attention;
mod branches;
mod chain;
mod column_blocks;
mod comparisons;
pub mod contraction;
mod copies;
pub mod cost;
pub mod elemental;
pub mod error;
pub mod fuse_epilogues;
mod fuse_prologues;
pub mod gpu;
pub mod index;
pub mod interface;
pub mod kernel;
pub mod kernel_function;
mod kernel_names;
pub mod library_calls;
pub mod map_to_cpu;
pub mod map_to_gpu;
pub mod mapping;
pub mod math;
pub mod matmul;
pub mod memory;
mod merge;
pub mod moved_bits;
mod operand_maps;
pub mod parts;
pub mod profile;
pub mod program;
pub mod reduction;
mod reduction_in_order;
mod register_tables;
pub mod registry;
mod rows;
mod runs;
pub mod scalar;
pub mod scan;
pub mod scatter;
mod scattered_blocks;
pub mod scope;
pub mod selection;
mod short_rows;
mod side_by_side;
mod team;
mod team_rows;
mod team_scan;
mod tiles;
pub mod to_affine;
pub mod to_gpu;
pub mod trace;
mod traced;
mod transposed;
mod trip_count;
mod vector_scan;
mod walk;
mod wide_concatenate;

use melior::Context;

/// The dialects that lowering makes operations and types of.
pub(crate) const DIALECTS: &[&str] =
    &["affine", "arith", "cf", "func", "gpu", "llvm", "math", "memref", "scf", "vector"];

/// Loads the dialects that lowering makes operations and types of; a context has them registered only.
fn load_dialects(context: &Context) {
    for name in DIALECTS {
        context.get_or_load_dialect(name);
    }
}
