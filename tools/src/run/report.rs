//! What a case did, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hlo::ops::view::counted;
use serde_json::{Value, json};

use crate::check_nans::Culprit;
use crate::compare::ArrayComparison;
use crate::first_difference::{DifferenceCause, FirstDifference};
use crate::profile::Profile;
use crate::run_memory::RunMemory;

/// Outcome of one case.
#[derive(Debug, Default)]
pub struct RunReport {
    /// The program's file.
    pub module: String,
    /// Phases of compilation.
    pub phases: Vec<(String, Duration)>,
    /// Time of each execution.
    pub runs: Vec<Duration>,
    /// How long the GPU worked in the last execution, by its own clock.
    pub device_time: Option<Duration>,
    /// Bytes that an execution needs besides arguments and results.
    pub arena_bytes: Option<usize>,
    /// Custom calls that give zeros, with how many there are of each.
    pub stubs: BTreeMap<String, usize>,
    /// Shape of each output array.
    pub shapes: Vec<String>,
    /// ArrayComparison of each output with its expected values, where there are some.
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
    /// The result beside the evaluator's, where that was asked for.
    pub engines: Option<EngineComparison>,
    /// The time of each kernel, where that was asked for.
    pub profile: Option<Profile>,
    /// The memory of a run, where that was asked for.
    pub memory: Option<RunMemory>,
}

/// A result beside the evaluator's.
#[derive(Clone, Debug)]
pub struct EngineComparison {
    /// How they differ.
    pub comparison: ArrayComparison,
    /// Where they begin to.
    pub first: Option<FirstDifference>,
}

impl EngineComparison {
    fn write(&self, text: &mut String, module: &str) {
        let ArrayComparison { compared, worst, .. } = self.comparison;
        if self.comparison.agrees() {
            let _ = writeln!(text, "agrees with the interpreter, worst deviation {worst:.2e} in {compared} elements");
            return;
        }
        let _ = writeln!(text, "DIFFERS from the interpreter: {}", self.comparison);
        let Some(first) = &self.first else {
            text.push_str("  no part of the program differs\n");
            return;
        };
        let place = first.position.map(|position| format!(" at {module}:{position}")).unwrap_or_default();
        let origin = first.source_line.as_ref().map(|line| format!(", from {line}")).unwrap_or_default();
        let within: String = first.within.iter().map(|outer| format!(" in `{outer}`")).collect();
        let _ = writeln!(
            text,
            "  first in `{}` ({}){within}{place}{origin}: {}",
            first.instruction,
            first.kind.text_name(),
            first.comparison
        );
        let cause = match first.cause {
            DifferenceCause::Alone => "it differs alone too, on the interpreter's operands",
            DifferenceCause::Operands => {
                "alone it agrees: it enlarges differences of its operands, which are within the tolerance"
            }
            DifferenceCause::Together => {
                "alone, on the interpreter's operands, it agrees: what is compiled together with it matters"
            }
        };
        let _ = writeln!(text, "  {cause} ({} programs compared)", first.programs);
    }

    fn json(&self) -> Value {
        json!({
            "agrees": self.comparison.agrees(),
            "worst": if self.comparison.worst.is_finite() { json!(self.comparison.worst) } else { json!("inf") },
            "wrong": self.comparison.wrong,
            "compared": self.comparison.compared,
            "first_difference": self.first.as_ref().map(|first| json!({
                "instruction": first.instruction,
                "opcode": first.kind.text_name(),
                "within": first.within,
                "position": first.position.map(|position| position.to_string()),
                "source": first.source_line,
                "cause": match first.cause {
                    DifferenceCause::Alone => "alone",
                    DifferenceCause::Operands => "operands",
                    DifferenceCause::Together => "together",
                },
            })),
        })
    }
}

impl RunReport {
    /// Whether every comparison agrees.
    pub fn agrees(&self) -> bool {
        self.comparisons.iter().all(ArrayComparison::agrees)
            && self.culprit.is_none()
            && self.engines.as_ref().is_none_or(|engines| engines.comparison.agrees())
    }

    /// The report for people; `timed` adds the times.
    pub fn text(&self, timed: bool) -> String {
        let mut text = String::new();
        for (target, count) in &self.stubs {
            let _ = writeln!(text, "note: {} of `{target}` gives zeros", counted(*count, "call"));
        }
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
        if let Some(engines) = &self.engines {
            engines.write(&mut text, &self.module);
        }
        if timed {
            self.write_times(&mut text);
        }
        if let Some(memory) = &self.memory {
            text.push_str(&memory.text());
        }
        if let Some(profile) = &self.profile {
            text.push_str(&profile.table());
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
        if self.runs.len() >= 10 {
            let [p90, p99, greatest] = [90, 99, 100].map(|part| percentile(&self.runs, part).map_or(0.0, milliseconds));
            let _ = writeln!(text, "         {p90:>10.3} ms at 90 %, {p99:.3} ms at 99 %, {greatest:.3} ms max");
        }
        if let Some(time) = self.device_time {
            let _ = writeln!(text, "device   {:>10.3} ms in the last run", milliseconds(time));
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
        let mut report = json!({
            "module": self.module,
            "status": if self.agrees() { "good" } else { "differs" },
            "compile_ms": phases,
            "run_ms": {
                "min": self.runs.iter().min().map(|time| milliseconds(*time)),
                "median": median(&self.runs).map(milliseconds),
                "p90": percentile(&self.runs, 90).map(milliseconds),
                "p99": percentile(&self.runs, 99).map(milliseconds),
                "max": self.runs.iter().max().map(|time| milliseconds(*time)),
                "runs": self.runs.len(),
            },
            "arena_bytes": self.arena_bytes,
            "devices": self.devices,
            "outputs": outputs,
            "first_nan": nans,
            "special_inputs": self.special_inputs.iter().map(|(name, what)| json!([name, what])).collect::<Vec<_>>(),
        });
        if !self.stubs.is_empty() {
            report["stubs"] = json!(self.stubs);
        }
        if let Some(engines) = &self.engines {
            report["interpreter"] = engines.json();
        }
        if let Some(profile) = &self.profile {
            report["profile"] = profile.json();
        }
        if let Some(memory) = &self.memory {
            report["memory"] = memory.json();
        }
        report
    }
}

/// Middle of the sorted times; of an even number the upper one.
pub fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// The least time that so many of a hundred runs do not exceed.
fn percentile(times: &[Duration], part: usize) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * part).div_ceil(100).saturating_sub(1)).copied()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
