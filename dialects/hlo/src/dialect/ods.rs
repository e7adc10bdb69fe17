//! Typed builders and accessors of the operations, generated from the ODS files that the C++ part is generated from.
//!
//! They serve programs that write MLIR by hand, such as `ods::hlo::add(context, result, lhs, rhs, location)`; code that
//! treats operations alike uses [`super::new_operation`].

#![allow(missing_docs)]
#![allow(clippy::all)]

melior::dialect! {
    name: "hlo",
    files: ["HloOps.td"],
    include_directory_env_vars: ["HLO_ODS_DIRECTORY"],
}
