//! lowering-llvm
