//! Which computation each name stands for, and the check that calls form no cycle.

use std::collections::HashMap;

use crate::text::ast::ModuleNode;
use crate::text::error::{Error, Faults};
use crate::text::source::SourceLines;

/// Fills [`crate::text::ast::Called::computation`] everywhere.
pub(crate) fn resolve(
    module: &mut ModuleNode<'_>,
    source: SourceLines<'_>,
    faults: &mut Faults<'_>,
) -> Result<(), Error> {
    let mut positions: HashMap<&str, u32> = HashMap::with_capacity(module.computations.len());
    for (position, computation) in module.computations.iter().enumerate() {
        if computation.name.is_empty() {
            continue;
        }
        if let Some(&first) = positions.get(computation.name) {
            faults.add(Error::Duplicate {
                at: source.location_of(computation.name),
                what: "computation",
                name: computation.name.to_string(),
                first: source.location_of(module.computations[first as usize].name),
            })?;
        }
        positions.insert(computation.name, position as u32);
    }
    for instruction in module.computations.iter_mut().flat_map(|computation| &mut computation.instructions) {
        for called in &mut instruction.called {
            if called.computation != u32::MAX {
                continue;
            }
            let Some(&position) = positions.get(called.text) else {
                faults.add(Error::Undefined {
                    at: source.location_of(called.text),
                    what: "computation",
                    name: called.text.to_string(),
                    later: None,
                })?;
                instruction.faulty = true;
                continue;
            };
            called.computation = position;
        }
        instruction.called.retain(|called| called.computation != u32::MAX);
    }
    check_cycles(module, source)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// Depth-first search over calls, with its own stack.
fn check_cycles(module: &ModuleNode<'_>, source: SourceLines<'_>) -> Result<(), Error> {
    let calls: Vec<Vec<(u32, &str)>> = module
        .computations
        .iter()
        .map(|computation| {
            let called = computation.instructions.iter().flat_map(|instruction| &instruction.called);
            called.map(|called| (called.computation, called.text)).collect()
        })
        .collect();
    let mut states = vec![State::New; calls.len()];
    for start in 0..calls.len() {
        if states[start] != State::New {
            continue;
        }
        states[start] = State::Open;
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((computation, next)) = path.last_mut() {
            let Some(&(callee, text)) = calls[*computation].get(*next) else {
                states[*computation] = State::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let callee = callee as usize;
            match states[callee] {
                State::Done => {}
                State::New => {
                    states[callee] = State::Open;
                    path.push((callee, 0));
                }
                State::Open => {
                    let name = module.computations[callee].name;
                    let cycle = path.iter().skip_while(|(computation, _)| *computation != callee);
                    let mut names: Vec<&str> =
                        cycle.map(|(computation, _)| module.computations[*computation].name).take(8).collect();
                    names.push(name);
                    return Err(Error::CallCycle {
                        at: source.location_of(text),
                        name: name.to_string(),
                        path: names.join(" -> "),
                    });
                }
            }
        }
    }
    Ok(())
}
