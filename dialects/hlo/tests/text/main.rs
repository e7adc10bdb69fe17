//! HLO text: what is read, what is written, and what is said of faults.

mod errors;
mod models;
mod older;
mod robustness;
mod scale;
mod syntax;
