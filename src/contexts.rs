//! MLIR contexts that are kept from one compilation to the next.
//!
//! A new context knows no dialect, and loading them takes longer than compiling a small program. But a context never
//! forgets a type, an attribute or a constant, so one that has seen much is not kept.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hlo::dialect;
use hlo::graph::{Computation, Module};
use hlo::literal::Literal;
use melior::Context;

/// Bytes up to which a context may have grown to be kept.
const MOST_BYTES: usize = 4 << 20;

/// What an instruction leaves in a context, about.
const INSTRUCTION_BYTES: usize = 256;

/// Contexts that no compilation uses.
#[derive(Default)]
pub(crate) struct ContextPool {
    unused: Mutex<Vec<KeptContext>>,
}

struct KeptContext {
    context: Context,
    /// What the programs that were compiled in it left there.
    bytes: usize,
}

// SAFETY: a context of `dialect::context` has no threads and is tied to none; the pool lends it to one user at a time.
unsafe impl Send for KeptContext {}

impl ContextPool {
    /// Calls a function that compiles this program with a context, a kept one if there is any.
    pub fn with_context<R>(&self, program: &Module, compile: impl FnOnce(&Context) -> R) -> R {
        let kept = self.unused().pop();
        let mut kept = kept.unwrap_or_else(|| KeptContext { context: dialect::context(), bytes: 0 });
        let result = compile(&kept.context);
        kept.bytes += program.functions.iter().map(bytes_of).sum::<usize>();
        if kept.bytes <= MOST_BYTES {
            self.unused().push(kept);
        }
        result
    }

    /// Drops the contexts that are kept.
    pub fn clear(&self) {
        self.unused().clear();
    }

    fn unused(&self) -> MutexGuard<'_, Vec<KeptContext>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a computation leaves in a context, about.
fn bytes_of(computation: &Computation) -> usize {
    let instructions = computation.instructions.iter();
    instructions
        .map(|instruction| {
            let constant = match instruction.literal() {
                Some(Literal::Array(array)) => array.bytes().len(),
                _ => 0,
            };
            INSTRUCTION_BYTES + constant + instruction.computations.iter().map(bytes_of).sum::<usize>()
        })
        .sum()
}
