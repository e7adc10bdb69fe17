//! The cases of `conformance/data` as tests: one for each operation of a family and each engine. And
//! `docs/operations.md`, which is made from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use libtest_mimic::{Failed, Trial};
use tools::conformance::case::{ConformanceCase, read_family};
use tools::conformance::gaps::Gaps;
use tools::conformance::operations_page::{self, Sources};
use tools::conformance::report::{CaseOutcome, ConformanceReport};
use tools::conformance::{assemble, emulate, emulate_hopper, evaluate, execute, hopper, parse, verify};

/// What is done with the cases, by the name in tests and counts.
type Run = fn(&[Arc<ConformanceCase>]) -> Vec<CaseOutcome>;
const ENGINES: [(&str, Run); 4] =
    [("parsed", parse), ("verified", verify), ("evaluated", evaluate), ("compiled", execute)];

/// What is done with a sample of the cases, for GPUs: they are played by the host, and their code goes through the assembler.
const GPU_ENGINES: [(&str, Run); 2] = [("emulated", emulate), ("assembled", assemble)];

/// What is done with those of products too: of these alone the code is another one.
const HOPPER_ENGINE: (&str, Run) = ("emulated sm_90a", emulate_hopper);

/// Cases of each operation and element type in the sample, unless `HALO_ALL_GPU_CASES` asks for all.
const GPU_CASES: usize = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// One test for each operation of each family and each engine; they count their cases in the report.
pub fn trials(report: &Arc<Mutex<ConformanceReport>>, bless: bool) -> Vec<Trial> {
    let folder = root().join("conformance");
    let gaps = std::fs::read_to_string(folder.join("gaps.txt")).map_err(|error| error.to_string());
    let gaps = Arc::new(gaps.and_then(|text| Gaps::read(&text)).unwrap_or_else(|error| panic!("gaps.txt: {error}")));
    let mut trials = Vec::new();
    let mut all: BTreeMap<OpKind, Vec<Arc<ConformanceCase>>> = BTreeMap::new();
    for path in files(&folder.join("data")) {
        let family = path.file_name().unwrap_or_default().to_string_lossy().replace(".jsonl.gz", "");
        let cases = read_family(&path).unwrap_or_else(|error| panic!("{}", error.render()));
        for (op, cases) in cases {
            for (engine, run) in ENGINES {
                let (cases, gaps, report) = (cases.clone(), Arc::clone(&gaps), Arc::clone(report));
                let name = format!("conformance/{family}/{op} {engine}");
                trials.push(Trial::test(name, move || run_cases(engine, run, &cases, &gaps, &report)));
            }
            let sample = gpu_cases(&cases);
            let is_product = definition(op).class == OpClass::Contraction;
            let of_hopper = hopper().filter(|_| is_product).map(|_| HOPPER_ENGINE);
            for (engine, run) in GPU_ENGINES.into_iter().chain(of_hopper).filter(|_| !sample.is_empty()) {
                let (cases, gaps, report) = (sample.clone(), Arc::clone(&gaps), Arc::clone(report));
                let name = format!("conformance/{family}/{op} {engine}");
                trials.push(Trial::test(name, move || run_cases(engine, run, &cases, &gaps, &report)));
            }
            all.entry(op).or_default().extend(cases);
        }
    }
    trials.push(Trial::test("operations page", move || operations_page(&all, &gaps, bless)));
    trials
}

/// The cases of an operation that are compiled for a GPU: those for one device, a sample of each element type.
fn gpu_cases(cases: &[Arc<ConformanceCase>]) -> Vec<Arc<ConformanceCase>> {
    let is_sampled = std::env::var_os("HALO_ALL_GPU_CASES").is_none();
    let mut taken: BTreeMap<ElementType, usize> = BTreeMap::new();
    let mut take = |case: &&Arc<ConformanceCase>| {
        let taken = taken.entry(case.element_type).or_default();
        *taken += 1;
        case.devices.total() == 1 && (!is_sampled || *taken <= GPU_CASES)
    };
    cases.iter().filter(|case| take(case)).cloned().collect()
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn run_cases(
    engine: &'static str,
    run: Run,
    cases: &[Arc<ConformanceCase>],
    gaps: &Gaps,
    report: &Mutex<ConformanceReport>,
) -> Result<(), Failed> {
    let outcomes = run(cases);
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    let mut failures = String::new();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        report.add(engine, case, outcome);
        match outcome {
            CaseOutcome::Agrees => {}
            CaseOutcome::Unsupported(_) if gaps.contains(case.op) => {}
            CaseOutcome::Unsupported(message) | CaseOutcome::Fails(message) => {
                failures.push_str(&format!("{}: {message}\n", case.name()));
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.into()) }
}

/// Every operation and every element type has cases, and the page says so.
fn operations_page(
    cases: &BTreeMap<OpKind, Vec<Arc<ConformanceCase>>>,
    gaps: &Gaps,
    bless: bool,
) -> Result<(), Failed> {
    let has_case = |element_type: &ElementType| cases.values().flatten().any(|case| case.element_type == *element_type);
    if let Some(missing) = ElementType::all().find(|element_type| !has_case(element_type)) {
        return Err(format!("no conformance case is about {missing}").into());
    }
    let rules = files(&root().join("dialects/hlo/tests/op_rules"));
    let rules: String = rules
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display())))
        .collect::<Result<_, String>>()?;
    let page = operations_page::page(&Sources { cases, rules: &rules, gaps })?;
    let path = root().join("docs/operations.md");
    if bless {
        return std::fs::write(&path, page).map_err(|error| error.to_string().into());
    }
    if std::fs::read_to_string(&path).is_ok_and(|text| text == page) {
        return Ok(());
    }
    Err("docs/operations.md is not what the tests' data say: ./x bless operations".into())
}
