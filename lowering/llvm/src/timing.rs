//! Where compile time goes.

use std::{
    fmt,
    ops::AddAssign,
    time::{Duration, Instant},
};

/// Time spent in each phase from MLIR to machine code; summed over shards it is CPU time, not wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Parsing or building the MLIR module, and its context.
    pub build: Duration,
    /// Conversion to the LLVM dialect.
    pub lower: Duration,
    /// Translation to LLVM IR.
    pub translate: Duration,
    /// LLVM's passes.
    pub optimize: Duration,
    /// Code generation.
    pub emit: Duration,
}

impl Timings {
    /// The sum of all phases.
    pub fn total(&self) -> Duration {
        self.build + self.lower + self.translate + self.optimize + self.emit
    }
}

impl AddAssign for Timings {
    fn add_assign(&mut self, other: Self) {
        self.build += other.build;
        self.lower += other.lower;
        self.translate += other.translate;
        self.optimize += other.optimize;
        self.emit += other.emit;
    }
}

impl fmt::Display for Timings {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let phases = [
            ("build", self.build),
            ("lower", self.lower),
            ("translate", self.translate),
            ("optimize", self.optimize),
            ("emit", self.emit),
            ("total", self.total()),
        ];
        for (index, (name, duration)) in phases.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{name} {:.2} ms", duration.as_secs_f64() * 1e3)?;
        }
        Ok(())
    }
}

/// Runs `call` and adds its duration to `phase`.
pub(crate) fn timed<T>(phase: &mut Duration, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    *phase += start.elapsed();
    result
}
