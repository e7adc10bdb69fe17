//! What a case did, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::check_nans::Culprit;
use crate::compare::ArrayComparison;

/// Outcome of one case.
#[derive(Debug, Default)]
pub struct RunReport {
    /// The program's file.
    pub module: String,
    /// Phases of compilation.
    pub phases: Vec<(String, Duration)>,
    /// Time of each execution.
    pub runs: Vec<Duration>,
    /// Bytes that an execution needs besides arguments and results.
    pub arena_bytes: Option<usize>,
    /// Shape of each output array.
    pub shapes: Vec<String>,
    /// Comparison of each output with its expected values, where there are some.
    pub comparisons: Vec<ArrayComparison>,
    /// The result as text, when nothing else was done with it.
    pub values: Vec<String>,
    /// Where the first NaN or infinity came from.
    pub culprit: Option<Culprit>,
    /// Whether such a place was looked for.
    pub checked_nans: bool,
    /// Devices that the program ran on; outputs and values are those of the first, then those of the next.
    pub devices: usize,
    /// Inputs that hold NaN or infinity: their names and what they hold.
    pub special_inputs: Vec<(String, &'static str)>,
}

impl RunReport {
    /// Whether every comparison agrees.
    pub fn agrees(&self) -> bool {
        self.comparisons.iter().all(ArrayComparison::agrees) && self.culprit.is_none()
    }

    /// The report for people; `timed` adds the times.
    pub fn text(&self, timed: bool) -> String {
        let mut text = String::new();
        for (number, value) in self.values.iter().enumerate() {
            let _ = match self.device_of(number, self.values.len()) {
                Some((device, _)) => writeln!(text, "device {device}: {value}"),
                None => writeln!(text, "{value}"),
            };
        }
        for (number, comparison) in self.comparisons.iter().enumerate() {
            let shape = self.shapes.get(number).map(String::as_str).unwrap_or_default();
            let number = match self.device_of(number, self.comparisons.len()) {
                Some((device, number)) => {
                    let _ = write!(text, "device {device} ");
                    number
                }
                None => number,
            };
            let outcome = if comparison.agrees() { "agrees" } else { "DIFFERS" };
            if let (Some(mismatch), 0) = (&comparison.mismatch, comparison.compared) {
                let _ = writeln!(text, "output {number} {shape}: DIFFERS; {mismatch}");
                continue;
            }
            let _ = write!(text, "output {number} {shape}: {outcome}, worst deviation {:.2e}", comparison.worst);
            let _ = if comparison.agrees() {
                writeln!(text, " in {} elements", comparison.compared)
            } else {
                writeln!(text, "; {comparison}")
            };
            if comparison.moved > 0 {
                let _ = writeln!(
                    text,
                    "  note: {} of {} elements are beyond the tolerance, but within what they move by when inputs move by one unit in the last place",
                    comparison.moved, comparison.compared
                );
            }
            if let Some(note) = &comparison.note {
                let _ = writeln!(text, "  note: {note}");
            }
        }
        for (name, what) in &self.special_inputs {
            let _ = writeln!(text, "input `{name}` has {what}");
        }
        match &self.culprit {
            Some(culprit) => {
                let place = culprit.position.map(|position| format!(" at {}:{position}", self.module));
                let origin = culprit.source_line.as_ref().map(|line| format!(", from {line}"));
                let _ = writeln!(
                    text,
                    "first {} in `{}` ({}){}{}",
                    culprit.what,
                    culprit.instruction,
                    culprit.kind,
                    place.unwrap_or_default(),
                    origin.unwrap_or_default()
                );
            }
            None if !self.special_inputs.is_empty() => text.push_str("no other NaN or infinity arises\n"),
            None if self.checked_nans => text.push_str("no NaN or infinity arises\n"),
            None => {}
        }
        if timed {
            self.write_times(&mut text);
        }
        text
    }

    /// The device that output `number` of all is of, and its number there; `None` of one device.
    fn device_of(&self, number: usize, all: usize) -> Option<(usize, usize)> {
        let each = all.checked_div(self.devices).filter(|&each| each > 0 && self.devices > 1)?;
        Some((number / each, number % each))
    }

    fn write_times(&self, text: &mut String) {
        let total: Duration = self.phases.iter().map(|phase| phase.1).sum();
        let _ = writeln!(text, "compile  {:>10.3} ms", milliseconds(total));
        for (phase, time) in &self.phases {
            let _ = writeln!(text, "  {phase:<20} {:>10.3} ms", milliseconds(*time));
        }
        if let (Some(least), Some(median)) = (self.runs.iter().min(), median(&self.runs)) {
            let _ = writeln!(
                text,
                "run      {:>10.3} ms median, {:.3} ms min of {}",
                milliseconds(median),
                milliseconds(*least),
                self.runs.len()
            );
        }
        if let Some(bytes) = self.arena_bytes {
            let _ = writeln!(text, "arena    {:>10.3} MB", bytes as f64 / 1e6);
        }
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let phases: serde_json::Map<String, Value> =
            self.phases.iter().map(|(phase, time)| (phase.clone(), json!(milliseconds(*time)))).collect();
        let outputs: Vec<Value> = self
            .shapes
            .iter()
            .enumerate()
            .map(|(number, shape)| match self.comparisons.get(number) {
                None => json!({ "shape": shape }),
                Some(comparison) => json!({
                    "shape": shape,
                    "agrees": comparison.agrees(),
                    // JSON has no infinity.
                    "worst": if comparison.worst.is_finite() { json!(comparison.worst) } else { json!("inf") },
                    "compared": comparison.compared,
                    "wrong": comparison.wrong,
                    "moved": comparison.moved,
                    "mismatch": comparison.mismatch,
                    "note": comparison.note,
                }),
            })
            .collect();
        let nans = self.culprit.as_ref().map(|culprit| {
            json!({
                "what": culprit.what,
                "instruction": culprit.instruction,
                "opcode": culprit.kind.text_name(),
                "position": culprit.position.map(|position| position.to_string()),
                "source": culprit.source_line,
            })
        });
        json!({
            "module": self.module,
            "status": if self.agrees() { "good" } else { "differs" },
            "compile_ms": phases,
            "run_ms": {
                "min": self.runs.iter().min().map(|time| milliseconds(*time)),
                "median": median(&self.runs).map(milliseconds),
                "runs": self.runs.len(),
            },
            "arena_bytes": self.arena_bytes,
            "devices": self.devices,
            "outputs": outputs,
            "first_nan": nans,
            "special_inputs": self.special_inputs.iter().map(|(name, what)| json!([name, what])).collect::<Vec<_>>(),
        })
    }
}

/// Middle of the sorted times; of an even number the upper one.
pub fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
