//===- HloTypes.h - the dialect's C++ classes -------------------*- C++ -*-===//
//
// Generated declarations but for the operations, whose classes only
// HloOps.cpp needs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Types.h"

#include "Hlo_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Hlo_typedef.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Hlo_attrdef.h.inc"
