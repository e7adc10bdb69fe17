//! The passes of this crate in MLIR's registry.

use std::sync::Once;

use melior::ir::attribute::StringAttribute;
use melior::ir::operation::{OperationLike, OperationMutLike};
use melior::ir::{Attribute, BlockLike, Module, RegionLike};
use mlir_ext::locations::PROGRAM_TEXT;
use mlir_ext::pass::{self, Anchor, OptionDefinition, OptionKind, PassDefinition, PassFailure, PassStatistics};
use mlir_ext::{modules, operations};

use crate::{debug_info, memrefs_to_pointers, unsigned_divisions};

const SOURCE_LINES_OPTIONS: &[OptionDefinition] = &[OptionDefinition {
    name: "file",
    description: "path of the HLO text",
    kind: OptionKind::Text,
    default: PROGRAM_TEXT,
}];

/// Registers the passes of this crate with MLIR, once.
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        pass::register([
            PassDefinition {
                argument: "hlo-internalize-functions",
                description: "gives private functions internal linkage",
                anchor: Anchor::Module,
                options: &[],
                dialects: &["llvm"],
                body: Box::new(|root, _, statistics| {
                    modules::with_module(root, |module| internalize_functions(module, statistics))
                        .unwrap_or_else(|| Err(PassFailure::bug("the root is no module")))
                }),
            },
            PassDefinition {
                argument: "hlo-memrefs-to-pointers",
                description: "makes pointers of memrefs, integers of indices, LLVM's loads and stores of accesses; each constant once",
                anchor: Anchor::Module,
                options: &[],
                dialects: &["arith", "llvm"],
                body: Box::new(|root, _, statistics| {
                    let replaced = memrefs_to_pointers::run(root).map_err(|error| PassFailure::bug(error.to_string()))?;
                    statistics.add("operations", replaced as u64);
                    Ok(())
                }),
            },
            PassDefinition {
                argument: debug_info::SOURCE_LINES,
                description: "gives operations the lines of their instructions, for debug information",
                anchor: Anchor::Module,
                options: SOURCE_LINES_OPTIONS,
                dialects: &[],
                body: Box::new(|root, options, statistics| {
                    statistics.add("functions", debug_info::run(root, options.text("file")?) as u64);
                    Ok(())
                }),
            },
            PassDefinition {
                argument: "hlo-unsigned-divisions",
                description: "makes unsigned divisions, shifts and masks of affine divisions whose dividends are not negative",
                anchor: Anchor::Module,
                options: &[],
                dialects: &unsigned_divisions::DIALECTS,
                body: Box::new(|root, _, statistics| {
                    let replaced = unsigned_divisions::run(root).map_err(|error| PassFailure::bug(error.to_string()))?;
                    statistics.add("operations", replaced as u64);
                    Ok(())
                }),
            },
        ]);
    });
}

/// Gives private functions internal linkage, so that several modules may each define one of the same name; MLIR's own
/// visibility is lost in LLVM IR.
fn internalize_functions(module: &Module, statistics: &mut PassStatistics) -> Result<(), PassFailure> {
    let context = operations::context(module.context());
    let internal = Attribute::parse(context, "#llvm.linkage<internal>")
        .ok_or_else(|| PassFailure::bug("the llvm dialect has no internal linkage"))?;
    let private = StringAttribute::new(context, "private");
    let mut next = module.body().first_operation_mut();
    while let Some(mut operation) = next {
        let is_definition = operation.region(0).is_ok_and(|region| region.first_block().is_some());
        if is_definition && operation.attribute("sym_visibility") == Ok(private.into()) {
            operation.set_attribute("linkage", internal);
            statistics.add("functions", 1);
        }
        next = operation.next_in_block_mut();
    }
    Ok(())
}
