//! halo
