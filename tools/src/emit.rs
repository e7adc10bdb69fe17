//! x
use crate::error::ToolError;
use crate::module_file::SourceText;
#[derive(Clone, Copy)]
pub enum Emit {
    Hlo,
    Mlir,
    Indexing,
    Fusions,
    Loops,
    LlvmDialect,
    Llvm,
    Ptx,
}
pub fn emit(_: &SourceText, _: &str, _: Emit) -> Result<String, ToolError> {
    Err(ToolError::Unsupported("emit".into()))
}
pub fn assemble_ptx(_: &str) -> Result<bool, ToolError> {
    Ok(false)
}
