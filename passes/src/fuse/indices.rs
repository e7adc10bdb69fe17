//! At which indices a group evaluates a member.

use std::hash::{Hash, Hasher};

use hlo::graph::InstructionId;
use rustc_hash::FxHasher;

/// Indices that are told apart at most: more than any rule allows.
const MOST_INDICES: usize = 32;

/// The distinct indices, per element of a group's loops, at which a member is evaluated, each by a name.
///
/// Numbers of them would not do: of two users that read at their own index, one may be evaluated at others than the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Indices(Vec<u64>);

impl Indices {
    /// The index of the loops alone.
    pub(super) fn of_loops() -> Self {
        Indices(vec![0])
    }

    /// The index of a loop that computes a value for itself.
    pub(super) fn of(value: InstructionId) -> Self {
        Indices(vec![1 + u64::from(value.0)])
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Adds what another value is evaluated at.
    pub(super) fn extend(&mut self, others: &Indices) {
        others.0.iter().for_each(|&name| self.insert(name));
    }

    /// Adds what the `turn`-th read of a user reads that is evaluated at these indices and reads at others.
    pub(super) fn extend_moved(&mut self, others: &Indices, user: InstructionId, turn: usize) {
        for name in &others.0 {
            let mut hasher = FxHasher::default();
            (name, user, turn).hash(&mut hasher);
            self.insert(hasher.finish());
        }
    }

    fn insert(&mut self, name: u64) {
        if self.0.len() < MOST_INDICES && !self.0.contains(&name) {
            self.0.push(name);
        }
    }
}
