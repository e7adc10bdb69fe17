//! lowering-loops
