//===- HloDialect.h - C interface to the hlo dialect ------------*- C -*-===//
//
// What the Rust side needs beyond MLIR's own C interface: registration, the
// dialect's types and attributes, the data of elements attributes, and the
// callbacks that verify operations.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mlir-c/IR.h"

extern "C" {

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Hlo, hlo);

/// Verifies an operation; emits its own diagnostics and returns whether the
/// operation is valid. Called from any thread.
typedef bool (*HaloHloVerifyOperation)(MlirOperation operation);

/// Verifies a call against the function it names, which is null when there is
/// none. Otherwise as above.
typedef bool (*HaloHloVerifyCall)(MlirOperation call, MlirOperation callee);

/// Sets the callbacks of the process. Without them every operation is valid.
void haloHloSetVerifiers(HaloHloVerifyOperation operation,
                         HaloHloVerifyCall call);

MlirType haloHloTokenTypeGet(MlirContext context);
bool haloHloTypeIsToken(MlirType type);
MlirType haloHloOpaqueTypeGet(MlirContext context);
bool haloHloTypeIsOpaque(MlirType type);

/// The layout attribute; each parameter may be a null attribute.
MlirAttribute haloHloLayoutGet(MlirContext context, MlirAttribute minorToMajor,
                               MlirAttribute extras, MlirAttribute bounds);
/// The parameters of a layout attribute; false for other attributes.
bool haloHloLayoutGetParameters(MlirAttribute attribute,
                                MlirAttribute parameters[3]);

/// The mapping attribute of a dictionary; its dictionary, null for others.
MlirAttribute haloHloMappingGet(MlirAttribute entries);
MlirAttribute haloHloMappingGetEntries(MlirAttribute attribute);

/// The slices attribute: four numbers an entry (kind of the buffer, its number,
/// first byte, number of bytes).
MlirAttribute haloHloSlicesGet(MlirContext context, const int64_t *fields,
                               intptr_t count);
/// The numbers of a slices attribute; false for other attributes.
bool haloHloSlicesGetFields(MlirAttribute attribute, const int64_t **fields,
                            intptr_t *count);

/// Bytes of a dense or dense-resource elements attribute in MLIR's format: one
/// element for a splat; `i1` packed in bits, but in bytes in a resource. `data` is null when a resource has
/// no data. Returns false when the attribute is of another kind.
bool haloHloElementsGetData(MlirAttribute attribute, const char **data,
                            intptr_t *size, bool *isSplat);

/// A dense-resource elements attribute of a tensor type that stands for a value
/// which was left out: `dense_resource<__elided__>`.
MlirAttribute haloHloElidedElementsGet(MlirType tensor);

} // extern "C"
