//===- Affine.cpp - affine expressions and maps in one call ---------------===//
//
// MLIR's C interface takes a call for each question about an expression.
// `src/affine/ffi.rs` has the other side.
//
//===----------------------------------------------------------------------===//

#include "mlir/CAPI/AffineExpr.h"
#include "mlir/CAPI/AffineMap.h"

using namespace mlir;

extern "C" {

/// The kind of an expression, with its operands, its value or its position.
struct HaloAffineExpr {
  int64_t kind;
  int64_t value;
  MlirAffineExpr left;
  MlirAffineExpr right;
};

HaloAffineExpr haloAffineExprInspect(MlirAffineExpr raw) {
  AffineExpr expr = unwrap(raw);
  HaloAffineExpr result{static_cast<int64_t>(expr.getKind()), 0, {}, {}};
  if (auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expr)) {
    result.left = wrap(binary.getLHS());
    result.right = wrap(binary.getRHS());
  } else if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expr)) {
    result.value = constant.getValue();
  } else if (auto dim = llvm::dyn_cast<AffineDimExpr>(expr)) {
    result.value = dim.getPosition();
  } else {
    result.value = llvm::cast<AffineSymbolExpr>(expr).getPosition();
  }
  return result;
}

/// The results of a map, which live as long as its context.
const void *haloAffineMapGetResults(MlirAffineMap map, intptr_t *count) {
  llvm::ArrayRef<AffineExpr> results = unwrap(map).getResults();
  static_assert(sizeof(AffineExpr) == sizeof(void *));
  *count = results.size();
  return results.data();
}

} // extern "C"
