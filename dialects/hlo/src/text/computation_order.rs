//! The order in which the computations of a graph are written, and their names.
//!
//! As in XLA's text, a computation stands behind those it calls, in the order of the calls. Text shares computations
//! where the graph nests a copy in each caller: a nested computation equal, name included, to one written before was
//! one with it in the text they came from, and is not written again. All names written are different.

use std::collections::{HashMap, HashSet};

use crate::graph::{Computation, Module};
use crate::op_kind::OpKind;

use crate::text::export::identifier;

/// Order and names of a module's computations.
#[derive(Default)]
pub(crate) struct ComputationOrder<'m> {
    /// The computations to write.
    pub sequence: Vec<&'m Computation>,
    /// Names by address, which identifies a computation while the module is borrowed.
    names: HashMap<*const Computation, String>,
    /// Computations of the sequence, by their own name.
    written: HashMap<&'m str, Vec<Written<'m>>>,
    taken: HashSet<String>,
    /// The number with which to go on where a name is taken.
    next: HashMap<&'m str, usize>,
}

struct Written<'m> {
    computation: &'m Computation,
    /// Whether a function is written as it: two equal functions stay two.
    is_function: bool,
}

impl<'m> ComputationOrder<'m> {
    /// The order of all computations that the entry reaches, then of those it does not.
    pub(crate) fn new(module: &'m Module) -> Self {
        let mut order = ComputationOrder::default();
        let mut is_visited = vec![false; module.functions.len()];
        let entry = module.entry.index();
        let others = (0..module.functions.len()).filter(|&function| function != entry);
        // Functions that nothing calls come first, so that the entry is last, as XLA has it.
        let called: HashSet<usize> = callees(module).collect();
        let roots: Vec<usize> = others.filter(|function| !called.contains(function)).chain([entry]).collect();
        for root in roots.into_iter().chain(0..module.functions.len()) {
            if let Some(function) = module.functions.get(root).filter(|_| !is_visited[root]) {
                is_visited[root] = true;
                order.visit(module, function, &mut is_visited);
            }
        }
        order
    }

    /// Name under which a computation is written.
    pub(crate) fn name(&self, computation: &Computation) -> &str {
        self.names.get(&std::ptr::from_ref(computation)).map_or("", String::as_str)
    }

    /// Depth-first, with its own stack: functions may call one another in long chains.
    fn visit(&mut self, module: &'m Module, start: &'m Computation, is_visited: &mut [bool]) {
        let mut path = vec![Frame::new(start, true)];
        while let Some(frame) = path.last_mut() {
            let Some(instruction) = frame.computation.instructions.get(frame.instruction) else {
                let Frame { computation, is_function, .. } = *frame;
                path.pop();
                self.add(computation, is_function);
                continue;
            };
            // XLA writes the body of a `while` before its condition.
            let last = instruction.computations.len().saturating_sub(1);
            let called =
                if instruction.kind == OpKind::While { last.checked_sub(frame.called) } else { Some(frame.called) };
            frame.called += 1;
            if let Some(nested) = called.and_then(|called| instruction.computations.get(called)) {
                if !self.reuse(nested, false) {
                    path.push(Frame::new(nested, false));
                }
                continue;
            }
            frame.instruction += 1;
            frame.called = 0;
            if let Some(callee) = instruction.callee.map(|callee| callee.index())
                && let Some(function) = module.functions.get(callee).filter(|_| !is_visited[callee])
            {
                is_visited[callee] = true;
                if !self.reuse(function, true) {
                    path.push(Frame::new(function, true));
                }
            }
        }
    }

    /// Gives a computation the name of an equal one written before, if there is one.
    fn reuse(&mut self, computation: &'m Computation, is_function: bool) -> bool {
        let Some(written) = self.written.get_mut(computation.name.as_str()) else { return false };
        let equal =
            written.iter_mut().find(|first| !(is_function && first.is_function) && first.computation == computation);
        let Some(equal) = equal else { return false };
        equal.is_function |= is_function;
        let name = self.names.get(&std::ptr::from_ref(equal.computation)).cloned().unwrap_or_default();
        self.names.insert(computation, name);
        true
    }

    fn add(&mut self, computation: &'m Computation, is_function: bool) {
        let name = self.unique(&computation.name);
        self.names.insert(computation, name);
        self.written.entry(&computation.name).or_default().push(Written { computation, is_function });
        self.sequence.push(computation);
    }

    fn unique(&mut self, name: &'m str) -> String {
        let mut unique = identifier(name).into_owned();
        let next = self.next.entry(name).or_insert(1);
        while !self.taken.insert(unique.clone()) {
            unique = format!("{}.{next}", identifier(name));
            *next += 1;
        }
        unique
    }
}

/// A computation whose calls are being followed.
struct Frame<'m> {
    computation: &'m Computation,
    is_function: bool,
    /// The instruction to look at, and which of its computations.
    instruction: usize,
    called: usize,
}

impl<'m> Frame<'m> {
    fn new(computation: &'m Computation, is_function: bool) -> Self {
        Frame { computation, is_function, instruction: 0, called: 0 }
    }
}

/// All functions that are called; recursion is bounded by the nesting of computations.
fn callees(module: &Module) -> impl Iterator<Item = usize> {
    fn collect(computation: &Computation, callees: &mut Vec<usize>) {
        for instruction in &computation.instructions {
            callees.extend(instruction.callee.map(|callee| callee.index()));
            instruction.computations.iter().for_each(|nested| collect(nested, callees));
        }
    }
    let mut callees = Vec::new();
    module.functions.iter().for_each(|function| collect(function, &mut callees));
    callees.into_iter()
}
