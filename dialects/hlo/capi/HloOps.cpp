//===- HloOps.cpp - the hlo dialect's generated code ----------------------===//
//
// There is no code for single operations here: every verifier forwards to one
// callback, which applies the rules of the operation's Rust definition.
//
//===----------------------------------------------------------------------===//

#include "HloDialect.h"
#include "HloTypes.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
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

void haloHloSetVerifiers(HaloHloVerifyOperation operation,
                         HaloHloVerifyCall call) {
  halo::hlo::operationVerifier = operation;
  halo::hlo::callVerifier = call;
}
