//! passes

pub mod buffer_assignment;

pub mod fuse_loops;
pub mod inline_calls;
pub mod registry;
