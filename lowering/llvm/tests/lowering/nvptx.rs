//! Hand-written kernels to PTX, and through NVIDIA's assembler where there is one.

use lowering_llvm::nvptx::{compile_to_ptx, generate, lower_to_nvvm_dialect};
use lowering_llvm::{CodeGenerationOptions, LoweringOptions, Target, ptxas};
use mlir_ext::operations::parse_module as parse;

use super::upstream_context;

const KERNELS: &str = "
gpu.module @kernels {
  gpu.func @scale_shift(%x: memref<1024xf32>, %y: memref<1024xf32>, %a: f32) kernel
      attributes {gpu.known_block_size = array<i32: 256, 1, 1>} {
    %block = gpu.block_id x
    %thread = gpu.thread_id x
    %size = gpu.block_dim x
    %first = arith.muli %block, %size : index
    %i = arith.addi %first, %thread : index
    %v = memref.load %x[%i] : memref<1024xf32>
    %fused = math.fma %v, %a, %a : f32
    %root = math.sqrt %fused : f32
    %w = math.roundeven %root : f32
    memref.store %w, %y[%i] : memref<1024xf32>
    gpu.return
  }
  gpu.func @row_sums(%x: memref<32x128xf32>, %y: memref<32xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %row = gpu.thread_id x
    %sum = scf.for %j = %c0 to %c128 step %c4 iter_args(%acc = %zero) -> vector<4xf32> {
      %v = vector.load %x[%row, %j] {alignment = 16} : memref<32x128xf32>, vector<4xf32>
      %s = arith.addf %acc, %v : vector<4xf32>
      scf.yield %s : vector<4xf32>
    }
    %total = vector.reduction <add>, %sum fastmath<reassoc> : vector<4xf32> into f32
    memref.store %total, %y[%row] : memref<32xf32>
    gpu.return
  }
}";

#[test]
fn kernels_become_ptx_that_assembles() {
    let context = upstream_context();
    let module = parse(&context, KERNELS).unwrap();
    let target = Target::nvptx("sm_90", "+ptx80");
    let ptx = compile_to_ptx(&module, &target, LoweringOptions { verify: true }).unwrap();
    println!("{}\n{}", ptx.text, ptx.timings);
    assert!(ptx.text.contains(".target sm_90"));
    assert!(ptx.text.contains(".visible .entry scale_shift("));
    assert!(ptx.text.contains("fma.rn.f32"));
    assert!(ptx.text.contains("sqrt.rn.f32"));
    assert!(ptx.text.contains("cvt.rni.f32.f32"));
    assert!(ptx.text.contains("ld.global.v4"), "aligned vectors are loaded whole");
    assert!(ptx.text.contains("ld.global.b32"), "kernel arguments point to global memory");
    match ptxas::assemble(&ptx.text, "sm_90").unwrap() {
        Some(binary) => assert!(binary.starts_with(b"\x7fELF")),
        None => println!("skipped: no ptxas on the path or in HALO_PTXAS"),
    }
}

/// The one kernel that is written in PTX, of the runtime.
#[test]
fn the_kernel_that_sets_conditions_assembles() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/cuda/src/set_condition.ptx");
    let ptx = std::fs::read_to_string(path).unwrap();
    for gpu in ["sm_80", "sm_90a"] {
        match ptxas::assemble(&ptx, gpu).unwrap() {
            Some(binary) => assert!(binary.starts_with(b"\x7fELF")),
            None => println!("skipped: no ptxas on the path or in HALO_PTXAS"),
        }
    }
}

/// Kernels that share functions, memory and constants with nobody, with some others, or with all.
fn many_kernels() -> String {
    let kernel = |number: usize| {
        let helper = number % 2;
        format!(
            "gpu.func @kernel_{number}(%x: memref<64xf32>) workgroup(%small: memref<32xf32, 3>, %large: memref<16384xf32, 3>)
                 kernel {{
               %i = gpu.thread_id x
               %v = memref.load %x[%i] : memref<64xf32>
               %w = func.call @helper_{helper}(%v) : (f32) -> f32
               %magnitude = math.absf %w : f32
               memref.store %magnitude, %large[%i] : memref<16384xf32, 3>
               memref.store %v, %small[%i] : memref<32xf32, 3>
               gpu.barrier
               %a = memref.load %large[%i] : memref<16384xf32, 3>
               %b = memref.load %small[%i] : memref<32xf32, 3>
               %sum = arith.addf %a, %b : f32
               memref.store %sum, %x[%i] : memref<64xf32>
               gpu.return
             }}"
        )
    };
    let helpers = (0..2).map(|number| {
        format!(
            "func.func private @helper_{number}(%x: f32) -> f32 attributes {{no_inline}} {{
               %c = arith.constant {number}.5 : f32
               %y = arith.mulf %x, %c : f32
               return %y : f32
             }}"
        )
    });
    let functions: Vec<String> = helpers.chain((0..9).map(kernel)).collect();
    format!("gpu.module @kernels {{ {} }}", functions.join("\n"))
}

#[test]
fn kernels_in_parts_are_one_text_whatever_the_threads() {
    let context = upstream_context();
    let target = Target::nvptx("sm_90", "+ptx80");
    let made = |threads, operations_per_shard| {
        let module = parse(&context, &many_kernels()).unwrap();
        lower_to_nvvm_dialect(&module, LoweringOptions { verify: true }).unwrap();
        let options = CodeGenerationOptions { threads, verify: true, operations_per_shard };
        generate(&module, &target, options).unwrap().text
    };
    let (whole, parts) = (made(1, usize::MAX), made(1, 10));
    assert_eq!(parts, made(4, 10));
    assert_ne!(parts, whole, "there are parts");
    let sorted = |text: &str, start: &str| {
        let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with(start)).map(str::to_string).collect();
        lines.sort();
        lines
    };
    for (start, number) in [(".version", 1), (".target", 1), (".visible .entry", 9), (".extern .shared", 1)] {
        assert_eq!(sorted(&parts, start).len(), number, "{parts}");
        assert_eq!(sorted(&parts, start), sorted(&whole, start));
    }
    let size = |text: &str| text.lines().filter(|line| line.starts_with('\t')).count();
    assert_eq!(size(&parts), size(&whole), "no code is in it twice");
    if ptxas::assemble(&parts, "sm_90").unwrap().is_none() {
        println!("skipped: no ptxas on the path or in HALO_PTXAS");
    }
}

#[test]
fn a_module_without_kernels_is_refused() {
    let context = upstream_context();
    let module = parse(&context, "func.func @f() { return }").unwrap();
    let target = Target::nvptx("sm_90", "+ptx80");
    let error = compile_to_ptx(&module, &target, LoweringOptions::default()).unwrap_err();
    assert_eq!(error, lowering_llvm::Error::NoGpuModule);
}

#[test]
fn math_without_an_instruction_is_refused() {
    let context = upstream_context();
    let kernel = "gpu.module @kernels { gpu.func @f(%x: memref<1xf32>) kernel {
        %i = arith.constant 0 : index
        %v = memref.load %x[%i] : memref<1xf32>
        %w = math.exp %v : f32
        memref.store %w, %x[%i] : memref<1xf32>
        gpu.return
    } }";
    let module = parse(&context, kernel).unwrap();
    let target = Target::nvptx("sm_90", "+ptx80");
    let error = compile_to_ptx(&module, &target, LoweringOptions::default()).unwrap_err();
    assert!(error.to_string().contains("__nv_expf"), "{error}");
}

#[test]
fn the_assembler_reports_bad_ptx() {
    if ptxas::find().is_none() {
        println!("skipped: no ptxas on the path or in HALO_PTXAS");
        return;
    }
    assert!(ptxas::assemble(".version 8.0\n.target sm_90\nnonsense", "sm_90").is_err());
}
