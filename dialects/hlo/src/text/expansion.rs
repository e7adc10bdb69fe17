//! How large and how deep a module becomes when called computations are written out where they are called.
//!
//! Text shares computations by name; the graph nests a copy in each caller. A short text can so stand for an
//! immense graph, which is refused before anything is copied. Functions of `call` are shared in the graph too.

use crate::op_kind::OpKind;
use crate::ops;

use crate::text::ast::{Called, InstructionNode, ModuleNode};
use crate::text::error::Error;
use crate::text::source::SourceLines;

/// Bytes that the copies of nested computations may take, roughly.
pub const EXPANSION_LIMIT: u64 = 128 << 20;

/// Computations may nest this deep in one another.
pub const COMPUTATION_DEPTH_LIMIT: usize = 100;

/// What becomes of each computation, by its position in the module.
pub(crate) struct Plan {
    /// The computations, callees before callers.
    pub order: Vec<usize>,
    /// How often each is nested in a caller.
    pub nested_uses: Vec<usize>,
    /// Which are functions: the entry, callees of `call`, and those that nothing calls.
    pub is_function: Vec<bool>,
}

/// Whether an instruction calls a function, which is not nested in it.
pub(crate) fn calls_function(instruction: &InstructionNode<'_>) -> bool {
    matches!(instruction.opcode, "call" | "call-start")
}

/// Plans the graph of a module.
pub(crate) fn plan(module: &ModuleNode<'_>, source: SourceLines<'_>) -> Result<Plan, Error> {
    let count = module.computations.len();
    let order = callees_first(module);
    let mut nested_uses = vec![0usize; count];
    let mut is_function = vec![false; count];
    let mut is_called = vec![false; count];
    let mut size = vec![0u64; count];
    let mut depth = vec![1usize; count];
    let mut copied = 0u64;
    for &position in &order {
        let computation = &module.computations[position];
        for instruction in &computation.instructions {
            let text: usize = instruction.attributes.iter().map(|attribute| attribute.value.len()).sum();
            size[position] = size[position].saturating_add(256 + text as u64);
            for &Called { computation: callee, text, .. } in &instruction.called {
                let callee = callee as usize;
                is_called[callee] = true;
                if calls_function(instruction) {
                    is_function[callee] = true;
                    continue;
                }
                nested_uses[callee] += 1;
                if nested_uses[callee] > 1 {
                    copied = copied.saturating_add(size[callee]);
                }
                size[position] = size[position].saturating_add(size[callee]);
                depth[position] = depth[position].max(depth[callee] + 1);
                if copied > EXPANSION_LIMIT {
                    return Err(Error::Expansion { at: source.location_of(text), limit: EXPANSION_LIMIT });
                }
                if depth[position] > COMPUTATION_DEPTH_LIMIT {
                    let reason = format!("computations nest deeper than {COMPUTATION_DEPTH_LIMIT} levels");
                    return Err(Error::Computation { at: source.location_of(text), reason });
                }
            }
        }
    }
    for position in 0..count {
        is_function[position] |= !is_called[position];
    }
    Ok(Plan { order, nested_uses, is_function })
}

/// The computations in an order where callees come before callers; there is one, since no computation calls itself.
///
/// It depends on the calls alone, not on where computations stand in the text: written and read again, a module has
/// its functions in the same order. Computations that nothing calls come first, the entry last.
fn callees_first(module: &ModuleNode<'_>) -> Vec<usize> {
    let count = module.computations.len();
    let mut is_called = vec![false; count];
    let callees: Vec<Vec<usize>> = module
        .computations
        .iter()
        .map(|computation| {
            let called = computation.instructions.iter().flat_map(called_in_order);
            let callees: Vec<usize> = called.map(|called| called.computation as usize).collect();
            callees.iter().for_each(|&callee| is_called[callee] = true);
            callees
        })
        .collect();
    let mut order = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    let uncalled = (0..count).filter(|&position| !is_called[position] && position != module.entry);
    for start in uncalled.chain([module.entry]) {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut path = vec![(start, 0)];
        while let Some((computation, next)) = path.last_mut() {
            match callees[*computation].get(*next) {
                Some(&callee) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[callee], true) {
                        path.push((callee, 0));
                    }
                }
                None => {
                    order.push(*computation);
                    path.pop();
                }
            }
        }
    }
    order
}

/// The computations that an instruction calls, in the order in which they are written (see `computation_order.rs`).
fn called_in_order<'a, 't>(instruction: &'a InstructionNode<'t>) -> Vec<&'a Called<'t>> {
    let mut called: Vec<&Called<'t>> = instruction.called.iter().collect();
    if called.len() > 1
        && let Ok(kind) = instruction.opcode.parse()
    {
        let keys = ops::definition(kind).computations;
        let position = |key: &str| keys.iter().position(|declared| declared.name() == key);
        called.sort_by_key(|called| position(called.key));
        if kind == OpKind::While {
            called.reverse();
        }
    }
    called
}
