//! Where the time of a run goes: a table of kernels, and a trace that Perfetto and `chrome://tracing` open.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use halo::pipeline::Phase;
use halo::{CompileOptions, Cost, Executable, ProfiledStep, StepRun};
use hlo::graph::Module;
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::kernels::{Kernel, bytes_text, compiled_to, kernels};

/// What a program's steps did in its runs.
#[derive(Debug, Default)]
pub struct Profile {
    /// Each step that ran, the longest first.
    pub rows: Vec<Row>,
    /// Runs that were observed.
    pub runs: usize,
    /// The time of all these runs together.
    pub total: Duration,
    events: Vec<(usize, StepRun)>,
    origin: Option<Instant>,
}

/// A step and its time.
#[derive(Clone, Debug)]
pub struct Row {
    /// The step.
    pub step: ProfiledStep,
    /// What is known of it as a kernel.
    pub kernel: Option<Kernel>,
    /// Executions in all runs.
    pub calls: usize,
    /// Time of all of them.
    pub time: Duration,
}

impl Row {
    /// Billions of a figure of the step's cost a second.
    fn rate(&self, figure: u64) -> f64 {
        figure as f64 * self.calls as f64 / self.time.as_secs_f64().max(1e-9) / 1e9
    }

    /// Bytes moved a second, in GB.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.rate(self.step.cost.bytes_accessed)
    }

    /// Arithmetic a second, in GFLOP.
    pub fn gigaflops(&self) -> f64 {
        let Cost { flops, transcendentals, .. } = self.step.cost;
        self.rate(flops.saturating_add(transcendentals))
    }

    /// What the step is, in few words.
    pub fn what(&self) -> String {
        let Some(kernel) = &self.kernel else { return format!("{} for it", self.step.operation) };
        match kernel.origin() {
            "" => kernel.summary(),
            origin => format!("{}  {origin}", kernel.summary()),
        }
    }
}

impl Profile {
    /// The profile of runs of a program, each with its time.
    ///
    /// # Errors
    /// Those of the passes that find out what the kernels are.
    pub fn new(
        module: &Module,
        executable: &Executable,
        options: &CompileOptions,
        runs: &[(Duration, Vec<StepRun>)],
    ) -> Result<Profile, ToolError> {
        let fused = compiled_to(module, Phase::Fused, options)?;
        let mut known: HashMap<String, Kernel> =
            kernels(&fused)?.into_iter().map(|kernel| (kernel.name.clone(), kernel)).collect();
        let row = |step: &ProfiledStep| Row {
            step: step.clone(),
            kernel: known.remove(&step.name).filter(|kernel| kernel.kind.text_name() == step.operation),
            calls: 0,
            time: Duration::ZERO,
        };
        let mut rows: Vec<Row> = executable.profiled_steps().iter().map(row).collect();
        let mut events: Vec<(usize, StepRun)> = Vec::new();
        for (_, steps) in runs {
            for event in steps {
                rows[event.step].calls += event.calls;
                rows[event.step].time += event.time;
                events.push((event.step, *event));
            }
        }
        // Outer steps end after those in them; a trace lists them before.
        events.sort_by_key(|(_, event)| (event.start, std::cmp::Reverse(event.end)));
        let origin = events.first().map(|(_, event)| event.start);
        Ok(Profile { rows, runs: runs.len(), total: runs.iter().map(|(time, _)| *time).sum(), events, origin })
    }

    /// The steps that do not consist of others, the longest first.
    fn kernels(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| !row.step.has_steps && row.calls > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.time));
        rows
    }

    /// The time of all kernels, calls and copies.
    pub fn time_in_kernels(&self) -> Duration {
        self.kernels().iter().map(|row| row.time).sum()
    }

    /// A table of the steps that take most of the time.
    pub fn table(&self) -> String {
        const MOST: usize = 30;
        let kernels = self.kernels();
        let runs = self.runs.max(1) as f64;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 / runs;
        let share = |time: Duration| time.as_secs_f64() / self.total.as_secs_f64().max(1e-9) * 100.0;
        let mut text = format!(
            "{:>10} {:>6} {:>7} {:>10} {:>7} {:>8}  {:<22} {}\n",
            "ms a run", "%", "calls", "bytes", "GB/s", "GFLOP/s", "kernel", "what, origin"
        );
        for row in kernels.iter().take(MOST) {
            let line = format!(
                "{:>10.4} {:>6.2} {:>7} {:>10} {:>7.1} {:>8.1}  {:<22} {}",
                milliseconds(row.time),
                share(row.time),
                row.calls / self.runs.max(1),
                bytes_text(row.step.cost.bytes_accessed as f64),
                row.gigabytes_per_second(),
                row.gigaflops(),
                row.step.name,
                row.what(),
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if kernels.len() > MOST {
            let rest: Duration = kernels[MOST..].iter().map(|row| row.time).sum();
            let _ =
                writeln!(text, "{:>10.4} {:>6.2}  in {} more", milliseconds(rest), share(rest), kernels.len() - MOST);
        }
        let kernels = self.time_in_kernels();
        let _ = writeln!(
            text,
            "{:>10.4} {:>6.2}  in kernels, of {:.4} ms a run ({} runs)",
            milliseconds(kernels),
            share(kernels),
            milliseconds(self.total),
            self.runs
        );
        text
    }

    /// The profile as JSON: a row for each kernel.
    pub fn json(&self) -> Value {
        let kernels = self.kernels().into_iter().map(|row| {
            json!({
                "name": row.step.name,
                "operation": row.step.operation,
                "what": row.kernel.as_ref().map(Kernel::summary),
                "op_name": row.kernel.as_ref().and_then(|kernel| kernel.op_name.clone()),
                "source": row.kernel.as_ref().and_then(|kernel| kernel.source_line.clone()),
                "calls": row.calls,
                "ms": row.time.as_secs_f64() * 1e3,
                "bytes": row.step.cost.bytes_accessed,
                "flops": row.step.cost.flops,
                "transcendentals": row.step.cost.transcendentals,
                "gigabytes_per_second": row.gigabytes_per_second(),
                "gigaflops": row.gigaflops(),
            })
        });
        json!({
            "runs": self.runs,
            "total_ms": self.total.as_secs_f64() * 1e3,
            "kernels_ms": self.time_in_kernels().as_secs_f64() * 1e3,
            "kernels": kernels.collect::<Vec<_>>(),
        })
    }

    /// The runs in the trace event format.
    pub fn trace(&self) -> Value {
        let Some(origin) = self.origin else { return json!({ "traceEvents": [] }) };
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let events = self.events.iter().map(|&(step, event)| {
            let row = &self.rows[step];
            let Cost { flops, transcendentals, bytes_accessed } = row.step.cost;
            json!({
                "name": row.step.name,
                "cat": row.step.operation,
                "ph": "X",
                "ts": microseconds(event.start - origin),
                "dur": microseconds(event.end - event.start),
                "pid": 1,
                "tid": 1,
                "args": {
                    "what": row.what(),
                    "op_name": row.kernel.as_ref().and_then(|kernel| kernel.op_name.clone()),
                    "bytes": bytes_accessed,
                    "flops": flops,
                    "transcendentals": transcendentals,
                    "calls": event.calls,
                },
            })
        });
        json!({ "traceEvents": events.collect::<Vec<_>>(), "displayTimeUnit": "ms" })
    }
}
