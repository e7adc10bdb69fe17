//! indexing
