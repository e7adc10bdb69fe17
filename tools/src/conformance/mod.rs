//! The conformance cases of `conformance/data`, run on both engines: programs of one operation on one element type, with
//! XLA:CPU's results.
//!
//! Cases of one operation are joined to one program before they are compiled (`joined`): compiling thousands of
//! programs one by one takes minutes. What a result may differ by stands in one table ([`tolerance`]); what compiled
//! code cannot do yet, in `conformance/gaps.txt` ([`gaps`]).

pub mod case;
mod difference;
pub mod gaps;
mod joined;
pub mod operations_page;
pub mod report;
mod runner;
pub mod tolerance;

pub use runner::{assemble, emulate, emulate_hopper, evaluate, execute, gpu, hopper, parse, verify};
