//===- HloDialect.td - the hlo dialect ------------------------------------===//
//
// The dialect, its types and its attributes. The operations are in the files
// that HloOps.td includes.
//
//===----------------------------------------------------------------------===//

#ifndef HLO_DIALECT
#define HLO_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/DialectBase.td"

def Hlo_Dialect : Dialect {
  let name = "hlo";
  let cppNamespace = "::halo::hlo";
  let summary = "XLA's array language HLO";
  let description = [{
    HLO describes computations on dense arrays. A program is a set of pure functions; each operation has exactly
    one result: an array (`tensor`), a tuple of values (`tuple`), an ordering token (`!hlo.token`) or an opaque
    handle (`!hlo.opaque`).

    The entry computation and the callees of `hlo.call` are `func.func`; the entry is `@main`. Computations that
    an operation applies (`reduce`, `while`, `sort`, `fusion`, ...) are its regions: one block that captures
    nothing and ends in `hlo.return`.

    Element types: `pred` is `i1`, `sN` is `iN`, `uN` is `uiN`; floating-point and complex types are MLIR's own.
    A layout other than the default and bounds of dynamic dimensions are the tensor's encoding, `#hlo.layout`.

    Attributes carry their names in HLO text. The name of an instruction and its `metadata` are its location;
    what is carried without being interpreted (`sharding`, `backend_config`, ...) is the discardable dictionary
    `hlo.annotations`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class Hlo_Type<string name, string typeMnemonic> : TypeDef<Hlo_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Hlo_TokenType : Hlo_Type<"Token", "token"> {
  let summary = "ordering token";
  let description = [{
    A value without data. Operations with side effects take and return tokens; data flow between tokens orders them.
  }];
}

def Hlo_OpaqueType : Hlo_Type<"Opaque", "opaque"> {
  let summary = "value that only custom calls understand";
}

def Hlo_Tuple : Type<CPred<"::llvm::isa<::mlir::TupleType>($_self)">, "tuple of values", "::mlir::TupleType">;

def Hlo_Array : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "array", "::mlir::RankedTensorType">;

def Hlo_Value : AnyTypeOf<[Hlo_Array, Hlo_Tuple, Hlo_TokenType, Hlo_OpaqueType], "array, tuple, token or opaque value">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Hlo_LayoutAttr : AttrDef<Hlo_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "physical order and dynamic bounds of an array";
  let description = [{
    Encoding of a `tensor` type whose layout is not the module's default, or which has bounded dynamic dimensions.

    `minor_to_major` lists the dimensions from the fastest varying to the slowest; absent, the array has no layout.
    `extras` is the text after the colon of an HLO layout (tiles, memory space). `bounds` has one entry per
    dimension: the upper bound of a dynamic one, and its size otherwise.
  }];
  let parameters = (ins
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$minor_to_major,
    OptionalParameter<"::mlir::StringAttr">:$extras,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$bounds
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Hlo_SlicesAttr : AttrDef<Hlo_Dialect, "Slices"> {
  let mnemonic = "slices";
  let summary = "where the arrays of a value live while the program runs";
  let description = [{
    One entry for each leaf of a value that may be a tuple: the buffer, and the first byte and the number of bytes in
    it. Buffers are the arena of temporary values, the leaves of the parameters and of the result, and constants, each
    with its number: `#hlo.slices<[arena, 64 : 16], [parameter 2, 0 : 16]>`. `none` is a leaf without a place.
  }];
  // Four numbers an entry: the kind of the buffer, its number, the first byte, the number of bytes.
  let parameters = (ins ArrayRefParameter<"int64_t">:$fields);
  let hasCustomAssemblyFormat = 1;
}

def Hlo_MappingAttr : AttrDef<Hlo_Dialect, "Mapping"> {
  let mnemonic = "mapping";
  let summary = "how the work of a kernel is divided";
  let description = [{
    `map` is the indexing map from a work item to the index of the element that it computes. Its dimension variables are
    the dimensions of the work, from the outermost; a work item that computes several elements has range variables.
    For each dimension, `kinds` says who goes through its positions: `sequential` (one thread), `parallel` (threads, each
    with `tiles` iterations at once and all positions of the dimensions around), `scan` (one thread, each position, or
    vector, takes over what the one before it has accumulated), `threads` (of a GPU, in blocks of `tiles`). `lanes` are the
    positions that are taken at once as a vector;
    `cuts`, where there are any, those at which a loop ends and the next one begins. The last vector of a row may `overlap`
    the one before it. `inner_lanes` are those of vectors that one element is computed with, as in a reduction.
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$entries);
  let assemblyFormat = "`<` $entries `>`";
}

class Hlo_Structure<string text> : DictionaryAttrBase<CPred<"::llvm::isa<::mlir::DictionaryAttr>($_self)">, text>;

def Hlo_Window : Hlo_Structure<
  "window: `size`, and where they are not the default `stride`, `padding_low`, `padding_high`, `window_dilation`, "
  "`base_dilation`, `reversal`, one entry per dimension">;
def Hlo_Slice : Hlo_Structure<"slice: `start`, `limit` and `stride`, one entry per dimension">;
def Hlo_Padding : Hlo_Structure<"padding: `low`, `high` and `interior`, one entry per dimension">;
def Hlo_ConvolutionDimensions : Hlo_Structure<
  "dimension numbers of a convolution: `batch`, `feature` and `spatial` of `input` and `output`, "
  "`input_feature`, `output_feature` and `spatial` of `kernel`">;
def Hlo_ReplicaGroups : AnyAttrOf<[ArrayAttr, DictionaryAttr],
  "replica groups: a list of groups, or `dimensions`, `reshape` and `transpose` of an iota, or `axes` and `sizes` of a mesh "
  "and the axes that are `grouped`">;

#endif // HLO_DIALECT
