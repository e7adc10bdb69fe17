//! hlo → loops: emits scf, memref, vector and arith code for fused kernels, contractions and control flow.

pub mod math;
pub mod scalar;
