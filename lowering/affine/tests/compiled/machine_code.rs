//! Loops to running code in the way of the compiler, with every verifier on.

use exec::Jit;
use lowering_llvm::{CodeGenerationOptions, GeneratedCode, LoweringOptions, Target, cpu, generate_code};
use melior::{
    Context,
    ir::{Location, Module, operation::OperationLike},
};
use mlir_ext::builder::OpBuilder;

/// A context with the dialects that loops are made of.
pub fn context() -> Context {
    let context = Context::new_with_registry(&mlir_ext::dialects::registry(), false);
    for dialect in ["arith", "func", "llvm", "math", "memref", "scf", "vector"] {
        context.get_or_load_dialect(dialect);
    }
    context
}

/// A module that the function fills.
pub fn build<'c>(context: &'c Context, fill: impl FnOnce(&OpBuilder<'c>)) -> Module<'c> {
    let location = Location::unknown(context);
    let module = Module::new(location);
    fill(&OpBuilder::new(context, &module, location));
    assert!(module.as_operation().verify());
    module
}

/// Compiles a module of loops, in shards of so many operations.
pub fn compile(module: &Module, operations_per_shard: usize) -> GeneratedCode {
    cpu::lower_to_llvm_dialect(module, LoweringOptions { verify: true }).unwrap_or_else(|error| panic!("{error}"));
    let options = CodeGenerationOptions { verify: true, operations_per_shard, ..CodeGenerationOptions::default() };
    generate_code(module, &Target::host(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// Compiles a module of loops and loads it.
pub fn load(module: &Module) -> Jit {
    let code = compile(module, CodeGenerationOptions::default().operations_per_shard);
    // SAFETY: compiled for this CPU just now; the symbols are the runtime's.
    unsafe { Jit::load(&code.objects, exec::runtime::symbols()) }.unwrap_or_else(|error| panic!("{error}"))
}
