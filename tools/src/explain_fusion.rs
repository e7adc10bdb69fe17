//! Why two instructions are, or are not, computed in one fusion.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt::Write;

use hlo::graph::{Computation, Module};
use hlo::op_kind::OpKind;
use passes::fuse::Decision;

use crate::error::ToolError;

/// What fusion decided about a program.
pub struct Explanation<'e> {
    decisions: &'e [Decision],
    /// By name before fusion: the fusions that compute it.
    fusions: HashMap<&'e str, BTreeSet<&'e str>>,
}

impl<'e> Explanation<'e> {
    /// From the decisions, and the program that they led to.
    pub fn new(decisions: &'e [Decision], fused: &'e Module) -> Self {
        let names: BTreeSet<&str> =
            decisions.iter().flat_map(|decision| [decision.producer.as_str(), &decision.consumer]).collect();
        let mut fusions: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        collect(fused.entry(), &names, &mut fusions);
        Explanation { decisions, fusions }
    }

    /// The explanation for two instructions, by their names before fusion.
    ///
    /// # Errors
    /// For names that no instruction has then.
    pub fn explain(&self, first: &str, second: &str) -> Result<String, ToolError> {
        let [first, second] = [first, second].map(|name| name.trim_start_matches('%'));
        self.check(first)?;
        self.check(second)?;
        let mut text = String::new();
        let common: Vec<&str> = self.fusions_of(first).intersection(&self.fusions_of(second)).copied().collect();
        if !common.is_empty() {
            let _ = writeln!(text, "`{first}` and `{second}` are both computed in `{}`", common.join("`, `"));
        } else {
            let _ = writeln!(text, "`{first}` and `{second}` are not in one fusion");
            for name in [first, second] {
                let fusions: Vec<&str> = self.fusions_of(name).into_iter().collect();
                let place = match fusions[..] {
                    [] => "in no fusion".to_string(),
                    _ => format!("in `{}`", fusions.join("`, `")),
                };
                let _ = writeln!(text, "  `{name}` is computed {place}");
            }
        }
        match self.path(first, second).or_else(|| self.path(second, first)) {
            Some(path) => {
                for decision in path {
                    let outcome = match decision.refusal {
                        None => "fused".to_string(),
                        Some(refusal) => format!("not fused: {refusal}"),
                    };
                    let _ = writeln!(text, "  `{}` -> `{}`: {outcome}", decision.producer, decision.consumer);
                }
            }
            None => text.push_str("  neither needs the value of the other\n"),
        }
        Ok(text)
    }

    fn fusions_of(&self, name: &str) -> BTreeSet<&'e str> {
        self.fusions.get(name).cloned().unwrap_or_default()
    }

    fn check(&self, name: &str) -> Result<(), ToolError> {
        let names = || self.decisions.iter().flat_map(|decision| [&decision.producer, &decision.consumer]);
        if names().any(|known| known == name) {
            return Ok(());
        }
        let nearest = names().max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
        let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
        Err(ToolError::Usage(format!(
            "there is no instruction `{name}` when fusion begins (--compile-to=hlo shows the program then){hint}"
        )))
    }

    /// The shortest way from a value to one that is computed from it.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&'e Decision>> {
        let mut users: HashMap<&str, Vec<&'e Decision>> = HashMap::new();
        for decision in self.decisions {
            users.entry(&decision.producer).or_default().push(decision);
        }
        let mut reached: HashMap<&str, &'e Decision> = HashMap::new();
        let mut pending = VecDeque::from([from]);
        while let Some(name) = pending.pop_front() {
            for decision in users.get(name).into_iter().flatten() {
                let next = decision.consumer.as_str();
                if next != from && !reached.contains_key(next) {
                    reached.insert(next, decision);
                    pending.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut name = to;
        while name != from {
            let decision = reached.get(name)?;
            path.push(*decision);
            name = &decision.producer;
        }
        path.reverse();
        (!path.is_empty()).then_some(path)
    }
}

/// Notes the fusions of a computation's instructions, by their names before.
fn collect<'e>(
    computation: &'e Computation,
    names: &BTreeSet<&str>,
    fusions: &mut HashMap<&'e str, BTreeSet<&'e str>>,
) {
    for instruction in &computation.instructions {
        for nested in &instruction.computations {
            if instruction.kind != OpKind::Fusion {
                collect(nested, names, fusions);
                continue;
            }
            for member in nested.instructions.iter().filter(|member| member.kind != OpKind::Parameter) {
                let name = name_before_fusion(&instruction.name, &member.name, |name| names.contains(name));
                fusions.entry(name).or_default().insert(&instruction.name);
            }
        }
    }
}

/// The name of a fusion's member before it was fused: copies are named after their fusion too.
pub fn name_before_fusion<'n>(fusion: &str, member: &'n str, is_known: impl Fn(&str) -> bool) -> &'n str {
    let number = fusion.rsplit('.').next().unwrap_or_default();
    match member.strip_suffix(number).and_then(|name| name.strip_suffix('.')) {
        Some(original) if !is_known(member) && is_known(original) => original,
        _ => member,
    }
}
