//! Debug information: which line of the program code came from, where that is asked for.
//!
//! `hlo-source-lines` gives operations the lines of their instructions: in the HLO text if the program was read from text, else
//! in the source program that the instruction's metadata names; what has neither is at its function's. MLIR's
//! `ensure-debug-info-scope-on-llvm-func`, which comes next, gives the functions scopes, without which LLVM keeps no lines.
//! In functions that have one LLVM wants a line for each call.

use std::path::Path;

use melior::ir::operation::OperationLike;
use melior::ir::{Location, OperationRef};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, locations};

/// The pass that gives operations lines.
pub const SOURCE_LINES: &str = "hlo-source-lines";

/// The passes of debug information.
pub const PASSES: [&str; 2] = [SOURCE_LINES, "ensure-debug-info-scope-on-llvm-func"];

/// The passes of debug information, for CPUs.
pub const CPU: &str = "hlo-source-lines,ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}";

/// The same for GPUs: PTX has lines only.
pub const CUDA: &str = "hlo-source-lines,ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}";

/// The options of `hlo-source-lines` as its text.
pub fn source_lines_options(file: &Path) -> String {
    let file = file.display().to_string();
    let quote = if file.contains('\'') { '"' } else { '\'' };
    format!("file={quote}{file}{quote}")
}

/// Gives the operations of a module's functions lines; `file` is the path of the HLO text. Returns the number of functions.
pub fn run(root: OperationRef<'_, '_>, file: &str) -> usize {
    let rewriter = Rewriter::new(root);
    let lines = Lines { rewriter: &rewriter, file };
    let mut functions = 0;
    let mut modules = vec![root];
    while let Some(module) = modules.pop() {
        for operation in rewriter.operations_directly_in(module) {
            match attributes::identifier_text(operation.name()) {
                "gpu.module" => modules.push(operation),
                "llvm.func" if !rewriter.blocks(operation).is_empty() => {
                    lines.function(operation);
                    functions += 1;
                }
                _ => {}
            }
        }
    }
    functions
}

struct Lines<'r, 'c, 'm> {
    rewriter: &'r Rewriter<'c, 'm>,
    file: &'r str,
}

impl<'c> Lines<'_, 'c, '_> {
    fn function(&self, function: OperationRef<'c, '_>) {
        let own = self.line(function.location());
        let own = own.unwrap_or_else(|| Location::new(self.rewriter.context(), self.file, 0, 0));
        // Neighbours are often of one instruction.
        let mut last = (function.location(), own);
        for operation in self.rewriter.operations_in(function) {
            let location = operation.location();
            if location != last.0 {
                last = (location, self.line(location).unwrap_or(own));
            }
            self.rewriter.set_location(operation, last.1);
        }
    }

    /// Where the instruction of a location is, under its name.
    fn line(&self, location: Location<'c>) -> Option<Location<'c>> {
        let context = self.rewriter.context();
        if let Some((name, inner)) = locations::name(location) {
            return self.line(inner).map(|line| Location::name(context, name, line));
        }
        if let Some((parts, _)) = locations::fused(location) {
            return parts.into_iter().find_map(|part| self.line(part));
        }
        let (file, line, column) = locations::file_position(location)?;
        let file = if file == locations::PROGRAM_TEXT { self.file } else { file };
        Some(Location::new(context, file, line as usize, column as usize))
    }
}
