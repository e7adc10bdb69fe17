//! A fused program as a graph for Graphviz: a box for each kernel, one within another for loops and branches.

use std::fmt::Write;

use hlo::graph::{Computation, InstructionId, Module};
use hlo::op_kind::OpKind;

use crate::error::ToolError;
use crate::kernels::{Kernel, bytes_text, count_text, kernels};

/// The graph in Graphviz's language.
///
/// # Errors
/// For instructions that break a rule of their operation.
pub fn dot(module: &Module) -> Result<String, ToolError> {
    let kernels = kernels(module)?;
    let mut text = format!(
        "digraph {} {{\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"monospace\", fontsize=10];\n",
        quoted(&module.name)
    );
    write_computation(&mut text, module.entry(), &kernels, 1);
    text.push_str("}\n");
    Ok(text)
}

fn write_computation(text: &mut String, computation: &Computation, kernels: &[Kernel], depth: usize) {
    let indent = "  ".repeat(depth);
    for (_, instruction) in computation.iter() {
        if is_picked(computation, instruction) {
            continue;
        }
        if matches!(instruction.kind, OpKind::While | OpKind::Conditional) {
            for (number, nested) in instruction.computations.iter().enumerate() {
                let name = format!("{} {number}", instruction.name);
                let cluster = format!("cluster {name}");
                let _ = writeln!(text, "{indent}subgraph {} {{\n{indent}  label={};", quoted(&cluster), quoted(&name));
                write_computation(text, nested, kernels, depth + 1);
                let _ = writeln!(text, "{indent}}}");
            }
        }
        let mut label = format!("{} {}\n{}", instruction.name, instruction.kind, instruction.shape.without_layout());
        let mut color = "white";
        if let Some(kernel) = kernels.iter().find(|kernel| kernel.name == instruction.name) {
            let (bytes, flops) = (kernel.cost.bytes_accessed as f64, kernel.cost.flops as f64);
            let _ = write!(label, "\n{}\n{}, {} flops", kernel.summary(), bytes_text(bytes), count_text(flops));
            color = if instruction.kind == OpKind::Fusion { "#eaf3ff" } else { "#fff3e6" };
        }
        let _ =
            writeln!(text, "{indent}{} [label={}, fillcolor=\"{color}\"];", quoted(&instruction.name), quoted(&label));
    }
    for (_, instruction) in computation.iter().filter(|(_, instruction)| !is_picked(computation, instruction)) {
        let mut sources: Vec<InstructionId> = instruction.operands.clone();
        let mut seen: Vec<InstructionId> = Vec::new();
        while let Some(source) = sources.pop() {
            let operand = computation.get(source);
            if is_picked(computation, operand) {
                sources.extend(&operand.operands);
            } else if !seen.contains(&source) {
                seen.push(source);
            }
        }
        seen.sort_unstable();
        for source in seen {
            let from = quoted(&computation.get(source).name);
            let _ = writeln!(text, "{indent}{from} -> {};", quoted(&instruction.name));
        }
    }
}

/// Whether an instruction only picks elements of tuples or puts tuples together: edges go through it.
fn is_picked(computation: &Computation, instruction: &hlo::graph::Instruction) -> bool {
    matches!(instruction.kind, OpKind::GetTupleElement | OpKind::Tuple) && instruction.name != computation.root().name
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
