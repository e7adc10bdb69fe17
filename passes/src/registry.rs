//! The passes by name: what `hlo-opt --passes=…` can run.

use hlo::graph::Module;

use crate::{fuse_loops, inline_calls};

/// A pass over a module.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    name: &'static str,
    description: &'static str,
    run: fn(&mut Module) -> Result<usize, PassError>,
}

/// A pass that could not do its work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PassError {
    /// Calls expand beyond the limit.
    #[error(transparent)]
    Inline(#[from] inline_calls::InlineError),
}

impl Pass {
    /// Name on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, in one line.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// Runs it; gives how many changes it made.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn run(&self, module: &mut Module) -> Result<usize, PassError> {
        (self.run)(module)
    }
}

const PASSES: &[Pass] = &[
    Pass {
        name: "fuse-loops",
        description: "groups elementwise, shape and reducing instructions into fusions",
        run: |module| Ok(fuse_loops::fuse_module(module)),
    },
    Pass {
        name: "inline-calls",
        description: "replaces each call by the called function's instructions",
        run: |module| Ok(inline_calls::inline_calls(module)?),
    },
];

/// Every pass, by name.
pub fn all() -> &'static [Pass] {
    PASSES
}

/// The pass of a name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(PASSES.is_sorted_by(|a, b| a.name < b.name));
    }
}
