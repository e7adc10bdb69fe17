//! passes

pub mod buffer_assignment;

pub mod fuse_loops;
