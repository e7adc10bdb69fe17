//! What a code generator asks of maps: where elements lie in memory, how accesses move with a loop variable,
//! where bounds checks are needed, what part of an operand is used, and which tile of an operand a tile of the
//! result needs.

mod access;
mod domain;
mod symbolic_tile;
mod tile;
mod utilisation;

pub use access::{Access, linearize, row_major_strides, stride_along, strides_of_layout, vectorised};
pub use domain::{interior_box, truth};
pub use symbolic_tile::{SymbolicTile, symbolic_tiles};
pub use tile::{Tile, propagate_tile};
pub use utilisation::{Utilisation, utilisation};
