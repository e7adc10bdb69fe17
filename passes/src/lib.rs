//! Transformations of HLO programs, and the analysis that places their values in memory.
//!
//! Every pass is registered with MLIR ([`registry`]); [`pipeline::HLO`] is their order in compilation.

pub mod allow_tf32;
pub mod arrange_operands;
pub mod assign_buffers;
pub mod canonicalize;
pub mod canonicalize_convolutions;
pub mod canonicalize_dots;
mod complex_products;
pub mod dce;
mod effects;
pub mod erase_layouts;
mod exchanged_dot;
pub mod expand;
pub mod expand_host_calls;
pub mod fuse;
pub mod graph_builder;
pub mod inline_calls;
mod joined;
pub mod keep_precision;
mod lifted;
pub mod loop_over_elements;
mod loop_state;
mod ordered_bits;
pub mod pad_dynamic_dimensions;
pub mod pipeline;
mod reduction_parts;
pub mod registry;
pub mod regrouping;
mod rewrite;
mod scatter_places;
pub mod simplify_loops;
mod small_dots;
mod split_convolutions;
mod split_products;
pub mod split_reductions;
mod split_scans;
pub mod split_scatters;
pub mod transpose_operands;
mod widen_contractions;
mod winograd;
