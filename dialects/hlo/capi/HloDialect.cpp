//===- HloDialect.cpp - the hlo dialect and its C interface ---------------===//
//
// There is no code for single operations here: every verifier forwards to one
// callback, which applies the rules of the operation's Rust definition. The C
// interface is what `src/dialect/ffi.rs` needs beyond MLIR's own.
//
//===----------------------------------------------------------------------===//

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/IR.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include "Hlo_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Hlo_typedef.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Hlo_attrdef.h.inc"

extern "C" {

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Hlo, hlo);

/// Verifies an operation; emits its own diagnostics and returns whether the
/// operation is valid. Called from any thread.
typedef bool (*HaloHloVerifyOperation)(MlirOperation operation);

/// Verifies a call against the function it names, which is null when there is
/// none. Otherwise as above.
typedef bool (*HaloHloVerifyCall)(MlirOperation call, MlirOperation callee);

} // extern "C"

namespace halo::hlo {

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

/// Parses a computation with names of its own. Were its values visible outside,
/// a mistake that comes later could free them before their uses.
static mlir::ParseResult parseComputation(mlir::OpAsmParser &parser,
                                          mlir::Region &region) {
  return parser.parseRegion(region, {}, /*enableNameShadowing=*/true);
}

static void printComputation(mlir::OpAsmPrinter &printer, mlir::Operation *,
                             mlir::Region &region) {
  printer.printRegion(region);
}

using Regions = llvm::SmallVectorImpl<std::unique_ptr<mlir::Region>>;

static mlir::ParseResult parseComputations(mlir::OpAsmParser &parser,
                                           Regions &regions) {
  std::unique_ptr<mlir::Region> region;
  do {
    auto result = parser.parseOptionalRegion(region, {}, true);
    if (!result.has_value())
      return regions.empty() ? mlir::ParseResult::success()
                             : parser.parseLBrace();
    if (failed(*result))
      return llvm::failure();
    regions.push_back(std::move(region));
  } while (succeeded(parser.parseOptionalComma()));
  return llvm::success();
}

static void printComputations(mlir::OpAsmPrinter &printer, mlir::Operation *,
                              llvm::MutableArrayRef<mlir::Region> regions) {
  auto print = [&](mlir::Region &region) { printer.printRegion(region); };
  llvm::interleaveComma(regions, printer, print);
}

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

} // namespace halo::hlo

extern "C" {

/// Sets the callbacks of the process. Without them every operation is valid.
void haloHloSetVerifiers(HaloHloVerifyOperation operation,
                         HaloHloVerifyCall call) {
  halo::hlo::operationVerifier = operation;
  halo::hlo::callVerifier = call;
}

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

/// The layout attribute; each parameter may be a null attribute.
MlirAttribute haloHloLayoutGet(MlirContext context, MlirAttribute minorToMajor,
                               MlirAttribute extras, MlirAttribute bounds) {
  return wrap(LayoutAttr::get(
      unwrap(context),
      llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(unwrap(minorToMajor)),
      llvm::dyn_cast_if_present<mlir::StringAttr>(unwrap(extras)),
      llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(unwrap(bounds))));
}

/// The parameters of a layout attribute; false for other attributes.
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

/// The mapping attribute of a dictionary; its dictionary, null for others.
MlirAttribute haloHloMappingGet(MlirAttribute entries) {
  auto dictionary = llvm::cast<mlir::DictionaryAttr>(unwrap(entries));
  return wrap(MappingAttr::get(dictionary.getContext(), dictionary));
}

MlirAttribute haloHloMappingGetEntries(MlirAttribute attribute) {
  auto mapping = llvm::dyn_cast_if_present<MappingAttr>(unwrap(attribute));
  return wrap(mlir::Attribute(mapping ? mapping.getEntries() : nullptr));
}

/// The slices attribute: four numbers an entry (kind of the buffer, its number,
/// first byte, number of bytes).
MlirAttribute haloHloSlicesGet(MlirContext context, const int64_t *fields,
                               intptr_t count) {
  return wrap(SlicesAttr::get(unwrap(context),
                              llvm::ArrayRef<int64_t>(fields, count)));
}

/// The numbers of a slices attribute; false for other attributes.
bool haloHloSlicesGetFields(MlirAttribute attribute, const int64_t **fields,
                            intptr_t *count) {
  auto slices = llvm::dyn_cast_if_present<SlicesAttr>(unwrap(attribute));
  if (!slices)
    return false;
  *fields = slices.getFields().data();
  *count = slices.getFields().size();
  return true;
}

/// Bytes of a dense or dense-resource elements attribute in MLIR's format: one
/// element for a splat; `i1` packed in bits, but in bytes in a resource. `data`
/// is null when a resource has no data. Returns false for other kinds.
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

/// A dense-resource elements attribute of a tensor type that stands for a value
/// which was left out: `dense_resource<__elided__>`.
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

} // extern "C"
