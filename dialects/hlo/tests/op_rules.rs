//! The shape rules and constraints of every operation, from `op_rules/*.txt`.
//!
//! A line with a declared result must be accepted and infer that result, dynamic dimensions included. A line
//! `name: operation` must be refused with the message on the next line; `<file>_c<n>` breaks constraint C<n> of
//! `src/ops/<file>.rs`, any other name a rule without label. `HALO_BLESS=1` writes the messages into the files.
//! Two more tests: each constraint has a case, and no number or operand kind in a case makes a rule panic.

#[path = "op_rules/case_text.rs"]
mod case_text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hlo::ops::{self, OpError, OpView};
use hlo::shape::Shape;
use libtest_mimic::{Arguments, Failed, Trial};

struct Case {
    /// Name of a case that must be refused.
    name: Option<String>,
    operation: String,
    message: String,
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let mut names = BTreeSet::new();
    let mut operations = Vec::new();
    for path in files(&manifest("tests/op_rules"), "txt") {
        let text = std::fs::read_to_string(&path).expect("a case file is readable");
        let text = if std::env::var_os("HALO_BLESS").is_some() { bless(&path, &text) } else { text };
        for case in cases(&text) {
            names.extend(case.name.clone());
            operations.push(case.operation.clone());
            let title = case.name.clone().unwrap_or_else(|| case.operation.clone());
            trials.push(Trial::test(title, move || run(&case)));
        }
    }
    trials.push(Trial::test("every_constraint_has_a_case", move || every_constraint_has_a_case(&names)));
    trials.push(Trial::test("hostile_values_do_not_panic", move || hostile_values_do_not_panic(&operations)));
    libtest_mimic::run(&arguments, trials).exit();
}

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

/// Cases of a file; `#` starts a comment line, an indented line is the message of the case before.
fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            if let Some(case) = cases.last_mut() {
                case.message = line.trim().to_string();
            }
            continue;
        }
        let named =
            line.split_once(": ").filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let (name, operation) = named.map_or((None, line), |(name, rest)| (Some(name.to_string()), rest));
        cases.push(Case { name, operation: operation.to_string(), message: String::new() });
    }
    cases
}

/// Checks the operation; returns the inferred shape.
fn check(text: &str) -> Result<Result<Shape, OpError>, String> {
    let operation = case_text::operation(text)?;
    let operands: Vec<&Shape> = operation.operands.iter().collect();
    let view = OpView {
        kind: operation.kind,
        operands: &operands,
        attributes: &operation.attributes,
        computations: &operation.computations,
        result: operation.result.as_ref(),
    };
    let inferred = ops::infer_shape(&view);
    Ok(match (&operation.result, inferred) {
        (Some(_), Ok(inferred)) => ops::verify(&view).map(|()| inferred),
        (_, inferred) => inferred,
    })
}

fn run(case: &Case) -> Result<(), Failed> {
    match (&case.name, check(&case.operation)?) {
        (None, Ok(inferred)) => {
            let declared = case_text::operation(&case.operation)?.result.ok_or("the case declares no result")?;
            if inferred.compatible(&declared) { Ok(()) } else { Err(format!("inferred {inferred}").into()) }
        }
        (None, Err(error)) => Err(format!("refused: {error}").into()),
        (Some(_), Ok(inferred)) => Err(format!("accepted, inferred {inferred}").into()),
        (Some(name), Err(error)) => {
            let expected = name.rsplit_once("_c").and_then(|(_, number)| number.parse::<u32>().ok());
            let found = error.label.and_then(|label| label.trim_start_matches('C').parse::<u32>().ok());
            if expected != found {
                return Err(format!("broke {found:?}, expected {expected:?}: {error}").into());
            }
            if error.message != case.message {
                return Err(
                    format!("expected `{}`, got `{}`; HALO_BLESS=1 accepts it", case.message, error.message).into()
                );
            }
            Ok(())
        }
    }
}

/// Rewrites the messages of a file.
fn bless(path: &Path, text: &str) -> String {
    let mut blessed = String::new();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        blessed.push_str(line);
        blessed.push('\n');
        for case in cases(line).iter().filter(|case| case.name.is_some()) {
            if let Ok(Err(error)) = check(&case.operation) {
                blessed.push_str(&format!("    {}\n", error.message));
            }
        }
    }
    std::fs::write(path, &blessed).expect("a case file is writable");
    blessed
}

fn every_constraint_has_a_case(names: &BTreeSet<String>) -> Result<(), Failed> {
    let mut missing = Vec::new();
    for path in files(&manifest("src/ops"), "rs") {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)?;
        let labels = text.lines().filter_map(|line| line.trim().strip_prefix("/// - C")?.split_once(':'));
        missing.extend(labels.map(|(number, _)| format!("{stem}_c{number}")).filter(|name| !names.contains(name)));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("no case breaks {}", missing.join(", ")).into()) }
}

/// Each number of each operation becomes each of these, and each operand each of those.
fn hostile_values_do_not_panic(operations: &[String]) -> Result<(), Failed> {
    let numbers = [
        "-9223372036854775808",
        "-9223372036854775807",
        "-1",
        "0",
        "1",
        "3",
        "4611686018427387904",
        "9223372036854775807",
    ];
    let shapes =
        ["token[]", "()", "(f32[2])", "opaque[]", "f32[?,<=3]", "pred[]", "c64[0,9223372036854775807]", "u4[-1]"];
    let mut variants = BTreeSet::new();
    for text in operations {
        for (start, end) in numbers_of(text) {
            variants.extend(numbers.iter().map(|number| format!("{}{number}{}", &text[..start], &text[end..])));
        }
        for (start, end) in shapes_of(text) {
            variants.extend(shapes.iter().map(|shape| format!("{}{shape}{}", &text[..start], &text[end..])));
        }
    }
    let mut checked = 0;
    for variant in &variants {
        let outcome = std::panic::catch_unwind(|| check(variant));
        match outcome {
            Ok(Ok(_)) => checked += 1,
            Ok(Err(_)) => {}
            Err(_) => return Err(format!("panicked: {variant}").into()),
        }
    }
    if checked > 10_000 {
        Ok(())
    } else {
        Err(format!("only {checked} of {} variants are operations", variants.len()).into())
    }
}

/// Places of the numbers, those in names apart.
fn numbers_of(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let starts = (0..bytes.len()).filter(|&place| {
        let before = place.checked_sub(1).map(|before| bytes[before]);
        bytes[place].is_ascii_digit()
            && !before.is_some_and(|b| b.is_ascii_digit() || b.is_ascii_alphabetic() && b != b'x')
    });
    let end = |start: usize| bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
    starts.map(|start| (start, end(start))).collect()
}

/// Places of the array shapes.
fn shapes_of(text: &str) -> Vec<(usize, usize)> {
    let places = text.match_indices('[').filter_map(|(open, _)| {
        let name = text[..open].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |before| before + 1);
        let close = text[open..].find(']')? + open + 1;
        (name < open).then_some((name, close))
    });
    places.collect()
}
