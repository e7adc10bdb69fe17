//! Profiles: the steps of a program that note when they begin and end.
//!
//! With the option `profile`, the code of every kernel, library call, copy and loop stands between two calls of the
//! runtime that name its number; without it there is nothing of this in the code.

use hlo::profile::ProfiledStep;
use mlir_ext::builder::Value;

use crate::memory::{FunctionMemory, pointer_type};
use crate::program::Program;

/// The runtime's functions.
const STEP_BEGINS: &str = "halo_step_begins";
const STEP_ENDS: &str = "halo_step_ends";

impl<'c> Program<'_, 'c> {
    /// Emits a step; in a profile it notes its beginning and end.
    pub(crate) fn step<E>(
        &self,
        describe: impl FnOnce() -> Result<ProfiledStep, E>,
        memory: &FunctionMemory<'_, 'c>,
        emit: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.options.profile {
            return emit();
        }
        let number = {
            let mut steps = self.steps.borrow_mut();
            steps.push(describe()?);
            steps.len() as i64 - 1
        };
        self.note(STEP_BEGINS, number, memory);
        emit()?;
        self.note(STEP_ENDS, number, memory);
        Ok(())
    }

    fn note(&self, symbol: &str, number: i64, memory: &FunctionMemory<'_, 'c>) {
        let builder = self.builder;
        let (pointer, i64_type) = (pointer_type(builder), builder.integer_type(64));
        builder.define_once(symbol, |builder| builder.declare_function(symbol, &[pointer, i64_type], &[]));
        let number: Value<'c> = builder.constant_integer(i64_type, number);
        builder.call(symbol, &[memory.context(builder), number], &[]);
    }
}
