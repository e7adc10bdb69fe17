//! Functions of a few steps each: what a program does one after another, divided.
//!
//! The generation of code takes longer than linear in the size of a function, so no function is written that has more
//! than so many steps: kernels, calls, branches, copies, or the loop nests of one kernel. They meet in memory only, so
//! steps can stand in any function.

use std::collections::HashMap;

use mlir_ext::builder::Value;

use crate::error::LoweringError;
use crate::kernel_function::{argument_attributes, call_with_pointers};
use crate::memory::{FunctionMemory, Parameter, RUN_CONTEXT, number_at, pointer_at, pointer_type};
use crate::program::{ENTRY, PROGRAM, Program};

type Result<T> = std::result::Result<T, LoweringError>;

/// Steps that share a function.
pub(crate) const STEPS_PER_FUNCTION: usize = 64;

impl<'c> Program<'_, 'c> {
    /// A private function of the buffers that `body` uses; returns its parameters.
    pub(crate) fn function(
        &self,
        name: &str,
        body: impl FnOnce(&FunctionMemory<'_, 'c>) -> Result<()>,
    ) -> Result<Vec<Parameter<'c>>> {
        self.builder.at_module_level(|builder| {
            let mut parameters = Vec::new();
            let (region, types) = builder.function_region(&[], |builder, function| {
                let memory = FunctionMemory::new(builder, function, &self.table);
                body(&memory)?;
                builder.effect("func.return", &[], &[]);
                parameters = memory.parameters();
                Ok::<_, LoweringError>(())
            })?;
            let attributes = [builder.private(), argument_attributes(builder, &are_alone(&parameters))?];
            builder.function_operation(name, &types, &[], &attributes, region);
            Ok(parameters)
        })
    }

    /// The function that the runtime calls, with the whole program in it.
    pub(crate) fn whole_function(&self, body: impl FnOnce(&FunctionMemory<'_, 'c>) -> Result<()>) -> Result<()> {
        self.builder.function(ENTRY, &[], &[], &[], |builder, function| {
            body(&FunctionMemory::with_table(builder, function, &self.table))?;
            builder.effect("func.return", &[], &[]);
            Ok(())
        })
    }

    /// The function that the runtime calls: it passes addresses from its table to the program's function.
    pub(crate) fn entry_function(&self, parameters: &[Parameter<'c>]) -> Result<()> {
        let table = self.table.r#type(self.builder);
        self.builder.function(ENTRY, &[table], &[], &[], |builder, function| {
            let all = function.parameters()[0];
            if let [Parameter::Table(_)] = parameters {
                builder.call(PROGRAM, &[all], &[]);
            } else {
                let mut types = Vec::with_capacity(parameters.len());
                let mut values = Vec::with_capacity(parameters.len());
                for parameter in parameters {
                    let (position, r#type) = match *parameter {
                        Parameter::Packed(number) => {
                            types.push(builder.index_type);
                            values.push(number_at(builder, all, self.table.packed_position(number) as i64));
                            continue;
                        }
                        Parameter::Table(_) => return Err(LoweringError::bug("a table besides buffers")),
                        Parameter::Context => (RUN_CONTEXT, pointer_type(builder)),
                        Parameter::Buffer(buffer, r#type) => (self.table.position(buffer) as i64, r#type),
                    };
                    types.push(r#type);
                    values.push(pointer_at(builder, all, position));
                }
                call_with_pointers(builder, PROGRAM, &types, &values);
            }
            builder.effect("func.return", &[], &[]);
            Ok(())
        })
    }

    /// Emits steps in a function of their own, and its call here.
    pub(crate) fn part(
        &self,
        memory: &FunctionMemory<'_, 'c>,
        steps: impl FnOnce(&FunctionMemory<'_, 'c>) -> Result<()>,
    ) -> Result<()> {
        let name = self.fresh_name("part");
        let parameters = self.function(&name, steps)?;
        let arguments: Vec<Value<'c>> = memory.arguments(self.builder, &self.table, &parameters);
        self.builder.call(&name, &arguments, &[]);
        Ok(())
    }

    /// Emits items here or, if they have many steps, in functions of their own.
    pub(crate) fn in_parts<T>(
        &self,
        items: &[T],
        steps: impl Fn(&T) -> usize,
        memory: &FunctionMemory<'_, 'c>,
        emit: impl Fn(&[T], &FunctionMemory<'_, 'c>) -> Result<()>,
    ) -> Result<()> {
        let groups = groups(items, steps);
        if let [all] = groups[..] {
            return emit(all, memory);
        }
        groups.into_iter().try_for_each(|group| self.part(memory, |memory| emit(group, memory)))
    }
}

/// Which parameters are the only way of a function to their memory: buffers do not overlap, but one may come as several types.
fn are_alone(parameters: &[Parameter<'_>]) -> Vec<bool> {
    let mut times = HashMap::new();
    for parameter in parameters {
        if let Parameter::Buffer(buffer, _) = parameter {
            *times.entry(buffer).or_insert(0) += 1;
        }
    }
    let is_alone = |parameter: &Parameter<'_>| match parameter {
        Parameter::Buffer(buffer, _) => times.get(buffer) == Some(&1),
        Parameter::Table(_) | Parameter::Context | Parameter::Packed(_) => false,
    };
    parameters.iter().map(is_alone).collect()
}

/// Items that follow each other, in groups of so many steps as share a function, or of one item that has more.
pub(crate) fn groups<T>(items: &[T], steps: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut groups, mut start, mut sum) = (Vec::new(), 0, 0);
    for (position, item) in items.iter().enumerate() {
        let own = steps(item);
        if position > start && sum + own > STEPS_PER_FUNCTION {
            groups.push(&items[start..position]);
            (start, sum) = (position, 0);
        }
        sum += own;
    }
    groups.push(&items[start..]);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_all_items_in_order() {
        let items: Vec<usize> = vec![60, 4, 1, 100, 1, 64, 63, 1];
        let groups = groups(&items, |&steps| steps);
        assert_eq!(groups, [&[60, 4][..], &[1], &[100], &[1], &[64], &[63, 1]]);
        assert_eq!(super::groups(&[], |_: &u8| 1), [&[][..]]);
    }
}
