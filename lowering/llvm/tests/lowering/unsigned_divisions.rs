//! `unsigned-divisions` on hand-written loops.

use lowering_llvm::{LoweringOptions, cpu::lower_to_llvm_dialect, unsigned_divisions};
use melior::ir::operation::OperationLike;
use mlir_ext::operations::parse_module as parse;

use super::upstream_context;

/// The module after the pass, which is valid, and goes on to the LLVM dialect.
fn lowered(text: &str) -> String {
    let context = upstream_context();
    let module = parse(&context, text).unwrap();
    unsigned_divisions::run(module.as_operation()).unwrap();
    assert!(module.as_operation().verify(), "{}", module.as_operation());
    let printed = module.as_operation().to_string();
    lower_to_llvm_dialect(&module, LoweringOptions { verify: true }).unwrap();
    printed
}

#[test]
fn dividends_from_zero_are_divided_unsigned() {
    let text = lowered(
        "func.func @f(%m: memref<16x100xf32>) {
          affine.for %i = 0 to 1600 {
            %v = affine.load %m[%i floordiv 100, %i mod 100] : memref<16x100xf32>
            affine.store %v, %m[%i mod 16, %i floordiv 16] : memref<16x100xf32>
          }
          return
        }",
    );
    for expected in
        ["affine.for", "arith.divui", "arith.remui", "arith.shrui", "arith.andi", "memref.load", "memref.store"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("floordiv") && !text.contains(" mod "), "{text}");
}

#[test]
fn negative_dividends_are_moved_up_and_unknown_ones_are_left() {
    let text = lowered(
        "func.func @f(%m: memref<100xf32>, %n: index) {
          affine.for %i = -20 to 20 {
            %v = affine.load %m[(%i - 1) floordiv 7 + 10] : memref<100xf32>
            affine.store %v, %m[(%i + 20) ceildiv 8] : memref<100xf32>
            %w = affine.load %m[(%i + symbol(%n)) mod 100] : memref<100xf32>
            affine.store %w, %m[%i + 20] : memref<100xf32>
          }
          return
        }",
    );
    // -21 floordiv 7 is -3: the dividend is moved up by 3 * 7.
    assert!(text.contains("arith.constant 21") && text.contains("arith.divui"), "{text}");
    assert!(text.contains("mod 100"), "{text}");
}

#[test]
fn whatever_uses_a_quotient_is_no_affine_operation_any_more() {
    let text = lowered(
        "func.func @f(%m: memref<64xf32>, %zero: f32) {
          affine.for %i = 0 to 32 {
            %q = affine.apply affine_map<(d0) -> (d0 floordiv 5)>(%i)
            %s = affine.for %j = affine_map<(d0) -> (d0)>(%q) to min affine_map<(d0) -> (d0 + 10, 12)>(%q) iter_args(%acc = %zero) -> f32 {
              %v = affine.load %m[%j + 1] : memref<64xf32>
              %t = affine.if affine_set<(d0) : (d0 - 3 >= 0)>(%q) -> f32 {
                %x = affine.load %m[%q] : memref<64xf32>
                affine.yield %x : f32
              } else {
                affine.yield %v : f32
              }
              %next = arith.addf %acc, %t : f32
              affine.yield %next : f32
            }
            affine.store %s, %m[%i] : memref<64xf32>
          }
          return
        }",
    );
    assert_eq!(text.matches("affine.for").count(), 1, "{text}");
    for expected in ["scf.for", "scf.if", "arith.minsi", "affine.store"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("affine.load") && !text.contains("affine.if"), "{text}");
}
