//! File tests: programs in comments-annotated files, each file a named test.
//!
//! A file holds cases separated by `// -----`. A case is a program with directives in whole-line comments:
//!
//! ```text
//! // test: pass cse precise            a command; at least one a case
//! // test: run cpu
//! HloModule m
//! ENTRY e { ... }
//! // run: e({1,2}, {3,4}) == {4,6}     checked by every interpret and run command of the case; `~=` allows rounding
//! // check: llvm.fadd                  LLVM FileCheck's meaning; also check-not, check-same, check-next
//! // expect:                           with `precise`: the whole output, to the end of the case
//! //   ...
//! ```
//!
//! and `// error: text` behind the line at fault (`// error@-1: text`, `// error@+1: text` for a neighbour).
//! A directive that does not exist is an error, and so is a case that checks nothing. With `HALO_BLESS=1` the
//! `expect:` blocks are rewritten instead of compared.

mod case;
mod expectation;
mod patterns;
mod run_line;
mod runner;

pub use runner::{FileOutcome, run_file};
