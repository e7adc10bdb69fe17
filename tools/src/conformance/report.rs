//! Counts of cases: by operation, by element type, by the source of the results.

use std::collections::BTreeMap;
use std::fmt;

use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;

use super::case::{ConformanceCase, ResultSource};
use super::tolerance;

/// How a case came out on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The results agree.
    Agrees,
    /// It has no compiled code; the compiler's message.
    Unsupported(String),
    /// What differs.
    Fails(String),
}

/// Numbers of cases of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All.
    pub cases: usize,
    /// Those that agree.
    pub agree: usize,
    /// Those without compiled code.
    pub unsupported: usize,
}

impl Counts {
    fn add(&mut self, outcome: &CaseOutcome) {
        self.cases += 1;
        self.agree += usize::from(*outcome == CaseOutcome::Agrees);
        self.unsupported += usize::from(matches!(outcome, CaseOutcome::Unsupported(_)));
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { cases, agree, unsupported } = self;
        write!(f, "{agree}/{cases}")?;
        if *unsupported > 0 {
            write!(f, " ({unsupported} unsupported)")?;
        }
        Ok(())
    }
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct ConformanceReport {
    total: BTreeMap<&'static str, Counts>,
    by_op: BTreeMap<(OpKind, &'static str), Counts>,
    by_type: BTreeMap<(ElementType, &'static str), Counts>,
    by_source: BTreeMap<(ResultSource, &'static str), Counts>,
}

impl ConformanceReport {
    /// Counts a case that ran on an engine.
    pub fn add(&mut self, engine: &'static str, case: &ConformanceCase, outcome: &CaseOutcome) {
        self.total.entry(engine).or_default().add(outcome);
        self.by_op.entry((case.op, engine)).or_default().add(outcome);
        self.by_type.entry((case.element_type, engine)).or_default().add(outcome);
        self.by_source.entry((case.source, engine)).or_default().add(outcome);
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total.is_empty()
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance: cases that agree, by engine")?;
        for (engine, counts) in &self.total {
            writeln!(f, "  {engine}: {counts}")?;
        }
        table(f, "operation", self.by_op.iter().map(|((op, engine), counts)| (op.to_string(), *engine, *counts)))?;
        table(f, "type", self.by_type.iter().map(|((name, engine), counts)| (name.to_string(), *engine, *counts)))?;
        table(
            f,
            "source",
            self.by_source.iter().map(|((name, engine), counts)| (format!("{name:?}"), *engine, *counts)),
        )?;
        writeln!(f, "  tolerances (everything else is exact):")?;
        tolerance::rows().try_for_each(|row| writeln!(f, "    {row}"))
    }
}

/// One line for each name, with the counts of each engine.
fn table(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl Iterator<Item = (String, &'static str, Counts)>,
) -> fmt::Result {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, engine, counts) in rows {
        let entry = format!("{engine} {counts}");
        match lines.last_mut() {
            Some((last, text)) if *last == name => *text = format!("{text:<28} {entry}"),
            _ => lines.push((name, entry)),
        }
    }
    writeln!(f, "  by {title}:")?;
    lines.iter().try_for_each(|(name, text)| writeln!(f, "    {name:<26} {text}"))
}
