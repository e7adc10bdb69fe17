//! The command-line tools, and what they share: programs and arrays from files, running, comparing, reporting.
//!
//! `hlo-run` runs programs, `hlo-opt` shows them at any stage, `hlo-bench` times them; [`file_test`] runs `test-files/`.
//! Absent on purpose: anything a library user would want, which belongs in the crate `halo`.

pub use data::{compare, fill, model_spec, npy, value_text};

pub mod arithmetic;
pub mod buffers;
pub mod check_nans;
pub mod conformance;
pub mod custom_call_stubs;
pub mod dot;
pub mod emit;
pub mod engine;
pub mod error;
pub mod explain_fusion;
pub mod file_test;
pub mod first_difference;
pub mod indexing_report;
mod input;
pub mod interrupt;
pub mod kernels;
pub mod least_time;
pub mod machine_limits;
pub mod module_file;
pub mod mutations;
pub mod operation_pairs;
pub mod outer_boundary;
pub mod page;
pub mod pass_run;
pub mod platform_name;
mod product_instructions;
pub mod profile;
pub mod program_part;
pub mod progress;
pub mod random_programs;
pub mod reduce;
pub mod run;
pub mod run_memory;
pub mod sensitivity;
pub mod source_line;
pub mod time_limit;
pub mod verify_diagnostics;
