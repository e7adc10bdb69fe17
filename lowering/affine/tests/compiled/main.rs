//! Emitted code, compiled and run: loops of every dialect, the accuracy of the math functions, and every elementwise
//! operation against the reference evaluator.

mod compile_and_run;
mod elementwise;
mod machine_code;
mod math_accuracy;
