//===- IndexingDialect.td - the indexing dialect --------------------------===//
//
// Indexing maps as an attribute.
//
//===----------------------------------------------------------------------===//

#ifndef INDEXING_DIALECT
#define INDEXING_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Indexing_Dialect : Dialect {
  let name = "indexing";
  let cppNamespace = "::halo::indexing";
  let summary = "symbolic maps between the elements of arrays";
  let description = [{
    An indexing map is a function from dimension variables (an index of one array), range variables (all of whose
    values are needed) and run-time variables (values of the program) to indices of another array, with a domain:
    bounds of the variables and constraints `expression in [lower, upper]`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Indexing_MapAttr : AttrDef<Indexing_Dialect, "Map"> {
  let mnemonic = "map";
  let summary = "indexing map";
  let description = [{
    The map in the text form of the document "Indexing analysis", e.g.
    `#indexing.map<"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]">`. The text is read and printed
    again when the attribute is parsed, so that equal maps are equal attributes whatever their spacing.
  }];
  let parameters = (ins StringRefParameter<"text form">:$text);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // INDEXING_DIALECT
