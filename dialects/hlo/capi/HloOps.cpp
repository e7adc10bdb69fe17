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

/// Names of the kinds of buffers by number; the first stands for no place.
static constexpr llvm::StringLiteral bufferNames[] = {
    "none", "arena", "parameter", "constant", "output"};
static constexpr int64_t arenaKind = 1;

mlir::Attribute SlicesAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  llvm::SmallVector<int64_t> fields;
  auto parseSlice = [&]() -> llvm::ParseResult {
    int64_t kind = 0, number = 0, first = 0, size = 0;
    if (llvm::succeeded(parser.parseOptionalLSquare())) {
      llvm::SMLoc start = parser.getCurrentLocation();
      llvm::StringRef name;
      if (parser.parseKeyword(&name))
        return llvm::failure();
      kind = llvm::find(bufferNames, name) - std::begin(bufferNames);
      if (kind < arenaKind || kind == std::size(bufferNames))
        return parser.emitError(start, "`") << name << "` is no kind of buffer";
      if ((kind != arenaKind && parser.parseInteger(number)) ||
          parser.parseComma() || parser.parseInteger(first) ||
          parser.parseColon() || parser.parseInteger(size) ||
          parser.parseRSquare())
        return llvm::failure();
    } else if (parser.parseKeyword(bufferNames[0])) {
      return llvm::failure();
    }
    fields.append({kind, number, first, size});
    return llvm::success();
  };
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::LessGreater,
                                     parseSlice))
    return {};
  return get(parser.getContext(), fields);
}

void SlicesAttr::print(mlir::AsmPrinter &printer) const {
  llvm::ArrayRef<int64_t> fields = getFields();
  printer << '<';
  for (size_t at = 0; at + 4 <= fields.size(); at += 4) {
    int64_t kind = fields[at];
    printer << (at ? ", " : "") << (kind ? "[" : "") << bufferNames[kind];
    if (kind > arenaKind)
      printer << ' ' << fields[at + 1];
    if (kind)
      printer << ", " << fields[at + 2] << " : " << fields[at + 3] << ']';
  }
  printer << '>';
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
