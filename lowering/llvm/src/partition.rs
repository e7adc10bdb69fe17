//! Splitting a module of the llvm dialect into shards, whose code is generated apart from each other.
//!
//! How a module is split depends on the module alone, never on threads, so that a program's objects are always the same.
//! Functions are moved, not copied. A symbol that another shard refers to becomes external there and is declared here;
//! not with hidden visibility, which promises that the symbol is near, while a loader puts objects anywhere.
//! LLVM inlines nothing (see [`KERNEL_PASSES`](crate::KERNEL_PASSES)), so code does not get slower by being apart.
//!
//! Functions that only call others, or load from thousands of places at their start, are shards of their own, generated with
//! [`Effort::Quick`].
//!
//! Kernels for GPUs are split too, by [`partition_kernels`]: their shards become one text, so none refers to another.

use crate::{
    Effort, Error,
    symbol_scan::{SymbolScan, scan},
};
use melior::{
    Context,
    ir::{
        Attribute, Location, Module, Operation, OperationRef, Region,
        block::BlockLike,
        operation::{OperationBuilder, OperationLike, OperationMutLike},
    },
};
use mlir_ext::operations::{context_of, move_to_end};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

/// Operations for which the generation of code takes much longer than what a shard costs by itself.
pub const OPERATIONS_PER_SHARD: usize = 1000;

/// How many times faster quick code is generated than the other.
const QUICK_FACTOR: usize = 4;

/// A module to generate code for.
pub(crate) struct Shard<'c> {
    pub module: Module<'c>,
    pub effort: Effort,
}

/// How much work is spent on a module that is compiled as a whole: little if each of its functions leaves the work to others.
pub(crate) fn effort_of(module: OperationRef) -> Effort {
    let is_quick = |symbol: &SymbolScan| symbol.is_quick || !symbol.is_function || !symbol.is_definition;
    match scan(module).is_some_and(|symbols| symbols.iter().all(is_quick)) {
        true => Effort::Quick,
        false => Effort::Full,
    }
}

/// Moves the contents of a module into shards of about so many operations. `None`, and an unchanged module, for a module
/// that is no larger than a shard, and for one that holds anything besides functions and global variables.
///
/// # Errors
/// [`Error::Partition`] for symbols that the module does not have.
pub(crate) fn partition<'c>(module: &Module<'c>, operations_per_shard: usize) -> Result<Option<Vec<Shard<'c>>>, Error> {
    let Some(symbols) = scan(module.as_operation()) else { return Ok(None) };
    let Some(assignment) = Assignment::new(&symbols, operations_per_shard.max(1))? else { return Ok(None) };
    write_shards(&symbols, &assignment).map(Some)
}

/// The same for a `gpu.module`: what refers to each other stays together, such as a kernel, its shared memory and the functions that it
/// calls, so that LLVM sees, and may inline, what it would in the whole module.
///
/// # Errors
/// [`Error::Partition`] for symbols that the module does not have.
pub(crate) fn partition_kernels<'c>(
    kernels: OperationRef<'c, '_>,
    operations_per_shard: usize,
) -> Result<Option<Vec<Shard<'c>>>, Error> {
    let Some(symbols) = scan(kernels) else { return Ok(None) };
    let Some(assignment) = Assignment::of_groups(&symbols, operations_per_shard.max(1))? else { return Ok(None) };
    write_shards(&symbols, &assignment).map(Some)
}

fn write_shards<'c>(symbols: &[SymbolScan<'c, '_>], assignment: &Assignment) -> Result<Vec<Shard<'c>>, Error> {
    let Some(symbol) = symbols.first() else { return Ok(Vec::new()) };
    let writer = ShardWriter::new(context_of(&symbol.operation))?;
    (0..assignment.efforts.len()).map(|shard| writer.write(symbols, assignment, shard)).collect()
}

/// Which shard each symbol goes to.
struct Assignment {
    efforts: Vec<Effort>,
    /// The shard of each symbol; `None` for declarations, which go where they are needed.
    shards: Vec<Option<usize>>,
    /// Symbols that each symbol refers to.
    references: Vec<Vec<usize>>,
    /// Whether each symbol is referred to from another shard than its own.
    is_shared: Vec<bool>,
}

impl Assignment {
    /// `None` where one shard is enough.
    fn new(symbols: &[SymbolScan<'_, '_>], limit: usize) -> Result<Option<Self>, Error> {
        let operations = |filter: fn(&&SymbolScan<'_, '_>) -> bool| -> usize {
            symbols.iter().filter(filter).map(|symbol| symbol.operations).sum()
        };
        if operations(|_| true) <= limit {
            return Ok(None);
        }
        // Fewer operations are not worth a shard of their own: then they are compiled like all others.
        let has_quick = operations(|symbol| symbol.is_quick) >= limit / QUICK_FACTOR;
        let mut assignment = Self {
            efforts: Vec::new(),
            shards: vec![None; symbols.len()],
            references: references(symbols)?,
            is_shared: vec![false; symbols.len()],
        };
        let is_quick = |symbol: &SymbolScan<'_, '_>| has_quick && symbol.is_quick;
        assignment.add_shards(symbols, Effort::Full, limit, |symbol| !is_quick(symbol));
        assignment.add_shards(symbols, Effort::Quick, limit * QUICK_FACTOR, is_quick);
        assignment.place_variables(symbols);
        for user in 0..symbols.len() {
            for &used in &assignment.references[user] {
                assignment.is_shared[used] |= assignment.shards[user] != assignment.shards[used];
            }
        }
        Ok((assignment.efforts.len() > 1).then_some(assignment))
    }

    /// Of groups of symbols that refer to each other, which stay together and in order. `None` where one shard is enough.
    fn of_groups(symbols: &[SymbolScan<'_, '_>], limit: usize) -> Result<Option<Self>, Error> {
        if symbols.iter().map(|symbol| symbol.operations).sum::<usize>() <= limit {
            return Ok(None);
        }
        let mut assignment = Self {
            efforts: Vec::new(),
            shards: vec![None; symbols.len()],
            references: references(symbols)?,
            is_shared: vec![false; symbols.len()],
        };
        let mut size = usize::MAX;
        for group in groups(symbols, &assignment.references) {
            let operations = group.iter().map(|&index| symbols[index].operations).sum::<usize>();
            size = size.saturating_add(operations);
            if size > limit {
                assignment.efforts.push(Effort::Full);
                size = operations;
            }
            let last = assignment.efforts.len() - 1;
            group.into_iter().for_each(|index| assignment.shards[index] = Some(last));
        }
        Ok((assignment.efforts.len() > 1).then_some(assignment))
    }

    /// Spreads functions over as many new shards as their size asks for: the largest first, each to the smallest shard.
    fn add_shards(
        &mut self,
        symbols: &[SymbolScan<'_, '_>],
        effort: Effort,
        limit: usize,
        belongs: impl Fn(&SymbolScan<'_, '_>) -> bool,
    ) {
        let is_member = |symbol: &SymbolScan<'_, '_>| symbol.is_function && symbol.is_definition && belongs(symbol);
        let mut members: Vec<usize> = (0..symbols.len()).filter(|&index| is_member(&symbols[index])).collect();
        members.sort_by_key(|&index| (Reverse(symbols[index].operations), index));
        let operations: usize = members.iter().map(|&index| symbols[index].operations).sum();
        let first = self.efforts.len();
        let mut sizes = vec![0; operations.div_ceil(limit).min(members.len())];
        for index in members {
            // The first of the smallest.
            if let Some((shard, size)) = sizes.iter_mut().enumerate().min_by_key(|(_, size)| **size) {
                *size += symbols[index].operations;
                self.shards[index] = Some(first + shard);
            }
        }
        self.efforts.extend(sizes.iter().map(|_| effort));
    }

    /// Puts each variable where it is first referred to; nobody needs those that are not.
    fn place_variables(&mut self, symbols: &[SymbolScan<'_, '_>]) {
        for user in 0..symbols.len() {
            for &used in &self.references[user] {
                if symbols[used].is_definition && self.shards[used].is_none() {
                    self.shards[used] = self.shards[user];
                }
            }
        }
    }

    /// The symbols of a shard, in the module's order.
    fn members(&self, shard: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.shards.len()).filter(move |&index| self.shards[index] == Some(shard))
    }

    /// The symbols that a shard refers to and does not hold, in the module's order.
    fn declared(&self, shard: usize) -> BTreeSet<usize> {
        let used = self.members(shard).flat_map(|member| self.references[member].iter().copied());
        used.filter(|&index| self.shards[index] != Some(shard)).collect()
    }
}

fn references(symbols: &[SymbolScan<'_, '_>]) -> Result<Vec<Vec<usize>>, Error> {
    let positions: HashMap<&str, usize> =
        symbols.iter().enumerate().map(|(index, symbol)| (symbol.name, index)).collect();
    let position = |name: &&str| {
        positions.get(name).copied().ok_or_else(|| Error::Partition(format!("there is no symbol `{name}`")))
    };
    symbols.iter().map(|symbol| symbol.references.iter().map(position).collect()).collect()
}

/// The definitions that refer to each other, directly or by others; each group, and the groups, in the module's order.
fn groups(symbols: &[SymbolScan<'_, '_>], references: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..symbols.len()).map(|index| vec![index]).collect();
    let mut group_of: Vec<usize> = (0..symbols.len()).collect();
    for (user, used) in references.iter().enumerate() {
        for &used in used.iter().filter(|&&used| symbols[used].is_definition) {
            let (kept, joined) = (group_of[user].min(group_of[used]), group_of[user].max(group_of[used]));
            if kept != joined {
                let members = std::mem::take(&mut groups[joined]);
                members.iter().for_each(|&index| group_of[index] = kept);
                groups[kept].extend(members);
            }
        }
    }
    groups.retain(|group| group.iter().any(|&index| symbols[index].is_definition));
    groups
}

/// Attributes of a definition that a declaration elsewhere does not have.
const DEFINITION_ATTRIBUTES: [&str; 6] = ["comdat", "dso_local", "linkage", "personality", "sym_visibility", "value"];

/// Makes the modules of shards.
struct ShardWriter<'c> {
    context: &'c Context,
    external: Attribute<'c>,
}

impl<'c> ShardWriter<'c> {
    fn new(context: &'c Context) -> Result<Self, Error> {
        let external = Attribute::parse(context, "#llvm.linkage<external>")
            .ok_or_else(|| Error::Partition("the llvm dialect is not loaded".into()))?;
        Ok(Self { context, external })
    }

    fn write(&self, symbols: &[SymbolScan<'c, '_>], assignment: &Assignment, shard: usize) -> Result<Shard<'c>, Error> {
        let module = Module::new(Location::unknown(self.context));
        for index in assignment.declared(shard) {
            let symbol = &symbols[index];
            // A copy of a declaration, which no shard holds, or a declaration of what another shard defines.
            let declaration =
                if symbol.is_definition { self.declaration(symbol.operation)? } else { (*symbol.operation).clone() };
            module.body().append_operation(declaration);
        }
        for index in assignment.members(shard) {
            let mut moved = move_to_end(symbols[index].operation, module.body());
            if assignment.is_shared[index] {
                moved.set_attribute("linkage", self.external);
                // Absent unless somebody said that the symbol is in this object.
                let _ = moved.remove_attribute("dso_local");
            }
        }
        Ok(Shard { module, effort: assignment.efforts[shard] })
    }

    /// A declaration of a function or a variable that is defined elsewhere.
    fn declaration(&self, definition: OperationRef<'c, '_>) -> Result<Operation<'c>, Error> {
        let name = mlir_ext::attributes::identifier_text(definition.name());
        let mut attributes: Vec<_> = definition
            .attributes()
            .filter(|(name, _)| !DEFINITION_ATTRIBUTES.contains(&mlir_ext::attributes::identifier_text(*name)))
            .collect();
        attributes.push((melior::ir::Identifier::new(self.context, "linkage"), self.external));
        OperationBuilder::new(name, definition.location())
            .add_attributes(&attributes)
            .add_regions([Region::new()])
            .build()
            .map_err(|error| Error::Partition(error.to_string()))
    }
}
