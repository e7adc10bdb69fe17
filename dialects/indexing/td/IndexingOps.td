//===- IndexingOps.td - the indexing dialect ------------------------------===//
//
// Indexing maps as an attribute, and operations that apply them.
//
//===----------------------------------------------------------------------===//

#ifndef INDEXING_OPS
#define INDEXING_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

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

class Indexing_Op<string mnemonic, list<Trait> traits = []> : Op<Indexing_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::halo::indexing::verifyOperation(getOperation()); }
  }];
}

def Indexing_ApplyOp : Indexing_Op<"apply", [Pure, AttrSizedOperandSegments]> {
  let summary = "results of an indexing map";
  let description = [{
    The map's results for given values of its dimension `()`, range `[]` and run-time `{}` variables, which are in the
    map's domain; elsewhere the results are unspecified.

    ```mlir
    %row, %column = indexing.apply #indexing.map<"(d0)[s0] -> (d0 floordiv 8, d0 mod 8 + s0), domain: d0 in [0, 31], s0 in [0, 2]">
        (%i)[%s] : index, index
    ```
  }];
  let arguments = (ins Indexing_MapAttr:$map, Variadic<Index>:$dims, Variadic<Index>:$ranges,
                       Variadic<Index>:$runtimes);
  let results = (outs Variadic<Index>:$results);
  let assemblyFormat = [{
    qualified($map) `(` $dims `)` (`[` $ranges^ `]`)? (`{` $runtimes^ `}`)? attr-dict-with-keyword (`:` type($results)^)?
  }];
}

def Indexing_LoopOp : Indexing_Op<"loop", [AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "loop over the range variables of an indexing map";
  let description = [{
    Runs the body for all values of the map's range variables, the last one fastest, that satisfy the map's
    constraints for the given dimension `()` and run-time `{}` variables, which are within their bounds. The body's
    arguments are the values of the range variables, the map's results, and the values carried from one execution to
    the next, which begin as `inits` and end as the results.

    ```mlir
    %sum = indexing.loop #indexing.map<"(d0)[s0] -> (d0 + s0 - 1), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [1, 8]">
        (%i) inits(%zero : f32) -> f32 {
    ^bb0(%s0: index, %place: index, %partial: f32):
      %element = memref.load %array[%place] : memref<8xf32>
      %next = arith.addf %partial, %element : f32
      indexing.yield %next : f32
    }
    ```
  }];
  let arguments = (ins Indexing_MapAttr:$map, Variadic<Index>:$dims, Variadic<Index>:$runtimes,
                       Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    qualified($map) `(` $dims `)` (`{` $runtimes^ `}`)? (`inits` `(` $inits^ `:` type($inits) `)`)?
    attr-dict-with-keyword (`->` type($results)^)? $body
  }];
}

def Indexing_YieldOp : Indexing_Op<"yield", [Pure, Terminator, ParentOneOf<["LoopOp"]>]> {
  let summary = "values for the next execution of a loop's body";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

#endif // INDEXING_OPS
