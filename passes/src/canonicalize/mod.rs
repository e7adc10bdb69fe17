//! `canonicalize`: rewrites operations to simpler equal ones and evaluates small constant ones.
//!
//! Rules are conservative: every one gives the same bits (signalling NaNs aside), none duplicates work, and
//! `opt-barrier` is a wall. Each rule has a name, its equation above it, and is counted. The driver keeps a worklist:
//! an operation is looked at again when one of its operands was replaced. It stops at a fixpoint, or at a limit that
//! only a pair of rules undoing each other could reach. With `max-iterations` an operation is
//! looked at again only as many rounds after the first look: a round is what the rewrites of the one before touched. Arrays with dynamic dimensions are left alone.
//!
//! Deliberately absent: rules that look into loops or branches, and rules that reorder arithmetic.

mod algebra;
mod constants;
mod gathers;
mod movement;
mod quotients;
mod reductions;
mod reshapes;
mod scatters;
mod site;
mod structure;
mod transposes;

use std::collections::HashSet;

use hlo::dialect;
use hlo::op_kind::OpKind;
use melior::ir::operation::OperationLike;
use melior::ir::{OperationRef, Value};
use mlir_ext::rewrite::Rewriter;

use self::site::{Site, Surroundings};
use crate::effects::has_effect;
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};

/// A rewrite rule.
struct Rule {
    name: &'static str,
    /// Kinds of the operations that it looks at; empty for all.
    kinds: &'static [OpKind],
    /// A value equal to the operation's result, if the rule applies.
    apply: for<'s, 'c, 'r> fn(&'s Site<'s, 'c, 'r>) -> Option<Value<'c, 'r>>,
}

/// The rules, those that look only at the operation first.
fn rules() -> impl Iterator<Item = &'static Rule> {
    let of_one = [structure::RULES, algebra::RULES, movement::RULES, reshapes::RULES, transposes::RULES];
    let of_several = [reductions::RULES, gathers::RULES, scatters::RULES, constants::RULES];
    of_one.into_iter().chain(of_several).flatten()
}

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[OptionDefinition {
    name: "max-iterations",
    description: "rounds of rewrites, each on what the rewrites of the one before touched; 0 for all that it takes",
    kind: OptionKind::Integer,
    default: "0",
}];

/// Runs the pass, in at most `max_iterations` rounds unless that is 0.
///
/// # Errors
/// None but internal ones.
pub fn run(root: OperationRef<'_, '_>, max_iterations: u64, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let surroundings = Surroundings::new(&rewriter);
    let by_kind: Vec<Vec<&Rule>> = OpKind::ALL
        .iter()
        .map(|kind| rules().filter(|rule| rule.kinds.is_empty() || rule.kinds.contains(kind)).collect())
        .collect();
    let last_round = max_iterations.checked_sub(1).unwrap_or(u64::MAX);
    let mut worklist = Worklist { last_round, ..Worklist::default() };
    let operations = rewriter.operations();
    let limit = 8 * operations.len() as u64 + 10_000;
    for operation in operations.into_iter().rev() {
        worklist.push(operation);
    }
    while let Some(operation) = worklist.pop() {
        let Some(kind) = dialect::kind_of(operation) else { continue };
        if rewriter.is_detached(operation) || erase_if_dead(&rewriter, operation, &mut worklist, statistics)? {
            continue;
        }
        let Some(site) = Site::new(&surroundings, operation, kind) else { continue };
        let applied = by_kind[kind as usize].iter().find_map(|rule| Some((rule.name, (rule.apply)(&site)?)));
        let created = surroundings.take_created();
        let Some((name, replacement)) = applied else {
            created.into_iter().for_each(|operation| worklist.push(operation));
            continue;
        };
        // What used the old value is looked at again. Users that the replacement has already are not: a value with
        // many users would make that quadratic.
        for result in operation.results() {
            let users = rewriter.uses(Value::from(result)).into_iter();
            users.for_each(|other| worklist.push(other.user));
        }
        worklist.push(operation);
        created.into_iter().for_each(|operation| worklist.push(operation));
        for result in operation.results() {
            rewriter.replace_all_uses(Value::from(result), replacement)?;
        }
        statistics.add(name, 1);
        if statistics.total() > limit {
            statistics.stopped = Some("too many rewrites");
            break;
        }
    }
    Ok(())
}

/// Erases an operation without uses and effects, and queues what it used.
fn erase_if_dead<'c, 'r>(
    rewriter: &'r Rewriter<'c, '_>,
    operation: OperationRef<'c, 'r>,
    worklist: &mut Worklist<'c, 'r>,
    statistics: &mut PassStatistics,
) -> Result<bool, PassError> {
    let is_used = operation.results().any(|result| rewriter.has_uses(Value::from(result)));
    if is_used || has_effect(rewriter, operation) {
        return Ok(false);
    }
    for operand in operation.operands() {
        if let Some((definition, _)) = rewriter.definition(operand) {
            worklist.push(definition);
        }
    }
    rewriter.erase(operation)?;
    statistics.add("dead-operation", 1);
    Ok(true)
}

/// Operations to look at, each once.
#[derive(Default)]
struct Worklist<'c, 'r> {
    /// The operations and their rounds.
    stack: Vec<(OperationRef<'c, 'r>, u64)>,
    waiting: HashSet<usize>,
    /// The round of operations that are queued now: one after that of the operation that is looked at.
    round: u64,
    /// Operations of later rounds are not queued.
    last_round: u64,
}

impl<'c, 'r> Worklist<'c, 'r> {
    fn push(&mut self, operation: OperationRef<'c, 'r>) {
        if self.round <= self.last_round && self.waiting.insert(operation.to_raw().ptr as usize) {
            self.stack.push((operation, self.round));
        }
    }

    fn pop(&mut self) -> Option<OperationRef<'c, 'r>> {
        let (operation, round) = self.stack.pop()?;
        self.waiting.remove(&(operation.to_raw().ptr as usize));
        self.round = round + 1;
        Some(operation)
    }
}
