//===- HloDialect.cpp - C interface to the hlo dialect --------------------===//

#include "HloDialect.h"
#include "HloTypes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Hlo, hlo, halo::hlo::HloDialect)

using halo::hlo::LayoutAttr;
using halo::hlo::MappingAttr;
using halo::hlo::OpaqueType;
using halo::hlo::SlicesAttr;
using halo::hlo::TokenType;

MlirType haloHloTokenTypeGet(MlirContext context) {
  return wrap(TokenType::get(unwrap(context)));
}

bool haloHloTypeIsToken(MlirType type) {
  return llvm::isa<TokenType>(unwrap(type));
}

MlirType haloHloOpaqueTypeGet(MlirContext context) {
  return wrap(OpaqueType::get(unwrap(context)));
}

bool haloHloTypeIsOpaque(MlirType type) {
  return llvm::isa<OpaqueType>(unwrap(type));
}

MlirAttribute haloHloLayoutGet(MlirContext context, MlirAttribute minorToMajor,
                               MlirAttribute extras, MlirAttribute bounds) {
  return wrap(LayoutAttr::get(
      unwrap(context),
      llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(unwrap(minorToMajor)),
      llvm::dyn_cast_if_present<mlir::StringAttr>(unwrap(extras)),
      llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(unwrap(bounds))));
}

bool haloHloLayoutGetParameters(MlirAttribute attribute,
                                MlirAttribute parameters[3]) {
  auto layout = llvm::dyn_cast_if_present<LayoutAttr>(unwrap(attribute));
  if (!layout)
    return false;
  parameters[0] = wrap(mlir::Attribute(layout.getMinorToMajor()));
  parameters[1] = wrap(mlir::Attribute(layout.getExtras()));
  parameters[2] = wrap(mlir::Attribute(layout.getBounds()));
  return true;
}

MlirAttribute haloHloMappingGet(MlirAttribute entries) {
  auto dictionary = llvm::cast<mlir::DictionaryAttr>(unwrap(entries));
  return wrap(MappingAttr::get(dictionary.getContext(), dictionary));
}

MlirAttribute haloHloMappingGetEntries(MlirAttribute attribute) {
  auto mapping = llvm::dyn_cast_if_present<MappingAttr>(unwrap(attribute));
  return wrap(mlir::Attribute(mapping ? mapping.getEntries() : nullptr));
}

MlirAttribute haloHloSlicesGet(MlirContext context, const int64_t *fields,
                               intptr_t count) {
  return wrap(SlicesAttr::get(unwrap(context),
                              llvm::ArrayRef<int64_t>(fields, count)));
}

bool haloHloSlicesGetFields(MlirAttribute attribute, const int64_t **fields,
                            intptr_t *count) {
  auto slices = llvm::dyn_cast_if_present<SlicesAttr>(unwrap(attribute));
  if (!slices)
    return false;
  *fields = slices.getFields().data();
  *count = slices.getFields().size();
  return true;
}

bool haloHloElementsGetData(MlirAttribute attribute, const char **data,
                            intptr_t *size, bool *isSplat) {
  llvm::ArrayRef<char> bytes;
  *isSplat = false;
  mlir::Attribute elements = unwrap(attribute);
  if (auto dense = llvm::dyn_cast<mlir::DenseIntOrFPElementsAttr>(elements)) {
    bytes = dense.getRawData();
    *isSplat = dense.isSplat();
  } else if (auto resource =
                 llvm::dyn_cast<mlir::DenseResourceElementsAttr>(elements)) {
    mlir::AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (blob)
      bytes = blob->getData();
  } else {
    return false;
  }
  *data = bytes.data();
  *size = bytes.size();
  return true;
}

MlirAttribute haloHloElidedElementsGet(MlirType tensor) {
  auto type = llvm::cast<mlir::ShapedType>(unwrap(tensor));
  auto &interface = mlir::DenseResourceElementsHandle::getManagerInterface(
      type.getContext());
  using Handle = mlir::DenseResourceElementsHandle;
  auto *dialect = llvm::cast<mlir::BuiltinDialect>(interface.getDialect());
  auto &manager = interface.getBlobManager();
  auto *entry = manager.lookup("__elided__");
  Handle handle = entry ? Handle(entry, dialect)
                        : manager.insert<Handle>(dialect, "__elided__");
  return wrap(mlir::DenseResourceElementsAttr::get(type, handle));
}
