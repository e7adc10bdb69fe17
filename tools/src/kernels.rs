//! The kernels of a fused program, with what is known of each: what it computes, where that comes from, what it costs.

use std::borrow::Cow;

use halo::pipeline::{self, CompilePipeline, Phase};
use halo::{CompileOptions, Cost};
use hlo::dialect;
use hlo::graph::{Computation, Instruction, Module};
use hlo::metadata::{METADATA, field};
use hlo::op_kind::OpKind;
use lowering_affine::program::is_free;
use lowering_llvm::Target;

use crate::error::ToolError;
use crate::source_line::source_line;

/// A kernel: an instruction of the fused program that has code.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name of the instruction.
    pub name: String,
    /// Its operation.
    pub kind: OpKind,
    /// Shape of its result, without layouts.
    pub shape: String,
    /// Operations computed in it with how often, most frequent first; of a kernel that is no fusion its own.
    pub operations: Vec<(OpKind, usize)>,
    /// Loops and branches in which it stands, outer ones first.
    pub within: Vec<String>,
    /// What one execution costs.
    pub cost: Cost,
    /// The operation of the user's program, from the metadata.
    pub op_name: Option<String>,
    /// The line of the user's program, from the metadata.
    pub source_line: Option<String>,
}

impl Kernel {
    /// The operations in few words.
    pub fn summary(&self) -> String {
        const MOST: usize = 4;
        let text = |&(kind, count): &(OpKind, usize)| match count {
            1 => kind.text_name().to_string(),
            _ => format!("{count} {}", kind.text_name()),
        };
        let mut words: Vec<String> = self.operations.iter().take(MOST).map(text).collect();
        if self.operations.len() > MOST {
            words.push("…".to_string());
        }
        words.join(", ")
    }

    /// Where it comes from: the line of the user's program, else the operation there.
    pub fn origin(&self) -> &str {
        self.source_line.as_deref().or(self.op_name.as_deref()).unwrap_or("")
    }
}

/// The program after the passes that lead to a phase, up to buffer assignment.
///
/// # Errors
/// Those of the passes.
pub fn compiled_to(module: &Module, phase: Phase, options: &CompileOptions) -> Result<Module, ToolError> {
    let context = dialect::context();
    let program = pipeline::import(&context, module)?;
    let passes = CompilePipeline::cpu(&Target::host(), true, options).between(Phase::Input, phase);
    pipeline::run(&program, &passes, false).map_err(halo::Error::from)?;
    Ok(dialect::mlir_to_graph(&program).map_err(halo::Error::from)?)
}

/// The kernels of a fused program, in order.
///
/// # Errors
/// For instructions that break a rule of their operation.
pub fn kernels(module: &Module) -> Result<Vec<Kernel>, ToolError> {
    let mut kernels = Vec::new();
    collect(module, module.entry(), &mut Vec::new(), &mut kernels)?;
    Ok(kernels)
}

fn collect(
    module: &Module,
    computation: &Computation,
    within: &mut Vec<String>,
    kernels: &mut Vec<Kernel>,
) -> Result<(), ToolError> {
    for instruction in &computation.instructions {
        if matches!(instruction.kind, OpKind::While | OpKind::Conditional) {
            within.push(instruction.name.clone());
            for nested in &instruction.computations {
                collect(module, nested, within, kernels)?;
            }
            within.pop();
        } else if !is_free(instruction) {
            kernels.push(kernel(module, computation, instruction, within)?);
        }
    }
    Ok(())
}

fn kernel(
    module: &Module,
    computation: &Computation,
    instruction: &Instruction,
    within: &[String],
) -> Result<Kernel, ToolError> {
    let cost =
        Cost::of_instruction(computation, instruction).map_err(|error| ToolError::Execution(error.to_string()))?;
    let known = |about: &dyn Fn(&Instruction) -> Option<String>| {
        about(instruction).or_else(|| {
            let fused = instruction.computations.iter().filter(|_| instruction.kind == OpKind::Fusion);
            fused.flat_map(|fused| fused.instructions.iter().rev()).find_map(about)
        })
    };
    Ok(Kernel {
        name: instruction.name.clone(),
        kind: instruction.kind,
        shape: instruction.shape.without_layout().to_string(),
        operations: operations(instruction),
        within: within.to_vec(),
        cost,
        op_name: known(&op_name),
        source_line: known(&|instruction| source_line(&module.sources, instruction)),
    })
}

/// What a kernel computes, without what costs nothing.
fn operations(instruction: &Instruction) -> Vec<(OpKind, usize)> {
    let [fused] = &instruction.computations[..] else { return vec![(instruction.kind, 1)] };
    if instruction.kind != OpKind::Fusion {
        return vec![(instruction.kind, 1)];
    }
    let mut counts: Vec<(OpKind, usize)> = Vec::new();
    for instruction in &fused.instructions {
        if matches!(instruction.kind, OpKind::Parameter | OpKind::Constant | OpKind::Tuple) {
            continue;
        }
        match counts.iter_mut().find(|(kind, _)| *kind == instruction.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((instruction.kind, 1)),
        }
    }
    // Reductions and functions say more of a kernel than what moves its data.
    counts.sort_by_key(|&(kind, count)| (rank(kind), std::cmp::Reverse(count)));
    counts
}

fn rank(kind: OpKind) -> u8 {
    match kind {
        OpKind::Reduce | OpKind::ReduceWindow | OpKind::Dot | OpKind::Convolution | OpKind::Scatter => 0,
        OpKind::Broadcast | OpKind::Reshape | OpKind::Bitcast | OpKind::Copy | OpKind::Iota | OpKind::Convert => 2,
        _ => 1,
    }
}

/// The operation of the user's program that an instruction came from, as its metadata has it.
pub fn op_name(instruction: &Instruction) -> Option<String> {
    field(instruction.annotation(METADATA)?, "op_name").map(Cow::into_owned)
}

/// Bytes in a unit that leaves few digits.
pub fn bytes_text(bytes: f64) -> String {
    scaled(bytes, &["B", "kB", "MB", "GB", "TB"])
}

/// A count in a unit that leaves few digits.
pub fn count_text(count: f64) -> String {
    scaled(count, &["", "k", "M", "G", "T"]).trim_end().to_string()
}

fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut position = 0;
    while value >= 999.5 && position + 1 < units.len() {
        value /= 1000.0;
        position += 1;
    }
    match position {
        0 => format!("{value:.0} {}", units[position]),
        _ if value >= 99.95 => format!("{value:.0} {}", units[position]),
        _ if value >= 9.995 => format!("{value:.1} {}", units[position]),
        _ => format!("{value:.2} {}", units[position]),
    }
}

/// The costs of a fused program as a table: a row for each kernel, those that move most first.
pub fn cost_table(module: &Module) -> Result<String, ToolError> {
    let mut kernels = kernels(module)?;
    let total = Cost::of(module.entry()).map_err(|error| ToolError::Execution(error.to_string()))?;
    kernels.sort_by_key(|kernel| std::cmp::Reverse((kernel.cost.bytes_accessed, kernel.cost.flops)));
    let mut text = format!(
        "{:>10} {:>9} {:>9} {:>7}  {:<24} {}\n",
        "bytes", "flops", "functions", "flops/B", "kernel", "what, shape, origin"
    );
    let row = |cost: Cost, name: &str, what: &str| {
        let intensity = cost.flops as f64 / (cost.bytes_accessed as f64).max(1.0);
        format!(
            "{:>10} {:>9} {:>9} {intensity:>7.2}  {name:<24} {what}",
            bytes_text(cost.bytes_accessed as f64),
            count_text(cost.flops as f64),
            count_text(cost.transcendentals as f64),
        )
    };
    for kernel in &kernels {
        let mut what = format!("{} {}", kernel.summary(), kernel.shape);
        if !kernel.origin().is_empty() {
            what.push_str(&format!(", {}", kernel.origin()));
        }
        if let Some(control) = kernel.within.last() {
            what.push_str(&format!(", in {control}"));
        }
        text.push_str(row(kernel.cost, &kernel.name, &what).trim_end());
        text.push('\n');
    }
    let count = format!("{} kernels, loops counted once", kernels.len());
    text.push_str(row(total, "total", &count).trim_end());
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(bytes_text(12.0), "12 B");
        assert_eq!(bytes_text(1234.0), "1.23 kB");
        assert_eq!(bytes_text(99_960_000.0), "100 MB");
        assert_eq!(count_text(999.6), "1.00 k");
        assert_eq!(count_text(7.0), "7");
    }
}
