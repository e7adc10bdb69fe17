//===- IndexingDialect.cpp - the indexing dialect and its C interface -----===//
//
// Generated code, and a callback into Rust for all that concerns maps.
//
//===----------------------------------------------------------------------===//

#include "IndexingDialect.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "Indexing_dialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Indexing_attrdef.h.inc"

#include "Indexing_dialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Indexing_attrdef.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Indexing, indexing,
                                      halo::indexing::IndexingDialect)

namespace halo::indexing {

void IndexingDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Indexing_attrdef.cpp.inc"
      >();
}

static HaloIndexingNormalizeMap normalizeMap = nullptr;

/// The text as maps are printed, or in `message` what is wrong with it.
static bool normalize(llvm::StringRef text, std::string &result) {
  auto append = [](MlirStringRef part, void *result) {
    static_cast<std::string *>(result)->append(part.data, part.length);
  };
  return normalizeMap && normalizeMap(wrap(text), append, &result);
}

mlir::Attribute MapAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  std::string text, result;
  if (parser.parseLess())
    return {};
  llvm::SMLoc location = parser.getCurrentLocation();
  if (parser.parseString(&text) || parser.parseGreater())
    return {};
  if (!normalize(text, result)) {
    parser.emitError(location, "not an indexing map: ") << result;
    return {};
  }
  return get(parser.getContext(), result);
}

void MapAttr::print(mlir::AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getText());
  printer << ">";
}

llvm::LogicalResult
MapAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                llvm::StringRef text) {
  std::string result;
  if (normalize(text, result))
    return llvm::success();
  return emitError() << "not an indexing map: " << result;
}

} // namespace halo::indexing

void haloIndexingSetNormalizeMap(HaloIndexingNormalizeMap normalize) {
  halo::indexing::normalizeMap = normalize;
}

MlirAttribute haloIndexingMapGet(MlirContext context, MlirStringRef text) {
  return wrap(halo::indexing::MapAttr::get(unwrap(context), unwrap(text)));
}

bool haloIndexingAttributeIsMap(MlirAttribute attribute) {
  return llvm::isa_and_present<halo::indexing::MapAttr>(unwrap(attribute));
}

MlirStringRef haloIndexingMapGetText(MlirAttribute map) {
  return wrap(llvm::cast<halo::indexing::MapAttr>(unwrap(map)).getText());
}
