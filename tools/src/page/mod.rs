//! A program as a page for a browser, in one file: the graph of its kernels, their costs, its memory over time.
//!
//! The page is a template with the program as JSON in it; `page.js` draws. Nothing is loaded from elsewhere.

mod layout;

use std::collections::{HashMap, HashSet};

use halo::Cost;
use hlo::graph::{Computation, Instruction, Module};
use hlo::op_kind::OpKind;
use passes::fuse::Decision;
use serde_json::{Value, json};

use crate::buffers::MemoryMap;
use crate::error::ToolError;
use crate::explain_fusion::name_before_fusion;
use crate::kernels::{Kernel, kernels, op_name};
use crate::source_line::source_line;
use layout::layout;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Lines of a box that name members.
const MOST_MEMBERS: usize = 8;

/// A program at the end of its passes, with what they decided.
pub struct PageProgram<'p> {
    /// The fused program.
    pub module: &'p Module,
    /// What was fused, and what was not and why.
    pub decisions: &'p [Decision],
    /// What memory holds.
    pub memory: &'p MemoryMap,
}

/// The page.
///
/// # Errors
/// For instructions that break a rule of their operation.
pub fn page(program: &PageProgram<'_>) -> Result<String, ToolError> {
    let data = data(program)?.to_string();
    // Inside of a script only this sequence has a meaning to HTML.
    let data = data.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let title = escaped(&program.module.name);
    let mut page = String::new();
    let mut rest = TEMPLATE;
    // Each part is put in once, so that nothing within the data is taken for a mark.
    for (mark, text) in
        [("@TITLE@", title.as_str()), ("@STYLE@", STYLE), ("@DATA@", data.as_str()), ("@SCRIPT@", SCRIPT)]
    {
        let (before, after) =
            rest.split_once(mark).ok_or_else(|| ToolError::Bug(format!("the page's template has no {mark}")))?;
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn data(program: &PageProgram<'_>) -> Result<Value, ToolError> {
    let kernels = kernels(program.module)?;
    let by_name: HashMap<&str, &Kernel> = kernels.iter().map(|kernel| (kernel.name.as_str(), kernel)).collect();
    let decided: HashSet<&str> =
        program.decisions.iter().flat_map(|decision| [decision.producer.as_str(), &decision.consumer]).collect();
    let refusals = program.decisions.iter().filter_map(|decision| {
        let refusal = decision.refusal?;
        Some(((decision.producer.as_str(), decision.consumer.as_str()), refusal.to_string()))
    });
    let pages = Pages { module: program.module, kernels: by_name, decided, refusals: refusals.collect() };
    let mut graphs = Vec::new();
    pages.graphs(program.module.entry(), "entry", &mut graphs);
    let total = Cost::of(program.module.entry()).map_err(|error| ToolError::Execution(error.to_string()))?;
    let memory = program.memory;
    let lifetimes = memory.lifetimes.iter().map(|lifetime| {
        json!({
            "offset": lifetime.slice.offset,
            "size": lifetime.slice.size,
            "start": lifetime.start,
            "end": lifetime.end,
            "names": lifetime.names,
            "shape": lifetime.shape,
            "origin": lifetime.origin,
        })
    });
    Ok(json!({
        "name": program.module.name,
        "cost": cost(total),
        "kernels": kernels.len(),
        "graphs": graphs,
        "memory": {
            "arena": memory.arena_size,
            "outside": memory.outside,
            "peak": memory.peak,
            "positions": memory.positions,
            "lifetimes": lifetimes.collect::<Vec<_>>(),
        },
    }))
}

fn cost(cost: Cost) -> Value {
    json!({ "flops": cost.flops, "functions": cost.transcendentals, "bytes": cost.bytes_accessed })
}

struct Pages<'p> {
    module: &'p Module,
    kernels: HashMap<&'p str, &'p Kernel>,
    /// Names that the program had before fusion.
    decided: HashSet<&'p str>,
    refusals: HashMap<(&'p str, &'p str), String>,
}

impl Pages<'_> {
    /// The graph of a computation, and those of the computations in its loops and branches.
    fn graphs(&self, computation: &Computation, name: &str, graphs: &mut Vec<Value>) {
        graphs.push(self.graph(computation, name));
        for instruction in &computation.instructions {
            if matches!(instruction.kind, OpKind::While | OpKind::Conditional) {
                for (number, nested) in instruction.computations.iter().enumerate() {
                    let role = match (instruction.kind, number) {
                        (OpKind::While, 0) => "condition".to_string(),
                        (OpKind::While, _) => "body".to_string(),
                        (_, number) => format!("branch {number}"),
                    };
                    self.graphs(nested, &format!("{}: {role}", instruction.name), graphs);
                }
            }
        }
    }

    fn graph(&self, computation: &Computation, name: &str) -> Value {
        // What only picks elements of tuples would double every edge: edges go through it.
        let mut box_of: Vec<Vec<usize>> = Vec::with_capacity(computation.instructions.len());
        let mut shown: Vec<&Instruction> = Vec::new();
        let mut edges: Vec<(usize, usize, usize)> = Vec::new();
        for instruction in &computation.instructions {
            let sources: Vec<usize> =
                instruction.operands.iter().flat_map(|operand| box_of[operand.index()].clone()).collect();
            if matches!(instruction.kind, OpKind::GetTupleElement | OpKind::Tuple)
                && instruction.name != computation.root().name
            {
                box_of.push(sources);
                continue;
            }
            let own = shown.len();
            for &operand in &instruction.operands {
                let bytes = computation.get(operand).shape.byte_size();
                edges.extend(box_of[operand.index()].iter().map(|&source| (source, own, bytes)));
            }
            shown.push(instruction);
            box_of.push(vec![own]);
        }
        edges.sort_unstable_by_key(|&(from, to, bytes)| (from, to, std::cmp::Reverse(bytes)));
        edges.dedup_by_key(|(from, to, _)| (*from, *to));

        let members: Vec<Vec<Value>> = shown.iter().map(|instruction| self.members(instruction)).collect();
        let sizes: Vec<(f64, f64)> =
            shown.iter().zip(&members).map(|(instruction, members)| size(instruction, members.len())).collect();
        let pairs: Vec<(usize, usize)> = edges.iter().map(|&(from, to, _)| (from, to)).collect();
        let places = layout(&sizes, &pairs);
        let nodes = shown.iter().zip(members).zip(places).map(|((instruction, members), place)| {
            let kernel = self.kernels.get(instruction.name.as_str());
            json!({
                "name": instruction.name,
                "op": instruction.kind.text_name(),
                "shape": instruction.shape.without_layout().to_string(),
                "what": kernel.map(|kernel| kernel.summary()),
                "cost": kernel.map(|kernel| cost(kernel.cost)),
                "op_name": kernel.map_or_else(|| op_name(instruction), |kernel| kernel.op_name.clone()),
                "source": kernel.map_or_else(|| source_line(&self.module.sources, instruction), |kernel| kernel.source_line.clone()),
                "root": instruction.name == computation.root().name,
                "members": members,
                "x": place.x.round(),
                "y": place.y.round(),
                "w": place.width,
                "h": place.height,
            })
        });
        let edges = edges.iter().map(|&(from, to, bytes)| {
            json!({ "from": from, "to": to, "bytes": bytes, "why": self.reasons(shown[from], shown[to]) })
        });
        json!({ "name": name, "nodes": nodes.collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>() })
    }

    /// What is computed in a fusion.
    fn members(&self, instruction: &Instruction) -> Vec<Value> {
        let fused = instruction.computations.iter().filter(|_| instruction.kind == OpKind::Fusion);
        fused
            .flat_map(|fused| &fused.instructions)
            .filter(|member| !matches!(member.kind, OpKind::Parameter | OpKind::Tuple))
            .map(|member| {
                json!({
                    "name": self.before_fusion(instruction, &member.name),
                    "op": member.kind.text_name(),
                    "shape": member.shape.without_layout().to_string(),
                    "source": source_line(&self.module.sources, member),
                })
            })
            .collect()
    }

    /// The name of a member before it was fused: copies are named after their fusion too.
    fn before_fusion<'n>(&self, fusion: &Instruction, name: &'n str) -> &'n str {
        name_before_fusion(&fusion.name, name, |name| self.decided.contains(name))
    }

    /// Why what one box writes is not computed in another that reads it.
    fn reasons(&self, from: &Instruction, to: &Instruction) -> Vec<Value> {
        let names = |instruction: &Instruction, all: bool| -> Vec<String> {
            let [fused] = &instruction.computations[..] else { return vec![instruction.name.clone()] };
            if instruction.kind != OpKind::Fusion {
                return vec![instruction.name.clone()];
            }
            let root = fused.root();
            let written = match root.kind {
                OpKind::Tuple if !all => root.operands.iter().map(|&operand| fused.get(operand)).collect(),
                _ if !all => vec![root],
                _ => fused.instructions.iter().collect::<Vec<_>>(),
            };
            written.into_iter().map(|member| self.before_fusion(instruction, &member.name).to_string()).collect()
        };
        let mut reasons = Vec::new();
        let readers = names(to, true);
        for producer in names(from, false) {
            for consumer in &readers {
                if let Some(reason) = self.refusals.get(&(producer.as_str(), consumer.as_str())) {
                    reasons.push(json!({ "from": producer, "to": consumer, "reason": reason }));
                }
            }
        }
        reasons
    }
}

/// Width and height of a box.
fn size(instruction: &Instruction, members: usize) -> (f64, f64) {
    if matches!(instruction.kind, OpKind::Parameter | OpKind::Constant) {
        return (170.0, 34.0);
    }
    let lines = members.min(MOST_MEMBERS) + usize::from(members > MOST_MEMBERS);
    (230.0, 48.0 + 14.0 * lines as f64 + if lines > 0 { 6.0 } else { 0.0 })
}
