//===- HloOpBase.td - base classes of the hlo operations ------------------===//
//
// One ladder: Hlo_Op, with the verifier that all operations share, then pure
// operations, unary and binary ones, and operations with computations.
//
//===----------------------------------------------------------------------===//

#ifndef HLO_OP_BASE
#define HLO_OP_BASE

include "HloDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// An operation. Its rules are those of the Rust definition of the same name, which the verifier calls.
class Hlo_Op<string mnemonic, list<Trait> traits = []> : Op<Hlo_Dialect, mnemonic, traits> {
  let results = (outs Hlo_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::halo::hlo::verifyOperation(getOperation()); }
  }];
}

// An operation without effects: it may be removed, merged and moved.
class Hlo_PureOp<string mnemonic, list<Trait> traits = []> : Hlo_Op<mnemonic, [Pure] # traits>;

// Applies a function of one element to each element.
class Hlo_UnaryOp<string mnemonic> : Hlo_PureOp<mnemonic> {
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<StrAttr>:$result_accuracy);
}

// Applies a function of two elements to each pair of elements.
class Hlo_BinaryOp<string mnemonic, list<Trait> traits = []> : Hlo_PureOp<mnemonic, traits> {
  let arguments = (ins Hlo_Value:$lhs, Hlo_Value:$rhs);
}

class Hlo_CommutativeOp<string mnemonic> : Hlo_BinaryOp<mnemonic, [Commutative]>;

// A computation that an operation applies: one block, captures nothing, ends in hlo.return.
def Hlo_Computation : SizedRegion<1>;

// An operation with computations, which `computations` parses and prints. It has the effects of the operations in them.
class Hlo_RegionOp<string mnemonic, list<Trait> traits = [RecursiveMemoryEffects],
                   string computations = "custom<Computation>($to_apply)">
    : Hlo_Op<mnemonic, [IsolatedFromAbove, SingleBlock] # traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) " # computations;
}

#endif // HLO_OP_BASE
