//! `docs/operations.md`: what is there for each operation, from the table of operations and the tests' data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use hlo::indexing_maps::{Analysis, ValueIndexing};
use hlo::op_kind::OpKind;
use hlo::ops;
use lowering_llvm::Target;
use melior::Context;

use super::case::ConformanceCase;
use super::gaps::Gaps;
use crate::emit::{self, CodePlatform, EmitOptions, Stage};

/// What the page is made from.
pub struct Sources<'a> {
    /// The conformance cases of every family.
    pub cases: &'a BTreeMap<OpKind, Vec<Arc<ConformanceCase>>>,
    /// The files of `dialects/hlo/tests/op_rules`: lines `rule: operation` are refused.
    pub rules: &'a str,
    /// Operations without compiled code.
    pub gaps: &'a Gaps,
}

const HEADER: &str = "\
# Operations

Written by a test from the table of operations and the tests' data (`./x bless operations`). Every conformance case is
parsed, verified, evaluated and compiled; the columns count them. *Rules*: programs that must be refused.
*PTX*: whether a case lowers to a GPU kernel. *Indexing*: whether the maps to all operands are known (– without operands).

| operation | class | rules | parse | verify | evaluate | CPU | PTX | indexing | element types |
|---|---|--:|--:|--:|--:|--:|:-:|:-:|---|
";

/// The page.
///
/// # Errors
/// A text that names the operations without a case.
pub fn page(sources: &Sources<'_>) -> Result<String, String> {
    let missing: Vec<&str> =
        OpKind::ALL.iter().filter(|kind| !sources.cases.contains_key(kind)).map(|kind| kind.text_name()).collect();
    if !missing.is_empty() {
        return Err(format!("operations without a conformance case: {}", missing.join(", ")));
    }
    let refused = refused_programs(sources.rules);
    let mut page = HEADER.to_string();
    for (kind, cases) in sources.cases {
        let count = cases.len();
        let compiled = if sources.gaps.contains(*kind) { "–".to_string() } else { count.to_string() };
        let rules = refused.get(kind.text_name()).copied().unwrap_or(0);
        let class = format!("{:?}", ops::definition(*kind).class).to_lowercase();
        let mark = |holds| if holds { "✓" } else { "–" };
        let ptx = mark(representatives(cases).any(lowers_to_ptx));
        let indexing = mark(representatives(cases).any(|case| has_maps(*kind, case)));
        let types = type_names(&cases.iter().map(|case| case.element_type).collect());
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "| {kind} | {class} | {rules} | {count} | {count} | {count} | {compiled} | {ptx} | {indexing} | {types} |"
        );
    }
    let total: usize = sources.cases.values().map(Vec::len).sum();
    let _ = writeln!(page, "\n{} operations, {total} cases.", sources.cases.len());
    Ok(page)
}

/// How many programs are refused, by operation.
fn refused_programs(rules: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in rules.lines().filter(|line| !line.starts_with([' ', '#'])) {
        let Some((rule, operation)) = line.split_once(": ") else { continue };
        let is_rule = rule.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // A declared shape may stand before the operation.
        let opcode = operation.split(['(', ' ']).find(|word| word.parse::<OpKind>().is_ok());
        if let (true, Some(opcode)) = (is_rule, opcode) {
            *counts.entry(opcode).or_insert(0) += 1;
        }
    }
    counts
}

/// A few cases that stand for the others: the first ones, and the first in `f32`.
fn representatives(cases: &[Arc<ConformanceCase>]) -> impl Iterator<Item = &ConformanceCase> {
    let single = cases.iter().filter(|case| case.element_type == ElementType::F32);
    cases.iter().take(2).chain(single.take(2)).map(Arc::as_ref)
}

fn lowers_to_ptx(case: &ConformanceCase) -> bool {
    let options = EmitOptions::new(Stage::Affine, CodePlatform::Cuda, Target::nvptx("sm_90", "+ptx80"));
    emit::emit(case.source_text(), &options).is_ok()
}

/// Whether the maps from each instruction of the kind to its operands are known.
fn has_maps(kind: OpKind, case: &ConformanceCase) -> bool {
    let Ok(module) = case.source_text().module() else { return false };
    module.functions.iter().any(|function| maps_are_known(kind, function))
}

fn maps_are_known(kind: OpKind, computation: &Computation) -> bool {
    let context = Context::new_with_threading(false);
    let mut analysis = Analysis::new(&context, computation);
    computation.iter().any(|(id, instruction)| {
        instruction.kind == kind
            && !instruction.operands.is_empty()
            && all_known(&mut analysis, id, instruction.shape.leaves().len())
    })
}

fn all_known(analysis: &mut Analysis<'_, '_>, id: InstructionId, leaves: usize) -> bool {
    (0..leaves).all(|leaf| {
        analysis.output_to_input(id, leaf).iter().all(|indexing| matches!(indexing, ValueIndexing::Known(_)))
    })
}

/// The types, whole classes by their name.
fn type_names(types: &BTreeSet<ElementType>) -> String {
    if types.len() == ElementType::all().count() {
        return "all".into();
    }
    let classes = [
        (ElementClass::Predicate, "pred"),
        (ElementClass::Signed, "signed"),
        (ElementClass::Unsigned, "unsigned"),
        (ElementClass::Float, "float"),
        (ElementClass::Complex, "complex"),
    ];
    let mut names = Vec::new();
    for (class, class_name) in classes {
        let here = |element_type: &ElementType| element_type.class() == class;
        let found: Vec<&str> = types.iter().filter(|t| here(t)).map(|t| t.name()).collect();
        if found.len() == ElementType::all().filter(here).count() {
            names.push(class_name);
        } else {
            names.extend(found);
        }
    }
    names.join(" ")
}
