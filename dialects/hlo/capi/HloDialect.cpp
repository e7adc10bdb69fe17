//===- HloDialect.cpp - the hlo dialect and its C interface ---------------===//
//
// There is no code for single operations here: every verifier forwards to one
// callback, which applies the rules of the operation's Rust definition.
//
//===----------------------------------------------------------------------===//

#include "HloDialect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace halo::hlo {

/// What the generated verifiers call.
static llvm::LogicalResult verifyOperation(mlir::Operation *operation);
static llvm::LogicalResult verifyCall(mlir::Operation *call,
                                      mlir::FlatSymbolRefAttr callee,
                                      mlir::SymbolTableCollection &symbols);

} // namespace halo::hlo

#include "Hlo_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Hlo_typedef.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Hlo_attrdef.h.inc"
#define GET_OP_CLASSES
#include "Hlo_op.h.inc"

#include "Hlo_dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Hlo_typedef.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Hlo_attrdef.cpp.inc"
#define GET_OP_CLASSES
#include "Hlo_op.cpp.inc"

namespace halo::hlo {

void HloDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "Hlo_typedef.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Hlo_attrdef.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Hlo_op.cpp.inc"
      >();
}

static HaloHloVerifyOperation operationVerifier = nullptr;
static HaloHloVerifyCall callVerifier = nullptr;

static llvm::LogicalResult verifyOperation(mlir::Operation *operation) {
  return llvm::success(!operationVerifier ||
                       operationVerifier(wrap(operation)));
}

static llvm::LogicalResult verifyCall(mlir::Operation *call,
                                      mlir::FlatSymbolRefAttr callee,
                                      mlir::SymbolTableCollection &symbols) {
  mlir::Operation *function = symbols.lookupNearestSymbolFrom(call, callee);
  return llvm::success(!callVerifier ||
                       callVerifier(wrap(call), wrap(function)));
}

} // namespace halo::hlo

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Hlo, hlo, halo::hlo::HloDialect)

using halo::hlo::LayoutAttr;
using halo::hlo::OpaqueType;
using halo::hlo::TokenType;

void haloHloSetVerifiers(HaloHloVerifyOperation operation,
                         HaloHloVerifyCall call) {
  halo::hlo::operationVerifier = operation;
  halo::hlo::callVerifier = call;
}

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

bool haloHloAttributeIsLayout(MlirAttribute attribute) {
  return llvm::isa_and_present<LayoutAttr>(unwrap(attribute));
}

MlirAttribute haloHloLayoutGetMinorToMajor(MlirAttribute layout) {
  mlir::Attribute order =
      llvm::cast<LayoutAttr>(unwrap(layout)).getMinorToMajor();
  return wrap(order);
}

MlirAttribute haloHloLayoutGetExtras(MlirAttribute layout) {
  mlir::Attribute extras = llvm::cast<LayoutAttr>(unwrap(layout)).getExtras();
  return wrap(extras);
}

MlirAttribute haloHloLayoutGetBounds(MlirAttribute layout) {
  mlir::Attribute bounds = llvm::cast<LayoutAttr>(unwrap(layout)).getBounds();
  return wrap(bounds);
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
