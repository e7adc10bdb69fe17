//===- IndexingDialect.h - C interface to the indexing dialect --*- C -*-===//
//
// What the Rust side needs beyond MLIR's own C interface: registration, the
// map attribute, and the callback that knows what a map is.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mlir-c/IR.h"

extern "C" {

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Indexing, indexing);

/// Reads the text of a map and writes it as maps are printed, or writes what is
/// wrong with it and returns false. Called from any thread.
typedef bool (*HaloIndexingNormalizeMap)(MlirStringRef text,
                                         MlirStringCallback write,
                                         void *userData);

/// Sets the callback of the process. Without it nothing is valid.
void haloIndexingSetNormalizeMap(HaloIndexingNormalizeMap normalize);

/// The attribute of a map's text, which is as maps are printed.
MlirAttribute haloIndexingMapGet(MlirContext context, MlirStringRef text);
bool haloIndexingAttributeIsMap(MlirAttribute attribute);
MlirStringRef haloIndexingMapGetText(MlirAttribute map);

} // extern "C"
