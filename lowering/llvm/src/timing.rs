//! Where compile time goes.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// Time spent in each phase from MLIR to machine code. Where several threads work, the time that passes is divided among
/// the phases by the work in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
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
        self.lower + self.translate + self.optimize + self.emit
    }

    /// Adds the times of another piece of work.
    pub(crate) fn add(&mut self, other: &Self) {
        self.lower += other.lower;
        self.translate += other.translate;
        self.optimize += other.optimize;
        self.emit += other.emit;
    }

    /// Adds what threads did in the time that `elapsed` on the calling thread.
    pub(crate) fn add_parallel<'t>(&mut self, elapsed: Duration, threads: impl Iterator<Item = &'t Self>) {
        let (mut optimize, mut emit) = (Duration::ZERO, Duration::ZERO);
        for thread in threads {
            optimize += thread.optimize;
            emit += thread.emit;
        }
        let share = optimize.as_secs_f64() / (optimize + emit).as_secs_f64().max(f64::MIN_POSITIVE);
        let optimize = elapsed.mul_f64(share);
        self.optimize += optimize;
        self.emit += elapsed.saturating_sub(optimize);
    }
}

impl fmt::Display for Timings {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let phases = [
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
