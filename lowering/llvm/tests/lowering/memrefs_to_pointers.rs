//! `memrefs-to-pointers` on hand-written functions.

use lowering_llvm::{LoweringOptions, cpu::lower_to_llvm_dialect, memrefs_to_pointers};
use melior::ir::operation::OperationLike;
use mlir_ext::operations::parse_module as parse;

use super::upstream_context;

/// The module after the pass, which is valid, and goes on to the LLVM dialect.
fn lowered(text: &str) -> String {
    let context = upstream_context();
    let module = parse(&context, text).unwrap();
    memrefs_to_pointers::run(module.as_operation()).unwrap();
    assert!(module.as_operation().verify(), "{}", module.as_operation());
    let printed = module.as_operation().to_string();
    lower_to_llvm_dialect(&module, LoweringOptions { verify: true }).unwrap();
    printed
}

#[test]
fn every_access_becomes_one_of_llvm() {
    let text = lowered(
        "func.func private @f(%a: memref<4x8xf32>, %i: index, %mask: vector<8xi1>, %v: vector<8xf32>, %at: vector<8xi32>) {
          %0 = memref.load %a[%i, %i] : memref<4x8xf32>
          %stack = memref.alloca() {alignment = 64 : i64} : memref<16xf32>
          memref.store %0, %stack[%i] : memref<16xf32>
          memref.prefetch %a[%i, %i], read, locality<2>, data : memref<4x8xf32>
          %1 = vector.load %a[%i, %i] : memref<4x8xf32>, vector<8xf32>
          vector.store %1, %a[%i, %i] : memref<4x8xf32>, vector<8xf32>
          vector.maskedstore %stack[%i], %mask, %v : memref<16xf32>, vector<8xi1>, vector<8xf32>
          %2 = vector.maskedload %stack[%i], %mask, %v : memref<16xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
          %3 = vector.gather %stack[%i] [%at], %mask, %2 : memref<16xf32>, vector<8xi32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
          %flat = memref.reinterpret_cast %a to offset: [0], sizes: [32], strides: [1] : memref<4x8xf32> to memref<32xf32>
          vector.store %3, %flat[%i] : memref<32xf32>, vector<8xf32>
          %bytes = memref.alloca() : memref<512xi8>
          %c64 = arith.constant 64 : index
          %view = memref.view %bytes[%c64][] : memref<512xi8> to memref<4x8xf32>
          memref.copy %a, %view : memref<4x8xf32> to memref<4x8xf32>
          %address = memref.extract_aligned_pointer_as_index %view : memref<4x8xf32> -> index
          %table = memref.alloca() : memref<5xindex>
          memref.store %address, %table[%i] : memref<5xindex>
          return
        }",
    );
    for absent in ["memref", "index", "vector.load", "vector.store", "vector.gather"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    for expected in [
        "func.func private @f(%arg0: !llvm.ptr, %arg1: i64,",
        "llvm.load %",
        "alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>",
        "llvm.intr.masked.store",
        "llvm.intr.masked.load",
        "llvm.intr.masked.gather",
        "!llvm.ptr, i8",
        "llvm.intr.memcpy",
        "llvm.intr.prefetch",
        "llvm.ptrtoint",
        "x i64 : (i64) -> !llvm.ptr",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn what_is_constant_of_an_index_comes_last() {
    let text = lowered(
        "func.func private @f(%a: memref<4x8xf32>, %i: index) {
          %one = arith.constant 1 : index
          %next = arith.addi %i, %one : index
          %0 = memref.load %a[%next, %i] : memref<4x8xf32>
          %1 = memref.load %a[%one, %one] : memref<4x8xf32>
          memref.store %0, %a[%i, %next] : memref<4x8xf32>
          memref.store %1, %a[%i, %i] : memref<4x8xf32>
          return
        }",
    );
    for (offset, times) in [("c8_i64", 1), ("c9_i64", 1), ("c1_i64", 1)] {
        assert_eq!(text.matches(&format!("[%{offset}] : (!llvm.ptr, i64)")).count(), times, "{offset} in {text}");
    }
    // The rest is the index of the element at which the second store is.
    assert_eq!(text.matches("llvm.add").count(), 3, "{text}");
}

#[test]
fn a_constant_is_defined_once_at_the_beginning() {
    let text = lowered(
        "func.func private @f(%a: memref<4x8xf32>) {
          %from = arith.constant 0 : index
          %to = arith.constant 8 : index
          %step = arith.constant 1 : index
          scf.for %i = %from to %to step %step {
            %three = arith.constant 3 : index
            %one = arith.constant 1 : index
            %v = memref.load %a[%three, %i] : memref<4x8xf32>
            memref.store %v, %a[%one, %i] : memref<4x8xf32>
          }
          return
        }",
    );
    let (before, body) = text.split_once("scf.for").unwrap();
    // Those of the program, and the distance of the row read.
    assert_eq!(before.matches("arith.constant").count(), 5, "{text}");
    assert!(!body.contains("arith.constant"), "{text}");
    assert!(body.contains(": i64 {"), "{text}");
}

#[test]
fn casts_of_indices_are_those_of_integers() {
    let text = lowered(
        "func.func private @f(%i: index, %n: i32) -> (i64, i32, index, index) {
          %0 = arith.index_cast %i : index to i64
          %1 = arith.index_cast %i : index to i32
          %2 = arith.index_cast %n : i32 to index
          %3 = arith.index_castui %n : i32 to index
          return %0, %1, %2, %3 : i64, i32, index, index
        }",
    );
    assert!(text.contains("return %arg0,") && !text.contains("index"), "{text}");
    for expected in ["arith.trunci %arg0", "arith.extsi %arg1", "arith.extui %arg1"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn functions_are_called_with_pointers() {
    let text = lowered(
        "func.func private @g(%a: memref<4xf32>, %i: index) { return }
         func.func @f(%a: memref<4xf32>, %i: index) -> !llvm.ptr {
          func.call @g(%a, %i) : (memref<4xf32>, index) -> ()
          %g = func.constant @g : (memref<4xf32>, index) -> ()
          %pointer = builtin.unrealized_conversion_cast %g : (memref<4xf32>, index) -> () to !llvm.ptr
          scf.index_switch %i
          case 1 { func.call @g(%a, %i) : (memref<4xf32>, index) -> () scf.yield }
          default { scf.yield }
          return %pointer : !llvm.ptr
        }",
    );
    assert!(text.contains("call @g(%arg0, %arg1) : (!llvm.ptr, i64) -> ()"), "{text}");
    assert!(text.contains("constant @g : (!llvm.ptr, i64) -> ()"), "{text}");
}

#[test]
fn other_uses_of_memrefs_are_left_to_mlir() {
    for text in [
        "func.func private @f(%a: memref<?xf32>, %i: index) -> f32 {
          %0 = memref.load %a[%i] : memref<?xf32>
          return %0 : f32
        }",
        "func.func private @f(%i: index) -> f32 {
          %a = memref.alloc() : memref<4xf32>
          %0 = memref.load %a[%i] : memref<4xf32>
          return %0 : f32
        }",
    ] {
        let context = upstream_context();
        let module = parse(&context, text).unwrap();
        let before = module.as_operation().to_string();
        assert_eq!(memrefs_to_pointers::run(module.as_operation()), Ok(0));
        assert_eq!(module.as_operation().to_string(), before);
    }
}
