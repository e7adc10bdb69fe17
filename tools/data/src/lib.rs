//! Arrays that programs run on: from NumPy's files and made up as a model's description says, compared with what is expected,
//! and shown. Tools that compile have it in common with `hlo-run-bundle`, which has neither MLIR nor LLVM in it.

pub mod arrays;
pub mod compare;
pub mod error;
pub mod fill;
pub mod model_spec;
pub mod movement;
pub mod npy;
pub mod value_text;
