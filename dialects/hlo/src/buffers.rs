//! Places in the memory of a running program.

use std::fmt;

/// A piece of memory that holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// The arena of temporary values.
    Arena,
    /// Leaf of the entry parameters, numbered across all of them.
    Parameter(u32),
    /// A constant.
    Constant(u32),
    /// Leaf of the result.
    Output(u32),
}

/// Storage of one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slice {
    /// The buffer.
    pub buffer: Buffer,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffer::Arena => write!(f, "arena"),
            Buffer::Parameter(number) => write!(f, "parameter {number}"),
            Buffer::Constant(number) => write!(f, "constant {number}"),
            Buffer::Output(number) => write!(f, "output {number}"),
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {} : {}]", self.buffer, self.offset, self.size)
    }
}
