//! Passes written in Rust, registered with MLIR: usable in any textual pipeline beside MLIR's own.
//!
//! [`register`] gives a [`PassDefinition`] to MLIR's registry. While a [`PassPipeline`](crate::pass_pipeline::PassPipeline)
//! runs, its passes leave what they counted and why they failed in a [`PassRun`], which the caller gets: MLIR itself only
//! says whether a pass failed. A panic in a pass ends there, as a failure of kind [`FailureKind::Bug`].

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use melior::StringRef;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_sys::{MlirOperation, MlirStringCallback, MlirStringRef};

use crate::operations;

/// The operations that a pass runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// `builtin.module`.
    Module,
    /// `func.func`.
    Function,
}

impl Anchor {
    /// Name of the operations.
    pub fn operation_name(self) -> &'static str {
        match self {
            Anchor::Module => "builtin.module",
            Anchor::Function => "func.func",
        }
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// A whole number, 0 or greater.
    Integer,
    /// `true` or `false`.
    Boolean,
}

impl OptionKind {
    fn accepts(self, value: &str) -> bool {
        match self {
            OptionKind::Text => true,
            OptionKind::Integer => value.parse::<u64>().is_ok(),
            OptionKind::Boolean => value.parse::<bool>().is_ok(),
        }
    }

    fn description(self) -> &'static str {
        match self {
            OptionKind::Text => "text",
            OptionKind::Integer => "an integer",
            OptionKind::Boolean => "true or false",
        }
    }
}

/// An option of a pass, `name=value` in pipelines.
#[derive(Clone, Copy, Debug)]
pub struct OptionDefinition {
    /// Name, in kebab-case.
    pub name: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// The values it takes.
    pub kind: OptionKind,
    /// The value where a pipeline gives none.
    pub default: &'static str,
}

/// Values of a pass's options.
#[derive(Clone, Debug)]
pub struct PassOptions<'a> {
    definitions: &'static [OptionDefinition],
    values: Vec<&'a str>,
}

impl<'a> PassOptions<'a> {
    /// The values where a pipeline gives none.
    pub fn defaults(definitions: &'static [OptionDefinition]) -> PassOptions<'static> {
        PassOptions { definitions, values: definitions.iter().map(|option| option.default).collect() }
    }

    fn get(&self, name: &str, kind: OptionKind) -> Result<&'a str, PassFailure> {
        let place = self.definitions.iter().position(|option| option.name == name && option.kind == kind);
        place.and_then(|place| self.values.get(place).copied()).ok_or_else(|| {
            PassFailure::bug(format!("the pass declares no option `{name}` that is {}", kind.description()))
        })
    }

    /// Value of an option of kind [`OptionKind::Text`].
    ///
    /// # Errors
    /// A bug, if the pass declares no such option.
    pub fn text(&self, name: &str) -> Result<&'a str, PassFailure> {
        self.get(name, OptionKind::Text)
    }

    /// Value of an option of kind [`OptionKind::Integer`].
    ///
    /// # Errors
    /// A bug, if the pass declares no such option.
    pub fn integer(&self, name: &str) -> Result<u64, PassFailure> {
        let value = self.get(name, OptionKind::Integer)?;
        value.parse().map_err(|_| PassFailure::bug(format!("option `{name}` was not checked: `{value}`")))
    }

    /// Value of an option of kind [`OptionKind::Boolean`].
    ///
    /// # Errors
    /// A bug, if the pass declares no such option.
    pub fn boolean(&self, name: &str) -> Result<bool, PassFailure> {
        let value = self.get(name, OptionKind::Boolean)?;
        value.parse().map_err(|_| PassFailure::bug(format!("option `{name}` was not checked: `{value}`")))
    }
}

/// How often each rule of a pass was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassStatistics {
    /// (rule, hits), in the order of first hits.
    pub hits: Vec<(&'static str, u64)>,
    /// Why the pass ended before it was done, if it did.
    pub stopped: Option<&'static str>,
}

impl PassStatistics {
    /// Counts hits of a rule.
    pub fn add(&mut self, rule: &'static str, hits: u64) {
        if hits == 0 {
            return;
        }
        match self.hits.iter_mut().find(|(name, _)| *name == rule) {
            Some((_, count)) => *count += hits,
            None => self.hits.push((rule, hits)),
        }
    }

    /// Hits of a rule.
    pub fn of(&self, rule: &str) -> u64 {
        self.hits.iter().find(|(name, _)| *name == rule).map_or(0, |(_, hits)| *hits)
    }

    /// Hits of all rules.
    pub fn total(&self) -> u64 {
        self.hits.iter().map(|(_, hits)| hits).sum()
    }

    /// Adds the hits of another run of the pass.
    pub fn merge(&mut self, other: &PassStatistics) {
        other.hits.iter().for_each(|(rule, hits)| self.add(rule, *hits));
        self.stopped = self.stopped.or(other.stopped);
    }
}

impl fmt::Display for PassStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (rule, hits)) in self.hits.iter().enumerate() {
            let separator = if position > 0 { ", " } else { "" };
            write!(f, "{separator}{rule}: {hits}")?;
        }
        if let Some(reason) = self.stopped {
            write!(f, " (stopped: {reason})")?;
        }
        Ok(())
    }
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The program's: it breaks a rule.
    Invalid,
    /// Nobody's: the program is valid, but uses something that is not implemented.
    Unsupported,
    /// The compiler's.
    Bug,
}

/// Why a pass failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", bug_prefix(.kind, .pass))]
pub struct PassFailure {
    /// Name of the pass; empty until the pass manager knows it.
    pub pass: &'static str,
    /// Whose fault it is.
    pub kind: FailureKind,
    /// What is wrong.
    pub message: String,
    /// Name of the instruction that is at fault, if one is.
    pub instruction: Option<String>,
}

fn bug_prefix(kind: &FailureKind, pass: &str) -> String {
    if *kind == FailureKind::Bug { format!("pass `{pass}`: ") } else { String::new() }
}

impl PassFailure {
    /// A failure of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        PassFailure { pass: "", kind, message: message.into(), instruction: None }
    }

    /// The same failure, at an instruction.
    pub fn at(self, instruction: Option<String>) -> Self {
        PassFailure { instruction, ..self }
    }

    /// A bug of the compiler.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Bug, message)
    }
}

/// The function of a pass.
pub type PassBody =
    Box<dyn Fn(OperationRef<'_, '_>, &PassOptions<'_>, &mut PassStatistics) -> Result<(), PassFailure> + Send + Sync>;

/// A pass to register.
pub struct PassDefinition {
    /// Name in pipelines, in kebab-case.
    pub argument: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// The operations that it runs on.
    pub anchor: Anchor,
    /// Its options.
    pub options: &'static [OptionDefinition],
    /// Dialects whose operations it makes, which are loaded before it runs.
    pub dialects: &'static [&'static str],
    /// Its function.
    pub body: PassBody,
}

/// What one pass did on one operation.
#[derive(Clone, Debug)]
pub struct PassReport {
    /// Name of the pass.
    pub pass: &'static str,
    /// Its hits.
    pub statistics: PassStatistics,
    /// Time that it took.
    pub elapsed: Duration,
}

/// What the passes of this module did while a pipeline ran.
#[derive(Clone, Debug, Default)]
pub struct PassRun {
    /// One report for each pass and operation, in order.
    pub reports: Vec<PassReport>,
    /// Why a pass failed.
    pub(crate) failure: Option<PassFailure>,
}

impl PassRun {
    /// Time that a pass took, on all operations.
    pub fn elapsed_in(&self, pass: &str) -> Duration {
        self.reports.iter().filter(|report| report.pass == pass).map(|report| report.elapsed).sum()
    }

    /// Time from the beginning of the run to the end of a pass, without that of passes that are not of this module.
    pub fn elapsed_until(&self, pass: &str) -> Duration {
        let end = self.reports.iter().rposition(|report| report.pass == pass).map_or(0, |place| place + 1);
        self.reports[..end].iter().map(|report| report.elapsed).sum()
    }
}

thread_local! {
    /// The pipelines that this thread runs, the innermost last. Contexts have no threads of their own, so passes run on
    /// the thread that runs the pipeline.
    static RUNS: RefCell<Vec<PassRun>> = const { RefCell::new(Vec::new()) };
}

/// Runs a pipeline and returns what its passes did.
pub(crate) fn record<T>(run: impl FnOnce() -> T) -> (T, PassRun) {
    RUNS.with_borrow_mut(|runs| runs.push(PassRun::default()));
    let result = run();
    // The entry is there, as passes only add to it and inner pipelines take theirs away.
    (result, RUNS.with_borrow_mut(Vec::pop).unwrap_or_default())
}

/// MLIR's registry has no lock of its own.
static REGISTRY: RwLock<()> = RwLock::new(());

/// What was registered here.
static DEFINITIONS: Mutex<BTreeMap<&'static str, &'static PassDefinition>> = Mutex::new(BTreeMap::new());

/// Keeps passes from being registered while a pipeline is parsed.
pub(crate) fn registry() -> RwLockReadGuard<'static, ()> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

/// Changes MLIR's registry while no pipeline is parsed.
pub(crate) fn change_registry(change: impl FnOnce()) {
    let _guard = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    change();
}

/// Registers passes with MLIR, for the rest of the process. A name that is registered keeps its first definition.
pub fn register(definitions: impl IntoIterator<Item = PassDefinition>) {
    let mut definitions_by_name = DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner);
    for definition in definitions {
        if let Entry::Vacant(entry) = definitions_by_name.entry(definition.argument) {
            let leaked = RegisteredPass::leak(definition);
            entry.insert(&leaked.definition);
            let registered: *const RegisteredPass = leaked;
            // SAFETY: the definition lives for ever, and nothing else uses the registry.
            change_registry(|| unsafe { haloRegisterPass(registered.cast()) });
        }
    }
}

/// The passes that were registered, by name.
pub fn registered() -> Vec<&'static PassDefinition> {
    DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
}

/// `HaloPassOption` of `capi/Passes.cpp`.
#[repr(C)]
struct RawOption {
    name: MlirStringRef,
    description: MlirStringRef,
    default: MlirStringRef,
}

/// `HaloPassDefinition` of `capi/Passes.cpp`, and behind it what only Rust reads.
#[repr(C)]
struct RegisteredPass {
    argument: MlirStringRef,
    description: MlirStringRef,
    anchor: MlirStringRef,
    options: *const RawOption,
    option_count: isize,
    dialects: *const MlirStringRef,
    dialect_count: isize,
    run: unsafe extern "C" fn(*const RegisteredPass, MlirOperation, *const MlirStringRef) -> bool,
    check: unsafe extern "C" fn(*const RegisteredPass, isize, MlirStringRef, MlirStringCallback, *mut c_void) -> bool,
    definition: PassDefinition,
}

unsafe extern "C" {
    // A `RegisteredPass`, whose end only Rust reads.
    fn haloRegisterPass(definition: *const c_void);
}

fn raw_text(text: &'static str) -> MlirStringRef {
    StringRef::new(text).to_raw()
}

impl RegisteredPass {
    fn leak(definition: PassDefinition) -> &'static Self {
        let option = |option: &OptionDefinition| RawOption {
            name: raw_text(option.name),
            description: raw_text(option.description),
            default: raw_text(option.default),
        };
        let options: &'static [RawOption] = definition.options.iter().map(option).collect::<Vec<_>>().leak();
        let dialects: &'static [MlirStringRef] =
            definition.dialects.iter().map(|name| raw_text(name)).collect::<Vec<_>>().leak();
        Box::leak(Box::new(RegisteredPass {
            argument: raw_text(definition.argument),
            description: raw_text(definition.description),
            anchor: raw_text(definition.anchor.operation_name()),
            options: options.as_ptr(),
            option_count: options.len() as isize,
            dialects: dialects.as_ptr(),
            dialect_count: dialects.len() as isize,
            run: run_pass,
            check: check_option,
            definition,
        }))
    }
}

/// # Safety
/// The string must be alive for `'a`.
unsafe fn text<'a>(string: MlirStringRef) -> &'a str {
    if string.length == 0 {
        return "";
    }
    // SAFETY: the caller answers for the lifetime; a non-empty string has a valid pointer.
    let bytes = unsafe { std::slice::from_raw_parts(string.data.cast::<u8>(), string.length) };
    // Not a text that any option accepts, unless it accepts every text.
    std::str::from_utf8(bytes).unwrap_or("\u{fffd}")
}

unsafe extern "C" fn run_pass(
    pass: *const RegisteredPass,
    operation: MlirOperation,
    values: *const MlirStringRef,
) -> bool {
    // SAFETY: the pass lives for ever. MLIR gives a live operation, which only this pass uses during the call, and a
    // value for each option.
    let (definition, root, values) = unsafe {
        let definition = &(*pass).definition;
        let values = (0..definition.options.len()).map(|place| text(*values.add(place))).collect();
        (definition, OperationRef::from_raw(operation), values)
    };
    let options = PassOptions { definitions: definition.options, values };
    let mut statistics = PassStatistics::default();
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| (definition.body)(root, &options, &mut statistics)))
        .unwrap_or_else(|panic| Err(PassFailure::bug(format!("panicked: {}", panic_message(panic.as_ref())))))
        .map_err(|failure| PassFailure { pass: definition.argument, ..failure });
    let elapsed = start.elapsed();
    let failure = result.err();
    if let Some(failure) = &failure {
        operations::emit_error(root.location(), &failure.to_string());
    }
    let succeeded = failure.is_none();
    RUNS.with_borrow_mut(|runs| {
        if let Some(run) = runs.last_mut() {
            run.reports.push(PassReport { pass: definition.argument, statistics, elapsed });
            run.failure = run.failure.take().or(failure);
        }
    });
    succeeded
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

unsafe extern "C" fn check_option(
    pass: *const RegisteredPass,
    option: isize,
    value: MlirStringRef,
    message: MlirStringCallback,
    data: *mut c_void,
) -> bool {
    // SAFETY: the pass lives for ever, the value during the call.
    let (definition, value) = unsafe { (&(*pass).definition, text(value)) };
    let Some(option) = definition.options.get(option as usize) else { return false };
    if option.kind.accepts(value) {
        return true;
    }
    let (kind, pass) = (option.kind.description(), definition.argument);
    let said = format!("option `{}` of pass `{pass}` must be {kind}, got `{value}`\n", option.name);
    if let Some(message) = message {
        // SAFETY: the callback copies the text, and the data is what it came with.
        unsafe { message(StringRef::new(&said).to_raw(), data) };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass_pipeline::{PassPipeline, PipelineError};
    use melior::Context;
    use melior::ir::Module;

    const OPTIONS: &[OptionDefinition] = &[
        OptionDefinition { name: "times", description: "hits", kind: OptionKind::Integer, default: "1" },
        OptionDefinition { name: "label", description: "text", kind: OptionKind::Text, default: "none" },
        OptionDefinition { name: "fail", description: "fails", kind: OptionKind::Boolean, default: "false" },
    ];

    fn definition(argument: &'static str, anchor: Anchor, body: PassBody) -> PassDefinition {
        let dialects: &[&str] = if anchor == Anchor::Module { &["affine"] } else { &[] };
        PassDefinition { argument, description: "a test", anchor, options: OPTIONS, dialects, body }
    }

    fn register_tests() {
        let count: PassBody = Box::new(|root, options, statistics| {
            statistics.add("hits", options.integer("times")?);
            if options.boolean("fail")? {
                return Err(PassFailure::new(FailureKind::Unsupported, format!("label {}", options.text("label")?)));
            }
            options.integer("label").expect_err("it is no integer");
            assert_eq!(root.name().as_string_ref().as_str(), Ok("func.func"));
            Ok(())
        });
        register([
            definition("test-count", Anchor::Function, count),
            definition("test-panic", Anchor::Module, Box::new(|_, _, _| panic!("no way on"))),
            definition("test-nothing", Anchor::Module, Box::new(|_, _, _| Ok(()))),
        ]);
    }

    fn context() -> Context {
        register_tests();
        Context::new_with_registry(&crate::dialects::registry(), false)
    }

    fn run(pipeline: &str) -> Result<PassRun, PipelineError> {
        let context = context();
        let text = "func.func @f() { return }\nfunc.func @g() { return }";
        let module = Module::parse(&context, text).unwrap();
        PassPipeline::parse(module.context(), pipeline)?.run(module.as_operation())
    }

    #[test]
    fn passes_run_with_options_beside_those_of_mlir() {
        let run = run("func.func(test-count{times=3 label=a,cse),test-nothing,func.func(test-count)");
        assert!(run.is_err());
        let run = self::run("func.func(test-count{times=3 label=a},cse),test-nothing,func.func(test-count)").unwrap();
        let passes: Vec<&str> = run.reports.iter().map(|report| report.pass).collect();
        assert_eq!(passes, ["test-count", "test-count", "test-nothing", "test-count", "test-count"]);
        let hits: Vec<u64> = run.reports.iter().map(|report| report.statistics.total()).collect();
        assert_eq!(hits, [3, 3, 0, 1, 1]);
    }

    #[test]
    fn pipelines_print_with_their_options_and_read_back() {
        let context = context();
        let text = |pipeline: &str| {
            let module = Module::parse(&context, "module {}").unwrap();
            PassPipeline::parse(module.context(), pipeline).unwrap().text()
        };
        let printed = text("func.func(test-count{times=3},cse)");
        assert_eq!(printed, "builtin.module(func.func(test-count{fail=false label=none times=3},cse))");
        assert_eq!(text(&printed), printed);
    }

    #[test]
    fn wrong_options_are_refused() {
        let refused = |pipeline: &str, words: &str| {
            let message = run(pipeline).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        };
        refused("func.func(test-count{times=x})", "option `times` of pass `test-count` must be an integer, got `x`");
        refused("func.func(test-count{color=red})", "color");
        refused("func.func(test-count{fail=maybe})", "true or false");
        refused("test-count", "test-count");
    }

    #[test]
    fn failures_keep_their_kind_and_panics_are_bugs() {
        let failure = |pipeline: &str| match run(pipeline) {
            Err(PipelineError::Pass { failure, diagnostics }) => {
                assert_eq!(diagnostics[0].message, failure.to_string());
                failure
            }
            other => panic!("{other:?}"),
        };
        let failed = failure("func.func(test-count{fail=true label=x})");
        assert_eq!(
            (failed.kind, failed.pass, failed.to_string().as_str()),
            (FailureKind::Unsupported, "test-count", "label x")
        );
        let failed = failure("test-panic");
        assert_eq!(failed.kind, FailureKind::Bug);
        assert_eq!(failed.to_string(), "pass `test-panic`: panicked: no way on");
    }

    #[test]
    fn declared_dialects_are_loaded() {
        let context = context();
        let module = Module::parse(&context, "module {}").unwrap();
        let before = context.loaded_dialect_count();
        PassPipeline::parse(module.context(), "test-nothing").unwrap().run(module.as_operation()).unwrap();
        assert!(context.loaded_dialect_count() > before);
    }
}
