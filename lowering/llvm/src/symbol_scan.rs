//! What the partition of a module needs to know about its symbols.

use crate::gpu_instructions::SHARED;
use melior::ir::{
    BlockRef, OperationRef, RegionLike, Type, TypeLike, ValueLike, block::BlockLike, operation::OperationLike,
};
use mlir_ext::attributes::{identifier_text, integer, string, symbol};
use mlir_ext::operations::context_of;
use std::collections::HashMap;

/// Loads in a function's first block for which time is spent on their order, at most: that grows with their square.
const MAX_FIRST_LOADS: usize = 2048;

/// A function or global variable of the llvm dialect.
pub(crate) struct SymbolScan<'c, 'm> {
    pub operation: OperationRef<'c, 'm>,
    pub name: &'c str,
    pub is_function: bool,
    pub is_definition: bool,
    /// Operations in it: the measure of what generating its code costs.
    pub operations: usize,
    /// Names of the symbols that it refers to, each as often as it does.
    pub references: Vec<&'c str>,
    /// Whether it is a function that prepares arguments and calls other functions, which do the work, or one that begins with so
    /// many loads that full instruction selection would look for neighbours among them for too long.
    pub is_quick: bool,
}

/// Scans the symbols of a `builtin.module` or `gpu.module`, in order; `None` if it holds anything besides functions and global variables, or
/// anything that refers to symbols in another way than by calls and addresses.
pub(crate) fn scan<'c, 'm>(module: OperationRef<'c, 'm>) -> Option<Vec<SymbolScan<'c, 'm>>> {
    let pointer = melior::dialect::llvm::r#type::pointer(context_of(&module), 0);
    let mut symbols = Vec::new();
    let mut next = blocks(module).first()?.first_operation();
    while let Some(operation) = next {
        symbols.push(scan_symbol(operation, pointer)?);
        next = operation.next_in_block();
    }
    Some(symbols)
}

fn scan_symbol<'c, 'm>(operation: OperationRef<'c, 'm>, pointer: Type<'c>) -> Option<SymbolScan<'c, 'm>> {
    let is_function = match identifier_text(operation.name()) {
        "llvm.func" => true,
        "llvm.mlir.global" => false,
        _ => return None,
    };
    let blocks = blocks(operation);
    let has_value = !is_function && operation.inherent_attribute("value").is_ok();
    let is_definition = has_value || !blocks.is_empty() || is_shared_memory(operation);
    if !is_function && !is_definition && !is_external(operation) {
        return None;
    }
    let mut scan = SymbolScan {
        operation,
        name: string(operation.inherent_attribute("sym_name").ok()?)?,
        is_function,
        is_definition,
        operations: 0,
        references: Vec::new(),
        is_quick: false,
    };
    let mut calls = CallStructure::new(pointer, &blocks);
    let mut first_loads = 0;
    for (index, block) in blocks.iter().enumerate() {
        let mut next = block.first_operation();
        while let Some(operation) = next {
            scan.operations += 1;
            let name = identifier_text(operation.name());
            let target = match name {
                "llvm.call" => operation.inherent_attribute("callee").ok(),
                "llvm.mlir.addressof" => operation.inherent_attribute("global_name").ok(),
                "llvm.blockaddress" | "llvm.dso_local_equivalent" | "llvm.invoke" => return None,
                _ => None,
            };
            scan.references.extend(target.and_then(symbol));
            calls.add(index, operation, name);
            first_loads += usize::from(index == 0 && name == "llvm.load");
            next = operation.next_in_block();
        }
    }
    scan.is_quick = is_function && (first_loads > MAX_FIRST_LOADS || calls.leaves_work_to_others());
    Some(scan)
}

/// Whether it is memory that the threads of a GPU's block share: it begins with no value.
fn is_shared_memory(operation: OperationRef<'_, '_>) -> bool {
    let space = operation.inherent_attribute("addr_space").ok();
    space.is_some_and(|space| integer(space) == Some(i64::from(SHARED)))
}

fn is_external(operation: OperationRef<'_, '_>) -> bool {
    operation.inherent_attribute("linkage").is_ok_and(|linkage| linkage.to_string() == "#llvm.linkage<external>")
}

fn blocks<'c, 'm>(operation: OperationRef<'c, 'm>) -> Vec<BlockRef<'c, 'm>> {
    let first = operation.region(0).ok().and_then(|region| region.first_block());
    std::iter::successors(first, |block| block.next_in_region()).collect()
}

/// Operations with which arguments are prepared, sorted.
const PREPARATION: [&str; 37] = [
    "llvm.add",
    "llvm.alloca",
    "llvm.and",
    "llvm.ashr",
    "llvm.br",
    "llvm.cond_br",
    "llvm.extractvalue",
    "llvm.getelementptr",
    "llvm.icmp",
    "llvm.insertvalue",
    "llvm.intr.memcpy",
    "llvm.intr.smax",
    "llvm.intr.smin",
    "llvm.inttoptr",
    "llvm.load",
    "llvm.lshr",
    "llvm.mlir.addressof",
    "llvm.mlir.constant",
    "llvm.mlir.poison",
    "llvm.mlir.undef",
    "llvm.mlir.zero",
    "llvm.mul",
    "llvm.or",
    "llvm.ptrtoint",
    "llvm.return",
    "llvm.sdiv",
    "llvm.select",
    "llvm.sext",
    "llvm.shl",
    "llvm.srem",
    "llvm.store",
    "llvm.sub",
    "llvm.trunc",
    "llvm.udiv",
    "llvm.urem",
    "llvm.xor",
    "llvm.zext",
];

/// How a function calls others.
struct CallStructure<'c> {
    pointer: Type<'c>,
    /// Places of the blocks in the function, by their addresses.
    positions: HashMap<usize, usize>,
    /// Whether each block hands addresses to another function.
    has_call: Vec<bool>,
    has_copy: bool,
    /// First and last block of each loop.
    loops: Vec<(usize, usize)>,
    has_other_work: bool,
}

impl<'c> CallStructure<'c> {
    fn new(pointer: Type<'c>, blocks: &[BlockRef<'c, '_>]) -> Self {
        let positions = blocks.iter().enumerate().map(|(index, block)| (address(block), index)).collect();
        Self {
            pointer,
            positions,
            has_call: vec![false; blocks.len()],
            has_copy: false,
            loops: Vec::new(),
            has_other_work: false,
        }
    }

    fn add(&mut self, block: usize, operation: OperationRef<'c, '_>, name: &str) {
        if name == "llvm.call" {
            self.has_call[block] |= operation.operands().any(|operand| operand.r#type() == self.pointer);
        } else if name == "llvm.intr.memset" {
            // Kernels clear long rows by it.
            self.has_call[block] = true;
        } else if !self.has_other_work {
            let is_data = |r#type: Type<'c>| r#type.is_vector() || r#type.is_float();
            self.has_other_work =
                PREPARATION.binary_search(&name).is_err() || operation.results().any(|result| is_data(result.r#type()));
        }
        self.has_copy |= name == "llvm.intr.memcpy";
        for successor in operation.successors() {
            // Blocks stand in the order of control flow; only loops go back.
            if let Some(&first) = self.positions.get(&address(&successor)).filter(|first| **first <= block) {
                self.loops.push((first, block));
            }
        }
    }

    /// Whether the function's work is done by the functions that it calls, or by copies: it computes with scalars and
    /// addresses only, and so does each loop, which hands addresses to a function in every iteration.
    fn leaves_work_to_others(&self) -> bool {
        let calls = |blocks: &[bool]| blocks.contains(&true);
        let loops_call = self.loops.iter().all(|&(first, last)| calls(&self.has_call[first..=last]));
        !self.has_other_work && (calls(&self.has_call) || self.has_copy) && loops_call
    }
}

/// What identifies a block.
fn address(block: &BlockRef<'_, '_>) -> usize {
    block.to_raw().ptr as usize
}
